/*
 * model.c - a model of a step, from a trace.
 *
 * What a step takes, and waits for, are the facts of the trace (tools/trace/facts.h). When gradients are ready, and
 * what an all-reduce costs, the engine has measured in the run (lines "ready" and "all_reduce_ns").
 */
#include "tools/predict/model.h"

#include "bucketing/measured.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"
#include "tools/common/range.h"

#include <json-c/json.h>

#include <math.h>
#include <stdarg.h>

/* Of a plan: all is checked in three of its first steps, and the next one waits for that. They do not count. */
enum { STEPS_FIRST = 4 };

/* ---- ready times ---- */

/* In the order in which the plan sends them; a tensor that it does not have comes last. */
static void
take_order(struct model *model, const struct trace_plan *plan)
{
    size_t count = 0;
    OWNED bool *taken = xcalloc(model->gradient_count + 1, sizeof(*taken));
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        for (size_t i = 0; i < plan->member_counts[k]; ++i) {
            size_t member = plan->members[k][i];
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
take_ready(struct model *model, const struct facts *facts)
{
    const struct trace_run *run = facts->first;
    const struct trace_ready *last = NULL;
    FOR_EACH(ready, run->readies, run->ready_count)
        last = ready->group == facts->group && ready->count == model->gradient_count ? ready : last;
    for (size_t i = 0; last != NULL && i < model->gradient_count; ++i)
        model->ready_ns[i] = llround(1e3 * fmax(0.0, model->own_us + last->us[i]));
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
take_gradients(struct model *model, const struct facts *facts)
{
    const struct trace_run *run = facts->first;
    size_t count = run->tensor_counts[facts->group];
    model->gradient_count = count;
    model->gradients = xcalloc(count + 1, sizeof(*model->gradients));
    model->ready_ns = xcalloc(count + 1, sizeof(*model->ready_ns));
    model->order = xcalloc(count + 1, sizeof(*model->order));
    for (size_t i = 0; i < count; ++i) {
        model->gradients[i].bytes = run->tensors[facts->group][i].bytes;
        model->gradients[i].type = type_of(run->tensors[facts->group], i);
        model->bytes += model->gradients[i].bytes;
    }
    take_order(model, facts->plan);
    return model->bytes > 0;
}

/* ---- ranks ---- */

/* Who was last, and what that cost, is the trace's other figures'. */
static void
take_waits(struct model *model, const struct facts *facts)
{
    model->measured_step_us = facts->step_us;
    model->exposed_us = facts->exposed_us;
    model->waiting_us = facts->rank_count > 1 && facts->waited.matters ? facts->waiting_us : 0.0;
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

/* How the steps since the first plan vary, of which a trace may have each tenth: means of up to nine stretches beside
 * their own mean. Pauses such as validation are in them. False: there is none. */
static bool
take_spread(struct model *model, const struct facts *facts)
{
    uint64_t start = facts->plan->after_step;
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
    double all_us = 0.0;
    for (size_t k = 0; k < most; ++k) {
        size_t begin = k * count / most, end = (k + 1) * count / most;
        double sum_us = 0.0;
        for (size_t i = begin; i < end; ++i)
            sum_us += us[i];
        range_add(&stretches, sum_us / (double)(end - begin));
        all_us += sum_us;
    }
    model->low = count > 0 ? range_low(&stretches) * (double)count / all_us : 1.0;
    model->high = count > 0 ? range_high(&stretches) * (double)count / all_us : 1.0;
    return count > 0;
}

/* ---- the cost of an all-reduce ---- */

/* As the engine has measured it. */
static void
take_cost(struct model *model, const struct trace_run *run)
{
    for (size_t i = 0; i < run->cost_count && model->sample_count < MODEL_SAMPLES_AT_MOST; ++i)
        model->samples[model->sample_count++] = (struct cost_sample){run->costs[i].bytes, run->costs[i].ns};
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

/* As the last step does it that goes as the others do. */
static void
take_last_words(struct model *model, const struct facts *facts)
{
    const struct rank_facts *first = &facts->ranks[0];
    size_t last = first->step_count;
    while (last > 1 && first->steps[last - 1]->control)
        --last;
    const struct trace_step *step = first->steps[last - 1]; /* take_spread() has found one */
    bool has_times = take_ready(model, facts);
    model->overlapped = has_times && (step->overlapped || model->ranks == 1); /* which could */
    model->lacks_times = !has_times && step->overlapped;
    model->fixed = step->overlapped && facts->first->bucket_bytes > 0;
    double sent = 0.0;
    FOR_EACH(bucket, step->buckets, step->bucket_count) {
        model->narrow = model->narrow || strcmp(bucket->type, "float32") != 0;
        sent += (double)bucket->bytes;
    }
    model->kept =
        model->narrow && model->bytes > 0 ? (unsigned)fmin(fmax(1e3 * sent / (double)model->bytes, 1), 1000) : 1000;
}

/* NULL; or what is missing, for the user. */
static const char *
take_all(struct model *model, const struct facts *facts)
{
    model->ranks = (unsigned)facts->first->world;
    model->rank_count = facts->rank_count;
    snprintf(model->host, sizeof(model->host), "%s", facts->first->host);
    if (facts->counted > 0)
        take_waits(model, facts);
    if (facts->plan == NULL || facts->counted == 0 || !take_spread(model, facts))
        return facts->graph_steps > 0         ? "steps of the run are in CUDA graphs, which have no times"
               : facts->first->step_count > 0 ? "the run has too few steps: about 40 are needed"
                                              : "the run has no steps";
    if (model->ranks > 1)
        take_cost(model, facts->first);
    if (!take_gradients(model, facts))
        return "the trace does not list the gradients";
    if (isnan(model->alone_us))
        return "too few steps were timed, or their times vary too much; train for more steps";
    take_last_words(model, facts);
    take_items(model, facts);
    return NULL;
}

struct model *
model_of_facts(const struct facts *facts, char *why, size_t size)
{
    struct model *model = xcalloc(1, sizeof(*model));
    const char *missing = take_all(model, facts);
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
    facts_find(trace, &facts);
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

/* ---- a step on other numbers of ranks: ready times as measured, the cost of an all-reduce as rings have it, buckets
 * as the planner of the engine makes them for that ---- */
/*
 * Ring: 2 (n - 1) hops, on each of them a latency and an n-th of the bytes (P. Patarasuk, X. Yuan: Bandwidth optimal
 * all-reduce algorithms for clusters of workstations, 2009).
 */

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

/* What is exposed of a step with this cost, and buckets planned for it; `bytes_kept`: thousandths of all bytes are
 * sent. False: beyond all bounds. */
static bool
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

/* ---- what a step loses, and what saves it: each by the model, never by rules of thumb. Whether steps overlap is none
 * of them: trials have tried both in the run, and decide ---- */

#define LEAST_GAIN  0.01      /* of a step */
#define LEAST_BYTES (1 << 20) /* of gradients, for --compress: half of fewer bytes saves little */

struct found {
    struct loss *losses;
    size_t count, room;
    double least_us;
};

COMPARES(greatest_first, struct loss, COMPARE(b, a, gain_us, 0))

/* Unless the gain is too small. `advice` and what follows: as of printf(). */
static void __attribute__((format(printf, 5, 6)))
add_loss(struct found *found, double gain_us, bool unmeasured, const char *what, const char *advice, ...)
{
    va_list arguments;
    if (!(gain_us >= found->least_us) || found->count == found->room)
        return;
    struct loss *loss = &found->losses[found->count++];
    *loss = (struct loss){.gain_us = gain_us, .unmeasured = unmeasured};
    snprintf(loss->what, sizeof(loss->what), "%s", what);
    va_start(arguments, advice);
    vsnprintf(loss->advice, sizeof(loss->advice), advice, arguments);
    va_end(arguments);
}

/* For one rank, or for ranks that are late in turns. */
static void
add_waiting(const struct model *model, struct found *found)
{
    if (model->straggler >= 0)
        add_loss(found, model->straggler_us, false, model->waiting,
                 "look at rank %d (%s): the load of its host, its data loader, its share of the batch, its GPU's clock",
                 model->straggler, model->straggler_host);
    else
        add_loss(found, model->waiting_us, true, model->waiting, "%s",
                 model->unbound ? "--bind core (each rank gets its own cores)"
                                : "give all ranks batches of one size, and cores without other processes");
}

/* What buckets planned from measured times leave exposed, with so many thousandths of the bytes. NAN: not known. */
static double
best_exposed(const struct model *model, unsigned bytes_kept)
{
    struct cost cost;
    double best_us;
    return model_cost(model, model->ranks, NULL, &cost) && model_exposed(model, &cost, bytes_kept, &best_us) ? best_us
                                                                                                             : NAN;
}

/* Whether the bytes of all gradients, and not the latency of an all-reduce, are most of what one of them takes. */
static bool
bytes_prevail(const struct model *model)
{
    struct cost cost;
    return model_cost(model, model->ranks, NULL, &cost) && cost_fs(&cost, model->bytes) / 2 >= cost_fs(&cost, 0);
}

static void
add_buckets(const struct model *model, struct found *found)
{
    if (model->fixed)
        add_loss(found, model->exposed_us, true, "--bucket-mb sets the size of buckets",
                 "leave --bucket-mb out: buckets are then planned from measured times");
    if (!model->narrow && model->bytes >= LEAST_BYTES && bytes_prevail(model))
        add_loss(found, fmin(model->exposed_us, best_exposed(model, model->kept)) - best_exposed(model, 500), false,
                 "the network is too slow for the gradients",
                 "--compress fp16 or bf16 sends half of the bytes, and rounds gradients");
}

size_t
model_losses(const struct model *model, struct loss *losses, size_t room)
{
    struct found found = {.losses = losses, .room = room};
    found.least_us = LEAST_GAIN * model->measured_step_us;
    if (model->ranks == 1) /* which loses nothing to others */
        return 0;
    add_waiting(model, &found);
    add_buckets(model, &found);
    SORT(losses, found.count, greatest_first);
    return found.count;
}
