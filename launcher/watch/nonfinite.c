/* nonfinite.c - see verdict.h. */
#include "launcher/watch/verdict.h"

#include <inttypes.h>
#include <stdio.h>

#define PATIENCE_NS UINT64_C(10000000000)

enum { LOOKS_ENOUGH = 2 };

struct nonfinite_first
nonfinite_first(const struct rank_view *ranks, int count)
{
    struct nonfinite_first first = {.rank = -1};
    for (int i = 0; i < count; ++i) {
        if (ranks[i].nonfinite == RANK_NONFINITE_NONE)
            continue;
        first.stays = first.stays || ranks[i].nonfinite >= RANK_NONFINITE_STAYS;
        if (first.rank < 0 || ranks[i].nonfinite_step < ranks[first.rank].nonfinite_step) {
            first.rank = i;
            first.ranks = 0;
        }
        first.ranks += ranks[i].nonfinite_step == ranks[first.rank].nonfinite_step;
    }
    return first;
}

/* Whether a rank ends the job for what it has found: then the reason of the end says it. */
static bool
is_reason(const struct rank_view *ranks, int count)
{
    for (int i = 0; i < count; ++i) {
        if (ranks[i].nonfinite == RANK_NONFINITE_ENDS)
            return true;
    }
    return false;
}

bool
nonfinite_text(const struct rank_view *ranks, int count, bool failed, char text[NONFINITE_TEXT_BYTES])
{
    struct nonfinite_first first = nonfinite_first(ranks, count);
    if (first.rank < 0 || !(first.stays || failed))
        return false;
    const struct rank_view *rank = &ranks[first.rank];
    if (first.ranks == 1)
        snprintf(text, NONFINITE_TEXT_BYTES,
                 "rank %d: %s in step %" PRIu64 ", before averaging; the other ranks have none up to then: check the "
                 "data of this rank in that step, then its computation",
                 first.rank, rank->nonfinite_what, rank->nonfinite_step);
    else
        snprintf(
            text, NONFINITE_TEXT_BYTES,
            "rank %d: %s in step %" PRIu64 ", before averaging; %d of %d ranks have infinite values or NaN in that "
            "step: the training diverges%s",
            first.rank, rank->nonfinite_what, rank->nonfinite_step, first.ranks, count,
            rank->nonfinite_in_part ? ", or one rank had them up to 15 steps before (each step looks at a part of a "
                                      "large bucket)"
                                    : "");
    return true;
}

void
nonfinite_begin_looks(struct rank_view *ranks, int count)
{
    for (int i = 0; i < count; ++i) {
        ranks[i].nonfinite_watch_ns = ranks[i].watch_ns;
        ranks[i].nonfinite_looks = 0;
    }
}

bool
nonfinite_have_looked(struct rank_view *ranks, int count)
{
    bool all = true;
    for (int i = 0; i < count; ++i) {
        ranks[i].nonfinite_looks += ranks[i].watch_ns != ranks[i].nonfinite_watch_ns;
        ranks[i].nonfinite_watch_ns = ranks[i].watch_ns;
        all = all && (ranks[i].ended || ranks[i].watch_ns == 0 || ranks[i].nonfinite_looks >= LOOKS_ENOUGH);
    }
    return all;
}

bool
nonfinite_last(struct rank_view *ranks, int count, bool failed, char text[NONFINITE_TEXT_BYTES])
{
    if (ranks[0].nonfinite_said || is_reason(ranks, count) || !nonfinite_text(ranks, count, failed, text))
        return false;
    ranks[0].nonfinite_said = true;
    return true;
}

bool
nonfinite_judge(struct rank_view *ranks, int count, uint64_t now_ns, char text[NONFINITE_TEXT_BYTES])
{
    if (ranks[0].nonfinite_said || !nonfinite_first(ranks, count).stays)
        return false;
    if (ranks[0].nonfinite_since_ns == 0) {
        ranks[0].nonfinite_since_ns = now_ns;
        nonfinite_begin_looks(ranks, count);
    }
    if (!nonfinite_have_looked(ranks, count) && now_ns - ranks[0].nonfinite_since_ns < PATIENCE_NS)
        return false;
    return nonfinite_last(ranks, count, false, text);
}

int
nonfinite_rank(const struct rank_view *ranks, int count, bool failed)
{
    struct nonfinite_first first = nonfinite_first(ranks, count);
    return first.stays || failed ? first.rank : -1;
}
