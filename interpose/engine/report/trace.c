/*
 * trace.c - what happened in each step, as recorded by events on the device: one line of JSON for each, in
 * rank-N.jsonl.
 *
 *   {"step": 7, "overlapped": true, "group": 0, "exposed_us": 214.0, "predicted_us": 201.5, "bound_us": 180.0,
 *    "busy_factor": 1.25, "check_bytes": 1200, "buckets": [{"bucket": 0, "early": true, "begin_us": -412.0,
 *    "end_us": -101.5, "idle_us": 240.0, "busy_us": 300.0, "path": "kernels", "type": "float32", "communicator": 0},
 *    ...]}
 *
 * A step in a CUDA graph, "graph" being its number, has no times: its line is written when the graph is launched.
 *
 * A call of DDP_REDUCE has a line of its own, without times: {"reduce": 3, "after_step": 7, "call": "DDP_REDUCE
 * (main.c:50), 160 int64, sum", "bytes": 1280}.
 *
 * path: "in place", or how the bucket was packed: by "kernels" or by "copies". type: of its elements as sent.
 * Times are relative to the boundary: the event on the trainer's stream when its backward was done and it began to
 * wait. A bucket with a negative begin_us was on its way while backward still ran. exposed_us is when the last bucket
 * was done; beside it, once the plan is a measured one, what that promised and the least that any buckets could, and
 * how many times as long as on an idle device an all-reduce takes beside backward. idle_us and busy_us: what a bucket
 * costs by itself, as measured at the start, and beside backward, as its own times say.
 * check_bytes: what checks copied to the host since the step before. Off unless `ddprun --trace DIR`; a line is written
 * when its events are complete, a few steps later.
 */
#include "interpose/engine/report/report.h"

#include <json-c/json.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_IN_FLIGHT = 16 };

struct bucket_trace {
    CUevent begin, end;
    bool early;
    bool sent;
    unsigned communicator;
    uint64_t bytes;
    enum wire_path path;
    ncclDataType_t type; /* of its elements as sent */
};

/* One step whose events may not be complete. */
struct step_trace {
    uint64_t step;
    bool overlapped;
    bool used;
    CUevent boundary;
    int64_t predicted_ns, bound_ns; /* negative: not known */
    unsigned busy_factor;           /* thousandths, with them */
    uint64_t check_bytes;
    struct bucket_trace *buckets;
    size_t bucket_count;
};

/* The steps of one group; buckets[] of each are those of the plan in force. */
struct group_trace {
    struct step_trace steps[STEPS_IN_FLIGHT];
    size_t current; /* the open step */
};

static FILE *file;
static struct group_trace *groups[GROUPS_AT_MOST]; /* NULL: no plan so far */

void
trace_open(void)
{
    if (engine_state.options.trace_dir == NULL)
        return;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/rank-%d.jsonl", engine_state.options.trace_dir, engine_state.rendezvous.rank);
    bool again = engine_state.rendezvous.generation > 0 || getenv(DDPRUN_ENV_RESTART) != NULL;
    file = fopen(path, again ? "ae" : "we"); /* what this job has written before stays */
    if (file == NULL)
        stop_job("cannot write the trace %s: %s", path, strerror(errno));
    (void)setvbuf(file, NULL, _IOLBF, BUFSIZ); /* whole steps, as they end: a rank that is killed has written them */
}

static double
elapsed_us(CUevent from, CUevent to)
{
    float ms = 0;
    require_cuda(engine_state.driver.cuEventElapsedTime_p(&ms, from, to), "cuEventElapsedTime of the trace");
    return (double)ms * 1000.0;
}

/* When the step's last bucket was done, or 0 if that was before the boundary. */
static double
exposed_us(const struct step_trace *step)
{
    double latest = 0.0;
    for (size_t k = 0; k < step->bucket_count; ++k) {
        double end = step->buckets[k].sent ? elapsed_us(step->boundary, step->buckets[k].end) : 0.0;
        latest = end > latest ? end : latest;
    }
    return latest;
}

/* Of an all-reduce; NULL: not known. As all of the trace, the issuer's until trace_close(). */
static const struct cost *idle_cost;

void
trace_costs(const struct cost *cost)
{
    idle_cost = cost;
}

static void
add_costs(json_object *entry, uint64_t bytes, unsigned busy_factor)
{
    if (idle_cost == NULL || idle_cost->count == 0)
        return;
    double idle_us = (double)cost_fs(idle_cost, bytes) / (1e3 * COST_FS_PER_NS);
    json_object_object_add(entry, "idle_us", json_object_new_double(idle_us));
    json_object_object_add(entry, "busy_us", json_object_new_double(idle_us * busy_factor / 1e3));
}

static void
write_step(struct step_trace *step, int group)
{
    json_object *line = json_object_new_object(), *buckets = json_object_new_array();
    json_object_object_add(line, "step", json_object_new_uint64(step->step));
    json_object_object_add(line, "overlapped", json_object_new_boolean(step->overlapped));
    json_object_object_add(line, "group", json_object_new_int(group));
    json_object_object_add(line, "exposed_us", json_object_new_double(exposed_us(step)));
    if (step->predicted_ns >= 0) {
        json_object_object_add(line, "predicted_us", json_object_new_double((double)step->predicted_ns / 1e3));
        json_object_object_add(line, "bound_us", json_object_new_double((double)step->bound_ns / 1e3));
        json_object_object_add(line, "busy_factor", json_object_new_double((double)step->busy_factor / 1e3));
    }
    json_object_object_add(line, "check_bytes", json_object_new_uint64(step->check_bytes));
    for (size_t k = 0; k < step->bucket_count; ++k) {
        const struct bucket_trace *bucket = &step->buckets[k];
        if (!bucket->sent)
            continue;
        json_object *entry = json_object_new_object();
        json_object_object_add(entry, "bucket", json_object_new_uint64(k));
        json_object_object_add(entry, "early", json_object_new_boolean(bucket->early));
        json_object_object_add(entry, "begin_us", json_object_new_double(elapsed_us(step->boundary, bucket->begin)));
        json_object_object_add(entry, "end_us", json_object_new_double(elapsed_us(step->boundary, bucket->end)));
        if (step->predicted_ns >= 0)
            add_costs(entry, bucket->bytes, step->busy_factor);
        json_object_object_add(entry, "path", json_object_new_string(wire_path_name(bucket->path)));
        json_object_object_add(entry, "type", json_object_new_string(wire_type_name(bucket->type)));
        json_object_object_add(entry, "communicator", json_object_new_uint64(bucket->communicator));
        json_object_array_add(buckets, entry);
    }
    json_object_object_add(line, "buckets", buckets);
    fprintf(file, "%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
    json_object_put(line);
    step->used = false;
}

static bool
is_complete(const struct step_trace *step)
{
    bool complete = engine_state.driver.cuEventQuery_p(step->boundary) == CUDA_SUCCESS;
    for (size_t k = 0; k < step->bucket_count && complete; ++k)
        complete = !step->buckets[k].sent || engine_state.driver.cuEventQuery_p(step->buckets[k].end) == CUDA_SUCCESS;
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
        write_step(step, group);
    }
}

static void
free_events(struct step_trace *step)
{
    for (size_t k = 0; k < step->bucket_count; ++k) {
        (void)engine_state.driver.cuEventDestroy_p(step->buckets[k].begin);
        (void)engine_state.driver.cuEventDestroy_p(step->buckets[k].end);
    }
    if (step->boundary != NULL)
        (void)engine_state.driver.cuEventDestroy_p(step->boundary);
    free(step->buckets);
    *step = (struct step_trace){0};
}

static CUevent
timing_event(void)
{
    CUevent event;
    require_cuda(engine_state.driver.cuEventCreate_p(&event, CU_EVENT_DEFAULT), "cuEventCreate for the trace");
    return event;
}

void
trace_plan(const struct group *group)
{
    if (file == NULL)
        return;
    struct group_trace *trace = groups[group->id];
    if (trace == NULL)
        trace = groups[group->id] = calloc(1, sizeof(*trace));
    if (trace == NULL)
        stop_job("out of memory");
    streams_wait_for_buckets(); /* and so for the boundaries, which buckets have waited for */
    write_complete(group->id);  /* the step that ends with a new plan, too */
    for (size_t i = 0; i < STEPS_IN_FLIGHT; ++i) {
        struct step_trace *step = &trace->steps[i];
        free_events(step);
        step->bucket_count = group->plan->bucket_count;
        step->buckets = calloc(step->bucket_count + 1, sizeof(step->buckets[0]));
        if (step->buckets == NULL)
            stop_job("out of memory");
        step->boundary = timing_event();
        for (size_t k = 0; k < step->bucket_count; ++k) {
            step->buckets[k].begin = timing_event();
            step->buckets[k].end = timing_event();
        }
    }
}

static struct step_trace *
current_step(const struct group *group)
{
    return &groups[group->id]->steps[groups[group->id]->current];
}

void
trace_bucket_begin(const struct group *group, size_t bucket, bool early)
{
    if (file == NULL)
        return;
    struct bucket_trace *of = &current_step(group)->buckets[bucket];
    of->early = early;
    of->communicator = collectives_communicator_of(&engine_state.collectives, bucket);
    of->bytes = group->plan->buckets[bucket].bytes;
    of->path = group->shipment.wires[bucket].path;
    of->type = group->shipment.wires[bucket].type;
    require_cuda(
        engine_state.driver.cuEventRecord_p(of->begin, collectives_stream_of(&engine_state.collectives, bucket)),
        "cuEventRecord of the trace");
}

void
trace_bucket_end(const struct group *group, size_t bucket)
{
    if (file == NULL)
        return;
    struct bucket_trace *of = &current_step(group)->buckets[bucket];
    of->sent = true;
    require_cuda(engine_state.driver.cuEventRecord_p(of->end, collectives_stream_of(&engine_state.collectives, bucket)),
                 "cuEventRecord of the trace");
}

void
trace_boundary(const struct group *group, CUstream stream, int64_t promised_ns, int64_t bound_ns)
{
    if (file == NULL)
        return;
    struct step_trace *step = current_step(group);
    stream_record(stream, step->boundary, "cuEventRecord of the trace");
    step->step = engine_state.boundary_count + 1;
    step->overlapped = group->overlapping;
    step->predicted_ns = promised_ns;
    step->bound_ns = bound_ns;
    step->busy_factor = group->busy_factor;
}

void
trace_captured_step(int group, const struct shipment *shipment, uint64_t number, bool overlaps)
{
    if (file == NULL)
        return;
    json_object *line = json_object_new_object(), *buckets = json_object_new_array();
    json_object_object_add(line, "step", json_object_new_uint64(engine_state.boundary_count));
    json_object_object_add(line, "overlapped", json_object_new_boolean(overlaps));
    json_object_object_add(line, "group", json_object_new_int(group));
    json_object_object_add(line, "graph", json_object_new_uint64(number));
    for (size_t k = 0; k < shipment->wire_count; ++k) {
        json_object *entry = json_object_new_object();
        json_object_object_add(entry, "bucket", json_object_new_uint64(k));
        json_object_object_add(entry, "path", json_object_new_string(wire_path_name(shipment->wires[k].path)));
        json_object_object_add(entry, "type", json_object_new_string(wire_type_name(shipment->wires[k].type)));
        json_object_object_add(entry, "communicator",
                               json_object_new_uint64(collectives_communicator_of(&engine_state.collectives, k)));
        json_object_array_add(buckets, entry);
    }
    json_object_object_add(line, "buckets", buckets);
    fprintf(file, "%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
    json_object_put(line);
}

void
trace_sent(const struct group *group)
{
    if (file != NULL)
        current_step(group)->used = true;
}

void
trace_checked(const struct group *group, uint64_t bytes)
{
    if (file != NULL)
        current_step(group)->check_bytes = bytes;
}

void
trace_step_end(const struct group *group)
{
    if (file == NULL)
        return;
    struct group_trace *trace = groups[group->id];
    size_t next = (trace->current + 1) % STEPS_IN_FLIGHT;
    if (trace->steps[next].used) { /* too far ahead: wait for the oldest */
        streams_wait_for_buckets();
        write_complete(group->id);
    }
    trace->current = next;
    write_complete(group->id);
    for (size_t k = 0; k < trace->steps[next].bucket_count; ++k)
        trace->steps[next].buckets[k].sent = false;
}

void
trace_reduce(uint64_t number, const char *text, uint64_t bytes)
{
    if (file == NULL)
        return;
    json_object *line = json_object_new_object();
    json_object_object_add(line, "reduce", json_object_new_uint64(number));
    json_object_object_add(line, "after_step", json_object_new_uint64(engine_state.boundary_count));
    json_object_object_add(line, "call", json_object_new_string(text));
    json_object_object_add(line, "bytes", json_object_new_uint64(bytes));
    fprintf(file, "%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
    json_object_put(line);
}

void
trace_close(void)
{
    if (file == NULL)
        return;
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (groups[g] != NULL)
            write_complete(g);
    }
    fclose(file);
    file = NULL;
}
