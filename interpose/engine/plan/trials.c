/*
 * trials.c - do steps overlap? What overlap costs and gains is measured now and then; where steps without it are
 * shorter, they send nothing before their boundary.
 *
 * Called by the issuer at boundaries. In a trial (bucketing/trial.h) steps launch their buckets early or at the
 * boundary in turn: the same buckets in the same order, so that results are the same bits either way. Which step goes
 * which way follows from the group's boundaries, which all ranks count alike; a few boundaries later the ranks exchange
 * their times, and each computes the same result. The first trial comes when the plan has settled, others when they
 * cost at most 0.5 % of the time since. Steps change their way when two trials in a row want it. Of several groups one
 * at a time has a trial.
 *
 * None in runs that repeat bit for bit or are compared (--bucket-mb, --verify, `ddprun check`), nor where steps are
 * captured in CUDA graphs, leave ranks their own parameters (--sync-every) or do not overlap.
 */
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/report/report.h"

#include "base/message.h"
#include "base/mutant.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SETTLED_STEPS = 12,      /* of a plan, behind the checks of its first steps */
    UNMEASURED_STEPS = 72,   /* of one that no measured one follows */
    ASKED_AFTER = 4,         /* boundaries behind a trial; events of its steps may be incomplete there, */
    ASKED_AFTER_MOST = 256,  /* or there, and the trial is given up */
    UNTRIED_STEPS = 1 << 14, /* until the next one where none could be judged */
};

enum phase { TRIAL_NONE, TRIAL_RUNS, TRIAL_ENDED };

struct trial {
    enum phase phase;
    uint64_t begun;       /* the group's overlapped steps when it began */
    uint64_t asked_after; /* boundaries behind it at which ranks exchange their times */
    uint64_t due;         /* the next one begins at this boundary of the group, or later */
    uint64_t early;       /* steps of it that launched buckets early on this rank */
    uint64_t judged;      /* trials with a result so far */
    int64_t slowed_ns;    /* of the last one */
    bool doubted;         /* the last one wants steps to go the other way: another one has to confirm that */
    bool off;             /* steps do not overlap */
    uint64_t off_step;    /* boundaries of all groups passed when that began */
};

/* What ranks exchange: steps that launched buckets early, whether all events are complete, and the times that they
 * tell; 0: of a step that went neither way. */
struct trial_vote {
    uint64_t early, complete;
    struct trial_step steps[TRIAL_STEPS];
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

/* ---- times ---- */

void
trials_backward_done(const struct group *group, CUstream stream)
{
    struct trial *trial = trial_of(group);
    if (trial->phase != TRIAL_RUNS)
        return;
    size_t step = steps_passed(trial, group);
    issuer_lock();
    bool early = group->early_buckets > 0, deviates = group->readiness.deviates;
    issuer_unlock();
    trial->early += early;
    if (!deviates || group->withheld) /* a step with a touch that was not expected is neither way */
        trial_times_done(step, stream);
}

void
trials_released(const struct group *group, CUstream stream)
{
    const struct trial *trial = trial_of(group);
    if (trial->phase == TRIAL_RUNS)
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
        message_line("overlap is off from step %llu on: a step takes %.3g ms without it and %.3g ms with it, because "
                     "collectives beside backward slow the step's own work by %.3g ms; measured again later",
                     step, ms_of(result->apart_ns), ms_of(result->overlapped_ns), ms_of(result->slowed_ns));
    else
        message_line("overlap is on again from step %llu on: a step takes %.3g ms with it and %.3g ms without it", step,
                     ms_of(result->overlapped_ns), ms_of(result->apart_ns));
}

/* The same on all ranks. */
static void
follow(struct trial *trial, const struct group *group, const struct trial_result *result) BY_ISSUER
{
    bool changes = trial_prefers_overlap(result, !trial->off) == trial->off, confirmed = changes && trial->doubted;
    trial->slowed_ns = trial_slowed(result);
    ++trial->judged;
    trial->doubted = changes && !confirmed;
    trial->due = group->boundary_count + (trial->doubted ? 1 : trial_pause(result, trial->off == confirmed));
    trace_trial(group, result);
    if (confirmed) {
        trial->off = !trial->off;
        trial->off_step = engine_state.boundary_count;
        measure_overlap_changed(group);
        trace_overlap(group, !trial->off);
        say_change(trial, result);
    }
    report();
}

/* Exchanges times, and acts on them. False: a rank has incomplete events still. */
static bool
judge(struct trial *trial, const struct group *group) BY_ISSUER
{
    struct trial_vote mine = {.early = trial->early};
    struct control_messages all;
    struct trial_result result;
    uint64_t early = 0;
    bool complete = true;
    mine.complete = trial_times_read(mine.steps);
    exchange("the times of steps with and without overlap", &mine, sizeof(mine), &all);
    const struct trial_step **steps = calloc((size_t)all.count, sizeof(*steps));
    if (steps == NULL)
        stop_job("out of memory");
    for (int r = 0; r < all.count; ++r) {
        const struct trial_vote *theirs = all.messages[r];
        if (all.bytes[r] != sizeof(*theirs))
            stop_job("rank %d sent %zu bytes as the times of a trial", r, all.bytes[r]);
        steps[r] = theirs->steps;
        early = theirs->early > early ? theirs->early : early;
        complete = complete && theirs->complete != 0;
    }
    if (complete && early > 0 && trial_judge(steps, (size_t)all.count, &result))
        follow(trial, group, &result);
    free(steps);
    control_free_messages(&all);
    return complete;
}

/* ---- the next interval ---- */

static bool
may_try(const struct group *group) BY_ISSUER
{
    const struct job_options *options = &engine_state.options;
    return options->overlap && options->bucket_bytes == 0 && !options->verify && options->sync_every == 0 &&
           !engine_state.is_check && group->overlapping && atomic_load(&engine_state.graph_count) == 0;
}

static bool
is_due(const struct trial *trial, const struct group *group) BY_ISSUER
{
    for (size_t g = 0; g < GROUPS_AT_MOST; ++g) {
        if (trials[g].phase != TRIAL_NONE)
            return false;
    }
    bool settled = group->measured || all_reduce_cost()->count == 0 || group->overlapped_steps >= UNMEASURED_STEPS;
    return settled && group->overlapped_steps >= SETTLED_STEPS && group->boundary_count >= trial->due;
}

/* A step of the trial is passed, or a boundary behind it. */
static void
advance(struct trial *trial, const struct group *group) BY_ISSUER
{
    uint64_t passed = steps_passed(trial, group);
    if (group->overlapped_steps < trial->begun + 1) { /* another plan */
        trial->phase = TRIAL_NONE;
        return;
    }
    if (passed == TRIAL_STEPS)
        trial->phase = TRIAL_ENDED;
    if (trial->phase != TRIAL_ENDED || passed < TRIAL_STEPS + trial->asked_after)
        return;
    if (judge(trial, group)) {
        trial->phase = TRIAL_NONE;
        trial->due = trial->due > group->boundary_count ? trial->due : group->boundary_count + UNTRIED_STEPS;
        return;
    }
    trial->asked_after *= 2;
    if (trial->asked_after > ASKED_AFTER_MOST) {
        trial->phase = TRIAL_NONE;
        trial->due = group->boundary_count + UNTRIED_STEPS;
    }
}

void
trials_next_interval(struct group *group, CUstream stream)
{
    struct trial *trial = trial_of(group);
    if (!may_try(group))
        trial->phase = TRIAL_NONE;
    else if (trial->phase != TRIAL_NONE)
        advance(trial, group);
    else if (is_due(trial, group)) {
        trial->phase = TRIAL_RUNS;
        trial->begun = group->overlapped_steps;
        trial->asked_after = ASKED_AFTER;
        trial->early = 0;
        trial_times_begin(stream);
    }
    bool runs = trial->phase == TRIAL_RUNS;
    bool overlaps = runs ? trial_overlaps(steps_passed(trial, group)) : !trial->off;
    group->withheld = group->overlapping && !overlaps;
    group->control = runs && overlaps == trial->off;
    if (MUTANT(CONTROL_BUCKETS_DIFFER) && group->control)
        planner_reset(group);
    if (!group->withheld)
        return;
    issuer_lock();
    readiness_withhold(&group->readiness);
    issuer_unlock();
}
