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
        .thread_here = softgpu_thread_here,
        .keep = softgpu_keep,
        .pointer_add = softgpu_pointer_add,
        .run_fibers = softgpu_run_fibers,
        .thread_end = softgpu_thread_end,
        .loop_begin = softgpu_loop_begin,
        .loop_next = softgpu_loop_next,
        .barrier = softgpu_barrier,
        .barrier_vote = softgpu_barrier_vote,
        .meet = softgpu_meet,
        .active_mask = softgpu_active_mask,
        .wait = softgpu_wait,
        .wake = softgpu_wake,
        .shared_place = softgpu_shared_place,
        .kernel_name = softgpu_kernel_name,
        .xorwow_jump = softgpu_xorwow_jump,
        .kernel_fatal = softgpu_kernel_fatal,
        .misaligned = softgpu_misaligned,
        .trap = softgpu_trap,
        .assert_fail = softgpu_assert_fail,
        .variable_add = softgpu_variable_add,
        .variable_remove = softgpu_variable_remove,
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
