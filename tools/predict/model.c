/*
 * model.c - a model of a step, from a trace.
 *
 * What a step takes, and waits for, are the facts of the trace (tools/trace/facts.h). When gradients are ready, and
 * what buckets take, are medians over the steps of steps.c; a bucket's collective contains the wait for ranks that come
 * later, so of all ranks its least time counts.
 */
#include "tools/predict/model.h"

#include "launcher/common/waiting.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"
#include "tools/common/range.h"

#include <json-c/json.h>

#include <math.h>

enum { COMMUNICATORS = 8 };

/* ---- ready times ---- */

/* When a bucket could be sent. */
static double
could_begin(const struct trace_bucket *bucket)
{
    return bucket->early && bucket->ready_us < 0.0 ? bucket->ready_us : 0.0;
}

/* Of bucket k, in us to the boundary: the last rank's, which is when it can be sent; 0 if that is the boundary. */
static double
ready_of(const struct looked_at *at, size_t k)
{
    OWNED double *values = xcalloc(at->step_count, sizeof(*values));
    double latest = -INFINITY;
    for (size_t r = 0; r < at->facts->rank_count; ++r) {
        size_t count = 0;
        for (size_t s = 0; s < at->step_count; ++s) {
            const struct trace_step *step = at->steps[s * at->facts->rank_count + r];
            if (k < step->bucket_count)
                values[count++] = could_begin(&step->buckets[k]);
        }
        double ready = waiting_median(values, count);
        latest = ready > latest ? ready : latest; /* a NAN is not */
    }
    return isfinite(latest) ? latest : 0.0;
}

/*
 * A bucket is ready with its last tensor. The others are spread by their bytes over the time since the bucket before
 * was ready; those of the first bucket over the time since backward's first gradient.
 */
static void
spread(struct model *model, const struct looked_at *at)
{
    double before_us = -at->facts->ranks[0].backward_us; /* when the first gradient was nearly complete */
    for (size_t k = 0; k < at->plan->bucket_count; ++k) {
        const size_t *members = at->plan->members[k], count = at->plan->member_counts[k];
        double ready_us = ready_of(at, k), bytes = 0.0, passed = 0.0;
        for (size_t i = 0; i < count; ++i)
            bytes += members[i] < model->gradient_count ? (double)model->gradients[members[i]].bytes : 0.0;
        model->ready_by_bucket = model->ready_by_bucket || count > 1;
        before_us = before_us < ready_us ? before_us : ready_us; /* a NAN is not */
        for (size_t i = 0; i < count; ++i) {
            if (members[i] >= model->gradient_count)
                continue;
            passed += (double)model->gradients[members[i]].bytes;
            double us = model->own_us + before_us + (ready_us - before_us) * (bytes > 0.0 ? passed / bytes : 1.0);
            int64_t ns = us > 0.0 ? llround(us * 1e3) : 0;
            model->ready_ns[members[i]] = ns > model->ready_ns[members[i]] ? ns : model->ready_ns[members[i]];
        }
        before_us = ready_us;
    }
}

/* In the order in which the plan sends them; a tensor that it does not have comes last. */
static void
take_order(struct model *model, const struct looked_at *at)
{
    size_t count = 0;
    OWNED bool *taken = xcalloc(model->gradient_count + 1, sizeof(*taken));
    for (size_t k = 0; k < at->plan->bucket_count; ++k) {
        for (size_t i = 0; i < at->plan->member_counts[k]; ++i) {
            size_t member = at->plan->members[k][i];
            if (member >= model->gradient_count || taken[member])
                continue;
            model->order[count++] = member;
            taken[member] = true;
        }
    }
    for (size_t i = 0; i < model->gradient_count; ++i) {
        if (!taken[i])
            model->order[count++] = i;
    }
}

/* As the engine has measured them; false: it has not. */
static bool
take_ready(struct model *model, const struct looked_at *at)
{
    const struct trace_run *run = at->facts->first;
    const struct trace_ready *last = NULL;
    FOR_EACH(ready, run->readies, run->ready_count)
        last = ready->group == at->facts->group && ready->count == model->gradient_count ? ready : last;
    for (size_t i = 0; last != NULL && i < model->gradient_count; ++i) {
        double us = fmax(0.0, model->own_us + last->us[i]);
        model->ready_ns[i] = llround(us * 1e3);
    }
    return last != NULL;
}

/* Small numbers for types: a bucket has one. */
static int
type_of(const struct trace_tensor *tensors, size_t i)
{
    size_t first = 0;
    while (first < i && strcmp(tensors[first].type, tensors[i].type) != 0)
        ++first;
    return (int)first;
}

static bool
take_gradients(struct model *model, const struct looked_at *at)
{
    const struct trace_run *run = at->facts->first;
    size_t count = run->tensor_counts[at->facts->group];
    model->gradient_count = count;
    model->gradients = xcalloc(count + 1, sizeof(*model->gradients));
    model->ready_ns = xcalloc(count + 1, sizeof(*model->ready_ns));
    model->order = xcalloc(count + 1, sizeof(*model->order));
    for (size_t i = 0; i < count; ++i) {
        model->gradients[i].bytes = run->tensors[at->facts->group][i].bytes;
        model->gradients[i].type = type_of(run->tensors[at->facts->group], i);
        model->bytes += model->gradients[i].bytes;
    }
    take_order(model, at);
    if (!take_ready(model, at))
        spread(model, at);
    return model->bytes > 0;
}

/* ---- ranks ---- */

/* What bucket k took of its queue, up to the begin of the next one if that was ready before. */
static double
took(const struct trace_step *step, size_t k)
{
    const struct trace_bucket *bucket = &step->buckets[k], *next = bucket + 1;
    double us = bucket->end_us - bucket->begin_us;
    bool follows =
        k + 1 < step->bucket_count && next->communicator == bucket->communicator && could_begin(next) < bucket->end_us;
    double gap_us = follows ? next->begin_us - bucket->end_us : 0.0;
    return gap_us > 0.0 && gap_us < us ? us + gap_us : us;
}

/* Who was last, and what that cost, is the trace's other figures'. */
static void
take_waits(struct model *model, const struct facts *facts)
{
    model->measured_step_us = facts->step_us;
    model->exposed_us = facts->exposed_us;
    model->waiting_us = facts->rank_count > 1 ? fmax(0.0, facts->waiting_us) : 0.0; /* a NAN is not */
    (void)facts_waiting_text(facts, model->waiting);
    snprintf(model->noise, sizeof(model->noise), "%s", facts_string(facts->noise, "text"));
    model->own_us = facts->own_us;
    model->alone_us = facts_alone(facts);
    model->slowed_us = model->own_us - model->alone_us;
    model->straggler = -1;
    if (facts->waited.straggler < 0)
        return;
    const struct rank_facts *straggler = &facts->ranks[facts->waited.straggler];
    model->straggler = straggler->run->rank;
    model->straggler_us = straggler->kept_us;
    snprintf(model->straggler_host, sizeof(model->straggler_host), "%s", straggler->run->host);
}

/* How the steps since the first plan vary: means of up to nine stretches of them. What the program does now and then,
 * such as validation, is in these. */
static void
take_spread(struct model *model, const struct looked_at *at)
{
    const struct facts *facts = at->facts;
    uint64_t start = at->plan->after_step;
    OWNED double *us = xcalloc(facts->step_count + 1, sizeof(*us));
    struct range stretches = {0};
    size_t count = 0;
    for (size_t p = facts->first->plan_count; p-- > 0;) {
        const struct trace_plan *plan = &facts->first->plans[p];
        start = plan->group == facts->group && plan->after_step > 0 ? plan->after_step : start;
    }
    FOR_EACH(step, facts->steps, facts->step_count) {
        if (!step->control && step->number > start + STEPS_FIRST && !isnan(step->middle_us))
            us[count++] = step->middle_us;
    }
    size_t most = count < RANGE_MOST_VALUES ? count : RANGE_MOST_VALUES;
    for (size_t k = 0; k < most; ++k) {
        size_t begin = k * count / most, end = (k + 1) * count / most;
        double sum_us = 0.0;
        for (size_t i = begin; i < end; ++i)
            sum_us += us[i];
        range_add(&stretches, sum_us / (double)(end - begin));
    }
    model->low = model->high = 1.0;
    if (most > 0 && model->measured_step_us > 0.0) {
        model->low = fmin(1.0, range_low(&stretches) / model->measured_step_us);
        model->high = fmax(1.0, range_high(&stretches) / model->measured_step_us);
    }
}

/* ---- the cost of an all-reduce ---- */

struct point {
    double bytes, us;
};

/* What bucket k took, on the rank that waited for none. */
static struct point
point_of(const struct looked_at *at, size_t k)
{
    OWNED double *values = xcalloc(at->step_count, sizeof(*values));
    size_t count = 0;
    struct point point = {0.0, NAN};
    for (size_t s = 0; s < at->step_count; ++s) {
        double least = INFINITY;
        for (size_t r = 0; r < at->facts->rank_count; ++r) {
            const struct trace_step *step = at->steps[s * at->facts->rank_count + r];
            if (k >= step->bucket_count)
                continue;
            double us = took(step, k);
            least = us < least ? us : least; /* a NAN is not */
            point.bytes = (double)step->buckets[k].bytes;
        }
        if (isfinite(least) && least > 0.0)
            values[count++] = least;
    }
    point.us = waiting_median(values, count);
    return point;
}

/* A latency and a bandwidth: least squares over the buckets, neither of them negative. */
static bool
fit(const struct point *points, size_t count, double *latency_us, double *us_per_byte)
{
    double sum_x = 0.0, sum_y = 0.0, sum_xx = 0.0, sum_xy = 0.0, n = (double)count;
    if (count == 0)
        return false;
    for (size_t i = 0; i < count; ++i) {
        sum_x += points[i].bytes;
        sum_y += points[i].us;
        sum_xx += points[i].bytes * points[i].bytes;
        sum_xy += points[i].bytes * points[i].us;
    }
    double spread = n * sum_xx - sum_x * sum_x;
    double slope = spread > 1e-3 * sum_xx * n ? (n * sum_xy - sum_x * sum_y) / spread : sum_y / sum_x;
    slope = fmax(slope, 0.0);
    double latency = (sum_y - slope * sum_x) / n;
    if (latency < 0.0) {
        latency = 0.0;
        slope = sum_xy / sum_xx;
    }
    *latency_us = latency;
    *us_per_byte = slope;
    return isfinite(latency) && isfinite(slope);
}

/* As the engine has measured it. */
static void
take_measured_cost(struct model *model, const struct trace_run *run)
{
    for (size_t i = 0; i < run->cost_count && model->sample_count < MODEL_SAMPLES_AT_MOST; ++i)
        model->samples[model->sample_count++] = (struct cost_sample){run->costs[i].bytes, run->costs[i].ns};
    model->cost_measured = model->sample_count > 0;
}

/* From what the buckets took. */
static void
take_cost(struct model *model, const struct looked_at *at)
{
    OWNED struct point *points = xcalloc(at->plan->bucket_count + 1, sizeof(*points));
    size_t count = 0;
    double latency_us, us_per_byte;
    for (size_t k = 0; k < at->plan->bucket_count; ++k) {
        points[count] = point_of(at, k);
        count += isfinite(points[count].us) && points[count].bytes > 0.0;
    }
    if (fit(points, count, &latency_us, &us_per_byte)) {
        for (double bytes = 256.0; model->sample_count < 12; bytes *= 8.0) {
            double ns = 1e3 * (latency_us + us_per_byte * bytes);
            if (ns > 1e12)
                break;
            model->samples[model->sample_count++] = (struct cost_sample){(uint64_t)bytes, ns < 1.0 ? 1 : llround(ns)};
        }
    }
}

/* ---- all of it ---- */

/* As the launcher has it. */
static void
take_items(struct model *model, const struct facts *facts)
{
    json_object *unbound;
    double batch = facts_number(facts->summary, "batch_per_pass");
    double items_per_s = facts_number(facts->summary, "items_per_second");
    double steps_per_s = facts_number(facts->summary, "steps_per_second");
    model->unbound = json_object_object_get_ex(facts->summary, "unbound", &unbound) && json_object_get_boolean(unbound);
    model->batch = batch > 0.0 ? (uint64_t)fmin(batch, 1e18) : 0;
    model->items = items_per_s > 0.0 && steps_per_s > 0.0 ? items_per_s / steps_per_s : 0.0;
}

static void
take_last_words(struct model *model, const struct looked_at *at)
{
    const struct trace_step *last = at->steps[(at->step_count - 1) * at->facts->rank_count];
    model->overlapped = at->overlapped || model->ranks == 1; /* which could */
    model->fixed = at->facts->first->bucket_bytes > 0;
    double sent = 0.0;
    FOR_EACH(bucket, last->buckets, last->bucket_count) {
        model->narrow = model->narrow || strcmp(bucket->type, "float32") != 0;
        sent += (double)bucket->bytes;
    }
    model->kept =
        model->narrow && model->bytes > 0 ? (unsigned)fmin(fmax(1e3 * sent / (double)model->bytes, 1), 1000) : 1000;
}

struct model *
model_of_facts(const struct facts *facts, char *why, size_t size)
{
    struct looked_at at;
    struct model *model = NULL;
    const char *missing = steps_look(facts, &at);
    if (missing == NULL) {
        model = xcalloc(1, sizeof(*model));
        model->ranks = (unsigned)at.facts->first->world;
        model->rank_count = facts->rank_count;
        snprintf(model->host, sizeof(model->host), "%s", facts->first->host);
        take_waits(model, facts);
        take_spread(model, &at);
        if (model->ranks > 1)
            take_measured_cost(model, at.facts->first);
        if (model->ranks > 1 && !model->cost_measured)
            take_cost(model, &at);
        missing = !take_gradients(model, &at) ? "it does not list the gradients"
                  : isnan(model->alone_us)
                      ? "too few steps were timed, or their times vary too much; train for more steps"
                      : NULL;
        take_last_words(model, &at);
        take_items(model, facts);
    }
    free(at.steps);
    if (missing == NULL)
        return model;
    model_free(model);
    snprintf(why, size, "%s", missing);
    return NULL;
}

struct model *
model_of_trace(const struct trace *trace, char *why, size_t size)
{
    struct facts facts;
    snprintf(why, size, "the trace has no rank");
    if (trace->run_count == 0)
        return NULL;
    facts_find(trace, NULL, &facts);
    struct model *model = model_of_facts(&facts, why, size);
    facts_free(&facts);
    return model;
}

void
model_free(struct model *model)
{
    if (model == NULL)
        return;
    free(model->gradients);
    free(model->ready_ns);
    free(model->order);
    free(model);
}
