/*
 * mapping.c - pages for allocations, so that a mistake with memory is a fault and not a wrong number.
 *
 * Around every allocation lie closed pages. Device memory ends against those after it, as near as alignment allows;
 * the few bytes in between hold a pattern that shows writes. Freed memory goes back to the system, but its addresses
 * stay closed, and its record known, until many others have been freed after it. AddressSanitizer, if the program has
 * it, reports each access of the program's code to what is around an allocation, or was one, with its source line.
 *
 * Called by: memory.c, with its lock held, and the handler of faults.
 */
#include "driver.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    GUARD_BYTES = 64 << 10, /* more than one row of a block of threads reaches */
    ALIGNMENT = 256,        /* what CUDA promises */
    RETIRED_LIMIT = 1024,
    FORBIDDEN_LIMIT = 1 << 20, /* bytes */
    PATTERN = 0xb7,
};

/* Freed allocations, the oldest ones overwritten. */
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static struct allocation retired[RETIRED_LIMIT];
static size_t retired_next;

/*
 * Of AddressSanitizer's runtime, where the program has it. A library that is built with it has tests that write past
 * the end on purpose.
 */
#ifndef __SANITIZE_ADDRESS__
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *begin, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *begin, size_t bytes);
#define POISON   __asan_poison_memory_region
#define UNPOISON __asan_unpoison_memory_region
#else
#define POISON   ((void (*)(const volatile void *, size_t))NULL)
#define UNPOISON POISON
#endif

static void
allow_all(const struct mapping *mapping)
{
    if (UNPOISON != NULL) {
        UNPOISON((void *)mapping->region, mapping->region_bytes);
    }
}

/* The program's code may reach `bytes` from `base` on, and nothing else of the mapping's region. */
static void
forbid_around(const struct mapping *mapping, size_t bytes)
{
    if (POISON == NULL) {
        return;
    }
    uintptr_t end = mapping->base + bytes;
    POISON((void *)mapping->region, mapping->base - mapping->region);
    POISON((void *)end, mapping->region + mapping->region_bytes - end);
}

/* Of freed memory, or its first part: what AddressSanitizer notes takes an eighth of the memory. */
static void
forbid_freed(const struct mapping *mapping)
{
    if (POISON != NULL) {
        const size_t bytes = mapping->region_bytes;
        POISON((void *)mapping->region, bytes < FORBIDDEN_LIMIT ? bytes : FORBIDDEN_LIMIT);
    }
}

/* Its addresses are the system's again. */
static void
unmap(const struct mapping *mapping)
{
    allow_all(mapping);
    munmap((void *)mapping->region, mapping->region_bytes);
}

static size_t
round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static size_t
slack_bytes(const struct allocation *allocation)
{
    return allocation->mapping.pages + allocation->mapping.pages_bytes - allocation->base - allocation->bytes;
}

/* SOFTGPU_UNRULY: the region of that size that was freed last, as a GPU gives out freed memory again at once. */
static void *
take_retired(size_t bytes, enum address_place place)
{
    void *region = MAP_FAILED;
    if (!driver.unruly) {
        return region;
    }
    pthread_mutex_lock(&retired_lock);
    for (size_t i = 0; i < RETIRED_LIMIT && region == MAP_FAILED; ++i) {
        struct allocation *freed = &retired[(retired_next - 1 - i) % RETIRED_LIMIT];
        if (freed->mapping.region_bytes == bytes && allocation_place(freed->kind, freed->pool) == place) {
            region = (void *)freed->mapping.region;
            *freed = (struct allocation){0};
        }
    }
    pthread_mutex_unlock(&retired_lock);
    return region;
}

bool
mapping_make(size_t bytes, enum address_place place, bool at_end, struct mapping *mapping)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2) {
        return false;
    }
    struct mapping made = {.pages_bytes = round_up(bytes, page)};
    made.region_bytes = made.pages_bytes + 2 * GUARD_BYTES;
    void *region = take_retired(made.region_bytes, place);
    if (region == MAP_FAILED) {
        region = address_reserve(place, made.region_bytes);
    }
    if (region == MAP_FAILED) {
        return false;
    }
    made.region = (uintptr_t)region;
    made.pages = made.region + GUARD_BYTES;
    if (mprotect((void *)made.pages, made.pages_bytes, PROT_READ | PROT_WRITE) != 0) {
        unmap(&made);
        return false;
    }
    allow_all(&made); /* it may be a region that was freed */
    made.base = made.pages;
    if (at_end) {
        made.base += made.pages_bytes - round_up(bytes, ALIGNMENT);
        memset((void *)(made.base + bytes), PATTERN, round_up(bytes, ALIGNMENT) - bytes);
    }
    forbid_around(&made, bytes);
    *mapping = made;
    return true;
}

bool
mapping_intact(const struct allocation *allocation)
{
    const unsigned char *slack = (const unsigned char *)(allocation->base + allocation->bytes);
    size_t bytes = slack_bytes(allocation);
    for (size_t i = 0; i < bytes; ++i) {
        if (slack[i] != PATTERN) {
            return false;
        }
    }
    return true;
}

void
mapping_open(bool open)
{
    if (driver.memory_key >= 0) {
        (void)pkey_set(driver.memory_key, open ? 0 : PKEY_DISABLE_ACCESS);
    }
}

void
mapping_retire(const struct allocation *allocation)
{
    const struct mapping *mapping = &allocation->mapping;
    mapping_open(true);
    /* In strict mode memory is closed here, and every operation was checked. */
    bool overrun = allocation->kind == MEMORY_DEVICE && !driver.strict && !mapping_intact(allocation);
    mapping_open(false);
    if (overrun) {
        say("the program wrote behind the end of allocation %llu (%zu bytes of device memory at %#lx); "
            "SOFTGPU_STRICT=1 tells which kernel",
            (unsigned long long)allocation->buffer_id, allocation->bytes, (unsigned long)allocation->base);
    }
    forbid_freed(mapping);
    void *closed = mmap((void *)mapping->region, mapping->region_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (closed == MAP_FAILED) {
        unmap(mapping);
        return;
    }
    pthread_mutex_lock(&retired_lock);
    struct allocation *place = &retired[retired_next++ % RETIRED_LIMIT];
    if (place->mapping.region_bytes > 0) {
        unmap(&place->mapping);
    }
    *place = *allocation;
    pthread_mutex_unlock(&retired_lock);
}

bool
mapping_retired(uintptr_t address, bool may_wait, struct allocation *found)
{
    bool is = false;
    if ((may_wait ? pthread_mutex_lock(&retired_lock) : pthread_mutex_trylock(&retired_lock)) != 0) {
        return false;
    }
    for (size_t i = 0; i < RETIRED_LIMIT && !is; ++i) {
        if (address - retired[i].mapping.region < retired[i].mapping.region_bytes) {
            *found = retired[i];
            is = true;
        }
    }
    pthread_mutex_unlock(&retired_lock);
    return is;
}
