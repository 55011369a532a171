/*
 * forgotten.c - do launches change memory without annotation, as they update parameters? Each rank then trains it
 * alone, and no comparison knows of it. A job says so once, with the number of these launches, and nothing ends: which
 * memory it is, and whether ranks differ there, `ddprun check` finds out.
 *
 * On rank 0, in a few steps: the first ones, others far apart, and while the program launches for long without another
 * DDP_STEP. In these steps hooks report every launch, and memory behind pointers of those that may update is copied
 * before and after, in the order of its stream. Memory that an operation changes is followed from update to update: it
 * counts where several updates in turn find what the last one has left, while gradients, and what passes between
 * layers, are overwritten in between.
 *
 * An argument of a kernel, or of a library's call, is a parameter's place if an annotated one was there while an
 * annotated gradient was another argument, the gradient's place. An operation counts if it gets memory that is
 * annotated as nothing in both places, and no annotated parameter or gradient at all. Momentum that such a kernel
 * updates is no parameter: it is seen beside an annotated one. What DDP_REDUCE gets is the program's own affair.
 *
 * What graphs do, and what is captured, is not looked at. Called by hooks in any thread, by DDP_STEP, and by the watch
 * thread.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/memory/memory.h"
#include "interpose/engine/verify/verify.h"

#include "base/message.h"

enum {
    FIRST_LOOK = 2,   /* DDP_STEPs before the steps that are looked at */
    LOOK_STEPS = 5,   /* so many of them */
    LATER = 16,       /* the next look comes after so many times as many steps */
    STEPS_NEEDED = 3, /* each of which finds what the one before has left */
    BYTES = 4096,     /* behind a pointer, at most */
    LEAST = 32,       /* bytes that an update changes: fewer are a counter or a sum */
    GAP = 64,         /* bytes that stay as they are end what was changed */
    POINTERS_AT_MOST = 16,
    PLACES_AT_MOST = 256,
    FOLLOWED_AT_MOST = 256,
    EXEMPT_AT_MOST = 1024,
    LATE_LAUNCHES = 1000, /* without a DDP_STEP, and twice as many as between two so far, begin a late look */
    LATE_PERIODS = 200,   /* of the watch thread end it */
};

/* An argument in which an annotated tensor was. */
struct place {
    uint64_t call;
    uint32_t argument;
    enum tensor_role role;
};

/* Memory in a parameter's place, around an operation; or what updates have left there, from step to step. */
struct followed {
    uint64_t call;
    uint32_t argument;
    CUdeviceptr address, gradient;
    size_t bytes;   /* that are copied; then, that updates change */
    uint64_t step;  /* of the last update */
    unsigned steps; /* each of which has changed what the one before has left */
    unsigned launches;
    char before[BYTES], after[BYTES];
};

static struct {
    pthread_mutex_t lock; /* guards all that follows it */
    struct place places[PLACES_AT_MOST];
    size_t place_count;
    struct followed *followed[FOLLOWED_AT_MOST]; /* [followed_count], in this look */
    size_t followed_count;
    struct operand exempt[EXEMPT_AT_MOST]; /* memory beside annotated parameters, or that DDP_REDUCE got */
    size_t exempt_count;
    uint64_t late_updates; /* each counts as a step */
    bool reported;

    _Atomic bool looking; /* operations are looked at */

    /* Of DDP_STEP and the watch thread, which take turns. */
    pthread_mutex_t turn;
    uint64_t launches, longest; /* that touch no gradient: so far, at the last DDP_STEP; most between two */
    _Atomic bool late;          /* the watch thread has begun a look since the last DDP_STEP */
    uint64_t begin, next;       /* the look that is under way, the next one: boundaries before */
} looks = {.lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_MUTEX_INITIALIZER, .next = FIRST_LOOK};

/* The operation of this thread, from before it to after it. */
static __thread struct {
    uint64_t call;
    const char *name;
    struct pointer {
        struct pointed pointed;
        bool annotated;
        struct tensor tensor; /* if it is annotated */
    } pointers[POINTERS_AT_MOST];
    size_t count;
    bool has_parameter, has_gradient;
    struct followed *around; /* malloc'ed: what is copied; NULL: nothing */
} current;

/* ---- before an operation: what it names ---- */

/* The first tensor that is annotated there is a place's. */
static void
add_pointer(void *arg, const struct pointed *pointed)
{
    (void)arg;
    struct pointer found = {.pointed = *pointed, .annotated = false};
    size_t count;
    engine_lock();
    const struct range *range =
        ranges_find(&memory_state.ranges, pointed->address, pointed->bytes > 0 ? pointed->bytes : 1, &count);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[range[i].id];
        current.has_parameter = current.has_parameter || tensor->role == TENSOR_PARAMETER;
        current.has_gradient = current.has_gradient || tensor->role == TENSOR_GRADIENT;
    }
    if (count > 0) {
        found.annotated = true;
        found.tensor = memory_state.tensors[range[0].id];
    }
    engine_unlock();
    if (current.count < POINTERS_AT_MOST)
        current.pointers[current.count++] = found;
}

static const struct place *
find_place(const struct pointer *pointer, enum tensor_role role)
{
    for (size_t i = 0; i < looks.place_count; ++i) {
        const struct place *place = &looks.places[i];
        if (place->call == current.call && place->argument == pointer->pointed.argument && place->role == role)
            return place;
    }
    return NULL;
}

static void
exempt(CUdeviceptr address, size_t bytes)
{
    for (size_t i = 0; i < looks.exempt_count; ++i) {
        if (looks.exempt[i].address == address)
            return;
    }
    if (looks.exempt_count < EXEMPT_AT_MOST)
        looks.exempt[looks.exempt_count++] = (struct operand){.address = address, .bytes = bytes};
}

static bool
is_exempt(CUdeviceptr address)
{
    for (size_t i = 0; i < looks.exempt_count; ++i) {
        if (address - looks.exempt[i].address < looks.exempt[i].bytes)
            return true;
    }
    return looks.exempt_count == EXEMPT_AT_MOST;
}

/* It gets annotated parameters: where, and with what beside them. */
static void
learn(void)
{
    bool has_place = false;
    for (size_t i = 0; i < current.count && current.has_gradient; ++i) {
        const struct pointer *pointer = &current.pointers[i];
        bool counts = pointer->annotated && ((pointer->tensor.role == TENSOR_PARAMETER && !pointer->pointed.is_read) ||
                                             pointer->tensor.role == TENSOR_GRADIENT);
        if (counts && find_place(pointer, pointer->tensor.role) == NULL && looks.place_count < PLACES_AT_MOST)
            looks.places[looks.place_count++] =
                (struct place){current.call, pointer->pointed.argument, pointer->tensor.role};
    }
    for (size_t i = 0; i < looks.place_count && !has_place; ++i)
        has_place = looks.places[i].call == current.call;
    for (size_t i = 0; i < current.count && has_place; ++i) {
        if (!current.pointers[i].annotated)
            exempt(current.pointers[i].pointed.address, 1);
    }
}

/* What lies behind the pointer is copied, if it is the device's. */
static struct followed *
look_behind(const struct pointer *pointer)
{
    CUdeviceptr address = pointer->pointed.address, next;
    struct memory_facts facts = device_ask_about(address);
    struct tensor tensor;
    if (facts.type != CU_MEMORYTYPE_DEVICE || facts.is_managed || facts.begin == 0 ||
        pointers_annotated(address, &tensor, &next))
        return NULL;
    CUdeviceptr end = next < facts.begin + facts.bytes ? next : facts.begin + facts.bytes;
    struct followed *it = engine_calloc(1, sizeof(*it));
    *it = (struct followed){.call = current.call,
                            .argument = pointer->pointed.argument,
                            .address = address,
                            .bytes = end - address < BYTES ? end - address : BYTES};
    return it;
}

/* The memory in a parameter's place, if it and what is in a gradient's may be such. */
static void
look_in_place(void)
{
    const struct pointer *parameter = NULL, *gradient = NULL;
    for (size_t i = 0; i < current.count; ++i) {
        const struct pointer *pointer = &current.pointers[i];
        if (pointer->annotated)
            continue;
        if (parameter == NULL && !pointer->pointed.is_read && find_place(pointer, TENSOR_PARAMETER) != NULL)
            parameter = pointer;
        else if (gradient == NULL && find_place(pointer, TENSOR_GRADIENT) != NULL)
            gradient = pointer;
    }
    if (parameter == NULL || gradient == NULL || gradient->pointed.address == parameter->pointed.address)
        return;
    current.around = look_behind(parameter);
    if (current.around != NULL)
        current.around->gradient = gradient->pointed.address;
}

static void
copy_out(const struct followed *it, char *to, CUstream stream)
{
    CUDA("copying memory of an update", cuMemcpyDtoHAsync, to, it->address, it->bytes, stream);
}

/* Between DDP_STEP and the first bucket of the next one no rank waits for another that waits for this one. */
static bool
may_wait(void)
{
    return !LOCKED(groups_have_sent());
}

/* What it names, as far as that can be seen: false if it cannot. */
static bool
look_at_names(const struct operation *operation)
{
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    if (operation->graph != NULL || operation->opaque || atomic_load(&engine_state.captures_open) > 0)
        return false;
    if (layout != NULL && !layout->known)
        return false;
    if (layout != NULL && layout->param_count > 0 && operation->params == NULL)
        return false;
    current.call = layout != NULL ? layout->call : call_identity(operation->name);
    current.name = layout != NULL ? layout->name : operation->name;
    pointers_visit(operation, layout, true, add_pointer, NULL);
    return true;
}

static void
release(void)
{
    free(current.around);
    current.around = NULL;
}

void
forgotten_begin(const struct operation *operation)
{
    if (atomic_load(&engine_state.context_ended) ||
        collectives_own_stream(&engine_state.collectives, operation->stream))
        return;
    current.count = 0;
    current.has_parameter = current.has_gradient = false;
    if (!look_at_names(operation))
        return;
    if (strncmp(operation->name, "cuMem", 5) == 0)
        return; /* copies and memsets update nothing */
    pthread_mutex_lock(&looks.lock);
    if (current.has_parameter)
        learn();
    else if (!current.has_gradient && !looks.reported)
        look_in_place();
    pthread_mutex_unlock(&looks.lock);
    if (current.around != NULL && !may_wait())
        release();
    if (current.around == NULL)
        return;
    CUcontext before = context_enter();
    copy_out(current.around, current.around->before, operation->stream);
    context_leave(before);
}

/* ---- after it: was it an update? ---- */

/* From the beginning to the first gap. */
static size_t
bytes_changed(const struct followed *it)
{
    size_t end = 0;
    for (size_t i = 0; i < it->bytes && i < end + GAP; ++i)
        end = it->before[i] != it->after[i] ? i + 1 : end;
    return end >= LEAST ? end : 0;
}

static void
report(const struct followed *it)
{
    const uint32_t argument = (1u << POINTER_WORD_SHIFT) - 1;
    if (looks.reported)
        return;
    looks.reported = true;
    message_warning("forgotten_tensor",
                    "%u launches of %s%s have changed memory without annotation (argument %u, %p), as %s updates "
                    "annotated parameters: each rank may train this memory alone. Run ddprun check: it compares it",
                    it->launches, current.name, atomic_load(&looks.late) ? " after the last DDP_STEP" : "",
                    (it->argument & argument) + 1, (void *)(uintptr_t)it->address, current.name);
}

/* With the lock held. Returns whether it is kept. */
static bool
follow(struct followed *it)
{
    for (size_t i = 0; i < looks.followed_count; ++i) {
        struct followed *kept = looks.followed[i];
        if (kept->call != it->call || kept->argument != it->argument || kept->address != it->address)
            continue;
        bool stayed = memcmp(kept->after, it->before, kept->bytes) == 0;
        if (it->bytes == 0)
            it->steps = 0;
        else if (it->step == kept->step)
            it->steps = kept->steps;
        else
            it->steps = stayed ? kept->steps + 1 : 1;
        it->launches = kept->launches + (it->bytes > 0);
        *kept = *it;
        if (it->steps >= STEPS_NEEDED && !is_exempt(it->address) && !is_exempt(it->gradient))
            report(it);
        return false;
    }
    if (it->bytes == 0 || looks.followed_count == FOLLOWED_AT_MOST)
        return false;
    it->steps = it->launches = 1;
    looks.followed[looks.followed_count++] = it;
    return true;
}

void
forgotten_end(const struct operation *operation, bool runs, bool touches)
{
    struct followed *it = current.around;
    (void)touches;
    if (it == NULL)
        return;
    if (runs) {
        CUcontext before = context_enter();
        copy_out(it, it->after, operation->stream);
        CUDA("copying memory of an update", cuStreamSynchronize, operation->stream);
        context_leave(before);
        pthread_mutex_lock(&looks.lock);
        it->step = engine_state.boundary_count + (atomic_load(&looks.late) ? ++looks.late_updates : 0);
        it->bytes = bytes_changed(it);
        current.around = follow(it) ? NULL : it;
        pthread_mutex_unlock(&looks.lock);
    }
    release();
}

void
forgotten_reduced(CUdeviceptr address, size_t bytes)
{
    if (!atomic_load_explicit(&looks.looking, memory_order_relaxed))
        return;
    pthread_mutex_lock(&looks.lock);
    exempt(address, bytes);
    pthread_mutex_unlock(&looks.lock);
}

/* ---- DDP_STEP: which steps are looked at ---- */

static void
look(bool begins, uint64_t step)
{
    functions_report_each(REPORT_FORGOTTEN, begins);
    atomic_store(&looks.looking, begins);
    watch(WATCH_FORGOTTEN, begins);
    looks.begin = step;
    pthread_mutex_lock(&looks.lock);
    while (!begins && looks.followed_count > 0)
        free(looks.followed[--looks.followed_count]);
    pthread_mutex_unlock(&looks.lock);
}

static uint64_t
count_launches(void)
{
    return __atomic_load_n(&engine_state.services->launches->count, __ATOMIC_RELAXED);
}

void
forgotten_period(void)
{
    static unsigned periods;
    pthread_mutex_lock(&looks.turn);
    periods = atomic_load(&looks.late) ? periods + 1 : 0;
    bool begins = looks.next > FIRST_LOOK && !atomic_load(&looks.looking) && periods == 0 &&
                  count_launches() > looks.launches + 2 * looks.longest + LATE_LAUNCHES;
    if (begins)
        atomic_store(&looks.late, true);
    if (begins || periods == LATE_PERIODS)
        look(begins, looks.begin);
    pthread_mutex_unlock(&looks.turn);
}

void
forgotten_step(void)
{
    uint64_t step = engine_state.boundary_count, launches = count_launches();
    if (engine_state.rendezvous.rank != 0 || (engine_state.off & OFF_FORGOTTEN) != 0)
        return;
    pthread_mutex_lock(&looks.turn);
    looks.longest = launches - looks.launches > looks.longest ? launches - looks.launches : looks.longest;
    looks.launches = launches;
    if (atomic_exchange(&looks.late, false))
        look(false, looks.begin);
    bool looking = atomic_load(&looks.looking);
    if (looking && step >= looks.begin + LOOK_STEPS)
        look(looking = false, step);
    if (!looking && step >= looks.next) {
        while (looks.next <= step)
            looks.next *= LATER;
        look(true, step);
    }
    pthread_mutex_unlock(&looks.turn);
}
