/* shares.c - see measure.h. */
#include "tools/check/evidence/measure.h"

#include "tools/common/each.h"

/* Whether a rank has passed to DDP_REDUCE in that round what rank 0 has. */
static bool
has_passed(const struct check_rows *rows, const struct check_row *first)
{
    return ANY(row, rows->rows, rows->count,
               row->kind == CHECK_ROW_OWN && row->step == first->step && row->value == first->value);
}

bool
shares_are_one_batch(const struct check_evidence *evidence)
{
    bool any = false;
    if (!check_evidence_in_rounds(evidence))
        return evidence->is_same_data;
    EACH_ROW(first, &evidence->ranked[0], CHECK_ROW_OWN) {
        for (int r = 1; r < evidence->ranks; ++r) {
            if (!has_passed(&evidence->ranked[r], first))
                return false;
            any = true;
        }
    }
    return any;
}

bool
shares_are_whole_batches(const struct check_evidence *evidence)
{
    enum { LEAST_BYTES = 1024 };
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_COPIED);
    const struct check_row *shared = check_rows_find(&evidence->ranked[0], CHECK_ROW_SHARD);
    const struct check_row *whole = check_rows_find(&evidence->alone, CHECK_ROW_SHARD);
    if (evidence->ranks < 2)
        return false;
    if (shared != NULL)
        return whole != NULL && shared->value == whole->value * (uint64_t)evidence->ranks;
    if (alone == NULL || alone->value < LEAST_BYTES)
        return false;
    for (int r = 0; r < evidence->ranks; ++r) {
        const struct check_row *row = check_rows_find(&evidence->ranked[r], CHECK_ROW_COPIED);
        if (row == NULL || (double)row->value < 0.95 * (double)alone->value)
            return false;
    }
    return true;
}

uint64_t
shares_uneven_items(const struct check_evidence *evidence, uint32_t step)
{
    EACH_ROW(row, &evidence->ranked[0], CHECK_ROW_SHARD) {
        if (row->uneven && row->step + 1 == step)
            return row->value;
    }
    return 0;
}
