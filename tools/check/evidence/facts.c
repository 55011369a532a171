/* facts.c - see evidence.h: from the rows of all runs to facts.h. */
#include "tools/check/evidence/measure.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/near/element.h"

static const double unrepeatable = 1e-3; /* a relative difference of a program from itself that hides too much */

/* ---- the check, and one process ---- */

/* Fills the facts of the check itself: ranks, steps, tolerances, which runs there are. */
static void
find_check(const struct check_evidence *evidence, struct check_facts *facts)
{
    facts->ranks = evidence->ranks;
    facts->steps = evidence->steps;
    facts->tolerance = evidence->tolerance;
    facts->bearable = evidence->bearable;
    facts->is_forced = check_evidence_is_forced(evidence);
    facts->in_rounds = check_evidence_in_rounds(evidence);
    facts->takes_turns = check_evidence_takes_turns(evidence);
    facts->by_plan = evidence->by_plan;
    facts->is_sum = evidence->sums;
    facts->is_compressed = evidence->wire_type != 0;
    facts->has_graphs = check_rows_find(&evidence->ranked[0], CHECK_ROW_GRAPHS) != NULL;
    facts->readings = evidence->readings;
    facts->has_plain = evidence->plain != NULL;
    facts->has_repeat = evidence->repeats[0] != NULL;
    facts->has_scaled = evidence->scaled.count > 0;
    facts->has_probe = evidence->probe.count > 0;
    facts->has_far = evidence->far.count > 0;
    facts->nudged_runs = evidence->nudged_runs;
    facts->overlapped_steps = evidence->overlapped_steps;
}

/* Whether the item counts in the largest difference that is shown: in rounds results, else parameters and gradients. */
static bool
counts(const struct check_facts *facts, const struct check_item *item)
{
    if (facts->in_rounds)
        return item->tensor.role == CHECK_REDUCE && !item->ignored && item->factor == 0;
    return items_is_trained(item) && !item->compensated;
}

/* Fills the largest relative difference of all tensors that count, and the floor of noise of that tensor. */
static void
find_largest(struct check_facts *facts)
{
    FOR_EACH(item, facts->items, facts->item_count) {
        /* The table's number, but for what only its floor makes equal. */
        double difference = item->difference <= facts->tolerance ? item->difference : item->typical;
        if (counts(facts, item) && difference >= facts->largest) {
            facts->largest = difference;
            facts->largest_floor = item->floor;
        }
    }
}

/* A gradient of doubles, where no parameter has any. */
static const struct check_tensor *
find_wide(const struct check_facts *facts)
{
    const struct check_tensor *wide = NULL;
    FOR_EACH(item, facts->items, facts->item_count) {
        const struct check_tensor *tensor = &item->tensor;
        if (tensor->type != ELEMENT_FLOAT64)
            continue;
        if (tensor->role == CHECK_PARAMETER)
            return NULL;
        if (tensor->role == CHECK_GRADIENT)
            wide = tensor;
    }
    return wide;
}

/* Whether no step has changed any parameter. What DDP_STEP_PARAMETERS averages is known from the end of the first
 * step on. */
static bool
is_unmoved(const struct check_evidence *evidence, const struct check_facts *facts)
{
    if (evidence->steps == 1 && check_rows_find(&evidence->ranked[0], CHECK_ROW_AVERAGED) != NULL)
        return false;
    bool any = false;
    FOR_EACH(item, facts->items, facts->item_count) {
        if (item->tensor.role != CHECK_PARAMETER)
            continue;
        if (item->moved)
            return false;
        any = true;
    }
    return any;
}

/* Not where parameters have several types: then one may be the other's copy. */
static void
count_elements(struct check_facts *facts)
{
    unsigned types = 0;
    FOR_EACH(item, facts->items, facts->item_count) {
        bool is_trained = item->tensor.role == CHECK_PARAMETER && item->moved && !item->is_averaged;
        types |= is_trained ? 1U << item->tensor.type : 0;
        facts->trained_elements += is_trained ? item->tensor.count : 0;
        facts->gradient_elements += item->tensor.role == CHECK_GRADIENT ? item->tensor.count : 0;
    }
    if ((types & (types - 1)) != 0)
        facts->trained_elements = 0;
}

/* Whether a parameter has moved, and was equal when another first differed: no update has been right for all, nor
 * wrong for all. */
static bool
has_equal_parameter(const struct check_facts *facts)
{
    unsigned first = UINT_MAX;
    FOR_EACH(item, facts->items, facts->item_count) {
        bool is_earlier = item->tensor.role == CHECK_PARAMETER && item->differs && item->moment < first;
        first = is_earlier ? item->moment : first;
    }
    return ANY(item, facts->items, facts->item_count,
               item->tensor.role == CHECK_PARAMETER && item->moved && (!item->differs || item->moment > first));
}

static bool
has_trained(const struct check_rows *rows)
{
    return check_rows_next_of(rows, CHECK_PARAMETER, NULL) != NULL ||
           check_rows_next_of(rows, CHECK_GRADIENT, NULL) != NULL;
}

/* Fills the facts of all tensors together: which is unclear, whether parameters move, whether the program repeats
 * itself. */
static void
find_tensors(const struct check_evidence *evidence, const struct pattern *pattern, struct check_facts *facts)
{
    find_largest(facts);
    facts->unclear = FIND(item, facts->items, facts->item_count, item->unclear);
    facts->wide = find_wide(facts);
    facts->is_unmoved = is_unmoved(evidence, facts);
    facts->pace = paces_find(evidence);
    count_elements(facts);
    facts->is_memory_different =
        ANY(item, facts->items, facts->item_count, item->tensor.role == CHECK_MEMORY && item->differs);
    facts->unrepeated = repeats_worst(evidence, facts->items, facts->item_count, pattern->first);
    facts->is_unrepeated = facts->unrepeated > fmax(unrepeatable, evidence->tolerance);
    facts->is_compared = evidence->ranks > 0 && ALL(rows, evidence->ranked, evidence->ranks, has_trained(rows));
}

/* ---- how the runs ended ---- */

/* Of two moments the earlier one; 0: never. */
static unsigned
earlier(unsigned moment, unsigned other)
{
    if (moment == 0 || other == 0)
        return moment + other;
    return moment < other ? moment : other;
}

/* Fills how the ranks' runs have ended. `moment`: the first difference (items_moment()); what stopped a rank before it
 * is no consequence of it. */
static void
find_ends(const struct check_evidence *evidence, unsigned moment, struct check_facts *facts)
{
    facts->common_end = evidence->common_end;
    facts->alarm = ends_alarm(evidence);
    facts->continues = ends_rank_that_continues(evidence);
    EACH_ROW(row, &evidence->alone, CHECK_ROW_AFTER)
        if (row->tensor.role == CHECK_PARAMETER && check_evidence_trains_after(row))
            facts->after = &row->tensor;
    facts->is_stopped_first = facts->stopped != NULL && !ends_after_difference(evidence, moment);
    const struct check_row *endless = ends_endless(evidence, moment);
    if (endless != NULL) {
        facts->endless = &endless->tensor;
        facts->endless_step = endless->step - 1;
    }
}

/* ---- the ranks ---- */

/* The tensor whose bits differ between ranks first, though it differs from one process by no more than rounding. */
static struct facts_apart
describe_apart(const struct check_evidence *evidence, const struct check_facts *facts,
               const struct agreement *agreement)
{
    const struct check_tensor *tensor = &agreement->row->tensor;
    bool is_during = tensor->role == CHECK_GRADIENT || tensor->role == CHECK_BUFFER;
    struct facts_apart apart = {.tensor = tensor,
                                .step = agreement->row->step - (is_during ? 0 : 1),
                                .rank = agreement->rank,
                                .is_start = agreement->moment <= items_moment(CHECK_PARAMETER, 1),
                                .may_be_noise = agreement_wants_repeat(evidence, agreement)};
    FOR_EACH(item, facts->items, facts->item_count) {
        if (check_same_tensor(&item->tensor, tensor))
            apart.item = item;
    }
    return apart;
}

/* Returns the moment of the first difference of any kind. */
static unsigned
find_ranks(const struct check_evidence *evidence, const struct pattern *pattern, struct check_facts *facts)
{
    struct agreement agreement = agreement_find(evidence);
    unsigned moment = agreement.moment;
    facts->are_alike_at_first = moment == 0 || moment > pattern->moment;
    if (moment != 0 && (pattern->moment == 0 || moment < pattern->moment))
        facts->apart = describe_apart(evidence, facts, &agreement);
    facts->have_one_batch = shares_are_one_batch(evidence);
    facts->take_whole_batches = !facts->takes_turns && shares_are_whole_batches(evidence);
    facts->parameters_equal = pattern->all[CHECK_PARAMETER] > 0 && pattern->ever[CHECK_PARAMETER] == 0;
    facts->has_equal_parameter = has_equal_parameter(facts);
    facts->all_parameters_move = pattern->differing[CHECK_PARAMETER] >= pattern->all[CHECK_PARAMETER];
    return earlier(moment, pattern->moment);
}

/* ---- what differs first ---- */

/* Whether another run of the ranks has made another difference. */
static bool
is_unsteady(const struct check_evidence *evidence, const struct check_item *first)
{
    const struct check_rows *of = evidence->repeats[0] != NULL ? evidence->repeats[0] : evidence->ranked;
    const struct check_row *row = measure_row(&evidence->ranked[first->first_rank], &first->tensor, first->first_step),
                           *again = measure_row(&of[first->first_rank], &first->tensor, first->first_step);
    return row != NULL && again != NULL &&
           fabs(row->norms.difference - again->norms.difference) > row->norms.difference / 10;
}

static bool
is_right_on_rank_0(const struct check_evidence *evidence, const struct check_item *first)
{
    const struct check_row *zero = measure_row(&evidence->ranked[0], &first->tensor, 1);
    return zero != NULL && zero->norms.difference <= evidence->tolerance * zero->norms.reference;
}

/* Whether gradients were compared in each step before the one in which the item differs first; where one process's
 * update changes nothing, they wait for the next. */
static bool
is_checked_before(const struct check_evidence *evidence, const struct check_item *first)
{
    uint32_t steps = 1, last = 0;
    EACH_ROW_OF(row, &evidence->ranked[0], CHECK_GRADIENT) {
        steps += row->step != last && row->step < first->first_step;
        last = row->step;
    }
    return steps >= first->first_step;
}

/* Of what the first step changes, of all parameters that differ; 0: they have no common factor. */
static double
factor_of_update(const struct check_evidence *evidence, const struct check_facts *facts)
{
    double common = 0;
    FOR_EACH(item, facts->items, facts->item_count) {
        if (item->tensor.role != CHECK_PARAMETER || !item->differs || item->made_in_step != 1)
            continue;
        double factor = factor_of_change(evidence, item);
        if (factor == 0 || (common != 0 && fabs(factor - common) > 0.02 * common))
            return 0;
        common = factor;
    }
    return common;
}

/* A decay of weights or an adaptive rate hides the factor in some parameters, and not in all. */
static double
factor_of_others(const struct check_evidence *evidence, const struct check_facts *facts, unsigned moment)
{
    double common = 0, n = evidence->ranks;
    FOR_EACH(item, facts->items, facts->item_count) {
        if (item->tensor.role != CHECK_PARAMETER || !item->differs || item->moment != moment)
            continue;
        double factor = factor_of_change(evidence, item);
        if (factor == 0)
            continue;
        bool is_other = common != 0 && factor != common;
        if (is_other || (factor != n && factor != 1 / n))
            return 0;
        common = factor;
    }
    return common;
}

/* The facts of the first tensor that differs: role, step, factors that could explain it. pattern->first is not NULL. */
static struct facts_first
describe_first(const struct check_evidence *evidence, const struct pattern *pattern, const struct check_facts *facts)
{
    const struct check_item *item = pattern->first;
    uint32_t role = item->tensor.role;
    struct facts_first first = {.item = item,
                                .is_of_start = pattern->moment == items_moment(CHECK_PARAMETER, 1),
                                .is_gradient = role == CHECK_GRADIENT,
                                .is_result = role == CHECK_GRADIENT || role == CHECK_BUFFER || role == CHECK_MEAN,
                                .is_unsteady = is_unsteady(evidence, item),
                                .differing = pattern->differing[role],
                                .all = pattern->all[role],
                                .is_few = pattern_is_few(pattern->differing[role], pattern->all[role]),
                                .factor_of_update = factor_of_update(evidence, facts),
                                .factor_of_change = factor_of_change(evidence, item),
                                .factor_of_others = factor_of_others(evidence, facts, pattern->moment),
                                .is_checked_before = is_checked_before(evidence, item)};
    first.is_right_on_rank_0 = first.is_of_start && is_right_on_rank_0(evidence, item);
    first.is_of_first_step = first.is_gradient && pattern->moment == items_moment(CHECK_GRADIENT, 1);
    if (!check_evidence_weighs(evidence))
        first.uneven_items = shares_uneven_items(evidence, item->first_step);
    double factor;
    if (first.is_of_first_step && factor_of_gradients(evidence, &factor))
        first.factor_of_all = factor;
    if (first.is_gradient && first.all > first.differing)
        first.factor_of_some = factor_of_some(evidence, facts->items, facts->item_count, pattern->moment);
    return first;
}

/* Memory in a parameter's place; or any, where nothing that is trained differs. */
static const struct check_item *
find_memory(const struct pattern *pattern)
{
    if (pattern->memory != NULL || pattern->first == NULL)
        return pattern->memory;
    bool trained_differs = pattern->ever[CHECK_PARAMETER] + pattern->ever[CHECK_GRADIENT] > 0;
    return !trained_differs && pattern->first->tensor.role == CHECK_MEMORY ? pattern->first : NULL;
}

/* Whether the ranks of this run are equal to one process. */
static bool
is_right(const struct check_evidence *evidence, const struct check_rows *ranked)
{
    size_t count;
    OWNED struct check_item *items = items_make(evidence, ranked, &count);
    return count > 0 && /* a mean may be shown only */
           ALL(item, items, count, !item->differs || item->tensor.role == CHECK_MEAN);
}

/* Fills the facts of what differs: results of DDP_REDUCE, copies from the host, unannotated memory, the first
 * tensor. */
static void
find_differences(const struct check_evidence *evidence, const struct pattern *pattern, struct check_facts *facts)
{
    facts->reduced = reductions_find(evidence, facts->items, facts->item_count);
    facts->carried = carried_find(evidence);
    facts->memory = find_memory(pattern);
    if (pattern->first == NULL)
        return;
    facts->first = describe_first(evidence, pattern, facts);
    facts->is_right_without_overlap = evidence->plain != NULL && is_right(evidence, evidence->plain);
}

/* ---- all of them ---- */

void
check_facts_find(const struct check_evidence *given, struct check_facts *facts)
{
    const struct check_evidence settled = limits_settle(given), *evidence = &settled;
    *facts = (struct check_facts){.ranks = 0};
    find_check(evidence, facts);
    facts->reading_places = given->reading_places; /* texts of `given`: they outlive `settled` */
    facts->stopped = given->stopped[0] != '\0' ? given->stopped : NULL;
    facts->refuted = given->refuted[0] != '\0' ? given->refuted : NULL;
    facts->unproved = given->unproved[0] != '\0' ? given->unproved : NULL;
    facts->items = items_make(evidence, evidence->ranked, &facts->item_count);
    items_sort(facts->items, facts->item_count);
    reductions_settle(evidence, facts->items, facts->item_count);
    struct pattern pattern = pattern_find(evidence, facts->items, facts->item_count);
    facts->undone = factor_settle(evidence, facts->items, facts->item_count, &pattern);
    find_tensors(evidence, &pattern, facts);
    unsigned moment = find_ranks(evidence, &pattern, facts);
    find_ends(evidence, moment, facts);
    find_differences(evidence, &pattern, facts);
}

void
check_facts_free(struct check_facts *facts)
{
    free(facts->items);
    *facts = (struct check_facts){.ranks = 0};
}

bool
check_facts_are_right(const struct check_evidence *given, struct check_rows *ranked)
{
    struct check_evidence evidence = *given;
    evidence.ranked = ranked;
    evidence = limits_settle(&evidence);
    return is_right(&evidence, ranked) && agreement_find(&evidence).moment == 0;
}
