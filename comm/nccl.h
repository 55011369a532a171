/*
 * nccl.h - NCCL's functions, as a table filled from a library that is opened at run time.
 *
 * Which NCCL is used is decided on the machine that runs the job (`ddprun --nccl`), not on the one that built it.
 */
#ifndef DDPRUN_COMM_NCCL_H
#define DDPRUN_COMM_NCCL_H

#include "comm/error.h"

#include <nccl.h>
#include <stdbool.h>

#define NCCL_FUNCTIONS(FUNCTION)     \
    FUNCTION(ncclGetVersion)         \
    FUNCTION(ncclGetUniqueId)        \
    FUNCTION(ncclCommInitRankConfig) \
    FUNCTION(ncclCommAbort)          \
    FUNCTION(ncclCommDestroy)        \
    FUNCTION(ncclCommFinalize)       \
    FUNCTION(ncclCommGetAsyncError)  \
    FUNCTION(ncclGetErrorString)     \
    FUNCTION(ncclGetLastError)       \
    FUNCTION(ncclAllGather)          \
    FUNCTION(ncclAllReduce)          \
    FUNCTION(ncclBroadcast)

struct nccl {
    int version; /* as NCCL_VERSION_CODE */
#define NCCL_MEMBER(function) __typeof__(&(function)) function##_p;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
};

/* Finalize, non-blocking communicators and their configuration came together. */
#define NCCL_OLDEST_VERSION NCCL_VERSION(2, 14, 3)

/* Called with an address inside the library before any of its functions runs. */
typedef void (*nccl_opened_fn)(const void *address);

/*
 * Opens `path` (a path, or a name for the loader) and fills the table. False, with one line that says what to do, if it
 * cannot be opened, lacks a function or is older than NCCL_OLDEST_VERSION. The library stays loaded for the life of the
 * process.
 */
bool nccl_open(struct nccl *nccl, const char *path, nccl_opened_fn opened, struct comm_error *error)
    __attribute__((warn_unused_result));

#endif
