/*
 * fatal.c - where an OS thread is in a launch, and how a kernel that has gone wrong ends the launch, or the program.
 */
#include "block.h"

#undef NDEBUG /* or <assert.h> hides __assert_fail */
#include <assert.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread struct softgpu_thread softgpu_thread SOFTGPU_INITIAL_EXEC;

__thread struct block *block_here SOFTGPU_INITIAL_EXEC;

__thread const char *kernel_here SOFTGPU_INITIAL_EXEC;

/* The driver's way to give up a launch: the program continues, with an error. NULL: there is no driver. */
typedef void (*abandon_fn)(int result, const char *what);

static abandon_fn
find_abandon(void)
{
    abandon_fn abandon = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = driver != NULL ? dlsym(driver, "softgpuLaunchAbandon") : NULL;
    memcpy(&abandon, &found, sizeof(found));
    return abandon;
}

/* Ends the launch; `thread`: also says which of the block's threads it was. */
static void __attribute__((noreturn, format(printf, 3, 0)))
end_launch(int result, bool thread, const char *format, va_list args)
{
    char what[2048];
    const struct softgpu_index b = softgpu_thread.indices_of_fibers.block, t = softgpu_thread.indices_of_fibers.thread;
    int used = 0;
    if (block_here != NULL) /* where threads run as a loop, these are not kept */
        used = snprintf(what, sizeof(what), "block (%u,%u,%u)", b.x, b.y, b.z);
    if (block_here != NULL && thread)
        used += snprintf(what + used, sizeof(what) - (size_t)used, ", thread (%u,%u,%u)", t.x, t.y, t.z);
    if (block_here != NULL)
        used += snprintf(what + used, sizeof(what) - (size_t)used, ": ");
    vsnprintf(what + used, sizeof(what) - (size_t)used, format, args);

    const abandon_fn abandon = kernel_here != NULL ? find_abandon() : NULL;
    if (abandon != NULL)
        abandon(result, what);
    char line[2304];
    const int length =
        snprintf(line, sizeof(line), "softgpu: kernel %s: %s\n", kernel_here != NULL ? kernel_here : "(none)", what);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
    abort();
}

void
softgpu_kernel_fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end_launch(RESULT_LAUNCH_FAILED, false, format, args);
}

void
kernel_fail(int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end_launch(result, true, format, args);
}

void
softgpu_misaligned(const char *kernel, unsigned number, size_t alignment)
{
    kernel_here = kernel;
    kernel_fail(RESULT_MISALIGNED_ADDRESS,
                "parameter %u points to an element of %zu bytes, and is not aligned to as many", number, alignment);
}

void
softgpu_trap(void)
{
    kernel_fail(RESULT_LAUNCH_FAILED, "__trap()");
}

void
softgpu_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
{
    if (kernel_here == NULL)
        __assert_fail(expression, file, line, function);
    kernel_fail(RESULT_ASSERT, "%s:%u: assertion '%s' failed", file, line, expression);
}

void
block_refuse(const char *intrinsic)
{
    if (kernel_here == NULL)
        softgpu_kernel_fatal("%s is called outside a kernel", intrinsic);
    softgpu_kernel_fatal(
        "%s is called, but softgpu-cc saw no path from the kernel to it and runs its threads as a loop; name the "
        "function that calls it in the same source file, or call it without a function pointer",
        intrinsic);
}
