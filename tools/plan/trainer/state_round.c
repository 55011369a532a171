/*
 * state_round.c - see state_round.h: a round of a plan by state is averaged: what stays is as the round began, plus the
 * mean of what its steps have changed. And what is looked for in each round: ranks that all make the same change,
 * floats that turn into whole numbers, writes that come too late.
 */
#include "tools/plan/trainer/state_round.h"

enum { ROUNDS_OF_ALARM = 3, ROUNDS_OF_PROOF = 2 };

struct state_round state_round;

static uint64_t looked_at; /* rounds when `found` was last asked whether a zero has turned into a whole number */

/* Sums get the changes of all ranks, and what only the host reads the bytes of the rank that has the latest, `owner`.
 * What has one type is one call. */
void
round_exchange_rest(uint32_t owner, CUstream stream)
{
    static const struct ddp_site site = {"sums, and what the host reads later", "the plan", 0};
    struct state_mean none = {1, 1};
    CUdeviceptr unasked = 0;
    bool is_owner = player.rank == owner, has_step = player.rank < state_round.steps;
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
    if (!state_round.any_differed && state_round.same_count == most)
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
    state_round.any_differed = seen.differs != 0;
    state_round.same_count += !state_round.any_differed && seen.changed != 0;
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
void
round_look_for_whole(void)
{
    struct state_found seen;
    if (state_round.count == looked_at || state_room.tables[0].count == 0)
        return;
    looked_at = state_round.count;
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
void
round_await_end(void)
{
    static bool is_awaited;
    if (!is_awaited)
        player.await_end();
    is_awaited = true;
}

/* Whether it holds on any rank. */
bool
round_is_on_any(bool here)
{
    static const struct ddp_site site = {"whether steps without an update change state", "ddprun --plan", 0};
    uint32_t any = here;
    CUstream stream = state_stream();
    DRIVER(cuMemcpyHtoDAsync, state_room.flag, &any, sizeof(any), stream);
    if (player.engine->world_size > 1)
        player.engine->reduce((void *)(uintptr_t)state_room.flag, 1, DDP_UINT32, DDP_OP_SUM, stream, &site);
    DRIVER(cuMemcpyDtoHAsync, &any, state_room.flag, sizeof(any), stream);
    player_synchronize_stream(stream);
    round_await_end();
    return any > 0;
}

/* How many of the round's `complete` steps count in its mean: those that left their update out do not. Never 0. */
uint32_t
round_updating_steps(uint32_t complete)
{
    state_round.misses = left_out_steps(round_is_on_any);
    return complete > state_round.misses ? complete - state_round.misses : 1;
}

/* The rank that made the round's last step. */
static uint32_t
last_rank(void)
{
    return state_round.steps > 0 ? state_round.steps - 1 : 0;
}

/* A rank that has made no step of the round has changed nothing. */
void
round_clear_changes(CUstream stream)
{
    if (!state_round.has_change && player_world() > 1 && state_room.ends_at[0] > state_room.changes_at)
        DRIVER(cuMemsetD8Async, state_room.memory + state_room.changes_at, 0,
               state_room.ends_at[0] - state_room.changes_at, stream);
}

/* Sums are those of all ranks, too: the round has ended. */
void
round_end(void)
{
    if (state_round.is_rest_due)
        round_exchange_rest(last_rank(), state_stream());
    state_release();
    if (player.page_count > 0 && state_round.count < PLAY_ROUNDS)
        player.pages[0]->round_steps[state_round.count] = state_round.steps - state_round.misses;
    if (player.page_count > 0)
        player.pages[0]->whole += state_round.steps == player_world() && state_round.misses == 0;
    state_round.short_count += state_round.steps < player_world();
    ++state_round.count;
    state_round.steps = 0;
    left_out_round_ends();
    state_round.has_change = state_round.is_rest_due = player.is_open = false;
    if (state_round.count - looked_at > state_round.count / 16)
        round_look_for_whole();
    turns_report((uint32_t)state_round.count);
}

/* The round ends with the steps that are complete: what stays is as it began, plus the mean of their changes. Within
 * its last step, sums are not complete. */
void
round_average(CUstream unused, const struct ddp_site *site)
{
    (void)unused;
    bool looks =
        !player_plays_all() && !state_round.any_differed && state_round.steps == player_world() && player_world() > 1;
    struct state_mean mean = {.times = player_world(), .under = round_updating_steps(state_round.steps)};
    double by = player_world();
    struct state_mean own_change = {1, 1};
    CUdeviceptr unasked = 0;
    CUdeviceptr seen = looks ? state_room.found : 0;
    CUstream stream = state_stream();
    round_clear_changes(stream);
    if (player_world() > 1) /* what a rank has written since then would be lost */
        state_launch(RETURN, &state_room.tables[0], &state_room.found, NULL, stream);
    if (looks) { /* this rank's own, to hold it against the mean */
        DRIVER(cuMemsetD8Async, state_room.found, 0, offsetof(struct state_found, written), stream);
        state_launch(APPLY, &state_room.tables[0], &own_change, &unasked, stream);
    }
    if (!state_round.in_step)
        round_exchange_rest(last_rank(), stream);
    agreement_show(stream);
    state_round.same_count += player.play.plan.data == PLAY_ALONE && !state_round.any_differed && state_round.steps > 1;
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
    state_round.is_rest_due = player.is_open = state_round.in_step;
    if (!state_round.in_step)
        round_end();
}
