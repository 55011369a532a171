/*
 * nccl.h - NCCL's functions, as a table filled from a library that is opened at run time.
 *
 * Which NCCL is used is decided on the machine that runs the job (`ddprun --nccl`), not on the one that built it.
 *
 * Threads. NCCL allows one thread at a time per communicator, and forbids operations of two threads at once on
 * communicators of one device (its user guide, "Thread Safety"). So every call with a communicator is the issuer's
 * (collectives.h), with one exception: any thread may call ncclCommGetAsyncError of a *blocking* communicator, which
 * reads two words. Of a non-blocking one that call joins and frees the thread that NCCL starts for each call or group:
 * two threads in it are a race. Any thread may also call ncclGetVersion, ncclGetErrorString and
 * ncclGetLastError, which does not use its communicator, and whose text may be of another thread's call.
 *
 * Blocking calls. ncclCommInitRankConfig, ncclCommFinalize and ncclCommDestroy wait for other ranks. So does the first
 * collective of each algorithm: ranks connect there since NCCL 2.22 (NCCL_RUNTIME_CONNECT), so that a bucket of a new
 * size waits for all; engine/measure/connect.c sees to it that there is none. With a peer that is dead or stopped they
 * may never return. No lock that the watch thread takes is held across a call into NCCL; the watch thread ends the job.
 *
 * ncclCommAbort is not in the table. It may be called while another thread is inside a blocking call, which is the
 * purpose of it; but NCCL's maintainers call that unreliable before 2.19.1 (NVIDIA/nccl issue 992), and later versions
 * expect it of all ranks. A rank that cannot continue is killed by its launcher instead, which needs no call to return.
 */
#ifndef DDPRUN_COMM_NCCL_H
#define DDPRUN_COMM_NCCL_H

#include "comm/error.h"
#include "comm/nccl_versions.h"

#include <nccl.h>
#include <stdbool.h>

#define NCCL_FUNCTIONS(FUNCTION)     \
    FUNCTION(ncclGetVersion)         \
    FUNCTION(ncclGetUniqueId)        \
    FUNCTION(ncclCommInitRankConfig) \
    FUNCTION(ncclCommDestroy)        \
    FUNCTION(ncclCommFinalize)       \
    FUNCTION(ncclCommGetAsyncError)  \
    FUNCTION(ncclGetErrorString)     \
    FUNCTION(ncclGetLastError)       \
    FUNCTION(ncclAllGather)          \
    FUNCTION(ncclAllReduce)          \
    FUNCTION(ncclBroadcast)

/* What the opener wants to know of NCCL's code. */
struct nccl_watcher {
    /* Called with an address inside the library before any of its functions runs. */
    void (*opened)(const void *address);

    /* Called in the thread that enters or leaves a function of NCCL's that may call CUDA, or start threads that do. */
    void (*inside)(bool is_inside);
};

struct nccl {
    int version; /* as NCCL_VERSION_CODE */
    struct nccl_watcher watcher;
#define NCCL_MEMBER(function) __typeof__(&(function)) function##_p;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
};

/*
 * Opens `path` (a path, or a name for the loader), or finds the NCCL that the program itself has, which comes first
 * and is reported, and fills the table. False, with one line that says what to do, if it
 * cannot be opened, lacks a function or is older than NCCL_OLDEST_VERSION. The library stays loaded for the life of the
 * process.
 */
bool nccl_open(struct nccl *nccl, const char *path, const struct nccl_watcher *watcher,
               struct comm_error *error) MUST_USE;

/* Calls a function of the table that may call CUDA. */
#define NCCL_CALL(nccl, function, ...)                                  \
    __extension__({                                                     \
        (nccl)->watcher.inside(true);                                   \
        const ncclResult_t result_ = (nccl)->function##_p(__VA_ARGS__); \
        (nccl)->watcher.inside(false);                                  \
        result_;                                                        \
    })

#endif
