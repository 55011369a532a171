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
 * All ranks must see the same batches, and launch the same (rank_agreement.c). What ranks average, and when, is in a
 * struct of calls (struct way): by_gradients.c, by_state.c, all_turns.c, exchange.c. What does not fit the plan ends
 * the rank, with the operation's name. Threads: `following` lets one at a time through.
 */
#include "base/message.h"
#include "base/printable.h"
#include "tools/near/element.h"
#include "tools/plan/trainer/player.h"

#define NO_PLACE UINT32_MAX

static struct way way;
static struct engine table;
static pid_t own_pid;

/* With `following` held: */
static bool is_awaited;      /* the program's end, by at_exit() in front of the engine's */
static bool is_gone;         /* the context, with all memory */
static uint64_t rounds;      /* that were averaged and complete */
static uint64_t outside;     /* operations since the last batch began that the plan does not know */
static bool is_elsewhere;    /* one of its name has come from a place that is not in the plan */
static uint64_t *names;      /* [operation_count]: hash of each name */
static struct chain *chains; /* [operation_count]: calls that led to it last */

/* This thread's operation is an update outside of the plan, if the driver takes it; what it finds is put back then. */
static __thread bool is_stray __attribute__((tls_model("initial-exec")));
static char **before_stray;

/* This thread's operation touches gradients that wait; the lock is held from its beginning to its end. */
static __thread bool looks __attribute__((tls_model("initial-exec")));

/* The plan's number of each object that was met; NO_PLACE: the plan does not know it. */
static uint32_t *numbers;
static uint32_t number_count;

/* ---- call sites ---- */

static void
new_object(uint32_t number, const char *path, const char *build_id)
{
    while (number_count <= number)
        *SCOUT_GROWN(numbers, number_count) = NO_PLACE;
    by_contents_object(number, path);
    FOR_EACH(object, player.play.objects, player.play.plan.object_count) {
        if (strcmp(object->path, path) != 0)
            continue;
        if (strcmp(object->build_id, build_id) != 0)
            scout_stop("%s was built again after its plan was made; make a new plan: ddprun scout --prove", path);
        numbers[number] = NUMBER_OF(object);
    }
}

/* Where an operation is called from; found once, if it is asked for. */
struct caller {
    bool found;
    struct play_site site;
};

static void
find_place(struct caller *place)
{
    place->site.frame_count = names_frames(place->site.frames);
    place->found = true;
    for (uint32_t i = 0; i < place->site.frame_count; ++i) {
        uint32_t *object = &place->site.frames[i].object;
        *object = *object < number_count ? numbers[*object] : NO_PLACE;
    }
}

static bool
is_same_site(const struct play_site *a, const struct play_site *b)
{
    return a->frame_count == b->frame_count && names_are_same(a->frames, b->frames, a->frame_count);
}

/* Whether it is one of the places that called the operation when the plan was made. */
static bool
is_at(struct caller *place, const struct play_operation *operation)
{
    if (!place->found)
        find_place(place);
    return ANY(site, operation->sites, operation->site_count, is_same_site(&place->site, site));
}

/* Operations that clear memory at the beginning of the plan: where the program clears after its update, its first
 * batch comes without them. */
static uint32_t
leading_fills(void)
{
    uint32_t count = 0;
    while (count + 1 < player.play.plan.operation_count && begins_with(player.play.operations[count].name, "cuMemset"))
        ++count;
    return count;
}

/* The operation of the plan that this is; NO_PLACE: none. */
static __attribute__((noinline)) uint32_t
place_of_operation(const struct operation *operation)
{
    const struct play_plan *plan = &player.play.plan;
    const void *frame = __builtin_frame_address(0);
    uint64_t name = player_hash_of(operation);
    struct caller place = {.found = false};
    if (name == names[player.next] && chain_holds(&chains[player.next], frame))
        return player.next;
    if (name == names[player.next] && is_at(&place, &player.play.operations[player.next])) {
        chain_take(&chains[player.next], frame);
        return player.next;
    }
    for (uint32_t k = 1; player.begun && k < plan->operation_count; ++k) {
        uint32_t at = (player.next + k) % plan->operation_count;
        if (name == names[at] && is_at(&place, &player.play.operations[at]))
            return at;
    }
    uint32_t first = player.begun ? 0 : leading_fills();
    if (first > 0 && name == names[first] && is_at(&place, &player.play.operations[first]))
        return first;
    is_elsewhere = is_elsewhere || (player.begun && name == names[player.next]);
    return NO_PLACE;
}

/* ---- memory ---- */

/* The end of what a tensor with a role of its own, and not only bytes that stay, has from `at` on; `at`: none has. If
 * one begins between `at` and *end_p, it is the new *end_p. */
static uint64_t
end_of_named(const struct play_tensor *of, uint64_t at, uint64_t *end_p)
{
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
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
        player.engine->state((void *)(uintptr_t)(address + at), (size_t)(end - at), DDP_UINT8,
                             &player.named[number].site);
    }
}

/* Whether a gradient has all bytes of another one; of two with the same bytes, whether it is the first. */
static bool
has_room_for(const struct play_tensor *one, const struct play_tensor *other)
{
    if (one->role != PLAY_GRADIENT || one->bytes != other->bytes || one->ordinal != other->ordinal)
        return false;
    if (one->lo > other->lo || other->hi > one->hi)
        return false;
    const bool is_larger = one->lo != other->lo || one->hi != other->hi;
    return is_larger || one < other;
}

/* Whether a gradient lies in memory of another one, at another time: the engine knows the larger, or the first. */
static bool
is_in_other(uint32_t number)
{
    const struct play_tensor *it = &player.play.tensors[number];
    return it->role == PLAY_GRADIENT &&
           ANY(other, player.play.tensors, player.play.plan.tensor_count, has_room_for(other, it));
}

static void
annotate(uint32_t number)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    if (allocation == NULL || tensor->role >= way.differ_from) /* data may stay, too */
        return;
    player.named[number].live = true;
    pending_made(number);
    void *memory = (void *)(uintptr_t)(allocation->address + tensor->lo);
    int type = (int)tensor->type;
    size_t count = (size_t)(tensor->hi - tensor->lo) / element_size(type);
    if (count == 0 || is_in_other(number))
        return;
    const struct ddp_site *site = &player.named[number].site;
    if (tensor->role == PLAY_PARAMETER)
        player.engine->parameter(memory, count, type, site);
    if (tensor->role == PLAY_GRADIENT)
        player.engine->gradient(memory, count, type, site);
    if (tensor->role == PLAY_STATE)
        player.engine->state(memory, count, type, site);
    if (tensor->role == PLAY_STREAM || tensor->role == PLAY_LAST)
        player.engine->state(memory, (size_t)(tensor->hi - tensor->lo), DDP_UINT8, site);
    if (tensor->role == PLAY_STAYS || tensor->role == PLAY_UNWRITTEN)
        annotate_rest(number, allocation->address);
    /* of others each rank has its own, or they share bytes with a gradient, or by_state.c has them */
}

/* Where gradients, or what ranks average by state, are averaged. */
static void
require_tensors(void)
{
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        if (tensor->role < PLAY_COMPARED && !player.named[NUMBER_OF(tensor)].live)
            scout_stop("%s is not there in batch %llu of the program: the model has other sizes than when its plan was "
                       "made; make a new plan: ddprun scout --prove with these arguments",
                       player.named[NUMBER_OF(tensor)].text, (unsigned long long)player.period + 1);
    }
}

static void at_exit(int exit_status, void *unused);

static void
await_end(void)
{
    if (on_exit(at_exit, NULL) != 0)
        scout_stop("out of memory");
}

static void
begin_training(void)
{
    player.begun = true;
    clock_begin();
    if (way.begin != NULL) {
        turns_report(0); /* before ranks get what rank 0 has */
        for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
            annotate(i);
        way.begin();
    }
    await_end(); /* called before the engine's and the driver's, which have come up */
}

static void
variable_found(CUdeviceptr address, size_t bytes)
{
    player_variable_found(address, bytes);
    state_variable_found();
}

/* The program has waited for the device. */
static void
waited(void)
{
    exchange_waited();
    reads_waited();
}

/* ---- operations ---- */

static void
average_round(CUstream stream)
{
    static const struct ddp_site site = {"the plan", "ddprun --plan", 0};
    require_tensors();
    clock_note();
    if (!player.is_given_up)
        rounds_note(stream);
    rounds += !player.is_given_up;
    player.is_open = false;
    way.average(stream, &site);
    if (!is_awaited) /* once more: the libraries that the first step needs are there */
        await_end();
    is_awaited = true;
    pending_averaged();
}

static void
close_round(bool ends)
{
    if (way.close(ends))
        average_round(CU_STREAM_LEGACY);
    player.is_given_up = player.is_given_up || player.is_cut;
}

/* What ranks average goes: the program ends, or gives up its context; without `ends` it goes on otherwise. */
static void
finish(bool ends)
{
    if (player.is_open)
        close_round(ends);
    if (way.last_look != NULL)
        way.last_look();
}

/* A proof by state that has seen all ends where the program does something else, as it would at the program's end. By
 * gradients ranks that cannot follow the plan while they are timed may by state. */
static void
end_proof(void)
{
    if (way.end != NULL)
        way.end();
    if (!rounds_are_timed() || !player_is_by_state())
        return;
    if (player.rank == 0)
        rounds_end();
    player_wait_for_end(PLAY_OVER);
}

/* An operation that the plan does not know has come: ends the rank, or, once a round was averaged, true:
 * player.is_alone. `begins`: a batch begins with it. */
static bool
misfit(const char *name, const char *what, bool begins)
{
    /* an update of all ranks, from averaged gradients, is rank 0's, too */
    bool updates = !player_is_by_state() && player_is_last_turn() && !player.is_open &&
                   player.next > player.play.plan.average_before;
    bool is_amid = !begins && player.next != 0 && !updates;
    uint64_t lost = player.period + 1 - rounds * player_world();
    end_proof();
    if (!alone_may_begin(rounds))
        player_no_fit(name, what);
    player.is_given_up = false;
    finish(false);
    if (player_is_by_state())
        lost = player.is_given_up || (is_amid && !state_has_begun());
    alone_begin(name, what, lost, is_amid);
    player.is_given_up = false;
    return true;
}

/* Operations [next, end) of the plan do not come, and one that begins a batch, or follows them. */
static void
pass_by(uint32_t end, bool begins)
{
    for (uint32_t i = player.next; i < end && !player_warms_up() && !player.is_alone; ++i) {
        uint32_t part = player.play.operations[i].part;
        if (part != PLAY_BY_ALL && part != PLAY_BY_CHOICE)
            (void)misfit(player.play.operations[i].name, "is left out", begins);
    }
}

/* The expected operation does not come. A gradient that the first batch allocates may be cleared there. */
static void
require_place(bool begins)
{
    const struct play_operation *expected = &player.play.operations[player.next];
    bool is_first_fill = player_warms_up() && begins_with(expected->name, "cuMemset");
    if (is_elsewhere && expected->part != PLAY_BY_ALL && !is_first_fill)
        (void)misfit(expected->name, "is called from a place that is not in the plan", begins);
}

static void
end_state(CUstream stream)
{
    if (way.end_state != NULL && way.end_state())
        average_round(stream);
}

static void
end_step(CUstream stream)
{
    if (way.end_step != NULL && way.end_step())
        average_round(stream);
}

/* Whether operation `at` begins a batch, if it does not come in its turn: only copies and fills are left out. */
static bool
begins_batch(uint32_t at)
{
    uint32_t i = 0;
    while (i < at && begins_with(player.play.operations[i].name, "cuMem"))
        ++i;
    return i == at && (at < player.next || player.next == 0);
}

/* Operation `at` comes in the place of the expected one; 0: a period begins. */
static void
judge_order(const char *name, uint32_t at)
{
    const char *why = way.judge_order != NULL ? way.judge_order(at) : NULL;
    if (why != NULL)
        (void)misfit(name, why, begins_batch(at));
}

/* The next period begins: the one before must have had its update. */
static void
begin_period(const char *name, CUstream stream)
{
    outside = 0;
    if (!player.begun) {
        begin_training();
    } else {
        judge_order(name, 0);
        if (player.next > 0 && !player.is_alone)
            require_place(true);
        if (player.next > 0)
            pass_by(player.play.plan.operation_count, true);
        if (player.is_alone)
            return;
        end_step(stream);
        if ((player.is_given_up || is_gone) &&
            misfit(name, "begins a batch, and memory of the plan was freed before the round of all ranks was complete",
                   true))
            return;
        ++player.period;
    }
    way.begin_period();
}

/* Whether all of operations [from, to) of the plan may be missing. */
static bool
may_be_missing(uint32_t from, uint32_t to)
{
    return !ANY_NUMBER(
        i, from, to, player.play.operations[i].part != PLAY_BY_ALL && player.play.operations[i].part != PLAY_BY_CHOICE);
}

/* A period whose first operation is left out counts, too; by state also after one that lacks its end, as where a batch
 * without an update is the last, and no batch is copied ahead. */
static bool
begins_period(uint32_t at)
{
    if (at == 0 || player.next == 0)
        return true;
    return player_is_by_state() && at < player.next && may_be_missing(0, at) &&
           may_be_missing(player.next, player.play.plan.operation_count);
}

/* From the expected operation to `at`, which comes in its place. */
static void
pass_over(const char *name, uint32_t at, CUstream stream)
{
    judge_order(name, at);
    if (at < player.next && !player.is_alone)
        (void)misfit(name, "comes out of order", begins_batch(at));
    if (!player.is_alone)
        require_place(false);
    pass_by(at, false);
    if (at >= player.play.plan.state_before && !player.is_alone)
        end_state(stream);
    if (at >= player.play.plan.average_before && !player.is_alone)
        end_step(stream); /* its last operation was one that may be left out */
}

/* The thread's operation is the last of a step. */
static __thread bool ends_step __attribute__((tls_model("initial-exec")));
/* It is not in the plan. */
static __thread bool is_beside __attribute__((tls_model("initial-exec")));
/* It is the last that writes what ranks average. */
static __thread bool ends_state __attribute__((tls_model("initial-exec")));

/* Up to an operation that the plan does not know. `is_load`: a copy of a thread that has launched nothing so far. */
static void
follow_plan(struct operation *operation, uint32_t at, bool is_load)
{
    const struct play_plan *plan = &player.play.plan;
    const char *name = player_name_of(operation);
    if (player.begun && operation->graph != NULL && misfit(name, "launches a CUDA graph", false))
        return;
    if (at == NO_PLACE) {
        outside += player.begun;
        if (way.must_close != NULL && way.must_close(operation))
            average_round(operation->stream);
        is_stray = player.begun && way.updates != NULL && way.updates(operation, name);
        if (is_stray && alone_may_begin(rounds))
            before_stray = player_hold(player_trains);
        looks = way.meet_unplanned(operation, name);
        if (is_load && way.meet_loaded != NULL)
            way.meet_loaded(operation);
        if (is_load)
            agreement_load(operation);
        if (player.begun)
            reads_begin(operation, READS_BETWEEN, player.period);
        return;
    }
    if (begins_period(at)) {
        begin_period(name, operation->stream);
        if (player.is_alone)
            return;
        player.next = 0;
    }
    if (player.is_given_up && way.given_up != NULL)
        (void)misfit(name, way.given_up, false);
    else if (at != player.next)
        pass_over(name, at, operation->stream);
    if (player.is_alone)
        return;
    is_elsewhere = false;
    player.next = at + 1 < plan->operation_count ? at + 1 : 0;
    const struct play_operation *of = &player.play.operations[at];
    bool averages = at == plan->average_before && way.average != NULL && !player_is_by_state(); /* in front of it */
    if (way.meet != NULL)
        way.meet(operation, at);
    if (averages)
        player_note_batch();
    if (averages && way.add_up != NULL) {
        require_tensors();
        way.add_up(player.period);
    }
    if (averages && player_is_last_turn())
        average_round(operation->stream);
    operation->skip = !way.makes(of->part);
    reads_begin(operation, at, player.period);
    ends_state = way.end_state != NULL && at + 1 == plan->state_before;
    ends_step = way.end_step != NULL && at + 1 == plan->average_before;
    if (way.settle != NULL)
        way.settle(operation, at);
}

static void
follow_operation(struct operation *operation, bool is_load)
{
    uint32_t at = place_of_operation(operation);
    ends_state = ends_step = false;
    is_beside = at == NO_PLACE && player.begun;
    if (!player.is_alone)
        follow_plan(operation, at, is_load);
    if (player.is_alone)
        alone_meet(operation, at, at != NO_PLACE && begins_batch(at));
}

/* Whether some place calls both operations, as the loop over tensors of an update does. */
static bool
share_place(const struct play_operation *a, const struct play_operation *b)
{
    return ANY_NUMBER(i, 0, a->site_count * b->site_count,
                      is_same_site(&a->sites[i / b->site_count], &b->sites[i % b->site_count]));
}

/* Of one process that is only timed: nothing is followed, and call sites are looked up where a name asks for it. A
 * period calls as many operations from the place that shows it as the plan has there. */
static void
watch(const struct operation *operation)
{
    static uint32_t met, each;
    uint32_t at = player.play.plan.average_before % player.play.plan.operation_count;
    const struct play_operation *shows = &player.play.operations[at];
    struct caller place = {.found = false};
    if (each == 0) {
        for (uint32_t i = 0; i < player.play.plan.operation_count; ++i)
            each += names[i] == names[at] && share_place(&player.play.operations[i], shows);
    }
    if (player_hash_of(operation) == names[at] && is_at(&place, shows) && met++ % each == 0)
        rounds_note(operation->stream);
}

/* One process that plays all turns has no other ranks: its engine waits for none. */
static bool
is_reported(const struct operation *operation)
{
    return !operation->skip && player.engine->watching && !player.is_alone;
}

/* Of a plan by gradients: whether the operation is the one in front of which the plan averages. Of those of its name
 * and place it is the one after as many in its batch as in the plan. `begins`: a batch does. */
static bool
is_average(const struct operation *operation, bool begins)
{
    static uint32_t met;
    const uint32_t at = player.play.plan.average_before;
    const struct play_operation *all = player.play.operations;
    struct caller place = {.found = false};
    uint32_t before = 0;
    met = begins ? 0 : met;
    if (player_hash_of(operation) != names[at] || !is_at(&place, &all[at]))
        return false;
    for (uint32_t i = 0; i < at; ++i)
        before += names[i] == names[at] && share_place(&all[i], &all[at]);
    return met++ == before;
}

/* The same of one that averages gradients. */
static void
follow_gradients(const struct operation *operation, bool is_load)
{
    const bool is_amid = by_contents_is_amid();
    (void)by_contents_meet(operation);
    if (!is_amid)
        return;
    const bool averages = is_average(operation, contents_passes_border());
    if (contents_must_begin(averages) && !is_load && !by_contents_shows(operation)) {
        if (!player.begun)
            begin_training();
        contents_batch_begins();
    }
    if (averages)
        contents_average();
}

/* Of one process whose turns change where what is trained is written last. A loader's copy begins no batch: what state
 * is there would be read while the thread that trains goes on. */
static void
follow_reference(const struct operation *operation, bool is_load)
{
    if (!player_is_by_state()) {
        follow_gradients(operation, is_load);
        return;
    }
    const bool is_amid = by_contents_is_amid();
    const bool writes_first = by_contents_meet(operation);
    if (by_contents_begins(writes_first, is_amid && !is_load && !by_contents_shows(operation))) {
        if (!player.begun)
            begin_training();
        else
            ++player.period;
        way.begin_period();
        state_is_written();
    }
}

static void
begin_followed(struct operation *operation)
{
    scout_ensure_driver();
    reads_none();
    if (player_counts(operation)) {
        player_lock();
        if (way.note != NULL)
            way.note(operation);
        const bool is_load = !rounds_are_plain() && loaders_note(operation);
        if (rounds_are_plain())
            watch(operation);
        else if (by_contents_is_played())
            follow_reference(operation, is_load);
        else
            follow_operation(operation, is_load);
        if (!looks)
            player_unlock();
    }
    if (is_reported(operation))
        player.engine->begin(operation);
    if (looks)
        pending_keep();
}

/* An operation that is not in the plan has changed what waits, which was put back. What a copy or a fill has brought,
 * as of the best of the program's models, is there again once rank 0 is alone. Gradients that are changed late, as by
 * clipping, are changed in each batch from here on: rank 0 would train alone. */
static void
refuse_change(const struct operation *operation)
{
    char plain[PLAY_NAME_BYTES];
    const char *name = player_name_of(operation);
    bool is_transfer = loaders_is_transfer(operation);
    if (!player_is_by_state())
        player_no_fit(name, way.changes);
    (void)misfit(name, way.changes, false);
    pending_bring(is_transfer);
    alone_take(operation);
    if (!is_transfer)
        message_warning("undone", "plan: the change that %s made in the middle of a step is undone",
                        plain_name(name, plain, sizeof(plain)));
}

/* What was touched while it waits, by an operation that is not in the plan, has been read, or changed. */
static void
end_look(const struct operation *operation, bool enqueued)
{
    bool has_changed = pending_restore() && enqueued;
    looks = false;
    if (enqueued && way.judge_look != NULL)
        way.judge_look(player_name_of(operation));
    if (has_changed)
        refuse_change(operation);
    player_unlock();
}

static void
end_stray(const struct operation *operation, bool enqueued)
{
    is_stray = false;
    player_lock();
    if (enqueued)
        player_put_back(before_stray);
    player_release(&before_stray);
    if (enqueued)
        (void)misfit(player_name_of(operation), "makes an update, and is called from a place that is not in the plan",
                     false);
    player_unlock();
}

static void
end(struct operation *operation, bool enqueued)
{
    if (looks)
        end_look(operation, enqueued);
    if (is_stray)
        end_stray(operation, enqueued);
    if (way.judge_end != NULL)
        way.judge_end(operation, enqueued);
    if (is_reported(operation))
        player.engine->end(operation, enqueued);
    reads_end(operation);
    if (enqueued)
        figures_note(operation);
    if ((way.after != NULL || player.is_alone) && player.begun && enqueued) {
        player_lock();
        (player.is_alone ? alone_after : way.after)(operation);
        player_unlock();
    }
    if (is_beside && enqueued && player_plays_all()) {
        player_lock();
        turns_share(operation);
        player_unlock();
    }
    is_beside = false;
    if (by_contents_is_played() && player_counts(operation) && enqueued) {
        player_lock();
        if (by_contents_leave(operation))
            (player_is_by_state() ? end_step(operation->stream) : contents_batch_ends());
        player_unlock();
    }
    if (!ends_state && !ends_step)
        return;
    player_lock();
    if (ends_state && !ends_step) /* else the end of the step is the end of its state */
        end_state(operation->stream);
    if (ends_step)
        end_step(operation->stream);
    player_unlock();
    ends_state = ends_step = false;
}

/* Whether an allocation holds memory of the plan, without which a round cannot end. */
static bool
holds_named(CUdeviceptr address)
{
    const struct allocation *allocation = allocations_known(address);
    return allocation != NULL && allocation->address == address &&
           ANY_NUMBER(i, 0, player.play.plan.tensor_count,
                      player.named[i].live && player_allocation(&player.play.tensors[i]) == allocation);
}

static void
before_release(CUdeviceptr address, size_t bytes)
{
    player_lock();
    if (player.is_alone && holds_named(address))
        alone_look();
    else if (player.is_open && !rounds_are_plain() && holds_named(address))
        close_round(true);
    player_unlock();
    player.engine->before_release(address, bytes);
    player_lock();
    agreement_release(address, bytes);
    player_forget(address, bytes);
    player_unlock();
}

/* The context is about to go, and all memory with it: the end of a training, as samples of CUDA have it. */
static void
device_goes(void)
{
    player_lock();
    if (player.is_alone) {
        alone_look();
    } else if (player.begun && way.close != NULL && !rounds_are_plain() && !is_gone) {
        finish(true);
        player.is_open = false;
        is_gone = true;
    }
    agreement_release(1, SIZE_MAX - 1);
    player_forget(1, SIZE_MAX - 1);
    kernels_forget(true);
    player_unlock();
}

static void
before_device_reset(CUdevice device)
{
    device_goes();
    player.engine->before_device_reset(device);
}

static void
before_context_destroy(CUcontext context)
{
    CUcontext current = NULL;
    if (player.begun && scout_state.driver.cuCtxGetCurrent_p(&current) == CUDA_SUCCESS && current == context)
        device_goes();
    player.engine->before_context_destroy(context);
}

/* ---- start and end ---- */

static void
end_following(void)
{
    if (rounds_are_plain()) {
        rounds_end();
        return;
    }
    if (by_contents_is_played())
        by_contents_end();
    if (!player.begun)
        scout_stop("the program ended, and no step of the plan began: it is another program, or has other arguments, "
                   "than when its plan was made");
    if (way.end != NULL) {
        way.end();
        return;
    }
    if (player.is_alone) {
        rounds_end();
        alone_end();
        return;
    }
    bool averages = player.is_open && !is_gone;
    if (averages) /* a rank that ends alone would average, while others wait for what the host reads */
        player.engine->programs_end();
    if (!is_gone)
        finish(true);
    if (player.rank != 0)
        return;
    rounds_end();
    way.say();
    if (2 * outside > (player.period + 1) * player.play.plan.operation_count)
        message_warning("outside_plan",
                        "plan: after the last batch of the plan the program launched %llu operations that are not in "
                        "the plan. Each rank made all of them: if they train, ranks did not share that training",
                        (unsigned long long)outside);
    if (player.seen > 0)
        message_warning(
            "unplanned_reads",
            "plan: %llu operations that are not in the plan, perhaps for a log, have read %s: they show values "
            "of one rank",
            (unsigned long long)player.seen, way.reads);
    if (agreement_smaller() > 0)
        message_warning("smaller_batches",
                        "plan: %llu copies brought less data than in the plan; a smaller batch counts as a whole one",
                        (unsigned long long)agreement_smaller());
}

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
    player_lock();
    end_following();
    player_unlock();
}

const struct engine *
play_start(const struct shim_services *services, struct rank_status *status, const char *path)
{
    const struct play *play = &player.play;
    const struct engine *real = inner_engine_start(services, status);
    if (real == NULL)
        return NULL;
    player_load(path, real);
    way = player_is_by_state() ? by_state : by_gradients;
    by_gradients_change(&way);
    exchange_change(&way);
    message_warnings_to(&status->warnings, &status->step);
    own_pid = getpid();
    player.await_end = await_end;
    scout_state.log.fd = -1;
    names_new_object = new_object;
    variables_new = variable_found;
    reads_open(path);
    names = scout_zeroed(play->plan.operation_count, sizeof(*names));
    chains = scout_zeroed(play->plan.operation_count, sizeof(*chains));
    await_end();
    for (uint32_t i = 0; i < play->plan.operation_count; ++i)
        names[i] = kernels_hash(play->operations[i].name);
    player_table(&table, "the plan", annotate);
    table.begin = begin_followed;
    table.end = end;
    table.before_release = before_release;
    table.before_device_reset = before_device_reset;
    table.before_context_destroy = before_context_destroy;
    table.waited = waited;
    return &table;
}
