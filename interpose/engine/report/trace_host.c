/*
 * trace_host.c - see trace_host.h.
 *
 * Called by the hooks around each operation and each wait, by calls of ddprun, and by trace.c; with --trace only.
 *
 * Copies of the batch are the large ones. A copy of less than a sixteenth of the largest one, or of a few numbers, such
 * as a learning rate, counts as another call.
 *
 * A checkpoint begins with a copy of an annotated parameter or state to the host, and ends with the next call that is
 * no copy to the host and no wait: meanwhile the program writes its files. Until then hooks report every launch.
 */
#include "interpose/engine/report/trace_host.h"

#include "interpose/engine/memory/memory.h"
#include "interpose/engine/report/report.h"

#include "base/clock.h"

#include <string.h>

enum { SMALL = 16, BATCH_BYTES_LEAST = 64 };

static struct {
    pthread_mutex_t lock; /* guards all that follows it */
    pthread_t thread;     /* that has called DDP_STEP last, */
    bool has_thread;      /* if one has */
    int64_t left_ns;      /* when it returned, */
    uint64_t boundary;    /* from this DDP_STEP */
    int64_t entered_ns;   /* its open call; 0: it is in none */
    bool in_copy;         /* that is a copy of the batch */
    uint64_t launches_before;

    /* ---- of the open step ---- */
    int64_t calls_ns;        /* in calls, but for copies of the batch */
    size_t largest;          /* copy to the device, so far; 0: there was none */
    size_t elsewhere;        /* the same of other threads */
    int64_t copies_ns;       /* in copies of the batch, */
    int64_t copied_ns;       /* when the last of them was over, */
    int64_t calls_before_ns; /* and calls_ns at that time */
    CUevent begin, end;      /* around them, on the device; NULL: there are no events yet */
    bool has_begin, has_end; /* recorded */
    int64_t backward_ns;     /* when the first gradient was about to be complete; 0: it is not */
    bool saved;              /* a checkpoint was written */

    /* ---- all along ---- */
    int64_t saving_ns; /* when a checkpoint began that is not over; 0: none */
    struct host_totals totals;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool
is_stepping_thread(void)
{
    return host.has_thread && pthread_equal(host.thread, pthread_self()) != 0;
}

/* ---- checkpoints ---- */

static bool
is_copy_to_host(const struct operation *operation)
{
    return strncmp(operation->name, "cuMemcpyDtoH", strlen("cuMemcpyDtoH")) == 0;
}

/* Whether it copies an annotated parameter or state to the host. */
static bool
copies_parameter(const struct operation *operation)
{
    if (!is_copy_to_host(operation))
        return false;
    bool found = false;
    engine_lock();
    for (unsigned i = 0; i < operation->operand_count && !found; ++i) {
        const struct tensor *tensor = tensor_at(operation->operands[i].address);
        found = tensor != NULL && (tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATE);
    }
    engine_unlock();
    return found;
}

/* Returns whether one was open. */
static bool
end_saving(int64_t now_ns)
{
    if (host.saving_ns == 0)
        return false;
    host.totals.saved_ns += now_ns - host.saving_ns;
    host.saving_ns = 0;
    return true;
}

/* ---- calls ---- */

static void
enter_call(int64_t now_ns)
{
    host.entered_ns = now_ns;
    host.in_copy = false;
}

static void
leave_call(int64_t now_ns)
{
    if (host.entered_ns == 0)
        return;
    int64_t took_ns = now_ns - host.entered_ns;
    host.entered_ns = 0;
    host.totals.worked_ns = now_ns;
    if (!host.in_copy) {
        host.calls_ns += took_ns;
        return;
    }
    host.copies_ns += took_ns;
    host.copied_ns = now_ns;
    host.calls_before_ns = host.calls_ns;
}

void
trace_wait_begins(void)
{
    pthread_mutex_lock(&host.lock);
    if (is_stepping_thread())
        enter_call(clock_now_ns());
    pthread_mutex_unlock(&host.lock);
}

void
trace_call_begins(void)
{
    bool saved = false;
    pthread_mutex_lock(&host.lock);
    if (is_stepping_thread()) {
        int64_t now_ns = clock_now_ns();
        saved = end_saving(now_ns);
        enter_call(now_ns);
    }
    pthread_mutex_unlock(&host.lock);
    if (saved)
        functions_report_each(REPORT_TRACE, false);
}

void
trace_call_ends(void)
{
    pthread_mutex_lock(&host.lock);
    if (is_stepping_thread())
        leave_call(clock_now_ns());
    pthread_mutex_unlock(&host.lock);
}

/* ---- operations ---- */

/* Copies, and words that are written to memory, are none. */
static bool
is_launch(const struct operation *operation)
{
    return strncmp(operation->name, "cuMem", strlen("cuMem")) != 0 &&
           strncmp(operation->name, "cuStream", strlen("cuStream")) != 0;
}

/* The event, on the operation's stream. Whether that was possible: streams of other contexts are the program's own. */
static bool
record(CUevent event, CUstream stream)
{
    return event != NULL && atomic_load(&engine_state.captures_open) == 0 &&
           engine_state.driver.cuEventRecord_p(event, stream) == CUDA_SUCCESS;
}

/* A copy to the device, about to be enqueued: whether it is one of the batch. A copy that is much larger than all
 * before it is the first of them, and those were other calls. */
static bool
begin_copy(const struct operation *operation)
{
    bool is_first = operation->host_bytes / SMALL > host.largest || host.largest == 0;
    if (operation->host_bytes < host.largest / SMALL)
        return false;
    if (is_first) {
        host.calls_ns += host.copies_ns;
        host.copies_ns = 0;
        host.has_begin = record(host.begin, operation->stream);
    }
    host.has_end = false;
    host.largest = operation->host_bytes > host.largest ? operation->host_bytes : host.largest;
    return true;
}

static bool
is_batch_copy(const struct operation *operation)
{
    return operation->host_source != NULL && operation->host_bytes >= BATCH_BYTES_LEAST && host.backward_ns == 0;
}

void
trace_operation_begins(const struct operation *operation)
{
    bool saves = copies_parameter(operation), begins = false, ends = false;
    pthread_mutex_lock(&host.lock);
    host.totals.launches += is_launch(operation);
    if (is_stepping_thread()) {
        int64_t now_ns = clock_now_ns();
        ends = !is_copy_to_host(operation) && end_saving(now_ns);
        begins = saves && host.saving_ns == 0;
        host.saving_ns = begins ? now_ns : host.saving_ns;
        host.saved = host.saved || begins;
        enter_call(now_ns);
        host.in_copy = is_batch_copy(operation) && begin_copy(operation);
    } else if (is_batch_copy(operation) && operation->host_bytes > host.elsewhere) {
        host.elsewhere = operation->host_bytes;
    }
    pthread_mutex_unlock(&host.lock);
    if (begins || ends)
        functions_report_each(REPORT_TRACE, begins);
}

void
trace_operation_ends(const struct operation *operation, bool runs, bool touches)
{
    (void)touches;
    pthread_mutex_lock(&host.lock);
    if (is_stepping_thread()) {
        if (host.in_copy)
            host.has_end = runs && record(host.end, operation->stream);
        leave_call(clock_now_ns());
    }
    pthread_mutex_unlock(&host.lock);
}

void
trace_host_backward(void)
{
    pthread_mutex_lock(&host.lock);
    host.backward_ns = host.backward_ns == 0 ? clock_now_ns() : host.backward_ns;
    pthread_mutex_unlock(&host.lock);
}

/* ---- steps ---- */

void
host_parts_prepare(void)
{
    CUevent begin = timing_event(), end = timing_event();
    pthread_mutex_lock(&host.lock);
    ASSERT(host.begin == NULL);
    host.begin = begin;
    host.end = end;
    pthread_mutex_unlock(&host.lock);
}

/* Launches that hooks have reported, and those that touch no gradient. */
static uint64_t
count_launches(void)
{
    return host.totals.launches + __atomic_load_n(&engine_state.services->launches->count, __ATOMIC_RELAXED);
}

/* Whether the open step has been seen from its begin, and its parts can be told apart. */
static bool
has_parts(void)
{
    if (!is_stepping_thread() || host.boundary != engine_state.boundary_count || host.saved)
        return false;
    if (host.elsewhere > host.largest / SMALL)
        return false; /* the batch may be what another thread has copied */
    return host.copied_ns > 0 && host.backward_ns >= host.copied_ns;
}

static void
swap(CUevent *a, CUevent *b)
{
    CUevent kept = *a;
    *a = *b;
    *b = kept;
}

void
host_parts_take(struct host_parts *parts, CUevent *begin, CUevent *end)
{
    pthread_mutex_lock(&host.lock);
    bool saved = is_stepping_thread() && end_saving(clock_now_ns());
    *parts = (struct host_parts){.is_known = has_parts(), .launches = count_launches() - host.launches_before};
    if (parts->is_known) {
        parts->other_ns = host.calls_before_ns;
        parts->copies_ns = host.copies_ns;
        parts->loader_ns = host.copied_ns - host.left_ns - host.copies_ns - host.calls_before_ns;
        parts->forward_ns = host.backward_ns - host.copied_ns;
        parts->has_device = host.has_begin && host.has_end;
    }
    swap(&host.begin, begin);
    swap(&host.end, end);
    pthread_mutex_unlock(&host.lock);
    if (saved)
        functions_report_each(REPORT_TRACE, false);
}

void
trace_step_returns(void)
{
    pthread_mutex_lock(&host.lock);
    host.thread = pthread_self();
    host.has_thread = true;
    host.left_ns = clock_now_ns();
    host.boundary = engine_state.boundary_count;
    host.entered_ns = 0;
    host.launches_before = count_launches();
    host.calls_ns = host.copies_ns = host.copied_ns = host.calls_before_ns = host.backward_ns = 0;
    host.largest = host.elsewhere = 0;
    host.has_begin = host.has_end = host.saved = false;
    pthread_mutex_unlock(&host.lock);
}

void
host_totals_take(struct host_totals *totals)
{
    pthread_mutex_lock(&host.lock);
    *totals = host.totals;
    totals->launches = count_launches();
    if (host.saving_ns > 0)
        totals->saved_ns += clock_now_ns() - host.saving_ns;
    pthread_mutex_unlock(&host.lock);
}
