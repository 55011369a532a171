/*
 * model.c - a model of a step, from a trace.
 *
 * What a step takes, and waits for, are the facts of the trace (tools/trace/facts.h). When gradients are ready, and
 * what an all-reduce costs, the engine has measured in the run (lines "ready" and "all_reduce_ns").
 */
#include "tools/predict/model.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"
#include "tools/common/range.h"

#include <json-c/json.h>

#include <math.h>

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
