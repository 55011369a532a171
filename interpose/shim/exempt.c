/*
 * exempt.c - libraries whose code gets the driver's own pointers: NCCL, loaded by the engine, the engine itself, and
 * the driver.
 *
 * Asked by gate.c at each look-up; the engine adds libraries (struct shim_services). The driver is known by its file's
 * name: on WSL2 it consists of several libraries, which ask each other.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"
#include "base/printable.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

/* NCCL, its plug-ins, the engine and the driver's parts are about ten. */
enum { EXEMPT_LIBRARIES = 64 };

/* Threads add libraries at once: a place is taken by the count, and holds for nothing until its end is written. */
static struct {
    _Atomic uintptr_t begin, end;
} exempt[EXEMPT_LIBRARIES];
static _Atomic unsigned exempt_count;

bool
exempt_has(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;
    unsigned count = atomic_load(&exempt_count);
    for (unsigned i = 0; i < count && i < EXEMPT_LIBRARIES; ++i) {
        uintptr_t end = atomic_load(&exempt[i].end);
        if (address < end && address >= atomic_load(&exempt[i].begin))
            return true;
    }
    return false;
}

static struct code_range
code_range_of(const struct dl_phdr_info *info)
{
    struct code_range range = {UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        range.begin = begin < range.begin ? begin : range.begin;
        range.end = end > range.end ? end : range.end;
    }
    return range;
}

/* Whether the object is the one that is looked for: by its file's name, or by an address in it. */
static bool
is_wanted(const struct object_search *search, const struct code_range *object, const char *path)
{
    if (search->file == NULL)
        return is_inside(object, search->address);
    return strncmp(file_name_of(path), search->file, strlen(search->file)) == 0;
}

static int
match_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct object_search *search = data;
    struct code_range object = code_range_of(info);
    if (!is_wanted(search, &object, info->dlpi_name))
        return 0;
    search->object = object;
    search->path = info->dlpi_name; /* the loader's, as long-lived as the object */
    return 1;
}

bool
object_find(struct object_search *search)
{
    return dl_iterate_phdr(match_object, search) != 0;
}

void
exempt_add(const void *address)
{
    struct object_search search = {.address = (uintptr_t)address};
    if (!object_find(&search) || exempt_has(address))
        return;
    unsigned at = atomic_fetch_add(&exempt_count, 1);
    if (at >= EXEMPT_LIBRARIES) {
        message_line("this process has loaded more than %d libraries of NCCL and the driver; the calls of %s would "
                     "count as the program's",
                     EXEMPT_LIBRARIES, search.path);
        _exit(DDPRUN_EXIT_FAILURE);
    }
    atomic_store(&exempt[at].begin, search.object.begin);
    atomic_store(&exempt[at].end, search.object.end);
}

bool
exempt_has_driver(const void *caller)
{
    struct object_search search = {.address = (uintptr_t)caller};
    if (exempt_has(caller))
        return true;
    if (!object_find(&search) || strncmp(file_name_of(search.path), "libcuda.so", strlen("libcuda.so")) != 0)
        return false;
    exempt_add(caller);
    return true;
}
