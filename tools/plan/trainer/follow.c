/*
 * follow.c - a rank of `ddprun --plan` (follow.h): the engine, with annotations that come from a plan, for a whole
 * training by turns. Stands between the shim and the real engine, in a copy of whose table a few functions are its own.
 * N periods of the program are a round, in which each rank plays one and drops the others' operations; the update is
 * made once, by all, from averaged gradients. What is dropped stands in the plan
 * (tools/scout/command/analysis/turns.h). Proofs of `ddprun scout --prove` are the same, until all has been seen; then
 * the rank waits to be ended.
 *
 * An operation of the program is an operation of the plan (planned.c) if it comes in its turn; all others are made by
 * all ranks: a validation pass, a checkpoint. At the plan's first operation what the plan names is annotated (named.c).
 * DDP_STEP is called in front of one operation of the last period of each round.
 *
 * All ranks must see the same batches, and launch the same (rank_agreement.c). What ranks average, and when, is in a
 * struct of calls (struct way): by_gradients.c, by_state.c, all_turns.c, exchange.c. What does not fit the plan ends
 * the rank, with the operation's name. Threads: `following` lets one at a time through.
 */
#include "tools/plan/trainer/follow.h"

#include "base/message.h"
#include "base/printable.h"

static struct engine table;

/* This thread's operation is an update outside of the plan, if the driver takes it; what it finds is put back then. */
static __thread bool is_stray __attribute__((tls_model("initial-exec")));
static char **before_stray;

/* This thread's operation touches gradients that wait; the lock is held from its beginning to its end. */
static __thread bool looks __attribute__((tls_model("initial-exec")));

/* As the first step of the plan begins: annotates what the plan names, so that all ranks get rank 0's values. */
static void
begin_training(void)
{
    player.begun = true;
    clock_begin();
    if (follow.way.begin != NULL) {
        turns_report(0); /* before ranks get what rank 0 has */
        for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
            named_annotate(i);
        follow.way.begin();
    }
    player.await_end(); /* called before the engine's and the driver's, which have come up */
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

/* A proof by state that has seen all ends where the program does something else, as it would at the program's end. By
 * gradients ranks that cannot follow the plan while they are timed may by state. */
static void
end_proof(void)
{
    if (follow.way.end != NULL)
        follow.way.end();
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
    uint64_t lost = player.period + 1 - follow.rounds * player_world();
    end_proof();
    if (!alone_may_begin(follow.rounds))
        player_no_fit(name, what);
    player.is_given_up = false;
    follow_finish(false);
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
    if (planned_is_elsewhere() && expected->part != PLAY_BY_ALL && !is_first_fill)
        (void)misfit(expected->name, "is called from a place that is not in the plan", begins);
}

static void
end_state(CUstream stream)
{
    if (follow.way.end_state != NULL && follow.way.end_state())
        follow_average_round(stream);
}

static void
end_step(CUstream stream)
{
    if (follow.way.end_step != NULL && follow.way.end_step())
        follow_average_round(stream);
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
    const char *why = follow.way.judge_order != NULL ? follow.way.judge_order(at) : NULL;
    if (why != NULL)
        (void)misfit(name, why, begins_batch(at));
}

/* The next period begins: the one before must have had its update. */
static void
begin_period(const char *name, CUstream stream)
{
    follow.outside = 0;
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
        if ((player.is_given_up || follow.is_gone) &&
            misfit(name, "begins a batch, and memory of the plan was freed before the round of all ranks was complete",
                   true))
            return;
        ++player.period;
    }
    follow.way.begin_period();
}

/* Whether all of operations [from, to) of the plan may be missing. */
static bool
may_be_missing(uint32_t from, uint32_t to)
{
    return !ANY_NUMBER(
        i, from, to, player.play.operations[i].part != PLAY_BY_ALL && player.play.operations[i].part != PLAY_BY_CHOICE);
}

/* Whether operation `at` of the plan begins a period. One whose first operation is left out counts, too; by state
 * also after one that lacks its end, as where a batch without an update is the last, and no batch is copied ahead. */
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
    if (at == PLANNED_NONE) {
        follow.outside += player.begun;
        if (follow.way.must_close != NULL && follow.way.must_close(operation))
            follow_average_round(operation->stream);
        is_stray = player.begun && follow.way.updates != NULL && follow.way.updates(operation, name);
        if (is_stray && alone_may_begin(follow.rounds))
            before_stray = player_hold(player_trains);
        looks = follow.way.meet_unplanned(operation, name);
        if (is_load && follow.way.meet_loaded != NULL)
            follow.way.meet_loaded(operation);
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
    if (player.is_given_up && follow.way.given_up != NULL)
        (void)misfit(name, follow.way.given_up, false);
    else if (at != player.next)
        pass_over(name, at, operation->stream);
    if (player.is_alone)
        return;
    planned_met();
    player.next = at + 1 < plan->operation_count ? at + 1 : 0;
    const struct play_operation *of = &player.play.operations[at];
    bool may_average = follow.way.average != NULL && !player_is_by_state();
    bool averages = may_average && at == plan->average_before; /* in front of it */
    if (follow.way.meet != NULL)
        follow.way.meet(operation, at);
    if (averages)
        player_note_batch();
    if (averages && follow.way.add_up != NULL) {
        named_require();
        follow.way.add_up(player.period);
    }
    if (averages && player_is_last_turn())
        follow_average_round(operation->stream);
    operation->skip = !follow.way.makes(of->part);
    reads_begin(operation, at, player.period);
    ends_state = follow.way.end_state != NULL && at + 1 == plan->state_before;
    ends_step = follow.way.end_step != NULL && at + 1 == plan->average_before;
    if (follow.way.settle != NULL)
        follow.way.settle(operation, at);
}

/* Before an operation: finds it in the plan, and decides whether this rank makes it, or, after the plan has ended,
 * rank 0 alone. `is_load`: a copy of a thread that has launched nothing so far. */
static void
follow_operation(struct operation *operation, bool is_load)
{
    uint32_t at = planned_find(operation);
    ends_state = ends_step = false;
    is_beside = at == PLANNED_NONE && player.begun;
    if (!player.is_alone)
        follow_plan(operation, at, is_load);
    if (player.is_alone)
        alone_meet(operation, at, at != PLANNED_NONE && begins_batch(at));
}

/* Whether the engine gets the operation. One process that plays all turns has no other ranks: its engine waits for
 * none. */
static bool
is_reported(const struct operation *operation)
{
    return !operation->skip && player.engine->watching && !player.is_alone;
}

/* In a run by contents that averages gradients: before an operation. */
static void
follow_gradients(const struct operation *operation, bool is_load)
{
    const bool is_amid = by_contents_is_amid();
    (void)by_contents_meet(operation);
    if (!is_amid)
        return;
    const bool averages = planned_is_average(operation, contents_passes_border());
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
        follow.way.begin_period();
        state_is_written();
    }
}

/* Of one process that is only timed: nothing is followed. */
static void
watch(const struct operation *operation)
{
    if (planned_shows_period(operation))
        rounds_note(operation->stream);
}

/* Before each operation of the program: finds its place in the plan, and passes it on to the engine. */
static void
begin_followed(struct operation *operation)
{
    scout_ensure_driver();
    reads_none();
    if (player_counts(operation)) {
        player_lock();
        if (follow.way.note != NULL)
            follow.way.note(operation);
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
        player_no_fit(name, follow.way.changes);
    (void)misfit(name, follow.way.changes, false);
    pending_bring(is_transfer);
    alone_take(operation);
    if (!is_transfer)
        message_warning("undone", "plan: the change that %s made in the middle of a step is undone",
                        plain_name(name, plain, sizeof(plain)));
}

/* After an operation that is not in the plan and that touched what waits. A refused one has read and changed nothing,
 * but what was put there for it goes back all the same. */
static void
end_look(const struct operation *operation, bool enqueued)
{
    bool has_changed = pending_restore() && enqueued;
    looks = false;
    if (follow.way.put_back != NULL)
        follow.way.put_back();
    if (enqueued && follow.way.judge_read != NULL)
        follow.way.judge_read(player_name_of(operation));
    if (has_changed)
        refuse_change(operation);
    player_unlock();
}

/* After an update from a call site that the plan does not have: puts back what it changed. Then the rank ends, or
 * rank 0 goes on alone (misfit()). */
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

/* After an operation that is not in the plan, in a run in which one process plays all turns: what each rank has for
 * itself gets it (turns_share()). */
static void
share_beside(const struct operation *operation)
{
    if (!player_plays_all())
        return;
    player_lock();
    turns_share(operation);
    player_unlock();
}

/* After an operation of a run by contents: it may have been the last of its batch. */
static void
leave_contents(const struct operation *operation)
{
    if (!by_contents_is_played() || !player_counts(operation))
        return;
    player_lock();
    if (by_contents_leave(operation))
        (player_is_by_state() ? end_step(operation->stream) : contents_batch_ends());
    player_unlock();
}

/* Ends the state's part of a step, or the step, where the operation was the last of it (ends_state, ends_step). */
static void
end_parts(const struct operation *operation)
{
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

/* After each operation of the program; `enqueued`: the driver took it. */
static void
end(struct operation *operation, bool enqueued)
{
    if (looks)
        end_look(operation, enqueued);
    if (is_stray)
        end_stray(operation, enqueued);
    if (follow.way.judge_end != NULL)
        follow.way.judge_end(operation, enqueued);
    if (is_reported(operation))
        player.engine->end(operation, enqueued);
    reads_end(operation);
    if (enqueued)
        figures_note(operation);
    if ((follow.way.after != NULL || player.is_alone) && player.begun && enqueued) {
        player_lock();
        (player.is_alone ? alone_after : follow.way.after)(operation);
        player_unlock();
    }
    if (is_beside && enqueued)
        share_beside(operation);
    is_beside = false;
    if (enqueued)
        leave_contents(operation);
    end_parts(operation);
}

/* ---- start and end ---- */

const struct engine *
play_start(const struct shim_services *services, struct rank_status *status, const char *path)
{
    const struct engine *real = inner_engine_start(services, status);
    if (real == NULL)
        return NULL;
    player_load(path, real);
    follow.way = player_is_by_state() ? by_state : by_gradients;
    by_gradients_change(&follow.way);
    exchange_change(&follow.way);
    message_warnings_to(&status->warnings, &status->step);
    scout_state.log.fd = -1;
    variables_new = variable_found;
    planned_open();
    named_open(follow.way.differ_from);
    player_table(&table, "the plan", named_annotate);
    reads_open(path);
    follow_end_open(&table);
    table.begin = begin_followed;
    table.end = end;
    table.waited = waited;
    return &table;
}
