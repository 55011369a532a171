/* nccl.c - see nccl.h. */
#include "comm/nccl.h"

#include "base/message.h"

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

/* The version first: what an old release lacks is no help to the user. */
static bool
ask_version(const char *path, void *library, const struct nccl_watcher *watcher, int *version_p,
            struct comm_error *error)
{
    __typeof__(&ncclGetVersion) get_version;
    *(void **)&get_version = dlsym(library, "ncclGetVersion");
    if (get_version == NULL)
        return comm_fail(error, "%s is not NCCL: it has no ncclGetVersion; name NCCL's library with --nccl PATH", path);
    watcher->opened(*(const void **)&get_version);
    int reported = 0;
    ncclResult_t result = get_version(&reported);
    if (result != ncclSuccess)
        return comm_fail(error, "ncclGetVersion of %s failed with result %d; name another with --nccl PATH", path,
                         (int)result);
    int version = version_code(reported);
    if (version < NCCL_OLDEST_VERSION)
        return comm_fail(error, "%s is NCCL %d.%d.%d; 2.18 or newer is needed; name another with --nccl PATH", path,
                         version / 10000, version / 100 % 100, version % 100);
    *version_p = version;
    return true;
}

/*
 * NCCL calls its own exported functions by their names, and the program's of the same names come first: parts of two
 * releases would work on one communicator. Where the program has an NCCL, in itself or in a library that it is linked
 * with, that one is used. Returns its handle, and its path in *path_p; or `library`.
 */
static void *
prefer_the_programs(void *library, const char **path_p)
{
    static const char name[] = "ncclCommGetAsyncError";
    void *theirs = dlsym(RTLD_DEFAULT, name);
    Dl_info found;
    if (theirs == NULL || theirs == dlsym(library, name) || dladdr(theirs, &found) == 0)
        return library;
    void *own = dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (own == NULL || dlsym(own, name) != theirs) /* in the program itself */
        own = dlopen(NULL, RTLD_NOW);
    message_warning("programs_nccl",
                    "the program has an NCCL of its own (%s), which is used in place of %s: two cannot "
                    "be in one process; link the program with the NCCL that is wanted",
                    found.dli_fname, *path_p);
    *path_p = found.dli_fname;
    return own;
}

bool
nccl_open(struct nccl *nccl, const char *path, const struct nccl_watcher *watcher, struct comm_error *error)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return comm_fail(error, "cannot open NCCL: %s; install it or name it with --nccl PATH", dlerror());

    library = prefer_the_programs(library, &path);
    struct nccl filled = {.watcher = *watcher};
    if (!ask_version(path, library, watcher, &filled.version, error))
        goto close_library;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); ++i) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL) {
            comm_fail(error, "%s has no %s; name another NCCL with --nccl PATH", path, symbols[i].name);
            goto close_library;
        }
        *(void **)((char *)&filled + symbols[i].offset) = function;
    }
    *nccl = filled;
    return true;

close_library:
    dlclose(library);
    return false;
}
