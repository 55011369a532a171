/* static_cudart.c - see static_cudart.h. */
#include "static_cudart.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*get_proc_fn)(const char *, void **, int, unsigned long long, int *);

/* From softgpu/tests/cuda/lookups.txt, by the build. */
static struct static_lookup lookups[] = {
#include "lookups_cudart_13_0.inc"
};
enum { LOOKUPS = sizeof(lookups) / sizeof(lookups[0]) };

struct static_lookup *
static_cudart_lookups(size_t *count_p)
{
    *count_p = LOOKUPS;
    return lookups;
}

bool
static_cudart_start(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    get_proc_fn get_proc = driver != NULL ? (get_proc_fn)dlsym(driver, "cuGetProcAddress_v2") : NULL;
    if (get_proc == NULL) {
        fprintf(stderr, "static cudart: no driver: %s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < LOOKUPS; ++i)
        lookups[i].result = get_proc(lookups[i].name, &lookups[i].function, lookups[i].version, lookups[i].flags, NULL);
    return true;
}

void *
static_cudart_function(const char *name, int version, unsigned long long flags)
{
    for (size_t i = 0; i < LOOKUPS; ++i) {
        if (lookups[i].version == version && lookups[i].flags == flags && strcmp(lookups[i].name, name) == 0)
            return lookups[i].result == 0 ? lookups[i].function : NULL;
    }
    return NULL;
}
