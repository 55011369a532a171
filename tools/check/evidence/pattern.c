/* pattern.c - see measure.h. */
#include "tools/check/evidence/measure.h"

#include "tools/common/each.h"

const struct check_row *
measure_row(const struct check_rows *rows, const struct check_tensor *tensor, uint32_t step)
{
    return FIND(row, rows->rows, rows->count,
                row->kind == CHECK_ROW_TENSOR && row->step == step && check_same_tensor(&row->tensor, tensor));
}

double
measure_gradient_square(const struct check_rows *rows, uint32_t step)
{
    double square = 0;
    EACH_ROW_OF(row, rows, CHECK_GRADIENT)
        square += row->step == step ? row->norms.reference * row->norms.reference : 0;
    return square;
}

/* Whether a gradient of the step is neither zero nor noise beside the others. */
static bool
item_tells(const struct check_evidence *evidence, const struct check_item *item, uint32_t step)
{
    const struct check_row *row = measure_row(&evidence->ranked[0], &item->tensor, step);
    double square = row != NULL ? row->norms.reference * row->norms.reference : 0;
    double all = measure_gradient_square(&evidence->ranked[0], step);
    return square > 0 && (square > 1e-6 * all || !isfinite(all));
}

/* Whether the item is a buffer that gradients depend on, by far less than it differs itself. */
static bool
explains(const struct check_item *buffer, const struct check_item *other)
{
    return buffer->tensor.role == CHECK_BUFFER && items_is_trained(other) && buffer->at_first > 1e3 * other->at_first;
}

/* Whether the item, and not `first`, is what differs first: it does so earlier, or at the same moment and explains
 * the other. What is trained explains what then differs in means, buffers and other memory. */
static bool
goes_before(const struct check_item *item, const struct check_item *first)
{
    if (first == NULL || item->moment < first->moment)
        return true;
    if (item->moment > first->moment || explains(first, item))
        return false;
    return (items_is_trained(item) && !items_is_trained(first)) || explains(item, first);
}

/* Whether the item's difference is shown, and no verdict: a result may have to depend on the number of ranks, and a
 * mean may be shown only. */
static bool
is_shown_only(const struct check_item *item)
{
    return item->tensor.role == CHECK_REDUCE || item->tensor.role == CHECK_MEAN;
}

/* How many tensors of each role there are, and differ at the moment of the first difference. */
static void
count_tensors(const struct check_evidence *evidence, const struct check_item *items, size_t count,
              struct pattern *pattern)
{
    uint32_t step = pattern->first != NULL ? pattern->first->first_step : 1;
    FOR_EACH(item, items, count) {
        uint32_t role = item->tensor.role;
        bool differs_then = item->differs && item->moment == pattern->moment;
        pattern->differing[role] += differs_then;
        if (role == CHECK_GRADIENT) /* of which zeros prove nothing */
            pattern->all[role] += differs_then || item_tells(evidence, item, step);
        else
            pattern->all[role] += item->differs || item->moved || role != CHECK_PARAMETER;
    }
}

struct pattern
pattern_find(const struct check_evidence *evidence, const struct check_item *items, size_t count)
{
    struct pattern pattern = {0};
    FOR_EACH(item, items, count) {
        if (!item->differs || is_shown_only(item))
            continue;
        ++pattern.ever[item->tensor.role];
        if (pattern.memory == NULL && check_is_in_place_of_parameter(&item->tensor))
            pattern.memory = item;
        if (goes_before(item, pattern.first)) {
            pattern.moment = item->moment;
            pattern.first = item;
        }
    }
    count_tensors(evidence, items, count, &pattern);
    return pattern;
}

bool
pattern_is_few(size_t differing, size_t all)
{
    return differing > 0 && all > 1 && (differing == 1 || 4 * differing <= all) && differing < all;
}
