/* carried.c - see verdict.h. What the host keeps and trains, and each rank copies to the device. */
#include "tools/check/command/pattern.h"

enum { PLACE_BYTES = 300 };

/* Where in the source a call site stands that copies to the device. Returns `text`. */
static const char *
name_site(const struct check_evidence *evidence, uint64_t site, char text[PLACE_BYTES])
{
    snprintf(text, PLACE_BYTES, "?");
    for (int r = 0; r < evidence->ranks; ++r)
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_SITE)
            if (row->value == site)
                return place_name(row->text, text, PLACE_BYTES);
    return text;
}

/* What the rows have of the call site in the step, 0: of other values than one rank's in any; NULL: nothing. */
static const struct check_copies *
find_of_site(const struct check_rows *rows, uint64_t site, uint32_t step)
{
    EACH_ROW(row, rows, CHECK_ROW_COPY) {
        bool is_then = step == 0 ? row->copy.own.values != row->copy.whole.values : row->step == step;
        if (row->copy.own.site == site && is_then)
            return &row->copy.own;
    }
    return NULL;
}

/* What one rank copies there is the same in each run, and changes with the parameters, as far as that is known. */
static bool
is_computed(const struct check_evidence *evidence, uint64_t site)
{
    bool is_data = evidence->far.count > 0 && find_of_site(&evidence->far, site, 0) == NULL;
    return find_of_site(&evidence->again, site, 0) == NULL && !is_data;
}

/* The first copy that has other values on a rank than on rank 0, and as many bytes as on one rank; NULL: none. */
static const struct check_row *
find_carried(const struct check_evidence *evidence, int *rank_p)
{
    for (int r = 1; r < evidence->ranks; ++r) {
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_COPY) {
            const struct check_copies *mine = &row->copy.own,
                                      *first = find_of_site(&evidence->ranked[0], mine->site, row->step);
            *rank_p = r;
            if (mine->bytes == row->copy.whole.bytes && first != NULL && first->bytes == mine->bytes &&
                first->values != mine->values && is_computed(evidence, mine->site))
                return row;
        }
    }
    return NULL;
}

void
carried_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes)
{
    int rank;
    char place[PLACE_BYTES];
    const struct check_row *row = verdict->result == CHECK_EQUAL ? find_carried(evidence, &rank) : NULL;
    if (row == NULL)
        return;
    wishes->far = evidence->far.count == 0;
    sentence_conclude(
        verdict, CHECK_NOT_COMPARABLE, CAUSE_CARRIED, NULL,
        "if the host updates this memory, as a weight or an optimizer's state: annotate it with DDP_PARAMETER "
        "and its gradient with DDP_GRADIENT, or with DDP_STATE; if each rank has its own values there on "
        "purpose, such as the loss of its share, the program is right",
        "gradients and parameters are equal, but in step %u rank %d copies %llu bytes of the host's memory to "
        "the device at %s whose bits differ from rank 0's, %s",
        row->step, rank, (unsigned long long)row->copy.own.bytes, name_site(evidence, row->copy.own.site, place),
        evidence->far.count > 0 ? "and these bytes depend on the parameters: each rank trains its own copy"
                                : "and it is not known whether these bytes depend on the parameters");
}
