/*
 * predict.c - a step on other numbers of ranks: ready times as measured, the cost of an all-reduce as rings have it,
 * buckets as the planner of the engine makes them for that.
 *
 * Ring: 2 (n - 1) hops, on each of them a latency and an n-th of the bytes (P. Patarasuk, X. Yuan: Bandwidth optimal
 * all-reduce algorithms for clusters of workstations, 2009).
 */
#include "tools/predict/predict.h"

#include "bucketing/measured.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"
#include "tools/predict/model.h"

#include <math.h>

static double
hops(unsigned ranks)
{
    return 2.0 * (ranks - 1.0);
}

/* How often each byte passes a rank's link. */
static double
passes(unsigned ranks)
{
    return 2.0 * (ranks - 1.0) / ranks;
}

/* What an all-reduce of nothing would take: the line through the two smallest sizes. */
static double
latency_of(const struct model *model)
{
    const struct cost_sample *first = &model->samples[0], *second = &model->samples[1];
    if (model->sample_count < 2 || second->ns <= first->ns)
        return (double)first->ns;
    double ns_per_byte = (double)(second->ns - first->ns) / (double)(second->bytes - first->bytes);
    return fmax(0.0, (double)first->ns - ns_per_byte * (double)first->bytes);
}

/* From the measured ranks' ring to another one: what does not depend on bytes goes with hops, the rest with passes. */
static bool
cost_as_measured(const struct model *model, unsigned ranks, struct cost *cost)
{
    struct cost_sample samples[MODEL_SAMPLES_AT_MOST];
    double latency_ns = latency_of(model);
    double by_hops = hops(ranks) / hops(model->ranks), by_bytes = passes(ranks) / passes(model->ranks);
    for (size_t i = 0; i < model->sample_count; ++i) {
        double rest_ns = fmax(0.0, (double)model->samples[i].ns - latency_ns);
        double ns = latency_ns * by_hops + rest_ns * by_bytes;
        if (!(ns < 1e15))
            return false;
        samples[i] = (struct cost_sample){model->samples[i].bytes, ns < 1.0 ? 1 : llround(ns)};
    }
    return cost_fit(samples, model->sample_count, cost);
}

bool
model_is_noisy(const struct model *model)
{
    return model->high > 2 * model->low;
}

bool
model_cost(const struct model *model, unsigned ranks, const struct link *link, struct cost *cost)
{
    double latency_ns = link != NULL ? hops(ranks) * link->latency_us * 1e3 : 0;
    if (link != NULL)
        return latency_ns < 1e15 && cost_of_link((int64_t)latency_ns, link->bytes_per_us / passes(ranks), cost);
    return model->sample_count > 0 && model->ranks > 1 && cost_as_measured(model, ranks, cost);
}

bool
model_exposed(const struct model *model, const struct cost *cost, unsigned bytes_kept, double *exposed_us)
{
    size_t count = model->gradient_count;
    int64_t done_ns = llround(model->own_us * 1e3);
    OWNED int64_t *ready_ns = xcalloc(count + 1, sizeof(*ready_ns));
    OWNED struct plan_gradient *gradients = xcalloc(count + 1, sizeof(*gradients));
    struct plan_forecast forecast;
    for (size_t i = 0; i < count; ++i) {
        ready_ns[i] = model->overlapped ? model->ready_ns[i] : done_ns;
        gradients[i] = model->gradients[i];
        gradients[i].bytes = gradients[i].bytes * bytes_kept / 1000;
    }
    ready_ns[count] = done_ns;
    struct plan *plan = plan_build_measured(1, gradients, ready_ns, model->order, count, cost, &forecast);
    bool known = plan != NULL;
    if (known)
        *exposed_us = fmax(0.0, (double)(forecast.end_ns - ready_ns[count]) / 1e3);
    plan_free(plan);
    return known;
}

/* What a step of the trace's ranks is longer, and exposes more, than the model has it. */
static struct prediction
off_by(const struct model *model)
{
    struct cost cost;
    double exposed_us;
    struct prediction off = {.ranks = model->ranks};
    if (model->ranks < 2 || !model_cost(model, model->ranks, NULL, &cost) ||
        !model_exposed(model, &cost, model->kept, &exposed_us))
        return off;
    bool alike = model->straggler < 0; /* others are predicted without it */
    off.exposed_us = model->exposed_us - exposed_us;
    off.step_us = alike ? model->measured_step_us - model->own_us - exposed_us : off.exposed_us;
    return off;
}

bool
model_predict(const struct model *model, unsigned ranks, const struct link *link, struct prediction *prediction)
{
    struct cost cost;
    struct prediction found = {.ranks = ranks};
    if (ranks == 1) {
        found.step_us = model->alone_us;
    } else if (ranks == model->ranks && link == NULL && model->rank_count == ranks) {
        found.is_measured = true;
        found.step_us = model->measured_step_us;
        found.exposed_us = model->exposed_us;
    } else {
        struct prediction off = {0};
        if (ranks == 0 || !model_cost(model, ranks, link, &cost) ||
            !model_exposed(model, &cost, model->kept, &found.exposed_us))
            return false;
        if (link == NULL)
            off = off_by(model);
        found.step_us = model->own_us + found.exposed_us + off.step_us;
        found.exposed_us += off.exposed_us;
    }
    found.low_us = found.step_us * model->low;
    found.high_us = found.step_us * model->high;
    *prediction = found;
    return true;
}
