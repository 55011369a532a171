/*
 * turn_updates.c - does the host count batches where it means updates?
 *
 * The host's part of an update runs in each batch: Adam's step counts N times an update, unless it stands under
 * if (DDP_TURN_UPDATES()). The launches after DDP_STEP show it, whether they are made or left out: a number among their
 * arguments changes from each batch to the next. Of a counter of updates it stays the same within a round. So does a
 * pointer to annotated memory that the host exchanges. Pointers to other memory may change: batches lie there.
 *
 * Rank 0 reports it once, and the job goes on: a rate's schedule may be meant so. Called by turns.c, and by turn_work.c
 * for each operation of a region.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/step/turns.h"

#include "base/message.h"

enum { LAUNCHES_KEPT = 32, PARAMS_KEPT = 16 };

/* A launch of the update, as it last was. */
struct update_launch {
    CUfunction function;
    CUdeviceptr gradient; /* the first that it names; one launch in a batch has this function and this gradient */
    uint64_t params[PARAMS_KEPT];
    uint64_t batch;
};

/* The region's thread's. */
static struct update_launch launches[LAUNCHES_KEPT];
static size_t launch_count;
static bool is_update;  /* DDP_STEP of the region has come */
static uint64_t batch;  /* so many had a DDP_STEP */
static uint64_t in_row; /* batches, each of which has other numbers than the one before */
static bool any_same, any_other;

/* Where a number has changed. */
static const char *changed_kernel;
static unsigned changed_argument;

void
turn_update_begins(void)
{
    is_update = true;
    any_same = any_other = false;
    ++batch;
}

void
turn_update_ends(const struct ddp_site *step)
{
    static bool reported;
    const uint64_t least = 2 * (uint64_t)engine_state.rendezvous.world_size + 2;
    is_update = false;
    if (any_same || any_other)
        in_row = any_other ? in_row + 1 : 0;
    if (in_row < least || reported || engine_state.rendezvous.rank != 0)
        return;
    reported = true;
    message_warning(
        "counted_in_turns",
        "argument %u of kernel %s, after DDP_STEP (%s:%d), changes in every batch, also in those that make "
        "no update. If the host counts updates there, as Adam's step and a rate's schedule do, it counts %d "
        "times as many: let it count where DDP_TURN_UPDATES() is not 0",
        changed_argument, changed_kernel, file_name_of(step->file), step->line, engine_state.rendezvous.world_size);
}

static bool
is_annotated(uint64_t address, bool as_gradient)
{
    struct tensor tensor;
    CUdeviceptr next;
    return pointers_annotated(address, &tensor, &next) && (!as_gradient || tensor.role == TENSOR_GRADIENT);
}

/* The parameters of at most a word, as numbers. Returns how many there are. */
static unsigned
read_params(const struct operation *operation, const struct function_layout *layout, uint64_t params[PARAMS_KEPT])
{
    unsigned count = layout->param_count < PARAMS_KEPT ? layout->param_count : PARAMS_KEPT;
    for (unsigned i = 0; i < count; ++i) {
        const void *value = pointers_argument(operation, layout, i);
        const size_t bytes = layout->params[i].bytes;
        params[i] = 0;
        if (value != NULL && bytes <= sizeof(params[i]))
            memcpy(&params[i], value, bytes);
    }
    return count;
}

static CUdeviceptr
gradient_among(const uint64_t *params, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        if (params[i] != 0 && is_annotated(params[i], true))
            return params[i];
    }
    return 0;
}

static struct update_launch *
launch_of(CUfunction function, CUdeviceptr gradient)
{
    for (size_t i = 0; i < launch_count; ++i) {
        if (launches[i].function == function && launches[i].gradient == gradient)
            return &launches[i];
    }
    if (launch_count == LAUNCHES_KEPT)
        return NULL;
    launches[launch_count] = (struct update_launch){.function = function, .gradient = gradient};
    return &launches[launch_count++];
}

/* Whether the two are numbers, or pointers to annotated memory. */
static bool
is_of_update(uint64_t before, uint64_t now)
{
    if (is_annotated(before, false) && is_annotated(now, false))
        return true;
    return device_ask_about(before).type == 0 && device_ask_about(now).type == 0;
}

/* Whether an argument is another one than in the batch before. */
static bool
has_changed(const struct update_launch *before, const struct function_layout *layout, const uint64_t *params,
            unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        if (params[i] == before->params[i] || !is_of_update(before->params[i], params[i]))
            continue;
        changed_kernel = layout->name;
        changed_argument = i + 1;
        return true;
    }
    return false;
}

void
turn_update_launched(const struct operation *operation)
{
    if (!is_update || operation->function == NULL || engine_state.rendezvous.rank != 0)
        return;
    const struct function_layout *layout = function_layout(operation->function);
    uint64_t params[PARAMS_KEPT];
    const unsigned count = layout->known ? read_params(operation, layout, params) : 0;
    const CUdeviceptr gradient = gradient_among(params, count);
    struct update_launch *launch = gradient != 0 ? launch_of(operation->function, gradient) : NULL;
    if (launch == NULL || launch->batch == batch)
        return;
    if (launch->batch + 1 == batch) {
        const bool other = has_changed(launch, layout, params, count);
        any_other = any_other || other;
        any_same = any_same || !other;
    }
    memcpy(launch->params, params, count * sizeof(params[0]));
    launch->batch = batch;
}
