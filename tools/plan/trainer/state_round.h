/*
 * state_round.h - of a plan by state, the round under way: what by_state.c, which begins and ends them, state_steps.c,
 * which has its steps, and state_round.c, which averages it, know of each other. With `following` held.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_STATE_ROUND_H
#define DDPRUN_TOOLS_PLAN_TRAINER_STATE_ROUND_H

#include "tools/plan/trainer/state_memory.h"

extern struct state_round {
    uint32_t steps;       /* of the round, that have begun */
    uint32_t misses;      /* of these, when the mean was made last: without an update, they count in no mean */
    uint32_t turn;        /* the step of the round that the last one is, from 0 */
    bool in_step;         /* the last of them is not complete; or a plain step */
    bool is_plain;        /* all ranks make the step that was begun last, which belongs to no round */
    bool is_state_ended;  /* the step under way has written what is averaged for the last time */
    bool is_rest_due;     /* and the round is averaged, but for sums, which follow where the step ends */
    bool has_change;      /* of the round's steps this rank's is ended so: its change is kept apart */
    bool any_differed;    /* changes of ranks, or of turns, did in any round; else: */
    uint32_t same_count;  /* rounds in which all ranks had the same change */
    uint64_t count;       /* rounds that have ended, */
    uint64_t short_count; /* and those of them that had fewer steps than ranks */
    uint64_t plain_steps; /* steps that all ranks have made */
    uint32_t given_up;    /* steps */
} state_round;

/* ---- state_steps.c ---- */
/* As the members of struct way. */
void state_note_launch(const struct operation *operation);
void state_meet(const struct operation *operation, uint32_t at);
bool state_makes(uint32_t part);
/* The same. A step begins with the first operation of its period that one rank makes. All ranks make those before it,
 * such as a copy ahead or a read of the last loss: after the last step they may come without one. Until then the latest
 * memory is that of the step before. */
void state_begin_period(void);
/* The same. What is averaged is written for the last time in this step. */
bool state_end_state(void);
/* The same. What this rank's step has changed is complete. */
bool state_end_step(void);
/* Whether steps of a round are complete, and not averaged. */
bool state_is_round_open(void);
/* Of the step under way nothing is missing but reads of what it has written. */
bool state_lacks_only_reads(void);
/* The step under way has changed what is averaged, and of the operations up to its last write of state those are
 * missing that the program may leave out: it may be complete, and may go on. A collective of all ranks. */
bool state_may_be_complete(void);
/* The step that has begun does not come to its end: what it has written of what ranks average is put back. Where no
 * step of the round is complete, no average follows: what only the host reads is made alike here. */
void state_give_up_step(void);

/* ---- state_round.c ---- */
/* As `average` of struct way. */
void round_average(CUstream unused, const struct ddp_site *site);
/* Sums are those of all ranks, too: the round has ended. */
void round_end(void);
/* Sums get the changes of all ranks, and what only the host reads the bytes of the rank that has the latest, `owner`.
 */
void round_exchange_rest(uint32_t owner, CUstream stream);
/* A rank that has made no step of the round has changed nothing. */
void round_clear_changes(CUstream stream);
/* How many of the round's `complete` steps count in its mean: those that left their update out do not. Never 0. A
 * collective of all ranks. */
uint32_t round_updating_steps(uint32_t complete);
/* Whether it holds on any rank. A collective of all ranks. */
bool round_is_on_any(bool here);
/* Once, after the first DDP_REDUCE, which has brought up what the engine's end needs. */
void round_await_end(void);
/* Ends the rank if a float that was zero has become a whole number, or state was written too late. */
void round_look_for_whole(void);

#endif
