/*
 * trace_plans.c - plans of buckets, as lines of the trace: which buckets a plan has, what it is made from (when
 * gradients were ready, what an all-reduce costs), and whether its steps overlap.
 */
#include "interpose/engine/report/report.h"
#include "interpose/engine/report/trace_file.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static json_object *
tensor_entries(const struct group *group)
{
    json_object *tensors = json_object_new_array();
    engine_lock();
    for (size_t i = 0; i < group->gradient_count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, i);
        const char *slash = strrchr(tensor->site.file, '/');
        char place[64];
        snprintf(place, sizeof(place), "%.50s:%d", slash != NULL ? slash + 1 : tensor->site.file, tensor->site.line);
        json_object *entry = json_object_new_object();
        json_object_object_add(entry, "name", json_object_new_string(tensor->site.text));
        json_object_object_add(entry, "place", json_object_new_string(place));
        json_object_object_add(entry, "type", json_object_new_string(type_name(tensor->type)));
        json_object_object_add(entry, "elements", json_object_new_uint64(tensor->count));
        json_object_object_add(entry, "bytes", json_object_new_uint64(tensor->bytes));
        json_object_array_add(tensors, entry);
    }
    engine_unlock();
    return tensors;
}

/* What follows its first member `name`: of which group, and when. */
static json_object *
group_line(const struct group *group, const char *name, json_object *value)
{
    json_object *line = json_object_new_object();
    json_object_object_add(line, name, value);
    json_object_object_add(line, "group", json_object_new_int(group->id));
    json_object_object_add(line, "after_step", json_object_new_uint64(engine_state.boundary_count));
    json_object_object_add(line, "at_ns", json_object_new_int64(clock_now_ns()));
    return line;
}

void
trace_file_write_plan(const struct group *group, uint64_t number)
{
    const struct plan *plan = group->plan;
    json_object *line = group_line(group, "plan", json_object_new_uint64(number));
    json_object *buckets = json_object_new_array();
    if (number == 1)
        json_object_object_add(line, "tensors", tensor_entries(group));
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        json_object *entry = json_object_new_object(), *members = json_object_new_array();
        for (size_t i = bucket->first; i < bucket->first + bucket->count; ++i)
            json_object_array_add(members, json_object_new_uint64(plan->pieces[i].gradient));
        json_object_object_add(entry, "bytes", json_object_new_uint64(bucket->bytes));
        json_object_object_add(entry, "tensors", members);
        json_object_array_add(buckets, entry);
    }
    json_object_object_add(line, "buckets", buckets);
    trace_file_write(line);
}

void
trace_trial(const struct group *group, const struct trial_result *result)
{
    if (!trace_file_is_open())
        return;
    json_object *line = group_line(group, "trial", json_object_new_uint64(result->pairs));
    trace_file_add_us(line, "slowed_us", (double)result->slowed_ns / 1e3);
    trace_file_add_us(line, "overlapped_us", (double)result->overlapped_ns / 1e3);
    trace_file_add_us(line, "apart_us", (double)result->apart_ns / 1e3);
    trace_file_write(line);
}

void
trace_overlap(const struct group *group, bool overlaps)
{
    if (trace_file_is_open())
        trace_file_write(group_line(group, "overlap", json_object_new_boolean(overlaps)));
}

void
trace_ready(const struct group *group, const int64_t *ready_ns)
{
    if (!trace_file_is_open())
        return;
    json_object *line = json_object_new_object(), *times = json_object_new_array();
    json_object_object_add(line, "ready", times);
    json_object_object_add(line, "group", json_object_new_int(group->id));
    json_object_object_add(line, "after_step", json_object_new_uint64(engine_state.boundary_count));
    for (size_t i = 0; i < group->gradient_count; ++i)
        json_object_array_add(times, json_object_new_int64((ready_ns[i] - ready_ns[group->gradient_count]) / 1000));
    trace_file_write(line);
}

void
trace_file_write_costs(const struct cost *cost)
{
    json_object *line = json_object_new_object(), *sizes = json_object_new_array();
    for (size_t i = 1; i < cost->count; ++i) { /* what it was fitted to: cost_fit() */
        uint64_t bytes = cost->segments[i].bytes;
        json_object *entry = json_object_new_array();
        json_object_array_add(entry, json_object_new_uint64(bytes));
        json_object_array_add(entry, json_object_new_int64(cost_fs(cost, bytes) / COST_FS_PER_NS));
        json_object_array_add(sizes, entry);
    }
    json_object_object_add(line, "all_reduce_ns", sizes);
    trace_file_write(line);
}
