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
 * What stays is the program's memory, and kernels touch it in the order of the program's one stream; if it has several,
 * the device is waited for.
 *
 * Here are the begin and the end of a training, and what operations see that are not in the plan; state_steps.c has the
 * steps of a round, state_round.c averages it.
 */
#include "base/message.h"
#include "tools/check/format/run.h"
#include "tools/plan/trainer/state_round.h"

static char **own;         /* [tensor_count]: what this rank has, while all have the mean; NULL: not so */
static char *kept_changes; /* what its steps have changed, meanwhile; NULL: not so */

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

/* ---- operations that are not in the plan ---- */

/* An operation between steps that may touch state. A step is complete after its last write of state. */
static bool
must_close(const struct operation *operation)
{
    bool is_complete = state_round.in_step && state_lacks_only_reads();
    if (!(is_complete || state_is_round_open()) || !pending_may_touch(operation))
        return false;
    if (is_complete)
        (void)state_end_step();
    return state_is_round_open();
}

/* All have the mean of the round's complete steps, and of the one under way if it may be complete. Its sums, and what
 * only the host reads, are as they are so far: until put_back(). */
static void
show_mean(void)
{
    bool counts = state_may_be_complete();
    struct state_mean mean = {.times = 1,
                              .under = round_updating_steps(counts ? state_round.steps : state_round.steps - 1)};
    CUdeviceptr unasked = 0;
    CUstream stream = state_stream();
    own = player_hold(pending_is_averaged);
    kept_changes = player_room(state_room.ends_at[0] - state_room.changes_at);
    if (state_round.has_change)
        DRIVER(cuMemcpyDtoHAsync, kept_changes, state_room.memory + state_room.changes_at,
               state_room.ends_at[0] - state_room.changes_at, stream);
    player_synchronize_stream(stream);
    if (counts && player.rank == state_round.turn)
        state_launch_change(0, 0, stream);
    else
        round_clear_changes(stream);
    round_exchange_rest(state_round.turn, stream);
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (player.play.tensors[i].role == PLAY_CHANGES)
            player.engine->reduce((void *)(uintptr_t)(state_room.memory + state_room.kept[i].change), state_elements(i),
                                  state_wide_type(i), DDP_OP_SUM, stream, &player.named[i].site);
    }
    state_launch(APPLY, &state_room.tables[0], &mean, &unasked, stream);
    state_release();
    round_await_end();
}

/* Within a step it may read. A copy, for a model that is saved, brings what the steps before have left; of others,
 * ranks that have not made the step show what they have. */
static bool
meet_unplanned(const struct operation *operation, const char *name)
{
    (void)name;
    uint32_t missing;
    bool looks = state_round.in_step && !state_round.is_plain && pending_touched(operation);
    bool shows = looks && !state_round.is_state_ended && loaders_is_transfer(operation) &&
                 player.engine->world_size > 1 && state_find_tensors(state_stream(), &missing);
    if (shows)
        show_mean();
    player.seen += looks && !shows && !state_round.is_state_ended;
    return looks;
}

/* After an operation that is not in the plan and for which meet_unplanned() returned true, made or refused: this rank
 * has its own values again, and its own sums of the round. */
static void
put_back(void)
{
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

/* ---- the end ---- */

static void
say(void)
{
    if (state_round.plain_steps > 0)
        message_line("plan: all ranks made the first %llu steps, because memory of the plan was not allocated yet",
                     (unsigned long long)state_round.plain_steps);
    if (state_round.given_up > 0)
        message_line("plan: after its last update the program began a batch, or a prediction, without an update: state "
                     "is that of the last update");
    if (state_round.short_count > 0)
        message_line("plan: %llu of %llu rounds had fewer steps than ranks: state was read or written between steps",
                     (unsigned long long)state_round.short_count, (unsigned long long)state_round.count);
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
    player.is_cut = ends && state_may_be_complete();
    if (state_round.in_step && (state_round.is_state_ended || state_lacks_only_reads() || player.is_cut))
        (void)state_end_step();
    if (state_round.in_step) {
        state_give_up_step();
        player.is_given_up = true;
    }
    return state_is_round_open();
}

const struct way by_state = {
    .changes = "changes state in the middle of a step, and is not in the plan",
    .reads = "state in the middle of a step, such as a validation before the step's last operation",
    .given_up = "continues a batch in which memory of the plan was freed",
    .differ_from = PLAY_LAST + 1,
    .begin = begin,
    .note = state_note_launch,
    .begin_period = state_begin_period,
    .end_state = state_end_state,
    .end_step = state_end_step,
    .makes = state_makes,
    .meet = state_meet,
    .settle = settle,
    .put_back = put_back,
    .average = round_average,
    .must_close = must_close,
    .meet_unplanned = meet_unplanned,
    .close = close_round,
    .last_look = round_look_for_whole,
    .say = say,
};
