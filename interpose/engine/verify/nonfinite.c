/*
 * nonfinite.c - which rank was the first to have an infinite element or NaN in a gradient, before all ranks have it?
 *
 * Kernels look at what is sent (comm/kernels/nonfinite.h) and leave what they find in pinned memory, which the host
 * reads when it comes by: nothing waits for that. Where losses are scaled, infinite gradients are normal, and the
 * program leaves out the update. So a finding counts only if it stays: at the next boundary of its group, after the
 * update, a parameter is not finite that was finite before the first step. That holds for all types of gradients, and
 * nothing must be known of the program. What DDP_STEP_PARAMETERS averages are the parameters themselves: there it
 * counts at once. The launcher reads the findings of all ranks, and names the first (launcher/watch/nonfinite.c).
 *
 * In a CUDA graph the kernels are nodes, with the same arguments at each launch: the number of the step lies in device
 * memory, where it is written before each launch. They look at each launch, also while nothing is to be found, and then
 * find the claim taken.
 *
 * With --stop-on-nan a finding that stays ends the job at the boundary that shows it: no rank returns from it. There
 * the host first waits for the averages of the boundary before, which the device has done in most cases, so that the
 * findings of all steps before are known; and then the ranks tell each other whether one of them has judged that a
 * finding stays. All of what is sent is looked at. Of the step that follows an update which was left out, gradients are
 * not looked at: NaN from there is found a step later, in all ranks.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/verify/verify.h"

#include "comm/kernels/nonfinite.h"

/* Boundaries without a look after findings that did not stay: in turn 0, 1, 2, ... up to this. Each takes a pass over
 * the parameters. */
enum { PAUSE_AT_MOST = 16 };

enum phase {
    OFF,     /* nothing is looked at, or no more */
    LOOKS,   /* buckets are looked at */
    FOUND,   /* and an element was found */
    ASKS,    /* the parameters are being looked at */
    DROPPED, /* they are finite */
};

/* What is compared across ranks (tensor_compared()); written by host functions in the communication stream's order. */
struct parameter_look {
    bool was_finite, is_finite;
};

static struct {
    pthread_mutex_t lock; /* of `phase`; taken before the engine's, and by host functions */
    enum phase phase;
    int group;     /* FOUND: of the tensor, */
    uint64_t step; /* and the number of its boundary, from 1 */

    /* ---- the issuer ---- */
    CUdeviceptr claim;
    CUdeviceptr launches;          /* struct nonfinite_launch[GROUPS_AT_MOST] */
    struct nonfinite_found *found; /* pinned */
    struct hasher *hasher;
    struct parameter_look *parameters; /* [count], as they were when the annotations last changed */
    size_t count;
    bool known, begins;           /* `was_finite` is; it is to be found at this boundary */
    bool due;                     /* parameters are looked at, at this boundary */
    bool asks;                    /* because of a finding */
    uint64_t dropped, dropped_at; /* how often, and boundaries passed when it was last noticed; 0: it is not yet */
} nonfinite = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum phase
phase_now(void)
{
    pthread_mutex_lock(&nonfinite.lock);
    enum phase phase = nonfinite.phase;
    pthread_mutex_unlock(&nonfinite.lock);
    return phase;
}

static void
set_phase(enum phase phase)
{
    pthread_mutex_lock(&nonfinite.lock);
    nonfinite.phase = phase;
    pthread_mutex_unlock(&nonfinite.lock);
}

/* ---- preparation ---- */

static bool
ends_job(void)
{
    return engine_state.options.stop_on_nan;
}

static enum rank_nonfinite
state_of_what_stays(void)
{
    return ends_job() ? RANK_NONFINITE_ENDS : RANK_NONFINITE_STAYS;
}

/* For the user, once. */
static void
say_blindness(void)
{
    static bool said;
    if (!ends_job() || said)
        return;
    said = true;
    message_warning("stop_on_nan",
                    "rank %d: --stop-on-nan ends the job only for a DDP_MEAN that is NaN: ddprun has no kernels for "
                    "this device, and looks at no gradients",
                    engine_state.rendezvous.rank);
}

static void
make_memory(void)
{
    static const char what[] = "cuMemAlloc for a look at gradients";
    RELAX_CAPTURES();
    nonfinite.claim = device_allocate(sizeof(uint32_t), what);
    nonfinite.launches = device_allocate(sizeof(struct nonfinite_launch[GROUPS_AT_MOST]), what);
    nonfinite.found = device_allocate_pinned(sizeof(*nonfinite.found));
    memset(nonfinite.found, 0, sizeof(*nonfinite.found));
    CUDA("cuMemsetD8Async", cuMemsetD8Async, nonfinite.claim, 0, sizeof(uint32_t), first_stream());
    CUDA("preparing a look at gradients", cuStreamSynchronize, first_stream());
}

/* What is on its way is waited for, as where ranks have agreed. */
static void
make_room_for_looks(size_t count)
{
    if (nonfinite.parameters != NULL)
        CUDA("waiting for a look at parameters", cuStreamSynchronize, first_stream());
    free(nonfinite.parameters);
    nonfinite.parameters = engine_calloc(count + 1, sizeof(*nonfinite.parameters));
    nonfinite.count = count;
    nonfinite.known = false;
}

void
nonfinite_prepare(void)
{
    if (!engine_state.collectives.setting.kernels.loaded || (engine_state.off & OFF_NONFINITE) != 0) {
        say_blindness();
        return;
    }
    if (nonfinite.found == NULL) {
        make_memory();
        nonfinite.hasher = hasher_get();
        set_phase(LOOKS);
        watch(WATCH_NONFINITE, true);
    }
    size_t count = tensor_compared_count();
    if (count != nonfinite.count || nonfinite.parameters == NULL)
        make_room_for_looks(count);
}

/* ---- looking at what is sent ---- */

static void
set_look(struct bucket_wire *wire, uint64_t step, uint64_t turn, CUdeviceptr launch)
{
    if (wire_looks_in_part(wire) && !ends_job())
        atomic_store(&engine_state.status->nonfinite_in_part, 1);
    wire->look = (struct wire_look){.claim = nonfinite.claim,
                                    .found = (CUdeviceptr)(uintptr_t)nonfinite.found,
                                    .step = step,
                                    .turn = turn,
                                    .launch = launch,
                                    .whole = ends_job()};
}

void
nonfinite_look(const struct group *group, size_t bucket, bool early)
{
    struct bucket_wire *wire = group_wire(group, bucket);
    (void)early;
    wire->look = (struct wire_look){0};
    if (phase_now() == LOOKS)
        set_look(wire, engine_state.boundary_count + 1, group->boundary_count, 0);
}

static CUdeviceptr
launch_of(size_t group)
{
    return nonfinite.launches + group * sizeof(struct nonfinite_launch);
}

void
nonfinite_look_captured(const struct group *group, struct bucket_wire *wire, size_t step, size_t turn)
{
    if (nonfinite.found != NULL && phase_now() != OFF)
        set_look(wire, step + 1, turn, launch_of((size_t)group->id));
}

/* In the order of the communication stream, which comes after the launch before, and which this launch comes after. */
static void
write_word(CUdeviceptr to, uint64_t value)
{
    CUDA("cuMemsetD32Async", cuMemsetD32Async, to, (uint32_t)value, 1, first_stream());
}

void
nonfinite_launch(uint32_t groups)
{
    if (nonfinite.found == NULL || phase_now() == OFF)
        return;
    for (size_t g = 0; g < GROUPS_AT_MOST; ++g) {
        if ((groups >> g & 1) == 0)
            continue;
        write_word(launch_of(g) + offsetof(struct nonfinite_launch, step), engine_state.boundary_count);
        if (atomic_load(&engine_state.status->nonfinite_in_part) != 0)
            write_word(launch_of(g) + offsetof(struct nonfinite_launch, turn), memory_state.groups[g].boundary_count);
    }
}

/* What is sent from the address; without a role that is sent if it has gone meanwhile. */
static struct tensor
sent_tensor_at(CUdeviceptr address)
{
    struct tensor found = {.role = TENSOR_BUFFER};
    engine_lock();
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        CUdeviceptr begin = tensor_on_device(tensor);
        if (tensor->averaged && address >= begin && address - begin < tensor->bytes)
            found = *tensor;
    }
    engine_unlock();
    return found;
}

static void
publish(const struct nonfinite_found *found, const struct tensor *tensor)
{
    struct rank_status *status = engine_state.status;
    uint64_t exponent = type_exponent(tensor->type);
    bool is_infinite = (found->bits & ((exponent & -exponent) - 1)) == 0; /* no bit of the fraction */
    snprintf(status->nonfinite_what, sizeof(status->nonfinite_what), "%s has %s", tensor_text(tensor),
             is_infinite ? "an infinite element" : "NaN");
    atomic_store(&status->nonfinite_step, found->step);
    atomic_store(&status->nonfinite, tensor->role == TENSOR_GRADIENT ? RANK_NONFINITE_FOUND : state_of_what_stays());
}

void
nonfinite_tell(void)
{
    pthread_mutex_lock(&nonfinite.lock);
    const struct nonfinite_found *found = nonfinite.found;
    if (nonfinite.phase == LOOKS && __atomic_load_n(&found->ready, __ATOMIC_ACQUIRE) != 0) {
        struct tensor tensor = sent_tensor_at(found->address);
        nonfinite.group = tensor.group;
        nonfinite.step = found->step;
        if (tensor.role == TENSOR_BUFFER) {
            nonfinite.phase = DROPPED;
        } else {
            nonfinite.phase = tensor.role == TENSOR_GRADIENT ? FOUND : OFF;
            publish(found, &tensor);
        }
    }
    pthread_mutex_unlock(&nonfinite.lock);
}

/* ---- does it stay? ---- */

bool
nonfinite_due(const struct group *group)
{
    if (nonfinite.found == NULL)
        return false;
    if (ends_job() && engine_state.boundary_count > 0)
        CUDA("waiting for averages, with --stop-on-nan", cuEventSynchronize, engine_state.reduced);
    nonfinite_tell();
    nonfinite.begins = !nonfinite.known;
    pthread_mutex_lock(&nonfinite.lock);
    bool is_behind = engine_state.boundary_count >= nonfinite.step && (group == NULL || group->id == nonfinite.group);
    bool asks = nonfinite.phase == FOUND && is_behind && !nonfinite.begins;
    nonfinite.phase = asks ? ASKS : nonfinite.phase;
    pthread_mutex_unlock(&nonfinite.lock);
    nonfinite.asks = asks;
    nonfinite.due = nonfinite.begins || asks;
    return nonfinite.due;
}

static void
note_finite(void *arg, const struct hashed *hashed)
{
    struct parameter_look *look = arg;
    look->is_finite = hashed->finite;
}

/* All looks are there. */
static void
judge_finite(void *arg, const struct hashed *hashed)
{
    (void)hashed;
    bool begins = arg != NULL, stays = false;
    for (size_t i = 0; i < nonfinite.count; ++i) {
        struct parameter_look *look = &nonfinite.parameters[i];
        stays = stays || (look->was_finite && !look->is_finite);
        look->was_finite = begins ? look->is_finite : look->was_finite;
    }
    if (begins)
        return;
    atomic_store(&engine_state.status->nonfinite, stays ? state_of_what_stays() : RANK_NONFINITE_NONE);
    set_phase(stays ? OFF : DROPPED);
}

static void
add_parameter(size_t index)
{
    struct parameter_look *look = &nonfinite.parameters[index];
    struct tensor tensor = tensor_copy_compared(index);
    bool on_host = tensor.kind == MEMORY_HOST;
    if (tensor.placed && on_host &&
        hasher_add_host(nonfinite.hasher, tensor.address, tensor.bytes, false, tensor.type, note_finite, look))
        return;
    hasher_add(nonfinite.hasher, tensor.address, tensor.placed && !on_host ? tensor.bytes : 0, tensor.type, note_finite,
               look);
}

/* Findings did not stay: after a pause, it looks again. With --stop-on-nan there is no pause. */
static void
look_again(void)
{
    if (phase_now() != DROPPED)
        return;
    uint64_t passed = engine_state.boundary_count, pause = ends_job() ? 0 : nonfinite.dropped;
    if (nonfinite.dropped_at == 0) {
        nonfinite.dropped_at = passed;
        ++nonfinite.dropped;
    } else if (pause > 0) {
        --pause;
    }
    if (passed - nonfinite.dropped_at < (pause < PAUSE_AT_MOST ? pause : PAUSE_AT_MOST))
        return;
    nonfinite.dropped_at = 0;
    nonfinite.found->ready = 0;
    CUDA("cuMemsetD8Async", cuMemsetD8Async, nonfinite.claim, 0, sizeof(uint32_t), first_stream());
    set_phase(LOOKS);
}

static void
add_parameters(void) BY_ISSUER
{
    for (size_t i = 0; i < nonfinite.count; ++i)
        add_parameter(i);
    hasher_add(nonfinite.hasher, 0, 0, 0, judge_finite, nonfinite.begins ? &nonfinite : NULL);
}

void
nonfinite_before_release(void)
{
    if (nonfinite.found == NULL)
        return;
    look_again();
    if (!nonfinite.due)
        return;
    add_parameters();
    hasher_launch(nonfinite.hasher, first_stream());
    nonfinite.known = true;
}

void
nonfinite_after_release(void)
{
    if (nonfinite.due)
        hasher_collect(nonfinite.hasher, first_stream());
    nonfinite.due = false;
}

/* ---- --stop-on-nan ---- */

/* What a rank says of itself where a finding stays. */
struct verdict {
    uint64_t step;
    char what[sizeof(((struct rank_status *)NULL)->nonfinite_what)];
};

enum { TEXT_BYTES = sizeof(engine_state.status->failure) };

/* Rank `first` ends the job, with a text that names rank and `step` itself. The others wait until they are ended: no
 * rank returns to its program, and the report is that of the rank that has found it. */
static void __attribute__((noreturn)) end_by(int first, uint64_t step, const char *text)
{
    struct control_messages all;
    if (engine_state.rendezvous.rank != first)
        exchange("the end of the job (--stop-on-nan)", "", 1, &all);
    stop_job_soon_by(RANK_SAYS_ALL, step, "%s", text);
    stop_if_asked();
    stop_job("%s", text); /* an observer has taken the alarm */
}

static void __attribute__((noreturn)) end_for_first(const struct control_messages *all)
{
    int first = -1, ranks = 0;
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < all->count; ++r) {
        const struct verdict *of = all->messages[r];
        if (of->step == 0 || of->step > least)
            continue;
        ranks = of->step < least ? 1 : ranks + 1;
        first = of->step < least ? r : first;
        least = of->step;
    }
    char others[80] = "; the other ranks have none up to then";
    if (ranks > 1)
        snprintf(others, sizeof(others), ", as %d of %d ranks have in that step", ranks, all->count);
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text),
             "rank %d: %s in step %llu, before averaging%s; the update has brought it into the parameters, and "
             "--stop-on-nan ends the job",
             first, ((const struct verdict *)all->messages[first])->what, (unsigned long long)least, others);
    end_by(first, least, text);
}

/* A rank that has found nothing says 0. */
static void
say_verdict(struct verdict *mine)
{
    const struct rank_status *status = engine_state.status;
    memset(mine, 0, sizeof(*mine));
    if (atomic_load(&status->nonfinite) != RANK_NONFINITE_ENDS)
        return;
    mine->step = atomic_load(&status->nonfinite_step);
    snprintf(mine->what, sizeof(mine->what), "%s", status->nonfinite_what);
}

void
nonfinite_stop(void)
{
    if (!ends_job())
        return;
    if (nonfinite.asks) {
        nonfinite_after_release();
        streams_wait_for_buckets();
        nonfinite.asks = false;
        look_again();
    }
    struct verdict mine;
    struct control_messages all;
    char about[64];
    say_verdict(&mine);
    snprintf(about, sizeof(about), "the look for NaN of step %llu",
             (unsigned long long)engine_state.boundary_count + 1);
    if (greatest_of_ranks(about, mine.step) == 0)
        return;
    exchange("the findings (--stop-on-nan)", &mine, sizeof(mine), &all);
    end_for_first(&all);
}

void
nonfinite_stop_at_end(void)
{
    struct verdict mine;
    say_verdict(&mine);
    if (mine.step == 0)
        return;
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text),
             "rank %d: %s in step %llu, before averaging; the update has brought it into the parameters, and "
             "--stop-on-nan ends the job",
             engine_state.rendezvous.rank, mine.what, (unsigned long long)mine.step);
    end_by(engine_state.rendezvous.rank, mine.step, text);
}

void
nonfinite_stop_for_mean(int rank, const char *name, const struct ddp_site *site)
{
    struct rank_status *status = engine_state.status;
    uint64_t step = engine_state.boundary_count;
    char what[sizeof(status->nonfinite_what)];
    if (!ends_job())
        return;
    snprintf(what, sizeof(what), "DDP_MEAN `%.100s` (%.100s:%d) has NaN", name, file_name_of(site->file), site->line);
    if (rank == engine_state.rendezvous.rank) {
        memcpy(status->nonfinite_what, what, sizeof(what));
        atomic_store(&status->nonfinite_step, step);
        atomic_store(&status->nonfinite, RANK_NONFINITE_ENDS);
    }
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "rank %d: %s after step %llu, and --stop-on-nan ends the job", rank, what,
             (unsigned long long)step);
    end_by(rank, step > 0 ? step : 1, text); /* the mean may be of the parameters that this step has updated */
}

/* ---- the end ---- */

void
nonfinite_at_end(void)
{
    nonfinite_tell();
    if (phase_now() != FOUND || !nonfinite.known)
        return;
    set_phase(ASKS);
    nonfinite.begins = false;
    add_parameters();
    hasher_collect(nonfinite.hasher, first_stream());
    CUDA("looking at parameters at the end", cuStreamSynchronize, first_stream());
}

void
nonfinite_close(void)
{
    nonfinite_tell();
    set_phase(OFF);
}
