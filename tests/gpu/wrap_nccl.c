/*
 * wrap_nccl.c - a libnccl that forwards to the machine's own, and behaves as NCCLs do that ddprun's machines do not
 * have. For first.sh: ddprun --nccl libwrap_nccl.so. What is not defined here is found in the library that this one is
 * linked with.
 *
 *   WRAP_INIT=1           the start of a communicator calls the process's shared cudart, in a thread of its own: what
 *                         an NCCL does that is linked with it (those of conda-forge, of NCCL's own CMake)
 *   WRAP_MODE=registered  an all-reduce of registered memory waits on the host until all ranks are in the same call:
 *                         NVLS of NCCL 2.24 to 2.30 (nvlsRegisterBuffer in src/transport/nvls.cc)
 *   WRAP_MODE=all         each all-reduce does: NVLS of NCCL 2.19 to 2.23. NCCL_NVLS_ENABLE=0 ends it, as there
 *
 * All ranks are of one host. Where ranks have met, ncclCommDestroy prints how often and how long. Threads: a
 * communicator is used by one at a time, as NCCL demands.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { COMMS_AT_MOST = 8, RANGES_AT_MOST = 64, RANKS_AT_MOST = 64, BYTES_OF_START = 1 << 16 };
enum { VERSION_THAT_ALWAYS_MEETS = 22304 };

enum mode { MEETS_NEVER, MEETS_IN_REGISTERED, MEETS_IN_ALL };

/* The number of each rank's present all-reduce: memory that the ranks share. */
struct meeting {
    _Atomic unsigned long calls[RANKS_AT_MOST];
};

struct comm {
    ncclComm_t handle; /* NULL: free */
    struct meeting *meeting;
    int rank, rank_count;
    unsigned long calls, waits;
    double waited_ms, longest_ms;
};

static struct comm comms[COMMS_AT_MOST];
static struct range {
    uintptr_t begin, end;
} ranges[RANGES_AT_MOST]; /* registered */
static int range_count;

static void
give_up(const char *why)
{
    fprintf(stderr, "wrap_nccl: %s\n", why);
    abort();
}

static void *
forwarded(const char *name)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL)
        give_up(dlerror());
    return found;
}

#define FORWARDED(function) ((__typeof__(&function))forwarded(#function))

static enum mode
mode_of_environment(void)
{
    const char *mode = getenv("WRAP_MODE"), *nvls = getenv("NCCL_NVLS_ENABLE");
    if (mode == NULL || (nvls != NULL && strcmp(nvls, "0") == 0))
        return MEETS_NEVER;
    if (strcmp(mode, "registered") == 0)
        return MEETS_IN_REGISTERED;
    if (strcmp(mode, "all") == 0)
        return MEETS_IN_ALL;
    give_up("WRAP_MODE is neither registered nor all");
    return MEETS_NEVER;
}

static double
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static struct comm *
comm_find(ncclComm_t handle)
{
    for (int i = 0; i < COMMS_AT_MOST; ++i) {
        if (comms[i].handle == handle)
            return &comms[i];
    }
    return NULL;
}

/* ---- where ranks meet ---- */

/* A name that is the same on all ranks of a communicator: FNV-1a of its id. */
static void
name_meeting(char *name, size_t bytes, const ncclUniqueId *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof(id->internal); ++i)
        hash = (hash ^ (unsigned char)id->internal[i]) * UINT64_C(0x100000001b3);
    snprintf(name, bytes, "/wrap-nccl-%d-%016llx", (int)getuid(), (unsigned long long)hash);
}

static struct meeting *
meeting_open(const char *name)
{
    int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct meeting)) != 0)
        give_up("no shared memory where ranks could meet");
    struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (meeting == MAP_FAILED)
        give_up("no shared memory where ranks could meet");
    close(file);
    return meeting;
}

/* On the host, until all ranks are in the call with this number. */
static void
meet(struct comm *comm)
{
    double begin = now_ms();
    ++comm->calls;
    atomic_store(&comm->meeting->calls[comm->rank], comm->calls);
    for (int r = 0; r < comm->rank_count; ++r) {
        while (atomic_load(&comm->meeting->calls[r]) < comm->calls)
            sched_yield();
    }
    double waited = now_ms() - begin;
    ++comm->waits;
    comm->waited_ms += waited;
    comm->longest_ms = waited > comm->longest_ms ? waited : comm->longest_ms;
}

static int
is_registered(const void *address)
{
    for (int i = 0; i < range_count; ++i) {
        if ((uintptr_t)address >= ranges[i].begin && (uintptr_t)address < ranges[i].end)
            return 1;
    }
    return 0;
}

/* ---- what NCCL does with cudart as it starts ---- */

static void *
call_runtime(void *result)
{
    static char from[BYTES_OF_START];
    cudaStream_t stream;
    void *memory;
    cudaError_t *first = result;
    const cudaError_t errors[] = {cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                  cudaMalloc(&memory, sizeof(from)),
                                  cudaMemcpyAsync(memory, from, sizeof(from), cudaMemcpyHostToDevice, stream),
                                  cudaMemsetAsync(memory, 0, sizeof(from), stream),
                                  cudaStreamSynchronize(stream),
                                  cudaFree(memory),
                                  cudaStreamDestroy(stream)};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); ++i)
        *first = *first == cudaSuccess ? errors[i] : *first;
    return NULL;
}

/* A new thread has device 0, as its starter has: a rank sees one. */
static ncclResult_t
start_by_runtime(void)
{
    cudaError_t error = cudaSuccess;
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_runtime, &error) != 0 || pthread_join(thread, NULL) != 0)
        return ncclSystemError;
    if (error != cudaSuccess)
        fprintf(stderr, "wrap_nccl: cudart: %s\n", cudaGetErrorString(error));
    return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* ---- the calls ---- */

EXPORT ncclResult_t
ncclGetVersion(int *version)
{
    if (mode_of_environment() != MEETS_IN_ALL)
        return FORWARDED(ncclGetVersion)(version);
    *version = VERSION_THAT_ALWAYS_MEETS;
    return ncclSuccess;
}

EXPORT ncclResult_t
ncclCommInitRankConfig(ncclComm_t *handle, int rank_count, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    char name[64];
    struct comm *comm = comm_find(NULL);
    if (comm == NULL || rank_count > RANKS_AT_MOST)
        give_up("too many communicators or ranks");
    if (getenv("WRAP_INIT") != NULL && start_by_runtime() != ncclSuccess)
        return ncclUnhandledCudaError;
    name_meeting(name, sizeof(name), &id);
    struct meeting *meeting = meeting_open(name);
    ncclResult_t result = FORWARDED(ncclCommInitRankConfig)(handle, rank_count, id, rank, config);
    if (rank == 0)
        shm_unlink(name); /* all ranks have opened it before they called NCCL, which has returned */
    if (result == ncclSuccess)
        *comm = (struct comm){.handle = *handle, .meeting = meeting, .rank = rank, .rank_count = rank_count};
    return result;
}

EXPORT ncclResult_t
ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    if (range_count < RANGES_AT_MOST)
        ranges[range_count++] = (struct range){(uintptr_t)memory, (uintptr_t)memory + bytes};
    return FORWARDED(ncclCommRegister)(comm, memory, bytes, handle);
}

EXPORT ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t handle,
              cudaStream_t stream)
{
    struct comm *comm = comm_find(handle);
    enum mode mode = mode_of_environment();
    if (comm != NULL && (mode == MEETS_IN_ALL || (mode == MEETS_IN_REGISTERED && is_registered(to))))
        meet(comm);
    return FORWARDED(ncclAllReduce)(from, to, count, type, operation, handle, stream);
}

EXPORT ncclResult_t
ncclCommDestroy(ncclComm_t handle)
{
    struct comm *comm = comm_find(handle);
    if (comm != NULL && comm->waits > 0)
        fprintf(stderr, "wrap_nccl: rank %d met the others %lu times, for %.1f ms, the longest %.2f ms\n", comm->rank,
                comm->waits, comm->waited_ms, comm->longest_ms);
    if (comm != NULL)
        *comm = (struct comm){0};
    return FORWARDED(ncclCommDestroy)(handle);
}
