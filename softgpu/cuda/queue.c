/*
 * queue.c - streams: each one a thread that runs its commands in order, truly at the same time as the others. A short
 * command that finds its stream without work runs in the thread that submits it: to wake another thread costs more.
 *
 * Rules of this file
 *
 *   1. All ordering between streams is "wait until command n of stream s is through", for a command that was submitted
 *      before. So waits form no cycle, and a program that is correct on a GPU cannot deadlock here.
 *
 *   2. What a submission implies (the barriers of the legacy default stream) is decided in one place, under the
 *      context's submit_lock: add_implied_waits().
 *
 *   3. A stream's thread is made at its first command. While there is nothing to do it sleeps in a condition
 *      variable; before it falls asleep it lingers for some microseconds, if lingering helped lately.
 *
 *   4. Threads are never joined: not by a destroyed stream, not at exit. Once exit() has begun they park before the
 * next command, so that static destructors of the program do not race with kernels that were still waiting.
 */
#include "driver.h"

#include "softgpu/private_calls.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_MS = 100 };

/* ---- progress ---- */

bool
stream_reached(struct stream *stream, uint64_t number)
{
    return atomic_load(&stream->completed) >= number;
}

/* Announces that `number` is waited for. The stream's lock is held. Whether it still is to come. */
static bool
await(struct stream *stream, uint64_t number)
{
    if (number < atomic_load(&stream->awaited)) {
        atomic_store(&stream->awaited, number);
    }
    return !stream_reached(stream, number);
}

void
stream_wait(struct stream *stream, uint64_t number)
{
    if (stream_reached(stream, number)) {
        return;
    }
    pthread_mutex_lock(&stream->lock);
    while (await(stream, number)) {
        pthread_cond_wait(&stream->progress, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
}

/* `completed` is stored before `awaited` is read, in await() the other way round: one sees the other. Commands before
 * the first that is waited for wake no thread; who waits for a later one announces that again. */
static void
set_completed(struct stream *stream, uint64_t number)
{
    atomic_store(&stream->completed, number);
    if (number >= atomic_load(&stream->awaited)) {
        pthread_mutex_lock(&stream->lock);
        atomic_store(&stream->awaited, UINT64_MAX);
        pthread_mutex_unlock(&stream->lock);
        pthread_cond_broadcast(&stream->progress);
    }
}

/* ---- the thread ---- */

static void
park_if_exiting(void)
{
    while (driver_exiting()) {
        pause();
    }
}

/* SOFTGPU_CHAOS: a pause of up to 2 ms before about every fourth command, the same for the same seed and stream. */
static void
chaos_pause(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = *random >> 33;
    if (bits % 4 == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(bits / 4 % 2000000)}, NULL);
    }
}

static _Atomic int working; /* commands that run now, and are work for a GPU's multiprocessors */

int
softgpuWorkRunning(void)
{
    return atomic_load(&working);
}

/* Host functions too: programs that want time to pass and no core have them in place of kernels. */
static bool
is_work(const struct command *command)
{
    return command->node_type == CU_GRAPH_NODE_TYPE_KERNEL || command->node_type == CU_GRAPH_NODE_TYPE_HOST ||
           command->node_type == CU_GRAPH_NODE_TYPE_GRAPH;
}

static void
run_command(struct stream *stream, struct command *command)
{
    if (command->after.stream != NULL) {
        stream_wait(command->after.stream, command->after.number);
    }
    for (unsigned i = 0; i < command->legacy_wait_count; ++i) {
        stream_wait(command->legacy_waits[i].stream, command->legacy_waits[i].number);
    }
    park_if_exiting();
    uint64_t number = command->number;
    if (command->run != NULL) {
        bool works = is_work(command);
        struct beside before = works ? beside_begin() : (struct beside){0};
        atomic_fetch_add(&working, works);
        command->run(command, stream);
        if (works) {
            beside_end(before);
        }
        atomic_fetch_sub(&working, works);
    }
    command_drop(command);
    set_completed(stream, number);
}

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Waits for the next command without sleeping, for LINGER_NS: copies often come one after another, quicker than a
 * thread falls asleep and is woken. After a time in vain some times are left out, and more after each further one. */
static void
linger(struct stream *stream)
{
    enum { LINGER_NS = 4000, LEFT_OUT_AT_MOST = 64 };
    if (stream->left_out < stream->to_leave_out) {
        ++stream->left_out;
        return;
    }
    stream->left_out = 0;
    for (const int64_t end_ns = now_ns() + LINGER_NS; now_ns() < end_ns;) {
        if (atomic_load(&stream->arrived) > atomic_load(&stream->completed)) {
            stream->to_leave_out = 0;
            return;
        }
    }
    const unsigned more = 2 * stream->to_leave_out + 1;
    stream->to_leave_out = more < LEFT_OUT_AT_MOST ? more : LEFT_OUT_AT_MOST;
}

/* Sleeps while there is nothing to do. NULL: the stream is closed. */
static struct command *
take_commands(struct stream *stream)
{
    linger(stream);
    pthread_mutex_lock(&stream->lock);
    while (stream->first == NULL && !stream->closing) {
        stream->idle = true;
        pthread_cond_wait(&stream->arrival, &stream->lock);
        stream->idle = false;
    }
    struct command *first = stream->first;
    stream->first = NULL;
    stream->end = &stream->first;
    pthread_mutex_unlock(&stream->lock);
    return first;
}

static void
leave_context(struct stream *stream)
{
    struct context *context = stream->context;
    pthread_mutex_lock(&context->submit_lock);
    if (stream->previous != NULL) {
        stream->previous->next = stream->next;
    } else {
        context->streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->previous = stream->previous;
    }
    pthread_mutex_unlock(&context->submit_lock);
    stream_release(stream);
}

static _Thread_local struct stream *own_stream;

struct stream *
stream_of_thread(void)
{
    return own_stream;
}

/* `command`: what was taken before; then whatever comes. */
static void
run_stream(struct stream *stream, struct command *command)
{
    uint64_t random = driver.chaos_seed * 0x9e3779b97f4a7c15u + stream->id;
    uint64_t lag = unruly_draw(stream);
    own_stream = stream;
    do {
        while (command != NULL) {
            struct command *next = command->next;
            stream->running = command;
            if (driver.chaos) {
                chaos_pause(&random);
            }
            if (driver.unruly) {
                unruly_lag(&lag);
            }
            run_command(stream, command);
            command = stream->running = next;
        }
    } while ((command = take_commands(stream)) != NULL);
    leave_context(stream);
}

static void *
stream_thread(void *stream)
{
    run_stream(stream, NULL);
    return NULL;
}

/* The command stays allocated: the thread that sleeps in it has pointers there. */
void
stream_resume(struct stream *stream)
{
    struct command *next = stream->running->next;
    set_completed(stream, stream->running->number);
    run_stream(stream, next);
}

/* ---- submission ---- */

static bool
pending(const struct stream *stream)
{
    return atomic_load(&stream->completed) < stream->submitted;
}

/*
 * The legacy default stream: its commands wait for what was submitted to all blocking streams, and commands in blocking
 * streams wait for what was submitted to it (CUDA programming guide, "Legacy default stream"). With submit_lock held.
 */
static CUresult
add_implied_waits(struct stream *stream, struct command *command)
{
    struct context *context = stream->context;
    if (!stream->blocking) {
        return CUDA_SUCCESS;
    }
    if (stream != context->legacy) {
        struct stream *legacy = context->legacy;
        if (legacy->submitted > stream->legacy_covered && pending(legacy)) {
            command->legacy_waits = malloc(sizeof *command->legacy_waits);
            REQUIRE_ELSE(command->legacy_waits != NULL, CUDA_ERROR_OUT_OF_MEMORY);
            command->legacy_waits[0] = (struct wait){stream_hold(legacy), legacy->submitted};
            command->legacy_wait_count = 1;
        }
        stream->legacy_covered = legacy->submitted;
        return CUDA_SUCCESS;
    }
    unsigned count = 0;
    for (struct stream *other = context->streams; other != NULL; other = other->next) {
        count += other != stream && other->blocking && other->submitted > other->covered_by_legacy && pending(other);
    }
    if (count == 0) {
        return CUDA_SUCCESS;
    }
    command->legacy_waits = malloc(count * sizeof *command->legacy_waits);
    REQUIRE_ELSE(command->legacy_waits != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    for (struct stream *other = context->streams; other != NULL; other = other->next) {
        /* A stream may have finished since it was counted, never the other way round: submit_lock is held. */
        if (other != stream && other->blocking && other->submitted > other->covered_by_legacy && pending(other)) {
            command->legacy_waits[command->legacy_wait_count++] = (struct wait){stream_hold(other), other->submitted};
            other->covered_by_legacy = other->submitted;
        }
    }
    return CUDA_SUCCESS;
}

/* SOFTGPU_STRICT: gives an operation time to run while its caller waits, so that the host does not meet open memory.
Not for ever: a kernel may wait for something that its caller does next. */
static void
settle(struct stream *stream, uint64_t number)
{
    struct timespec until;
    if (!driver.strict || stream_reached(stream, number)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SETTLE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&stream->lock);
    while (await(stream, number) && pthread_cond_timedwait(&stream->progress, &stream->lock, &until) == 0) {
    }
    pthread_mutex_unlock(&stream->lock);
}

/* With submit_lock held. What shows mistakes in the order of operations, or makes copies take time, wants the stream's
 * own thread. */
static bool
may_run_at_once(const struct stream *stream, const struct command *command)
{
    const bool is_ordered = command->after.stream != NULL || command->legacy_wait_count > 0;
    const bool is_tested = driver.chaos || driver.unruly || driver.strict;
    if (!command->is_short || is_ordered || is_tested || driver.copy_ns > 0) {
        return false;
    }
    return !pending(stream) && !driver_exiting();
}

/* In the caller's thread, with submit_lock held: so no other command of the stream runs. Returns its number. */
static uint64_t
run_at_once(struct stream *stream, struct command *command)
{
    const uint64_t number = command->number = ++stream->submitted;
    command->run(command, stream);
    command_drop(command);
    set_completed(stream, number);
    return number;
}

CUresult
stream_submit(struct stream *stream, struct command *command, uint64_t *number_p)
{
    struct context *context = stream->context;
    uint64_t number = 0;
    bool wakes = false;
    if (capture_is_on(stream)) {
        if (number_p != NULL) {
            *number_p = 0;
        }
        return capture_take(stream, command);
    }
    CUresult result = stream == context->legacy ? capture_check_stream(stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        command_drop(command);
        return result;
    }
    pthread_mutex_lock(&context->submit_lock);
    while (stream->submitted - atomic_load(&stream->completed) >= STREAM_PENDING_LIMIT) {
        number = stream->submitted - STREAM_PENDING_LIMIT / 2;
        pthread_mutex_unlock(&context->submit_lock);
        stream_wait(stream, number);
        pthread_mutex_lock(&context->submit_lock);
    }
    result = add_implied_waits(stream, command);
    if (result == CUDA_SUCCESS && may_run_at_once(stream, command)) {
        number = run_at_once(stream, command);
        pthread_mutex_unlock(&context->submit_lock);
        if (number_p != NULL) {
            *number_p = number;
        }
        return CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&stream->lock);
        if (!stream->started && driver_thread(stream_thread, stream, "softgpu-stream")) {
            stream->started = true;
        }
        result = stream->started ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            number = command->number = ++stream->submitted;
            *stream->end = command;
            stream->end = &command->next;
            if (number_p != NULL) {
                *number_p = number;
            }
            wakes = stream->idle;
        }
        pthread_mutex_unlock(&stream->lock);
        if (result == CUDA_SUCCESS) { /* now, as a thread that lingers takes the lock at once */
            atomic_store(&stream->arrived, number);
        }
        if (wakes) { /* its thread cannot leave the context while submit_lock is held */
            pthread_cond_signal(&stream->arrival);
        }
    }
    pthread_mutex_unlock(&context->submit_lock);
    if (result != CUDA_SUCCESS) {
        command_drop(command);
        return result;
    }
    settle(stream, number);
    return CUDA_SUCCESS;
}

/* ---- waiting for a whole stream ---- */

/* For the legacy default stream: an empty command there is the barrier with all blocking streams. */
static CUresult
drain_legacy(struct stream *legacy)
{
    if (stream_idle(legacy) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    struct command *barrier = command_new(sizeof *barrier, NULL);
    REQUIRE_ELSE(barrier != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t number;
    TRY(stream_submit(legacy, barrier, &number));
    stream_wait(legacy, number);
    return CUDA_SUCCESS;
}

CUresult
stream_drain(struct stream *stream)
{
    struct context *context = stream->context;
    if (stream == context->legacy) {
        return drain_legacy(stream);
    }
    pthread_mutex_lock(&context->submit_lock);
    uint64_t number = stream->submitted;
    uint64_t legacy_number = stream->blocking ? context->legacy->submitted : 0;
    pthread_mutex_unlock(&context->submit_lock);
    stream_wait(stream, number);
    stream_wait(context->legacy, legacy_number);
    return CUDA_SUCCESS;
}

CUresult
stream_idle(struct stream *stream)
{
    struct context *context = stream->context;
    pthread_mutex_lock(&context->submit_lock);
    bool busy = pending(stream) || (stream->blocking && pending(context->legacy));
    if (stream == context->legacy) {
        for (struct stream *other = context->streams; other != NULL; other = other->next) {
            busy = busy || (other->blocking && pending(other));
        }
    }
    pthread_mutex_unlock(&context->submit_lock);
    return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* ---- life ---- */

CUresult
stream_create(struct context *context, enum stream_kind kind, unsigned flags, int priority, struct stream **stream_p)
{
    static _Atomic uint64_t last_id;
    struct stream *stream = object_take(OBJECT_STREAM, sizeof *stream);
    REQUIRE_ELSE(stream != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->arrival, NULL);
    pthread_cond_init(&stream->progress, NULL);
    atomic_store(&stream->awaited, UINT64_MAX);
    atomic_store(&stream->refs, 1); /* the context's list; the handle needs none of its own */
    stream->context = context;
    stream->id = atomic_fetch_add(&last_id, 1) + 1;
    stream->flags = flags;
    stream->priority = priority;
    stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    stream->kind = kind;
    stream->end = &stream->first;

    pthread_mutex_lock(&context->submit_lock);
    stream->next = context->streams;
    if (stream->next != NULL) {
        stream->next->previous = stream;
    }
    context->streams = stream;
    pthread_mutex_unlock(&context->submit_lock);
    atomic_store(&stream->magic, MAGIC_STREAM);
    *stream_p = stream;
    return CUDA_SUCCESS;
}

void
stream_close(struct stream *stream)
{
    capture_invalidate(stream);
    atomic_store(&stream->magic, 0);
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    bool started = stream->started;
    if (stream->idle) {
        pthread_cond_signal(&stream->arrival);
    }
    pthread_mutex_unlock(&stream->lock);
    if (!started) {
        leave_context(stream);
    }
}
