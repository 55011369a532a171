/* harness.c - see harness.h. */
#include "harness.h"
#include "rank_job.h"

#include "tests/lib/test.h"

void *driver;
get_proc_fn get_proc;
unsigned long (*driver_calls)(const char *symbol);
struct fake_driver *fake;
struct fake_record *record;

int
harness_run(int argc, char **argv, enum harness_driver driver, int (*passive)(void), int (*in_job)(void))
{
    const struct rank_job job = {
        .shim = SHIM, .engine = FAKE_ENGINE, .libraries = driver == HARNESS_STAND_IN ? STAND_IN_DIR : FAKE_DRIVER_DIR};
    return rank_job_run(argc, argv, &job, passive, in_job);
}

struct fake_record *
harness_record(void)
{
    void *engine = dlopen(FAKE_ENGINE, RTLD_LAZY | RTLD_NOLOAD);
    return engine != NULL ? dlsym(engine, "fake_record") : NULL;
}

bool
harness_open(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    get_proc = (get_proc_fn)dlsym(driver, "cuGetProcAddress_v2");
    driver_calls = (unsigned long (*)(const char *))dlsym(driver, "fake_driver_calls");
    fake = dlsym(driver, "fake_driver");
    return get_proc != NULL;
}

int
harness_run_as_rank(void)
{
    void *allocate;
    if (!harness_open() || get_proc("cuMemAlloc", &allocate, 3020, 0, NULL) != CUDA_SUCCESS)
        return EXIT_FAILURE;
    (void)((CUresult(*)(void *, size_t))allocate)(NULL, 1);
    record = harness_record();
    return record != NULL && fake != NULL ? tests_run_in_this_process() : EXIT_FAILURE;
}

void *
harness_look_up(const char *name, int version, cuuint64_t flags)
{
    void *found = NULL;
    ck_assert_int_eq(get_proc(name, &found, version, flags, NULL), CUDA_SUCCESS);
    return found;
}

bool
harness_is_in_shim(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && strstr(info.dli_fname, "libddprun.so") != NULL;
}

const char *
harness_hook_name(const void *address)
{
    Dl_info info;
    return harness_is_in_shim(address) && dladdr(address, &info) != 0 && info.dli_saddr == address ? info.dli_sname
                                                                                                   : NULL;
}

static __thread unsigned long allocations;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

void *
malloc(size_t bytes)
{
    ++allocations;
    return __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
    ++allocations;
    return __libc_calloc(count, bytes);
}

void *
realloc(void *old, size_t bytes)
{
    ++allocations;
    return __libc_realloc(old, bytes);
}

unsigned long
harness_allocations(void)
{
    return allocations;
}
