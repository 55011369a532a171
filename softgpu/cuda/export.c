/*
 * export.c - what exported functions begin with: those that look themselves up, and those that are not implemented.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- SOFTGPU_SELF_LOOKUP=1: a libcuda that looks its own functions up through dlsym, as that of WSL2 does ---- */

static void *self; /* this library, for dlsym; NULL: no look-ups */
static pthread_once_t self_opened = PTHREAD_ONCE_INIT;

static void
open_self(void)
{
    const char *wanted = getenv("SOFTGPU_SELF_LOOKUP");
    if (wanted != NULL && strcmp(wanted, "1") == 0) {
        self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    }
}

void *
self_look_up(const char *abi)
{
    pthread_once(&self_opened, open_self);
    return self != NULL ? dlsym(self, abi) : NULL;
}

/* ---- what is not implemented ---- */

/* What a stub does: its generated code passes its own name and flag. */
CUresult softgpu_unsupported(const char *name, _Atomic bool *said);

CUresult
softgpu_unsupported(const char *name, _Atomic bool *said)
{
    if (!atomic_exchange(said, true)) {
        say("%s is not supported by the stand-in's driver; it returns CUDA_ERROR_NOT_SUPPORTED", name);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}
