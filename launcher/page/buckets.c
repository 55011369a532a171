/*
 * buckets.c - the buckets of the last plan, what their all-reduces took, and the tensors in them.
 */
#include "launcher/page/chart.h"
#include "launcher/page/html.h"
#include "launcher/page/sections.h"

#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BUCKETS = 100, MOST_TENSORS = 200, NO_BUCKET = -1 };

/* One bucket; medians over the steps of the plan, of the first rank. */
struct bucket_facts {
    double bytes, ready_us, reduce_us; /* ready_us: before the boundary */
    size_t early, count;
    const struct trace_bucket *last; /* NULL: not in any step */
};

static void
add_medians(const struct facts *facts, unsigned number, struct bucket_facts *bucket)
{
    const struct rank_facts *rank = &facts->ranks[0];
    double *ready = xcalloc(rank->step_count + 1, sizeof(*ready)), *took = xcalloc(rank->step_count + 1, sizeof(*took));
    for (size_t i = 0; i < rank->step_count; ++i) {
        const struct trace_step *step = rank->steps[i];
        if (step->number <= facts->plan->after_step || step->control)
            continue;
        for (size_t k = 0; k < step->bucket_count; ++k) {
            if (step->buckets[k].number != number || bucket->count == rank->step_count)
                continue;
            bucket->last = &step->buckets[k];
            bucket->early += step->buckets[k].early;
            ready[bucket->count] = -step->buckets[k].ready_us;
            took[bucket->count++] = step->buckets[k].end_us - step->buckets[k].begin_us;
        }
    }
    bucket->bytes = bucket->last != NULL ? (double)bucket->last->bytes : NAN;
    bucket->ready_us = facts_median(ready, bucket->count);
    bucket->reduce_us = facts_median(took, bucket->count);
    free(ready);
    free(took);
}

static void
put_bucket(FILE *out, const struct facts *facts, unsigned number, double greatest)
{
    char text[FIGURE_BYTES];
    struct bucket_facts bucket = {0};
    add_medians(facts, number, &bucket);
    struct bar_part bar = {"early", 100 * bucket.bytes / greatest, "bytes, beside the largest"};
    html_put(out, "<tr><th scope='row'>%u</th>", number);
    html_figure_cell(out, figure_count(facts->plan->member_counts[number], text));
    chart_bar_cell(out, &bar, 1);
    html_figure_cell(out, figure_bytes(bucket.bytes, text));
    html_figure_cell(out, figure_time(bucket.ready_us, text));
    html_figure_cell(out, figure_time(bucket.reduce_us, text));
    html_figure_cell(out, figure_plain(bucket.reduce_us > 0 ? bucket.bytes / bucket.reduce_us / 1e3 : NAN, text));
    html_text_cell(out, bucket.last != NULL ? bucket.last->path : "-");
    html_text_cell(out, bucket.last != NULL ? bucket.last->type : "-");
    fputs("</tr>\n", out);
}

static double
greatest_bytes(const struct facts *facts)
{
    double greatest = 1;
    const struct rank_facts *rank = &facts->ranks[0];
    for (size_t i = 0; i < rank->step_count; ++i) {
        for (size_t k = 0; rank->steps[i]->number > facts->plan->after_step && k < rank->steps[i]->bucket_count; ++k)
            greatest = fmax(greatest, (double)rank->steps[i]->buckets[k].bytes);
    }
    return greatest;
}

static void
put_buckets(FILE *out, const struct facts *facts)
{
    double greatest = greatest_bytes(facts);
    size_t count = facts->plan->bucket_count, shown = count < MOST_BUCKETS ? count : MOST_BUCKETS;
    fputs("<div class='box' tabindex='0' role='region' aria-label='Buckets'><table>\n<thead><tr><th "
          "scope='col'>Bucket</th>"
          "<th scope='col' class='n'>Tensors</th><th scope='col'>Bytes</th><th scope='col' class='n'></th>"
          "<th scope='col' class='n'>Ready before end</th><th scope='col' class='n'>All-reduce</th>"
          "<th scope='col' class='n'>GB/s</th><th scope='col'>Path</th><th scope='col'>Sent "
          "as</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t k = 0; k < shown; ++k)
        put_bucket(out, facts, (unsigned)k, greatest);
    fputs("</tbody></table></div>\n", out);
    if (count > shown)
        html_put(out, "<p class='caption'>And %zu more buckets.</p>\n", count - shown);
}

static int
bucket_of(const struct facts *facts, size_t tensor)
{
    for (size_t k = 0; facts->plan != NULL && k < facts->plan->bucket_count; ++k) {
        for (size_t i = 0; i < facts->plan->member_counts[k]; ++i) {
            if (facts->plan->members[k][i] == tensor)
                return (int)k;
        }
    }
    return NO_BUCKET;
}

static void
put_tensor(FILE *out, const struct facts *facts, size_t number)
{
    char text[FIGURE_BYTES];
    const struct trace_tensor *tensor = &facts->first->tensors[facts->group][number];
    int bucket = bucket_of(facts, number);
    fputs("<tr><th scope='row' class='code'>", out);
    html_text(out, tensor->name);
    fputs("</th><td class='name code'>", out);
    html_text(out, tensor->place);
    fputs("</td>", out);
    html_text_cell(out, tensor->type);
    html_figure_cell(out, figure_count(tensor->elements, text));
    html_figure_cell(out, figure_bytes((double)tensor->bytes, text));
    html_figure_cell(out, bucket == NO_BUCKET ? "-" : figure_count((uint64_t)bucket, text));
    fputs("</tr>\n", out);
}

static void
put_tensors(FILE *out, const struct facts *facts)
{
    size_t count = facts->first->tensor_counts[facts->group], shown = count < MOST_TENSORS ? count : MOST_TENSORS;
    fputs("<h3>Tensors</h3>\n<div class='box' tabindex='0' role='region' aria-label='Tensors'><table>\n<thead><tr>"
          "<th scope='col'>Gradient</th><th scope='col'>Annotated at</th><th scope='col'>Type</th>"
          "<th scope='col' class='n'>Elements</th><th scope='col' class='n'>Bytes</th><th scope='col' "
          "class='n'>Bucket</th>"
          "</tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < shown; ++i)
        put_tensor(out, facts, i);
    fputs("</tbody></table></div>\n", out);
    if (count > shown)
        html_put(out, "<p class='caption'>And %zu more tensors.</p>\n", count - shown);
}

/* What trials of the group found, and where overlap was switched last. */
static void
put_trials(FILE *out, const struct facts *facts)
{
    char overlapped[FIGURE_BYTES], apart[FIGURE_BYTES], text[FIGURE_BYTES];
    const struct trace_trial *trial = facts->trial;
    if (facts->overlap != NULL)
        html_put(out, "<p>Overlap is %s from step %llu on.</p>\n", facts->overlap->overlaps ? "on again" : "off",
                 (unsigned long long)facts->overlap->after_step + 1);
    if (trial == NULL)
        return;
    html_put(out, "<p>The last of %zu trial%s, before step %llu: a step takes %s with overlap and %s without",
             facts->trials, facts->trials == 1 ? "" : "s", (unsigned long long)trial->after_step + 1,
             figure_time(trial->overlapped_us, overlapped), figure_time(trial->apart_us, apart));
    if (trial->slowed_us > 0)
        html_put(out, "; collectives beside backward slow its own work by %s", figure_time(trial->slowed_us, text));
    fputs(".</p>\n", out);
}

void
section_buckets(FILE *out, const struct facts *facts)
{
    html_section(
        out, "buckets", "Buckets and tensors",
        "The plan in force at the end, with medians of its steps on the lowest rank: how long before the end of "
        "backward a bucket's gradients were ready, and what its all-reduce took.");
    put_trials(out, facts);
    if (facts->plan != NULL)
        put_buckets(out, facts);
    else
        fputs("<p>The trace has no plan of buckets.</p>\n", out);
    if (facts->first->tensor_counts[facts->group] > 0)
        put_tensors(out, facts);
    fputs("</section>\n", out);
}
