/*
 * trace.c - what happened in each step, as recorded by events on the device. docs/trace.md has the format of the lines.
 *
 * Times of a step are relative to its boundary: the event on the trainer's stream when its backward was done and it
 * began to wait. An anchor, an event on an idle stream between two looks at the host's clock, says when that was. A
 * line is written when the step's events are complete, a few steps later; of steps beyond the first thousand only some.
 * Events are recorded for each step, also for those that have no line: the next one begins with them.
 *
 * Off unless `ddprun --trace DIR`.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/report/trace_file.h"
#include "interpose/engine/report/trace_host.h"

#include "base/clock.h"

enum { STEPS_IN_FLIGHT = 16, STEPS_WRITTEN_IN_FULL = 1000, ANCHOR_TRIES = 4 };

#define ANCHOR_PERIOD_NS INT64_C(1000000000)
#define ANCHOR_GOOD_NS   INT64_C(50000)

struct bucket_trace {
    CUevent ready, begin, end; /* ready: of a bucket that is launched early */
    bool early;
    bool sent;
    uint64_t bytes;
    enum wire_path path;
    ncclDataType_t type; /* of its elements as sent */
};

/* One step whose events may not be complete. */
struct step_trace {
    uint64_t step;
    bool overlapped;
    bool control; /* a trial has it go another way than the others */
    bool used;
    bool has_begin;             /* its begin is recorded */
    bool has_backward;          /* backward is recorded; guarded by the lock */
    CUevent begin, backward;    /* of the interval; before the operation that completes its first gradient */
    CUevent boundary, released; /* around what the trainer's stream waits: measure.c's, or the step's own */
    CUevent own_boundary, own_released;
    CUevent copies_begin, copies_end; /* around copies of the batch to the device, if `host` has them */
    struct host_parts host;
    struct host_totals totals;      /* at the boundary */
    int64_t entered_ns, left_ns;    /* the host, in DDP_STEP */
    int64_t predicted_ns, bound_ns; /* negative: not known */
    uint64_t check_bytes;
    struct bucket_trace *buckets;
    size_t bucket_count;
};

/* The steps of one group; buckets[] of each are those of the plan in force. */
struct group_trace {
    struct step_trace steps[STEPS_IN_FLIGHT];
    size_t current; /* the open step; guarded by the lock, the issuer reads it without */
    uint64_t plans;
};

/* An event of known time. */
struct anchor {
    CUevent event;
    int64_t at_ns, error_ns;
};

static struct group_trace *groups[GROUPS_AT_MOST]; /* NULL: no plan so far */
static CUstream ready_stream, anchor_stream;
static struct anchor anchor;

/* ---- the device's clock ---- */

static void
make_streams(void)
{
    if (ready_stream != NULL)
        return;
    CUDA("cuStreamCreate for the trace", cuStreamCreateWithPriority, &ready_stream, CU_STREAM_NON_BLOCKING, 0);
    CUDA("cuStreamCreate for the trace", cuStreamCreateWithPriority, &anchor_stream, CU_STREAM_NON_BLOCKING, 0);
    anchor.event = timing_event();
    host_parts_prepare();
}

/* Nothing else is on its stream, so the event completes between the two looks at the clock. Where the host was busy in
 * between, once more. */
static void
renew_anchor(void)
{
    int64_t before_ns = clock_now_ns();
    if (anchor.at_ns != 0 && before_ns - anchor.at_ns < ANCHOR_PERIOD_NS)
        return;
    RELAX_CAPTURES();
    anchor.error_ns = INT64_MAX;
    for (int i = 0; i < ANCHOR_TRIES && anchor.error_ns > ANCHOR_GOOD_NS; ++i) {
        before_ns = clock_now_ns();
        CUDA("cuEventRecord of the trace", cuEventRecord, anchor.event, anchor_stream);
        CUDA("cuStreamSynchronize of the trace", cuStreamSynchronize, anchor_stream);
        int64_t after_ns = clock_now_ns();
        anchor.at_ns = before_ns + (after_ns - before_ns) / 2;
        anchor.error_ns = (after_ns - before_ns + 1) / 2;
    }
}

static double
elapsed_us(CUevent from, CUevent to)
{
    float ms = 0;
    CUDA("cuEventElapsedTime of the trace", cuEventElapsedTime, &ms, from, to);
    return (double)ms * 1000.0;
}

/* ---- lines ---- */

/* Of an all-reduce; NULL: not known. As all of the trace, the issuer's until trace_close(). */
static const struct cost *idle_cost;

void
trace_costs(const struct cost *cost)
{
    if (idle_cost == NULL && cost->count > 0)
        trace_file_write_costs(cost);
    idle_cost = cost->count > 0 ? cost : NULL;
}

/* The time of an event; another stream or thread may not have completed it: then the line is without. */
static void
add_if_complete(struct json *line, const char *name, const struct step_trace *step, CUevent event)
{
    float ms = 0;
    if (engine_state.driver.cuEventElapsedTime_p(&ms, step->boundary, event) == CUDA_SUCCESS)
        json_add_us(line, name, (double)ms * 1e3);
}

/* Nanoseconds of the begin, the end and what else is known of the step, as in the file. */
static void
add_times(struct json *line, struct step_trace *step)
{
    double anchored_us = elapsed_us(anchor.event, step->boundary);
    json_add_i64(line, "boundary_ns", anchor.at_ns + (int64_t)(anchored_us * 1e3));
    json_add_i64(line, "error_ns", anchor.error_ns);
    if (step->has_begin)
        add_if_complete(line, "interval_us", step, step->begin);
    if (step->has_backward)
        add_if_complete(line, "backward_us", step, step->backward);
    json_add_us(line, "released_us", elapsed_us(step->boundary, step->released));
    json_add_i64(line, "entered_ns", step->entered_ns);
    json_add_i64(line, "left_ns", step->left_ns);
}

/* What the program did before backward, by its calls. */
static void
add_host(struct json *line, const struct step_trace *step)
{
    const struct host_parts *host = &step->host;
    json_add_u64(line, "launches", host->launches);
    json_add_u64(line, "launches_total", step->totals.launches);
    json_add_i64(line, "saved_ns", step->totals.saved_ns);
    if (!host->is_known)
        return;
    json_add_us(line, "host_other_us", (double)host->other_ns / 1e3);
    json_add_us(line, "host_loader_us", (double)host->loader_ns / 1e3);
    json_add_us(line, "host_copies_us", (double)host->copies_ns / 1e3);
    json_add_us(line, "host_forward_us", (double)host->forward_ns / 1e3);
    if (!host->has_device)
        return;
    add_if_complete(line, "copies_begin_us", step, step->copies_begin);
    add_if_complete(line, "copies_end_us", step, step->copies_end);
}

static void
add_bucket(struct json *line, const struct step_trace *step, size_t k)
{
    const struct bucket_trace *bucket = &step->buckets[k];
    json_open(line, NULL, '{');
    json_add_u64(line, "bucket", k);
    json_add_bool(line, "early", bucket->early);
    double begin_us = elapsed_us(step->boundary, bucket->begin);
    double ready_us = bucket->early ? elapsed_us(step->boundary, bucket->ready) : 0;
    if (bucket->early) /* two streams have waited for the same, and each may have been late to see it */
        json_add_us(line, "ready_us", ready_us < begin_us ? ready_us : begin_us);
    json_add_us(line, "begin_us", begin_us);
    json_add_us(line, "end_us", elapsed_us(step->boundary, bucket->end));
    if (step->predicted_ns >= 0 && idle_cost != NULL)
        json_add_us(line, "idle_us", (double)cost_fs(idle_cost, bucket->bytes) / (1e3 * COST_FS_PER_NS));
    json_add_u64(line, "bytes", bucket->bytes);
    json_add_text(line, "path", wire_path_name(bucket->path));
    json_add_text(line, "type", wire_type_name(bucket->type));
    json_close(line, '}');
}

static void
write_step(struct step_trace *step, int group)
{
    struct json *line = trace_file_begin();
    json_add_u64(line, "step", step->step);
    json_add_bool(line, "overlapped", step->overlapped);
    json_add_i64(line, "group", group);
    if (step->control)
        json_add_bool(line, "control", true);
    add_times(line, step);
    if (step->predicted_ns >= 0) {
        json_add_us(line, "predicted_us", (double)step->predicted_ns / 1e3);
        json_add_us(line, "bound_us", (double)step->bound_ns / 1e3);
    }
    json_add_u64(line, "check_bytes", step->check_bytes);
    add_host(line, step);
    json_open(line, "buckets", '[');
    for (size_t k = 0; k < step->bucket_count; ++k) {
        if (step->buckets[k].sent)
            add_bucket(line, step, k);
    }
    json_close(line, ']');
    trace_file_write(line);
}

/* The first thousand, then 900 of each power of ten. */
static bool
is_written(uint64_t step)
{
    uint64_t every = 1;
    for (uint64_t end = STEPS_WRITTEN_IN_FULL; step > end && end <= UINT64_MAX / 10; end *= 10)
        every *= 10;
    return step % every == 0;
}

static bool
is_complete(const struct step_trace *step)
{
    const struct driver *driver = &engine_state.driver;
    bool complete = driver->cuEventQuery_p(step->released) == CUDA_SUCCESS;
    for (size_t k = 0; k < step->bucket_count && complete; ++k) {
        const struct bucket_trace *bucket = &step->buckets[k];
        complete = !bucket->sent || (driver->cuEventQuery_p(bucket->end) == CUDA_SUCCESS &&
                                     (!bucket->early || driver->cuEventQuery_p(bucket->ready) == CUDA_SUCCESS));
    }
    return complete;
}

/* Writes every finished step of the group whose events are complete, oldest first. The current one, last in order, may
 * not be finished. */
static void
write_complete(int group)
{
    struct group_trace *trace = groups[group];
    for (size_t i = 1; i <= STEPS_IN_FLIGHT; ++i) {
        struct step_trace *step = &trace->steps[(trace->current + i) % STEPS_IN_FLIGHT];
        if (!step->used)
            continue;
        if (!is_complete(step))
            return;
        if (is_written(step->step))
            write_step(step, group);
        step->used = false;
    }
}

static void
wait_for(const struct step_trace *step)
{
    RELAX_CAPTURES();
    CUDA("cuEventSynchronize of the trace", cuEventSynchronize, step->released);
    CUDA("cuStreamSynchronize of the trace", cuStreamSynchronize, ready_stream);
}

static void
write_all(int group) BY_ISSUER
{
    const struct step_trace *current = &groups[group]->steps[groups[group]->current];
    if (current->used)
        wait_for(current);
    streams_wait_for_buckets();
    write_complete(group);
}

/* ---- events ---- */

static void
free_events(struct step_trace *step)
{
    const struct driver *driver = &engine_state.driver;
    CUevent own[] = {step->begin,        step->backward,     step->own_boundary,
                     step->own_released, step->copies_begin, step->copies_end};
    for (size_t k = 0; k < step->bucket_count; ++k) {
        (void)driver->cuEventDestroy_p(step->buckets[k].ready);
        (void)driver->cuEventDestroy_p(step->buckets[k].begin);
        (void)driver->cuEventDestroy_p(step->buckets[k].end);
    }
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); ++i) {
        if (own[i] != NULL)
            (void)driver->cuEventDestroy_p(own[i]);
    }
    free(step->buckets);
    *step = (struct step_trace){0};
}

/* Events for buckets that the step has none for. */
static void
add_buckets(struct step_trace *step, size_t bucket_count)
{
    if (step->buckets != NULL && bucket_count <= step->bucket_count)
        return;
    step->buckets = engine_realloc(step->buckets, (bucket_count + 1) * sizeof(step->buckets[0]));
    for (; step->bucket_count < bucket_count; ++step->bucket_count)
        step->buckets[step->bucket_count] = (struct bucket_trace){timing_event(), timing_event(), timing_event()};
}

static void
make_events(struct step_trace *step, size_t bucket_count)
{
    add_buckets(step, bucket_count);
    step->begin = timing_event();
    step->backward = timing_event();
    step->own_boundary = timing_event();
    step->own_released = timing_event();
    step->copies_begin = timing_event();
    step->copies_end = timing_event();
}

/* While there is none, no touch is followed. */
static void
set_trace(const struct group *group, struct group_trace *trace) BY_ISSUER
{
    issuer_lock();
    groups[group->id] = trace;
    issuer_unlock();
}

void
trace_make_room(const struct group *group, size_t bucket_count)
{
    struct group_trace *trace = groups[group->id];
    if (trace == NULL)
        return;
    set_trace(group, NULL);
    for (size_t i = 0; i < STEPS_IN_FLIGHT; ++i)
        add_buckets(&trace->steps[i], bucket_count);
    set_trace(group, trace);
}

void
trace_plan(const struct group *group)
{
    struct group_trace *trace = groups[group->id];
    if (trace == NULL)
        trace = engine_calloc(1, sizeof(*trace));
    make_streams();
    renew_anchor();
    if (groups[group->id] != NULL)
        write_all(group->id); /* the step that ends with a new plan, too */
    set_trace(group, NULL);
    for (size_t i = 0; i < STEPS_IN_FLIGHT; ++i) {
        free_events(&trace->steps[i]);
        make_events(&trace->steps[i], group->plan->bucket_count);
    }
    trace_file_write_plan(group, ++trace->plans);
    set_trace(group, trace);
}

/* ---- a step ---- */

static struct step_trace *
current_step(const struct group *group)
{
    return &groups[group->id]->steps[groups[group->id]->current];
}

static void
trace_record(CUevent event, CUstream stream)
{
    stream_record(stream, event, "cuEventRecord of the trace");
}

void
trace_completes(const struct group *group, CUstream stream)
{
    CUevent backward = NULL;
    engine_lock();
    struct group_trace *trace = groups[group->id];
    struct step_trace *step = trace != NULL ? &trace->steps[trace->current] : NULL;
    if (step != NULL && !step->has_backward) {
        backward = step->backward;
        step->has_backward = true;
    }
    engine_unlock();
    if (backward == NULL)
        return;
    trace_host_backward();
    trace_record(backward, stream);
}

void
trace_bucket_ready(const struct group *group, size_t bucket, uint64_t streams)
{
    CUstream producer = ready_stream;
    if (!streams_is_one(streams, &producer)) {
        producer = ready_stream;
        streams_wait_for_producers(streams, ready_stream);
    }
    trace_record(current_step(group)->buckets[bucket].ready, producer);
}

void
trace_bucket_begin(const struct group *group, size_t bucket, bool early)
{
    struct bucket_trace *of = &current_step(group)->buckets[bucket];
    of->early = early;
    const struct bucket_wire *wire = group_wire(group, bucket);
    const struct plan_bucket *planned = &group->plan->buckets[bucket];
    of->bytes =
        wire_sent_bytes(&engine_state.collectives.setting, type_nccl(escape_bucket_type(planned)), planned->bytes);
    of->path = wire->path;
    of->type = wire->type;
    trace_record(of->begin, first_stream());
}

void
trace_bucket_end(const struct group *group, size_t bucket, bool early)
{
    (void)early;
    struct bucket_trace *of = &current_step(group)->buckets[bucket];
    of->sent = true;
    trace_record(of->end, first_stream());
}

/* A host may lose its core between two records: two events there would mean two times. */
static CUevent
measured_or_own(CUevent measured, CUevent own, CUstream stream)
{
    if (measured == NULL)
        trace_record(own, stream);
    return measured != NULL ? measured : own;
}

void
trace_boundary(const struct group *group, CUstream stream, CUevent measured, int64_t promised_ns, int64_t bound_ns)
{
    struct step_trace *step = current_step(group);
    step->boundary = measured_or_own(measured, step->own_boundary, stream);
    step->entered_ns = clock_now_ns();
    step->step = engine_state.boundary_count + 1;
    step->overlapped = group_speculates(group);
    step->control = group->control;
    step->predicted_ns = promised_ns;
    step->bound_ns = bound_ns;
    host_parts_take(&step->host, &step->copies_begin, &step->copies_end);
    host_totals_take(&step->totals);
}

void
trace_released(const struct group *group, CUstream stream, CUevent measured)
{
    struct step_trace *step = current_step(group);
    step->released = measured_or_own(measured, step->own_released, stream);
    step->left_ns = clock_now_ns();
    step->used = true;
}

void
trace_captured_step(int group, const struct shipment *shipment, uint64_t number, bool overlaps)
{
    if (!is_written(engine_state.boundary_count))
        return;
    struct json *line = trace_file_begin();
    json_add_u64(line, "step", engine_state.boundary_count);
    json_add_bool(line, "overlapped", overlaps);
    json_add_i64(line, "group", group);
    json_add_u64(line, "graph", number);
    json_add_i64(line, "entered_ns", clock_now_ns());
    json_open(line, "buckets", '[');
    for (size_t k = 0; k < shipment->wire_count; ++k) {
        json_open(line, NULL, '{');
        json_add_u64(line, "bucket", k);
        json_add_text(line, "path", wire_path_name(shipment->wires[k].path));
        json_add_text(line, "type", wire_type_name(shipment->wires[k].type));
        json_close(line, '}');
    }
    json_close(line, ']');
    trace_file_write(line);
}

void
trace_checked(const struct group *group, uint64_t bytes)
{
    current_step(group)->check_bytes = bytes;
}

static void
begin_interval(struct group_trace *trace, size_t next, CUstream stream) BY_ISSUER
{
    struct step_trace *step = &trace->steps[next];
    issuer_lock();
    trace->current = next;
    step->has_backward = false;
    issuer_unlock();
    step->has_begin = true;
    trace_record(step->begin, stream);
    for (size_t k = 0; k < step->bucket_count; ++k)
        step->buckets[k].sent = false;
}

void
trace_step_end(const struct group *group, CUstream stream)
{
    struct group_trace *trace = groups[group->id];
    current_step(group)->left_ns = clock_now_ns();
    size_t next = (trace->current + 1) % STEPS_IN_FLIGHT;
    if (trace->steps[next].used) { /* too far ahead */
        wait_for(&trace->steps[next]);
        write_complete(group->id);
    }
    begin_interval(trace, next, stream);
    renew_anchor();
    write_complete(group->id);
    trace_file_write_exchanges();
}

void
trace_reduce(uint64_t number, const char *text, uint64_t bytes)
{
    struct json *line = trace_file_begin();
    json_add_u64(line, "reduce", number);
    json_add_u64(line, "after_step", engine_state.boundary_count);
    json_add_i64(line, "at_ns", clock_now_ns());
    json_add_text(line, "call", text);
    json_add_u64(line, "bytes", bytes);
    trace_file_write(line);
}

void
trace_close(void)
{
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (groups[g] != NULL)
            write_complete(g);
    }
    trace_file_close();
}
