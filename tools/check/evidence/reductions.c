/*
 * reductions.c - see measure.h. A result may depend on the number of ranks and be right: what each rank puts into its
 * place of a table, the largest of the ranks' shares, a sum that the program divides by the number of ranks. So a
 * result alone accuses no program that has a DDP_STEP. In rounds a wrong result is what others are computed from, and a
 * sum that has no DDP_REDUCE shows in the next result: if there is one that depends on those before.
 */
#include "tools/check/evidence/measure.h"

#include "tools/common/each.h"
#include "tools/near/element.h"

static const double exact = 1e-7; /* of whole numbers, whose squares doubles round */

/* Whether every result of the call on this rank is so many times one process's, or differs from that by rounding of
 * the largest so far. */
static bool
holds_on_rank(const struct check_evidence *evidence, const struct check_rows *rows, const struct check_tensor *tensor,
              double factor)
{
    bool is_exact = tensor->type > ELEMENT_BFLOAT16;
    double most = 0;
    EACH_ROW_OF(row, rows, CHECK_REDUCE) {
        double times = factor * row->norms.reference;
        if (row->tensor.number != tensor->number)
            continue;
        most = fmax(most, times);
        double limit = is_exact ? exact * times : evidence->bearable * most;
        if (row->norms.unbounded > 0 || norms_apart(&row->norms, factor) > limit)
            return false;
    }
    return true;
}

static bool
factor_holds(const struct check_evidence *evidence, const struct check_tensor *tensor, double factor)
{
    return ALL(rows, evidence->ranked, evidence->ranks, holds_on_rank(evidence, rows, tensor, factor));
}

void
reductions_settle(const struct check_evidence *evidence, struct check_item *items, size_t count)
{
    const double factors[] = {evidence->ranks, 1.0 / evidence->ranks};
    FOR_EACH_MUTABLE(item, items, count) {
        FOR_EACH(factor, factors, sizeof(factors) / sizeof(factors[0])) {
            if (item->tensor.role == CHECK_REDUCE && item->differs && factor_holds(evidence, &item->tensor, *factor)) {
                item->factor = *factor;
                item->differs = item->unclear = false;
            }
        }
    }
    items_sort(items, count);
}

/* Whether the item, and not `first`, is what differs first: of one round the earlier call; `first` NULL: there is
 * none yet. */
static bool
goes_before(const struct check_item *item, const struct check_item *first)
{
    if (first == NULL || item->moment != first->moment)
        return first == NULL || item->moment < first->moment;
    return item->tensor.number < first->tensor.number;
}

/* Whether the result is a multiple of one process's. The smallest or largest of the shares is the Nth part of all,
 * too, and is none. */
static bool
is_multiple(const struct check_item *item)
{
    bool is_extreme = item->tensor.group == CHECK_OP_MIN || item->tensor.group == CHECK_OP_MAX;
    return item->factor > 0 && !is_extreme;
}

struct facts_reduced
reductions_find(const struct check_evidence *evidence, const struct check_item *items, size_t count)
{
    struct facts_reduced found = {.depends = items_scaled_differ(evidence, CHECK_REDUCE),
                                  .uneven_items = shares_uneven_items(evidence, 1)};
    FOR_EACH(item, items, count) {
        found.differing += item->differs;
        if (item->differs && goes_before(item, found.first))
            found.first = item;
        if (item->tensor.role != CHECK_REDUCE)
            continue;
        found.is_any = true;
        found.is_repeated = found.is_repeated || !item->ignored;
        if (found.multiple == NULL && is_multiple(item))
            found.multiple = item;
    }
    return found;
}
