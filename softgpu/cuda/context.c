/*
 * context.c - contexts, and what a thread has of them: its stack of current ones, its own default streams. And the
 * error that a context never gets rid of.
 *
 * Called by: every API function, through context_enter() and stream_enter(). The API's own calls on contexts are in
 * primary.c (each device's one), context_api.c (created ones, and which is current) and setting.c.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* A per-thread default stream belongs to one context; few threads use more than one. */
struct thread_stream {
    struct thread_stream *next;
    struct stream *stream;
    uint64_t stream_id; /* tells whether the stream is still that one */
};

struct thread_state {
    struct context *stack[CONTEXT_STACK_LIMIT];
    unsigned depth;
    struct thread_stream *streams;
};

static _Thread_local struct thread_state thread;

/* ---- threads that end ---- */

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

static bool
entry_lives(const struct thread_stream *entry)
{
    return atomic_load(&entry->stream->magic) == MAGIC_STREAM && entry->stream->id == entry->stream_id;
}

static void
on_thread_end(void *list)
{
    for (struct thread_stream *entry = list; entry != NULL;) {
        struct thread_stream *next = entry->next;
        if (driver_enter() == CUDA_SUCCESS && entry_lives(entry)) {
            stream_close(entry->stream);
        }
        free(entry);
        entry = next;
    }
    thread.streams = NULL;
}

static void
make_thread_key(void)
{
    if (pthread_key_create(&thread_key, on_thread_end) != 0) {
        say("no key for per-thread default streams: they live on after their threads");
    }
}

static CUresult
per_thread_stream(struct context *context, struct stream **stream_p)
{
    for (struct thread_stream *entry = thread.streams; entry != NULL; entry = entry->next) {
        if (entry_lives(entry) && entry->stream->context == context) {
            *stream_p = entry->stream;
            return CUDA_SUCCESS;
        }
    }
    struct thread_stream *entry = malloc(sizeof *entry);
    REQUIRE_ELSE(entry != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult result = stream_create(context, STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0, &entry->stream);
    if (result != CUDA_SUCCESS) {
        free(entry);
        return result;
    }
    entry->stream_id = entry->stream->id;
    entry->next = thread.streams;
    thread.streams = entry;
    pthread_once(&thread_key_once, make_thread_key);
    pthread_setspecific(thread_key, entry);
    *stream_p = entry->stream;
    return CUDA_SUCCESS;
}

/* ---- making contexts ---- */

CUresult
context_create(CUdevice device, unsigned flags, bool is_primary, struct context **context_p)
{
    static _Atomic uint64_t last_id;
    struct context *context = object_take(OBJECT_CONTEXT, sizeof *context);
    REQUIRE_ELSE(context != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    context->device = device;
    context->primary = is_primary;
    context->id = atomic_fetch_add(&last_id, 1) + 1;
    atomic_store(&context->flags, flags);
    atomic_store(&context->dynamic_limits[CU_LIMIT_STACK_SIZE], 1024);
    atomic_store(&context->dynamic_limits[CU_LIMIT_PRINTF_FIFO_SIZE], 1 << 20);
    atomic_store(&context->dynamic_limits[CU_LIMIT_MALLOC_HEAP_SIZE], 8 << 20);
    atomic_store(&context->dynamic_limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY], 64);
    pthread_mutex_init(&context->submit_lock, NULL);
    CUresult result = stream_create(context, STREAM_LEGACY, CU_STREAM_DEFAULT, 0, &context->legacy);
    if (result != CUDA_SUCCESS) {
        pthread_mutex_destroy(&context->submit_lock);
        object_give(OBJECT_CONTEXT, context);
        return result;
    }
    atomic_store(&context->magic, MAGIC_CONTEXT);
    *context_p = context;
    return CUDA_SUCCESS;
}

CUresult
context_from_handle(CUcontext handle, struct context **context_p)
{
    struct context *context = (struct context *)handle;
    REQUIRE_ELSE(context != NULL, CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE_ELSE(atomic_load(&context->magic) == MAGIC_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    *context_p = context;
    return CUDA_SUCCESS;
}

/* ---- entering ---- */

struct context *
context_current(void)
{
    return thread.depth > 0 ? thread.stack[thread.depth - 1] : NULL;
}

CUresult
context_push(struct context *context)
{
    REQUIRE(thread.depth != CONTEXT_STACK_LIMIT);
    thread.stack[thread.depth++] = context;
    return CUDA_SUCCESS;
}

struct context *
context_pop(void)
{
    return thread.depth > 0 ? thread.stack[--thread.depth] : NULL;
}

CUresult
context_enter(struct context **context_p)
{
    TRY(driver_enter());
    struct context *context = context_current();
    REQUIRE_ELSE(context != NULL, CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE_ELSE(atomic_load_explicit(&context->magic, memory_order_acquire) == MAGIC_CONTEXT,
                 CUDA_ERROR_CONTEXT_IS_DESTROYED);
    TRY((CUresult)atomic_load_explicit(&context->failure, memory_order_acquire));
    *context_p = context;
    return CUDA_SUCCESS;
}

void
context_fail(struct context *context, CUresult failure, const char *what)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (atomic_load(&context->failure) == CUDA_SUCCESS) {
        say("%s; every further call on this device returns error %d", what, (int)failure);
        atomic_store(&context->failure, (int)failure); /* only now: a program may end when it sees the failure */
    }
    pthread_mutex_unlock(&lock);
}

CUresult
stream_enter(CUstream handle, enum flavour flavour, struct stream **stream_p)
{
    struct context *context;
    TRY(context_enter(&context));
    if (handle == NULL) {
        handle = flavour == LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    }
    if (handle == CU_STREAM_LEGACY) {
        *stream_p = context->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        return per_thread_stream(context, stream_p);
    }
    struct stream *stream = (struct stream *)handle;
    REQUIRE_ELSE(atomic_load_explicit(&stream->magic, memory_order_acquire) == MAGIC_STREAM, CUDA_ERROR_INVALID_HANDLE);
    TRY((CUresult)atomic_load(&stream->context->failure));
    *stream_p = stream;
    return CUDA_SUCCESS;
}

CUresult
context_drain(struct context *context)
{
    pthread_mutex_lock(&context->submit_lock);
    unsigned count = 0;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next) {
        ++count;
    }
    struct wait *waits = malloc((count + 1) * sizeof *waits);
    unsigned used = 0;
    for (struct stream *stream = context->streams; waits != NULL && stream != NULL; stream = stream->next) {
        if (!stream_reached(stream, stream->submitted)) {
            waits[used++] = (struct wait){stream_hold(stream), stream->submitted};
        }
    }
    pthread_mutex_unlock(&context->submit_lock);
    REQUIRE_ELSE(waits != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < used; ++i) {
        stream_wait(waits[i].stream, waits[i].number);
        stream_release(waits[i].stream);
    }
    free(waits);
    return (CUresult)atomic_load(&context->failure);
}

/* Closes the created streams, if asked the default ones too. They are collected first: closing changes the list. */
static CUresult
close_streams(struct context *context, bool with_defaults)
{
    pthread_mutex_lock(&context->submit_lock);
    size_t count = 0;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next) {
        ++count;
    }
    struct stream **closing = malloc((count + 1) * sizeof(struct stream *));
    count = 0;
    for (struct stream *stream = context->streams; closing != NULL && stream != NULL; stream = stream->next) {
        if (atomic_load(&stream->magic) == MAGIC_STREAM && (with_defaults || stream->kind == STREAM_CREATED)) {
            closing[count++] = stream_hold(stream);
        }
    }
    pthread_mutex_unlock(&context->submit_lock);
    REQUIRE_ELSE(closing != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; ++i) {
        stream_close(closing[i]);
        stream_release(closing[i]);
    }
    free(closing);
    return CUDA_SUCCESS;
}

CUresult
context_empty(struct context *context, bool with_defaults)
{
    CUresult drained = context_drain(context);
    CUresult closed = close_streams(context, with_defaults);
    memory_free_all(context);
    return drained != CUDA_SUCCESS ? drained : closed;
}

CUresult
context_enter_handle(CUcontext handle, struct context **context_p)
{
    if (handle == NULL) {
        return context_enter(context_p);
    }
    CUresult result = driver_enter();
    return result == CUDA_SUCCESS ? context_from_handle(handle, context_p) : result;
}
