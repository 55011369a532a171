/* evidence.c - see evidence.h: the rows that runs have left, and what they say of the check as a whole. */
#include "tools/check/evidence/evidence.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"

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
    return check_rows_next(rows, kind, NULL);
}

const struct check_row *
check_rows_next(const struct check_rows *rows, enum check_row_kind kind, const struct check_row *row)
{
    row = row != NULL ? row + 1 : rows->rows;
    return FIND(it, row, rows->rows + rows->count - row, it->kind == (uint32_t)kind);
}

const struct check_row *
check_rows_next_of(const struct check_rows *rows, enum check_role role, const struct check_row *row)
{
    do
        row = check_rows_next(rows, CHECK_ROW_TENSOR, row);
    while (row != NULL && row->tensor.role != (uint32_t)role);
    return row;
}

bool
check_same_tensor(const struct check_tensor *tensor, const struct check_tensor *other)
{
    bool is_call = tensor->role == CHECK_MEAN; /* of which each has a number: all of one place are one */
    return tensor->role == other->role &&
           (is_call ? tensor->line == other->line && strcmp(tensor->text, other->text) == 0
                    : tensor->number == other->number);
}

bool
check_evidence_same_bits(const struct check_evidence *evidence)
{
    return ANY(rows, evidence->ranked, evidence->ranks, check_rows_find(rows, CHECK_ROW_TENSOR) != NULL) &&
           !ANY(rows, evidence->ranked, evidence->ranks,
                ANY(row, rows->rows, rows->count, row->kind == CHECK_ROW_TENSOR && !row->same_bits));
}

double
check_evidence_units(const struct check_evidence *evidence)
{
    bool is_any =
        ANY(row, evidence->again.rows, evidence->again.count, /* order of parts that are added */
            row->kind == CHECK_ROW_TENSOR && row->tensor.role == CHECK_PARAMETER && row->of_change && !row->same_bits);
    return is_any ? 8 : 1;
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
check_evidence_takes_turns(const struct check_evidence *evidence)
{
    return check_rows_find(evidence->ranks > 0 ? &evidence->ranked[0] : &evidence->alone, CHECK_ROW_TURNS) != NULL;
}

bool
check_evidence_trains_after(const struct check_row *after)
{
    enum { TIMES = 3 };
    const double usual = after->norms.reference;
    if (usual == 0 && after->tensor.role == CHECK_PARAMETER) /* its updates between DDP_STEPs were not counted */
        return false;
    return after->norms.own >= TIMES * (usual > 0 ? usual : 1);
}

bool
check_evidence_weighs(const struct check_evidence *evidence)
{
    return ANY(rows, evidence->ranked, evidence->ranks, check_rows_find(rows, CHECK_ROW_WEIGHT) != NULL);
}
