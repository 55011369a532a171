/*
 * trace_times.c - what plans of buckets are made from, as lines of the trace: when gradients were ready, and what an
 * all-reduce costs.
 */
#include "interpose/engine/report/report.h"
#include "interpose/engine/report/trace_file.h"

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
