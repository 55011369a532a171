/*
 * site.c - see site.h.
 */
#include "launcher/tools/scout/report/site.h"

#include "launcher/common/xcalloc.h"

#ifdef DDPRUN_LIBDW
#include <elfutils/libdwfl.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sites {
    const struct scout_log *log;
    void **objects; /* a Dwfl * for each object of the log, NULL: not opened */
};

struct sites *
sites_open(const struct scout_log *log)
{
    struct sites *sites = xcalloc(1, sizeof(*sites));
    sites->log = log;
    sites->objects = xcalloc(log->object_count + 1, sizeof(*sites->objects));
    return sites;
}

#ifdef DDPRUN_LIBDW
static Dwfl *
open_object(struct sites *sites, uint32_t number)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .section_address = dwfl_offline_section_address};
    if (sites->objects[number] == NULL) {
        Dwfl *dwfl = dwfl_begin(&callbacks);
        if (dwfl != NULL) {
            dwfl_report_begin(dwfl);
            (void)dwfl_report_elf(dwfl, "", sites->log->objects[number].path, -1, 0, true);
            dwfl_report_end(dwfl, NULL, NULL);
        }
        sites->objects[number] = dwfl;
    }
    return sites->objects[number];
}

/* An object's address is what its program headers count from; dwfl counts from where it would load it. */
static void
look_up(struct sites *sites, const struct scout_frame *frame, struct site_place *place)
{
    Dwfl *dwfl = open_object(sites, frame->object);
    Dwarf_Addr address = frame->offset - 1; /* of the call, not behind it */
    Dwfl_Module *module = dwfl != NULL ? dwfl_addrmodule(dwfl, address) : NULL;
    if (module == NULL)
        return;
    int line = 0;
    Dwfl_Line *at = dwfl_module_getsrc(module, address);
    const char *file = at != NULL ? dwfl_lineinfo(at, NULL, &line, NULL, NULL, NULL) : NULL;
    const char *function = dwfl_module_addrname(module, address);
    if (file != NULL)
        snprintf(place->file, sizeof(place->file), "%s", file);
    place->line = line;
    if (function != NULL)
        snprintf(place->function, sizeof(place->function), "%s", function);
}
#else
static void
look_up(struct sites *sites, const struct scout_frame *frame, struct site_place *place)
{
    (void)sites;
    (void)frame;
    (void)place;
}
#endif

void
sites_close(struct sites *sites)
{
#ifdef DDPRUN_LIBDW
    for (uint32_t i = 0; i < sites->log->object_count; ++i)
        if (sites->objects[i] != NULL)
            dwfl_end(sites->objects[i]);
#endif
    free(sites->objects);
    free(sites);
}

/* What stands between a launch in the source and CUDA's library: made by compilers, or a part of a static cudart or of
 * a header. */
static bool
is_stub(const struct site_place *place)
{
    static const char *const parts[] = {"__device_stub", "cudaLaunchKernel", "__cudart", "__cuda"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i)
        if (strstr(place->function, parts[i]) != NULL)
            return true;
    return strstr(place->file, "cuda_runtime") != NULL || strstr(place->file, "/softgpu/") != NULL;
}

static void
describe(const struct sites *sites, const struct scout_frame *frame, struct site_place *place)
{
    const char *path = sites->log->objects[frame->object].path;
    const char *file = strrchr(place->file, '/'), *object = strrchr(path, '/');
    if (place->file[0] != '\0')
        snprintf(place->text, sizeof(place->text), "%s:%d", file != NULL ? file + 1 : place->file, place->line);
    else if (place->function[0] != '\0')
        snprintf(place->text, sizeof(place->text), "%s", place->function);
    else
        snprintf(place->text, sizeof(place->text), "%s+0x%llx", object != NULL ? object + 1 : path,
                 (unsigned long long)frame->offset);
}

bool
sites_find_outer(struct sites *sites, uint32_t site, unsigned depth, struct site_place *place)
{
    *place = (struct site_place){.text = "?"};
    if (site >= sites->log->site_count)
        return false;
    const struct scout_site *stack = &sites->log->sites[site];
    struct site_place first = {.text = "?"};
    for (uint32_t i = 0; i < stack->count; ++i) {
        *place = (struct site_place){.text = "?"};
        if (stack->frames[i].object == SCOUT_NONE || stack->frames[i].offset == 0)
            continue;
        look_up(sites, &stack->frames[i], place);
        describe(sites, &stack->frames[i], place);
        if (first.text[0] == '?')
            first = *place;
        if (is_stub(place) || depth-- > 0)
            continue;
        return true;
    }
    *place = first;
    return false;
}

bool
sites_find(struct sites *sites, uint32_t site, struct site_place *place)
{
    return sites_find_outer(sites, site, 0, place);
}

const char *
sites_text(struct sites *sites, uint32_t site, char *text, size_t room)
{
    struct site_place inner, outer;
    (void)sites_find(sites, site, &inner);
    if (sites_find_outer(sites, site, 1, &outer) && outer.file[0] != '\0')
        snprintf(text, room, "%s from %s", inner.text, outer.text);
    else
        snprintf(text, room, "%s", inner.text);
    return text;
}
