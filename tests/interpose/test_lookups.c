/*
 * test_lookups.c - the 440 look-ups of static cudart 13.0, through the gate: each that ends at a hooked function gets
 * the hook for its version and flavour, each unknown version of a hooked name a thunk, and everything else the driver's
 * own pointer, bit for bit. With the stand-in's driver, whose table was not made from the hooks', and with one that
 * was.
 *
 * trap_2_1: no look-up fails, hangs or changes its answer because of the gate (facts, section 2, row 1).
 * trap_2_3: the version of each look-up decides (row 3); the first of them has an empty name, and none has a status.
 */
#include "harness.h"
#include "hook_table.h"
#include "static_cudart.h"

#include "tests/lib/test.h"

static get_proc_fn real_get_proc;
static void *(*real_look_up)(void *, const char *);
static bool stand_in; /* the driver computes; the other only counts */

/* The driver's own answer. */
static void *
truth(const char *name, int version, cuuint64_t flags)
{
    void *found = NULL;
    return real_get_proc(name, &found, version, flags, NULL) == CUDA_SUCCESS ? found : NULL;
}

/* The row of the table that `function` of the driver belongs to: the first, if several do. */
static const struct hooked *
row_of(const void *function)
{
    for (int i = 0; i < HOOKS; ++i) {
        const struct hooked *row = &hook_table[i];
        if (function == real_look_up(driver, row->symbol) || function == truth(row->name, row->version, row->flags))
            return row;
    }
    return NULL;
}

static bool
is_hooked_name(const char *name)
{
    for (int i = 0; i < HOOKS; ++i) {
        if (strcmp(hook_table[i].name, name) == 0)
            return true;
    }
    return false;
}

static const char *
expected_hook(const struct static_lookup *lookup, const void *real)
{
    if (strcmp(lookup->name, "cuGetProcAddress") == 0)
        return lookup->version >= 12000 ? "cuGetProcAddress_v2" : "cuGetProcAddress";
    const struct hooked *row = row_of(real);
    return row != NULL ? row->symbol : NULL;
}

/* Returns 1 if the look-up got a hook. */
static int
check(const struct static_lookup *lookup)
{
    void *real = truth(lookup->name, lookup->version, lookup->flags);
    const char *hook = real != NULL ? expected_hook(lookup, real) : NULL;
    const char *got = lookup->function != NULL ? harness_hook_name(lookup->function) : NULL;
    if (hook != NULL)
        ck_assert_msg(got != NULL && strcmp(got, hook) == 0, "%s %d %llu: got %s, not the hook %s", lookup->name,
                      lookup->version, lookup->flags, got != NULL ? got : "no hook", hook);
    else if (real != NULL && is_hooked_name(lookup->name))
        ck_assert_msg(harness_is_in_shim(lookup->function) && got == NULL, "%s %d %llu: not recorded", lookup->name,
                      lookup->version, lookup->flags);
    else
        ck_assert_msg(lookup->function == real, "%s %d %llu: not the driver's pointer", lookup->name, lookup->version,
                      lookup->flags);
    return hook != NULL;
}

TEST(each_look_up_of_static_cudart_gets_the_right_pointer)
{
    size_t count;
    int hooked = 0;
    const struct static_lookup *lookups = static_cudart_lookups(&count);
    ck_assert_uint_eq(count, 440);
    for (size_t i = 0; i < count; ++i)
        hooked += check(&lookups[i]);
    ck_assert_int_ge(hooked, 75); /* else the test looks for hooks in the wrong place */
}

#define FUNCTION(name, version) ((__typeof__(&(name)))static_cudart_function(#name, version, 0))

/* What a trainer does with its pointers: on the stand-in, with results; the other driver only takes the calls. */
TEST(work_through_these_pointers_is_seen_and_done)
{
    enum { BYTES = 4096 };
    static unsigned char in[BYTES], out[BYTES];
    CUdeviceptr from = 0, to = 0;
    CUcontext context = NULL;
    CUdevice device = 0;
    for (size_t i = 0; i < BYTES; ++i)
        in[i] = (unsigned char)(i * 7);
    if (!stand_in)
        return;
    ck_assert_int_eq(FUNCTION(cuInit, 2000)(0), CUDA_SUCCESS);
    ck_assert_int_eq(FUNCTION(cuDevicePrimaryCtxRetain, 7000)(&context, device), CUDA_SUCCESS);
    ck_assert_int_eq(FUNCTION(cuCtxSetCurrent, 4000)(context), CUDA_SUCCESS);
    CUresult (*allocate)(CUdeviceptr *, size_t) = static_cudart_function("cuMemAlloc", 3020, 0);
    CUresult (*copy_in)(CUdeviceptr, const void *, size_t) = static_cudart_function("cuMemcpyHtoD", 3020, 0);
    CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t) = static_cudart_function("cuMemcpyDtoD", 7000, 2);
    CUresult (*copy_out)(void *, CUdeviceptr, size_t) = static_cudart_function("cuMemcpyDtoH", 3020, 0);
    CUresult (*release)(CUdeviceptr) = static_cudart_function("cuMemFree", 3020, 0);
    ck_assert_int_eq(allocate(&from, BYTES), CUDA_SUCCESS);
    ck_assert_int_eq(allocate(&to, BYTES), CUDA_SUCCESS);

    char expected[LOG_BYTES];
    snprintf(expected, sizeof(expected),
             "work legacy 0:%llx+1000 host %p+1000 done"
             "work per-thread 0:%llx+1000 1:%llx+1000 done"
             "work legacy 0:%llx+1000 1:%llx+1000 done"
             "frees release %llx+0",
             from, (void *)in, to, from, (unsigned long long)(uintptr_t)out, to, from);
    record->log[0] = '\0';
    ck_assert_int_eq(copy_in(from, in, BYTES), CUDA_SUCCESS);
    ck_assert_int_eq(copy(to, from, BYTES), CUDA_SUCCESS);
    ck_assert_int_eq(copy_out(out, to, BYTES), CUDA_SUCCESS);
    ck_assert_int_eq(release(from), CUDA_SUCCESS);
    ck_assert_str_eq(record->log, expected);
    ck_assert_mem_eq(in, out, BYTES);
}

/* Programs ask shared cudart for the driver's functions too, NCCL among them. cudart itself has them from the gate. */
TEST(entry_points_of_shared_cudart_are_hooks)
{
    if (!stand_in)
        return;
    void *cudart = dlopen("libcudart.so.13", RTLD_NOW), *found = NULL;
    ck_assert_msg(cudart != NULL, "%s", dlerror());
    int (*by_version)(const char *, void **, unsigned, unsigned long long, int *) =
        (int (*)(const char *, void **, unsigned, unsigned long long, int *))dlsym(cudart,
                                                                                   "cudaGetDriverEntryPointByVersion");
    int (*entry_point)(const char *, void **, unsigned long long, int *) =
        (int (*)(const char *, void **, unsigned long long, int *))dlsym(cudart, "cudaGetDriverEntryPoint");
    ck_assert_ptr_nonnull(by_version);
    for (unsigned long long flags = 0; flags <= 2; ++flags) { /* default, legacy, per-thread */
        const char *copy = flags == 2 ? "cuMemcpyHtoDAsync_v2_ptsz" : "cuMemcpyHtoDAsync_v2";
        int status = -1;
        ck_assert_int_eq(by_version("cuMemcpyHtoDAsync", &found, 12000, flags, &status), 0);
        ck_assert_int_eq(status, 0);
        ck_assert_str_eq(harness_hook_name(found), copy);
        ck_assert_int_eq(by_version("cuLaunchKernelEx", &found, 13000, flags, NULL), 0);
        ck_assert_str_eq(harness_hook_name(found), flags == 2 ? "cuLaunchKernelEx_ptsz" : "cuLaunchKernelEx");
        if (entry_point == NULL) /* an old name, which not every runtime has */
            continue;
        ck_assert_int_eq(entry_point("cuMemcpyHtoDAsync", &found, flags, NULL), 0);
        ck_assert_str_eq(harness_hook_name(found), copy);
    }
    ck_assert_int_eq(by_version("cuDriverGetVersion", &found, 12000, 0, NULL), 0);
    ck_assert(!harness_is_in_shim(found));
}

/* Versions from before everything to after everything, in every flavour that the header has. */
TEST(trap_0_2_the_pointer_decides_at_every_version)
{
    static const int versions[] = {1,    2000,  3010,  3020,  4000,  6050,  7000,
                                   8000, 11060, 11070, 12070, 12080, 12090, 13000};
    for (int row = 0; row < HOOKS; ++row) {
        for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); ++v) {
            for (cuuint64_t flags = 0; flags <= 2; ++flags) {
                CUdriverProcAddressQueryResult status = 99, real_status = 99;
                void *real = NULL, *got = NULL;
                CUresult expected = real_get_proc(hook_table[row].name, &real, versions[v], flags, &real_status);
                ck_assert_int_eq(get_proc(hook_table[row].name, &got, versions[v], flags, &status), expected);
                ck_assert_int_eq(status, real_status);
                struct static_lookup lookup = {hook_table[row].name, versions[v], flags, (int)expected, got};
                (void)check(&lookup);
            }
        }
    }
}

static int
run(void)
{
    if (!static_cudart_start() || !harness_open())
        return EXIT_FAILURE;
    stand_in = fake == NULL;
    __typeof__(&cuMemAlloc_v2) allocate = static_cudart_function("cuMemAlloc", 3020, 0);
    CUdeviceptr memory;
    if (allocate == NULL)
        return EXIT_FAILURE;
    (void)allocate(&memory, 256); /* makes this process the rank, whatever the answer is */
    record = harness_record();
    void *engine = dlopen(FAKE_ENGINE, RTLD_LAZY | RTLD_NOLOAD);
    if (record == NULL || engine == NULL)
        return EXIT_FAILURE;
    real_look_up = (void *(*)(void *, const char *))dlsym(engine, "fake_look_up");
    record->services->exempt_library((const void *)real_look_up);
    real_get_proc = (get_proc_fn)real_look_up(driver, "cuGetProcAddress_v2");

    return tests_run_in_this_process();
}

int
main(int argc, char **argv)
{
    int status = harness_run(argc, argv, HARNESS_FAKE_DRIVER, NULL, run);
    if (status != 0 || argc > 1)
        return status;
    return harness_run(argc, argv, HARNESS_STAND_IN, NULL, run);
}
