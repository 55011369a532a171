/*
 * test_functions.c - what the engine knows of a kernel's parameters, against a driver with two kinds of handle that
 * refuses a query of the wrong kind: every kernel is known, whatever way its handle came; a handle that a library gave
 * out is asked only as a kernel; and one that no query knows is unknown by itself.
 */
#include "interpose/engine/memory/memory.h"

#include "tests/lib/test.h"

struct engine_state engine_state;
static unsigned kernels_added;

void
launch_filter_add_kernel(CUfunction function, const struct function_layout *layout)
{
    (void)function;
    kernels_added += layout->known;
}

void
launch_filter_pause(bool pause)
{
    (void)pause;
}

void
launch_filter_forget_kernels(void)
{
}

void
stop_job_by(enum comm_cause cause, const char *format, ...)
{
    ck_abort_msg("%d: %s", (int)cause, format);
    __builtin_unreachable();
}

/* ---- the driver ---- */

enum kind { FUNCTION, KERNEL, NEITHER };

struct handle {
    enum kind kind;
    size_t params;
    const char *name;
    unsigned asked[2]; /* by queries of each kind, of parameters */
};

static CUresult refusal; /* what a query answers to the other kind */

static CUresult
tell_param(struct handle *handle, enum kind kind, size_t index, size_t *offset, size_t *bytes)
{
    ++handle->asked[kind];
    if (handle->kind != kind)
        return refusal;
    if (index >= handle->params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *bytes = 4 + index;
    return CUDA_SUCCESS;
}

static CUresult
func_param(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    return tell_param((struct handle *)function, FUNCTION, index, offset, bytes);
}

static CUresult
kernel_param(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    return tell_param((struct handle *)kernel, KERNEL, index, offset, bytes);
}

static CUresult
tell_name(const char **name, const struct handle *handle, enum kind kind)
{
    if (handle->kind != kind)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = handle->name;
    return CUDA_SUCCESS;
}

static CUresult
func_name(const char **name, CUfunction function)
{
    return tell_name(name, (struct handle *)function, FUNCTION);
}

static CUresult
kernel_name(const char **name, CUkernel kernel)
{
    return tell_name(name, (struct handle *)kernel, KERNEL);
}

static CUresult
kernel_count(unsigned *count, CUlibrary library)
{
    *count = *(const unsigned *)library;
    return CUDA_SUCCESS;
}

static void
open_driver(void)
{
    engine_state.driver = (struct driver){.cuFuncGetParamInfo_p = func_param,
                                          .cuKernelGetParamInfo_p = kernel_param,
                                          .cuFuncGetName_p = func_name,
                                          .cuKernelGetName_p = kernel_name,
                                          .cuLibraryGetKernelCount_p = kernel_count};
    atomic_store(&engine_state.driver_ready, true);
    refusal = CUDA_ERROR_INVALID_HANDLE;
    kernels_added = 0;
    functions_before_unload();
    functions_after_unload();
}

static void
check_known(struct handle *handle)
{
    const struct function_layout *layout = function_layout((CUfunction)handle);
    ck_assert(layout->known);
    ck_assert_str_eq(layout->name, handle->name);
    ck_assert_uint_eq(layout->param_count, handle->params);
    for (unsigned i = 0; i < handle->params; ++i) {
        ck_assert_uint_eq(layout->params[i].offset, 8 * i);
        ck_assert_uint_eq(layout->params[i].bytes, 4 + i);
    }
    ck_assert_ptr_eq(function_layout((CUfunction)handle), layout);
    ck_assert_str_eq(function_name((CUfunction)handle), handle->name);
}

TEST(both_kinds_are_known)
{
    const CUresult refusals[] = {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE};
    for (int i = 0; i < 2; ++i) {
        struct handle function = {FUNCTION, 3, "function", {0}}, bare_function = {FUNCTION, 0, "bare_function", {0}};
        struct handle kernel = {KERNEL, 3, "kernel", {0}}, bare_kernel = {KERNEL, 0, "bare_kernel", {0}};
        open_driver();
        refusal = refusals[i];
        check_known(&function);
        ck_assert_uint_eq(function.asked[KERNEL], 0);
        check_known(&kernel);
        ck_assert_uint_eq(kernels_added, 2);
        if (refusal == CUDA_ERROR_INVALID_VALUE)
            continue; /* then the kind of a handle without parameters is unknown, and its name is not asked for */
        check_known(&bare_function);
        check_known(&bare_kernel);
        ck_assert_uint_eq(kernels_added, 4);
    }
}

TEST(a_kernel_of_a_library_is_asked_as_a_kernel_only)
{
    struct handle one = {KERNEL, 2, "one", {0}}, bare = {KERNEL, 0, "bare", {0}}, third = {FUNCTION, 1, "third", {0}};
    unsigned library = 2;
    CUkernel list[] = {(CUkernel)&one, (CUkernel)&bare, (CUkernel)&third};
    open_driver();
    functions_kernels_found(list, 3, (CUlibrary)&library, true);
    ck_assert_ptr_null(function_name((CUfunction)&one));
    check_known(&one);
    check_known(&bare);
    check_known(&third);
    ck_assert_uint_eq(one.asked[FUNCTION] + bare.asked[FUNCTION] + third.asked[KERNEL], 0);

    /* Unloading forgets the kinds, too: a handle may be used again for the other one. */
    functions_kernels_found(list, 1, NULL, true);
    functions_before_unload();
    functions_kernels_found(list + 1, 1, NULL, true);
    functions_after_unload();
    one.kind = bare.kind = FUNCTION;
    one.asked[KERNEL] = bare.asked[KERNEL] = 0;
    check_known(&one);
    check_known(&bare);
    ck_assert_uint_eq(one.asked[KERNEL], 0);

    /* A handle whose end was not reported. */
    functions_kernels_found(list + 2, 1, NULL, true);
    functions_before_unload();
    functions_after_unload();
    functions_kernels_found(list + 2, 1, NULL, true);
    check_known(&third);
}

TEST(one_unknown_kernel_is_unknown_by_itself)
{
    struct handle function = {FUNCTION, 3, "function", {0}}, neither = {NEITHER, 3, "neither", {0}};
    open_driver();
    ck_assert(!function_layout((CUfunction)&neither)->known);
    check_known(&function);
    ck_assert_uint_eq(kernels_added, 1);
}

/* What LeakSanitizer reads: layouts live as long as the process. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));

const char *
__lsan_default_suppressions(void)
{
    return "leak:function_layout\n";
}
