/*
 * test_gate.c - callers get the right pointers: hooks for what is hooked, by whichever way they ask; the driver's own
 * for everything else and for exempt libraries; RTLD_NEXT keeps its meaning; every hook of the table fires, forwards,
 * and stays out of its own way.
 *
 * Starts itself again with the shim preloaded, in a job folder of its own, with a counting driver and engine.
 */
#include "base/status_page.h"
#include "interpose/engine.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDED_OPERANDS = 4 };

struct fake_record {
    unsigned long starts, begins, ends, frees, destroys, unloads, nested;
    char name[64];
    CUstream stream;
    unsigned operand_count;
    struct operand operands[RECORDED_OPERANDS];
    const struct shim_services *services;
    CUresult (*call_inside)(CUdeviceptr, CUdeviceptr, size_t);
};

void *next_asker_next(const char *name);
void *next_asker_default(const char *name);
int next_asker_function(void);

typedef CUresult (*get_proc_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef unsigned long (*calls_fn)(const char *);
typedef CUresult (*any_fn)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

static void *driver;
static get_proc_fn get_proc;
static calls_fn driver_calls;
static struct fake_record *record; /* NULL until this process is the rank */

/* Any argument list: pointers point to zeros, numbers do not matter. */
static char zeros[4096];

static CUresult
call(void *function)
{
    return ((any_fn)function)(zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros);
}

static void
find_record(void)
{
    void *engine = dlopen(FAKE_ENGINE, RTLD_LAZY | RTLD_NOLOAD);
    record = engine != NULL ? dlsym(engine, "fake_record") : NULL;
}

/* cuda.h gives this name to its newer version; both exist. */
#undef cuDevicePrimaryCtxReset

enum kind { KIND_OPERATION, KIND_LAUNCH, KIND_ALLOCATION, KIND_RELEASE, KIND_NOTIFICATION };

struct hooked {
    enum kind kind;
    const char *symbol, *name;
    int version;
    cuuint64_t flags;
};

#define BOTH(kind, symbol, twin, name, version, twin_version) \
    {kind, #symbol, name, version, 0}, {kind, #symbol #twin, name, twin_version, 2},
#define OPERATION(s, twin, n, v, tv, ...)  BOTH(KIND_OPERATION, s, twin, n, v, tv)
#define LAUNCH(s, twin, n, v, tv, ...)     BOTH(KIND_LAUNCH, s, twin, n, v, tv)
#define ALLOCATION(s, twin, n, v, tv, ...) BOTH(KIND_ALLOCATION, s, twin, n, v, tv)
#define RELEASE(s, twin, n, v, tv, ...)    BOTH(KIND_RELEASE, s, twin, n, v, tv)
#define ALLOCATION_SINGLE(s, n, v, ...)    {KIND_ALLOCATION, #s, n, v, 0},
#define RELEASE_SINGLE(s, n, v, ...)       {KIND_RELEASE, #s, n, v, 0},
#define NOTIFICATION(s, n, v, ...)         {KIND_NOTIFICATION, #s, n, v, 0},
static const struct hooked table[] = {
#include "interpose/shim/hooks.def"
};
enum { HOOKS = sizeof(table) / sizeof(table[0]) };

static void *
by_version(const struct hooked *hooked)
{
    void *found = NULL;
    ck_assert_int_eq(get_proc(hooked->name, &found, hooked->version, hooked->flags, NULL), CUDA_SUCCESS);
    return found;
}

START_TEST(next_and_default_keep_their_meaning)
{
    /* Nothing after the asker defines its function: NULL, and not the asker itself. */
    ck_assert_ptr_null(next_asker_next("next_asker_function"));
    ck_assert_ptr_eq(next_asker_default("next_asker_function"), (void *)next_asker_function);
    ck_assert_ptr_eq(next_asker_next("fopen"), dlsym(RTLD_DEFAULT, "fopen"));
    ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "a_name_that_nobody_defines"));
    ck_assert_ptr_nonnull(dlerror());
}
END_TEST

START_TEST(allocation_makes_the_rank)
{
    void *allocate = by_version(&table[0]);
    find_record();
    ck_assert(record == NULL || record->starts == 0);
    ck_assert_int_eq(call(allocate), CUDA_SUCCESS);
    find_record();
    ck_assert_ptr_nonnull(record);
    ck_assert_uint_eq(record->starts, 1);
    ck_assert_int_eq(call(allocate), CUDA_SUCCESS);
    ck_assert_uint_eq(record->starts, 1);
}
END_TEST

START_TEST(every_hook_fires_and_forwards)
{
    const struct hooked *hooked = &table[_i];
    void *hook = by_version(hooked);
    ck_assert_msg(hook == dlsym(driver, hooked->symbol), "%s: two ways, two pointers", hooked->symbol);

    struct fake_record before = *record;
    unsigned long forwarded = driver_calls(hooked->symbol);
    ck_assert_int_eq(call(hook), CUDA_SUCCESS);
    ck_assert_uint_eq(driver_calls(hooked->symbol), forwarded + 1);

    bool reported = hooked->kind == KIND_OPERATION || hooked->kind == KIND_LAUNCH;
    ck_assert_uint_eq(record->begins - before.begins, reported);
    ck_assert_uint_eq(record->ends - before.ends, reported);
    ck_assert_uint_eq(record->frees - before.frees, hooked->kind == KIND_RELEASE);
    ck_assert_uint_eq(record->destroys + record->unloads - before.destroys - before.unloads,
                      hooked->kind == KIND_NOTIFICATION);
    if (reported)
        ck_assert_str_eq(record->name, hooked->symbol);
}
END_TEST

START_TEST(default_streams_are_told_apart)
{
    void *plain, *per_thread;
    ck_assert_int_eq(get_proc("cuMemcpy", &plain, 4000, 0, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(get_proc("cuMemcpy", &per_thread, 7000, 2, NULL), CUDA_SUCCESS);
    (void)call(plain);
    ck_assert_ptr_eq(record->stream, CU_STREAM_LEGACY);
    (void)call(per_thread);
    ck_assert_ptr_eq(record->stream, CU_STREAM_PER_THREAD);
}
END_TEST

START_TEST(operands_are_what_the_call_names)
{
    CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    ck_assert_int_eq(get_proc("cuMemcpyDtoDAsync", (void **)&copy, 3020, 0, NULL), CUDA_SUCCESS);
    (void)copy(0x1000, 0x2000, 48, (CUstream)0x77);
    ck_assert_uint_eq(record->operand_count, 2);
    ck_assert_uint_eq(record->operands[0].address, 0x1000);
    ck_assert_uint_eq(record->operands[1].address, 0x2000);
    ck_assert_uint_eq(record->operands[1].bytes, 48);
    ck_assert_ptr_eq(record->stream, (CUstream)0x77);

    CUresult (*copy_2d)(const CUDA_MEMCPY2D *);
    CUDA_MEMCPY2D rows = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = 0x10000,
                          .dstPitch = 256,
                          .dstY = 2,
                          .dstXInBytes = 8,
                          .srcMemoryType = CU_MEMORYTYPE_HOST,
                          .WidthInBytes = 100,
                          .Height = 3};
    ck_assert_int_eq(get_proc("cuMemcpy2D", (void **)&copy_2d, 3020, 0, NULL), CUDA_SUCCESS);
    (void)copy_2d(&rows);
    ck_assert_uint_eq(record->operand_count, 1);
    ck_assert_uint_eq(record->operands[0].address, 0x10000 + 2 * 256 + 8);
    ck_assert_uint_eq(record->operands[0].bytes, 2 * 256 + 100);
}
END_TEST

START_TEST(calls_from_the_engine_are_not_reported)
{
    CUresult (*memcpy_hook)(CUdeviceptr, CUdeviceptr, size_t);
    ck_assert_int_eq(get_proc("cuMemcpy", (void **)&memcpy_hook, 4000, 0, NULL), CUDA_SUCCESS);
    unsigned long begins = record->begins, calls = driver_calls("cuMemcpy");
    record->call_inside = memcpy_hook;
    (void)memcpy_hook(1, 2, 3);
    record->call_inside = NULL;
    ck_assert_uint_eq(record->begins, begins + 1);
    ck_assert_uint_eq(record->nested, 0);
    ck_assert_uint_eq(driver_calls("cuMemcpy"), calls + 2);
}
END_TEST

START_TEST(an_unknown_version_is_counted_and_forwarded)
{
    const char *name = NULL;
    void *future, *again;
    ck_assert_int_eq(get_proc("cuMemcpyHtoD", &future, 14000, 0, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(get_proc("cuMemcpyHtoD", &again, 14000, 0, NULL), CUDA_SUCCESS);
    ck_assert_ptr_eq(future, again);
    ck_assert_uint_eq(record->services->unknown_calls(&name), 0);
    (void)call(future);
    (void)call(future);
    ck_assert_uint_eq(driver_calls("cuMemcpyHtoD_v9"), 2);
    ck_assert_uint_eq(record->services->unknown_calls(&name), 2);
    ck_assert_str_eq(name, "cuMemcpyHtoD");
}
END_TEST

START_TEST(what_is_not_hooked_passes_untouched)
{
    void *init, *fake_real = dlsym(driver, "cuInit");
    ck_assert_int_eq(get_proc("cuInit", &init, 2000, 0, NULL), CUDA_SUCCESS);
    ck_assert_ptr_eq(init, fake_real);
    Dl_info info;
    ck_assert_int_ne(dladdr(init, &info), 0);
    ck_assert_ptr_nonnull(strstr(info.dli_fname, "libcuda.so.1"));
    void *none = zeros;
    ck_assert_int_ne(get_proc("cuNoSuchCall", &none, 12000, 0, NULL), CUDA_SUCCESS);
}
END_TEST

START_TEST(cudas_older_entry_is_replaced_too)
{
    CUresult (*older)(const char *, void **, int, cuuint64_t);
    void *hook, *newer;
    ck_assert_int_eq(get_proc("cuGetProcAddress", (void **)&older, 11030, 0, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(older("cuLaunchKernel", &hook, 4000, 0), CUDA_SUCCESS);
    ck_assert_int_eq(get_proc("cuLaunchKernel", &newer, 4000, 0, NULL), CUDA_SUCCESS);
    ck_assert_ptr_eq(hook, newer);
}
END_TEST

START_TEST(exempt_libraries_get_the_drivers_own_pointers)
{
    void *engine = dlopen(FAKE_ENGINE, RTLD_LAZY | RTLD_NOLOAD);
    void *(*look_up)(void *, const char *) = (void *(*)(void *, const char *))dlsym(engine, "fake_look_up");
    void *hook = dlsym(driver, "cuLaunchKernel");
    ck_assert_ptr_eq(look_up(driver, "cuLaunchKernel"), hook);
    record->services->exempt_library((const void *)look_up);
    ck_assert_ptr_ne(look_up(driver, "cuLaunchKernel"), hook);
    ck_assert_ptr_eq(dlsym(driver, "cuLaunchKernel"), hook);
}
END_TEST

START_TEST(the_engine_gets_the_drivers_own_pointers)
{
    void *real = record->services->driver_function("cuLaunchKernel", 4000);
    ck_assert_ptr_nonnull(real);
    ck_assert_ptr_ne(real, dlsym(driver, "cuLaunchKernel"));
    ck_assert_ptr_null(record->services->driver_function("cuNoSuchCall", 4000));
}
END_TEST

START_TEST(in_a_forked_child_hooks_are_jumps)
{
    void *hook = dlsym(driver, "cuLaunchKernel");
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        unsigned long begins = record->begins, calls = driver_calls("cuLaunchKernel");
        (void)call(hook);
        _exit(record->begins == begins && driver_calls("cuLaunchKernel") == calls + 1 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

static int
run_tests(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
    get_proc = (get_proc_fn)dlsym(driver, "cuGetProcAddress_v2");
    driver_calls = (calls_fn)dlsym(driver, "fake_driver_calls");

    Suite *suite = suite_create("gate");
    TCase *tcase = tcase_create("in order");
    tcase_add_test(tcase, next_and_default_keep_their_meaning);
    tcase_add_test(tcase, allocation_makes_the_rank);
    tcase_add_loop_test(tcase, every_hook_fires_and_forwards, 0, HOOKS);
    tcase_add_test(tcase, default_streams_are_told_apart);
    tcase_add_test(tcase, operands_are_what_the_call_names);
    tcase_add_test(tcase, calls_from_the_engine_are_not_reported);
    tcase_add_test(tcase, an_unknown_version_is_counted_and_forwarded);
    tcase_add_test(tcase, what_is_not_hooked_passes_untouched);
    tcase_add_test(tcase, cudas_older_entry_is_replaced_too);
    tcase_add_test(tcase, the_engine_gets_the_drivers_own_pointers);
    tcase_add_test(tcase, in_a_forked_child_hooks_are_jumps);
    tcase_add_test(tcase, exempt_libraries_get_the_drivers_own_pointers);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* the cases build on each other: this process becomes the rank */
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A process outside any job: the shim is loaded and replaces nothing. */
static int
run_passive(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    Dl_info info;
    void *launch = driver != NULL ? dlsym(driver, "cuLaunchKernel") : NULL;
    if (launch == NULL || dladdr(launch, &info) == 0 || strstr(info.dli_fname, "libcuda.so.1") == NULL) {
        fprintf(stderr, "outside a job, cuLaunchKernel is not the driver's\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static void
set_job(const char *folder)
{
    setenv(DDPRUN_ENV_PROTOCOL, "1", 1);
    setenv(DDPRUN_ENV_JOB_DIR, folder, 1);
    setenv(DDPRUN_ENV_ENGINE, FAKE_ENGINE, 1);
    setenv(DDPRUN_ENV_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_WORLD_SIZE, "1", 1);
}

static int
run_again(char *program, const char *how)
{
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, how, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--in-job") == 0)
        return run_tests();
    if (argc == 2 && strcmp(argv[1], "--passive") == 0)
        return run_passive();

    char folder[] = "/tmp/ddprun-test-gate-XXXXXX";
    char name[256];
    if (mkdtemp(folder) == NULL || status_page_map(folder, 1, true) == NULL) {
        perror(folder);
        return EXIT_FAILURE;
    }
    setenv("LD_PRELOAD", SHIM, 1);
    setenv("LD_LIBRARY_PATH", FAKE_DRIVER_DIR, 1);
    int passive = run_again(argv[0], "--passive");
    set_job(folder);
    int in_job = run_again(argv[0], "--in-job");

    unsetenv("LD_PRELOAD");
    snprintf(name, sizeof(name), "%s/" DDPRUN_STATUS_FILE, folder);
    unlink(name);
    snprintf(name, sizeof(name), "%s/rank-0.lock", folder);
    unlink(name);
    rmdir(folder);
    return passive == 0 && in_job == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
