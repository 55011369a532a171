/*
 * test_start.c - while one thread starts the engine, nothing else in the process has to wait for it, except an
 * annotation.
 *
 * The engine's start loads libraries, so it needs the loader's lock. trap_1_4_constructor: the thread that has the lock
 * may be in a constructor that allocates device memory; its call continues. trap_1_5_fork: a child that was forked
 * meanwhile is no rank and does not hang. The fake engine calls test_during_start() from within its start.
 */
#include "harness.h"

#include "interpose/shim/older.h"

#include "tests/lib/test.h"

enum { PATIENCE_MS = 60000 };

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult test_start_allocate(unsigned long long *memory, size_t bytes);
EXPORT void test_during_start(void);

static CUresult (*allocate_memory)(CUdeviceptr *, size_t);
static const struct ddp_interface *(*interface_of)(unsigned version);
/* Headers of versions 1 to 3 find their functions where they were. */
#define PLACE_OF(member) \
    ((offsetof(struct ddp_interface, member) - offsetof(struct ddp_interface, parameter)) / sizeof(void *))
_Static_assert(PLACE_OF(gradient) == 1 && PLACE_OF(step) == 2 && PLACE_OF(mean) == 3 && PLACE_OF(shard) == 4 &&
                   PLACE_OF(forget) == 5 && PLACE_OF(rank) == 6 && PLACE_OF(world_size) == 7 &&
                   PLACE_OF(local_rank) == 8,
               "version 1");
_Static_assert(PLACE_OF(gradient_group) == 9 && PLACE_OF(step_group) == 10 && PLACE_OF(no_sync) == 11 &&
                   PLACE_OF(buffer) == 12 && PLACE_OF(gradient_ready) == 13,
               "version 2");
_Static_assert(PLACE_OF(state) == 14 && PLACE_OF(weight) == 15 && PLACE_OF(mean_as) == 16, "version 3");
_Static_assert(PLACE_OF(reduce) == 19 && PLACE_OF(mean_of) == 20 && PLACE_OF(any) == 21 && PLACE_OF(turn_begin) == 22 &&
                   PLACE_OF(turn_end) == 23 && PLACE_OF(turn_mine) == 24 && PLACE_OF(turn_updates) == 25,
               "versions 4 to 6");

static pthread_t loader, annotator;
static _Atomic int loaded, annotated, started;
static int child_status = -1;

EXPORT CUresult
test_start_allocate(unsigned long long *memory, size_t bytes)
{
    return allocate_memory(memory, bytes);
}

static void *
load_library(void *unused)
{
    (void)unused;
    void *library = dlopen(CONSTRUCTOR, RTLD_NOW);
    int *allocated = library != NULL ? dlsym(library, "constructor_allocated") : NULL;
    loaded = allocated != NULL ? *allocated : -1;
    return NULL;
}

/* Comes back only when the engine is there. */
static void *
annotate(void *unused)
{
    (void)unused;
    static float memory[4];
    static const struct ddp_site site = {"memory", "test_start.c", 1};
    interface_of(DDP_INTERFACE_VERSION)->gradient(memory, 4, DDP_FLOAT32, &site);
    annotated = started ? 1 : -1;
    return NULL;
}

static bool
comes(const _Atomic int *flag)
{
    for (int waited_ms = 0; waited_ms < PATIENCE_MS && *flag == 0; ++waited_ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return *flag != 0;
}

EXPORT void
test_during_start(void)
{
    CUdeviceptr memory;
    if (pthread_create(&loader, NULL, load_library, NULL) != 0 || pthread_create(&annotator, NULL, annotate, NULL) != 0)
        abort();
    if (!comes(&loaded))
        fprintf(stderr, "a constructor's allocation waits for the engine, which needs the loader\n");

    pid_t child = fork();
    if (child == 0) {
        bool is_rank = interface_of(DDP_INTERFACE_VERSION)->rank() != 0;
        _exit(allocate_memory(&memory, 1) == CUDA_SUCCESS && !is_rank ? 0 : 1);
    }
    for (int waited_ms = 0; waited_ms < PATIENCE_MS && waitpid(child, &child_status, WNOHANG) == 0; ++waited_ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (child_status == -1)
        fprintf(stderr, "a child that was forked meanwhile hangs\n");
    started = 1;
}

TEST_GROUP(start, .timeout_s = TEST_NO_TIMEOUT);

TEST(trap_1_4_constructor)
{
    ck_assert_int_eq(loaded, 1); /* with CUDA_SUCCESS */
}

TEST(trap_1_5_fork)
{
    ck_assert_int_eq(child_status, 0);
}

TEST(an_annotation_waits_for_the_engine)
{
    ck_assert(comes(&annotated));
    ck_assert_int_eq(annotated, 1);
    ck_assert_uint_eq(harness_record()->starts, 1);
}

static int
run(void)
{
    CUdeviceptr memory;
    allocate_memory = harness_open() ? (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2") : NULL;
    interface_of = (const struct ddp_interface *(*)(unsigned))dlsym(RTLD_DEFAULT, "ddprun_interface");
    if (allocate_memory == NULL || interface_of == NULL)
        return EXIT_FAILURE;
    (void)allocate_memory(&memory, 1);

    int status = tests_run_in_this_process();
    if (started && loaded != 0 && annotated != 0) {
        pthread_join(loader, NULL);
        pthread_join(annotator, NULL);
    }
    return status;
}

int
main(int argc, char **argv)
{
    return harness_run(argc, argv, HARNESS_FAKE_DRIVER, NULL, run);
}
