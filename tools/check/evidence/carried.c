/* carried.c - see measure.h. What the host keeps and trains, and each rank copies to the device. */
#include "tools/check/evidence/measure.h"

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

/* Whether what one process copies there is the same in each run, and changes with the parameters, as far as that is
 * known. */
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

/* The frames of a call site that copies to the device; NULL: not known. */
static const char *
find_frames(const struct check_evidence *evidence, uint64_t site)
{
    for (int r = 0; r < evidence->ranks; ++r)
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_SITE)
            if (row->value == site)
                return row->text;
    return NULL;
}

struct facts_carried
carried_find(const struct check_evidence *evidence)
{
    int rank;
    const struct check_row *row = find_carried(evidence, &rank);
    struct facts_carried found = {.place = "?"};
    if (row == NULL)
        return found;
    found.bytes = row->copy.own.bytes;
    found.step = row->step;
    found.rank = rank;
    found.is_trained = evidence->far.count > 0;
    found.frames = find_frames(evidence, row->copy.own.site);
    return found;
}
