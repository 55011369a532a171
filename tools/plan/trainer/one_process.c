/* one_process.c - see player.h: one process that plays the turns of all ranks, by gradients. */
#include "tools/plan/trainer/player.h"

static void
begin_period(void)
{
    if (player.period > 0)
        turns_end((uint32_t)(player.period - 1));
    by_gradients.begin_period();
    turns_begin((uint32_t)player.period);
}

static void
add_up(void)
{
    turns_add_up(player.period);
}

/* The round ends in the middle of a period: the rest of its turns have what their ranks have by then. */
static bool
give_up_round(void)
{
    bool is_added = player.next == 0 || player.next > player.play.plan.average_before;
    for (uint64_t at = player.period + is_added; at < player.period - player_turn() + player_world(); ++at)
        turns_add_up(at); /* of later turns: as the round began */
    return by_gradients.close();
}

void
one_process_change(struct way *way)
{
    if (!player_plays_all() || player_is_by_state())
        return;
    way->begin_period = begin_period;
    way->add_up = add_up;
    way->close = give_up_round;
}
