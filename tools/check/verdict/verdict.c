/* verdict.c - see verdict.h and rows.h: of the rows that apply, the one of the earliest stage. */
#include "tools/check/verdict/rows.h"

const char *
check_cause_name(enum check_cause cause)
{
#define NAME(cause, name) name,
    static const char *const names[] = {CHECK_CAUSES(NAME)};
    return names[cause];
}

const struct verdict_row *const verdict_families[] = {
    verdict_rows_of_runs,   verdict_rows_of_ranks,     verdict_rows_of_rounds,  verdict_rows_of_equality,
    verdict_rows_of_memory, verdict_rows_of_gradients, verdict_rows_of_updates, NULL,
};

/* ---- the verdict ---- */

const struct verdict_row *
verdict_find_row(const struct check_facts *facts)
{
    const struct verdict_row *found = NULL;
    for (size_t family = 0; verdict_families[family] != NULL; ++family) {
        for (const struct verdict_row *row = verdict_families[family]; row->name != NULL; ++row) {
            bool is_earlier = found == NULL || row->stage < found->stage;
            if (is_earlier && row->applies(facts))
                found = row;
        }
    }
    return found;
}

/* A difference that was there a whole step before may be why ddprun ended the run. */
static void
add_stop(const struct check_facts *facts, struct check_verdict *verdict)
{
    if (facts->stopped != NULL && !facts->is_stopped_first)
        printable_append(verdict->text, sizeof(verdict->text),
                         "; in a later step ddprun ended the run, perhaps because of this: %.400s", facts->stopped);
}

void
verdict_judge(const struct check_facts *facts, struct check_verdict *verdict)
{
    const struct verdict_row *row = verdict_find_row(facts);
    *verdict = (struct check_verdict){.result = row->result,
                                      .cause = row->cause,
                                      .rule = row->name,
                                      .facts = facts,
                                      .first = row->about != NULL ? row->about(facts) : NULL,
                                      .factor = row->factor != NULL ? row->factor(facts) : 0,
                                      .is_precise = row->is_precise};
    if (row->say != NULL)
        row->say(facts, verdict->text);
    if (row->advise != NULL)
        row->advise(facts, verdict->advice);
    else if (row->advice != NULL)
        sentence_say(verdict->advice, "%s", row->advice);
    add_stop(facts, verdict);
}
