/*
 * stack.c - the caller's stack, for messages about calls that should not have been.
 */
#define UNW_LOCAL_ONLY
#include "interpose/engine/core/core.h"

#include <dlfcn.h>
#include <libunwind.h>
#include <stdio.h>

enum { FRAMES_AT_MOST = 24 };

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
    text[0] = '\0';
    unw_context_t context;
    unw_cursor_t cursor;
    if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0)
        return;

    size_t used = 0;
    for (int frame = 0; frame < FRAMES_AT_MOST && unw_step(&cursor) > 0; ++frame) {
        char name[128];
        unw_word_t offset = 0, address = 0;
        if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || is_ours(address))
            continue;
        if (unw_get_proc_name(&cursor, name, sizeof(name), &offset) != 0)
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
