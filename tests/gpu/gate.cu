/*
 * gate.cu - could the device hold the trainer's stream at DDP_STEP until hosts have repaired? For first.sh:
 * gate LIBRARY [SECONDS [QUESTION]]. LIBRARY is NCCL; a question that has no answer after SECONDS (default: 10) is
 * answered by "waits for ever".
 *
 * The gate is an operation in the trainer's stream that ends when a word in pinned memory is written: a wait for a
 * value (cuStreamWaitValue32), or a kernel that polls. While it is closed, the trainer's thread does what trainers do
 * after DDP_STEP, and a second thread launches an all-reduce, the repair, waits for its end and opens the gate. The
 * gate is of use only if the repair always ends:
 *
 *   a  while the trainer's thread launches a kernel for the first time, which loads it
 *   b  while it waits in cudaFree
 *   c  while it makes 2,000 launches, more than the driver keeps
 *   d  after a bucket of the next step has been launched, which waits for the gate; "d2": by a second communicator
 *   e  where each launch blocks (CUDA_LAUNCH_BLOCKING=1)
 *   f  beside 64 streams that wait for the gate, with CUDA_DEVICE_MAX_CONNECTIONS 1, 2 and 8: "f1", "f2", "f8"
 *
 * Two processes take part, each with a GPU or sharing one as under `ddprun --share-gpu`; each question has processes of
 * its own, which are killed where they wait for ever. Each line of output is one answer: the question, what the gate
 * needs, what is seen, and a verdict, with tabs between them. Either answer is "measured"; "differs" is a sum that is
 * wrong, or a call that failed.
 */
#include "../lib/numbers.h"

#include <atomic>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, ELEMENTS = 1 << 20, STREAMS = 64, LAUNCHES = 2000 };
enum { START_S = 60, LIMIT_S = 10, HEAD_START_MS = 50, NOT_SUPPORTED = 77 };

enum way { BY_WAIT, BY_KERNEL };
static const char *const way_names[] = {"a wait for a value", "a kernel that polls"};

/* How far a rank has come. */
enum place { STARTING, CONNECTED, LAUNCHING, REPAIRING, OPENED, ENDED };
static const char *const place_names[] = {
    "starts", "is ready", "launches the repair", "waits for the repair's end", "has opened the gate", "has ended"};

/* What a rank has seen; in memory that the processes share. */
struct answer {
    std::atomic<int> place;
    double launch_ms, repair_ms; /* of the repair: the call, and until its end */
    double call_ms;              /* closing the gate, and what the trainer's thread did then */
    bool was_open;               /* when that returned */
};

struct meeting {
    ncclUniqueId ids[2];
    pthread_barrier_t barrier;
    struct answer answers[RANKS];
};

struct rank {
    int number, device;
    struct answer *answer;
    ncclComm_t comms[2];
    cudaStream_t trainer, buckets, repairs;
    float *own, *bucket, *repaired, *unused; /* on the device; `own` holds this rank's number plus one */
    unsigned *word;                          /* pinned: the gate is open if it is not 0 */
    std::atomic<bool> at_work;               /* the second thread may begin */
};

struct question {
    const char *key, *text;
    void (*work)(struct rank *); /* the trainer's thread, after the gate */
    bool goes_first;             /* all of that comes before the repair */
    int repairing_comm;
    const char *variable, *value; /* of the environment, or NULL */
};

/* ---- calls ---- */

static struct {
    __typeof__(&ncclGetUniqueId) get_unique_id;
    __typeof__(&ncclCommInitRank) init;
    __typeof__(&ncclAllReduce) all_reduce;
    __typeof__(&cuStreamWaitValue32) wait_value;
} calls;

static void
expect(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "gate: %s failed with %d\n", call, result);
    _exit(1);
}

template <class F>
static F
function(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        fprintf(stderr, "gate: no %s in %s\n", name, path);
        _exit(1);
    }
    return (F)found;
}
#define FUNCTION(path, name, type) function<__typeof__(&type)>(path, name)

static void
find_calls(const char *nccl)
{
    calls.get_unique_id = FUNCTION(nccl, "ncclGetUniqueId", ncclGetUniqueId);
    calls.init = FUNCTION(nccl, "ncclCommInitRank", ncclCommInitRank);
    calls.all_reduce = FUNCTION(nccl, "ncclAllReduce", ncclAllReduce);
    calls.wait_value = FUNCTION("libcuda.so.1", "cuStreamWaitValue32_v2", cuStreamWaitValue32);
}

static double
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void
reduce(struct rank *rank, int comm, float *to, cudaStream_t stream)
{
    expect(calls.all_reduce(rank->own, to, ELEMENTS, ncclFloat, ncclSum, rank->comms[comm], stream), "ncclAllReduce");
}

/* ---- kernels ---- */

__global__ void
set(float *out, float value)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < ELEMENTS; i += gridDim.x * blockDim.x)
        out[i] = value;
}

__global__ void
touch(float *out)
{
    out[threadIdx.x] = 1.0f;
}

/* Launched by question a alone, and so loaded by it. */
__global__ void
load_late(float *out)
{
    out[threadIdx.x] = 2.0f;
}

__global__ void
poll(volatile unsigned *word)
{
    while (*word == 0)
        ;
}

/* ---- what the trainer's thread does while the gate is closed ---- */

static void
launch_first(struct rank *rank)
{
    load_late<<<1, 32, 0, rank->trainer>>>(rank->unused);
    expect(cudaGetLastError(), "the first launch of a kernel");
}

static void
free_memory(struct rank *rank)
{
    expect(cudaFree(rank->unused), "cudaFree");
}

static void
launch_once(struct rank *rank)
{
    touch<<<1, 32, 0, rank->trainer>>>(rank->unused);
    expect(cudaGetLastError(), "a launch");
}

static void
launch_many(struct rank *rank)
{
    for (int i = 0; i < LAUNCHES; ++i)
        launch_once(rank);
}

static void
wait_for_trainer(struct rank *rank, cudaStream_t stream)
{
    cudaEvent_t event;
    expect(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    expect(cudaEventRecord(event, rank->trainer), "cudaEventRecord");
    expect(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

static void
launch_bucket(struct rank *rank)
{
    launch_once(rank);
    wait_for_trainer(rank, rank->buckets);
    reduce(rank, 0, rank->bucket, rank->buckets);
}

static void
launch_in_streams(struct rank *rank)
{
    for (int i = 0; i < STREAMS; ++i) {
        cudaStream_t stream;
        expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        wait_for_trainer(rank, stream);
        touch<<<1, 32, 0, stream>>>(rank->unused);
        expect(cudaGetLastError(), "a launch");
    }
}

static const struct question questions[] = {
    {"a", "a kernel is launched for the first time", launch_first, false, 0, "CUDA_MODULE_LOADING", "LAZY"},
    {"b", "cudaFree", free_memory, false, 0, NULL, NULL},
    {"c", "2,000 launches", launch_many, false, 0, NULL, NULL},
    {"d", "a bucket of the next step waits for the gate", launch_bucket, true, 0, NULL, NULL},
    {"d2", "a bucket of the next step waits for the gate, and a second communicator repairs", launch_bucket, true, 1,
     NULL, NULL},
    {"e", "a launch, with CUDA_LAUNCH_BLOCKING=1", launch_once, false, 0, "CUDA_LAUNCH_BLOCKING", "1"},
    {"f1", "64 streams, with CUDA_DEVICE_MAX_CONNECTIONS=1", launch_in_streams, true, 0, "CUDA_DEVICE_MAX_CONNECTIONS",
     "1"},
    {"f2", "64 streams, with CUDA_DEVICE_MAX_CONNECTIONS=2", launch_in_streams, true, 0, "CUDA_DEVICE_MAX_CONNECTIONS",
     "2"},
    {"f8", "64 streams, with CUDA_DEVICE_MAX_CONNECTIONS=8", launch_in_streams, true, 0, "CUDA_DEVICE_MAX_CONNECTIONS",
     "8"},
};

/* ---- a rank ---- */

/* NCCL refuses two ranks of one host on one GPU, and takes the host's identity from this variable (NCCL manual). */
static void
take_device(struct rank *rank)
{
    int count = 0;
    char host[64];
    expect(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    expect(count == 0, "finding a GPU");
    rank->device = rank->number % count;
    expect(cudaSetDevice(rank->device), "cudaSetDevice");
    if (count >= RANKS)
        return;
    snprintf(host, sizeof(host), "gate-%d-%d", (int)getppid(), rank->number);
    setenv("NCCL_HOSTID", host, 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

/* All kernels but `load_late` are loaded when it returns, and NCCL is connected. */
static void
prepare(struct rank *rank, struct meeting *meeting)
{
    int least = 0, greatest = 0;
    float **const memory[] = {&rank->own, &rank->bucket, &rank->repaired, &rank->unused};
    expect(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    expect(cudaStreamCreateWithFlags(&rank->trainer, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (cudaStream_t *stream : {&rank->buckets, &rank->repairs})
        expect(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    for (float **part : memory)
        expect(cudaMalloc((void **)part, ELEMENTS * sizeof(float)), "cudaMalloc");
    expect(cudaHostAlloc((void **)&rank->word, sizeof(unsigned), cudaHostAllocMapped), "cudaHostAlloc");
    for (int k = 0; k < 2; ++k) {
        if (rank->number == 0)
            expect(calls.get_unique_id(&meeting->ids[k]), "ncclGetUniqueId");
        pthread_barrier_wait(&meeting->barrier);
        expect(calls.init(&rank->comms[k], RANKS, meeting->ids[k], rank->number), "ncclCommInitRank");
    }
    __atomic_store_n(rank->word, 1, __ATOMIC_RELEASE);
    set<<<64, 256, 0, rank->trainer>>>(rank->own, (float)(rank->number + 1));
    poll<<<1, 1, 0, rank->trainer>>>(rank->word);
    launch_once(rank);
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (int k = 0; k < 2; ++k)
        reduce(rank, k, rank->bucket, rank->buckets);
    expect(cudaMemset(rank->bucket, 0, ELEMENTS * sizeof(float)), "cudaMemset");
    expect(cudaMemset(rank->repaired, 0, ELEMENTS * sizeof(float)), "cudaMemset");
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    *rank->word = 0;
}

static void
close_gate(struct rank *rank, enum way way)
{
    if (way == BY_WAIT) {
        CUdeviceptr at = (CUdeviceptr)rank->word; /* pinned memory has one address for both */
        CUresult result = calls.wait_value(rank->trainer, at, 1, CU_STREAM_WAIT_VALUE_GEQ);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            _exit(NOT_SUPPORTED);
        expect(result, "cuStreamWaitValue32");
    } else {
        poll<<<1, 1, 0, rank->trainer>>>(rank->word);
        expect(cudaGetLastError(), "a launch");
    }
}

struct repair {
    struct rank *rank;
    int comm;
};

/* The second thread. */
static void *
repair(void *argument)
{
    const struct repair *of = (const struct repair *)argument;
    struct rank *rank = of->rank;
    struct answer *answer = rank->answer;
    cudaError_t result;
    expect(cudaSetDevice(rank->device), "cudaSetDevice");
    while (!rank->at_work)
        sched_yield();
    struct timespec head_start = {0, HEAD_START_MS * 1000000};
    nanosleep(&head_start, NULL); /* a driver's lock is taken by then, if it is taken */
    double begin = now_ms();
    answer->place = LAUNCHING;
    reduce(rank, of->comm, rank->repaired, rank->repairs);
    answer->launch_ms = now_ms() - begin;
    answer->place = REPAIRING;
    do {
        result = cudaStreamQuery(rank->repairs);
        sched_yield();
    } while (result == cudaErrorNotReady);
    expect(result, "the repair");
    answer->repair_ms = now_ms() - begin;
    __atomic_store_n(rank->word, 1, __ATOMIC_RELEASE);
    answer->place = OPENED;
    return NULL;
}

/* Ends the rank if a sum of both ranks' numbers is not there. */
static void
check_sum(const float *memory, const char *name)
{
    const float expected = RANKS * (RANKS + 1) / 2;
    float first = 0, last = 0;
    expect(cudaMemcpy(&first, memory, sizeof(first), cudaMemcpyDeviceToHost), "cudaMemcpy");
    expect(cudaMemcpy(&last, memory + ELEMENTS - 1, sizeof(last), cudaMemcpyDeviceToHost), "cudaMemcpy");
    expect(first != expected || last != expected, name);
}

static void __attribute__((noreturn))
run_rank(struct meeting *meeting, const struct question *question, enum way way, int number, const char *nccl)
{
    static struct rank rank;
    pthread_t second;
    rank.number = number;
    rank.answer = &meeting->answers[number];
    if (question->variable != NULL)
        setenv(question->variable, question->value, 1);
    find_calls(nccl);
    take_device(&rank);
    prepare(&rank, meeting);
    pthread_barrier_wait(&meeting->barrier);
    rank.answer->place = CONNECTED;

    struct repair of = {&rank, question->repairing_comm};
    expect(pthread_create(&second, NULL, repair, &of), "pthread_create");
    rank.at_work = !question->goes_first;
    double begin = now_ms();
    close_gate(&rank, way); /* waits, too, where each launch does */
    question->work(&rank);
    rank.answer->call_ms = now_ms() - begin;
    rank.answer->was_open = __atomic_load_n(rank.word, __ATOMIC_ACQUIRE) != 0;
    rank.at_work = true;
    expect(pthread_join(second, NULL), "pthread_join");
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_sum(rank.repaired, "the repair's sum");
    if (question->work == launch_bucket)
        check_sum(rank.bucket, "the next step's sum");
    rank.answer->place = ENDED;
    _exit(0);
}

/* ---- all ranks ---- */

static struct meeting *
make_meeting(void)
{
    pthread_barrierattr_t shared;
    void *memory = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect(memory == MAP_FAILED, "mmap");
    struct meeting *meeting = (struct meeting *)memory;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    expect(pthread_barrier_init(&meeting->barrier, &shared, RANKS), "pthread_barrier_init");
    return meeting;
}

/* Whether all of them are there; the first exit code that is not 0 goes to *code_p. */
static bool
has_ended(pid_t *ranks, int *code_p)
{
    bool all = true;
    for (int r = 0; r < RANKS; ++r) {
        int status = 0;
        if (ranks[r] == 0)
            continue;
        if (waitpid(ranks[r], &status, WNOHANG) == 0) {
            all = false;
            continue;
        }
        ranks[r] = 0;
        if (*code_p == 0)
            *code_p = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return all;
}

/* Waits for the ranks, and kills them if one has failed or they do not end. Returns whether they ended. */
static bool
wait_for_ranks(const struct meeting *meeting, pid_t *ranks, double limit_s, int *code_p)
{
    double begin = now_ms(), limit_ms = 1e3 * START_S;
    bool ready = false, ended = false;
    *code_p = 0;
    while (!ended && *code_p == 0 && now_ms() - begin < limit_ms) {
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
        ended = has_ended(ranks, code_p);
        if (!ready && meeting->answers[0].place >= CONNECTED) {
            ready = true;
            begin = now_ms();
            limit_ms = 1e3 * limit_s;
        }
    }
    for (int r = 0; r < RANKS; ++r) {
        if (ranks[r] == 0)
            continue;
        kill(ranks[r], SIGKILL);
        waitpid(ranks[r], NULL, 0);
    }
    return ended;
}

static double
larger(double a, double b)
{
    return a > b ? a : b;
}

static void
print_answer(const struct question *question, enum way way, const struct meeting *meeting, bool ended, int code)
{
    const struct answer *a = &meeting->answers[0], *b = &meeting->answers[1];
    printf("(%s) the gate is %s; after it: %s\tthe repair ends\t", question->key, way_names[way], question->text);
    if (code == NOT_SUPPORTED) {
        printf("this driver has no such wait\tnot run\n");
    } else if (code != 0) {
        printf("exit code %d\tdiffers\n", code);
    } else if (a->place < CONNECTED) {
        printf("NCCL has not started after %d s\tdiffers\n", START_S);
    } else if (!ended) {
        printf("waits for ever: rank 0 %s, rank 1 %s\tmeasured\n", place_names[a->place], place_names[b->place]);
    } else {
        bool waited = a->was_open || b->was_open;
        printf("the repair ends: launched in %.3f ms, there after %.3f ms; the trainer's thread needs %.3f "
               "ms%s\tmeasured\n",
               larger(a->launch_ms, b->launch_ms), larger(a->repair_ms, b->repair_ms), larger(a->call_ms, b->call_ms),
               waited ? ", until the gate is open" : "");
    }
    fflush(stdout);
}

/* Returns whether there is an answer. */
static bool
ask(const struct question *question, enum way way, const char *nccl, double limit_s)
{
    pid_t ranks[RANKS];
    int code = 0;
    struct meeting *meeting = make_meeting();
    for (int r = 0; r < RANKS; ++r) {
        ranks[r] = fork();
        expect(ranks[r] < 0, "fork");
        if (ranks[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank(meeting, question, way, r, nccl);
        }
    }
    bool ended = wait_for_ranks(meeting, ranks, limit_s, &code);
    print_answer(question, way, meeting, ended, code);
    bool is_ready = meeting->answers[0].place >= CONNECTED;
    munmap(meeting, sizeof(*meeting));
    return code == NOT_SUPPORTED || (code == 0 && is_ready);
}

int
main(int argc, char **argv)
{
    double limit_s = argc > 2 ? real_number(argv[2]) : LIMIT_S;
    const char *key = argc > 3 ? argv[3] : NULL;
    bool is_known = key == NULL, all = true;
    for (const struct question &question : questions)
        is_known = is_known || strcmp(key, question.key) == 0;
    if (argc < 2 || argc > 4 || limit_s <= 0 || !is_known) {
        fputs("Usage: gate LIBRARY [SECONDS [a|b|c|d|d2|e|f1|f2|f8]]   (LIBRARY: libnccl.so.2)\n", stderr);
        return 2;
    }
    for (const struct question &question : questions) {
        if (key != NULL && strcmp(key, question.key) != 0)
            continue;
        for (enum way way : {BY_WAIT, BY_KERNEL})
            all = ask(&question, way, argv[1], limit_s) && all;
    }
    return all ? 0 : 1;
}
