/*
 * planner.c - plans of buckets: from what intervals have shown, agreed on by all ranks.
 *
 * Called by the issuer at boundaries. At first everything waits for the boundary; a few boundaries of each group end
 * with a vote, in which ranks tell each other whether their intervals repeat, and later when their gradients were
 * ready. A plan takes effect on all ranks at the same boundary, or on none. The first one has buckets of a fixed size;
 * once ready times are known, they are as the measured times and the cost of an all-reduce make best.
 */
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"

/* The group's gradients as annotated, for a plan; malloc'ed. */
static struct plan_gradient *
gradients_of(const struct group *group) BY_ISSUER
{
    struct plan_gradient *gradients = engine_calloc(group->gradient_count + 1, sizeof(*gradients));
    issuer_lock();
    for (size_t i = 0; i < group->gradient_count; ++i)
        gradients[i] = escape_plan_gradient(tensor_gradient(group, i));
    issuer_unlock();
    return gradients;
}

/* A plan over them by size. */
static const struct plan *
build_plan(const struct group *group, uint32_t version, const size_t *order) BY_ISSUER
{
    uint64_t cap_bytes = engine_state.options.bucket_bytes;
    struct plan_gradient *gradients = gradients_of(group);
    const struct plan *plan = plan_build(version, gradients, order, group->gradient_count,
                                         cap_bytes > 0 ? cap_bytes : DDPRUN_DEFAULT_BUCKET_BYTES);
    free(gradients);
    return plan;
}

void
planner_report_buckets(size_t count)
{
    atomic_store(&engine_state.status->bucket_count, count);
}

/* Those of all groups. */
static void
report_buckets(void) BY_ISSUER
{
    size_t count = 0;
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        const struct group *group = &memory_state.groups[g];
        count += group->overlapping ? group->plan->bucket_count : 0;
    }
    planner_report_buckets(count);
}

/* What a forecast would have, where a trial has chosen another layout; else NULL. */
static const struct plan *forecast_plans[GROUPS_AT_MOST] GUARDED_BY(issuer_role);

static void
keep_forecast(const struct group *group, const struct plan *plan) BY_ISSUER
{
    plan_free(forecast_plans[group->id]);
    forecast_plans[group->id] = plan;
}

/* The issuer: `plan` is in force from now on, learned from `history` (or from nothing: NULL). */
static void
adopt(struct group *group, const struct plan *plan, const struct history *history) BY_ISSUER
{
    struct readiness readiness;
    ASSERT(plan->gradient_count == group->gradient_count);
    layouts_end(group);
    keep_forecast(group, NULL);
    require_allocated(readiness_init(&readiness, plan, history));

    issuer_lock();
    const struct plan *old = group->plan;
    struct readiness old_readiness = group->readiness;
    group->plan = plan;
    group->readiness = readiness;
    group->overlapping = history != NULL;
    group->measured = group->chosen = false;
    group->overlapped_steps = 0; /* the checks of the first steps begin anew */
    for (size_t i = 0; i < group->gradient_count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, i);
        if (tensor->deferral != DEFERRED_NOT || (tensor->escaped && !readiness_is_declared(&group->readiness, i)))
            readiness_hold(&group->readiness, i);
    }
    issuer_unlock();

    if (old != NULL)
        readiness_free(&old_readiness);
    plan_free(old);
    flight_note(FLIGHT_PLAN, plan->bucket_count, 0, NULL);
    launch_prepare_plan(group);
    if (history != NULL)
        connect_sizes(plan);
    measure_forget(group);
    report_buckets();
}

void
planner_reset(struct group *group)
{
    size_t count = group->gradient_count;
    size_t *order = calloc(count + 1, sizeof(*order));
    for (size_t i = 0; order != NULL && i < count; ++i)
        order[i] = i;
    if (order != NULL)
        deferred_order(group, order); /* all ranks know the same of it */
    const struct plan *plan = order != NULL ? build_plan(group, 0, order) : NULL;
    free(order);
    struct history history = {0};
    require_allocated(plan != NULL && history_init(&history, count));
    if (count > 0) /* ranks with other options would send other buckets, and NCCL need not notice */
        plans_compare(group, plan);

    issuer_lock();
    history_free(&group->history);
    group->history = history;
    for (size_t i = 0; i < count; ++i) {
        if (escape_deferral(tensor_gradient(group, i)) >= DEFERRED_ESCAPED)
            history_ignore(&group->history, i);
    }
    group->intervals = 0;
    ASSERT(group->early_buckets == 0); /* what was annotated since would not be in them */
    issuer_unlock();
    adopt(group, plan, NULL);
}

enum { REVIEW_EVERY = 128, MEASURED_FIRST = 16, MEASURED_LAST = 64 };

/* Boundaries of a group at which ranks ask each other. Until there is a plan: 3 to 6 (the third is the first that can
 * repeat another), then ever rarer, for a program whose steps do not repeat must not pay for it. After that a few times
 * until ready times are known on all ranks, and now and then, whether the plan still fits. */
static bool
is_vote_due(const struct group *group) BY_ISSUER
{
    uint64_t interval = group->intervals, steps = group->overlapped_steps;
    if (group->overlapping && group->asks_for_vote)
        return true;
    if (group->overlapping) {
        bool times = all_reduce_cost()->count > 0 && !group->measured && steps >= MEASURED_FIRST &&
                     steps <= MEASURED_LAST && steps % MEASURED_FIRST == 0;
        return times || interval % REVIEW_EVERY == 0;
    }
    if (interval < 3)
        return false;
    uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(interval));
    return interval <= 6 || interval == power || interval == power + power / 2;
}

bool
planner_votes_within(const struct group *group, uint64_t intervals)
{
    return group->intervals % REVIEW_EVERY + intervals >= REVIEW_EVERY;
}

/* A vote: a word of the bits below; the order in which the rank's gradients became ready; and, if it has them, when
 * they did, and after them when backward was done. */
enum { VOTE_REPEATS = 1, VOTE_WANTS_PLAN = 2, VOTE_HAS_TIMES = 4 };

static size_t
vote_words(const struct group *group, uint64_t bits) BY_ISSUER
{
    size_t count = group->gradient_count;
    return 1 + count + ((bits & VOTE_HAS_TIMES) != 0 ? count + 1 : 0);
}

/* The result of all votes: bits that every rank has set, and bits that some have. False if they are no votes. */
static bool
count_votes(const struct group *group, const struct control_messages *all, uint64_t *in_all_p,
            uint64_t *in_any_p) BY_ISSUER
{
    uint64_t in_all = UINT64_MAX, in_any = 0;
    for (int r = 0; r < all->count; ++r) {
        uint64_t word = 0;
        if (all->bytes[r] >= sizeof(word))
            memcpy(&word, all->messages[r], sizeof(word));
        if (all->bytes[r] != vote_words(group, word) * sizeof(uint64_t))
            return false;
        in_all &= word;
        in_any |= word;
    }
    *in_all_p = in_all;
    *in_any_p = in_any;
    return true;
}

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "orders are sent as 64-bit words");

/* Gradients became ready in another order: a plan by size, from rank 0's. */
static void
adopt_order(struct group *group, const size_t *order) BY_ISSUER
{
    const struct plan *plan = build_plan(group, group->plan->version + 1, order);
    if (plan == NULL)
        stop_job("rank 0 sent an invalid order of buckets");
    plans_compare(group, plan);
    adopt(group, plan, &group->history);
    issuer_lock();
    history_follow(&group->history);
    issuer_unlock();
}

/* The same plan once more, for another owner. */
static const struct plan *
copy_plan(const struct group *group, const struct plan *plan) BY_ISSUER
{
    struct plan_gradient *gradients = gradients_of(group);
    size_t *ends = engine_calloc(plan->bucket_count + 1, sizeof(*ends));
    for (size_t k = 0; k < plan->bucket_count; ++k)
        ends[k] = plan->buckets[k].first + plan->buckets[k].count;
    const struct plan *copy = plan_of_pieces(plan->version, gradients, plan->gradient_count, plan->pieces,
                                             plan->piece_count, ends, plan->bucket_count);
    free(ends);
    free(gradients);
    return copy;
}

enum { GRAPH_BUCKETS = 8, GRAPH_LEAST_BYTES = 1 << 20 };

/* In a graph nothing is measured, and what was not learned before its capture never will be. An eighth of the gradients
 * leaves an eighth of the reduction after backward, where latency does not count more than that. */
static uint64_t
cap_in_graph(const struct group *group)
{
    uint64_t bytes = 0;
    engine_lock();
    for (size_t i = 0; i < group->gradient_count; ++i)
        bytes += tensor_gradient(group, i)->bytes;
    engine_unlock();
    uint64_t cap = bytes / GRAPH_BUCKETS > GRAPH_LEAST_BYTES ? bytes / GRAPH_BUCKETS : GRAPH_LEAST_BYTES;
    return cap < DDPRUN_DEFAULT_BUCKET_BYTES ? cap : DDPRUN_DEFAULT_BUCKET_BYTES;
}

const struct plan *
planner_for_capture(const struct group *group, const size_t *order)
{
    const struct plan *plan = group->overlapping ? copy_plan(group, group->plan) : NULL;
    if (plan == NULL) { /* none is in force, or it does not know what is deferred by now */
        uint64_t cap_bytes = engine_state.options.bucket_bytes;
        struct plan_gradient *gradients = gradients_of(group);
        for (size_t i = 0; i < group->gradient_count; ++i) /* that some are complete late, the order says */
            gradients[i].type = escape_bucket_type(&(struct plan_bucket){.type = gradients[i].type});
        plan = plan_build(0, gradients, order, group->gradient_count, cap_bytes > 0 ? cap_bytes : cap_in_graph(group));
        free(gradients);
    }
    if (plan == NULL)
        stop_job("rank 0 sent an invalid order of buckets");
    plans_compare(group, plan);
    return plan;
}

/* The latest of all ranks' times, in ns; malloc'ed, count + 1 of them. */
static int64_t *
latest_times(const struct control_messages *votes, size_t count)
{
    int64_t *latest_ns = engine_calloc(count + 1, sizeof(*latest_ns));
    for (int r = 0; r < votes->count; ++r) {
        const int64_t *theirs = (const int64_t *)votes->messages[r] + 1 + count;
        for (size_t i = 0; i <= count; ++i)
            latest_ns[i] = theirs[i] > latest_ns[i] ? theirs[i] : latest_ns[i];
    }
    return latest_ns;
}

/* Whether `best` is worth a change: it ends earlier by more than times vary by day, or needs fewer buckets. */
static bool
is_worth_it(const struct group *group, const struct plan *best, const struct plan_forecast *of_best,
            const struct plan_forecast *of_present) BY_ISSUER
{
    int64_t differ_ns = of_present->end_ns / (group->measured ? 100 : 1000);
    return of_best->end_ns < of_present->end_ns - differ_ns ||
           (!group->measured && best->bucket_count < group->plan->bucket_count);
}

/* How long after backward. */
static int64_t
behind(int64_t end_ns, int64_t done_ns)
{
    return end_ns > done_ns ? end_ns - done_ns : 0;
}

/* All ranks have come with ready times of the plan in force. All of them compute the same from the same numbers: the
 * plan that these times make best, and whether it is worth a change. */
static void
adopt_measured(struct group *group, const size_t *order, const int64_t *latest_ns) BY_ISSUER
{
    size_t count = group->gradient_count;
    int64_t done_ns = latest_ns[count];
    TRACED(trace_ready(group, latest_ns));
    const struct cost *cost = all_reduce_cost();
    struct plan_forecast forecast, present;
    struct plan_gradient *gradients = gradients_of(group);
    const struct plan *plan =
        plan_build_measured(group->plan->version + 1, gradients, latest_ns, order, count, cost, &forecast);
    free(gradients);
    if (plan == NULL || !plan_forecast(group->plan, latest_ns, cost, &present)) {
        plan_free(plan); /* out of all bounds: buckets stay as they are, on all ranks */
        return;
    }
    int64_t exposed_ns = behind(present.end_ns, done_ns);
    if (group->chosen) { /* by a trial: another one decides */
        keep_forecast(group, plan);
    } else if (is_worth_it(group, plan, &forecast, &present)) {
        plans_compare(group, plan);
        adopt(group, plan, &group->history);
        exposed_ns = behind(forecast.end_ns, done_ns);
    } else {
        plan_free(plan);
    }
    issuer_lock();
    group->measured = true;
    issuer_unlock();
    measure_times_used(group);
    measure_promise(group, exposed_ns, behind(forecast.bound_ns, done_ns));
}

const struct plan *
planner_layout(const struct group *group, enum layout layout)
{
    static const size_t neighbours[] = {[LAYOUT_HALF] = 2, [LAYOUT_QUARTER] = 4, [LAYOUT_BY_SIZE] = 0};
    const struct plan *forecast = forecast_plans[group->id];
    if (layout == LAYOUT_FORECAST)
        return forecast == NULL || plan_has_buckets_of(forecast, group->plan) ? NULL : copy_plan(group, forecast);
    struct plan_gradient *gradients = gradients_of(group);
    const struct plan *plan = plan_join(group->plan, gradients, neighbours[layout]);
    free(gradients);
    return plan;
}

void
planner_take_layout(struct group *group, enum layout layout, const struct trial_result *result)
{
    int64_t promised_ns, bound_ns;
    const struct plan *old = group->plan, *plan = planner_layout(group, layout);
    if (plan == NULL)
        return;
    plans_compare(group, plan);
    issuer_lock();
    bool good = readiness_switch(&group->readiness, plan);
    group->plan = plan;
    group->chosen = true;
    issuer_unlock();
    require_allocated(good);
    launch_prepare_plan(group);
    connect_sizes(plan);
    keep_forecast(group, old); /* until a review has another */
    report_buckets();
    measure_promised(group, &promised_ns, &bound_ns);
    measure_way_changed(group);
    if (bound_ns >= 0) /* else no plan has promised anything */
        measure_promise(group, result->other_wait_ns, bound_ns);
}

void
planner_compared(struct group *group)
{
    issuer_lock();
    group->chosen = true;
    issuer_unlock();
}

/* The decision of all ranks' votes: the same on all of them. */
static void
follow_votes(struct group *group, const struct control_messages *votes) BY_ISSUER
{
    size_t count = group->gradient_count;
    uint64_t in_all, in_any;
    if (!count_votes(group, votes, &in_all, &in_any) || (in_all & VOTE_REPEATS) == 0)
        return;
    size_t *order = (size_t *)votes->messages[0] + 1;
    deferred_order(group, order);
    if ((in_any & VOTE_WANTS_PLAN) != 0) {
        adopt_order(group, order);
    } else if ((in_all & VOTE_HAS_TIMES) != 0) {
        int64_t *latest_ns = latest_times(votes, count);
        adopt_measured(group, order, latest_ns);
        free(latest_ns);
    }
}

void
planner_vote(struct group *group, bool repeats)
{
    issuer_lock();
    ++group->intervals;
    bool graphs = atomic_load(&engine_state.graph_count) > 0; /* then no bucket is launched early outside of them */
    bool due = engine_state.options.overlap && !graphs && is_vote_due(group);
    bool wants = due && (!group->overlapping || !readiness_fits(&group->readiness, &group->history));
    group->asks_for_vote = false;
    issuer_unlock();
    if (engine_state.options.overlap && !graphs && group->intervals % REVIEW_EVERY == REVIEW_EVERY / 2)
        measure_wanted(group);
    if (!due)
        return;
    wants = deferred_agree(group) || wants;

    size_t count = group->gradient_count;
    uint64_t *vote = engine_calloc(vote_words(group, VOTE_HAS_TIMES), sizeof(*vote));
    bool has_times = !wants && measure_times(group, (int64_t *)vote + 1 + count);
    vote[0] = (repeats ? VOTE_REPEATS : 0) | (wants ? VOTE_WANTS_PLAN : 0) | (has_times ? VOTE_HAS_TIMES : 0);
    history_order(&group->history, (size_t *)vote + 1);
    char about[64];
    struct control_messages votes;
    snprintf(about, sizeof(about), "a vote on the order of buckets of group %d", group->id);
    exchange(about, vote, vote_words(group, vote[0]) * sizeof(*vote), &votes);
    free(vote);
    follow_votes(group, &votes);
    control_free_messages(&votes);
}
