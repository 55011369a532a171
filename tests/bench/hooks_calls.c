/*
 * hooks_calls.c - makes COUNT calls of one kind, for callgrind to count: hooks_calls KIND COUNT. Run by hooks.py.
 *
 * With the driver and the engine of tests/interpose, whose own instructions are the same in each kind; the ranges and
 * kernels are published by the engine's own writer. The loop is the same for all kinds, so differences between kinds
 * are what the hook adds.
 *
 * `hooks_calls job ENGINE COMMAND...` runs a command as the only rank of a job. `hooks_calls annotate COUNTxTIMES`
 * prints the CPU time of that many annotations, made TIMES times.
 */
#include "tests/interpose/fake_engine.h"

#include "bucketing/ranges.h"
#include "interpose/engine/memory/filter_writer.h"
#include "tests/interpose/rank_job.h"
#include "tests/lib/numbers.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POINTERS = 4, RANGES = 5000, CHOICES = 1024, KERNELS = 100 };
#define LOWEST UINT64_C(0x7f0000000000)

typedef __typeof__(&cuLaunchKernel) launch_fn;
typedef __typeof__(&cuMemcpyDtoDAsync) copy_fn;

static uint64_t words[CHOICES][POINTERS];
static void *lists[CHOICES][POINTERS];
static CUfunction functions[KERNELS];

/* Ranges of 256 to 4,096 bytes, each with a neighbour of such a size that is not tracked; arguments into neighbours. */
static void
interleave(struct filter *filter)
{
    static struct filter_span spans[RANGES];
    static uint64_t neighbours[RANGES];
    uint64_t at = LOWEST, random = 1;
    for (int i = 0; i < RANGES; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        spans[i].begin = at;
        at = spans[i].end = at + 256 * (1 + (random >> 33) % 16);
        neighbours[i] = at;
        at += 256 * (1 + (random >> 40) % 16);
    }
    at -= 16; /* the last neighbour is outside the bounds */
    for (int i = 0; i < CHOICES * POINTERS; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        words[i / POINTERS][i % POINTERS] = neighbours[(random >> 33) % (RANGES - 1)] + (random >> 45) % 256;
    }
    filter_set_bounds(filter, LOWEST, spans[RANGES - 1].end);
    if (!filter_set_index(filter, spans, RANGES))
        exit(1);
}

static void
publish(struct filter *filter, const char *kind)
{
    struct filter_word pointers[POINTERS];
    for (unsigned i = 0; i < POINTERS; ++i)
        pointers[i] = (struct filter_word){i, 0};
    filter_set_bounds(filter, LOWEST, LOWEST + (1 << 20));
    for (int i = 0; i < CHOICES * POINTERS; ++i)
        words[i / POINTERS][i % POINTERS] = 0x10000 + 256 * (uint64_t)i;
    if (strcmp(kind, "interleaved") == 0)
        interleave(filter);
    for (unsigned i = 0; i < KERNELS; ++i) {
        if (!filter_add_kernel(filter, functions[i], pointers, POINTERS))
            exit(1);
    }
}

static void
make_launches(launch_fn launch, long count)
{
    for (long i = 0; i < count; ++i)
        (void)launch(functions[i % KERNELS], 1, 1, 1, 1, 1, 1, 0, NULL, lists[i % CHOICES], NULL);
}

static void
make_copies(copy_fn copy, long count)
{
    for (long i = 0; i < count; ++i)
        (void)copy(0x1000, 0x2000, 16, NULL);
}

/* Not the rank: hooks of the global scope, or the driver's own functions. */
static void
run_passive(const char *kind, void *driver, long count)
{
    bool bare = strncmp(kind, "bare", 4) == 0;
    CUdeviceptr memory;
    (void)cuMemAlloc(&memory, 1); /* decides that this process is no rank */
    if (strstr(kind, "launch") != NULL)
        make_launches(bare ? (launch_fn)dlsym(driver, "cuLaunchKernel") : cuLaunchKernel, count);
    else
        make_copies(bare ? (copy_fn)dlsym(driver, "cuMemcpyDtoDAsync_v2") : cuMemcpyDtoDAsync, count);
}

static int
run_rank(const char *kind, long count)
{
    struct fake_record *record = NULL;
    CUdeviceptr memory;
    (void)cuMemAlloc(&memory, 1);
    void *engine = dlopen(getenv("_DDPRUN_ENGINE"), RTLD_LAZY | RTLD_NOLOAD);
    record = engine != NULL ? dlsym(engine, "fake_record") : NULL;
    if (record == NULL)
        return 1;
    publish(record->services->filter, kind);
    launch_fn real = (launch_fn)record->services->driver_function("cuLaunchKernel", 4000);
    make_launches(strcmp(kind, "rank") == 0 ? real : cuLaunchKernel, count);
    return record->begins == 0 ? 0 : 1; /* else they were no misses */
}

static int
run_in_job(char **words)
{
    char folder[] = "/tmp/ddprun-bench-XXXXXX";
    int status = 1;
    if (!rank_job_begin(folder, words[0]))
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(words[1], words + 1);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    rank_job_end(folder);
    return status == 0 ? 0 : 1;
}

/* Of two arenas in turn. */
static int
annotate(unsigned long count)
{
    struct ranges ranges = {0};
    for (unsigned long i = 0; i < count; ++i) {
        if (ranges_add(&ranges, (i % 2 + 1) << 40 | i << 4, 8, i, NULL) != RANGES_OK)
            return 1;
    }
    ranges_free(&ranges);
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "job") == 0)
        return run_in_job(argv + 2);
    if (argc == 3 && strcmp(argv[1], "annotate") == 0)
        return annotate(strtoul(argv[2], NULL, 10));
    if (argc != 3) {
        fprintf(stderr, "Usage: hooks_calls KIND COUNT\n");
        return 2;
    }
    for (int i = 0; i < CHOICES * POINTERS; ++i)
        lists[i / POINTERS][i % POINTERS] = &words[i / POINTERS][i % POINTERS];
    for (unsigned i = 0; i < KERNELS; ++i) /* as malloc places what the driver keeps for each */
        functions[i] = (CUfunction)(uintptr_t)(0x555500002000 + 0x1d0 * i);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        return 1;
    if (getenv("_DDPRUN_ENGINE") != NULL)
        return run_rank(argv[1], (long)whole_number(argv[2], 1, LONG_MAX));
    run_passive(argv[1], driver, (long)whole_number(argv[2], 1, LONG_MAX));
    return 0;
}
