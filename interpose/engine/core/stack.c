/*
 * stack.c - the caller's stack, for messages about calls that should not have been.
 *
 * By libunwind, which is opened where a stack is wanted: the engine needs no library whose functions the program could
 * have under the same names. The caller holds no lock and is in no signal handler, as the loader takes locks and
 * memory.
 */
#define UNW_LOCAL_ONLY
#include "interpose/engine/core/core.h"

#include <dlfcn.h>
#include <libunwind.h>
#include <stdio.h>
#include <ucontext.h>

enum { FRAMES_AT_MOST = 24 };

/* What libunwind calls its functions: the names in its header are macros. */
#define STRING_OF(text) #text
#define NAME_OF(macro)  STRING_OF(macro)

struct unwinder {
    __typeof__(&unw_init_local) init_local;
    __typeof__(&unw_step) step;
    __typeof__(&unw_get_reg) get_reg;
    __typeof__(&unw_get_proc_name) get_proc_name;
    char why[160]; /* it cannot be used; or empty */
};

/* A function of libunwind, or of a library that it needs; NULL if it is missing. libunwind must not call the program's.
 */
static void *
find_function(struct unwinder *unwinder, void *library, const char *name)
{
    void *function = dlsym(library, name), *first = dlsym(RTLD_DEFAULT, name);
    if (function != NULL && first != NULL && first != function)
        snprintf(unwinder->why, sizeof(unwinder->why), "the program has another %s than libunwind", name);
    return function;
}

/* The library stays open. */
static void
open_unwinder(struct unwinder *unwinder)
{
    *unwinder = (struct unwinder){.why = ""};
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(unwinder->why, sizeof(unwinder->why), "%s", dlerror());
        return;
    }
    *(void **)&unwinder->init_local = find_function(unwinder, library, NAME_OF(unw_init_local));
    *(void **)&unwinder->step = find_function(unwinder, library, NAME_OF(unw_step));
    *(void **)&unwinder->get_reg = find_function(unwinder, library, NAME_OF(unw_get_reg));
    *(void **)&unwinder->get_proc_name = find_function(unwinder, library, NAME_OF(unw_get_proc_name));
    (void)find_function(unwinder, library, "lzma_index_end"); /* called for programs with .gnu_debugdata */
    if (unwinder->init_local == NULL || unwinder->step == NULL || unwinder->get_reg == NULL ||
        unwinder->get_proc_name == NULL)
        snprintf(unwinder->why, sizeof(unwinder->why), "libunwind.so.8 lacks functions of libunwind");
}

/* The library that an address lies in; NULL: in none. */
static const void *
library_of(uintptr_t address)
{
    Dl_info info;
    return dladdr((const void *)address, &info) != 0 ? info.dli_fbase : NULL;
}

/* Whether code at the address is ddprun's, the engine or the shim: no place that a user could look at. */
static bool
is_ours(uintptr_t address)
{
    const void *library = library_of(address);
    return library != NULL && (library == library_of((uintptr_t)library_of) ||
                               library == library_of((uintptr_t)engine_state.services->driver_function));
}

void
stack_describe(char *text, size_t bytes)
{
    struct unwinder unwinder;
    open_unwinder(&unwinder);
    if (unwinder.why[0] != '\0') {
        snprintf(text, bytes, "unknown (%s)", unwinder.why);
        return;
    }
    text[0] = '\0';
    ucontext_t context;
    unw_cursor_t cursor;
    /* libc fills in what libunwind's own macro would: unw_context_t is as ucontext_t, which may be longer. */
    if (getcontext(&context) != 0 || unwinder.init_local(&cursor, (unw_context_t *)&context) != 0)
        return;

    size_t used = 0;
    for (int frame = 0; frame < FRAMES_AT_MOST && unwinder.step(&cursor) > 0; ++frame) {
        char name[128];
        unw_word_t offset = 0, address = 0;
        if (unwinder.get_reg(&cursor, UNW_REG_IP, &address) != 0 || is_ours(address))
            continue;
        if (unwinder.get_proc_name(&cursor, name, sizeof(name), &offset) != 0)
            snprintf(name, sizeof(name), "?");
        int wanted =
            snprintf(text + used, bytes - used, "%s%s+0x%lx", used > 0 ? " < " : "", name, (unsigned long)offset);
        if (wanted < 0 || (size_t)wanted >= bytes - used) {
            text[used] = '\0'; /* whole frames only */
            return;
        }
        used += (size_t)wanted;
    }
}
