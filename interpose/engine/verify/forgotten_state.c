/*
 * forgotten_state.c - does the optimizer keep state that is annotated as nothing? With --sync-every each rank then goes
 * on with state of its own, beside parameters that are the mean of all ranks'.
 *
 * On rank 0, for two steps: around each operation that gets a pointer into a parameter, memory behind its pointers is
 * copied, in the order of its stream. An operation that changes the parameter is an update. What else it changes is
 * state if the next step's update finds it as this one has left it: gradients and what passes between layers are
 * overwritten in between. An update inside backward may also write what passes to the layer before, so that without an
 * annotated gradient among its pointers only an allocation of the parameter's size counts. The first that is found is
 * reported, and nothing ends: memory that the update writes, and never reads, looks the same.
 *
 * Hooks call it in runs with --sync-every and without an outer step, in any thread. What is captured, and what graphs
 * do, is not looked at.
 */
#include "interpose/engine/memory/memory.h"
#include "interpose/engine/verify/verify.h"

#include "base/message.h"
#include "base/mutant.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_STEP = 2, /* boundaries before the step that is looked at; the one behind it is compared */
    BYTES = 4096,   /* behind a pointer, at most */
    LEAST = 64,     /* elements of a parameter: the state of a smaller one is not told from a counter */
    POINTERS_AT_MOST = 16,
    KEPT_AT_MOST = 256,
};

/* Memory behind one pointer of an operation. */
struct piece {
    uint64_t call;
    const char *name;
    uint32_t argument;
    CUdeviceptr address;
    size_t bytes, allocation; /* bytes: that are copied */
    bool is_parameter;
    size_t count; /* elements of the parameter */
    size_t parameter_bytes;
    char before[BYTES], after[BYTES];
};

/* The operation of this thread, from before it to after it. */
static __thread struct {
    struct piece *pieces; /* [count]; NULL: it is not looked at */
    size_t count;
    bool has_gradient;
} current;

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *kept[KEPT_AT_MOST]; /* [kept_count]: what updates of the first step have changed; kept_lock */
static size_t kept_count;
static _Atomic bool over;

static void
copy_out(void *to, const struct piece *piece, CUstream stream)
{
    require_cuda(engine_state.driver.cuMemcpyDtoHAsync_p(to, piece->address, piece->bytes, stream),
                 "copying memory of an update");
}

static void
wait_for(CUstream stream)
{
    require_cuda(engine_state.driver.cuStreamSynchronize_p(stream), "copying memory of an update");
}

/* ---- before an operation ---- */

static void
add_piece(void *arg, const struct pointed *pointed)
{
    const struct function_layout *layout = arg;
    struct tensor tensor;
    CUdeviceptr next;
    bool annotated = pointers_annotated(pointed->address, &tensor, &next);
    current.has_gradient = current.has_gradient || (annotated && tensor.role == TENSOR_GRADIENT);
    if (current.count == POINTERS_AT_MOST || (annotated && tensor.role != TENSOR_PARAMETER))
        return;
    struct memory_facts facts = device_ask_about(pointed->address);
    if (facts.type != CU_MEMORYTYPE_DEVICE || facts.is_managed || facts.begin == 0)
        return;
    CUdeviceptr end = annotated ? tensor.address + tensor.bytes : facts.begin + facts.bytes;
    end = !annotated && next < end ? next : end;
    struct piece *piece = &current.pieces[current.count++];
    *piece = (struct piece){.call = layout != NULL ? layout->call : 0,
                            .name = layout != NULL ? layout->name : NULL,
                            .argument = pointed->argument,
                            .address = pointed->address,
                            .bytes = end - pointed->address < BYTES ? end - pointed->address : BYTES,
                            .allocation = facts.begin == pointed->address ? facts.bytes : 0,
                            .is_parameter = annotated,
                            .count = annotated ? tensor.count : 0,
                            .parameter_bytes = annotated ? tensor.bytes : 0};
}

/* Reports, once, if an update finds what the update of the step before has left. */
static void
compare(const struct operation *operation)
{
    pthread_mutex_lock(&kept_lock);
    for (size_t i = 0; i < current.count; ++i) {
        struct piece *piece = &current.pieces[i];
        for (size_t k = 0; k < kept_count && !atomic_load(&over); ++k) {
            if (kept[k]->call != piece->call || kept[k]->address != piece->address ||
                (memcmp(kept[k]->after, piece->before, kept[k]->bytes) != 0 && !MUTANT(FORGOTTEN_STATE_UNCOMPARED)))
                continue;
            atomic_store(&over, true);
            message_warning(
                "forgotten_state",
                "--sync-every: %s updates parameters, and keeps values from one update to the next in memory "
                "that is annotated as nothing, %p, its argument %u: each rank has values of its own there, "
                "and parameters are averaged. Annotate optimizer state with DDP_STATE, or give --outer-lr",
                piece->name != NULL ? piece->name : operation->name, (void *)(uintptr_t)piece->address,
                (piece->argument & ((1u << POINTER_WORD_SHIFT) - 1)) + 1);
        }
    }
    pthread_mutex_unlock(&kept_lock);
}

/* The steps are over. */
static void
finish_forgotten(void)
{
    atomic_store(&over, true);
    pthread_mutex_lock(&kept_lock);
    for (size_t i = 0; i < kept_count; ++i)
        free(kept[i]);
    kept_count = 0;
    pthread_mutex_unlock(&kept_lock);
}

void
forgotten_state_begin(const struct operation *operation)
{
    const struct function_layout *layout;
    uint64_t step = engine_state.boundary_count;
    current.pieces = NULL;
    if (atomic_load_explicit(&over, memory_order_relaxed) || step < FIRST_STEP)
        return;
    if (step > FIRST_STEP + 1) {
        finish_forgotten();
        return;
    }
    /* NCCL's own launches, where they pass the hooks, wait for other ranks. */
    if (collectives_own_stream(&engine_state.collectives, operation->stream) ||
        !pointers_may_update(operation, &layout))
        return;
    current.count = 0;
    current.has_gradient = false;
    current.pieces = engine_calloc(POINTERS_AT_MOST, sizeof(*current.pieces));
    CUcontext before = context_enter();
    pointers_visit(operation, layout, add_piece, (void *)(uintptr_t)layout);
    bool any = false;
    for (size_t i = 0; i < current.count; ++i)
        any = any || current.pieces[i].is_parameter;
    for (size_t i = 0; any && i < current.count; ++i)
        copy_out(current.pieces[i].before, &current.pieces[i], operation->stream);
    if (any && step == FIRST_STEP + 1) {
        wait_for(operation->stream);
        compare(operation);
    }
    context_leave(before);
    if (any && step == FIRST_STEP)
        return;
    free(current.pieces);
    current.pieces = NULL;
}

/* ---- after it ---- */

static size_t
count_changes(const struct piece *piece, size_t bytes)
{
    size_t changes = 0;
    for (size_t i = 0; i < bytes; ++i)
        changes += piece->before[i] != piece->after[i];
    return changes;
}

/* Of the parameters that it has changed the one with the fewest elements; NULL if it has changed none. */
static const struct piece *
smallest_updated(void)
{
    const struct piece *smallest = NULL;
    for (size_t i = 0; i < current.count; ++i) {
        const struct piece *piece = &current.pieces[i];
        if (piece->is_parameter && count_changes(piece, piece->bytes) > 0 &&
            (smallest == NULL || piece->count < smallest->count))
            smallest = piece;
    }
    return smallest;
}

/* Whether an allocation of `bytes` may be all state of a parameter, in its type or in float32. */
static bool
is_of_size(size_t bytes, const struct piece *parameter)
{
    size_t wide = parameter->count * sizeof(float);
    return (bytes >= parameter->parameter_bytes && bytes - parameter->parameter_bytes < 512) ||
           (bytes >= wide && bytes - wide < 512);
}

static void
keep_changes(const struct piece *parameter)
{
    size_t least = parameter->count < BYTES ? parameter->count : BYTES; /* a byte for each element */
    pthread_mutex_lock(&kept_lock);
    for (size_t i = 0; i < current.count && kept_count < KEPT_AT_MOST; ++i) {
        const struct piece *piece = &current.pieces[i];
        if (piece->is_parameter || piece->bytes < least || count_changes(piece, least) < least / 2 ||
            !(current.has_gradient || is_of_size(piece->allocation, parameter)))
            continue;
        struct piece *copy = engine_calloc(1, sizeof(*copy));
        *copy = *piece;
        copy->bytes = least;
        kept[kept_count++] = copy;
    }
    pthread_mutex_unlock(&kept_lock);
}

void
forgotten_state_end(const struct operation *operation, bool enqueued)
{
    if (current.pieces == NULL)
        return;
    if (enqueued) {
        CUcontext before = context_enter();
        for (size_t i = 0; i < current.count; ++i)
            copy_out(current.pieces[i].after, &current.pieces[i], operation->stream);
        wait_for(operation->stream);
        context_leave(before);
        const struct piece *parameter = smallest_updated();
        if (parameter != NULL && parameter->count >= LEAST)
            keep_changes(parameter);
    }
    free(current.pieces);
    current.pieces = NULL;
}
