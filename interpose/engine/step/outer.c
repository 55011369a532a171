/*
 * outer.c - --outer-lr and --outer-momentum: behind an average of --sync-every all ranks make the same outer step
 * (comm/wire.h) from the parameters as the outer step before has left them, the anchor.
 *
 * The anchor begins where DDP_PARAMETER stands, as the parameters that all ranks take from rank 0, and again where a
 * parameter is annotated again. Called by annotate.c and boundary.c; DDP_SYNC averages without an outer step, so the
 * next one counts from the same anchor.
 */
#include "interpose/engine/step/step.h"

#include "comm/wire.h"

static struct outer_rule
own_rule(void)
{
    return (struct outer_rule){engine_state.options.outer_rate, engine_state.options.outer_momentum};
}

/* With rate 1, and no momentum, an outer step leads to the mean: then nothing is kept and nothing is computed. */
static bool
keeps_anchors(void)
{
    struct outer_rule rule = own_rule();
    return engine_state.options.has_outer && (rule.rate != 1 || rule.momentum != 0);
}

static struct outer_values
values_of(const struct tensor *tensor, CUdeviceptr values)
{
    return (struct outer_values){
        .values = values, .kept = tensor->anchor, .count = tensor->count, .type = type_nccl(tensor->type)};
}

void
outer_annotated(const struct tensor *tensor)
{
    struct comm_error error;
    struct outer_rule rule = own_rule();
    if (!keeps_anchors() || tensor->role != TENSOR_PARAMETER)
        return;
    struct outer_values values = values_of(tensor, host_memory_load(tensor));
    size_t bytes = outer_bytes(&values, &rule);
    if (values.kept == 0) {
        values.kept = device_allocate(bytes, "cuMemAlloc for the anchor of an outer step");
        issuer_lock();
        struct tensor *of = tensor_find(tensor->role, tensor->index);
        if (of != NULL)
            of->anchor = values.kept;
        issuer_unlock();
        atomic_fetch_add(&engine_state.status->outer_bytes, bytes);
    }
    if (!outer_begin(&values, &rule, &engine_state.collectives.setting, first_stream(), &error))
        stop_job_by(error.cause, "%s: %s", tensor_text(tensor), error.text);
    streams_wait_for_buckets(); /* before the program goes on to change them */
}

void
outer_after_average(const struct group *group)
{
    struct comm_error error;
    struct outer_rule rule = own_rule();
    if (!keeps_anchors())
        return;
    for (size_t i = 0; i < group->gradient_count; ++i) {
        struct tensor tensor = tensor_copy_gradient(group, i);
        struct outer_values values = values_of(&tensor, tensor_on_device(&tensor));
        if (!outer_step(&values, &rule, &engine_state.collectives.setting, first_stream(), &error))
            stop_job_by(error.cause, "%s: %s", tensor_text(&tensor), error.text);
    }
}

void
outer_forget(const struct tensor *tensor)
{
    if (tensor->anchor == 0)
        return;
    struct outer_values values = values_of(tensor, 0);
    struct outer_rule rule = own_rule();
    CUDA("cuMemFree of an anchor", cuMemFree, tensor->anchor);
    atomic_fetch_sub(&engine_state.status->outer_bytes, outer_bytes(&values, &rule));
}
