/*
 * follow_rounds.c - see follow.h: a round of all ranks is averaged.
 */
#include "tools/plan/trainer/follow.h"

struct follow follow;

static bool is_awaited; /* the program's end, since the first round was averaged */

void
follow_average_round(CUstream stream)
{
    static const struct ddp_site site = {"the plan", "ddprun --plan", 0};
    named_require();
    clock_note();
    if (!player.is_given_up)
        rounds_note(stream);
    follow.rounds += !player.is_given_up;
    player.is_open = false;
    follow.way.average(stream, &site);
    if (!is_awaited) /* once more: the libraries that the first step needs are there */
        player.await_end();
    is_awaited = true;
    pending_averaged();
}

void
follow_close_round(bool ends)
{
    if (follow.way.close(ends))
        follow_average_round(CU_STREAM_LEGACY);
    player.is_given_up = player.is_given_up || player.is_cut;
}

void
follow_finish(bool ends)
{
    if (player.is_open)
        follow_close_round(ends);
    if (follow.way.last_look != NULL)
        follow.way.last_look();
}
