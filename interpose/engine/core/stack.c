/*
 * stack.c - the caller's stack, for messages about calls that should not have been.
 *
 * By libc's backtrace(), which needs no library whose functions the program could have under the same names. The caller
 * holds no lock and is in no signal handler, as the loader takes locks and memory.
 */
#include "interpose/engine/core/core.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

enum { FRAMES_AT_MOST = 24 };

/* Whether code at the address is in a library of ddprun: no place that a user could look at. */
static bool
is_ours(uintptr_t address)
{
    Dl_info info;
    return dladdr((const void *)address, &info) != 0 && strstr(basename(info.dli_fname), "libddprun") != NULL;
}

/* After `before`: a function that its object exports, or the object's file, with an offset as addr2line takes it. */
static int
describe_frame(const char *before, uintptr_t address, char *text, size_t bytes)
{
    Dl_info info;
    struct link_map *object = NULL;
    if (dladdr1((const void *)address, &info, (void **)&object, RTLD_DL_LINKMAP) == 0)
        return snprintf(text, bytes, "%s0x%lx", before, (unsigned long)address);
    bool is_exported = info.dli_sname != NULL;
    return snprintf(text, bytes, "%s%s+0x%lx", before, is_exported ? info.dli_sname : basename(info.dli_fname),
                    (unsigned long)(address - (is_exported ? (uintptr_t)info.dli_saddr : object->l_addr)));
}

void
stack_describe(char *text, size_t bytes)
{
    void *frames[FRAMES_AT_MOST];
    int count = backtrace(frames, FRAMES_AT_MOST);
    size_t used = 0;
    for (int i = 0; i < count; ++i) {
        uintptr_t address = (uintptr_t)frames[i] - 1; /* of the call, which it returns from */
        if (is_ours(address))
            continue;
        int wanted = describe_frame(used > 0 ? " < " : "", address, text + used, bytes - used);
        if (wanted < 0 || (size_t)wanted >= bytes - used)
            break;
        used += (size_t)wanted;
    }
    text[used] = '\0'; /* whole frames only */
}
