/*
 * exempt.c - libraries whose code gets the driver's own pointers: NCCL, loaded by the engine, and the engine itself.
 *
 * Asked by gate.c at each look-up; the engine adds libraries (struct shim_services).
 */
#include "interpose/shim/shim.h"

#include <link.h>

enum { EXEMPT_LIBRARIES = 8 };

struct code_range {
    uintptr_t begin, end;
};
static struct code_range exempt[EXEMPT_LIBRARIES];
static _Atomic unsigned exempt_count;

bool
exempt_has(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;
    for (unsigned i = 0; i < atomic_load(&exempt_count); ++i) {
        if (address >= exempt[i].begin && address < exempt[i].end)
            return true;
    }
    return false;
}

struct exempt_search {
    uintptr_t address;
    struct code_range found;
};

static int
find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct exempt_search *search = data;
    struct code_range range = {UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        range.begin = begin < range.begin ? begin : range.begin;
        range.end = end > range.end ? end : range.end;
    }
    if (search->address < range.begin || search->address >= range.end)
        return 0;
    search->found = range;
    return 1;
}

void
exempt_add(const void *address)
{
    struct exempt_search search = {.address = (uintptr_t)address};
    if (dl_iterate_phdr(find_library, &search) == 0 || exempt_has(address))
        return;
    unsigned at = atomic_load(&exempt_count);
    if (at < EXEMPT_LIBRARIES) {
        exempt[at] = search.found;
        atomic_store(&exempt_count, at + 1);
    }
}
