/*
 * callers.c - is a call the program's own, or one of a library? Asked by the hooks of clocks and random bytes, which
 * answer the program otherwise than NCCL, the engine and other libraries.
 *
 * What is known of a place lies in static memory; a place for which there is no room is looked up each time.
 */
#include "tools/record/frames.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <sys/auxv.h>

enum { CALLERS = 1024, TRIES = 8, FRAMES = 32, OUTER_FRAMES = 4, ELF_TYPE_AT = 16, ELF_FIXED = 2 };

static _Atomic uintptr_t known[CALLERS]; /* by hash: twice the address, and 1 more if it is the program's */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* ---- objects ---- */

/* An absolute path without links; that of the program if `path` is NULL. */
static bool
find_path(const char *path, char canonical[PATH_MAX])
{
    char absolute[2 * PATH_MAX] = "";
    if (path == NULL) {
        ssize_t length = raw_readlink("/proc/self/exe", canonical, PATH_MAX - 1);
        canonical[length > 0 ? length : 0] = '\0';
        return length > 0;
    }
    if (path[0] != '/' && syscall(SYS_getcwd, absolute, PATH_MAX) <= 0)
        return false;
    size_t length = strlen(absolute);
    snprintf(absolute + length, sizeof(absolute) - length, "/%s", path);
    return place_canonical(absolute, canonical);
}

static bool
lies_beside_program(const char *path)
{
    char program[PATH_MAX], library[PATH_MAX];
    if (!find_path(NULL, program) || !find_path(path, library))
        return false;
    *strrchr(program, '/') = '\0';
    return program[0] != '\0' && files_below(library, program) != NULL;
}

/* Whether `address` is of the same object. */
static bool
holds(const Dl_info *object, const void *address)
{
    Dl_info other;
    return dladdr(address, &other) != 0 && other.dli_fbase == object->dli_fbase;
}

static bool
is_program(const Dl_info *object)
{
    return holds(object, (const void *)getauxval(AT_ENTRY));
}

/* Of libraries that are not known only those beside the program, and Python's, are the program's: others may need the
 * clock as it is. */
static enum frame_owner
find_object(const void *address, Dl_info *object)
{
    if (dladdr((const char *)address - 1, object) == 0)
        return FRAME_FOREIGN;
    if (is_program(object))
        return FRAME_PROGRAM;
    enum frame_owner owner = holds(object, known) ? FRAME_PASSES_ON : frame_owner_of(object->dli_fname);
    bool is_others = owner == FRAME_PROGRAM && strncmp(file_name_of(object->dli_fname), "libpython", 9) != 0 &&
                     !lies_beside_program(object->dli_fname);
    return is_others ? FRAME_FOREIGN : owner;
}

/* The innermost frame of an object that asks for itself; NULL: there is none. */
static const void *
find_asker(Dl_info *object)
{
    void *stack[FRAMES];
    int depth = backtrace(stack, FRAMES), i = 0;
    while (i < depth && find_object(stack[i], object) == FRAME_PASSES_ON)
        ++i;
    return i < depth ? stack[i] : NULL;
}

/* ---- places ---- */

/* Where the place is in the table, or may be put; NULL: there is no room. */
static _Atomic uintptr_t *
find_caller_slot(const void *caller)
{
    size_t at = (size_t)(((uintptr_t)caller * UINT64_C(0x9E3779B97F4A7C15)) >> 54);
    for (size_t i = 0; i < TRIES; ++i) {
        _Atomic uintptr_t *place = &known[(at + i) % CALLERS];
        uintptr_t here = atomic_load_explicit(place, memory_order_relaxed);
        if (here == 0 || here >> 1 == (uintptr_t)caller)
            return place;
    }
    return NULL;
}

/* Whether the place is new, and has room. */
static bool
keep_caller(const void *caller, bool is_programs)
{
    uintptr_t none = 0;
    _Atomic uintptr_t *place = find_caller_slot(caller);
    return place != NULL && atomic_compare_exchange_strong(place, &none, (uintptr_t)caller << 1 | is_programs);
}

/* As the object's program headers count. */
static size_t
offset_in(const Dl_info *object, const void *address)
{
    const char *header = object->dli_fbase;
    return (uintptr_t)address - (header[ELF_TYPE_AT] != ELF_FIXED ? (uintptr_t)header : 0);
}

/* Appends the calls of the same object around the one that returns to `caller`: that one may stand in a header of a
 * library. */
static void
add_outer_calls(const Dl_info *object, const void *caller, char text[OUTER_FRAMES * 18])
{
    void *stack[FRAMES];
    int depth = backtrace(stack, FRAMES), i = 0;
    size_t used = 0;
    while (i < depth && stack[i] != caller)
        ++i;
    for (int end = i + 1 + OUTER_FRAMES; ++i < depth && i < end && holds(object, stack[i]);)
        used += (size_t)snprintf(text + used, 18, ",%zx", offset_in(object, stack[i]));
}

static void
note_reading(const char *name, const Dl_info *object, const void *caller)
{
    char path[PATH_MAX], file[FILES_PATH_MAX], outer[OUTER_FRAMES * 18] = "", line[PATH_MAX + 256];
    if (!find_path(is_program(object) ? NULL : object->dli_fname, path))
        return;
    add_outer_calls(object, caller, outer);
    int length = snprintf(line, sizeof(line), "%zx%s %s %s\n", offset_in(object, caller), outer, name, path);
    snprintf(file, sizeof(file), "%s/" FILES_READINGS, files_date()->dir);
    int fd = raw_open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, line, (size_t)length);
    close(fd);
}

static bool
look_up_caller(const char *name, const void *caller)
{
    Dl_info object;
    enum frame_owner owner = caller != NULL ? find_object(caller, &object) : FRAME_PASSES_ON;
    if (owner == FRAME_PASSES_ON) {
        caller = find_asker(&object);
        owner = caller != NULL ? find_object(caller, &object) : FRAME_FOREIGN;
    } else if (owner != FRAME_PROGRAM) {
        (void)keep_caller(caller, false);
    }
    if (owner == FRAME_PROGRAM && keep_caller(caller, true) && name != NULL)
        note_reading(name, &object, caller);
    return owner == FRAME_PROGRAM;
}

bool
caller_is_programs(const char *name, const void *caller)
{
    const _Atomic uintptr_t *place = caller != NULL ? find_caller_slot(caller) : NULL;
    uintptr_t found = place != NULL ? atomic_load_explicit(place, memory_order_relaxed) : 0;
    if (found != 0 || inside)
        return (found & 1) != 0;
    int saved = errno;
    inside = true;
    bool is_programs = look_up_caller(name, caller);
    inside = false;
    errno = saved;
    return is_programs;
}
