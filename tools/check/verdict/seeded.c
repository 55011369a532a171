/* seeded.c - see verdict.h, and rows.h: where the program reads the clock or random bytes. */
#include "tools/check/verdict/rows.h"

static const char *const sources[] = {"", "the clock", "random bytes", "the clock or random bytes"};

void
seeded_add_readings(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (facts->readings != 0)
        printable_append(text, VERDICT_BYTES, "; %s: read by %s", sources[facts->readings], facts->reading_places);
}

const char *
seeded_source(const struct check_facts *facts)
{
    return sources[facts->readings];
}

static const char one_seed[] =
    "use one seed on all ranks, a constant or an option: clocks and random bytes differ between ranks, and ranks with "
    "different seeds take other items, or items in another order";

/* What each rank has of its own in the run: "another date", "other random bytes" or both. */
static const char *
other_than(const struct check_facts *facts)
{
    static const char *const others[] = {"", "another date", "other random bytes",
                                         "another date and other random bytes"};
    return others[facts->readings];
}

/* Whether the verdict is on annotated memory, or memory that is to be annotated: that may start from any seed, for
 * its ranks take rank 0's. */
static bool
is_of_annotation(const struct check_verdict *verdict)
{
    return verdict->cause == CAUSE_START || verdict->cause == CAUSE_UNANNOTATED;
}

void
verdict_say_seeded(struct check_verdict *verdict, bool is_all)
{
    const struct check_facts *facts = verdict->facts;
    char old[600];
    if (is_all && is_of_annotation(verdict)) {
        printable_append(verdict->text, sizeof(verdict->text), "; its values come from %s, read by %s",
                         seeded_source(facts), facts->reading_places);
        return;
    }
    if (verdict->first != NULL && verdict->first->differs)
        (void)sentence_place(facts, verdict->first, old);
    else
        snprintf(old, sizeof(old), "%.420s", verdict->text);
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_SEEDED, verdict->first, one_seed,
        "%s if each rank has %s, and is %s if all ranks have the same: the seed comes from %s, read by %s", old,
        other_than(facts), is_all ? "equal" : "not so", seeded_source(facts), facts->reading_places);
}

void
verdict_add(struct check_verdict *verdict, const struct check_verdict *other)
{
    if (verdict->also_count == VERDICT_ALSO_MOST)
        return;
    struct verdict_also *also = &verdict->also[verdict->also_count++];
    sentence_say(also->text, "%s", other->text);
    sentence_say(also->advice, "%s", other->advice);
    if (other->result == CHECK_DIFFERENT) /* also beside what cannot be compared */
        verdict->result = CHECK_DIFFERENT;
}
