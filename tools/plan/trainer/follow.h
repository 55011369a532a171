/*
 * follow.h - what the files of a training by turns know of each other: follow.c has operations, follow_end.c the end of
 * memory and of the program, follow_rounds.c, which both call, the average of a round. With `following` held.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_FOLLOW_H
#define DDPRUN_TOOLS_PLAN_TRAINER_FOLLOW_H

#include "tools/plan/trainer/player.h"

struct follow {
    struct way way;
    bool is_gone;     /* the context, with all memory */
    uint64_t rounds;  /* that were averaged and complete */
    uint64_t outside; /* operations since the last batch began that the plan does not know */
};
extern struct follow follow;

/* ---- follow_rounds.c ---- */
/* Averages the round that is open. */
void follow_average_round(CUstream stream);
/* Averages the round that is open, if it is to be averaged. `ends`: what ranks average goes. */
void follow_close_round(bool ends);
/* What ranks average goes: the program ends, or gives up its context; without `ends` it goes on otherwise. */
void follow_finish(bool ends);

/* ---- follow_end.c ---- */
/* Once: from then on player.await_end has a value, and the table has the calls for memory that goes. */
void follow_end_open(struct engine *table);

#endif
