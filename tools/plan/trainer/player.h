/*
 * player.h - a rank of `ddprun scout --prove`, and of `ddprun --plan`: what its files know of each other. player.c: the
 * plan, its tensors and the pages; turns.c: one process that plays all turns; state.c: what ranks average of a plan by
 * state; exchange.c: proofs in which data, or memory, is of another step; waiting.c: who touches what is averaged;
 * alone.c: the engine behind; follow.c: the engine that the shim gets; heard.c: whether all ranks do the same;
 * rounds.c: what rounds take; reads.c: what the host reads of other ranks' turns.
 *
 * Threads: all but player_load() is called with `following` held, and what it hands to the engine takes it.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_PLAYER_H
#define DDPRUN_TOOLS_PLAN_TRAINER_PLAYER_H

#include "tools/plan/format/play.h"
#include "tools/scout/trainer/scout.h"

#include <pthread.h>

enum { PLAYER_PAGES = PLAY_READERS };

struct player {
    struct play play;
    uint32_t rank;                         /* of this process */
    struct play_page *pages[PLAYER_PAGES]; /* those that it writes */
    uint32_t page_count;
    pthread_mutex_t following; /* of all that follow.c and the files below keep */
    struct named {
        struct ddp_site site;
        char text[160];
        bool live;  /* the engine knows it */
    } * named;      /* [tensor_count]: the names that messages have for tensors */
    bool annotates; /* from here on, also what is allocated again */
};
extern struct player player;

/* ---- player.c ---- */

/* Whether the operation brings the host what this period has written. */
bool player_brings_step(uint32_t operation);
/* Loads the plan and opens the pages. Ends the process if there is none. */
void player_load(const char *path, int rank);
/* The launcher ends all ranks at once. */
void player_wait_for_end(enum play_stage stage) __attribute__((noreturn));
void player_refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void player_set_stage(enum play_stage stage);
void player_set_steps(uint32_t steps);

bool player_is_by_state(void);
/* Whether one process plays the turns of all ranks. */
bool player_plays_all(void);
/* Whether two ranks both make all operations, for proof (c). */
bool player_makes_all(void);
/* How many turns a round has; 1: all ranks make all operations. */
uint32_t player_world(void);
/* NULL: it is not there. */
const struct allocation *player_allocation(const struct play_tensor *tensor);
const struct allocation *player_allocation_needed(const struct play_tensor *tensor);
/* Whether an operation is one as plans have them: what is captured, and what only signals, is none. */
bool player_counts(const struct operation *operation);
/* Where a copy from the host has its bytes, and where it brings them. NULL: it is none. */
const void *player_source_of(const struct operation *operation, CUdeviceptr *to_p, uint64_t *bytes_p);
/* A table of the engine's functions, with its own of memory and modules: tensors that come again are annotated. `by`:
 * who annotates, in messages. Ends the process if there is no memory. */
void player_table(struct engine *table, const struct engine *real, const char *by, void (*annotate)(uint32_t number));
/* Whether any word that a launch gets, in a parameter or as the address of a variable, `is`; all are asked for. */
bool player_any_word(const struct operation *operation, bool (*is)(uint64_t word));
/* A variable of the device that the program did not ask for. */
void player_variable_found(CUdeviceptr address, size_t bytes);
/* An allocation is gone. */
void player_forget(CUdeviceptr address, size_t bytes);
/* The end of a tensor as the plan has it, in bytes of its allocation. */
uint64_t player_end(uint32_t tensor);
/* 0: it is not there. */
uint64_t player_hash(const struct play_tensor *tensor);
/* Up to PLAY_SAMPLES of its elements, at equal distances. */
void player_sample(const struct play_tensor *tensor, const struct allocation *allocation, float *samples);

/* ---- turns.c: one process that plays all turns. `period` counts from the first that is played ---- */

/* Before the first operation of a period, and behind the last. */
void turns_begin(uint32_t period);
void turns_end(uint32_t period);
/* Where gradients are averaged. */
void turns_add_up(uint32_t period);
/* The round ends in the middle of a period: the rest of its turns have what their ranks have by then. */
void turns_give_up(uint32_t period, bool is_reduced);
/* Of a proof: all tensors are as they are after so many rounds, of one process after so many steps. Does not return
 * once all has been seen, unless it is timed then. */
void turns_report(uint32_t rounds);

/* ---- state.c: of plans by state. A turn is a step of a round, from 0 ---- */

/* At the plan's first operation: makes room, and all ranks have what rank 0 has. */
void state_begin(const struct engine *engine);
/* Each operation of the program, in front of it. */
void state_note(const struct operation *operation);
/* `may_lack`: memory of the plan may not be there yet; all ranks make the step then, and it belongs to no round. */
void state_step_begins(bool may_lack);
/* A variable that a launch is about to reach is known now. If the step has launched nothing before, it has begun with
 * what the variable holds. */
void state_variable_found(void);
/* Whether this process makes operations of this part (enum play_part) in the step. */
bool state_makes(uint32_t part);
/* Nothing if none has begun. Returns whether the round is complete. */
bool state_step_ends(void);
bool state_in_step(void);
/* Whether steps of a round are complete, and not averaged. */
bool state_is_open(void);
/* The rank that had a period among the last STATE_OWNERS, from 0; rank 0 of one that all ranks made. */
enum { STATE_OWNERS = 4096 };
uint32_t state_owner(uint64_t period);
/* The round ends with the steps that are complete: what stays is as it began, plus the mean of their changes. */
void state_average(const struct ddp_site *site);
/* Ends the rank if a zero among what ranks average has become a whole number. */
void state_look_for_whole(void);
/* The step that has begun does not come to its end: what it has written of what ranks average is put back. */
void state_give_up_step(void);
/* At the end: lines for users. */
void state_say(void);

/* ---- exchange.c: of proofs by gradients, two ranks that both make all operations, each step as it is but for one ----
 */

/* In front of a step's first operation. Does not return behind the step that has other data. */
void exchange_step(uint64_t period);
/* In front of the operation before which gradients are averaged, of which there may be several; and once they are. */
void exchange_averages(uint32_t place, bool are_made);

/* ---- exchange.c: of proofs of plans by state, in one process that trains as it is ---- */

bool exchange_is_on(void);
/* In front of the first operation of a step, from 0. */
void exchange_border(uint32_t border);
/* In front of an operation of the plan; and of one between steps. */
void exchange_planned(const struct operation *operation);
void exchange_outside(const struct operation *operation);
/* The program ends. Does not return if all has been seen. */
void exchange_end(void);
/* Behind an operation, of both: what a copy has brought to the device, or to the host. */
void exchange_note(const struct operation *operation);

/* ---- bits.c ---- */

/* At each border, in front of a step. `judges`: ends the proof if the bits of what is averaged or added up are not of
 * the type that the plan says. */
void bits_judge(bool judges);

/* ---- waiting.c: of gradients that wait for the other ranks; and of what ranks average by state ---- */

/* Whether an operation that is not in the plan touches any that wait. */
bool waiting_touched(const struct operation *operation);
/* Whether ranks average a tensor, or add it up, or take it from one of them. */
bool waiting_is_averaged(const struct play_tensor *tensor);
/* The same of plans by state, and whether it is not to be seen that it touches none. */
bool waiting_may_touch(const struct operation *operation);
/* An operation of the plan is about to be made. */
void waiting_used(const struct operation *operation);
/* All gradients that are there are averaged. */
void waiting_averaged(void);
/* The memory of a tensor of the plan was made. */
void waiting_made(uint32_t tensor);
/* In front of it, once the engine has seen its beginning; and behind it: whether it has changed them. */
void waiting_keep(void);
bool waiting_changed(void);

/* Operation `at` of the plan, in front of the average, comes in the first rounds: gradients that it touches are not
 * complete before; and whether one of the last waiting_touched() is complete in front of operation `next`. */
void waiting_reached(const struct operation *operation, uint32_t at);
bool waiting_is_complete(uint32_t next);

/* ---- strangers.c: of launches that are not in a plan by gradients ---- */

/* In front of one, by the hash of its name, in this batch; and behind it: whether it comes in each batch and has
 * changed what is trained. */
void strangers_meet(uint64_t hash, const char *name, uint64_t period);
bool strangers_changed(bool enqueued);
/* At the end: a line for each that came in each batch. */
void strangers_say(void);

/* ---- heard.c: whether all ranks of `ddprun --plan` do the same ---- */

/* At the plan's first operation: annotates what is compared. */
void heard_begin(const struct engine *engine);
/* An operation of the plan, whether it is made or not; of the update: where it is made. */
void heard_note(const struct operation *operation, uint32_t index, bool is_update);
/* A copy of a loader's thread. */
void heard_load(const struct operation *operation);
/* Whether an operation outside of the plan has the name of one of the plan's update, and gets the same kinds of memory.
 */
bool heard_update(const struct operation *operation, const char *name);
/* Before memory goes; bytes 0: the allocation that begins there. */
void heard_release(CUdeviceptr address, uint64_t bytes);
/* Where gradients are averaged: what was heard so far is compared next. */
void heard_show(CUstream stream);
/* Copies that brought fewer bytes than in the plan. */
uint64_t heard_smaller(void);

/* ---- reads.c: what the host reads, by turns, is what the rank has whose turn has written it last ---- */

enum { READS_BETWEEN = UINT32_MAX };

/* Once the plan is loaded from `path`. Of one process, and with --reads own, nothing is exchanged. */
void reads_open(const char *path, const struct engine *engine);
/* In front of operation `index` of a period, which counts from the first that is played, or between those of the plan,
 * READS_BETWEEN. May set `skip`. */
void reads_begin(struct operation *operation, uint32_t index, uint64_t period);
/* In front of an operation of which nothing is known yet. */
void reads_none(void);
/* Behind it, without `following`: gives its bytes to the other ranks, or waits for them. Ends the process if the rank
 * that has them has ended. */
void reads_end(const struct operation *operation);
/* The host has waited, without `following`: it may read managed memory now. */
void reads_waited(void);
/* Whether anything is exchanged: ranks may wait for each other in the middle of a round, and no collective may be under
 * way then. */
bool reads_are_true(void);
/* This rank ends. */
void reads_close(void);

/* ---- alone.c ---- */

/* Loads the engine, which hooks report each launch to. NULL: it would not start. */
const struct engine *alone_start(const struct shim_services *services, struct rank_status *status);
/* Fills in a table of the engine's functions for a program that is alone as far as it can see: what it says itself is
 * ignored. */
void alone_table(struct engine *table, const struct engine *real);
/* Of a round: gradients that are complete are not sent before its step, until the hold ends. */
void alone_hold(bool begins);
/* Whether a stream may be captured. Any thread, without `following`. */
bool alone_may_capture(void);

/* ---- chains.c: chains of calls that were met before ---- */

enum { CHAIN_FRAMES = 24 };

struct chain {
    const void *thread, *frame;
    uint32_t count; /* 0: none */
    const void *const *slots[CHAIN_FRAMES];
    const void *addresses[CHAIN_FRAMES];
};

/* Keeps the calls outside of `frame`, __builtin_frame_address(0) of a function that calls both of these. */
void chain_take(struct chain *chain, const void *frame);
bool chain_holds(const struct chain *chain, const void *frame);

/* ---- rounds.c: how long a round takes ---- */

/* Of proof (d), which has seen all: from here on it is timed. */
void rounds_begin(void);
bool rounds_are_timed(void);
/* Whether the program goes on as it is, in the one process of (d). */
bool rounds_are_plain(void);
/* A round is about to be averaged in a stream, or a batch of one process has come as far. Where it is timed: does not
 * return once enough is known. */
void rounds_note(CUstream stream);
/* At the program's end, of rank 0: what rounds took, on its page, or in a line beside what they took in the proof. */
void rounds_end(void);

#endif
