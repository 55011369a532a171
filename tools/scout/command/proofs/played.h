/*
 * played.h - the runs of proofs: the program under the player of plans (tools/plan/trainer/follow.c), and what its
 * ranks have put in their pages. Main thread.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_PROOFS_PLAYED_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_PROOFS_PLAYED_H

#include "tools/scout/command/proofs/prove.h"

/* A run of the two ranks. */
struct played {
    struct play_page *pages[PLAY_RANKS];
    bool late;
    int signal;
    char reason[512]; /* why its ddprun failed; "": it did not, or had been asked to end */
};

/* Makes a run, and stays with it until it has ended; played_release() releases it. Error: it could not be started, or a
 * signal asked for the end. */
bool played_make(const struct scout_order *order, struct play *play, enum play_data data, struct played *played,
                 struct error *error) __attribute__((warn_unused_result));
void played_release(const struct play *play, struct played *played);

uint32_t played_stage(const struct played *played, int rank);
/* How many steps both ranks have completed, and recorded. */
uint32_t played_completed(const struct played *played);
/* How many steps can be judged; 0, with the end of the proof: none, or the run failed. *why: what came then; "": all
 * was seen. */
uint32_t played_steps(const struct played *played, const char **why, struct proof *proof);

/* Whether a tensor has the same hash after a step in both pages; 0: before the first. */
bool played_is_same(const struct play *play, const struct play_page *const pages[2], uint32_t step, uint32_t tensor);

/* A tensor for people, with its role. */
void proof_tensor_text(const struct play_tensor *tensor, char text[64]);
/* Ends a proof. */
void proof_conclude(struct proof *proof, enum proof_end end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* turns.c: (d). Errors: as played_make(). */
bool proof_play_turns(const struct scout_order *order, struct play *play, struct proof *proof, struct error *error)
    __attribute__((warn_unused_result));

/* state.c: (complete). `by_state`: what may be a sum, and is settled in `play`; NULL: of a plan, which says it. Errors:
 * as played_make(). */
bool proof_complete(const struct scout_order *order, struct play *play, const struct by_state *by_state,
                    struct proof *proof, struct error *error) __attribute__((warn_unused_result));

#endif
