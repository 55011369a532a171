/* harness.c - see harness.h. */
#include "harness.h"
#include "rank_job.h"

#include <dlfcn.h>
#include <string.h>

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
