/*
 * nccl_alone.c - what NCCL reaches without ddprun, for first.sh: nccl_alone LIBRARY N MIB. N processes, each with a GPU
 * or sharing it as under `ddprun --share-gpu`, all-reduce MIB MiB of floats, in place, on a stream. Prints "all-reduce:
 * T us": the median over the repetitions of the slowest rank's time between two events around the collective, behind
 * IN_FRONT others: the device is busy, as ddprun's is.
 */
#include "../lib/numbers.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_AT_MOST = 64, WARM_UPS = 5, REPETITIONS = 21, IN_FRONT = 2, MEBIBYTES_AT_MOST = 65536 };

/* What the processes share. */
struct meeting {
    ncclUniqueId id;
    pthread_barrier_t barrier;
    double us[RANKS_AT_MOST]; /* of each rank's last collective */
};

static struct {
    __typeof__(&ncclGetUniqueId) get_unique_id;
    __typeof__(&ncclCommInitRank) init;
    __typeof__(&ncclAllReduce) all_reduce;
    __typeof__(&ncclCommDestroy) destroy;
} nccl;

static void
expect(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "nccl_alone: %s failed with %d\n", call, result);
    _exit(1);
}

static void *
function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "nccl_alone: no %s in the NCCL library\n", name);
        _exit(2);
    }
    return found;
}

static void
open_nccl(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "nccl_alone: %s\n", dlerror());
        _exit(2);
    }
    nccl.get_unique_id = (__typeof__(nccl.get_unique_id))function(library, "ncclGetUniqueId");
    nccl.init = (__typeof__(nccl.init))function(library, "ncclCommInitRank");
    nccl.all_reduce = (__typeof__(nccl.all_reduce))function(library, "ncclAllReduce");
    nccl.destroy = (__typeof__(nccl.destroy))function(library, "ncclCommDestroy");
}

/* NCCL refuses two ranks of one host on one GPU, and takes the host's identity from this variable (NCCL manual). */
static void
take_device(int rank, int rank_count)
{
    int count = 0;
    char host[64];
    expect(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    expect(count == 0, "finding a GPU");
    expect(cudaSetDevice(rank % count), "cudaSetDevice");
    if (rank_count <= count)
        return;
    snprintf(host, sizeof(host), "nccl-alone-%d-%d", (int)getppid(), rank);
    setenv("NCCL_HOSTID", host, 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

static int
compare(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static double
slowest(const struct meeting *meeting, int rank_count)
{
    double most = 0;
    for (int r = 0; r < rank_count; ++r)
        most = meeting->us[r] > most ? meeting->us[r] : most;
    return most;
}

static void
measure(struct meeting *meeting, ncclComm_t comm, int rank, int rank_count, size_t mebibytes)
{
    const size_t count = (mebibytes << 20) / sizeof(float);
    float *values;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    double times[REPETITIONS];
    expect(cudaMalloc((void **)&values, count * sizeof(float)), "cudaMalloc");
    expect(cudaMemset(values, 0, count * sizeof(float)), "cudaMemset");
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    expect(cudaEventCreate(&begin), "cudaEventCreate");
    expect(cudaEventCreate(&end), "cudaEventCreate");
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (int i = -WARM_UPS; i < REPETITIONS; ++i) {
        float ms = 0;
        pthread_barrier_wait(&meeting->barrier);
        for (int front = 0; front < IN_FRONT; ++front)
            expect(nccl.all_reduce(values, values, count, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
        expect(cudaEventRecord(begin, stream), "cudaEventRecord");
        expect(nccl.all_reduce(values, values, count, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
        expect(cudaEventRecord(end, stream), "cudaEventRecord");
        expect(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        expect(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        meeting->us[rank] = 1e3 * (double)ms;
        pthread_barrier_wait(&meeting->barrier);
        if (i >= 0)
            times[i] = slowest(meeting, rank_count);
    }
    qsort(times, REPETITIONS, sizeof(times[0]), compare);
    if (rank == 0)
        printf("all-reduce: %.1f us\n", times[REPETITIONS / 2]);
}

static int
run_rank(struct meeting *meeting, const char *library, size_t mebibytes, int rank, int rank_count)
{
    ncclComm_t comm;
    take_device(rank, rank_count);
    open_nccl(library);
    if (rank == 0)
        expect(nccl.get_unique_id(&meeting->id), "ncclGetUniqueId");
    pthread_barrier_wait(&meeting->barrier);
    expect(nccl.init(&comm, rank_count, meeting->id, rank), "ncclCommInitRank");
    measure(meeting, comm, rank, rank_count, mebibytes);
    expect(nccl.destroy(comm), "ncclCommDestroy");
    fflush(stdout);
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "Usage: nccl_alone LIBRARY N MIB   (N processes, 1 to %d)\n", RANKS_AT_MOST);
        return 2;
    }
    int rank_count = (int)whole_number(argv[2], 1, RANKS_AT_MOST), result = 0;
    size_t mebibytes = (size_t)whole_number(argv[3], 1, MEBIBYTES_AT_MOST);
    pid_t ranks[RANKS_AT_MOST];
    struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    if (meeting == MAP_FAILED || pthread_barrier_init(&meeting->barrier, &shared, (unsigned)rank_count) != 0)
        return 1;
    for (int r = 0; r < rank_count; ++r) {
        ranks[r] = fork();
        if (ranks[r] < 0)
            return 1;
        if (ranks[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(run_rank(meeting, argv[1], mebibytes, r, rank_count));
        }
    }
    /* A rank that failed leaves the others at a barrier. */
    for (int left = rank_count, status = 0; left > 0 && wait(&status) > 0; --left) {
        if (status == 0)
            continue;
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        return result; /* the others die with this process */
    }
    return result;
}
