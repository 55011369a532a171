/*
 * nccl.c - see nccl.h.
 */
#include "comm/nccl.h"

#include <dlfcn.h>
#include <stddef.h>

struct symbol {
    const char *name;
    size_t offset; /* of the member in struct nccl */
};

static const struct symbol symbols[] = {
#define SYMBOL(function) {#function, offsetof(struct nccl, function##_p)},
    NCCL_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* NCCL's own encoding changed with 2.9 (nccl.h, NCCL_VERSION). */
static int
version_code(int reported)
{
    if (reported >= 10000)
        return reported;
    return reported / 1000 * 10000 + reported % 1000;
}

bool
nccl_open(struct nccl *nccl, const char *path, nccl_opened_fn opened, struct comm_error *error)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return comm_fail(error, "cannot open NCCL: %s; install it or name it with --nccl PATH", dlerror());

    struct nccl filled;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); ++i) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL) {
            comm_fail(error, "%s has no %s: NCCL 2.14.3 or newer is needed; name another with --nccl PATH", path,
                      symbols[i].name);
            goto close_library;
        }
        *(void **)((char *)&filled + symbols[i].offset) = function;
    }

    opened((const void *)filled.ncclGetVersion_p);
    ncclResult_t result = filled.ncclGetVersion_p(&filled.version);
    if (result != ncclSuccess) {
        comm_fail(error, "ncclGetVersion of %s failed: %s", path, filled.ncclGetErrorString_p(result));
        goto close_library;
    }
    filled.version = version_code(filled.version);
    if (filled.version < NCCL_OLDEST_VERSION) {
        comm_fail(error, "%s is NCCL %d.%d.%d; 2.14.3 or newer is needed; name another with --nccl PATH", path,
                  filled.version / 10000, filled.version / 100 % 100, filled.version % 100);
        goto close_library;
    }
    *nccl = filled;
    return true;

close_library:
    dlclose(library);
    return false;
}
