/*
 * trials.c - which way of averaging makes steps shortest? What overlap costs and gains, and what other layouts of
 * buckets would, is measured now and then; where steps are shorter another way, they go that way.
 *
 * Called by the issuer at boundaries. In a trial (bucketing/trial.h) steps go the present way and others in turn: the
 * first one has steps with overlap and without it, the second one all layouts (layouts.c). Later trials have one way
 * each. Which step goes which way follows from the group's boundaries, which all ranks count alike; a few boundaries
 * later the ranks exchange their times, and each computes the same result. The first trial comes when the plan has
 * settled; after step FREE_STEPS, others come when they are at most 0.5 % of the steps and of the time. Steps change
 * their way when two trials in a row want it. Of several groups one at a time has a trial.
 *
 * None in runs that repeat call by call or are compared (--bucket-mb, --verify, `ddprun check`), nor where steps are
 * captured in CUDA graphs or do not overlap.
 */
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/report/report.h"

#include "base/message.h"

enum {
    SETTLED_STEPS = 12,      /* of a plan, after the checks of its first steps */
    UNMEASURED_STEPS = 72,   /* of one that no measured one follows */
    ASKED_AFTER = 4,         /* boundaries after a trial; events of its steps may be incomplete there, */
    ASKED_AFTER_MOST = 256,  /* or there, and the trial is given up */
    UNTRIED_STEPS = 1 << 14, /* until the next one where none could be judged */
    FREE_STEPS = 300,        /* of a run: what is tried in them costs little, and a better way gains for long */
};

enum phase { TRIAL_NONE, TRIAL_RUNS, TRIAL_ENDED };

/* What another way changes: overlap is off where it is on, or on; or the layout is WAY_LAYOUT + enum layout. */
enum { WAY_PRESENT = 0, WAY_OVERLAP, WAY_LAYOUT, WAYS = WAY_LAYOUT + LAYOUTS };

static bool
is_layout(int kind)
{
    return kind >= WAY_LAYOUT;
}

struct trial {
    enum phase phase;
    struct trial_shape shape;
    int kinds[TRIAL_WAYS_AT_MOST];
    const struct plan *plans[TRIAL_WAYS_AT_MOST]; /* layouts.c's, while the trial runs; NULL: the plan in force */
    size_t bucket_counts[TRIAL_WAYS_AT_MOST];
    uint64_t begun;       /* the group's overlapped steps when it began */
    uint64_t asked_after; /* boundaries after it at which ranks exchange their times */
    uint64_t due;         /* the next one begins at this boundary of the group, or later */
    uint64_t early;       /* steps of it that launched buckets early on this rank */
    uint64_t judged;      /* trials with a result so far */
    size_t owed;          /* control steps after FREE_STEPS since the last pause, */
    int64_t owed_ns;      /* and by what all control steps were longer */
    int64_t slowed_ns;    /* of the last one that had steps with and without overlap */
    int doubted;          /* the last one wants steps to go this way: another one has to confirm that; or WAY_PRESENT */
    uint64_t seen;        /* the group's overlapped steps at the boundary before: fewer now mean another plan */
    bool surveyed;        /* all layouts have had a trial since there is this plan, or there are no others */
    bool off;             /* steps do not overlap */
    uint64_t off_step;    /* boundaries of all groups passed when that began */
};

/* What ranks exchange: steps that launched buckets early, whether all events are complete, and the times that they
 * tell; 0: of a step that went none of the ways. */
struct trial_vote {
    uint64_t early, complete;
    struct trial_step steps[TRIAL_STEPS_AT_MOST];
};

static struct trial trials[GROUPS_AT_MOST];

static struct trial *
trial_of(const struct group *group)
{
    return &trials[group->id];
}

/* Of the group's trial, steps that are passed. */
static uint64_t
steps_passed(const struct trial *trial, const struct group *group) BY_ISSUER
{
    return group->overlapped_steps - trial->begun;
}

/* False also between another agreement on annotations, which counts steps anew, and advance(), which ends the trial. */
static bool
is_running(const struct trial *trial, const struct group *group) BY_ISSUER
{
    return trial->phase == TRIAL_RUNS && group->overlapped_steps >= trial->begun;
}

static size_t
steps_of(const struct trial *trial)
{
    return trial->shape.ways * trial->shape.rounds;
}

/* ---- times ---- */

void
trials_backward_done(const struct group *group, CUstream stream)
{
    struct trial *trial = trial_of(group);
    if (!is_running(trial, group))
        return;
    size_t step = steps_passed(trial, group);
    issuer_lock();
    bool early = group->early_buckets > 0, deviates = group->readiness.deviates;
    issuer_unlock();
    trial->early += early;
    if (!deviates || group->direct) /* a step with a touch that was not expected is neither way */
        trial_times_done(step, stream);
}

void
trials_released(const struct group *group, CUstream stream)
{
    const struct trial *trial = trial_of(group);
    if (is_running(trial, group))
        trial_times_released(steps_passed(trial, group), stream);
}

/* ---- the result ---- */

static void
report(void)
{
    int64_t slowed_ns = 0;
    uint64_t judged = 0, off_step = 0;
    for (size_t g = 0; g < GROUPS_AT_MOST; ++g) {
        slowed_ns += trials[g].off ? 0 : trials[g].slowed_ns;
        judged += trials[g].judged;
        off_step = trials[g].off && trials[g].off_step > off_step ? trials[g].off_step : off_step;
    }
    atomic_store(&engine_state.status->slowed_ns, (uint64_t)slowed_ns);
    atomic_store(&engine_state.status->overlap_off_step, off_step);
    atomic_store(&engine_state.status->trial_count, judged);
}

static double
ms_of(int64_t ns)
{
    return (double)ns * 1e-6;
}

/* Said by rank 0. */
static void
say_change(const struct trial *trial, const struct trial_result *result)
{
    unsigned long long step = (unsigned long long)engine_state.boundary_count + 1;
    if (engine_state.rendezvous.rank != 0)
        return;
    if (trial->off)
        message_line(
            "steps are shorter without overlap here (medians: %.3g ms, with it %.3g ms): overlap is off from step "
            "%llu on; results stay the same",
            ms_of(result->other_ns), ms_of(result->present_ns), step);
    else
        message_line("overlap is on again from step %llu on: a step takes %.3g ms with it and %.3g ms without it", step,
                     ms_of(result->other_ns), ms_of(result->present_ns));
}

/* Steps go another way from here on. */
static void
change(struct trial *trial, struct group *group, int kind, const struct trial_result *result) BY_ISSUER
{
    if (is_layout(kind)) {
        planner_take_layout(group, (enum layout)(kind - WAY_LAYOUT), result);
        return;
    }
    trial->off = !trial->off;
    trial->off_step = engine_state.boundary_count;
    measure_way_changed(group);
    TRACED(trace_overlap(group, !trial->off));
    say_change(trial, result);
}

/* What the trial has found of each of its ways: the same on all ranks. */
static void
follow(struct trial *trial, struct group *group, const struct trial_result *results) BY_ISSUER
{
    size_t best = 0;
    int64_t step_ns = 0;
    for (size_t w = 1; w < trial->shape.ways; ++w) {
        const struct trial_result *of = &results[w];
        if (of->rounds == 0)
            continue;
        step_ns = of->present_ns;
        trial->owed_ns += of->gained_ns < 0 ? -of->gained_ns * (int64_t)trial->shape.rounds : 0;
        if (trial_prefers(of) && (best == 0 || of->gained_ns > results[best].gained_ns))
            best = w;
        if (trial->kinds[w] == WAY_OVERLAP) {
            trial->slowed_ns = trial_slowed(of, !trial->off);
            /* with several groups a step of the job is no step of this one */
            atomic_store(&engine_state.status->trial_step_ns,
                         trial == trials && trials[1].judged == 0 ? (uint64_t)step_ns : 0);
        }
        TRACED(trace_trial(group, of, trial->bucket_counts[w], !trial->off));
        if (!trial->off && is_layout(trial->kinds[w]))
            planner_compared(group);
    }
    trial->owed += engine_state.boundary_count > FREE_STEPS ? steps_of(trial) - trial->shape.rounds : 0;
    int wanted = trial->kinds[best];
    bool confirmed = best > 0 && wanted == trial->doubted;
    ++trial->judged;
    trial->doubted = confirmed ? WAY_PRESENT : wanted;
    if (confirmed)
        change(trial, group, wanted, &results[best]);
    if (trial->doubted != WAY_PRESENT || (!trial->surveyed && !trial->off)) {
        trial->due = group->boundary_count + 1;
    } else {
        trial->due = group->boundary_count +
                     trial_pause(trial->owed > TRIAL_ROUNDS ? trial->owed : TRIAL_ROUNDS, trial->owed_ns, step_ns);
        trial->owed = 0;
        trial->owed_ns = 0;
    }
    report();
}

/* Exchanges times, and acts on them. False: a rank has incomplete events still. */
static bool
judge(struct trial *trial, struct group *group) BY_ISSUER
{
    struct trial_vote mine = {.early = trial->early};
    struct control_messages all;
    struct trial_result results[TRIAL_WAYS_AT_MOST] = {{0}};
    uint64_t early = 0;
    bool complete = true, known = false;
    mine.complete = trial_times_read(mine.steps);
    exchange("the comparison of overlap trials in DDP_STEP", &mine, sizeof(mine), &all);
    const struct trial_step **steps = engine_calloc((size_t)all.count, sizeof(*steps));
    for (int r = 0; r < all.count; ++r) {
        const struct trial_vote *theirs = all.messages[r];
        if (all.bytes[r] != sizeof(*theirs))
            stop_job("rank %d sent %zu bytes of trial timings", r, all.bytes[r]);
        steps[r] = theirs->steps;
        early = theirs->early > early ? theirs->early : early;
        complete = complete && theirs->complete != 0;
    }
    for (size_t w = 1; complete && early > 0 && w < trial->shape.ways; ++w)
        known |= trial_compare(steps, (size_t)all.count, &trial->shape, w, &results[w]);
    if (known)
        follow(trial, group, results);
    free(steps);
    control_free_messages(&all);
    return complete;
}

/* ---- the next interval ---- */

static bool
may_try(const struct group *group) BY_ISSUER
{
    const struct job_options *options = &engine_state.options;
    return options->overlap && (engine_state.off & OFF_TRIALS) == 0 && options->bucket_bytes == 0 && !options->verify &&
           group->overlapping && atomic_load(&engine_state.graph_count) == 0;
}

static bool
is_due(const struct trial *trial, const struct group *group) BY_ISSUER
{
    for (size_t g = 0; g < GROUPS_AT_MOST; ++g) {
        if (trials[g].phase != TRIAL_NONE)
            return false;
    }
    bool settled = group->measured || all_reduce_cost()->count == 0 || group->overlapped_steps >= UNMEASURED_STEPS;
    return settled && group->overlapped_steps >= SETTLED_STEPS && group->boundary_count >= trial->due &&
           !planner_votes_within(group, TRIAL_STEPS_AT_MOST);
}

static void
add_way(struct trial *trial, int kind, const struct plan *plan)
{
    ASSERT(trial->shape.ways < TRIAL_WAYS_AT_MOST);
    trial->kinds[trial->shape.ways] = kind;
    trial->bucket_counts[trial->shape.ways] = plan != NULL ? plan->bucket_count : 0;
    trial->plans[trial->shape.ways++] = plan;
}

/* Another layout than the plan's, and than those of the ways so far. */
static void
add_layout(struct trial *trial, const struct group *group, int kind) BY_ISSUER
{
    const struct plan *plan = planner_layout(group, (enum layout)(kind - WAY_LAYOUT));
    bool is_new = plan != NULL;
    for (size_t w = 1; is_new && w < trial->shape.ways; ++w)
        is_new = trial->plans[w] == NULL || !plan_has_buckets_of(plan, trial->plans[w]);
    if (is_new)
        add_way(trial, kind, plan);
    else
        plan_free(plan);
}

/* Whether the trial that begins has this way: the one in doubt; first overlap, then all layouts; later one in turn. */
static bool
is_tried(const struct trial *trial, int kind) BY_ISSUER
{
    if (trial->doubted != WAY_PRESENT)
        return kind == trial->doubted;
    if (trial->off || trial->judged == 0)
        return kind == WAY_OVERLAP;
    if (!trial->surveyed)
        return is_layout(kind) && kind != WAY_LAYOUT + LAYOUT_FORECAST;
    return kind == WAY_OVERLAP + (int)(trial->judged % (WAYS - WAY_OVERLAP));
}

static void
begin(struct trial *trial, struct group *group, CUstream stream) BY_ISSUER
{
    bool surveys = trial->judged > 0 && trial->doubted == WAY_PRESENT && !trial->off && !trial->surveyed;
    trial->shape = (struct trial_shape){1, trial->doubted != WAY_PRESENT ? TRIAL_ROUNDS_CONFIRMING : TRIAL_ROUNDS};
    for (int kind = WAY_OVERLAP; kind < WAYS; ++kind) {
        if (is_tried(trial, kind) && is_layout(kind))
            add_layout(trial, group, kind);
        else if (is_tried(trial, kind))
            add_way(trial, kind, NULL);
    }
    if (trial->shape.ways > 1 && is_layout(trial->kinds[1]))
        layouts_begin(group, &trial->plans[1], trial->shape.ways - 1);
    trial->surveyed |= surveys;
    if (trial->shape.ways == 1) { /* nothing to compare steps with: the next way */
        trial->due = group->boundary_count + (surveys ? trial_pause(TRIAL_ROUNDS, 0, 0) : 1);
        trial->doubted = WAY_PRESENT;
        ++trial->judged;
        return;
    }
    ASSERT(steps_of(trial) <= TRIAL_STEPS_AT_MOST);
    trial->phase = TRIAL_RUNS;
    trial->begun = group->overlapped_steps;
    trial->asked_after = ASKED_AFTER;
    trial->early = 0;
    measure_pause(group);
    trial_times_begin(stream);
}

static void
end(struct trial *trial, const struct group *group) BY_ISSUER
{
    trial->phase = TRIAL_NONE;
    layouts_end(group);
}

/* A step of the trial is passed, or a boundary after it. */
static void
advance(struct trial *trial, struct group *group) BY_ISSUER
{
    uint64_t passed = steps_passed(trial, group);
    if (group->overlapped_steps < trial->begun + 1) { /* another plan */
        end(trial, group);
        return;
    }
    if (trial->phase == TRIAL_RUNS && passed == steps_of(trial)) {
        trial->phase = TRIAL_ENDED;
        layouts_end(group);
    }
    if (trial->phase != TRIAL_ENDED || passed < steps_of(trial) + trial->asked_after)
        return;
    bool judged = judge(trial, group);
    trial->asked_after *= 2;
    if (!judged && trial->asked_after <= ASKED_AFTER_MOST)
        return;
    trial->phase = TRIAL_NONE;
    if (trial->due <= group->boundary_count)
        trial->due = group->boundary_count + UNTRIED_STEPS;
}

void
trials_next_interval(struct group *group, CUstream stream)
{
    struct trial *trial = trial_of(group);
    trial->surveyed = trial->surveyed && group->overlapped_steps >= trial->seen;
    trial->seen = group->overlapped_steps;
    if (!may_try(group))
        end(trial, group);
    else if (trial->phase != TRIAL_NONE)
        advance(trial, group);
    else if (is_due(trial, group))
        begin(trial, group, stream);
    group->tried = trial->phase == TRIAL_RUNS;
    size_t way = group->tried ? trial_way(&trial->shape, steps_passed(trial, group)) : 0;
    bool overlaps = (way > 0 && trial->kinds[way] == WAY_OVERLAP) == trial->off;
    group->direct = group->overlapping && (!overlaps || engine_state.sends_at_step);
    group->control = way > 0;
    layouts_wear(group, way > 0 ? trial->plans[way] : NULL);
    if (!group->direct)
        return;
    issuer_lock();
    readiness_close(&group->readiness);
    issuer_unlock();
}
