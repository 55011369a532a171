/* seeded.c - see verdict.h, and rows.h: where the program reads the clock or random bytes. */
#include "tools/check/verdict/rows.h"

static const char *const sources[] = {"", "the clock", "random bytes", "the clock or random bytes"};

void
seeded_add_readings(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (facts->readings != 0)
        printable_append(text, VERDICT_BYTES, "; %s: read by %s", sources[facts->readings], facts->reading_places);
}

void
verdict_say_seeded(struct check_verdict *verdict)
{
    static const char *const others[] = {"", "another date", "other random bytes",
                                         "another date and other random bytes"};
    const struct check_facts *facts = verdict->facts;
    char old[600];
    if (verdict->first != NULL && verdict->first->differs)
        (void)sentence_place(facts, verdict->first, old);
    else
        snprintf(old, sizeof(old), "%.420s", verdict->text);
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_SEEDED, verdict->first,
        "use one seed on all ranks, a constant or an option: clocks and random bytes differ between ranks, "
        "and ranks with different seeds take other items, or items in another order",
        "%s if each rank has %s, and is equal if all ranks have the same: the seed comes from %s, read by %s", old,
        others[facts->readings], sources[facts->readings], facts->reading_places);
}
