/*
 * prove.h - the proofs of `ddprun scout --prove`: the plan, played on two ranks under the engine, without a change of
 * the program (tools/plan/trainer/follow.c). Main thread.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_PROOFS_PROVE_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_PROOFS_PROVE_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/turns.h"
#include "tools/scout/command/report/proofs.h"
#include "tools/scout/command/run.h"

/* Makes the runs of (c) and (d), of a finding that has found gradients, and says what came of them. Error: a run could
 * not be started, or a signal asked for the end. */
bool scout_prove(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                 struct scout_proofs *proofs, struct error *error) MUST_USE;

/* The same of turns by state, of a period alone; without `prove` only what they would play is made. Errors too. */
bool scout_prove_by_state(const struct scout_order *order, const struct scout_log *log,
                          const struct scout_finding *finding, const struct turns *turns, bool prove,
                          struct scout_proofs *proofs, struct error *error) MUST_USE;

/* The same of a plan that is kept, for `ddprun check --plan`: by state (complete), then (d), with PLAY_RANKS ranks. */
bool scout_prove_kept(const struct scout_order *order, struct play *play, struct scout_proofs *proofs,
                      struct error *error) MUST_USE;

/* ---- play_plan.c: from what was found to what players follow (tools/plan/format/play.h). Pure ---- */
/* Fills in all of `play` but plan.data and plan.pages; play_free() releases it. By state it is of a period alone. False
 * with the reason in `why`, PLAY_WHY_BYTES: this finding cannot be played. */
bool play_plan_make(const struct scout_log *log, const struct scout_finding *finding, const struct turns *turns,
                    struct play *play, char *why) MUST_USE;
/* By state: where what is averaged is written for the last time, once it is known what is a sum. */
void play_plan_settle(struct play *play);
/* enum ddp_type of an enum scout_type. What is no float is known as bytes. */
uint32_t play_plan_type(uint32_t type);

/* Whether halves of what the copies bring may be exchanged; if not, why. */
bool play_plan_has_halves(const struct scout_log *log, const struct scout_finding *finding, char *why);

/* ---- played.c: the runs of proofs, and what the ranks of each have put in their pages ---- */
/* A run of all ranks. */
struct played {
    struct play_plan plan;                 /* by which it was made */
    struct play_page *pages[PLAY_READERS]; /* [count] */
    int count;
    bool late;
    int signal;
    char reason[512]; /* why its ddprun failed; "": it did not, or had been asked to end */
};

/* What three runs of one process show of its noise; the first is that which the others begin each step with. */
struct noise {
    struct played others[2];
    struct near_apart *floors; /* [tensor_count]: of the others, of any step */
};

/* A proof that is made; all but the first five begin as zero. */
struct trial {
    const struct scout_order *order;
    const struct scout_log *log; /* of what the plan is of; NULL: it is not known */
    struct play *play;
    struct proof *proof;
    struct error *error;
    bool is_ended;       /* a run could not be started, or a signal asked for the end: `error` says it */
    struct played alone; /* the program's run as it is, in one process, which others are compared with; */
    struct noise noise;  /* its noise */
};

/* Whether anything has noise. */
bool proof_is_noisy(const struct play *play);
/* The operation that the noise of a tensor is of, for readers. */
const char *proof_noise_name(const struct play *play, const struct play_tensor *tensor, char text[PLAY_NAME_BYTES]);
/* Ends the proof if a tensor has noise, where bits alone show a mistake. Returns whether it has. */
bool proof_ends_at_noise(struct proof *proof, const struct play *play, const struct play_tensor *tensor);

/* Makes a run, and stays with it until it has ended; played_release() releases it. `begun`: if anything has noise.
 * False: the trial is ended, or has been. */
bool played_make(struct trial *it, enum play_data data, enum play_begun begun, struct played *played);
void played_release(struct played *played);
#define OWNED_RUN __attribute__((cleanup(played_release)))

/* Makes the other two runs, if anything has noise; as played_make(). */
bool played_measure_noise(struct trial *it, enum play_data data);
/* Whether noise is small beside a mistake; else it ends the proof. */
bool played_shows_mistakes(const struct trial *it);
/* Whether each rank has the same in a run as in the first one: bits, or within noise. */
bool played_are_same(const struct trial *it, const struct played *run, uint32_t step, uint32_t tensor);
/* Whether a run's copies to the host have brought the same. */
bool played_reads_are_same(const struct trial *it, const struct played *run);

/* How many steps all ranks have completed, and recorded. */
uint32_t played_completed(const struct played *played);
/* How many steps can be judged; 0, with the end of the proof: none, or the run failed. *why: what came then; "": all
 * was seen. */
uint32_t played_steps(const struct played *played, const char **why, struct proof *proof);

/* The hash of a tensor after a step; 0: before the first. */
uint64_t played_hash(const struct played *played, int rank, uint32_t step, uint32_t tensor);
/* What a tensor of four bytes holds after a step, as a whole number. */
int32_t played_whole(const struct played *played, int rank, uint32_t step, uint32_t tensor);
/* Samples of a tensor, [PLAY_SAMPLES]. */
const float *played_sample(const struct played *played, int rank, uint32_t tensor);

/* A tensor for people, with its role, in proof->name. */
const char *proof_name(struct proof *proof, const struct play_tensor *tensor);
/* Ends a proof. */
void proof_conclude(struct proof *proof, enum proof_end end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* cut.c: of (d), which has passed with so many rounds of `ranks`: ends it if a process with a cut of its own differs.
 */
void proof_cut(struct trial *it, const struct played *ranks, uint32_t rounds);

/* clock.c: of (d), whose run of ranks has ended: ends it with another sentence if the clock is why. */
void proof_clock(struct trial *it, const struct played *ranks);

/* turns.c: (d), with order->ranks and timed, or (0) with two. */
void proof_play_turns(struct trial *it, struct play_times *times);
/* Ends the proof if the host carries what it reads to what it sends in the next step; `must_show`: also if no run shows
 * whether it does. */
void proof_host(struct trial *it, bool must_show);

/* state.c: (complete). `settles`: it decides what is a sum, and what is state, in `play`; false: a plan has done so. */
void proof_complete(struct trial *it, bool settles);
/* Releases the runs that it has kept. */
void trial_release(struct trial *it);

#endif
