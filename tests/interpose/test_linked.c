/*
 * test_linked.c - a program that links libcuda itself, as driver-level trainers do, reaches the hooks without a
 * look-up: what it calls is seen, forwarded and, where the engine cannot follow it, recorded.
 *
 * trap_2_2: a call by its exported name is no way around the gate. trap_1_4_versioned: its references name a version of
 * the driver's symbols, as those to NVIDIA's libraries do, and bind to the shim all the same.
 */
#include "harness.h"

#include "interpose/shim/older.h"

#include "tests/lib/test.h"

TEST(calls_by_exported_name_are_seen)
{
    record->log[0] = '\0';
    ck_assert_int_eq(cuMemcpyDtoD_v2(0x1000, 0x2000, 16), CUDA_SUCCESS);
    ck_assert_str_eq(record->log, "work legacy 0:1000+10 1:2000+10 done");
    record->log[0] = '\0';
    ck_assert_int_eq(cuStreamWriteValue32((CUstream)0x77, 0x3000, 1, 0), CUDA_SUCCESS);
    ck_assert_str_eq(record->log, "work 77 1:3000+4 done");
    ck_assert_uint_eq(fake_driver_calls("cuMemcpyDtoD_v2"), 1);
    ck_assert_uint_eq(fake_driver_calls("cuStreamWriteValue32"), 1);
}

TEST(calls_that_are_not_followed_are_recorded)
{
    const char *name = NULL;
    ck_assert_uint_eq(record->services->unknown_calls(&name), 0);
    ck_assert_int_eq(cuLaunchGrid((CUfunction)0x88, 1, 2), CUDA_SUCCESS);
    ck_assert_uint_eq(record->services->unknown_calls(&name), 1);
    ck_assert_str_eq(name, "cuLaunchGrid");
    ck_assert_uint_eq(fake_driver_calls("cuLaunchGrid"), 1);
}

/* A linked program may look up too: with the same result. */
TEST(look_ups_of_a_linked_program_end_at_the_hooks)
{
    void *found = NULL;
    ck_assert_int_eq(cuGetProcAddress_v2("cuMemcpyDtoD", &found, 3020, 0, NULL), CUDA_SUCCESS);
    ck_assert_ptr_eq(found, (void *)cuMemcpyDtoD_v2);
    ck_assert_int_eq(cuGetProcAddress("cuMemcpyDtoD", &found, 7000, 2), CUDA_SUCCESS);
    ck_assert_str_eq(harness_hook_name(found), "cuMemcpyDtoD_v2_ptds");
}

static int
run(void)
{
    CUdeviceptr memory;
    (void)cuMemAlloc_v2(&memory, 1); /* makes this process the rank */
    record = harness_record();
    if (record == NULL || fake_driver_calls("cuMemAlloc_v2") != 1)
        return EXIT_FAILURE;
    return tests_run_in_this_process();
}

/* Outside a job: nothing is recorded, everything is forwarded, also without a look-up before. */
static int
run_passive(void)
{
    CUdeviceptr memory;
    bool good = cuMemAlloc_v2(&memory, 1) == CUDA_SUCCESS && cuLaunchGrid((CUfunction)0x88, 1, 2) == CUDA_SUCCESS &&
                fake_driver_calls("cuMemAlloc_v2") == 1 && fake_driver_calls("cuLaunchGrid") == 1 &&
                harness_record() == NULL;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    return harness_run(argc, argv, HARNESS_FAKE_DRIVER, run_passive, run);
}
