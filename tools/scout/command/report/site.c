/* site.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "base/printable.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

struct site_frames {
    struct site_place *frames; /* NULL: not looked up */
    uint32_t count;
};

struct sites {
    const struct scout_log *log;
    Dwfl **objects;             /* one for each object of the log, NULL: not opened */
    struct site_frames *stacks; /* one for each site of the log */
};

/* Begins to look up call sites of the log; sites_close() ends it. The log must stay as long. */
struct sites *
sites_open(const struct scout_log *log)
{
    struct sites *sites = xcalloc(1, sizeof(*sites));
    sites->log = log;
    sites->objects = xcalloc(log->object_count + 1, sizeof(*sites->objects));
    sites->stacks = xcalloc(log->site_count + 1, sizeof(*sites->stacks));
    return sites;
}

/* The debug information of the log's object, opened at its first use; NULL: it cannot be read. */
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
look_up_frame(struct sites *sites, const struct scout_frame *frame, struct site_place *place)
{
    Dwfl *dwfl = open_object(sites, frame->object);
    Dwarf_Addr address = frame->offset - 1; /* of the call, not after it */
    Dwfl_Module *module = dwfl != NULL ? dwfl_addrmodule(dwfl, address) : NULL;
    if (module == NULL)
        return;
    int line = 0, column = 0;
    Dwfl_Line *at = dwfl_module_getsrc(module, address);
    const char *file = at != NULL ? dwfl_lineinfo(at, NULL, &line, &column, NULL, NULL) : NULL;
    const char *function = dwfl_module_addrname(module, address);
    if (file != NULL)
        snprintf(place->file, sizeof(place->file), "%s", file);
    place->line = line;
    place->column = column;
    if (function != NULL)
        snprintf(place->function, sizeof(place->function), "%s", function);
}

/* One name for each file. One that the compiler was given by a relative name lies in the folder where it ran. */
static void
make_absolute(Dwarf_Die *unit, struct site_place *place)
{
    Dwarf_Attribute attribute;
    const char *folder = unit != NULL ? dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute)) : NULL;
    bool is_relative = folder != NULL && place->file[0] != '/';
    OWNED char *path = xasprintf("%s%s%s", is_relative ? folder : "", is_relative ? "/" : "", place->file);
    OWNED char *real = realpath(path, NULL);
    snprintf(place->file, sizeof(place->file), "%s", real != NULL ? real : path);
}

/* Moves a place to where an inlined function is called. False: that is not known. */
static bool
move_to_call(Dwarf_Die *scope, Dwarf_Files *files, struct site_place *place)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file, line, column;
    if (dwarf_formudata(dwarf_attr(scope, DW_AT_call_file, &attribute), &file) != 0 ||
        dwarf_formudata(dwarf_attr(scope, DW_AT_call_line, &attribute), &line) != 0)
        return false;
    const char *path = dwarf_filesrc(files, file, NULL, NULL);
    if (path == NULL)
        return false;
    snprintf(place->file, sizeof(place->file), "%s", path);
    place->line = (int)line;
    bool has_column = dwarf_formudata(dwarf_attr(scope, DW_AT_call_column, &attribute), &column) == 0;
    place->column = has_column ? (int)column : 0;
    return true;
}

/* The calls that were inlined around an address, innermost first, up to the function that holds the code. Returns how
 * many places there are. */
static uint32_t
look_up_inlined(struct sites *sites, const struct scout_frame *frame, struct site_place *places, uint32_t room)
{
    struct site_place place = {0};
    Dwarf_Addr address = frame->offset - 1, bias = 0;
    OWNED Dwarf_Die *innermost = NULL, *scopes = NULL;
    Dwarf_Die subroutine;
    Dwarf_Files *files = NULL;
    uint32_t count = 0;
    look_up_frame(sites, frame, &place);
    if (place.file[0] == '\0')
        return 0;
    Dwfl_Module *module = dwfl_addrmodule(open_object(sites, frame->object), address);
    Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias);
    if (unit != NULL && dwarf_getscopes(unit, address - bias, &innermost) > 0 &&
        dwarf_offdie(dwfl_module_getdwarf(module, &bias), dwarf_dieoffset(&innermost[0]), &subroutine) != NULL &&
        dwarf_getsrcfiles(unit, &files, NULL) == 0) {
        int scope_count = dwarf_getscopes_die(&subroutine, &scopes);
        for (int i = 0; i < scope_count && count < room; ++i) {
            int tag = dwarf_tag(&scopes[i]);
            const char *name = dwarf_diename(&scopes[i]);
            if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
                continue;
            if (name != NULL)
                snprintf(place.function, sizeof(place.function), "%s", name);
            places[count++] = place;
            if (tag == DW_TAG_subprogram || !move_to_call(&scopes[i], files, &place))
                break;
        }
    }
    if (count == 0)
        places[count++] = place;
    for (uint32_t i = 0; i < count; ++i)
        make_absolute(unit, &places[i]);
    return count;
}

/* Frees what was looked up, with all texts that places point to. */
void
sites_close(struct sites *sites)
{
    for (uint32_t i = 0; i < sites->log->object_count; ++i)
        if (sites->objects[i] != NULL)
            dwfl_end(sites->objects[i]);
    for (uint32_t i = 0; i < sites->log->site_count; ++i)
        free(sites->stacks[i].frames);
    free(sites->stacks);
    free(sites->objects);
    free(sites);
}

/* Whether the frame stands between a launch in the source and CUDA's library: made by compilers, or a part of a
 * static cudart or of a header. */
static bool
is_stub(const struct site_place *place)
{
    static const char *const parts[] = {"__device_stub", "cudaLaunchKernel", "__cudart", "__cuda"};
    return ANY(part, parts, sizeof(parts) / sizeof(parts[0]), strstr(place->function, *part) != NULL) ||
           strstr(place->file, "cuda_runtime") != NULL || strstr(place->file, "/softgpu/") != NULL;
}

/* Fills a place's text for readers: file and line, else the function, else the offset in the object. */
static void
fill_in_frame(const struct sites *sites, const struct scout_frame *frame, struct site_place *place)
{
    const char *object = file_name_of(sites->log->objects[frame->object].path);
    place->object = frame->object;
    if (place->file[0] != '\0')
        snprintf(place->text, sizeof(place->text), "%s:%d", file_name_of(place->file), place->line);
    else if (place->function[0] != '\0')
        snprintf(place->text, sizeof(place->text), "%s in %s", place->function, object);
    else
        snprintf(place->text, sizeof(place->text), "%s+0x%llx", object, (unsigned long long)frame->offset);
}

bool
sites_find(struct sites *sites, uint32_t site, struct site_place *place)
{
    *place = (struct site_place){.text = "?"};
    if (site >= sites->log->site_count)
        return false;
    const struct scout_site *stack = &sites->log->sites[site];
    struct site_place first = *place;
    for (uint32_t i = 0; i < stack->count; ++i) {
        if (stack->frames[i].object == SCOUT_NONE || stack->frames[i].offset == 0)
            continue;
        *place = (struct site_place){0};
        look_up_frame(sites, &stack->frames[i], place);
        fill_in_frame(sites, &stack->frames[i], place);
        if (!is_stub(place))
            return true;
        first = first.text[0] == '?' ? *place : first;
    }
    *place = first;
    return false;
}

const struct site_place *
sites_frames(struct sites *sites, uint32_t site, uint32_t *count_p)
{
    static const struct site_place none;
    *count_p = 0;
    if (site >= sites->log->site_count)
        return &none;
    struct site_frames *stack = &sites->stacks[site];
    const struct scout_site *from = &sites->log->sites[site];
    if (stack->frames == NULL) {
        stack->frames = xcalloc(SITE_FRAMES_AT_MOST, sizeof(*stack->frames));
        FOR_EACH(frame, from->frames, from->count) {
            if (frame->object == SCOUT_NONE || frame->offset == 0)
                continue;
            uint32_t found =
                look_up_inlined(sites, frame, stack->frames + stack->count, SITE_FRAMES_AT_MOST - stack->count);
            for (uint32_t k = stack->count, end = k + found; k < end; ++k) {
                struct site_place *place = &stack->frames[stack->count];
                *place = stack->frames[k];
                fill_in_frame(sites, frame, place);
                stack->count += !is_stub(place) && strncmp(place->file, "/usr/", 5) != 0 &&
                                strstr(place->file, "/nvidia/") == NULL; /* the program's own */
            }
        }
    }
    *count_p = stack->count;
    return stack->frames;
}

const char *
sites_object(const struct sites *sites, const char *file)
{
    for (uint32_t i = 0; i < sites->log->site_count; ++i)
        for (uint32_t k = 0; k < sites->stacks[i].count; ++k)
            if (strcmp(sites->stacks[i].frames[k].file, file) == 0)
                return sites->log->objects[sites->stacks[i].frames[k].object].path;
    return NULL;
}

const char *
sites_text(struct sites *sites, uint32_t site, char *text, size_t room)
{
    struct site_place inner;
    uint32_t count;
    const struct site_place *frames = sites_frames(sites, site, &count);
    if (count > 1)
        snprintf(text, room, "%s from %s", frames[0].text, frames[1].text);
    else
        snprintf(text, room, "%s", count == 1 ? frames[0].text : (sites_find(sites, site, &inner), inner.text));
    return text;
}

/* How many bytes mention an allocation at `at`, as "a3" or "a3[0:64]"; 0: they do not. */
static size_t
mention_length(const char *text, const char *at, uint32_t *number)
{
    int length = 0;
    bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
    if (begins && at[0] == 'a' && isdigit((unsigned char)at[1]))
        (void)sscanf(at, "a%" SCNu32 "%n[%*u:%*u]%n", number, &length, &length);
    return isalnum((unsigned char)at[length]) || at[length] == '_' ? 0 : (size_t)length;
}

/* Whether a mention of memory is the value of an option that users are to copy. */
static bool
is_of_option(const char *text, const char *at)
{
    static const char option[] = "--per-rank ";
    size_t length = sizeof(option) - 1;
    return (size_t)(at - text) >= length && strncmp(at - length, option, length) == 0;
}

/* How the program's source calls the memory that a call site allocates: as the outermost call says it; "": it is not
 * known. */
static void
name_memory(struct sites *sites, struct sources *sources, uint32_t site, char name[LIFT_BYTES])
{
    uint32_t count;
    const struct site_place *frames = sites_frames(sites, site, &count);
    name[0] = '\0';
    for (uint32_t depth = 0; depth < count; ++depth) {
        struct lifted lifted;
        if (!lift(sources, frames, depth, &lifted) || lifted.memory[0] == '\0')
            break;
        snprintf(name, LIFT_BYTES, "%s", lift_bare(lifted.memory));
    }
}

/* Whether a launch, as far as it was recorded, has written the allocation. */
static bool
op_writes(const struct scout_op *op, uint32_t alloc)
{
    const struct scout_effect *effect = op->effect;
    return op->kind == SCOUT_LAUNCH && effect != NULL &&
           (ANY(it, effect->written, effect->written_count, it->alloc == alloc && it->ranges.count > 0) ||
            ANY(it, effect->segments, effect->segment_count,
                it->alloc == alloc && it->killed.count + it->modified.count > 0));
}

/* What is known of an allocation: its variable, its size, where it is made, and the last kernel that writes it, unless
 * `next`, the text after its mention, says that. */
static void
put_memory(FILE *to, const struct scout_log *log, struct sites *sites, struct sources *sources, uint32_t number,
           const char *next)
{
    static const char says[] = ", written by ";
    char place[512], name[LIFT_BYTES], kernel[SCOUT_NAME_BYTES];
    const struct scout_alloc *alloc = &log->allocs[number];
    const struct scout_op *writer = NULL;
    FOR_EACH_UNTIL(op, log->ops, log->op_count, strncmp(next, says, strlen(says)) == 0)
        writer = op_writes(op, number) ? op : writer;
    name_memory(sites, sources, alloc->site, name);
    fprintf(to, " (%s%s%llu bytes, allocated at %s", name, name[0] != '\0' ? ", " : "",
            (unsigned long long)alloc->bytes, sites_text(sites, alloc->site, place, sizeof(place)));
    if (writer != NULL)
        fprintf(to, "%s%s", says, scout_op_name(log, writer, kernel));
    fputc(')', to);
}

char *
sites_explain(const struct scout_log *log, const char *text)
{
    char *all = NULL;
    size_t size;
    struct sources sources = {0};
    struct sites *sites = sites_open(log);
    OWNED bool *told = xcalloc(log->alloc_count + 1, sizeof(*told));
    FILE *to = open_memstream(&all, &size);
    for (const char *at = text; *at != '\0' && to != NULL;) {
        uint32_t number = UINT32_MAX;
        size_t length = mention_length(text, at, &number), passed = length > 0 ? length : 1;
        fwrite(at, 1, passed, to);
        at += passed;
        if (length == 0 || number >= log->alloc_count || told[number] || is_of_option(text, at - length))
            continue;
        told[number] = true;
        put_memory(to, log, sites, &sources, number, at);
    }
    if (to != NULL)
        fclose(to);
    sources_close(&sources);
    sites_close(sites);
    return all != NULL ? all : xstrdup(text);
}
