/*
 * numbering.c - texts, loaded objects and call sites, each numbered in the log when it is met first.
 *
 * A call site is the stack from the call of CUDA outwards: the frames that are the program's (tools/record/frames.h).
 */
#include "tools/scout/trainer/scout.h"

#include "tools/record/frames.h"
#include "tools/record/inside.h"

#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRAMES_SEEN = 40, FRAMES_KEPT = NAMES_FRAMES, BUILD_ID_BYTES = 64 };

static char **texts;
static uint32_t text_count;

/* The number of a text in the log, which gets it when it is new. */
uint32_t
names_put(const char *text)
{
    for (uint32_t i = text_count; i-- > 0;) {
        if (strcmp(texts[i], text) == 0)
            return i;
    }
    char **added = SCOUT_GROWN(texts, text_count);
    *added = strdup(text);
    if (*added == NULL)
        scout_stop("out of memory");
    (void)scout_writer_put(&scout_state.log, SCOUT_NAME, text);
    return text_count - 1;
}

/* ---- objects ---- */

static struct object {
    uintptr_t base;
    uint32_t number; /* SCOUT_NONE: it is not the program's, and its frames are left out */
    enum frame_owner owner;
    bool has_generators; /* it is cuRAND */
} * objects;
static uint32_t object_count, numbered_count;

struct note_search {
    uintptr_t base;
    char *hex; /* [2 * BUILD_ID_BYTES + 1] */
};

/* The build id among the notes of the object that begins at `base`. */
static int
read_build_id(struct dl_phdr_info *info, size_t bytes, void *data)
{
    (void)bytes;
    struct note_search *search = data;
    if (info->dlpi_addr != search->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + header->p_vaddr), *end = at + header->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
            const char *name = at + sizeof(*note);
            const unsigned char *value = (const unsigned char *)name + ((note->n_namesz + 3u) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
                for (unsigned k = 0; k < note->n_descsz && k < BUILD_ID_BYTES; ++k)
                    snprintf(search->hex + 2 * k, 3, "%02x", value[k]);
                return 1;
            }
            at = (const char *)value + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return 1;
}

void (*names_new_object)(uint32_t number, const char *path, const char *build_id);

/* Adds a loaded object to the log, with its build id, or its size and date; returns its number. */
static uint32_t
put_object(const char *path, uintptr_t base)
{
    char own[4096], hex[2 * BUILD_ID_BYTES + 1] = "";
    if (path[0] != '/') { /* the program itself: as it was started */
        ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
        own[length > 0 ? length : 0] = '\0';
        path = own;
    }
    (void)dl_iterate_phdr(read_build_id, &(struct note_search){base, hex});
    struct stat file; /* without a build id, as the cache of plans knows files */
    if (hex[0] == '\0' && stat(path, &file) == 0)
        snprintf(hex, sizeof(hex), "%ld bytes, %ld.%09ld", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
    struct scout_object object = {.path = (char *)path, .build_id = hex};
    (void)scout_writer_put(&scout_state.log, SCOUT_OBJECT, &object);
    if (names_new_object != NULL)
        names_new_object(numbered_count, path, hex);
    return numbered_count++;
}

/* Places in `objects`, and two that it does not have. */
enum { PLACE_NONE = -1, PLACE_INSIDE = -2, ADDRESSES_REMEMBERED = 1024 };

static int32_t
place_of_object(const struct link_map *map, const char *file)
{
    for (uint32_t i = 0; i < object_count; ++i)
        if (objects[i].base == map->l_addr)
            return (int32_t)i;
    enum frame_owner owner = frame_owner_of(file);
    const char *path = map->l_name[0] != '\0' ? file : ""; /* the program's: as it was called, by any link */
    uint32_t number = owner == FRAME_PROGRAM ? put_object(path, map->l_addr) : SCOUT_NONE;
    struct object *added = SCOUT_GROWN(objects, object_count);
    *added = (struct object){map->l_addr, number, owner, strncmp(file_name_of(file), "libcurand", 9) == 0};
    return (int32_t)object_count - 1;
}

static int32_t
look_up(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return PLACE_NONE;
    int32_t place = place_of_object(map, info.dli_fname);
    bool is_inside = objects[place].owner == FRAME_PROGRAM && cudart_holds(map, address);
    return is_inside ? PLACE_INSIDE : place;
}

/* What the code at an address is of: a cudart inside the program is a gate, as one of its own file. dladdr() goes
 * through all symbols of an object, so answers are kept. */
static const struct object *
object_of(const void *address)
{
    static const struct object inside = {.number = SCOUT_NONE, .owner = FRAME_GATE};
    static struct {
        const void *address;
        int32_t place;
    } remembered[ADDRESSES_REMEMBERED], *kept;
    kept = &remembered[((uintptr_t)address ^ (uintptr_t)address >> 10) % ADDRESSES_REMEMBERED];
    if (kept->address != address) {
        kept->place = look_up(address);
        kept->address = address;
    }
    if (kept->place == PLACE_NONE)
        return NULL;
    return kept->place == PLACE_INSIDE ? &inside : &objects[kept->place];
}

/* An object of which no frame was seen. What has no file is the kernel's. */
static int
put_loaded(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    if (info->dlpi_name[0] != '\0' && info->dlpi_name[0] != '/')
        return 0;
    if (!ANY(object, objects, object_count, object->base == info->dlpi_addr && object->number != SCOUT_NONE))
        (void)put_object(info->dlpi_name, info->dlpi_addr);
    return 0;
}

/* ---- call sites ---- */

static struct kept_site {
    uint32_t count;
    struct scout_frame frames[FRAMES_KEPT];
} * sites;
static uint32_t site_count;

bool
names_are_same(const struct scout_frame *a, const struct scout_frame *b, uint32_t count)
{
    return ALL_NUMBERS(i, 0, count, a[i].object == b[i].object && a[i].offset == b[i].offset);
}

void
names_put_objects(void)
{
    (void)dl_iterate_phdr(put_loaded, NULL);
}

/* The innermost that calls for itself, or a library on its behalf; NULL: there is none. */
static const struct object *
find_caller(void *const *stack, int depth, bool through_gates)
{
    for (int i = 0; i < depth; ++i) {
        const struct object *object = object_of((const char *)stack[i] - 1);
        if (object != NULL && object->owner != FRAME_PASSES_ON && (object->owner != FRAME_GATE || !through_gates))
            return object;
    }
    return NULL;
}

static const struct object *
find_own_caller(void)
{
    void *stack[FRAMES_SEEN];
    return find_caller(stack, backtrace(stack, FRAMES_SEEN), true);
}

bool
names_is_programs(void *const *stack, int depth)
{
    const struct object *object = find_caller(stack, depth, false);
    return object != NULL && object->owner == FRAME_PROGRAM;
}

bool
names_caller(uintptr_t *base_p)
{
    const struct object *object = find_own_caller();
    *base_p = object != NULL ? object->base : 0;
    return object != NULL && object->owner == FRAME_PROGRAM;
}

uint32_t
names_memory_of_caller(uint32_t own)
{
    const struct object *object = find_own_caller();
    if (object == NULL || object->owner != FRAME_FOREIGN)
        return own;
    return object->has_generators ? SCOUT_GENERATORS : SCOUT_SCRATCH;
}

uint32_t
names_frames(struct scout_frame frames[NAMES_FRAMES])
{
    void *stack[FRAMES_SEEN];
    int depth = backtrace(stack, FRAMES_SEEN);
    uint32_t count = 0;
    for (int i = 0; i < depth && count < FRAMES_KEPT; ++i) {
        const struct object *object = object_of((const char *)stack[i] - 1);
        if (object == NULL || object->number == SCOUT_NONE)
            continue;
        frames[count].object = object->number;
        frames[count++].offset = (uintptr_t)stack[i] - object->base;
    }
    return count;
}

uint32_t
names_site(void)
{
    struct kept_site site = {0};
    site.count = names_frames(site.frames);
    if (site.count == 0)
        return SCOUT_NONE;
    for (uint32_t i = site_count; i-- > 0;) {
        if (sites[i].count == site.count && names_are_same(sites[i].frames, site.frames, site.count))
            return i;
    }
    *SCOUT_GROWN(sites, site_count) = site;
    (void)scout_writer_put(&scout_state.log, SCOUT_SITE, &(struct scout_site){site.frames, site.count});
    return site_count - 1;
}
