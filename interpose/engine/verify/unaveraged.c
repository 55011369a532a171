/*
 * unaveraged.c - does the program train without anything being averaged: because nothing is annotated, or because no
 * DDP_STEP comes?
 *
 * Until the first DDP_STEP the parameters are looked at as often as the kernels' work on gradients has doubled: a
 * sample of each is hashed on the stream of that work, so that a look stands at one point of the program. Gradients may
 * be accumulated for as long as a program likes; parameters change between two looks only if something updates them. A
 * change is a warning, for a program may annotate its parameters and then initialise them; a parameter that has changed
 * again at the next look ends the job. At the end, and before a parameter's memory goes, there is a last look.
 *
 * A program that calls DDP_REDUCE and annotates no gradient needs no DDP_STEP: nothing is said of it.
 *
 * What is found stands in the status record at once: a program that leaves by _exit() is judged by the launcher. Called
 * by hooks in any thread; after the first DDP_STEP each function is a test of a flag. Nothing of this is done in a
 * world of one, with --unannotated, or where an observer has switched it off (OFF_UNAVERAGED).
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"
#include "base/message.h"

#include <ctype.h>

enum { LAUNCHES_UNANNOTATED = 1000 }; /* for which an annotation may be waited for, besides a time */

static struct {
    _Atomic bool over;          /* a DDP_STEP came, or there is nothing to look for */
    _Atomic bool looking;       /* a look is on its way */
    _Atomic uint64_t work;      /* operations after which parameters may have changed */
    _Atomic uint64_t next_look; /* at so many of them */

    /* What changed first, for the watch thread to say; guarded by the lock. */
    struct tensor tensor;
    uint64_t launches;
    bool changed, said;
    bool may_be_right; /* its group has no gradients: DDP_STEP_PARAMETERS may come */

    int64_t wait_ms;         /* from the first launch until a missing annotation is reported */
    int64_t first_launch_ms; /* the watch thread's */
} course;

/* One parameter that is being looked at. */
struct look {
    CUdeviceptr address;
    bool is_last; /* the program ends, or the parameter's memory goes */
};

void
unaveraged_open(int64_t wait_ms)
{
    course.wait_ms = wait_ms;
    atomic_store(&course.next_look, 1);
    atomic_store(&engine_state.status->unannotated, engine_state.options.unannotated);
    atomic_store(&course.over, engine_state.rendezvous.world_size == 1 || engine_state.options.unannotated ||
                                   (engine_state.off & OFF_UNAVERAGED) != 0);
    watch(WATCH_UNAVERAGED, !atomic_load(&course.over));
}

void
unaveraged_step(void)
{
    atomic_store_explicit(&course.over, true, memory_order_relaxed);
    watch(WATCH_UNAVERAGED, false);
}

static uint64_t
count_launches(void)
{
    return atomic_load(&engine_state.status->reported_launch_count) +
           __atomic_load_n(&engine_state.services->launches->count, __ATOMIC_RELAXED);
}

/* ---- a look ---- */

/* With lock held: the parameter at this address, or NULL. */
static struct tensor *
find_parameter(CUdeviceptr address) WITH_LOCK
{
    struct tensor *tensor = tensor_at(address);
    return tensor != NULL && tensor->role == TENSOR_PARAMETER && tensor->address == address ? tensor : NULL;
}

/* With lock held: how often it has now changed from look to look. */
static unsigned
note_hash(struct tensor *tensor, uint64_t hash) WITH_LOCK
{
    bool changed = tensor->looked_at && tensor->look_hash != hash;
    tensor->changes = changed ? tensor->changes + 1 : 0;
    tensor->look_hash = hash;
    tensor->looked_at = true;
    if (changed && !course.changed) {
        course.changed = true;
        course.may_be_right = !group_has(tensor->group, false);
        course.tensor = *tensor;
        course.launches = count_launches();
    }
    if (changed)
        atomic_fetch_add(&engine_state.status->changed_count, 1);
    return tensor->changes;
}

static bool
has_gradients(void)
{
    return atomic_load(&engine_state.status->gradient_count) > 0;
}

/* The program reduces what it likes by DDP_REDUCE, and averages no gradients: it changes its parameters itself. */
static bool
reduces_only(void)
{
    return atomic_load(&engine_state.status->reduce_count) > 0 && !has_gradients();
}

/* In a host function. What came before a DDP_STEP on its stream may come here after it. */
static void
compare(void *arg, const struct hashed *hashed)
{
    struct look *look = arg;
    unsigned changes = 0;
    struct tensor copy = {.role = TENSOR_PARAMETER, .site = {"?", "?", 0}};
    engine_lock();
    struct tensor *tensor = find_parameter(look->address);
    bool of_gradients = tensor != NULL && group_has(tensor->group, false);
    if (tensor != NULL) {
        changes = note_hash(tensor, hashed->hash);
        copy = *tensor;
    }
    engine_unlock();
    /* Others may be for DDP_STEP_PARAMETERS, before which backward updates them. */
    bool decides = !look->is_last && !atomic_load(&course.over) && of_gradients;
    if (changes >= 2 && decides)
        stop_job_soon(1,
                      "%s has changed twice in %llu kernel launches without a DDP_STEP: nothing is averaged, and each "
                      "rank trains alone; call DDP_STEP after each backward pass, before the optimizer (man ddprun.h), "
                      "or give --unannotated",
                      tensor_text(&copy), (unsigned long long)count_launches());
    free(look);
}

static void
look_at_tensor(struct hasher *hasher, const struct tensor *tensor, bool is_last)
{
    struct look *look = engine_calloc(1, sizeof(*look));
    *look = (struct look){tensor->address, is_last};
    if (tensor->kind == MEMORY_HOST) {
        if (!hasher_add_host(hasher, tensor->address, tensor->bytes, true, tensor->type, compare, look))
            free(look); /* it may have been freed, unseen */
        return;
    }
    hasher_add_sample(hasher, tensor->address, tensor->bytes, compare, look);
}

/* The parameters in [begin, end) that have memory, malloc'ed; NULL: there are none. `is_last`: the host's own are left
 * out, for the program may have freed them, unseen. */
static struct tensor *
list_parameters(CUdeviceptr begin, CUdeviceptr end, bool is_last, size_t *count_p)
{
    size_t count = 0;
    engine_lock();
    struct tensor *list =
        memory_state.parameter_count > 0 ? malloc(memory_state.parameter_count * sizeof(*list)) : NULL;
    for (size_t i = 0; list != NULL && i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        if (tensor->role == TENSOR_PARAMETER && tensor->placed && tensor->address < end &&
            tensor->address + tensor->bytes > begin && !(is_last && tensor->kind == MEMORY_HOST))
            list[count++] = *tensor;
    }
    engine_unlock();
    *count_p = count;
    return list;
}

/* ---- while the program runs ---- */

static void CUDA_CB
end_look(void *hasher)
{
    hasher_put(hasher);
    atomic_store(&course.looking, false);
}

static void
look_in_order_of(CUstream stream)
{
    size_t count;
    struct tensor *list = list_parameters(0, UINT64_MAX, false, &count);
    struct hasher *hasher = hasher_get();
    for (size_t i = 0; i < count; ++i)
        look_at_tensor(hasher, &list[i], false);
    hasher_collect(hasher, stream);
    CUDA("cuLaunchHostFunc", cuLaunchHostFunc, stream, end_look, hasher);
    free(list);
}

/* It runs kernels of the trainer's, or of a library. */
static bool
is_work(const struct operation *operation)
{
    const char *name = operation->name; /* the driver's begin with "cu" and a capital */
    return operation->function != NULL || operation->graph != NULL || strncmp(name, "cu", 2) != 0 ||
           islower((unsigned char)name[2]);
}

/* While something is captured no host function may get into a graph. */
static void
worked(CUstream stream)
{
    uint64_t work = atomic_fetch_add(&course.work, 1) + 1;
    if (has_gradients())
        atomic_fetch_add(&engine_state.status->gradient_work, 1);
    if (work < atomic_load(&course.next_look) || !atomic_load(&engine_state.collectives_ready) ||
        atomic_load(&engine_state.captures_open) > 0 || atomic_exchange(&course.looking, true))
        return;
    atomic_store(&course.next_look, 2 * work);
    look_in_order_of(stream);
}

void
unaveraged_ended(const struct operation *operation, bool runs, bool touches)
{
    if (!runs || atomic_load_explicit(&course.over, memory_order_relaxed) || !is_work(operation))
        return;
    /* Deferred gradients are reached unseen; and where none is annotated, there is nothing to see. */
    if (touches || !has_gradients() || atomic_load_explicit(&memory_state.any_escaped, memory_order_relaxed))
        worked(operation->stream);
}

void
unaveraged_launched(const struct operation *operation)
{
    if (!atomic_load_explicit(&course.over, memory_order_relaxed) && is_work(operation))
        atomic_fetch_add_explicit(&engine_state.status->reported_launch_count, 1, memory_order_relaxed);
}

/* ---- looks that the host waits for ---- */

static bool
may_look(void)
{
    return !atomic_load(&course.over) && atomic_load(&engine_state.collectives_ready) &&
           !atomic_load(&engine_state.device_closed) && !atomic_load(&engine_state.context_ended) &&
           atomic_load(&engine_state.captures_open) == 0; /* waiting for the whole device would break them */
}

/* The issuer. */
static void
look_and_wait(const struct tensor *list, size_t count, bool is_last) BY_ISSUER
{
    struct hasher *hasher = hasher_get();
    CUstream stream = first_stream();
    for (size_t i = 0; i < count; ++i)
        look_at_tensor(hasher, &list[i], is_last);
    hasher_collect(hasher, stream);
    CUDA("hashing parameters", cuStreamSynchronize, stream);
    hasher_put(hasher);
}

void
unaveraged_annotated(const struct tensor *parameter)
{
    issuer_lock();
    atomic_store(&engine_state.status->parameter_count, memory_state.parameter_count);
    issuer_unlock();
    if (may_look())
        look_and_wait(parameter, 1, false);
}

void
unaveraged_last_look(CUdeviceptr begin, CUdeviceptr end)
{
    size_t count;
    struct tensor *list = may_look() ? list_parameters(begin, end, true, &count) : NULL;
    if (list == NULL || count == 0) {
        free(list);
        return;
    }
    CUcontext before = context_enter();
    context_synchronize("before a parameter is looked at");
    role_take();
    look_and_wait(list, count, true);
    role_give();
    context_leave(before);
    free(list);
}

/* ---- what is said ---- */

static void
tell_change(void)
{
    engine_lock();
    bool tells = course.changed && !course.said && !course.may_be_right;
    struct tensor tensor = course.tensor;
    uint64_t launches = course.launches;
    course.said = course.said || tells;
    engine_unlock();
    if (tells && !reduces_only())
        message_warning(
            "changed_before_step",
            "%s changed between DDP_PARAMETER and the first DDP_STEP (%llu kernel launches "
            "so far): annotate parameters after their initialisation; if this is training, DDP_STEP is missing, "
            "and the next change ends the job",
            tensor_text(&tensor), (unsigned long long)launches);
}

void
unaveraged_refuse_end(void)
{
    if (engine_state.rendezvous.rank == 0 && engine_state.boundary_count > 0)
        tell_change(); /* the watch thread may not have got to it */
    if (atomic_load(&course.over) || engine_state.boundary_count > 0 || reduces_only())
        return;
    unaveraged_last_look(0, UINT64_MAX);
    engine_lock();
    bool changed = course.changed;
    bool comparable = false; /* there are parameters at which the last look was */
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        comparable = comparable ||
                     (memory_state.tensors[i].role == TENSOR_PARAMETER && memory_state.tensors[i].kind != MEMORY_HOST);
    size_t gradients = memory_state.gradient_count;
    struct tensor tensor = course.tensor;
    engine_unlock();
    const char *unknown;
    uint64_t launches = count_launches() + engine_state.services->unknown_calls(&unknown);
    if (changed)
        stop_job("%s has changed since it was annotated, and the program ended without a DDP_STEP: "
                 "nothing was averaged; call DDP_STEP after each backward pass (DDP_STEP_PARAMETERS after each update, "
                 "where there are no gradients), annotate parameters after their initialisation "
                 "(man ddprun.h), or give --unannotated",
                 tensor_text(&tensor));
    if (!comparable && gradients > 0)
        stop_job("%zu gradients are annotated, and the program ended without a DDP_STEP: nothing was averaged; call it "
                 "after each backward pass (man ddprun.h), or give --unannotated",
                 gradients);
    if (!comparable && gradients == 0 && launches > 0)
        stop_job(
            "the program launched %llu kernels and ended without a DDP_STEP: nothing is annotated, and nothing was "
            "averaged; annotate it (man ddprun.h), give --unannotated, or run it without ddprun, in a script "
            "as LD_PRELOAD= program",
            (unsigned long long)launches);
}

static void
tell_unannotated(void)
{
    static bool said;
    uint64_t launches = count_launches();
    if (launches == 0 || said)
        return;
    int64_t now_ms = clock_now_ms();
    if (course.first_launch_ms == 0)
        course.first_launch_ms = now_ms;
    if (launches < LAUNCHES_UNANNOTATED || now_ms - course.first_launch_ms < course.wait_ms)
        return;
    said = true;
    bool annotated = LOCKED(engine_state.tensor_count > 0);
    if (!annotated && !reduces_only())
        message_warning("no_annotation",
                        "no annotation (ddprun.h) in %llu kernel launches: %d ranks train side by side, and nothing is "
                        "averaged; annotate it (`ddprun scout --patch FILE` writes lines), or give --unannotated",
                        (unsigned long long)launches, engine_state.rendezvous.world_size);
}

void
unaveraged_tell(void)
{
    if (engine_state.rendezvous.rank != 0)
        return;
    tell_change();
    if (!atomic_load_explicit(&course.over, memory_order_relaxed))
        tell_unannotated();
}
