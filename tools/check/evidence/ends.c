/* ends.c - see measure.h. */
#include "tools/check/evidence/measure.h"

bool
ends_after_difference(const struct check_evidence *evidence, unsigned moment)
{
    unsigned last = 0;
    for (int r = 0; r < evidence->ranks; ++r) {
        EACH_ROW_OF(row, &evidence->ranked[r], CHECK_PARAMETER)
            last = items_moment_of(row) > last ? items_moment_of(row) : last;
    }
    return moment != 0 && moment < last;
}

const char *
ends_alarm(const struct check_evidence *evidence)
{
    for (int r = 0; r < evidence->ranks; ++r) {
        const struct check_row *alarm = check_rows_find(&evidence->ranked[r], CHECK_ROW_ALARM);
        if (alarm != NULL)
            return alarm->text;
    }
    return NULL;
}

int
ends_rank_that_continues(const struct check_evidence *evidence)
{
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_END),
                           *again = check_rows_find(&evidence->again, CHECK_ROW_END);
    if (check_evidence_takes_turns(evidence)) /* a mean of ranks' losses is not that of one process: turns.c */
        return -1;
    if (alone == NULL || again == NULL || alone->step != again->step)
        return -1;
    if (alone->value != 0 || again->value != 0)
        return -1;
    for (int r = 0; r < evidence->ranks; ++r) {
        const struct check_row *end = check_rows_find(&evidence->ranked[r], CHECK_ROW_END);
        if (end != NULL && end->value != 0 && end->step >= alone->step)
            return r;
    }
    return -1;
}

const struct check_row *
ends_endless(const struct check_evidence *evidence, unsigned moment)
{
    const struct check_row *first = NULL;
    EACH_ROW(row, &evidence->alone, CHECK_ROW_ENDLESS) {
        if (row->step > 1 && (first == NULL || row->step < first->step))
            first = row;
    }
    if (first == NULL)
        return NULL;
    return moment == 0 || moment >= items_moment(CHECK_PARAMETER, first->step) ? first : NULL;
}
