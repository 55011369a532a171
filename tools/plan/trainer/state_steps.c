/*
 * state_steps.c - see state_round.h: the steps of a round by state: how each begins, what it has changed, and when it
 * is complete.
 */
#include "tools/plan/trainer/state_round.h"

static bool has_own;                  /* the period has made an operation that one rank makes: its step has begun */
static uint64_t all_steps;            /* that have begun */
static uint16_t owners[STATE_OWNERS]; /* of the last of them */

static uint32_t launches; /* since the last step began */

void
state_note_launch(const struct operation *operation)
{
    state_note_operation(operation);
    launches += !loaders_is_transfer(operation);
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
    uint32_t back = state_round.steps > 0;
    CUstream stream = state_stream();
    state_round.in_step = player.is_open = true;
    state_round.is_plain = !back && !is_all_there(stream, may_lack);
    owners[(all_steps - 1) % STATE_OWNERS] = (uint16_t)(state_round.is_plain ? 0 : state_round.steps);
    if (state_round.is_plain)
        return;
    for (int t = 0; t < 2 && !back; ++t)
        state_launch(KEEP, &state_room.tables[t], &back, NULL, stream);
    if (back && player_plays_all() && !by_contents_is_played()) /* what is averaged is as the round began */
        state_launch(KEEP, &state_room.tables[1], &back, NULL, stream);
    state_round.turn = state_round.steps++;
    if (player_plays_all())
        turns_begin(state_round.turn);
    state_release();
}

void
state_begin_period(void)
{
    has_own = state_round.is_state_ended = false;
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
    state_round.plain_steps += state_round.is_plain;
    player_note_batch();
}

void
state_variable_found(void)
{
    if (!state_round.in_step || !state_round.is_plain || launches > 1)
        return;
    begin_step(true);
    state_round.plain_steps -= !state_round.is_plain;
}

bool
state_makes(uint32_t part)
{
    return part == PLAY_BY_ALL || state_round.is_plain || player_plays_all() || player.rank == state_round.turn;
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
    bool is_short = plan->data < PLAY_TRAINING && state_round.count == 1;
    if (plan->data == PLAY_REFERENCE && state_round.count < PLAY_ROUNDS)
        return state_round.steps == plan->round_steps[state_round.count];
    return state_round.steps == player_world() - is_short;
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
        turns_compare(state_round.turn, i, values, state_elements(i));
    }
    state_round.any_differed = state_round.any_differed || is_same || (state_round.turn > 0 && !turns_are_near());
    player_release(&now);
}

/* Keeps apart what the step has changed, and puts back what stays. */
static void
keep_change(void)
{
    uint32_t back = 1;
    if (player.play.plan.data == PLAY_ALONE && !state_round.any_differed && !rounds_are_timed())
        compare_turn();
    CUstream stream = state_stream();
    state_launch_change(0, player_plays_all() && state_round.steps > 1, stream);
    state_launch(KEEP, &state_room.tables[0], &back, NULL, stream);
    state_release();
    state_round.has_change = true;
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

bool
state_end_state(void)
{
    bool is_own = player.rank == state_round.turn || player_plays_all();
    if (!state_round.in_step || state_round.is_plain || state_round.is_state_ended)
        return false;
    state_round.is_state_ended = true;
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

bool
state_end_step(void)
{
    (void)state_end_state();
    bool has_ended = state_round.in_step && !state_round.is_plain;
    state_round.in_step = false;
    if (has_ended && player_plays_all()) {
        turns_end(state_round.steps - 1);
        state_launch_change(1, state_round.steps > 1, state_stream());
        state_release();
    }
    if (!state_round.is_rest_due)
        return has_ended && is_last_step();
    round_end();
    return false;
}

uint32_t
state_owner(uint64_t period)
{
    return owners[period % STATE_OWNERS];
}

bool
state_is_round_open(void)
{
    return state_round.steps > 0 && !state_round.in_step;
}

void
state_give_up_step(void)
{
    uint32_t back = 1;
    state_round.in_step = false;
    if (state_round.is_plain)
        return;
    --state_round.steps;
    ++state_round.given_up;
    CUstream stream = state_stream();
    for (int t = 0; t < 2 && (player.rank == state_round.turn || player_plays_all()); ++t)
        state_launch(KEEP, &state_room.tables[t], &back, NULL, stream);
    if (state_round.steps == 0 && !player_plays_all())
        round_exchange_rest(0, stream);
    state_release();
}

void
state_meet(const struct operation *operation, uint32_t at)
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

bool
state_lacks_only_reads(void)
{
    uint32_t i = player.next;
    while (i > 0 && i < player.play.plan.average_before && player_brings_step(i))
        ++i;
    return i > 0 && i >= player.play.plan.average_before;
}

bool
state_may_be_complete(void)
{
    uint32_t i = player.next;
    if (!state_round.in_step || state_round.is_plain || state_round.is_state_ended || !left_out_has_made_any())
        return false;
    while (i > 0 && i < player.play.plan.state_before && is_optional(i))
        ++i;
    bool is_own = player.rank == state_round.turn || player_plays_all();
    return i >= player.play.plan.state_before && round_is_on_any(is_own && has_changed());
}
