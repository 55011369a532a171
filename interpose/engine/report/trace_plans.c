/*
 * trace_plans.c - plans of buckets, as lines of the trace: which buckets a plan has, what it is made from (when
 * gradients were ready, what an all-reduce costs), and whether its steps overlap.
 */
#include "interpose/engine/report/report.h"
#include "interpose/engine/report/trace_file.h"

#include "base/clock.h"

static void
add_tensors(struct json *line, const struct group *group)
{
    json_open(line, "tensors", '[');
    engine_lock();
    for (size_t i = 0; i < group->gradient_count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, i);
        char place[300];
        snprintf(place, sizeof(place), "%s:%d", file_name_of(tensor->site.file), tensor->site.line);
        json_open(line, NULL, '{');
        json_add_text(line, "name", tensor->site.text);
        json_add_text(line, "place", place);
        json_add_text(line, "type", type_name(tensor->type));
        json_add_u64(line, "elements", tensor->count);
        json_add_u64(line, "bytes", tensor->bytes);
        json_close(line, '}');
    }
    engine_unlock();
    json_close(line, ']');
}

/* What follows a line's first member: of which group, and when. */
static void
add_group(struct json *line, const struct group *group)
{
    json_add_i64(line, "group", group->id);
    json_add_u64(line, "after_step", engine_state.boundary_count);
    json_add_i64(line, "at_ns", clock_now_ns());
}

void
trace_file_write_plan(const struct group *group, uint64_t number)
{
    const struct plan *plan = group->plan;
    struct json *line = trace_file_begin();
    json_add_u64(line, "plan", number);
    add_group(line, group);
    if (number == 1)
        add_tensors(line, group);
    json_open(line, "buckets", '[');
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        json_open(line, NULL, '{');
        json_add_u64(line, "bytes", bucket->bytes);
        json_open(line, "tensors", '[');
        for (size_t i = bucket->first; i < bucket->first + bucket->count; ++i)
            json_add_u64(line, NULL, plan->pieces[i].gradient);
        json_close(line, ']');
        json_close(line, '}');
    }
    json_close(line, ']');
    trace_file_write(line);
}

void
trace_trial(const struct group *group, const struct trial_result *result, size_t bucket_count, bool overlaps)
{
    bool of_layout = bucket_count > 0;
    struct json *line = trace_file_begin();
    json_add_u64(line, of_layout ? "layout_trial" : "trial", result->rounds);
    add_group(line, group);
    if (of_layout) {
        json_add_u64(line, "buckets", bucket_count);
        json_add_us(line, "present_us", (double)result->present_ns / 1e3);
        json_add_us(line, "other_us", (double)result->other_ns / 1e3);
    } else {
        json_add_us(line, "slowed_us", (double)trial_slowed(result, overlaps) / 1e3);
        json_add_us(line, "overlapped_us", (double)(overlaps ? result->present_ns : result->other_ns) / 1e3);
        json_add_us(line, "apart_us", (double)(overlaps ? result->other_ns : result->present_ns) / 1e3);
    }
    trace_file_write(line);
}

void
trace_overlap(const struct group *group, bool overlaps)
{
    struct json *line = trace_file_begin();
    json_add_bool(line, "overlap", overlaps);
    add_group(line, group);
    trace_file_write(line);
}

void
trace_ready(const struct group *group, const int64_t *ready_ns)
{
    struct json *line = trace_file_begin();
    json_open(line, "ready", '[');
    for (size_t i = 0; i < group->gradient_count; ++i)
        json_add_i64(line, NULL, (ready_ns[i] - ready_ns[group->gradient_count]) / 1000);
    json_close(line, ']');
    json_add_i64(line, "group", group->id);
    json_add_u64(line, "after_step", engine_state.boundary_count);
    trace_file_write(line);
}

void
trace_file_write_costs(const struct cost *cost)
{
    struct json *line = trace_file_begin();
    json_open(line, "all_reduce_ns", '[');
    for (size_t i = 1; i < cost->count; ++i) { /* what it was fitted to: cost_fit() */
        uint64_t bytes = cost->segments[i].bytes;
        json_open(line, NULL, '[');
        json_add_u64(line, NULL, bytes);
        json_add_i64(line, NULL, cost_fs(cost, bytes) / COST_FS_PER_NS);
        json_close(line, ']');
    }
    json_close(line, ']');
    trace_file_write(line);
}
