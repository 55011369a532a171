/*
 * plain.c - the gate and the hooks on a machine for which there is nothing but a C library: what aarch64.sh runs.
 * Prints what is wrong, and ends with 1.
 */
#include "fake_driver.h"
#include "fake_engine.h"

#include "interpose/engine/memory/filter_writer.h"
#include "interpose/shim/older.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *next_asker_next(const char *name);
void *next_asker_next_version(const char *name, const char *version);

static int failures;

#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            ++failures;                                                     \
        }                                                                   \
    } while (0)

typedef CUresult (*get_proc_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *driver;
static get_proc_fn get_proc;
static struct fake_driver *fake;
static struct fake_record *record;
static unsigned long (*calls_of)(const char *);

static void *
hook_of(const char *name, int version, cuuint64_t flags)
{
    void *found = NULL;
    EXPECT(get_proc(name, &found, version, flags, NULL) == CUDA_SUCCESS);
    return found;
}

static void
check_look_ups(void)
{
    EXPECT(next_asker_next("next_asker_function") == NULL);
    EXPECT(next_asker_next("fopen") == dlsym(RTLD_DEFAULT, "fopen"));
    EXPECT(next_asker_next_version("fopen", "NO_SUCH_VERSION") == NULL);
    EXPECT(dlsym(RTLD_DEFAULT, "a_name_without_a_definition") == NULL);
    EXPECT(dlsym(driver, "cuMemcpyDtoD_v2") == hook_of("cuMemcpyDtoD", 3020, 0));
    EXPECT(dlsym(driver, "cuMemcpyDtoD_v2_ptds") == hook_of("cuMemcpyDtoD", 7000, 2));
}

static void
check_forwarding(void)
{
    __typeof__(&cuLaunchKernel) launch = hook_of("cuLaunchKernel", 4000, 0);
    const uint64_t expected[] = {0x88, 1, 2, 3, 4, 5, 6, 7, 0x77, 0x90, 0x98};
    record->log[0] = '\0';
    EXPECT(launch((CUfunction)0x88, 1, 2, 3, 4, 5, 6, 7, (CUstream)0x77, (void **)0x90, (void **)0x98) == CUDA_SUCCESS);
    EXPECT(strcmp(record->log, "work 77 kernel 0x88 0x90 0x98 done") == 0);
    EXPECT(fake->argument_count == 11 && memcmp(fake->arguments, expected, sizeof(expected)) == 0);

    __typeof__(&cuMemcpyDtoDAsync_v2) copy = hook_of("cuMemcpyDtoDAsync", 7000, 2);
    record->log[0] = '\0';
    EXPECT(copy(0x1000, 0x2000, 16, NULL) == CUDA_SUCCESS);
    EXPECT(strcmp(record->log, "work per-thread 0:1000+10 1:2000+10 done") == 0);
}

/* Outside all ranges, between two, in one, through both shapes of launch. */
static void
check_misses(void)
{
    static const struct filter_span spans[] = {{0x100000, 0x100100}, {0x1FFF00, 0x200000}};
    static const struct {
        uint64_t address;
        bool touches;
    } cases[] = {{16, false}, {0x180000, false}, {0x1000FF, true}, {0x1FFF00, true}, {0x200000, false}};
    __typeof__(&cuLaunchKernel) launch = hook_of("cuLaunchKernel", 4000, 0);
    __typeof__(&cuLaunchKernelEx) launch_ex = hook_of("cuLaunchKernelEx", 11060, 0);
    struct filter *filter = record->services->filter;
    struct filter_word words[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
    static const CUlaunchConfig config;
    uint64_t outside = 8, last;
    void *list[] = {&outside, &outside, &outside, &outside, &last};
    EXPECT(filter_add_kernel(filter, (CUfunction)0x4440, words, 5));
    filter_set_bounds(filter, 0x100000, 0x200000);
    EXPECT(filter_set_index(filter, spans, 2));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const uint64_t expected[] = {0x4440, 1, 2, 3, 4, 5, 6, 7, 0x77, (uint64_t)(uintptr_t)list, 9};
        unsigned long begins = record->begins;
        last = cases[i].address;
        (void)launch((CUfunction)0x4440, 1, 2, 3, 4, 5, 6, 7, (CUstream)0x77, list, (void **)9);
        EXPECT(record->begins - begins == cases[i].touches);
        EXPECT(memcmp(fake->arguments, expected, sizeof(expected)) == 0);
        begins = record->begins;
        (void)launch_ex(&config, (CUfunction)0x4440, list, (void **)9);
        EXPECT(record->begins - begins == cases[i].touches);
        EXPECT(fake->arguments[3] == 9 && fake->argument_count == 4);
    }
}

static void
check_recorder(void)
{
    const char *name = NULL;
    void *future = hook_of("cuMemcpyHtoD", 14000, 0);
    CUresult (*call)(CUdeviceptr, const void *, size_t, int) =
        (CUresult(*)(CUdeviceptr, const void *, size_t, int))future;
    EXPECT(record->services->unknown_calls(&name) == 0);
    EXPECT(call(1, &name, 3, 4) == CUDA_SUCCESS);
    EXPECT(fake->argument_count == 4 && fake->arguments[0] == 1 && fake->arguments[3] == 4);
    EXPECT(record->services->unknown_calls(&name) == 1 && strcmp(name, "cuMemcpyHtoD") == 0);
    record->call_inside = (CUresult(*)(CUdeviceptr, CUdeviceptr, size_t))future;
    (void)((__typeof__(&cuMemcpy))hook_of("cuMemcpy", 4000, 0))(1, 2, 3);
    record->call_inside = NULL;
    EXPECT(record->services->unknown_calls(&name) == 1);
}

int
main(void)
{
    CUdeviceptr memory;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    get_proc = driver != NULL ? (get_proc_fn)dlsym(driver, "cuGetProcAddress_v2") : NULL;
    if (get_proc == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    (void)((__typeof__(&cuMemAlloc_v2))hook_of("cuMemAlloc", 3020, 0))(&memory, 1);
    void *engine = dlopen(getenv("_DDPRUN_ENGINE"), RTLD_LAZY | RTLD_NOLOAD);
    record = engine != NULL ? dlsym(engine, "fake_record") : NULL;
    fake = dlsym(driver, "fake_driver");
    calls_of = (unsigned long (*)(const char *))dlsym(driver, "fake_driver_calls");
    if (record == NULL || fake == NULL || calls_of == NULL || calls_of("cuMemAlloc_v2") != 1) {
        fprintf(stderr, "an allocation has not made this process the rank\n");
        return 1;
    }
    check_look_ups();
    check_forwarding();
    check_misses();
    check_recorder();
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
