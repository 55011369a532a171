/*
 * ranges.c - sorted, disjoint ranges of bytes, as the log has them. Pure.
 */
#include "tools/scout/trainer/scout.h"

#include <stdlib.h>

void
ranges_append(struct ranges_list *list, uint64_t lo, uint64_t hi)
{
    if (hi <= lo)
        return;
    if (list->count > 0 && list->items[list->count - 1].hi == lo) {
        list->items[list->count - 1].hi = hi;
        return;
    }
    list->items = scout_grown(list->items, list->count + 1, &list->room, sizeof(*list->items));
    list->items[list->count++] = (struct scout_range){lo, hi};
}

void
ranges_clear(struct ranges_list *list)
{
    free(list->items);
    *list = (struct ranges_list){0};
}

struct scout_ranges
ranges_of(const struct ranges_list *list)
{
    return (struct scout_ranges){list->items, list->count};
}
