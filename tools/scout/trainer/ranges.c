/*
 * ranges.c - sorted, disjoint ranges of bytes, as the log has them. Pure (scout.h).
 */
#include "tools/scout/trainer/scout.h"

void
ranges_append(struct scout_ranges *list, uint64_t lo, uint64_t hi)
{
    struct scout_range *last = list->count > 0 ? &list->items[list->count - 1] : NULL;
    if (last != NULL && lo <= last->hi)
        last->hi = hi > last->hi ? hi : last->hi;
    else if (hi > lo)
        *SCOUT_GROWN(list->items, list->count) = (struct scout_range){lo, hi};
}

struct scout_ranges
ranges_merged(const struct scout_ranges *a, const struct scout_ranges *b)
{
    struct scout_ranges all = {0};
    uint32_t i = 0, k = 0;
    while (i < a->count || k < b->count) {
        bool takes_a = k == b->count || (i < a->count && a->items[i].lo < b->items[k].lo);
        const struct scout_range *range = takes_a ? &a->items[i] : &b->items[k];
        ranges_append(&all, range->lo, range->hi);
        if (takes_a)
            ++i;
        else
            ++k;
    }
    return all;
}

void
ranges_clear(struct scout_ranges *list)
{
    free(list->items);
    *list = (struct scout_ranges){0};
}
