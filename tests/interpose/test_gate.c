/*
 * test_gate.c - callers get the right pointers: hooks for what is hooked, by whichever way they ask; the driver's own
 * for everything else and for exempt libraries; RTLD_NEXT keeps its meaning; hooks stay out of their own way.
 *
 * Where each trap of facts/interposing-cuda.md is pinned that needs no GPU:
 *   1.4 RTLD_NEXT's caller            trap_1_4_next_caller, trap_1_4_next_caller_of_a_version
 *   1.4 a guard that remembers        trap_1_4_the_same_question_again
 *   1.4 finding the real dlsym        trap_1_4_libcs_own_functions_stay_reachable; lint/exports.sh (oldest glibc)
 *   1.4 own code calling dlsym        lint/dlsym.sh
 *   1.4 names that only begin alike   trap_1_4_names_that_begin_alike
 *   1.4 re-entrant initialisation     trap_1_4_a_driver_that_asks_back
 *   1.4 override of dlopen            trap_1_4_libcs_own_functions_stay_reachable
 *   1.4 named version node            test_linked.c, whose references name a version; lint/exports.sh
 *   1.4 exports by glob               lint/exports.sh
 *   1.4 constructors                  lint/exports.sh; test_start.c
 *   1.4 dlsym that allocates          trap_1_4_no_allocation_before_a_name_matches
 *   1.5 NCCL's own calls              trap_1_5_exempt_libraries, what_nccl_calls_is_not_reported and the next two
 *   1.5 a lock across a driver call   trap_1_5_no_lock_across_a_driver_call; test_start.c (across the loader)
 *   1.5 calls from within calls       trap_1_5_calls_from_within_are_not_reported
 *   1.5 fork                          trap_1_5_in_a_forked_child_hooks_are_jumps; test_start.c (while it decides)
 *   2 row 1, new versions             test_lookups.c: trap_2_1; trap_2_1_an_unknown_version_is_counted
 *   2 row 2, calls that are not seen  test_hooks.c; test_linked.c; end_to_end/faults.sh (a blind shim ends the job)
 *   2 row 3, the wrong ABI            test_lookups.c: trap_0_2
 *   2 row 5, poisoned processes       lint/exports.sh; end_to_end/inert.sh
 *   2 row 7, NULL outputs             test_hooks.c: trap_2_7; trap_2_7_questions_without_an_answer
 *   2 row 15, other preloads          lint/exports.sh (AddressSanitizer's runtime in front)
 *   2 row 14, wrappers                launcher's tests: the preload is set for the rank
 * Row 8 (captured graphs) is the engine's. Code patching (row 9) and shared memory (row 10) are not used.
 */
#include "harness.h"
#include "hook_table.h"

#include "tests/lib/test.h"

void *next_asker_next(const char *name);
void *next_asker_default(const char *name);
void *next_asker_next_version(const char *name, const char *version);
int next_asker_function(void);

typedef CUresult (*any_fn)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

/* Any argument list: pointers point to zeros, numbers do not matter. */
static char zeros[4096];

static CUresult
call(void *function)
{
    return ((any_fn)function)(zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros);
}

/* A function of the driver's own. */
static bool
is_drivers(void *found)
{
    Dl_info info;
    return found != NULL && dladdr(found, &info) != 0 && strstr(info.dli_fname, "libcuda.so.1") != NULL;
}

TEST(trap_1_4_next_caller)
{
    /* Nothing after the asker defines its function: NULL, and not the asker itself. */
    ck_assert_ptr_null(next_asker_next("next_asker_function"));
    ck_assert_ptr_eq(next_asker_default("next_asker_function"), (void *)next_asker_function);
    ck_assert_ptr_eq(next_asker_next("fclose"), dlsym(RTLD_DEFAULT, "fclose"));
    ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "a_name_without_a_definition"));
    ck_assert_ptr_nonnull(dlerror());
}

/* The same for dlvsym: a caller that asks for the next "dlsym" of a version gets libc's, and not the shim's. */
TEST(trap_1_4_next_caller_of_a_version)
{
    Dl_info info;
    void *found = NULL;
    for (int i = 0; i < 3 && found == NULL; ++i)
        found = next_asker_next_version("dlsym", (const char *[]){"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}[i]);
    ck_assert_int_ne(dladdr(found, &info), 0);
    ck_assert_says(info.dli_fname, "libc.so.6");
    ck_assert_ptr_null(next_asker_next_version("fopen", "NO_SUCH_VERSION"));
    ck_assert_ptr_nonnull(strstr(dlerror(), "NO_SUCH_VERSION"));
}

TEST(trap_1_4_libcs_own_functions_stay_reachable)
{
    static const char *const names[] = {"dlopen", "dlclose", "dladdr", "malloc", "fork"};
    Dl_info info;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        ck_assert_int_ne(dladdr(dlsym(RTLD_DEFAULT, names[i]), &info), 0);
        ck_assert_msg(strstr(info.dli_fname, "libddprun.so") == NULL, "%s is overridden", names[i]);
    }
    ck_assert_ptr_eq(((void *(*)(void *, const char *))next_asker_next("dlsym"))(RTLD_DEFAULT, "fopen"),
                     dlsym(RTLD_DEFAULT, "fopen"));
}

/* dlsym(3) of libc may allocate; what stands in front of it must not, for it is called by allocators that start. */
TEST(trap_1_4_no_allocation_before_a_name_matches)
{
    unsigned long before = harness_allocations();
    for (int i = 0; i < 100; ++i) {
        (void)dlsym(RTLD_DEFAULT, "fopen");
        (void)dlsym(RTLD_DEFAULT, "culmination");
    }
    ck_assert_uint_eq(harness_allocations(), before);
}

TEST(allocation_makes_the_rank)
{
    void *allocate = harness_look_up(hook_table[0].name, hook_table[0].version, hook_table[0].flags);
    record = harness_record();
    ck_assert(record == NULL || record->starts == 0);
    ck_assert_int_eq(call(allocate), CUDA_SUCCESS);
    record = harness_record();
    ck_assert_ptr_nonnull(record);
    ck_assert_uint_eq(record->starts, 1);
    ck_assert_int_eq(call(allocate), CUDA_SUCCESS);
    ck_assert_uint_eq(record->starts, 1);
}

/* As cudart does in its fallback, and as other languages' bindings do: by dlvsym, or by the linker's global scope. */
TEST(every_way_of_asking_ends_at_the_hook)
{
    CUresult (*by_older)(const char *, void **, int, cuuint64_t) = dlsym(driver, "cuGetProcAddress");
    void *found;
    ck_assert_str_eq(harness_hook_name(dlsym(driver, "cuMemcpyHtoD_v2")), "cuMemcpyHtoD_v2");
    ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2")); /* as without the shim: the driver is not global */
    ck_assert_str_eq(harness_hook_name(dlvsym(driver, "cuMemcpyHtoD_v2", "libcuda.so.1")), "cuMemcpyHtoD_v2");
    ck_assert_str_eq(harness_hook_name(dlvsym(driver, "cuGetProcAddress_v2", "libcuda.so.1")), "cuGetProcAddress_v2");
    ck_assert_str_eq(harness_hook_name((void *)by_older), "cuGetProcAddress");
    ck_assert_ptr_eq(harness_look_up("cuGetProcAddress", 11030, 0), (void *)by_older);
    for (cuuint64_t flags = 0; flags <= 2; ++flags) {
        ck_assert_int_eq(by_older("cuMemcpyHtoD", &found, 13000, flags), CUDA_SUCCESS);
        ck_assert_str_eq(harness_hook_name(found), flags == 2 ? "cuMemcpyHtoD_v2_ptds" : "cuMemcpyHtoD_v2");
        found = harness_look_up("cuMemcpyHtoD", 13000, flags);
        ck_assert_str_eq(harness_hook_name(found), flags == 2 ? "cuMemcpyHtoD_v2_ptds" : "cuMemcpyHtoD_v2");
    }
}

TEST(trap_1_4_the_same_question_again)
{
    void *first = dlsym(driver, "cuLaunchKernel"), *other = dlsym(RTLD_DEFAULT, "fopen");
    for (int i = 0; i < 10; ++i) {
        ck_assert_ptr_eq(dlsym(driver, "cuLaunchKernel"), first);
        ck_assert_ptr_eq(dlsym(RTLD_DEFAULT, "fopen"), other);
    }
}

TEST(trap_1_4_names_that_begin_alike)
{
    static const char *const names[] = {"cu", "cud", "cudnnCreate", "cuLaunchKernel_", "cublas", "cuMemAlloc"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
        ck_assert_ptr_null(dlsym(NULL, names[i]));
    ck_assert_ptr_null(dlsym(driver, "cudnnCreate"));
}

TEST(trap_1_4_a_driver_that_asks_back)
{
    fake->asks_back = true;
    void *hook = harness_look_up("cuMemcpy", 4000, 0);
    ck_assert_str_eq(harness_hook_name(hook), "cuMemcpy");
    ck_assert(is_drivers(fake->own));
    fake->own = NULL;
    ck_assert_int_eq(call(hook), CUDA_SUCCESS);
    ck_assert(is_drivers(fake->own)); /* a hook would call it for ever */
    fake->asks_back = false;
}

/* As an extension of Python's, or a plugin: no other library sees the driver that it is linked with. */
TEST(a_library_with_a_driver_of_its_own_reaches_the_hooks)
{
    void *library = dlopen(LOCAL_ASKER, RTLD_NOW | RTLD_LOCAL);
    void *(*look_up)(const char *) = (void *(*)(const char *))dlsym(library, "next_asker_default");
    ck_assert_str_eq(harness_hook_name(look_up("cuMemcpyDtoH_v2")), "cuMemcpyDtoH_v2");
    ck_assert_str_eq(harness_hook_name(look_up("cuGetProcAddress_v2")), "cuGetProcAddress_v2");
    ck_assert_ptr_null(look_up("cuMemcpyDtoH_v7"));
    dlclose(library);
}

TEST(trap_2_7_questions_without_an_answer)
{
    CUdriverProcAddressQueryResult status;
    void *found = zeros;
    ck_assert_int_eq(get_proc(NULL, &found, 12000, 0, &status), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(get_proc("cuLaunchKernel", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(get_proc("", &found, 0, 0, NULL), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(get_proc("cuLaunchKernel", &found, 1, 0, &status), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    ck_assert_ptr_null(found);
    ck_assert_ptr_null(dlvsym(driver, "cuLaunchKernel", "NO_SUCH_VERSION"));
}

static void *
call_other(void *hook)
{
    (void)call(hook);
    return NULL;
}

/* Two calls meet inside the driver, each of which comes back only when the other is there. */
TEST(trap_1_5_no_lock_across_a_driver_call)
{
    pthread_t other;
    void *copy = dlsym(driver, "cuMemcpyDtoD_v2"), *release = dlsym(driver, "cuMemFree_v2");
    ck_assert_int_eq(pthread_barrier_init(&fake->meeting, NULL, 2), 0);
    fake->meets = true;
    ck_assert_int_eq(pthread_create(&other, NULL, call_other, release), 0);
    (void)call(copy);
    pthread_join(other, NULL);
    fake->meets = false;
}

TEST(trap_1_5_calls_from_within_are_not_reported)
{
    CUresult (*memcpy_hook)(CUdeviceptr, CUdeviceptr, size_t) = harness_look_up("cuMemcpy", 4000, 0);
    unsigned long begins = record->begins, calls = driver_calls("cuMemcpy");
    record->call_inside = memcpy_hook;
    (void)memcpy_hook(1, 2, 3);
    record->call_inside = NULL;
    ck_assert_uint_eq(record->begins, begins + 1);
    ck_assert_uint_eq(record->nested, 0);
    ck_assert_uint_eq(driver_calls("cuMemcpy"), calls + 2);
}

/* A version from the future, also by its exported name, and one from before the ABI that this shim knows: no hooks. */
static const struct {
    const char *name, *symbol;
    int version; /* 0: looked up by the symbol */
} unknown[] = {{"cuMemcpyHtoD", "cuMemcpyHtoD_v9", 14000},
               {"cuMemcpyHtoD", "cuMemcpyHtoD_v9", 0},
               {"cuMemFree", "cuMemFree_v1", 2000}};

TABLE_TEST(trap_2_1_an_unknown_version_is_counted, unknown)
{
    const char *name = NULL, *symbol = unknown[_i].symbol;
    uint64_t before = record->services->unknown_calls(&name), calls = driver_calls(symbol);
    for (int i = 0; i < 2; ++i) {
        void *found =
            unknown[_i].version > 0 ? harness_look_up(unknown[_i].name, unknown[_i].version, 0) : dlsym(driver, symbol);
        ck_assert(!is_drivers(found));
        ck_assert_ptr_null(harness_hook_name(found));
        (void)call(found);
    }
    ck_assert_uint_eq(driver_calls(symbol), calls + 2);
    ck_assert_uint_eq(record->services->unknown_calls(&name), before + 2);
    ck_assert_str_eq(name, unknown[_i].name);
}

/* A thunk counts what the trainer calls, not what a hooked call does inside. */
TEST(recorded_calls_from_within_do_not_count)
{
    const char *name = NULL;
    CUresult (*outer)(CUdeviceptr, CUdeviceptr, size_t) = dlsym(driver, "cuMemcpy");
    uint64_t before = record->services->unknown_calls(&name);
    record->call_inside = harness_look_up("cuMemcpyHtoD", 14000, 0);
    (void)outer(1, 2, 3);
    record->call_inside = dlsym(driver, "cuLaunchGrid");
    (void)outer(1, 2, 3);
    record->call_inside = NULL;
    ck_assert_uint_eq(record->services->unknown_calls(&name), before);
}

TEST(what_is_not_hooked_passes_untouched)
{
    void *init = harness_look_up("cuInit", 2000, 0), *none = zeros;
    ck_assert(is_drivers(init));
    ck_assert_ptr_eq(init, dlsym(driver, "cuInit"));
    ck_assert_int_ne(get_proc("cuNoSuchCall", &none, 12000, 0, NULL), CUDA_SUCCESS);
}

TEST(the_engine_gets_the_drivers_own_pointers)
{
    void *real = record->services->driver_function("cuLaunchKernel", 4000);
    ck_assert_ptr_nonnull(real);
    ck_assert_ptr_ne(real, dlsym(driver, "cuLaunchKernel"));
    ck_assert_ptr_null(record->services->driver_function("cuNoSuchCall", 4000));
}

TEST(trap_1_5_in_a_forked_child_hooks_are_jumps)
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

TEST(trap_1_5_exempt_libraries)
{
    void *engine = dlopen(FAKE_ENGINE, RTLD_LAZY | RTLD_NOLOAD);
    void *(*look_up)(void *, const char *) = (void *(*)(void *, const char *))dlsym(engine, "fake_look_up");
    void *hook = dlsym(driver, "cuLaunchKernel");
    ck_assert_ptr_eq(look_up(driver, "cuLaunchKernel"), hook);
    record->services->exempt_library((const void *)look_up);
    ck_assert_ptr_ne(look_up(driver, "cuLaunchKernel"), hook);
    ck_assert_ptr_eq(dlsym(driver, "cuLaunchKernel"), hook);
}

/* ---- what NCCL calls itself ---- */

static void *
launch_in_thread(void *unused)
{
    (void)unused;
    (void)call(dlsym(driver, "cuLaunchKernel"));
    return NULL;
}

static void *
start_and_join(void *function)
{
    pthread_t thread;
    void *(*run)(void *);
    *(void **)&run = function;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return NULL;
}

static void *
launch_in_its_thread(void *unused)
{
    (void)unused;
    return start_and_join((void *)launch_in_thread);
}

/* The operations that hooks report meanwhile. */
static unsigned long
reported_by(void *(*run)(void *), bool in_nccl)
{
    unsigned long before = record->begins;
    if (in_nccl)
        record->services->inside_nccl(true);
    run((void *)launch_in_thread);
    if (in_nccl)
        record->services->inside_nccl(false);
    return record->begins - before;
}

static CUresult
start_thread_inside(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    (void)to, (void)from, (void)bytes;
    record->call_inside = NULL; /* the thread's launch is an operation, too */
    start_and_join((void *)launch_in_thread);
    return CUDA_SUCCESS;
}

TEST(what_nccl_calls_is_not_reported)
{
    ck_assert_uint_eq(reported_by(launch_in_thread, true), 0);
    ck_assert_uint_eq(reported_by(launch_in_thread, false), 1);
}

TEST(what_the_threads_of_nccl_call_is_not_reported)
{
    ck_assert_uint_eq(reported_by(start_and_join, true), 0);
    ck_assert_uint_eq(reported_by(launch_in_its_thread, true), 0);
    ck_assert_uint_eq(reported_by(start_and_join, false), 1);
    ck_assert_uint_eq(reported_by(launch_in_its_thread, false), 1);
}

/* One that is started inside a hook may do the trainer's work later. */
TEST(a_thread_that_is_started_inside_a_hook_is_the_trainers)
{
    CUresult (*outer)(CUdeviceptr, CUdeviceptr, size_t) = dlsym(driver, "cuMemcpy");
    unsigned long before = record->begins;
    record->call_inside = start_thread_inside;
    (void)outer(1, 2, 3);
    ck_assert_uint_eq(record->begins, before + 2); /* the copy, and the launch in the thread */
}

static int
run_tests(void)
{
    return harness_open() ? tests_run_in_this_process() : EXIT_FAILURE;
}

/* A process outside any job: the shim is loaded and replaces nothing. */
static int
run_passive(void)
{
    if (!harness_open() || !is_drivers(dlsym(driver, "cuLaunchKernel"))) {
        fprintf(stderr, "outside a job, cuLaunchKernel is not the driver's\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    return harness_run(argc, argv, HARNESS_FAKE_DRIVER, run_passive, run_tests);
}
