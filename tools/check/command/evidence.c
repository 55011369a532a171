/*
 * evidence.c - see evidence.h.
 */
#include "tools/check/command/evidence.h"

#include "launcher/common/xcalloc.h"

#include <stdlib.h>
#include <string.h>

void
check_rows_append(struct check_rows *rows, const char *results, int rank)
{
    size_t count;
    struct check_row *more = check_rows_load(results, rank, &count);
    if (more == NULL)
        return;
    rows->rows = xrealloc(rows->rows, (rows->count + count) * sizeof(*rows->rows));
    memcpy(rows->rows + rows->count, more, count * sizeof(*more));
    rows->count += count;
    free(more);
}

void
check_rows_free(struct check_rows *rows)
{
    free(rows->rows);
    *rows = (struct check_rows){0};
}

const struct check_row *
check_rows_find(const struct check_rows *rows, enum check_row_kind kind)
{
    for (size_t i = 0; i < rows->count; ++i) {
        if (rows->rows[i].kind == (uint32_t)kind)
            return &rows->rows[i];
    }
    return NULL;
}

bool
check_evidence_same_bits(const struct check_evidence *evidence)
{
    bool any = false;
    for (int r = 0; r < evidence->ranks; ++r) {
        for (size_t i = 0; i < evidence->ranked[r].count; ++i) {
            const struct check_row *row = &evidence->ranked[r].rows[i];
            if (row->kind == CHECK_ROW_TENSOR && !row->same_bits)
                return false;
            any = any || row->kind == CHECK_ROW_TENSOR;
        }
    }
    return any;
}

bool
check_evidence_is_forced(const struct check_evidence *evidence)
{
    return evidence->forced &&
           (evidence->ranks == 0 || check_rows_find(&evidence->ranked[0], CHECK_ROW_GRAPHS) == NULL);
}

bool
check_evidence_in_rounds(const struct check_evidence *evidence)
{
    return check_rows_find(evidence->ranks > 0 ? &evidence->ranked[0] : &evidence->alone, CHECK_ROW_ROUNDS) != NULL;
}

bool
check_evidence_weighs(const struct check_evidence *evidence)
{
    bool weighs = false;
    for (int r = 0; r < evidence->ranks; ++r)
        weighs = weighs || check_rows_find(&evidence->ranked[r], CHECK_ROW_WEIGHT) != NULL;
    return weighs;
}
