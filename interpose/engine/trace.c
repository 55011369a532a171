/*
 * trace.c - what happened in each step, as recorded by events on the device: one line of JSON for each, in
 * rank-N.jsonl.
 *
 *   {"step": 7, "overlapped": true, "buckets": [{"bucket": 0, "early": true, "begin_us": -412.0, "end_us": -101.5,
 *    "path": "kernels", "type": "float32", "communicator": 0}, ...]}
 *
 * path: "in place", or how the bucket was packed: by "kernels" or by "copies". type: as what it travelled.
 * Times are relative to the boundary: the event on the trainer's stream when its backward was done and it began to
 * wait. A bucket with a negative begin_us was on its way while backward still ran. Off unless `ddprun --trace DIR`; a
 * line is written when its events are complete, a few steps later.
 */
#include "interpose/engine/state.h"

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
    enum wire_path path;
    ncclDataType_t type; /* as which it travelled */
};

/* One step whose events may not be complete. */
struct step_trace {
    uint64_t step;
    bool overlapped;
    bool used;
    CUevent boundary;
    struct bucket_trace *buckets;
    size_t bucket_count;
};

static FILE *file;
static struct step_trace steps[STEPS_IN_FLIGHT];
static struct step_trace *current = &steps[0];

void
trace_open(void)
{
    if (engine_state.options.trace_dir == NULL)
        return;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/rank-%d.jsonl", engine_state.options.trace_dir, engine_state.rendezvous.rank);
    file = fopen(path, "we");
    if (file == NULL)
        stop_job("cannot write the trace %s: %s", path, strerror(errno));
}

static double
elapsed_us(CUevent from, CUevent to)
{
    float ms = 0;
    require_cuda(engine_state.driver.cuEventElapsedTime_p(&ms, from, to), "cuEventElapsedTime of the trace");
    return (double)ms * 1000.0;
}

static void
write_step(struct step_trace *step)
{
    json_object *line = json_object_new_object(), *buckets = json_object_new_array();
    json_object_object_add(line, "step", json_object_new_uint64(step->step));
    json_object_object_add(line, "overlapped", json_object_new_boolean(step->overlapped));
    for (size_t k = 0; k < step->bucket_count; ++k) {
        const struct bucket_trace *bucket = &step->buckets[k];
        if (!bucket->sent)
            continue;
        json_object *entry = json_object_new_object();
        json_object_object_add(entry, "bucket", json_object_new_uint64(k));
        json_object_object_add(entry, "early", json_object_new_boolean(bucket->early));
        json_object_object_add(entry, "begin_us", json_object_new_double(elapsed_us(step->boundary, bucket->begin)));
        json_object_object_add(entry, "end_us", json_object_new_double(elapsed_us(step->boundary, bucket->end)));
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

/* Writes every finished step whose events are complete, oldest first. The current one, last in order, may not be
 * finished. */
static void
write_complete(void)
{
    for (size_t i = 1; i <= STEPS_IN_FLIGHT; ++i) {
        struct step_trace *step = &steps[((size_t)(current - steps) + i) % STEPS_IN_FLIGHT];
        if (!step->used)
            continue;
        bool complete = engine_state.driver.cuEventQuery_p(step->boundary) == CUDA_SUCCESS;
        for (size_t k = 0; k < step->bucket_count && complete; ++k)
            complete =
                !step->buckets[k].sent || engine_state.driver.cuEventQuery_p(step->buckets[k].end) == CUDA_SUCCESS;
        if (!complete)
            return;
        write_step(step);
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
trace_plan(void)
{
    if (file == NULL)
        return;
    issue_wait_for_buckets(); /* and so for the boundaries, which buckets have waited for */
    write_complete();         /* the step that ends with a new plan, too */
    for (size_t i = 0; i < STEPS_IN_FLIGHT; ++i) {
        struct step_trace *step = &steps[i];
        free_events(step);
        step->bucket_count = engine_state.plan->bucket_count;
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

void
trace_bucket_begin(size_t bucket, bool early)
{
    if (file == NULL)
        return;
    struct bucket_trace *trace = &current->buckets[bucket];
    trace->early = early;
    trace->communicator = collectives_communicator_of(&engine_state.collectives, bucket);
    trace->path = engine_state.wires[bucket].path;
    trace->type = engine_state.wires[bucket].type;
    require_cuda(
        engine_state.driver.cuEventRecord_p(trace->begin, collectives_stream_of(&engine_state.collectives, bucket)),
        "cuEventRecord of the trace");
}

void
trace_bucket_end(size_t bucket)
{
    if (file == NULL)
        return;
    current->buckets[bucket].sent = true;
    require_cuda(engine_state.driver.cuEventRecord_p(current->buckets[bucket].end,
                                                     collectives_stream_of(&engine_state.collectives, bucket)),
                 "cuEventRecord of the trace");
}

void
trace_boundary(CUstream stream)
{
    if (file == NULL)
        return;
    require_cuda(engine_state.driver.cuEventRecord_p(current->boundary, stream), "cuEventRecord of the trace");
    current->step = engine_state.boundary_count + 1;
    current->overlapped = engine_state.overlapping;
}

void
trace_sent(void)
{
    current->used = true;
}

void
trace_step_end(void)
{
    if (file == NULL)
        return;
    size_t next = ((size_t)(current - steps) + 1) % STEPS_IN_FLIGHT;
    if (steps[next].used) { /* too far ahead: wait for the oldest */
        issue_wait_for_buckets();
        write_complete();
    }
    current = &steps[next];
    write_complete();
    for (size_t k = 0; k < current->bucket_count; ++k)
        current->buckets[k].sent = false;
}

void
trace_close(void)
{
    if (file == NULL)
        return;
    write_complete();
    fclose(file);
    file = NULL;
}
