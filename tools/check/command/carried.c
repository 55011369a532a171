/*
 * carried.c - see verdict.h.
 */
#include "tools/check/command/verdict.h"

#include "base/mutant.h"
#include "tools/check/command/pattern.h"

/* What the rows have of the call site in the step, 0: of other values than one rank's in any; NULL: nothing. */
static const struct check_copy *
find_copy(const struct check_rows *rows, uint64_t site, uint32_t step)
{
    const struct check_row *row = NULL;
    do
        row = check_rows_next(rows, CHECK_ROW_COPY, row);
    while (row != NULL &&
           (row->copy.site != site || (step == 0 ? row->copy.values == row->copy.whole_values : row->step != step)));
    return row != NULL ? &row->copy : NULL;
}

/* What one rank copies there is the same in each run, and changes with the parameters, as far as that is known. */
static bool
is_computed(const struct check_evidence *evidence, uint64_t site)
{
    bool is_data = evidence->far.count > 0 && find_copy(&evidence->far, site, 0) == NULL;
    return find_copy(&evidence->again, site, 0) == NULL && (!is_data || MUTANT(CHECK_CARRIED_DATA));
}

/* The first copy that has other values on a rank than on rank 0, and as many bytes as on one rank; NULL: none. */
static const struct check_row *
find_carried(const struct check_evidence *evidence, int *rank_p)
{
    for (int r = 1; r < evidence->ranks && !MUTANT(CHECK_CARRIED_UNSEEN); ++r) {
        const struct check_row *row = NULL;
        while ((row = check_rows_next(&evidence->ranked[r], CHECK_ROW_COPY, row)) != NULL) {
            const struct check_copy *mine = &row->copy, *first = find_copy(&evidence->ranked[0], mine->site, row->step);
            *rank_p = r;
            if (mine->bytes == mine->whole && first != NULL && first->bytes == mine->bytes &&
                first->values != mine->values && is_computed(evidence, mine->site))
                return row;
        }
    }
    return NULL;
}

const struct check_row *
carried_find_other(const struct check_evidence *evidence, uint32_t step, int *rank_p)
{
    for (int r = 0; r < evidence->ranks && !MUTANT(CHECK_CARRIED_UNSEEN); ++r) {
        const struct check_row *row = NULL;
        while ((row = check_rows_next(&evidence->ranked[r], CHECK_ROW_COPY, row)) != NULL) {
            const struct check_copy *mine = &row->copy;
            *rank_p = r;
            if (row->step <= step && mine->bytes == mine->whole && mine->values != 0 &&
                mine->values != mine->whole_values)
                return row;
        }
    }
    return NULL;
}

void
carried_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes)
{
    int rank;
    char place[DATA_PLACE_BYTES];
    const struct check_row *row = verdict->result == CHECK_EQUAL ? find_carried(evidence, &rank) : NULL;
    if (row == NULL)
        return;
    wishes->far = evidence->far.count == 0;
    sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_CARRIED, NULL);
    sentence_say(verdict->text,
                 "gradients and parameters are equal, but in step %u rank %d copies %llu bytes of the host's memory to "
                 "the device at %s that do not have the same bits on rank 0, %s",
                 row->step, rank, (unsigned long long)row->copy.bytes, data_name_site(evidence, row->copy.site, place),
                 evidence->far.count > 0 ? "and that depend on the parameters: each rank trains its own"
                                         : "and it is not known whether they depend on the parameters");
    sentence_say(verdict->advice, "if the host updates this memory, as a weight or an optimizer's state: annotate it "
                                  "with DDP_PARAMETER and its gradient with DDP_GRADIENT, or with DDP_STATE; the "
                                  "program is right if each rank is to have its own there, as the loss of its share");
}
