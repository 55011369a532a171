/*
 * allreduce_nccl.c - ncclAllReduce of float sums between N processes on the stand-in: allreduce_nccl N. Run by
 * bench/softgpu. Prints one line a size; the time of an operation is from its launch until its stream is done.
 */
#include "allreduce.h"
#include "report.h"

#include <cuda.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the processes share. */
struct meeting {
    ncclUniqueId id;
    pthread_barrier_t barrier;
    double seconds[ALLREDUCE_RANKS_AT_MOST]; /* of each rank's last operation */
};

static void
expect(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "bench: %s failed with %d\n", call, result);
    exit(1);
}

static CUdeviceptr
device_floats(size_t count)
{
    CUdeviceptr memory;
    float *values = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; ++i)
        values[i] = (float)(i % 7);
    expect(cuMemAlloc(&memory, count * sizeof(float)), "cuMemAlloc");
    expect(cuMemcpyHtoD(memory, values, count * sizeof(float)), "cuMemcpyHtoD");
    free(values);
    return memory;
}

static double
slowest(const struct meeting *meeting, int rank_count)
{
    double most = 0;
    for (int r = 0; r < rank_count; ++r)
        most = meeting->seconds[r] > most ? meeting->seconds[r] : most;
    return most;
}

static void
measure(struct meeting *meeting, ncclComm_t comm, int rank, int rank_count, int s)
{
    size_t count = allreduce_sizes[s].bytes / sizeof(float);
    CUdeviceptr send = device_floats(count), receive = device_floats(count);
    double times[64];
    for (int i = -2; i < allreduce_sizes[s].repetitions; ++i) { /* two to warm up */
        pthread_barrier_wait(&meeting->barrier);
        double begin = allreduce_now();
        expect(ncclAllReduce((const void *)send, (void *)receive, count, ncclFloat, ncclSum, comm, NULL),
               "ncclAllReduce");
        expect(cuStreamSynchronize(NULL), "cuStreamSynchronize");
        meeting->seconds[rank] = allreduce_now() - begin;
        pthread_barrier_wait(&meeting->barrier);
        if (i >= 0)
            times[i] = slowest(meeting, rank_count);
    }
    if (rank == 0)
        allreduce_print(allreduce_sizes[s].bytes, report_median(times, (size_t)allreduce_sizes[s].repetitions));
    expect(cuMemFree(send), "cuMemFree");
    expect(cuMemFree(receive), "cuMemFree");
}

/* A core for each rank where there are enough, as mpirun does it by default. */
static void
bind_to_core(int rank, int rank_count)
{
    cpu_set_t usable, mine;
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < rank_count)
        return;
    int core = 0;
    for (int left = rank; !CPU_ISSET(core, &usable) || left-- > 0; ++core)
        ;
    CPU_ZERO(&mine);
    CPU_SET(core, &mine);
    sched_setaffinity(0, sizeof(mine), &mine);
}

static int
run_rank(struct meeting *meeting, int rank, int rank_count)
{
    CUcontext context;
    ncclComm_t comm;
    bind_to_core(rank, rank_count);
    expect(cuInit(0), "cuInit");
    expect(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    if (rank == 0)
        expect(ncclGetUniqueId(&meeting->id), "ncclGetUniqueId");
    pthread_barrier_wait(&meeting->barrier);
    expect(ncclCommInitRank(&comm, rank_count, meeting->id, rank), "ncclCommInitRank");
    for (int s = 0; s < ALLREDUCE_SIZES; ++s)
        measure(meeting, comm, rank, rank_count, s);
    expect(ncclCommDestroy(comm), "ncclCommDestroy");
    fflush(stdout);
    return 0;
}

int
main(int argc, char **argv)
{
    int rank_count = argc == 2 ? atoi(argv[1]) : 0;
    if (rank_count < 1 || rank_count > ALLREDUCE_RANKS_AT_MOST) {
        fprintf(stderr, "Usage: allreduce_nccl N   (N processes, 1 to %d)\n", ALLREDUCE_RANKS_AT_MOST);
        return 2;
    }
    struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    if (meeting == MAP_FAILED || pthread_barrier_init(&meeting->barrier, &shared, (unsigned)rank_count) != 0)
        return 1;
    for (int r = 1; r < rank_count; ++r) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(run_rank(meeting, r, rank_count));
        }
    }
    int result = run_rank(meeting, 0, rank_count);
    for (int status = 0; wait(&status) > 0;)
        result |= status != 0;
    return result;
}
