/*
 * agreement.c - see evidence.h.
 */
#include "tools/check/command/evidence.h"

#include "base/mutant.h"
#include "launcher/common/xcalloc.h"
#include "tools/check/command/verdict.h"

#include <stdlib.h>

static bool
has_hash(const struct check_row *row)
{
    return row->tensor.role != CHECK_REDUCE && row->value != 0;
}

struct agreement
agreement_find(const struct check_evidence *evidence)
{
    struct agreement found = {0};
    const struct check_rows *zero = &evidence->ranked[0];
    const struct check_row **sorted = xcalloc(zero->count + 1, sizeof(struct check_row *)), *row = NULL;
    size_t count = 0;
    while ((row = check_rows_next(zero, CHECK_ROW_TENSOR, row)) != NULL) {
        sorted[count] = row;
        count += has_hash(row);
    }
    qsort(sorted, count, sizeof(*sorted), items_compare_rows);
    for (int r = 1; r < evidence->ranks && !MUTANT(CHECK_RANKS_APART); ++r) {
        while ((row = check_rows_next(&evidence->ranked[r], CHECK_ROW_TENSOR, row)) != NULL) {
            const struct check_row **same =
                has_hash(row) && count > 0 ? bsearch(&row, sorted, count, sizeof(*sorted), items_compare_rows) : NULL;
            unsigned moment = items_moment_of(row);
            if (same == NULL || (*same)->value == row->value || (found.moment != 0 && found.moment <= moment))
                continue;
            found = (struct agreement){.moment = moment, .row = row, .rank = r};
        }
    }
    free(sorted);
    return found;
}
