/*
 * describe.c - says where an address lies and what is wrong with it, for messages. Parts of it run in the handler of
 * faults (fault.c): those only try the lock.
 */
#include "table.h"

#include <stdio.h>

static const char *const kind_names[] = {
    [MEMORY_DEVICE] = "device memory",         [MEMORY_MANAGED] = "managed memory",
    [MEMORY_HOST] = "page-locked memory",      [MEMORY_REGISTERED] = "registered memory",
    [MEMORY_GLOBAL] = "a __device__ variable", [MEMORY_MAPPED] = "mapped memory",
};

static void
describe_in(const struct allocation *entry, uintptr_t address, const char *after, char *text, size_t room)
{
    const char *side = "into";
    uintptr_t distance = address - entry->base;
    if (address < entry->base) {
        side = "before";
        distance = entry->base - address;
    } else if (distance >= entry->bytes) {
        side = "past the end of";
        distance -= entry->bytes;
    }
    snprintf(text, room, "%zu bytes %s allocation %llu (%zu bytes of %s at %#lx)%s", (size_t)distance, side,
             (unsigned long long)entry->buffer_id, entry->bytes, kind_names[entry->kind], (unsigned long)entry->base,
             after);
}

/* The allocation that is nearest, by its end or its beginning. With the lock held. */
static const struct allocation *
nearest_to(uintptr_t address)
{
    size_t place = table_place_after(address);
    const struct allocation *below = place > 0 ? table[place - 1] : NULL;
    const struct allocation *above = place < table_count ? table[place] : NULL;
    if (below == NULL || above == NULL) {
        return below != NULL ? below : above;
    }
    uintptr_t end = below->base + below->bytes;
    return address < end || address - end <= above->base - address ? below : above;
}

bool
memory_describe(uintptr_t address, char *text, size_t room)
{
    struct allocation retired;
    if (mapping_retired(address, false, &retired)) {
        describe_in(&retired, address, ", which has been freed", text, room);
        return true;
    }
    if (pthread_rwlock_tryrdlock(&table_lock) != 0) {
        return false;
    }
    const struct allocation *entry = nearest_to(address);
    if (entry != NULL) {
        describe_in(entry, address, "", text, room);
    }
    pthread_rwlock_unlock(&table_lock);
    return entry != NULL;
}

bool
memory_is_ours(uintptr_t address)
{
    struct allocation retired;
    if (mapping_retired(address, false, &retired)) {
        return true;
    }
    if (pthread_rwlock_tryrdlock(&table_lock) != 0) {
        return false;
    }
    const struct allocation *entry = nearest_to(address);
    bool ours = entry != NULL && address - entry->mapping.region < entry->mapping.region_bytes;
    pthread_rwlock_unlock(&table_lock);
    return ours;
}

void
memory_explain_free(const char *call, uintptr_t base)
{
    struct allocation entry;
    char text[256];
    /* In this order: what leaves the table has been put among the retired before. */
    if (memory_find(base, &entry)) {
        if (entry.freeing) {
            say("%s: allocation %llu (%zu bytes at %#lx) is being freed by cuMemFreeAsync already", call,
                (unsigned long long)entry.buffer_id, entry.bytes, (unsigned long)base);
            return;
        }
        describe_in(&entry, base, "", text, sizeof text);
        say("%s cannot free %#lx: it is %s", call, (unsigned long)base, text);
    } else if (mapping_retired(base, true, &entry) && entry.base == base) {
        say("%s: allocation %llu (%zu bytes of %s at %#lx) has been freed before", call,
            (unsigned long long)entry.buffer_id, entry.bytes, kind_names[entry.kind], (unsigned long)base);
    }
}

bool
memory_overrun(struct allocation *found)
{
    bool overrun = false;
    pthread_rwlock_rdlock(&table_lock);
    for (size_t place = 0; place < table_count && !overrun; ++place) {
        if (table[place]->kind == MEMORY_DEVICE && !mapping_intact(table[place])) {
            *found = *table[place];
            overrun = true;
        }
    }
    pthread_rwlock_unlock(&table_lock);
    return overrun;
}
