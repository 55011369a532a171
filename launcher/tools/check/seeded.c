/*
 * seeded.c - see seeded.h.
 */
#include "launcher/tools/check/seeded.h"

#include "base/mutant.h"
#include "launcher/tools/check/items.h"
#include "launcher/tools/check/sentence.h"

#include <stdio.h>
#include <string.h>

/* What a date may change and training does not use: a mean that the program prints, memory that nothing reads. */
static bool
is_used(const struct check_item *item)
{
    return item->tensor.role != CHECK_MEAN && item->tensor.role != CHECK_MEMORY;
}

/* The worst that differs of what is used; NULL: nothing. */
static const struct check_item *
find_used(const struct check_verdict *verdict)
{
    const struct check_item *first = NULL;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        if (item->differs && is_used(item) && (first == NULL || item->moment < first->moment))
            first = item;
    }
    return first;
}

/* The run with dates of their own, judged as the run with one date was. */
static enum check_result
judge_apart(const struct check_evidence *evidence, int which, struct check_verdict *verdict)
{
    struct check_evidence apart = *evidence;
    struct check_wishes wishes;
    apart.ranked = evidence->apart[which];
    memcpy(apart.stopped, evidence->apart_stopped[which], sizeof(apart.stopped));
    check_judge(&apart, verdict, &wishes);
    bool differs = verdict->result == CHECK_DIFFERENT &&
                   (find_used(verdict) != NULL || (verdict->cause == CAUSE_RANKS && verdict->first == NULL) ||
                    (verdict->cause == CAUSE_RANKS && is_used(verdict->first)));
    if (differs)
        return CHECK_DIFFERENT;
    return verdict->cause == CAUSE_STOPPED || verdict->result == CHECK_NOT_COMPARABLE ? CHECK_NOT_COMPARABLE
                                                                                      : CHECK_EQUAL;
}

/* What the program reads, and what each rank then has of its own. */
static const char *
sources_of(const struct check_evidence *evidence)
{
    static const char *const names[] = {"", "the clock", "random bytes", "the clock or random bytes"};
    return names[evidence->readings];
}

static const char *
others_of(const struct check_evidence *evidence)
{
    static const char *const names[] = {"", "another date", "other random bytes",
                                        "another date and other random bytes"};
    return names[evidence->readings];
}

static void
say_different(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    char name[400], ranks[48], what[600] = "the ranks differ from each other";
    const struct check_item *first = find_used(verdict);
    if (first != NULL)
        snprintf(what, sizeof(what), "%s differs from one rank's in step %u %s, by %.2g",
                 sentence_name_item(verdict, first, name), items_step(first),
                 sentence_name_ranks(evidence, first, ranks), first->difference);
    sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_SEEDED, first);
    sentence_say(verdict->text,
                 "seeded by %s: if each rank has %s, %s, and if all have the same nothing differs; read by %s",
                 sources_of(evidence), others_of(evidence), what, evidence->reading_places);
    sentence_say(verdict->advice,
                 "seed by a constant or an option, the same on all ranks: ranks are processes, whose clocks and random "
                 "bytes differ, and with other seeds they take other items, or items in another order");
}

void
seeded_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes)
{
    check_judge(evidence, verdict, wishes);
    size_t length = strlen(verdict->advice);
    if (verdict->cause == CAUSE_NOT_REPEATABLE && evidence->readings != 0)
        snprintf(verdict->advice + length, sizeof(verdict->advice) - length, "; %s: read by %s", sources_of(evidence),
                 evidence->reading_places);
    if (verdict->result != CHECK_EQUAL || evidence->readings == 0)
        return;
    struct check_verdict apart = {.result = CHECK_EQUAL};
    enum check_result result = CHECK_DIFFERENT;
    for (int which = 0; which < 2 && result != CHECK_EQUAL; ++which) {
        if (evidence->apart[which] == NULL) {
            wishes->apart = which + 1;
            check_verdict_free(&apart);
            return;
        }
        check_verdict_free(&apart);
        enum check_result here = judge_apart(evidence, which, &apart);
        result = here == CHECK_DIFFERENT ? result : here;
    }
    if (result == CHECK_EQUAL || MUTANT(CHECK_APART_EQUAL)) {
        check_verdict_free(&apart);
        return;
    }
    check_verdict_free(verdict);
    *verdict = apart;
    if (result == CHECK_DIFFERENT) {
        say_different(evidence, verdict);
        return;
    }
    char why[600];
    snprintf(why, sizeof(why), "%.500s", verdict->text);
    sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_SEEDED, NULL);
    sentence_say(verdict->text, "it is not known whether the data depend on %s, read by %s: if each rank has %s, %s",
                 sources_of(evidence), evidence->reading_places, others_of(evidence), why);
    sentence_say(verdict->advice, "seed by a constant or an option, the same on all ranks, for the check at least");
}
