/*
 * order_model.h - which order of work in streams CUDA allows: what test_model.c issues, and what order_model.c derives
 * from it.
 *
 * The rules, and where CUDA states them (CUDA C++ Programming Guide 13.0 = G, Driver API manual 13.0 = D):
 *
 *   1. Commands of one stream run one after another, in the order of their calls (G "Streams").
 *   2. An action in the legacy default stream (a launch, a copy, also cuStreamWaitEvent) first waits for all blocking
 *      streams, and then all blocking streams wait for it (G "Implicit Synchronization", D "Stream synchronization
 *      behavior"). Streams made with CU_STREAM_NON_BLOCKING take no part.
 *   3. Each host thread has its own per-thread default stream, and that is a blocking stream (D, the same section).
 *   4. cuEventRecord captures what its stream holds at the time of the call; cuStreamWaitEvent makes all later work of
 *      its stream wait for the event's latest record at the time of the call. A record made later does not move the
 *      wait; a wait for an event that was never recorded does nothing (D cuEventRecord, cuStreamWaitEvent).
 *   5. What the host has waited for (cuStreamSynchronize, cuEventSynchronize, cuCtxSynchronize, a copy that waits, a
 *      query that said "done") is over, and so precedes everything that this thread submits later, and what other
 *      threads submit after that. Waiting for the legacy stream is waiting for all blocking streams.
 *   6. A host function is work of its stream like a kernel (G "Host Functions (Callbacks)").
 *
 * Two calls of different threads have an order only if one returned before the other began; otherwise CUDA may take
 * them in either. So each call notes a number of one clock when it begins and when it returns, and after the run the
 * model derives, from calls that are surely ordered, which work must have been over before which began. In every second
 * program the threads take turns call by call, so that nearly all calls are ordered and the model is exact. Where it is
 * not sure which record a wait has taken, the wait promises what all candidates have in common.
 */
#ifndef TESTS_SOFTGPU_CUDA_ORDER_MODEL_H
#define TESTS_SOFTGPU_CUDA_ORDER_MODEL_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    THREADS = 3,
    OPERATIONS = 200,
    CREATED = 4,                     /* two blocking and two non-blocking streams */
    HANDLES = CREATED + 2,           /* and the two default ones */
    STREAMS = CREATED + 1 + THREADS, /* as the driver has them: each thread's own default stream is one more */
    EVENTS = 5,
    WORDS = (OPERATIONS + 63) / 64,
};
enum { LEGACY_STREAM = CREATED, FIRST_PER_THREAD }; /* places of the driver's streams */

/* Operations, by their number. */
struct set {
    uint64_t words[WORDS];
};

enum kind {
    NOTHING, /* the call did nothing that the model could use: a query that said "not yet" */
    KERNEL,
    HOST_FUNCTION,
    FILL,
    RECORD,
    WAIT_EVENT,
    SYNC_STREAM, /* from here on the host has waited; a query that said "done" counts as such a wait */
    SYNC_EVENT,
    SYNC_CONTEXT,
    COPY,
};

struct operation {
    enum kind kind;
    int stream; /* place of the driver's stream; -1: none */
    int event;
    unsigned long call, back; /* the clock when the call began and when it returned */

    /* what happened: of KERNEL and HOST_FUNCTION */
    struct program *program;
    atomic_ulong begin, end; /* 0: not yet */

    /* what the model says */
    struct set before; /* work that must be over when this begins */
    struct set after;  /* the same, for what follows in this stream, or in the thread that waited */
};

struct program {
    unsigned seed;
    bool take_turns; /* the threads' calls exclude each other */
    pthread_mutex_t turn;
    CUstream created[CREATED];
    CUevent events[EVENTS];
    CUfunction work;
    CUdeviceptr memory;
    struct operation operations[OPERATIONS];
    unsigned long cells[STREAMS]; /* counted by the work of each stream: ordered by nothing but the driver */
};

static inline bool
is_work(const struct operation *operation)
{
    return operation->kind == KERNEL || operation->kind == HOST_FUNCTION;
}

static inline bool
host_waited(const struct operation *operation)
{
    return operation->kind >= SYNC_STREAM;
}

/* Streams created at even places are blocking ones. */
static inline bool
blocking(int stream)
{
    return stream >= LEGACY_STREAM || stream % 2 == 0;
}

/* Fills in `before` and `after` of all operations, which have all returned. */
void model_program(struct program *program);

static inline bool
set_contains(const struct set *set, int number)
{
    return (set->words[number / 64] >> number % 64 & 1) != 0;
}

#endif
