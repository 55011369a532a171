/*
 * buckets.c - the buckets of the last plan, what their all-reduces took, and the tensors in them.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include "launcher/common/waiting.h"
#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BUCKETS = 100, MOST_TENSORS = 200, NO_BUCKET = -1 };

/* What is shown of one gradient group. */
struct group_facts {
    const struct trace_run *run; /* of the lowest rank */
    int group;
    const struct trace_plan *plan; /* the last one */
};

/* One bucket; medians over the steps of the plan. */
struct bucket_facts {
    double bytes, ready_us, reduce_us; /* ready_us: before the boundary */
    size_t early, count;
    const struct trace_bucket *last; /* NULL: not in any step */
};

/* Is it a step with the group's last plan? */
static bool
is_of_plan(const struct group_facts *of, const struct trace_step *step)
{
    return step->group == of->group && !step->in_graph && step->number > of->plan->after_step;
}

static void
add_medians(const struct group_facts *of, unsigned number, struct bucket_facts *bucket)
{
    size_t most = of->run->step_count;
    double *ready = xcalloc(most + 1, sizeof(*ready)), *took = xcalloc(most + 1, sizeof(*took));
    for (size_t i = 0; i < of->run->step_count; ++i) {
        const struct trace_step *step = &of->run->steps[i];
        if (!is_of_plan(of, step) || step->control)
            continue;
        for (size_t k = 0; k < step->bucket_count; ++k) {
            if (step->buckets[k].number != number || bucket->count == most)
                continue;
            bucket->last = &step->buckets[k];
            bucket->early += step->buckets[k].early;
            ready[bucket->count] = -step->buckets[k].ready_us;
            took[bucket->count++] = step->buckets[k].end_us - step->buckets[k].begin_us;
        }
    }
    bucket->bytes = bucket->last != NULL ? (double)bucket->last->bytes : NAN;
    bucket->ready_us = waiting_median(ready, bucket->count);
    bucket->reduce_us = waiting_median(took, bucket->count);
    free(ready);
    free(took);
}

static void
put_bucket(FILE *out, const struct group_facts *of, unsigned number)
{
    char text[FIGURE_BYTES];
    struct bucket_facts bucket = {0};
    add_medians(of, number, &bucket);
    html_put(out, "<tr><th scope='row'>%u</th>", number);
    html_figure_cell(out, figure_count(of->plan->member_counts[number], text));
    html_figure_cell(out, figure_bytes(bucket.bytes, text));
    html_figure_cell(out, figure_time(bucket.ready_us, text));
    html_figure_cell(out, figure_time(bucket.reduce_us, text));
    html_figure_cell(out, figure_plain(bucket.reduce_us > 0 ? bucket.bytes / bucket.reduce_us / 1e3 : NAN, text));
    html_text_cell(out, bucket.last != NULL ? bucket.last->path : "-");
    html_text_cell(out, bucket.last != NULL ? bucket.last->type : "-");
    fputs("</tr>\n", out);
}

static void
put_buckets(FILE *out, const struct group_facts *of, size_t most)
{
    size_t count = of->plan->bucket_count, shown = count < most ? count : most;
    html_table(out, "Buckets", "Bucket|#Tensors|#Bytes|#Ready before end|#All-reduce|#GB/s|Path|Sent as");
    for (size_t k = 0; k < shown; ++k)
        put_bucket(out, of, (unsigned)k);
    html_table_end(out, shown, count, "buckets");
}

static int
bucket_of(const struct group_facts *of, size_t tensor)
{
    for (size_t k = 0; of->plan != NULL && k < of->plan->bucket_count; ++k) {
        for (size_t i = 0; i < of->plan->member_counts[k]; ++i) {
            if (of->plan->members[k][i] == tensor)
                return (int)k;
        }
    }
    return NO_BUCKET;
}

static void
put_tensor(FILE *out, const struct group_facts *of, size_t number)
{
    char text[FIGURE_BYTES];
    const struct trace_tensor *tensor = &of->run->tensors[of->group][number];
    int bucket = bucket_of(of, number);
    html_put(out, "<tr><th scope='row'>%zu</th><td class='name code'>", number + 1); /* as messages count */
    html_text(out, tensor->name);
    fputs("</td><td class='name code'>", out);
    html_text(out, tensor->place);
    fputs("</td>", out);
    html_text_cell(out, tensor->type);
    html_figure_cell(out, figure_count(tensor->elements, text));
    html_figure_cell(out, figure_bytes((double)tensor->bytes, text));
    html_figure_cell(out, bucket == NO_BUCKET ? "-" : figure_count((uint64_t)bucket, text));
    fputs("</tr>\n", out);
}

static void
put_tensors(FILE *out, const struct group_facts *of, size_t most)
{
    size_t count = of->run->tensor_counts[of->group], shown = count < most ? count : most;
    html_table(out, "Tensors", "Number|Gradient|Annotated at|Type|#Elements|#Bytes|#Bucket");
    for (size_t i = 0; i < shown; ++i)
        put_tensor(out, of, i);
    html_table_end(out, shown, count, "tensors");
}

/* What trials of the group found, and where overlap was switched last. */
static void
put_trials(FILE *out, const struct group_facts *of)
{
    char overlapped[FIGURE_BYTES], apart[FIGURE_BYTES], text[FIGURE_BYTES];
    const struct trace_overlap *change = trace_last_overlap(of->run, of->group);
    const struct trace_trial *trial = NULL;
    size_t count = 0;
    for (size_t i = 0; i < of->run->trial_count; ++i) {
        bool own = of->run->trials[i].group == of->group;
        trial = own ? &of->run->trials[i] : trial;
        count += own;
    }
    if (change != NULL)
        html_put(out, "<p>Overlap is %s from step %llu on.</p>\n", change->overlaps ? "on again" : "off",
                 (unsigned long long)change->after_step + 1);
    if (trial == NULL)
        return;
    html_put(out, "<p>Last of %zu trial%s, before step %llu: a step takes %s with overlap and %s without it", count,
             count == 1 ? "" : "s", (unsigned long long)trial->after_step + 1,
             figure_time(trial->overlapped_us, overlapped), figure_time(trial->apart_us, apart));
    if (trial->slowed_us > 0)
        html_put(out, "; collectives during backward slow the step's own work by %s",
                 figure_time(trial->slowed_us, text));
    fputs(". A change of overlap needs two trials.</p>\n", out);
}

/* `groups`: of so many one. */
static void
put_group(FILE *out, const struct group_facts *of, size_t groups)
{
    char name[32] = "";
    if (groups > 1) {
        snprintf(name, sizeof(name), " of group %d", of->group);
        html_put(out, "<h3>Buckets%s</h3>\n", name);
    }
    put_trials(out, of);
    if (of->plan != NULL)
        put_buckets(out, of, MOST_BUCKETS / groups);
    else
        fputs("<p>The trace has no plan of buckets.</p>\n", out);
    if (of->run->tensor_counts[of->group] == 0)
        return;
    html_put(out, "<h3>Tensors%s</h3>\n", name);
    put_tensors(out, of, MOST_TENSORS / groups);
}

void
section_buckets(FILE *out, const struct facts *facts)
{
    size_t groups = facts->group_count > 0 ? facts->group_count : 1;
    html_section(out, "buckets", "Buckets and tensors",
                 "The last plan. Ready before end: from the time when a bucket's gradients were ready to the end of "
                 "backward. Times are medians of this plan's steps on the first rank in the trace.");
    for (int g = 0; g < TRACE_GROUPS; ++g) {
        struct group_facts of = {.run = facts->first, .group = g, .plan = trace_last_plan(facts->first, g)};
        if (facts->group_steps[g] > 0 || g == facts->group)
            put_group(out, &of, groups);
    }
    fputs("</section>\n", out);
}
