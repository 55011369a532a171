/*
 * by_state.c - see player.h: ranks by turns that average what stays. Rank r makes step r of a round completely, update
 * included, from what stays as the round began; at the round's end all have what stayed then, plus the mean of what the
 * ranks' steps have changed. The mean travels as a parameter of the engine's, by DDP_STEP_PARAMETERS; sums, and the
 * latest bytes, by DDP_REDUCE.
 *
 * Turns change directly after the last write of what is averaged (play_plan.state_before), wherever the plan's period
 * begins: the change is kept apart then, and what stays is as the round began. So nothing that comes later in the
 * round, on the device or on the host, sees what one rank's step has made. The round's last step sees the mean from
 * there on. Sums, and the latest bytes, follow where the step ends.
 *
 * One process that plays all turns does the same arithmetic: it adds the changes in the order of the turns, as ranks
 * do.
 *
 * What stays is the program's memory, and kernels of this file touch it in the order of the
 * program's one stream; if it has several, the device is waited for.
 */
#include "base/message.h"
#include "tools/check/format/run.h"
#include "tools/plan/trainer/state_memory.h"

enum { ROUNDS_OF_ALARM = 3, ROUNDS_OF_PROOF = 2 };

static uint64_t looked_at;   /* rounds when `found` was last asked whether a zero has turned into a whole number */
static uint32_t same_rounds; /* in which all ranks had the same change; and no other so far, or: */
static bool any_differed;

static uint32_t steps;      /* of the round, that have begun */
static uint32_t misses;     /* of these, when the mean was made last: without an update, they count in no mean */
static bool in_step;        /* the last of them is not complete; or a plain step */
static bool has_own;        /* the period has made an operation that one rank makes: its step has begun */
static char **own;          /* [tensor_count]: what this rank has, while all have the mean; NULL: not so */
static bool is_state_ended; /* the step under way has written what is averaged for the last time */
static bool is_rest_due;    /* and the round is averaged, but for sums, which follow where the step ends */
static bool has_change;     /* of the round's steps this rank's is ended so: its change is kept apart */
static char *kept_changes;  /* these, while all have the mean; NULL: not so */
static bool is_plain;       /* all ranks make the step that was begun last, which belongs to no round */
static uint64_t plain_steps, short_rounds, round_count;
static uint64_t all_steps;            /* that have begun */
static uint16_t owners[STATE_OWNERS]; /* of the last of them */

static uint32_t turn;     /* the step of the round that the last one is, from 0 */
static uint32_t given_up; /* steps */

static uint32_t launches; /* since the last step began */

static void
note_launch(const struct operation *operation)
{
    state_note_operation(operation);
    launches += !loaders_is_transfer(operation);
}

/* ---- rounds ---- */

/* A history that begins anew within a round would get the changes of two ranks in one element. */
static void
require_long_histories(void)
{
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        if (state_is_sum(i) && player.play.tensors[i].type == ELEMENT_UINT32 &&
            state_bytes(i) / sizeof(uint64_t) < player_world())
            player_refuse("each step writes the next element of %s, and may begin again within a round of %u ranks",
                          player.named[i].text, player_world());
}

/* At the plan's first operation: makes room, and all ranks have what rank 0 has. */
static void
begin(void)
{
    const uint32_t count = player.play.plan.tensor_count;
    uint32_t back = 0, missing;
    bool is_checked = getenv(DDPRUN_ENV_CHECK_RUN) != NULL; /* another process has other bits where there is noise */
    state_make_room();
    CUstream stream = state_stream();
    require_long_histories();
    DRIVER(cuMemsetD8Async, state_room.memory, 0, state_room.memory_end + 1, stream);
    DRIVER(cuMemsetD8Async, state_room.found, 0, sizeof(struct state_found), stream);
    bool all = state_find_tensors(stream, &missing);
    for (int t = 0; t < 2 && all; ++t)
        state_launch(KEEP, &state_room.tables[t], &back, NULL, stream);
    for (uint32_t i = 0; i < count; ++i) {
        const struct ddp_site *site = &player.named[i].site;
        if (!state_is_kept(i))
            continue;
        if (!is_checked || player.play.tensors[i].noise == 0)
            player.engine->state((void *)(uintptr_t)(state_room.memory + state_room.kept[i].begin), state_bytes(i),
                                 DDP_UINT8, site);
        if (!state_is_sum(i))
            player.engine->parameter((void *)(uintptr_t)(state_room.memory + state_room.kept[i].change),
                                     state_elements(i), state_wide_type(i), site);
    }
    back = 1; /* all have what rank 0 has */
    for (int t = 0; t < 2 && all; ++t)
        state_launch(KEEP, &state_room.tables[t], &back, NULL, stream);
    state_release();
    agreement_begin();
}

/* Whether all memory of the plan is there, at the begin of a round. */
static bool
is_all_there(CUstream stream, bool may_lack)
{
    uint32_t missing = 0;
    if (state_find_tensors(stream, &missing))
        return true;
    if (!may_lack)
        scout_stop("%s is not there when a round begins: the model has other sizes than when its plan was made; make a "
                   "new plan: ddprun scout --prove with these arguments",
                   player.named[missing].text);
    return false;
}

static void
begin_step(bool may_lack)
{
    uint32_t back = steps > 0;
    CUstream stream = state_stream();
    in_step = player.is_open = true;
    is_plain = !back && !is_all_there(stream, may_lack);
    owners[(all_steps - 1) % STATE_OWNERS] = (uint16_t)(is_plain ? 0 : steps);
    if (is_plain)
        return;
    for (int t = 0; t < 2 && !back; ++t)
        state_launch(KEEP, &state_room.tables[t], &back, NULL, stream);
    if (back && player_plays_all() && !by_contents_is_played()) /* what is averaged is as the round began */
        state_launch(KEEP, &state_room.tables[1], &back, NULL, stream);
    turn = steps++;
    if (player_plays_all())
        turns_begin(turn);
    state_release();
}

/* A step begins with the first operation of its period that one rank makes. All ranks make those before it, such as a
 * copy ahead or a read of the last loss: after the last step they may come without one. Until then the latest memory is
 * that of the step before. */
static void
begin_period(void)
{
    has_own = is_state_ended = false;
    left_out_begin();
    launches = 0;
    owners[all_steps % STATE_OWNERS] = all_steps > 0 ? owners[(all_steps - 1) % STATE_OWNERS] : 0;
    ++all_steps;
}

/* In the first rounds memory of the plan may not be there yet; all ranks make the step then, and it belongs to no
 * round. */
static void
begin_own(void)
{
    has_own = true;
    begin_step(player_warms_up());
    plain_steps += is_plain;
    player_note_batch();
}

void
state_variable_found(void)
{
    if (!in_step || !is_plain || launches > 1)
        return;
    begin_step(true);
    plain_steps -= !is_plain;
}

static bool
makes(uint32_t part)
{
    return part == PLAY_BY_ALL || is_plain || player_plays_all() || player.rank == turn;
}

/* Whether what is averaged is another than as the round began. */
static bool
has_changed(void)
{
    bool any = false;
    char **now = player_hold(player_trains);
    for (uint32_t i = 0; i < player.play.plan.tensor_count && !any; ++i) {
        char *begun = now[i] != NULL ? scout_zeroed(state_bytes(i), 1) : NULL;
        if (begun == NULL)
            continue;
        CUstream stream = state_stream();
        DRIVER(cuMemcpyDtoHAsync, begun, state_room.memory + state_room.kept[i].begin, state_bytes(i), stream);
        player_synchronize_stream(stream);
        any = memcmp(begun, now[i], state_bytes(i)) != 0;
        free(begun);
    }
    player_release(&now);
    return any;
}

/* Whether the step that was begun last is the last of its round. The second round of a proof has fewer. */
static bool
is_last_step(void)
{
    const struct play_plan *plan = &player.play.plan;
    bool is_short = plan->data < PLAY_TRAINING && round_count == 1;
    if (plan->data == PLAY_REFERENCE && round_count < PLAY_ROUNDS)
        return steps == plan->round_steps[round_count];
    return steps == player_world() - is_short;
}

/* Of a proof's one process: whether the turn has changed state as the round's first one has, but for the rounding of
 * sums, as where each batch is the whole data in another order. */
static void
compare_turn(void)
{
    char **now = player_hold(player_trains);
    bool is_same = true;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const int type = (int)player.play.tensors[i].type;
        if (now[i] == NULL)
            continue;
        char *begun = player_room(state_bytes(i));
        double *values = scout_zeroed(state_elements(i) + 1, sizeof(*values));
        CUstream stream = state_stream();
        DRIVER(cuMemcpyDtoHAsync, begun, state_room.memory + state_room.kept[i].begin, state_bytes(i), stream);
        player_synchronize_stream(stream);
        for (size_t k = 0; k < state_elements(i); ++k) {
            values[k] = element_get(type, now[i], k) - element_get(type, begun, k);
            is_same = is_same && values[k] == 0;
        }
        free(begun);
        turns_compare(turn, i, values, state_elements(i));
    }
    any_differed = any_differed || is_same || (turn > 0 && !turns_are_near());
    player_release(&now);
}

/* Keeps apart what the step has changed, and puts back what stays. */
static void
keep_change(void)
{
    uint32_t back = 1;
    if (player.play.plan.data == PLAY_ALONE && !any_differed && !rounds_are_timed())
        compare_turn();
    CUstream stream = state_stream();
    state_launch_change(0, player_plays_all() && steps > 1, stream);
    state_launch(KEEP, &state_room.tables[0], &back, NULL, stream);
    state_release();
    has_change = true;
}

/* Whether the step ends with an operation after which it is complete by the plan, and not in front of a later one. What
 * the rank has not begun with the first of these ends with the second. */
static void
note_state_end(void)
{
    const struct play_plan *plan = &player.play.plan;
    const bool is_punctual = player.next == plan->state_before % plan->operation_count ||
                             player.next == plan->average_before % plan->operation_count;
    if (player.page_count > 0)
        player.pages[0]->punctual += is_punctual;
}

/* What is averaged is written for the last time in this step. */
static bool
end_state(void)
{
    bool is_own = player.rank == turn || player_plays_all();
    if (!in_step || is_plain || is_state_ended)
        return false;
    is_state_ended = true;
    note_state_end();
    left_out_end(is_own, has_changed);
    if (is_own && player_world() > 1)
        keep_change();
    return is_last_step();
}

void
state_is_written(void)
{
    begin_own();
    left_out_make_all();
}

static void end_round(void);

/* What this rank's step has changed is complete. */
static bool
end_step(void)
{
    (void)end_state();
    bool has_ended = in_step && !is_plain;
    in_step = false;
    if (has_ended && player_plays_all()) {
        turns_end(steps - 1);
        state_launch_change(1, steps > 1, state_stream());
        state_release();
    }
    if (!is_rest_due)
        return has_ended && is_last_step();
    end_round();
    return false;
}

uint32_t
state_owner(uint64_t period)
{
    return owners[period % STATE_OWNERS];
}

/* Whether steps of a round are complete, and not averaged. */
static bool
is_round_open(void)
{
    return steps > 0 && !in_step;
}

/* Sums get the changes of all ranks, and what only the host reads the bytes of the rank that has the latest, `owner`.
 * What has one type is one call. */
static void
exchange_rest(uint32_t owner, CUstream stream)
{
    static const struct ddp_site site = {"sums, and what the host reads later", "the plan", 0};
    struct state_mean none = {1, 1};
    CUdeviceptr unasked = 0;
    bool is_owner = player.rank == owner, has_step = player.rank < steps;
    if (by_contents_is_played()) /* its sums are those of one process */
        return;
    if (!player_plays_all() && has_step && player_world() > 1)
        state_launch_change(1, 0, stream);
    if (!player_plays_all() && !has_step && state_room.lasts_at > state_room.ends_at[0])
        DRIVER(cuMemsetD8Async, state_room.memory + state_room.ends_at[0], 0,
               state_room.lasts_at - state_room.ends_at[0], stream);
    if (state_room.lasts_at < state_room.memory_end && !is_owner)
        DRIVER(cuMemsetD8Async, state_room.memory + state_room.lasts_at, 0, state_room.memory_end - state_room.lasts_at,
               stream);
    for (int back = 0; back < 2 && player.engine->world_size > 1; ++back) {
        for (uint32_t i = 0; i < player.play.plan.tensor_count && is_owner == !back; ++i) {
            CUdeviceptr value = state_room.kept[i].value, bytes = state_room.memory + state_room.kept[i].change;
            if (player.play.tensors[i].role == PLAY_LAST)
                DRIVER(cuMemcpyDtoDAsync, back ? value : bytes, back ? bytes : value, state_bytes(i), stream);
        }
        for (int type = 1; type < PLACES && !back; ++type) {
            int as = type < LASTS ? type : DDP_UINT32;
            uint64_t at = state_room.ends_at[type - 1],
                     begin = state_place(&at, 0, type < LASTS ? element_size(as) : STATE_ALIGNED);
            if (begin < state_room.ends_at[type])
                player.engine->reduce((void *)(uintptr_t)(state_room.memory + begin),
                                      (state_room.ends_at[type] - begin) / element_size(as), as, DDP_OP_SUM, stream,
                                      &site);
        }
    }
    if (player_world() > 1)
        state_launch(APPLY, &state_room.tables[1], &none, &unasked, stream);
}

static void
judge_equals(const char *how)
{
    uint32_t most = player.play.plan.data == PLAY_TRAINING ? ROUNDS_OF_ALARM : ROUNDS_OF_PROOF;
    if (!any_differed && same_rounds == most)
        scout_stop("in %u rounds all ranks made the same change of state%s. Usual cause: each batch is the whole data, "
                   "so more ranks gain nothing. Else the plan misses the random state that draws batches on the device",
                   most, how);
}

/* All ranks have come to the same change in each round so far: they had the same batch. */
static void
look_for_equals(CUstream stream)
{
    struct state_found seen;
    DRIVER(cuMemcpyDtoHAsync, &seen, state_room.found, sizeof(seen), stream);
    player_synchronize_stream(stream);
    any_differed = seen.differs != 0;
    same_rounds += !any_differed && seen.changed != 0;
    judge_equals("");
}

/* The tensor in whose memory a chunk of what is averaged lies, by the chunk's number from 1; NULL: 0 is none. */
static const struct named *
named_of_chunk(uint32_t number)
{
    for (uint32_t i = 0; number > 0 && i < player.play.plan.tensor_count; ++i) {
        const struct state_chunk *chunk = &state_room.tables[0].host[number - 1];
        if (player.play.tensors[i].role == PLAY_CHANGES && state_room.kept[i].value <= chunk->value &&
            chunk->value < state_room.kept[i].value + state_bytes(i))
            return &player.named[i];
    }
    return NULL;
}

/* A word that was zero while the plan was made has the class of its neighbours; if it holds a whole number later, as a
 * count of what is rare, ranks would average that. Asked in each of the first rounds, then ever more rarely, and at the
 * end. */
static void
look_for_whole(void)
{
    struct state_found seen;
    if (round_count == looked_at || state_room.tables[0].count == 0)
        return;
    looked_at = round_count;
    CUstream stream = state_stream();
    DRIVER(cuMemcpyDtoHAsync, &seen, state_room.found, sizeof(seen), stream);
    player_synchronize_stream(stream);
    const struct named *turned = named_of_chunk(seen.turned), *written = named_of_chunk(seen.written);
    if (turned != NULL)
        player_refuse("in %s a float that was zero has become a whole number, which has no mean: make a new plan: "
                      "ddprun scout --by state --prove with these arguments and more --steps",
                      turned->text);
    if (written != NULL)
        player_refuse("%s was written after the last write of state that the plan has for a step, and ranks have lost "
                      "that change: make a new plan: ddprun scout --by state --prove with these arguments and more "
                      "--steps",
                      written->text);
}

/* The first DDP_REDUCE has brought up what the engine's end needs. */
static void
await_end(void)
{
    static bool is_awaited;
    if (!is_awaited)
        player.await_end();
    is_awaited = true;
}

/* Whether it holds on any rank. */
static bool
is_on_any(bool here)
{
    static const struct ddp_site site = {"whether steps without an update change state", "ddprun --plan", 0};
    uint32_t any = here;
    CUstream stream = state_stream();
    DRIVER(cuMemcpyHtoDAsync, state_room.flag, &any, sizeof(any), stream);
    if (player.engine->world_size > 1)
        player.engine->reduce((void *)(uintptr_t)state_room.flag, 1, DDP_UINT32, DDP_OP_SUM, stream, &site);
    DRIVER(cuMemcpyDtoHAsync, &any, state_room.flag, sizeof(any), stream);
    player_synchronize_stream(stream);
    await_end();
    return any > 0;
}

/* How many of the round's `complete` steps count in its mean: those that left their update out do not. Never 0. */
static uint32_t
updating_steps(uint32_t complete)
{
    misses = left_out_steps(is_on_any);
    return complete > misses ? complete - misses : 1;
}

/* The rank that made the round's last step. */
static uint32_t
last_rank(void)
{
    return steps > 0 ? steps - 1 : 0;
}

/* A rank that has made no step of the round has changed nothing. */
static void
clear_changes(CUstream stream)
{
    if (!has_change && player_world() > 1 && state_room.ends_at[0] > state_room.changes_at)
        DRIVER(cuMemsetD8Async, state_room.memory + state_room.changes_at, 0,
               state_room.ends_at[0] - state_room.changes_at, stream);
}

/* Sums are those of all ranks, too: the round has ended. */
static void
end_round(void)
{
    if (is_rest_due)
        exchange_rest(last_rank(), state_stream());
    state_release();
    if (player.page_count > 0 && round_count < PLAY_ROUNDS)
        player.pages[0]->round_steps[round_count] = steps - misses;
    if (player.page_count > 0)
        player.pages[0]->whole += steps == player_world() && misses == 0;
    short_rounds += steps < player_world();
    ++round_count;
    steps = 0;
    left_out_round_ends();
    has_change = is_rest_due = player.is_open = false;
    if (round_count - looked_at > round_count / 16)
        look_for_whole();
    turns_report((uint32_t)round_count);
}

/* The round ends with the steps that are complete: what stays is as it began, plus the mean of their changes. Within
 * its last step, sums are not complete. */
static void
average_state(CUstream unused, const struct ddp_site *site)
{
    (void)unused;
    bool looks = !player_plays_all() && !any_differed && steps == player_world() && player_world() > 1;
    struct state_mean mean = {.times = player_world(), .under = updating_steps(steps)};
    double by = player_world();
    struct state_mean own_change = {1, 1};
    CUdeviceptr unasked = 0;
    CUdeviceptr seen = looks ? state_room.found : 0;
    CUstream stream = state_stream();
    clear_changes(stream);
    if (player_world() > 1) /* what a rank has written since then would be lost */
        state_launch(RETURN, &state_room.tables[0], &state_room.found, NULL, stream);
    if (looks) { /* this rank's own, to hold it against the mean */
        DRIVER(cuMemsetD8Async, state_room.found, 0, offsetof(struct state_found, written), stream);
        state_launch(APPLY, &state_room.tables[0], &own_change, &unasked, stream);
    }
    if (!in_step)
        exchange_rest(last_rank(), stream);
    agreement_show(stream);
    same_rounds += player.play.plan.data == PLAY_ALONE && !any_differed && steps > 1;
    if (player.play.plan.data == PLAY_ALONE)
        judge_equals(", but for the rounding of sums");
    if (player_plays_all() && player_world() > 1) /* as ranks have it where a check compares */
        state_launch(DIVIDE, &state_room.tables[0], &by, NULL, stream);
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (player.play.tensors[i].role == PLAY_CHANGES)
            player.engine->gradient_ready((void *)(uintptr_t)(state_room.memory + state_room.kept[i].change), stream,
                                          &player.named[i].site);
    }
    player_wait_begin();
    player.engine->step_parameters(0, stream, site);
    player_wait_end();
    if (player_world() > 1)
        state_launch(APPLY, &state_room.tables[0], &mean, &seen, stream);
    if (looks)
        look_for_equals(stream);
    state_release();
    is_rest_due = player.is_open = in_step;
    if (!in_step)
        end_round();
}

/* The step that has begun does not come to its end: what it has written of what ranks average is put back. Where no
 * step of the round is complete, no average follows: what only the host reads is made alike here. */
static void
give_up_step(void)
{
    uint32_t back = 1;
    in_step = false;
    if (is_plain)
        return;
    --steps;
    ++given_up;
    CUstream stream = state_stream();
    for (int t = 0; t < 2 && (player.rank == turn || player_plays_all()); ++t)
        state_launch(KEEP, &state_room.tables[t], &back, NULL, stream);
    if (steps == 0 && !player_plays_all())
        exchange_rest(0, stream);
    state_release();
}

static void
say(void)
{
    if (plain_steps > 0)
        message_line("plan: all ranks made the first %llu steps, because memory of the plan was not allocated yet",
                     (unsigned long long)plain_steps);
    if (given_up > 0)
        message_line("plan: after its last update the program began a batch, or a prediction, without an update: state "
                     "is that of the last update");
    if (short_rounds > 0)
        message_line("plan: %llu of %llu rounds had fewer steps than ranks: state was read or written between steps",
                     (unsigned long long)short_rounds, (unsigned long long)round_count);
}

static void
meet(const struct operation *operation, uint32_t at)
{
    if (!has_own && player.play.operations[at].part != PLAY_BY_ALL)
        begin_own();
    agreement_note(operation, at, false);
}

bool
state_has_begun(void)
{
    return has_own;
}

static bool
is_optional(uint32_t at)
{
    uint32_t part = player.play.operations[at].part;
    return part == PLAY_BY_ALL || part == PLAY_BY_CHOICE;
}

/* Of the step under way nothing is missing but reads of what it has written. */
static bool
only_reads_are_missing(void)
{
    uint32_t i = player.next;
    while (i > 0 && i < player.play.plan.average_before && player_brings_step(i))
        ++i;
    return i > 0 && i >= player.play.plan.average_before;
}

/* The step under way has changed what is averaged, and of the operations up to its last write of state those are
 * missing that the program may leave out: it may be complete, and may go on. A collective of all ranks. */
static bool
may_be_complete(void)
{
    uint32_t i = player.next;
    if (!in_step || is_plain || is_state_ended || !left_out_has_made_any())
        return false;
    while (i > 0 && i < player.play.plan.state_before && is_optional(i))
        ++i;
    bool is_own = player.rank == turn || player_plays_all();
    return i >= player.play.plan.state_before && is_on_any(is_own && has_changed());
}

/* An operation between steps that may touch state. A step is complete after its last write of state. */
static bool
must_close(const struct operation *operation)
{
    bool is_complete = in_step && only_reads_are_missing();
    if (!(is_complete || is_round_open()) || !pending_may_touch(operation))
        return false;
    if (is_complete)
        (void)end_step();
    return is_round_open();
}

/* All have the mean of the round's complete steps, and of the one under way if it may be complete. Its sums, and what
 * only the host reads, are as they are so far: until judge_look(). */
static void
show_mean(void)
{
    bool counts = may_be_complete();
    struct state_mean mean = {.times = 1, .under = updating_steps(counts ? steps : steps - 1)};
    CUdeviceptr unasked = 0;
    CUstream stream = state_stream();
    own = player_hold(pending_is_averaged);
    kept_changes = player_room(state_room.ends_at[0] - state_room.changes_at);
    if (has_change)
        DRIVER(cuMemcpyDtoHAsync, kept_changes, state_room.memory + state_room.changes_at,
               state_room.ends_at[0] - state_room.changes_at, stream);
    player_synchronize_stream(stream);
    if (counts && player.rank == turn)
        state_launch_change(0, 0, stream);
    else
        clear_changes(stream);
    exchange_rest(turn, stream);
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (player.play.tensors[i].role == PLAY_CHANGES)
            player.engine->reduce((void *)(uintptr_t)(state_room.memory + state_room.kept[i].change), state_elements(i),
                                  state_wide_type(i), DDP_OP_SUM, stream, &player.named[i].site);
    }
    state_launch(APPLY, &state_room.tables[0], &mean, &unasked, stream);
    state_release();
    await_end();
}

/* Within a step it may read. A copy, for a model that is saved, brings what the steps before have left; of others,
 * ranks that have not made the step show what they have. */
static bool
meet_unplanned(const struct operation *operation, const char *name)
{
    (void)name;
    uint32_t missing;
    bool looks = in_step && !is_plain && pending_touched(operation);
    bool shows = looks && !is_state_ended && loaders_is_transfer(operation) && player.engine->world_size > 1 &&
                 state_find_tensors(state_stream(), &missing);
    if (shows)
        show_mean();
    player.seen += looks && !shows && !is_state_ended;
    return looks;
}

static void
judge_look(const char *name)
{
    (void)name;
    player_put_back(own);
    player_release(&own);
    if (kept_changes == NULL)
        return;
    CUstream stream = state_stream();
    DRIVER(cuMemcpyHtoDAsync, state_room.memory + state_room.changes_at, kept_changes,
           state_room.ends_at[0] - state_room.changes_at, stream);
    player_synchronize_stream(stream);
    free(kept_changes);
    kept_changes = NULL;
}

static void
settle(const struct operation *operation, uint32_t at)
{
    (void)operation;
    left_out_make(at);
}

/* All steps that are complete count. Where the program ends, so does one that may be complete; a program that goes on
 * may not go on with that. */
static bool
close_round(bool ends)
{
    player.is_cut = ends && may_be_complete();
    if (in_step && (is_state_ended || only_reads_are_missing() || player.is_cut))
        (void)end_step();
    if (in_step) {
        give_up_step();
        player.is_given_up = true;
    }
    return is_round_open();
}

const struct way by_state = {
    .changes = "changes state in the middle of a step, and is not in the plan",
    .reads = "state in the middle of a step, such as a validation before the step's last operation",
    .given_up = "continues a batch in which memory of the plan was freed",
    .differ_from = PLAY_LAST + 1,
    .begin = begin,
    .note = note_launch,
    .begin_period = begin_period,
    .end_state = end_state,
    .end_step = end_step,
    .makes = makes,
    .meet = meet,
    .settle = settle,
    .judge_look = judge_look,
    .average = average_state,
    .must_close = must_close,
    .meet_unplanned = meet_unplanned,
    .close = close_round,
    .last_look = look_for_whole,
    .say = say,
};
