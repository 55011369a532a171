/*
 * follow.c - a rank of `ddprun --plan`: the engine, with annotations that come from a plan, for a whole training by
 * turns. Stands between the shim and the real engine, in a copy of whose table a few functions are its own. N periods
 * of the program are a round, in which each rank plays one and drops the others' operations; the update is made once,
 * by all, from averaged gradients. What is dropped stands in the plan (tools/scout/command/analysis/turns.h). Proofs of
 * `ddprun scout --prove` are the same, until all has been seen; then the rank waits to be ended.
 *
 * An operation of the program is an operation of the plan if it has its name and one of its call sites, frame by frame,
 * and comes in its turn; all others are made by all ranks: a validation pass, a checkpoint. At the plan's first
 * operation what the plan names is annotated. DDP_STEP is called in front of one operation of the last period of each
 * round.
 *
 * All ranks must see the same batches, and launch the same (heard.c).
 *
 * What does not fit the plan ends the rank, with the operation's name. Threads: `following` lets one at a time through.
 */
#include "base/message.h"
#include "base/printable.h"
#include "tools/check/format/element.h"
#include "tools/plan/trainer/player.h"
#include "tools/sandbox/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_ROUNDS = 2 }; /* in which operations of the plan may be missing: buffers are made, momentum begins */

#define NO_PLACE UINT32_MAX

static const struct engine *real;
static struct rank_status *own_status;
static struct engine table;
static pid_t own_pid;

/* With `following` held: */
static bool begun;           /* the first period of the plan has begun */
static bool is_open;         /* a round computes, and its gradients are not averaged: on all ranks alike */
static bool is_pending;      /* gradients of this rank's turn wait for the round's end */
static bool is_awaited;      /* the program's end, by at_exit() in front of the engine's */
static bool is_given_up;     /* a round, or a step, was left open: it is closed, and nothing of it may follow */
static bool is_gone;         /* the context, with all memory */
static uint64_t period;      /* of the program, from 0 */
static uint32_t next;        /* operation of the plan that is expected */
static bool is_elsewhere;    /* one of its name has come from a place that is not in the plan */
static uint64_t seen;        /* operations that are not in the plan, and have read gradients that wait */
static uint64_t *names;      /* [operation_count]: hash of each name */
static struct chain *chains; /* [operation_count]: calls that led to it last */

/* This thread's operation touches gradients that wait; the lock is held from its beginning to its end. */
static __thread bool looks __attribute__((tls_model("initial-exec")));

/* The plan's number of each object that was met; NO_PLACE: the plan does not know it. */
static uint32_t *numbers;
static uint32_t number_count;

static uint32_t
turn(void)
{
    return (uint32_t)(period % player_world());
}

static bool
is_last(void)
{
    return turn() == player_world() - 1;
}

/* Ends the rank: the program does something else than the plan says. */
static void __attribute__((noreturn)) no_fit(const char *name, const char *what)
{
    char plain[PLAY_NAME_BYTES];
    scout_stop("in batch %llu of the program, %s %s: the program does not do what it did when its plan was made; make "
               "the plan anew, by ddprun scout --prove with these arguments",
               (unsigned long long)period + 1, plain_name(name, plain, sizeof(plain)), what);
}

/* A batch ends without its update: anew made, the plan would be the same. */
static void __attribute__((noreturn)) no_update(const char *name)
{
    char plain[PLAY_NAME_BYTES];
    scout_stop(
        "in batch %llu of the program, %s comes again, and the update that the plan has in between did not come: "
        "ranks cannot tell a pass without an update, as for validation, from training if it comes from the lines of "
        "training; give it lines of its own. If it is another accumulation, make the plan anew, by ddprun scout "
        "--prove with these arguments",
        (unsigned long long)period + 1, plain_name(name, plain, sizeof(plain)));
}

/* ---- call sites ---- */

static void
new_object(uint32_t number, const char *path, const char *build_id)
{
    static size_t room;
    numbers = scout_grown(numbers, number + 1, &room, sizeof(*numbers));
    number_count = number + 1;
    numbers[number] = NO_PLACE;
    for (uint32_t i = 0; i < player.play.plan.object_count; ++i) {
        const struct play_object *object = &player.play.objects[i];
        if (strcmp(object->path, path) != 0)
            continue;
        if (strcmp(object->build_id, build_id) != 0)
            scout_stop("%s was built anew since its plan was made; make the plan anew, by ddprun scout --prove", path);
        numbers[number] = i;
    }
}

/* Where an operation is called from; found once, if it is asked for. */
struct place {
    bool found;
    uint32_t count;
    struct scout_frame frames[NAMES_FRAMES];
};

static void
find_place(struct place *place)
{
    place->count = names_frames(place->frames);
    place->found = true;
    for (uint32_t i = 0; i < place->count; ++i)
        place->frames[i].object = place->frames[i].object < number_count ? numbers[place->frames[i].object] : NO_PLACE;
}

static bool
is_site(const struct place *place, const struct play_site *site)
{
    bool same = place->count == site->frame_count;
    for (uint32_t i = 0; same && i < place->count; ++i)
        same = place->frames[i].object == site->frames[i].object && place->frames[i].offset == site->frames[i].offset;
    return same;
}

/* Whether it is one of the places that called the operation when the plan was made. */
static bool
is_at(struct place *place, const struct play_operation *operation)
{
    bool found = false;
    if (!place->found)
        find_place(place);
    for (uint32_t i = 0; i < operation->site_count && !found; ++i)
        found = is_site(place, &operation->sites[i]);
    return found;
}

static const char *
name_of(const struct operation *operation)
{
    return operation->function != NULL ? kernels_find(operation->function)->text : operation->name;
}

static uint64_t
hash_of_name(const struct operation *operation)
{
    return operation->function != NULL ? kernels_find(operation->function)->hash : kernels_hash(operation->name);
}

/* By gradients, operations that clear memory at the beginning of the plan: where the program clears behind its update,
 * its first batch comes without them. */
static uint32_t
leading_fills(void)
{
    uint32_t count = 0;
    while (count + 1 < player.play.plan.operation_count &&
           strncmp(player.play.operations[count].name, "cuMemset", strlen("cuMemset")) == 0)
        ++count;
    return player_is_by_state() ? 0 : count;
}

/* The operation of the plan that this is; NO_PLACE: none. */
static __attribute__((noinline)) uint32_t
place_of_operation(const struct operation *operation)
{
    const struct play_plan *plan = &player.play.plan;
    const void *frame = __builtin_frame_address(0);
    uint64_t name = hash_of_name(operation);
    struct place place = {.found = false};
    if (name == names[next] && chain_holds(&chains[next], frame))
        return next;
    if (name == names[next] && is_at(&place, &player.play.operations[next])) {
        chain_take(&chains[next], frame);
        return next;
    }
    for (uint32_t k = 1; begun && k < plan->operation_count; ++k) {
        uint32_t at = (next + k) % plan->operation_count;
        if (name == names[at] && is_at(&place, &player.play.operations[at]))
            return at;
    }
    uint32_t first = begun ? 0 : leading_fills();
    if (first > 0 && name == names[first] && is_at(&place, &player.play.operations[first]))
        return first;
    is_elsewhere = is_elsewhere || (begun && name == names[next]);
    return NO_PLACE;
}

/* ---- memory ---- */

/* The end of what a tensor with a role of its own, and not only bytes that stay, has from `at` on; `at`: none has. If
 * one begins between `at` and *end_p, it is the new *end_p. */
static uint64_t
end_of_named(const struct play_tensor *of, uint64_t at, uint64_t *end_p)
{
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        if ((tensor->role >= PLAY_STAYS && tensor->role < PLAY_CHANGES) || tensor->bytes != of->bytes ||
            tensor->ordinal != of->ordinal)
            continue;
        if (tensor->lo <= at && at < tensor->hi)
            return tensor->hi;
        if (tensor->lo > at && tensor->lo < *end_p)
            *end_p = tensor->lo;
    }
    return at;
}

/* Bytes that stay and have no other role: they must be the same on all ranks. */
static void
annotate_rest(uint32_t number, CUdeviceptr address)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    for (uint64_t at = tensor->lo, end; at < tensor->hi; at = end) {
        uint64_t piece_end = tensor->hi;
        end = end_of_named(tensor, at, &piece_end);
        if (end != at)
            continue;
        end = piece_end;
        real->state((void *)(uintptr_t)(address + at), (size_t)(end - at), DDP_UINT8, &player.named[number].site);
    }
}

/* Whether a gradient lies in memory of another one, at another time: the engine knows the larger, or the first. */
static bool
is_in_other(uint32_t number)
{
    const struct play_tensor *it = &player.play.tensors[number];
    bool is_in = false;
    for (uint32_t i = 0; i < player.play.plan.tensor_count && it->role == PLAY_GRADIENT && !is_in; ++i) {
        const struct play_tensor *other = &player.play.tensors[i];
        bool is_same = other->lo == it->lo && other->hi == it->hi;
        is_in = other->role == PLAY_GRADIENT && other->bytes == it->bytes && other->ordinal == it->ordinal &&
                other->lo <= it->lo && it->hi <= other->hi && (!is_same || i < number);
    }
    return is_in;
}

static void
annotate(uint32_t number)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    if (allocation == NULL || (player_makes_all() && tensor->role >= PLAY_COMPARED)) /* data may stay, too */
        return;
    player.named[number].live = true;
    waiting_made(number);
    void *memory = (void *)(uintptr_t)(allocation->address + tensor->lo);
    int type = (int)tensor->type;
    size_t count = (size_t)(player_end(number) - tensor->lo) / element_size(type);
    if (count == 0 || is_in_other(number))
        return;
    switch ((enum play_role)tensor->role) {
    case PLAY_PARAMETER:
        real->parameter(memory, count, (int)tensor->type, &player.named[number].site);
        break;
    case PLAY_GRADIENT:
        real->gradient_group((int)tensor->group, &player.named[number].site);
        real->gradient(memory, count, type, &player.named[number].site);
        break;
    case PLAY_STATE:
        real->state(memory, count, (int)tensor->type, &player.named[number].site);
        break;
    case PLAY_STREAM:
    case PLAY_LAST:
        real->state(memory, (size_t)(tensor->hi - tensor->lo), DDP_UINT8, &player.named[number].site);
        break;
    case PLAY_STAYS:
    case PLAY_UNWRITTEN:
        annotate_rest(number, allocation->address);
        break;
    default: /* each rank has its own, or it shares bytes with a gradient, or state.c has it */
        break;
    }
}

/* In front of operation `at` of the plan. */
static void
require_tensors(uint32_t at)
{
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        bool is_elsewhere = tensor->role == PLAY_GRADIENT && player_makes_all() && tensor->before != at;
        if (tensor->role < PLAY_COMPARED && !player.named[i].live && !is_elsewhere)
            scout_stop("a%u of the plan, of %llu bytes, is not there in batch %llu of the program: the model has other "
                       "sizes than when its plan was made; make the plan anew, by ddprun scout --prove with these "
                       "arguments",
                       tensor->alloc, (unsigned long long)tensor->bytes, (unsigned long long)period + 1);
    }
}

static void at_exit(int exit_status, void *unused);

static void
annotate_all(void)
{
    turns_report(0); /* before ranks get what rank 0 has */
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        annotate(i);
    if (player_is_by_state())
        state_begin(real);
    heard_begin(real);
}

static void
begin_training(void)
{
    begun = player.annotates = true;
    if (ddprun_files_steps_begin != NULL)
        ddprun_files_steps_begin();
    if (!exchange_is_on())
        annotate_all();
    if (on_exit(at_exit, NULL) != 0) /* called before the engine's and the driver's, which have come up */
        scout_stop("out of memory");
}

static void
variable_found(CUdeviceptr address, size_t bytes)
{
    player_variable_found(address, bytes);
    if (player_is_by_state())
        state_variable_found();
}

/* ---- operations ---- */

/* Whether gradients are averaged in front of operation `at` of the plan, and of which group; by turns there is one. */
static bool
is_place(uint32_t at, int *group)
{
    const struct play_plan *plan = &player.play.plan;
    uint32_t i = 0;
    while (i < plan->tensor_count &&
           (player.play.tensors[i].role != PLAY_GRADIENT || player.play.tensors[i].before != at))
        ++i;
    bool is = player_makes_all() && i < plan->tensor_count;
    *group = is ? (int)player.play.tensors[i].group : 0;
    return is || (at == plan->average_before && !player_is_by_state());
}

static void
reduce_at(uint32_t at, CUstream stream)
{
    static const struct ddp_site site = {"the plan", "ddprun --plan", 0};
    int group;
    (void)is_place(at, &group);
    require_tensors(at);
    if (!is_given_up)
        rounds_note(stream);
    if (player_is_by_state()) {
        state_average(&site);
    } else {
        heard_show(stream);
        alone_hold(false);
        exchange_averages(at, false);
        real->step(group, stream, &site);
        exchange_averages(at, true);
    }
    if (!is_awaited && on_exit(at_exit, NULL) != 0) /* once more: the libraries that the first step needs are there */
        scout_stop("out of memory");
    is_awaited = true;
    waiting_averaged();
    is_pending = is_open = false;
}

static void
reduce(CUstream stream)
{
    reduce_at(player.play.plan.average_before, stream);
}

/* What one process that plays all turns has computed in this one. */
static void
add_up(void)
{
    require_tensors(player.play.plan.average_before);
    turns_add_up((uint32_t)period);
}

/* Of a plan by state: what this rank's step has changed is complete. */
static void
end_step(CUstream stream)
{
    if (player_is_by_state() && state_step_ends())
        reduce(stream);
}

/* The program ends in the middle of a round, or frees its gradients there. Ranks may have sent gradients of it already:
 * all average what they have, of which no update is made. */
static void
give_up_round(void)
{
    is_given_up = true;
    is_open = false;
    turns_give_up((uint32_t)period, next == 0 || next > player.play.plan.average_before);
    reduce(CU_STREAM_LEGACY);
}

/* Of the step under way nothing is missing but reads of what it has written. */
static bool
only_reads_are_missing(void)
{
    uint32_t i = next;
    while (i > 0 && i < player.play.plan.average_before && player_brings_step(i))
        ++i;
    return i > 0 && i >= player.play.plan.average_before;
}

/* The program is about to end, or to give back what ranks average. By state all steps that are complete count. */
static void
close_round(void)
{
    if (!is_open)
        return;
    if (!player_is_by_state()) {
        give_up_round();
        return;
    }
    if (state_in_step() && only_reads_are_missing())
        end_step(CU_STREAM_LEGACY);
    if (state_in_step()) {
        state_give_up_step();
        is_given_up = true;
    }
    if (state_is_open())
        reduce(CU_STREAM_LEGACY);
}

/* Operations [next, end) of the plan do not come. */
static void
pass_by(uint32_t end)
{
    for (uint32_t i = next; i < end && period >= (uint64_t)WARM_ROUNDS * player_world(); ++i) {
        uint32_t part = player.play.operations[i].part;
        if (part != PLAY_BY_ALL && part != PLAY_BY_CHOICE)
            no_fit(player.play.operations[i].name, "is left out");
    }
}

/* Whether a batch has begun whose update has not come. */
static bool
lacks_update(void)
{
    return !player_is_by_state() && next > 0 && next <= player.play.plan.average_before;
}

/* An operation comes that stands in front of the expected one. */
static void
require_update(const char *name)
{
    if (lacks_update())
        no_update(name);
}

/* The expected operation does not come. */
static void
require_place(void)
{
    const struct play_operation *expected = &player.play.operations[next];
    if (is_elsewhere && expected->part != PLAY_BY_ALL)
        no_fit(expected->name, "is called from a place that is not in the plan");
}

static void
note_batch(void)
{
    atomic_store(&own_status->batch_count, period + 1);
}

/* The next period begins: the one before must have had its update. */
static void
begin_period(const char *name, CUstream stream)
{
    if (!begun) {
        begin_training();
    } else {
        require_update(name);
        if (next > 0) {
            require_place();
            pass_by(player.play.plan.operation_count);
        }
        end_step(stream);
        if (is_given_up || is_gone)
            no_fit(name, "begins a batch, and memory of the plan was freed before the round of all ranks was complete");
        if (!player_is_by_state())
            turns_end((uint32_t)period);
        ++period;
        if (player_makes_all())
            exchange_step(period);
        else if (turn() == 0 && !player_is_by_state())
            turns_report((uint32_t)(period / player_world()));
    }
    if (exchange_is_on())
        exchange_border((uint32_t)period);
    else if (player_is_by_state())
        state_step_begins(period < (uint64_t)WARM_ROUNDS * player_world());
    else
        turns_begin((uint32_t)period);
    is_open = is_open || player_is_by_state();
    if (player_is_by_state())
        note_batch();
    else
        alone_hold(reads_are_true() && !is_last()); /* while ranks wait for what others have computed, none is sent */
}

/* From the expected operation to `at`, which comes in its place. */
static void
pass_over(const char *name, uint32_t at, CUstream stream)
{
    const struct play_plan *plan = &player.play.plan;
    if (at < next) {
        require_update(name);
        if (next > plan->average_before || player_is_by_state())
            no_fit(name, "comes out of turn");
    }
    require_place();
    if (!player_is_by_state() && next <= plan->average_before && at > plan->average_before)
        no_fit(name, "comes without the operation in front of which gradients are averaged");
    pass_by(at);
    if (at >= plan->average_before)
        end_step(stream); /* its last operation was one that may be left out */
}

/* Whether the period is this rank's turn. */
static bool
is_own_turn(void)
{
    return player_makes_all() || player_plays_all() || (uint32_t)real->rank == turn();
}

static bool
is_made(uint32_t part)
{
    if (exchange_is_on())
        return true;
    if (player_is_by_state())
        return state_makes(part);
    bool is_own = is_own_turn();
    bool updates = is_last();
    return part == PLAY_BY_ALL || (part == PLAY_BY_TURN && is_own) || (part == PLAY_BY_LAST && updates);
}

/* Of a plan by state, an operation outside of it: between steps it has a round closed whose state it may touch; within
 * one it may read. Ranks that have not made the step show what they have. */
static void
meet(const struct operation *operation)
{
    if (state_in_step())
        seen += looks = waiting_touched(operation);
    else if (state_is_open() && waiting_may_touch(operation))
        reduce(operation->stream);
}

/* Of a plan by state: the thread's operation is the last of a step. */
static __thread bool ends_step __attribute__((tls_model("initial-exec")));

/* The thread's operation is an update outside of the plan, if the driver takes it. */
static __thread bool is_stray __attribute__((tls_model("initial-exec")));

/* An operation that is not in the plan. */
static void
follow_stranger(const struct operation *operation, const char *name)
{
    if (exchange_is_on()) {
        if (begun && next == 0)
            exchange_outside(operation);
        return;
    }
    if (player_is_by_state()) {
        meet(operation);
        return;
    }
    bool touches = is_pending && waiting_touched(operation);
    /* its own gradients, by its own operation, before they are complete: behind that it clips what should be a mean */
    bool computes =
        touches && is_own_turn() && next > 0 && next <= player.play.plan.average_before && !waiting_is_complete(next);
    looks = touches && !computes;
    seen += touches;
    is_stray = begun && heard_update(operation, name);
    if (begun && player_world() > 1 && !player_plays_all())
        strangers_meet(hash_of_name(operation), name, period);
}

/* `is_load`: a copy of a thread that has launched nothing so far. */
static void
follow_operation(struct operation *operation, bool is_load)
{
    const struct play_plan *plan = &player.play.plan;
    const char *name = name_of(operation);
    is_stray = false;
    ends_step = false;
    if (begun && operation->graph != NULL)
        no_fit(name, "launches a CUDA graph");
    uint32_t at = place_of_operation(operation);
    if (at == NO_PLACE) {
        follow_stranger(operation, name);
        if (is_load)
            heard_load(operation);
        if (begun)
            reads_begin(operation, READS_BETWEEN, period);
        return;
    }
    if (at == 0 || next == 0) { /* a period whose first operation is left out counts, too */
        begin_period(name, operation->stream);
        next = 0;
    }
    if (is_given_up && player_is_by_state())
        no_fit(name, "goes on with a batch in which memory of the plan was freed");
    if (at != next)
        pass_over(name, at, operation->stream);
    is_elsewhere = false;
    next = at + 1 < plan->operation_count ? at + 1 : 0;
    const struct play_operation *of = &player.play.operations[at];
    int group;
    bool averages = is_place(at, &group);
    if (!exchange_is_on() && !player_is_by_state() && at < plan->average_before &&
        period < (uint64_t)WARM_ROUNDS * player_world())
        waiting_reached(operation, at);
    if ((of->part != PLAY_BY_LAST || is_last()) && !exchange_is_on() && !player_makes_all())
        heard_note(operation, at, of->part == PLAY_BY_LAST);
    if (averages)
        note_batch();
    if (averages && player_plays_all())
        add_up();
    if (averages && is_last())
        reduce_at(at, operation->stream);
    if (exchange_is_on())
        exchange_planned(operation);
    operation->skip = !is_made(of->part);
    reads_begin(operation, at, period);
    ends_step = player_is_by_state() && at + 1 == plan->average_before;
    if (!operation->skip && !player_is_by_state())
        waiting_used(operation);
    is_pending =
        is_pending || (of->part == PLAY_BY_TURN && !operation->skip && !player_plays_all() && !player_is_by_state());
    if (at < plan->average_before && of->part == PLAY_BY_TURN && !player_is_by_state() &&
        !loaders_is_transfer(operation))
        is_open = true; /* a batch that is only copied, ahead of the next one, sends no gradient */
}

static bool
is_same_site(const struct play_site *a, const struct play_site *b)
{
    bool same = a->frame_count == b->frame_count;
    for (uint32_t i = 0; same && i < a->frame_count; ++i)
        same = a->frames[i].object == b->frames[i].object && a->frames[i].offset == b->frames[i].offset;
    return same;
}

/* Whether some place calls both operations, as the loop over tensors of an update does. */
static bool
share_place(const struct play_operation *a, const struct play_operation *b)
{
    bool share = false;
    for (uint32_t i = 0; i < a->site_count * b->site_count && !share; ++i)
        share = is_same_site(&a->sites[i / b->site_count], &b->sites[i % b->site_count]);
    return share;
}

/* Of one process that is only timed: nothing is followed, and call sites are looked up where a name asks for it. A
 * period calls as many operations from the place that shows it as the plan has there. */
static void
watch(const struct operation *operation)
{
    static uint32_t met, each;
    uint32_t at = player.play.plan.average_before % player.play.plan.operation_count;
    const struct play_operation *shows = &player.play.operations[at];
    struct place place = {.found = false};
    if (each == 0) {
        for (uint32_t i = 0; i < player.play.plan.operation_count; ++i)
            each += names[i] == names[at] && share_place(&player.play.operations[i], shows);
    }
    if (hash_of_name(operation) == names[at] && is_at(&place, shows) && met++ % each == 0)
        rounds_note(operation->stream);
}

/* One process that plays all turns has no other ranks: its engine waits for none. */
static bool
is_reported(const struct operation *operation)
{
    return !operation->skip && real->watching;
}

static void
begin_followed(struct operation *operation)
{
    scout_ensure_driver();
    reads_none();
    if (player_counts(operation)) {
        pthread_mutex_lock(&player.following);
        if (player_is_by_state())
            state_note(operation);
        if (rounds_are_plain())
            watch(operation);
        else
            follow_operation(operation, loaders_note(operation));
        if (!looks)
            pthread_mutex_unlock(&player.following);
    }
    if (is_reported(operation))
        real->begin(operation);
    if (looks)
        waiting_keep();
}

/* What was touched while it waits, by an operation that is not in the plan, has been read. */
static void
end_look(const struct operation *operation, bool enqueued)
{
    looks = false;
    if (enqueued && waiting_changed())
        no_fit(name_of(operation), player_is_by_state() ? "changes what the ranks average, in the middle of a step, "
                                                          "and is not in the plan"
                                                        : "changes a gradient that waits for the other ranks, and is "
                                                          "not in the plan");
    bool proves = player.play.plan.data == PLAY_TURNS && !rounds_are_timed(); /* (d) goes as far as here */
    if (enqueued && !player_is_by_state() && proves)
        player_refuse("in batch %llu of the program, %s has read gradients before they were averaged",
                      (unsigned long long)period + 1, name_of(operation));
    pthread_mutex_unlock(&player.following);
}

static void
end(struct operation *operation, bool enqueued)
{
    if (looks)
        end_look(operation, enqueued);
    if (strangers_changed(enqueued))
        no_fit(name_of(operation), "changes what is trained in each batch of a round, and is not in the plan");
    if (is_stray && enqueued)
        no_fit(name_of(operation), "makes an update, and is called from a place that is not in the plan");
    if (is_reported(operation))
        real->end(operation, enqueued);
    reads_end(operation);
    if ((exchange_is_on() || player_makes_all()) && begun && enqueued) {
        pthread_mutex_lock(&player.following);
        exchange_note(operation);
        pthread_mutex_unlock(&player.following);
    }
    if (ends_step) {
        ends_step = false;
        pthread_mutex_lock(&player.following);
        end_step(operation->stream);
        pthread_mutex_unlock(&player.following);
    }
}

/* Whether an allocation holds memory of the plan that the engine knows; by state, that ranks average. */
static bool
holds_named(CUdeviceptr address)
{
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const struct allocation *allocation = player.named[i].live ? player_allocation(&player.play.tensors[i]) : NULL;
        if (allocation != NULL && allocation->address == address &&
            (!player_is_by_state() || waiting_is_averaged(&player.play.tensors[i])))
            return true;
    }
    return false;
}

static void
before_release(CUdeviceptr address, size_t bytes)
{
    pthread_mutex_lock(&player.following);
    if (is_open && !rounds_are_plain() && holds_named(address))
        close_round();
    pthread_mutex_unlock(&player.following);
    real->before_release(address, bytes);
    pthread_mutex_lock(&player.following);
    heard_release(address, bytes);
    player_forget(address, bytes);
    pthread_mutex_unlock(&player.following);
}

/* The context is about to go, and all memory with it: the end of a training, as samples of CUDA have it. */
static void
device_goes(void)
{
    pthread_mutex_lock(&player.following);
    if (begun && !exchange_is_on() && !rounds_are_plain() && !is_gone) {
        close_round();
        if (player_is_by_state())
            state_look_for_whole();
        is_open = false;
        is_gone = true;
    }
    pthread_mutex_unlock(&player.following);
}

static void
before_device_reset(CUdevice device)
{
    device_goes();
    real->before_device_reset(device);
}

static void
before_context_destroy(CUcontext context)
{
    CUcontext current = NULL;
    if (begun && scout_state.driver.cuCtxGetCurrent_p(&current) == CUDA_SUCCESS && current == context)
        device_goes();
    real->before_context_destroy(context);
}

/* ---- start and end ---- */

static void
at_exit(int exit_status, void *unused)
{
    static bool has_ended; /* it is called twice */
    (void)unused;
    if (getpid() != own_pid)
        return;
    if (exit_status != 0 || has_ended) /* the launcher reports a rank that failed, and ends those that wait for it */
        return;
    reads_close();
    has_ended = true;
    if (rounds_are_plain()) {
        rounds_end();
        return;
    }
    if (!begun)
        scout_stop("the program ended, and no step of the plan began: it is another program, or has other arguments, "
                   "than when its plan was made");
    if (exchange_is_on()) {
        exchange_end();
        return;
    }
    uint64_t periods = atomic_load(&own_status->batch_count);
    uint64_t left = player_is_by_state() ? 0 : periods % player_world();
    close_round();
    if (player_is_by_state() && !is_gone)
        state_look_for_whole();
    if (real->rank != 0)
        return;
    rounds_end();
    state_say();
    strangers_say();
    if (left != 0)
        message_warning("batches_left",
                        "plan: the last %llu of %llu batches make no whole round of %u ranks, and changed nothing",
                        (unsigned long long)left, (unsigned long long)periods, player_world());
    if (seen > 0)
        message_warning(
            "unplanned_reads",
            "plan: %llu operations that are not in the plan, for a log perhaps, have read %s: what they show "
            "is of one rank",
            (unsigned long long)seen,
            player_is_by_state() ? "what ranks average in the middle of a step, as a validation does that "
                                   "stands before the step's last operation"
                                 : "gradients before they were averaged");
    if (heard_smaller() > 0)
        message_warning("smaller_batches",
                        "plan: %llu copies brought less data than in the plan; a smaller batch counts as a whole one",
                        (unsigned long long)heard_smaller());
}

const struct engine *
play_start(const struct shim_services *services, struct rank_status *status, const char *path)
{
    const struct play *play = &player.play;
    real = alone_start(services, status);
    if (real == NULL)
        return NULL;
    player_load(path, real->rank);
    message_warnings_to(&status->warnings, &status->step);
    own_status = status;
    own_pid = getpid();
    scout_state.log.fd = -1;
    names_new_object = new_object;
    variables_new = variable_found;
    reads_open(path, real);
    names = scout_zeroed(play->plan.operation_count, sizeof(*names));
    chains = scout_zeroed(play->plan.operation_count, sizeof(*chains));
    if (on_exit(at_exit, NULL) != 0)
        scout_stop("out of memory");
    for (uint32_t i = 0; i < play->plan.operation_count; ++i)
        names[i] = kernels_hash(play->operations[i].name);
    player_table(&table, real, "the plan", annotate);
    table.begin = begin_followed;
    table.end = end;
    table.before_release = before_release;
    table.before_device_reset = before_device_reset;
    table.before_context_destroy = before_context_destroy;
    table.waited = reads_waited;
    return &table;
}
