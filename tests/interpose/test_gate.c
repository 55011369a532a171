/*
 * test_gate.c - callers get the right pointers: hooks for what is hooked, by whichever way they ask; the driver's own
 * for everything else and for exempt libraries; RTLD_NEXT keeps its meaning; every hook of the table fires, forwards,
 * and stays out of its own way.
 *
 * Starts itself again with the shim preloaded, in a job folder of its own, with a counting driver and engine.
 */
#include "fake_driver.h"
#include "harness.h"
#include "hook_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void *next_asker_next(const char *name);
void *next_asker_default(const char *name);
void *next_asker_next_version(const char *name, const char *version);
int next_asker_function(void);

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
    void *allocate = by_version(&hook_table[0]);
    record = harness_record();
    ck_assert(record == NULL || record->starts == 0);
    ck_assert_int_eq(call(allocate), CUDA_SUCCESS);
    record = harness_record();
    ck_assert_ptr_nonnull(record);
    ck_assert_uint_eq(record->starts, 1);
    ck_assert_int_eq(call(allocate), CUDA_SUCCESS);
    ck_assert_uint_eq(record->starts, 1);
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

    TCase *tcase = tcase_create("in order");
    tcase_add_test(tcase, next_and_default_keep_their_meaning);
    tcase_add_test(tcase, allocation_makes_the_rank);
    tcase_add_test(tcase, calls_from_the_engine_are_not_reported);
    tcase_add_test(tcase, an_unknown_version_is_counted_and_forwarded);
    tcase_add_test(tcase, what_is_not_hooked_passes_untouched);
    tcase_add_test(tcase, cudas_older_entry_is_replaced_too);
    tcase_add_test(tcase, the_engine_gets_the_drivers_own_pointers);
    tcase_add_test(tcase, in_a_forked_child_hooks_are_jumps);
    tcase_add_test(tcase, exempt_libraries_get_the_drivers_own_pointers);
    return harness_cases(tcase);
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

int
main(int argc, char **argv)
{
    return harness_run(argc, argv, HARNESS_FAKE_DRIVER, run_passive, run_tests);
}
