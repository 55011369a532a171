/*
 * calls.c - see softgpu/calls.h: what objects made by softgpu-cc reach of this library.
 */
#include "softgpu/calls.h"

#include <dlfcn.h>

const struct softgpu_calls *
softgpu_calls_table(void)
{
    static const struct softgpu_calls table = {
        .version = SOFTGPU_CALLS_VERSION,
#define CALL_MEMBER(name) .name = softgpu_##name,
        SOFTGPU_CALLS(CALL_MEMBER)
#undef CALL_MEMBER
            .kernel_fatal = softgpu_kernel_fatal,
        .misaligned = softgpu_misaligned,
        .trap = softgpu_trap,
        .assert_fail = softgpu_assert_fail,
    };
    return &table;
}

struct softgpu_thread *
softgpu_thread_here(void)
{
    return &softgpu_thread;
}

void
softgpu_keep(const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return;
    void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (object != NULL) /* NULL: the program itself, which cannot be unloaded */
        dlclose(object);
}
