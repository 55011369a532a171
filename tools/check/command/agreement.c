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
    return row->kind == CHECK_ROW_TENSOR && row->tensor.role != CHECK_REDUCE && row->value != 0;
}

struct agreement
agreement_find(const struct check_evidence *evidence)
{
    struct agreement found = {0};
    const struct check_rows *zero = &evidence->ranked[0];
    const struct check_row **sorted = xcalloc(zero->count + 1, sizeof(struct check_row *));
    size_t count = 0;
    for (size_t i = 0; i < zero->count; ++i) {
        if (has_hash(&zero->rows[i]))
            sorted[count++] = &zero->rows[i];
    }
    qsort(sorted, count, sizeof(*sorted), items_compare_rows);
    for (int r = 1; r < evidence->ranks && !MUTANT(CHECK_RANKS_APART); ++r) {
        for (size_t i = 0; i < evidence->ranked[r].count; ++i) {
            const struct check_row *row = &evidence->ranked[r].rows[i];
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
