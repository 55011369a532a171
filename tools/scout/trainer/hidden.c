/*
 * hidden.c - memory that is not among the arguments of a launch: does the launch write it, does the launch read it?
 *
 * Nothing of it is copied: it is hashed, and changed in a way that is its own reverse.
 */
#include "tools/scout/trainer/scout.h"

static struct allocation **others; /* [other_count] */
static size_t other_count;

void
hidden_begin(const struct images *images)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    other_count = 0;
    FOR_EACH(it, all, count)
        if (allocation_is_looked_at(*it) && images_find(images, (*it)->number) == NULL)
            *SCOUT_GROWN(others, other_count) = *it;
    memory_hash(others, other_count, false);
    FOR_EACH(other, others, other_count)
        (*other)->held = (*other)->met;
}

uint32_t
hidden_written(void)
{
    memory_hash(others, other_count, false);
    struct allocation **written = FIND(other, others, other_count, (*other)->met != (*other)->held);
    return written != NULL ? (*written)->number : SCOUT_NONE;
}

void
hidden_change(void)
{
    memory_change(others, other_count);
    FOR_EACH(other, others, other_count)
        (*other)->changed = (*other)->turned;
}

void
hidden_change_back(const char *kernel)
{
    memory_hash(others, other_count, true);
    if (ANY(other, others, other_count, (*other)->met != (*other)->changed || (*other)->turned != (*other)->held))
        scout_stop("%s writes memory that is not among its arguments, for some contents of its memory: its launches "
                   "cannot be repeated",
                   kernel);
}
