/* agreement.c - see measure.h. */
#include "tools/check/evidence/measure.h"

#include "launcher/common/xcalloc.h"
#include "tools/near/element.h"

static bool
has_hash(const struct check_row *row)
{
    return row->tensor.role != CHECK_REDUCE && row->value != 0;
}

/* Whether the tensor had the same bits in both runs of a rank, in all steps. */
static bool
is_repeated(const struct check_tensor *tensor, const struct check_rows *rows, const struct check_rows *again)
{
    EACH_ROW_OF(row, rows, tensor->role) {
        if (!check_same_tensor(&row->tensor, tensor))
            continue;
        const struct check_row *other = measure_row(again, tensor, row->step);
        if (other != NULL && other->value != row->value)
            return false;
    }
    return true;
}

/* Whether other bits of the tensor may be noise: an update that adds up in another order each time leaves other bits
 * on each rank, and on one rank in each run. What all ranks get from one sum, averages and the start, is the same
 * bits. */
static bool
is_noise(const struct check_evidence *evidence, const struct check_row *apart, int rank)
{
    const struct check_tensor *tensor = &apart->tensor;
    bool is_update = (tensor->role == CHECK_PARAMETER || tensor->role == CHECK_STATE) && apart->step > 1;
    for (int i = 0; is_update && i < CHECK_REPEATS && evidence->repeats[i] != NULL; ++i) {
        const struct check_rows *again = evidence->repeats[i];
        if (!is_repeated(tensor, &evidence->ranked[rank], &again[rank]) ||
            !is_repeated(tensor, &evidence->ranked[0], &again[0]))
            return true;
    }
    return false;
}

/* Whether noise of the tensor is seldom seen, so that two runs of a rank may well have the same bits by chance. A
 * tensor of 16 bits rounds nearly all noise away: what is left is an element now and then that lies between two
 * numbers, on either side of which each run falls. Of a tensor of few elements, too, all may come out alike. */
static bool
is_seldom_noisy(const struct check_tensor *tensor)
{
    enum { FEW_ELEMENTS = 64 };
    switch (tensor->type) {
    case ELEMENT_FLOAT16:
    case ELEMENT_BFLOAT16:
        return true;
    default:
        return tensor->count <= FEW_ELEMENTS;
    }
}

bool
agreement_wants_repeat(const struct check_evidence *evidence, const struct agreement *agreement)
{
    bool is_seldom = is_seldom_noisy(&agreement->row->tensor);
    return evidence->repeats[is_seldom ? CHECK_REPEATS - 1 : 0] == NULL;
}

/* The rows of a rank that have a hash, in order of tensor and step; malloc'ed. */
static const struct check_row **
sort_hashes(const struct check_rows *rows, size_t *count_p)
{
    const struct check_row **sorted = xcalloc(rows->count + 1, sizeof(struct check_row *));
    size_t count = 0;
    EACH_ROW(row, rows, CHECK_ROW_TENSOR) {
        if (has_hash(row))
            sorted[count++] = row;
    }
    qsort(sorted, count, sizeof(*sorted), items_compare_rows);
    *count_p = count;
    return sorted;
}

/* Whether rank 0 has other bits there. */
static bool
differs_from(const struct check_row *row, const struct check_row **sorted, size_t count)
{
    const struct check_row **same = bsearch(&row, sorted, count, sizeof(*sorted), items_compare_rows);
    return same != NULL && (*same)->value != row->value;
}

struct agreement
agreement_find(const struct check_evidence *evidence)
{
    struct agreement found = {0};
    size_t count;
    const struct check_row **sorted = sort_hashes(&evidence->ranked[0], &count);
    for (int r = 1; r < evidence->ranks; ++r) {
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_TENSOR) {
            unsigned moment = items_moment_of(row);
            bool is_earlier = found.moment == 0 || moment < found.moment;
            if (!has_hash(row) || !is_earlier || !differs_from(row, sorted, count))
                continue;
            if (!is_noise(evidence, row, r))
                found = (struct agreement){.moment = moment, .row = row, .rank = r};
        }
    }
    free(sorted);
    return found;
}
