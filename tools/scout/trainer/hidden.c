/*
 * hidden.c - memory that is not among the arguments of a launch: does the launch write it, does the launch read it?
 *
 * Nothing of it is copied: it is hashed, and changed in a way that is its own reverse.
 */
#include "tools/scout/trainer/scout.h"

static struct other {
    struct allocation *allocation;
    uint64_t hash, changed;
} * others;
static size_t other_count, other_room;

void
hidden_begin(const struct images *images)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    others = scout_grown(others, count, &other_room, sizeof(*others));
    other_count = 0;
    for (size_t i = 0; i < count; ++i) {
        if (all[i]->memory != SCOUT_PINNED && images_find(images, all[i]->number) == NULL)
            others[other_count++] = (struct other){.allocation = all[i], .hash = memory_hash(all[i])};
    }
}

uint32_t
hidden_written(void)
{
    for (size_t i = 0; i < other_count; ++i) {
        if (memory_hash(others[i].allocation) != others[i].hash)
            return others[i].allocation->number;
    }
    return SCOUT_NONE;
}

void
hidden_change(void)
{
    for (size_t i = 0; i < other_count; ++i)
        others[i].changed = memory_change_reversibly(others[i].allocation, NULL);
}

void
hidden_change_back(const char *kernel)
{
    for (size_t i = 0; i < other_count; ++i) {
        uint64_t before, after = memory_change_reversibly(others[i].allocation, &before);
        if (before != others[i].changed || after != others[i].hash)
            scout_stop("%s writes memory that is not among its arguments, at some contents of its memory: its launches "
                       "cannot be made again",
                       kernel);
    }
}
