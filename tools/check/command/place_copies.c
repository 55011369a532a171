/*
 * place_copies.c - is a copy from the host the place (place.h)? What the ranks copy by one call must be their shares of
 * what the one rank copies by it.
 */
#include "tools/check/command/relation.h"

#include "tools/check/place/rows.h"

/* Each rank's copies begin in one place of the batch: the first rank whose share, after those of the ranks before it,
 * begins in another. In bytes, or in items. */
struct astray {
    int rank;               /* -1: there is no such rank, or the shares are not one batch */
    bool follows, in_items; /* follows: each begins where the one before ends */
    uint64_t begin, share, count, together, all;
};

/* The least of what the ranks copy by the call. */
static enum copied
judge_copies(const struct finding *finding, size_t at, struct astray *astray)
{
    enum copied least = COPIED_PART;
    bool begins = true;
    struct part part = {0};
    *astray = (struct astray){.rank = -1};
    for (int r = 0; r < finding->question->ranks; ++r) {
        enum copied own = relation_of_copies(finding, at, r, &part);
        uint64_t unit = part.layers > 1 ? part.each : 1;
        least = own < least ? own : least;
        begins = begins && part.begins;
        if (astray->rank < 0 && part.begin != astray->together * unit)
            *astray = (struct astray){r, .begin = part.begin / unit, .share = astray->together,
                                      .count = part.bytes / unit, .together = astray->together};
        astray->together += part.bytes / unit;
        astray->all = part.all / unit;
        astray->in_items = unit > 1;
    }
    astray->follows = begins && astray->rank < 0;
    astray->rank = begins && astray->together == astray->all ? astray->rank : -1;
    return least;
}

bool
place_has_rank_0_its_share(const struct finding *finding, size_t at)
{
    struct part part;
    bool has = relation_of_copies(finding, at, 0, &part) == COPIED_PART && part.begins && part.begin == 0;
    return has &&
           ALL_NUMBERS(r, 1, finding->question->ranks, relation_of_copies(finding, at, (int)r, &part) != COPIED_PART);
}

/* Whether the ranks' copies by the same call are in the same relation to one process's in the next step, or the call
 * does not come there: random numbers are other ones then. */
static bool
are_so_later(const struct finding *finding, size_t at, enum copied copied)
{
    const struct look_operation *its = finding->one.operations[at].header;
    struct astray astray;
    while (++at < finding->one.count) {
        const struct look_operation *it = finding->one.operations[at].header;
        if (it->interval == its->interval + 1 && relation_is_same_call(it, its))
            return judge_copies(finding, at, &astray) >= copied;
    }
    return true;
}

/* Items of the batch or of others, which are not the ranks' shares; false: values that one rank never copies. */
static bool
say_items(const struct finding *finding, size_t at)
{
    struct astray astray;
    struct part part = {0};
    const struct looked_operation *op = &finding->one.operations[at];
    enum copied copied = judge_copies(finding, at, &astray);
    /* Each copy of a rank is as large as a share, and they are not as many: it leaves out batches. */
    for (int r = 0; r < finding->question->ranks; ++r) {
        (void)relation_of_copies(finding, at, r, &part);
        if (part.copies != part.all_copies && part.copies != 0 &&
            part.bytes * part.all_copies * (uint64_t)finding->question->ranks == part.all * part.copies)
            return place_say(finding, PLACE_MISSING, op, NULL, place_same_decision,
                             "between two DDP_STEPs rank %d makes it %llu time%s, and one process %llu", r,
                             (unsigned long long)part.copies, part.copies == 1 ? "" : "s",
                             (unsigned long long)part.all_copies);
    }
    if (copied == COPIED_OTHERS || !are_so_later(finding, at, copied))
        return false;
    const char *unit = astray.in_items ? "item" : "byte";
    if (astray.rank >= 0)
        place_say(finding, PLACE_DATA, op, NULL,
                  "together the ranks must copy each item of the batch once: begin at item `first` of DDP_SHARD, copy "
                  "`count` items, and use the same shuffle on all ranks",
                  "of the %llu %ss that one process copies here, rank %d copies %llu from %s %llu on, but its share "
                  "begins at %s %llu",
                  (unsigned long long)astray.all, unit, astray.rank, (unsigned long long)astray.count, unit,
                  (unsigned long long)astray.begin, unit, (unsigned long long)astray.share);
    else if (astray.follows && astray.together < astray.all)
        place_say(finding, PLACE_DATA, op, NULL,
                  "the ranks leave out items that one process computes: share out all of them (DDP_SHARD), and weigh "
                  "unequal shares (DDP_WEIGHT); or leave them out in one process, too",
                  "of the %llu %ss that one process copies here, all ranks together copy the first %llu",
                  (unsigned long long)astray.all, unit, (unsigned long long)astray.together);
    else if (place_has_rank_0_its_share(finding, at))
        place_say(finding, PLACE_DATA, op, NULL, place_read_checkpoint,
                  "rank 0 copies its share of the batch, and the other ranks copy other items; one process copies "
                  "these items elsewhere in the batch, or in another step");
    else
        place_say(
            finding, PLACE_DATA, op, NULL,
            "use the same shuffle and the same seed on all ranks, and advance by the whole batch. The choice of items "
            "must not depend on the rank or its share; average a value of the share first (DDP_MEAN, DDP_REDUCE). If "
            "each rank reads its own part of the data set, check with a data set of one batch",
            "a rank copies other items than its share of the batch; one process copies these items elsewhere in the "
            "batch, or in another step");
    return true;
}

bool
place_copies_whole(const struct finding *finding, size_t at)
{
    struct part part;
    return ALL_NUMBERS(r, 0, finding->question->ranks,
                       ((void)relation_of_copies(finding, at, r, &part), part.bytes == part.all));
}

bool
place_say_items(const struct finding *finding, size_t at)
{
    for (struct where where = {.operation = at, .after = true}; where.operation < finding->one.count;
         ++where.operation) {
        const struct look_operation *its = finding->one.operations[where.operation].header;
        bool may_be = its->from_host && its->interval == finding->question->interval &&
                      (finding->matters[where.operation] & MATTERS_ALL) != 0 &&
                      !place_copies_whole(finding, where.operation);
        if (may_be && relation_of(finding, &where) == RELATION_NONE && say_items(finding, where.operation))
            return true;
    }
    return false;
}
