/* seeded.c - see verdict.h. */

#include "tools/check/command/pattern.h"

#include <stdio.h>
#include <string.h>

static const double least_change = 1e-3; /* relative, of one rank's data by another date */

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
    for (const struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        if (item->differs && is_used(item) && (first == NULL || item->moment < first->moment))
            first = item;
    }
    return first;
}

/* The run with dates of their own, judged as the run with one date was. */
static enum check_result
judge_apart(const struct check_evidence *evidence, int which, struct check_verdict *verdict,
            struct check_wishes *wishes)
{
    struct check_evidence apart = *evidence;
    struct check_wishes own;
    apart.once = evidence->ranked;
    apart.ranked = evidence->apart[which];
    memcpy(apart.stopped, evidence->apart_stopped[which], sizeof(apart.stopped));
    check_judge(&apart, verdict, &own);
    wishes->twice = wishes->twice || own.twice;
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
    char what[600] = "the ranks differ from each other";
    const struct check_item *first = find_used(verdict);
    if (first != NULL)
        (void)sentence_place(evidence, verdict, first, what);
    sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_SEEDED, first);
    sentence_say(verdict->text, "%s if each rank has %s, and not if all have the same: seeded by %s, read by %s", what,
                 others_of(evidence), sources_of(evidence), evidence->reading_places);
    sentence_say(verdict->advice,
                 "use one seed on all ranks, a constant or an option: each rank has its own clock and random bytes, "
                 "and ranks with different seeds take other items, or items in another order");
}

/* Gradients differ in a way in which they also do where each rank draws random numbers for its items. */
static bool
may_be_random(const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    const struct check_item *first = verdict->first;
    if (verdict->result != CHECK_DIFFERENT || first == NULL || first->tensor.role != CHECK_GRADIENT)
        return false;
    return verdict->cause == CAUSE_DIRECTION ||
           (verdict->cause == CAUSE_SCALE && factor_meaning(evidence, verdict->factor)[0] == '\0') ||
           ((verdict->cause == CAUSE_TENSOR || verdict->cause == CAUSE_UPDATE) && first->first_step > 1);
}

/* Where one rank computes something else with another date, that ranks do proves nothing. */
static void
judge_later(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes)
{
    wishes->later = evidence->later.count == 0;
    if (wishes->later || !(pattern_worst(evidence, &evidence->later) > fmax(least_change, evidence->tolerance)))
        return;
    wishes->plain = false;
    wishes->factor = 0;
    char place[600];
    sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_SEEDED, verdict->first);
    sentence_say(verdict->text, "%s; one rank with %s differs, too: read by %s",
                 sentence_place(evidence, verdict, verdict->first, place), others_of(evidence),
                 evidence->reading_places);
    sentence_say(verdict->advice,
                 "seed by a constant or an option, the same on all ranks, and check again: a shuffle whose seed "
                 "differs between ranks is a mistake; switch off random numbers for single items");
}

void
seeded_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes)
{
    check_judge(evidence, verdict, wishes);
    if (!evidence->grows)
        carried_judge(evidence, verdict, wishes);
    if (evidence->readings != 0 && may_be_random(evidence, verdict))
        judge_later(evidence, verdict, wishes);
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
        enum check_result here = judge_apart(evidence, which, &apart, wishes);
        result = here == CHECK_DIFFERENT ? result : here;
    }
    if (result == CHECK_EQUAL) {
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
