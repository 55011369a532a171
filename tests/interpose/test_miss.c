/*
 * test_miss.c - the hooks of launches, with what the engine publishes: a launch goes to the engine exactly when one of
 * its words points into a tracked range, for random ranges, kernels and arguments, through each hook; and a launch that
 * does not costs no system call, no allocation and no call of the engine, so no lock either.
 */
#include "harness.h"
#include "random_filter.h"

#include "interpose/shim/older.h"

#include "tests/lib/test.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { ROUNDS = 300, LAUNCHES = 40 };

static struct filter *filter;

/* ---- the hooks of launches, called alike ---- */

typedef CUresult (*launch_fn)(void *hook, CUfunction function, void **params);

static CUresult
launch_plain(void *hook, CUfunction function, void **params)
{
    return ((__typeof__(&cuLaunchKernel))hook)(function, 1, 2, 3, 4, 5, 6, 7, (CUstream)0x77, params, NULL);
}

static CUresult
launch_config(void *hook, CUfunction function, void **params)
{
    static const CUlaunchConfig config;
    return ((__typeof__(&cuLaunchKernelEx))hook)(&config, function, params, NULL);
}

static CUresult
launch_cooperative(void *hook, CUfunction function, void **params)
{
    return ((__typeof__(&cuLaunchCooperativeKernel))hook)(function, 1, 2, 3, 4, 5, 6, 7, (CUstream)0x77, params);
}

static struct {
    const char *symbol;
    launch_fn launch;
    void *hook;
} hooks[] = {{"cuLaunchKernel", launch_plain, NULL},
             {"cuLaunchKernel_ptsz", launch_plain, NULL},
             {"cuLaunchKernelEx", launch_config, NULL},
             {"cuLaunchKernelEx_ptsz", launch_config, NULL},
             {"cuLaunchCooperativeKernel", launch_cooperative, NULL},
             {"cuLaunchCooperativeKernel_ptsz", launch_cooperative, NULL}};
enum { LAUNCH_HOOKS = sizeof(hooks) / sizeof(hooks[0]) };

static void
find_hooks(void)
{
    filter = record->services->filter;
    for (int i = 0; i < LAUNCH_HOOKS; ++i)
        hooks[i].hook = dlsym(driver, hooks[i].symbol);
}

TEST_GROUP(misses, .start = find_hooks);

TEST(a_launch_is_reported_exactly_when_it_touches)
{
    unsigned long told = 0, untold = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        CUfunction function = random_round(filter);
        for (int i = 0; i < LAUNCHES; ++i) {
            bool touches = random_arguments();
            unsigned long before = record->begins;
            record->log[0] = '\0';
            ck_assert_int_eq(hooks[i % LAUNCH_HOOKS].launch(hooks[i % LAUNCH_HOOKS].hook, function, random_params),
                             CUDA_SUCCESS);
            ck_assert_msg((record->begins == before + 1) == touches, "round %d: %s %s", round,
                          hooks[i % LAUNCH_HOOKS].symbol,
                          touches ? "lost a touch" : "reported a launch that touches nothing");
            *(touches ? &told : &untold) += 1;
        }
    }
    ck_assert_uint_gt(told, ROUNDS);
    ck_assert_uint_gt(untold, ROUNDS);
}

/* The hook moves on with the arguments as they came, those on the stack too. */
TEST(a_miss_hands_every_argument_on)
{
    uint64_t outside = 16;
    void *list[] = {&outside, &outside, &outside, &outside, &outside};
    struct filter_word pointers[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
    CUfunction function = (CUfunction)0x4440;
    filter_set_bounds(filter, 0x100000, 0x200000);
    ck_assert(filter_add_kernel(filter, function, pointers, 5));
    for (int inside = 0; inside < 2; ++inside) { /* outside all bounds, and between two ranges */
        unsigned long before = record->begins;
        ck_assert(filter_set_index(filter, (struct filter_span[]){{0x100000, 0x100100}, {0x1FFF00, 0x200000}}, 2));
        outside = inside ? 0x180000 : 16;
        (void)((__typeof__(&cuLaunchKernel))hooks[0].hook)(function, 1, 2, 3, 4, 5, 6, 7, (CUstream)0x77, list,
                                                           (void **)9);
        const uint64_t expected[] = {0x4440, 1, 2, 3, 4, 5, 6, 7, 0x77, (uint64_t)(uintptr_t)list, 9};
        ck_assert_uint_eq(record->begins, before);
        ck_assert_uint_eq(fake->argument_count, 11);
        ck_assert_mem_eq(fake->arguments, expected, sizeof(expected));
        static const CUlaunchConfig config;
        (void)((__typeof__(&cuLaunchKernelEx))hooks[2].hook)(&config, function, list, (void **)9);
        const uint64_t expected_ex[] = {(uint64_t)(uintptr_t)&config, 0x4440, (uint64_t)(uintptr_t)list, 9};
        ck_assert_uint_eq(record->begins, before);
        ck_assert_mem_eq(fake->arguments, expected_ex, sizeof(expected_ex));
    }
}

/* In a process that may do nothing but write and end. The driver's function is the one that this leaves alone. */
TEST(a_miss_makes_no_system_call_and_allocates_nothing)
{
    uint64_t outside = 16, between = 0x180000;
    void *list[] = {&outside, &between, &outside, &between};
    struct filter_word pointers[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
    CUfunction function = (CUfunction)0x4440;
    filter_set_bounds(filter, 0x100000, 0x200000);
    ck_assert(filter_add_kernel(filter, function, pointers, 4));
    ck_assert(filter_set_index(filter, (struct filter_span[]){{0x100000, 0x100100}, {0x1FFF00, 0x200000}}, 2));
    (void)hooks[0].launch(hooks[0].hook, function, list);

    unsigned long before = harness_allocations(), begins = record->begins;
    pid_t child = vfork(); /* the shim's hooks stay those of the rank: no handler runs */
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            syscall(SYS_exit, 77);
        for (int i = 0; i < 1000; ++i)
            (void)hooks[i % LAUNCH_HOOKS].launch(hooks[i % LAUNCH_HOOKS].hook, function, list);
        syscall(SYS_exit, harness_allocations() == before && record->begins == begins ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "killed: a miss makes a system call");
    ck_assert_msg(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77, "a miss allocates, or goes to the engine");
}

int
main(int argc, char **argv)
{
    return harness_run(argc, argv, HARNESS_FAKE_DRIVER, NULL, harness_run_as_rank);
}
