/*
 * player.h - a rank of `ddprun scout --prove`, and of `ddprun --plan`: what its files know of each other. player.c: the
 * plan, its tensors and the pages; follow.h: the engine that the shim gets; planned.c: which operation of the plan one
 * of the program is; named.c: annotations; inner_engine.c: the engine behind; rank_agreement.c: whether all ranks do
 * the same; left_out.c: steps without an update; pending_averages.c, unplanned_launches.c: operations that are not in
 * the plan; alone.c: rank 0 after an operation that the plan does not know; owner_reads.c: what the host reads of other
 * ranks' turns; all_turns.c: one process that plays all turns; begun.c: what proofs keep of another run; round_times.c:
 * what rounds take; by_contents.c, contents_gradients.c: one process whose turns change by contents; figures.c: what
 * the host reads in proofs; date_reads.c: whether the program reads the date.
 *
 * Ways to follow a plan (struct way): by_gradients.c; by_state.c, with state_round.h and state_memory.h; exchange.c:
 * proofs in which data, or memory, is of another step, and unclassed.c: which memory that is.
 *
 * Threads: all but player_load() is called with `following` held, and what it hands to the engine takes it.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_PLAYER_H
#define DDPRUN_TOOLS_PLAN_TRAINER_PLAYER_H

#include "tools/plan/format/play.h"
#include "tools/scout/trainer/scout.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { PLAYER_PAGES = PLAY_READERS };

struct player {
    struct play play;
    const struct engine *engine;           /* behind the player */
    uint32_t rank;                         /* of this process */
    struct play_page *pages[PLAYER_PAGES]; /* those that it writes */
    uint32_t page_count;
    pthread_mutex_t following; /* of all that follow.c and the files below keep, and of these: */
    bool begun;       /* the first period of the plan has; from here on, what is allocated again is annotated */
    bool is_open;     /* a round computes, and is not averaged: on all ranks alike */
    bool is_given_up; /* a round, or a step, was left open: it is closed, and nothing of it may follow */
    bool is_cut;      /* by state: a step was taken for complete that may have gone on: nothing of it may follow */
    bool is_alone;    /* rank 0 goes on as one process (alone.c) */
    void (*await_end)(void); /* the program's end is noted before what has come up so far sees it */
    uint64_t period;         /* of the program, from 0 */
    uint32_t next;           /* operation of the plan that is expected */
    uint64_t seen;           /* operations that are not in the plan, and have read what waits to be averaged */
    struct named {
        struct ddp_site site;
        char text[224];
        bool live; /* the engine knows it */
        /* pending_averages.c: by the operation that is looked at; by one of the plan, since the memory was made; behind
         * which of these, the last before the average, or 0. */
        bool is_touched, is_used;
        uint32_t reached;
    } * named; /* [tensor_count]: the names that messages have for tensors */
};
extern struct player player;

/* DRIVER(cuMemAlloc, &address, bytes): a call of the driver without which the rank cannot go on. */
#define DRIVER(call, ...) scout_require(scout_state.driver.call##_p(__VA_ARGS__), #call)

/* ---- player.c ---- */

/* Take `following`, and give it back. */
void player_lock(void);
void player_unlock(void);
/* Around what waits for the device or for other ranks, with `following` held or without. Threads that launch nothing
 * pass meanwhile: a loader may have a lock of the program's that a host function on the device waits for. All else
 * waits. */
void player_wait_begin(void);
void player_wait_end(void);
/* Wait so for the context, or a stream. */
void player_synchronize(void);
void player_synchronize_stream(CUstream stream);

/* Whether the operation brings the host what this period has written. */
bool player_brings_step(uint32_t operation);
/* Loads the plan and opens the pages. Ends the process if there is none. */
void player_load(const char *path, const struct engine *engine);
/* The launcher ends all ranks at once. */
void player_wait_for_end(enum play_stage stage) __attribute__((noreturn));
void player_refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Ends the rank: `name` does something else than the plan says. */
void player_no_fit(const char *name, const char *what) __attribute__((noreturn));
void player_set_stage(enum play_stage stage);
void player_set_steps(uint32_t steps);

/* Of an operation of the program, as plans have them. */
const char *player_name_of(const struct operation *operation);
uint64_t player_hash_of(const struct operation *operation);
/* The period is a batch of the program's, by what rank 0 shows. */
void player_note_batch(void);

bool player_is_by_state(void);
/* Whether a tensor is trained: parameters, and what updates keep; by state, what is averaged. */
bool player_trains(uint32_t tensor);
/* Whether one process plays the turns of all ranks. */
bool player_plays_all(void);
/* Whether two ranks both make all operations, for proof (c). */
bool player_makes_all(void);
/* How many turns a round has; 1: all ranks make all operations. */
uint32_t player_world(void);
/* Of a round: which turn the period is, from 0; whether it is the last; whether it is this process's. */
uint32_t player_turn(void);
bool player_is_last_turn(void);
bool player_has_turn(void);
/* Whether operations of the plan may be missing: buffers are made, momentum begins. */
bool player_warms_up(void);
/* NULL: it is not there. */
const struct allocation *player_allocation(const struct play_tensor *tensor);
const struct allocation *player_allocation_needed(const struct play_tensor *tensor);
/* Over those tensors of the plan that are there, of which something holds: with their allocation. No break in it. */
#define FOR_EACH_THERE(tensor, allocation, holds)                                                                    \
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count)                                             \
        for (const struct allocation *allocation = (holds) ? player_allocation(tensor) : NULL; (allocation) != NULL; \
             (allocation) = NULL)
/* Whether an operation is one as plans have them: what is captured, and what only signals, is none. */
bool player_counts(const struct operation *operation);
/* A copy from the host: its bytes, by rows that are `pitch` apart, and where it brings them. False: it is none. */
struct sent {
    const char *source;
    size_t rows, row_bytes, pitch;
    CUdeviceptr to; /* 0: not known */
    uint64_t bytes;
};
bool player_sends(const struct operation *operation, struct sent *sent);
/* A table of the engine's functions, with its own of memory and modules: tensors that come again are annotated. `by`:
 * who annotates, in messages. Ends the process if there is no memory. */
void player_table(struct engine *table, const char *by, void (*annotate)(uint32_t number));
/* Whether any word that a launch gets, in a parameter or as the address of a variable, `is`, or, with `operands`, any
 * of the operation's ranges; all are asked for. */
bool player_any(const struct operation *operation, bool operands, bool (*is)(uint64_t address, uint64_t bytes));
/* Whether a tensor is there, and has some of these bytes. */
bool player_touches(const struct play_tensor *tensor, uint64_t address, uint64_t bytes);
/* A variable of the device that the program did not ask for. */
void player_variable_found(CUdeviceptr address, size_t bytes);
/* An allocation is gone. */
void player_forget(CUdeviceptr address, size_t bytes);
/* Zeros on the host, malloc'ed. Where the machine has no room for them a proof is not possible, and a training ends. */
char *player_room(uint64_t bytes);
/* 0: it is not there. */
uint64_t player_hash(const struct play_tensor *tensor);
/* Of all that there are of these, once the device has come as far. */
uint64_t player_hash_all(bool (*is)(uint32_t tensor));
/* Contents of all that there are of these, on the host; puts them back, if they are not NULL; player_release() releases
 * it. */
char **player_hold(bool (*is)(uint32_t tensor));
/* Whether any holds other bytes now. */
bool player_differs(char **held);
void player_put_back(char **held);
void player_release(char ***held);
/* Up to PLAY_SAMPLES of its elements, at equal distances. */
void player_sample(const struct play_tensor *tensor, const struct allocation *allocation, float *samples);

/* ---- planned.c: which operation of the plan is an operation of the program? ---- */
enum { PLANNED_NONE = UINT32_MAX };
void planned_open(void);
/* Its number in the plan; PLANNED_NONE: the plan does not know it. Once the training has begun, from the expected one
 * on. */
uint32_t planned_find(const struct operation *operation);
/* Since planned_met() an operation with the name of the expected one has come from a place that is not in the plan. */
bool planned_is_elsewhere(void);
void planned_met(void);
/* Of a plan by gradients: whether the operation is the one in front of which the plan averages. Of those of its name
 * and place it is the one after as many in its batch as in the plan. `begins`: a batch does. */
bool planned_is_average(const struct operation *operation, bool begins);
/* Of one process that is only timed: whether the operation is the one that shows a period. Call sites are looked up
 * where a name asks for it. A period calls as many operations from that place as the plan has there. */
bool planned_shows_period(const struct operation *operation);

/* ---- named.c: annotations of the memory that the plan names ---- */
/* `first_role`: `differ_from` of struct way. */
void named_open(uint32_t first_role);
/* Annotates a tensor of the plan, if its memory is there and ranks have the same. */
void named_annotate(uint32_t number);
/* Ends the rank if a tensor that is averaged is not there. */
void named_require(void);
/* Whether an allocation holds memory of the plan, without which a round cannot end. */
bool named_is_in(CUdeviceptr address);

/* ---- follow.c, and ways to follow a plan ---- */

/* What differs by what ranks average. NULL: nothing is done, or asked for. */
struct way {
    const char *changes, *reads; /* what an operation outside of the plan does that changes, or reads, what waits */
    const char *given_up;        /* what one of the plan does, once a step was left open */
    uint32_t differ_from;        /* memory of this enum play_role, and of later ones, may differ: it is not annotated */
    void (*begin)(void);         /* at the plan's first operation, whose memory is annotated */
    void (*begin_period)(void);  /* the first one, too */
    bool (*end_state)(void);     /* a step has written what is averaged for the last time: whether to average it now */
    bool (*end_step)(void);      /* this rank's step is complete: whether the round is */
    /* In front of each operation; of one of the plan; once it is known whether it is made; and after it. */
    void (*note)(const struct operation *operation);
    void (*meet)(const struct operation *operation, uint32_t at);
    void (*settle)(const struct operation *operation, uint32_t at);
    void (*after)(const struct operation *operation);
    /* It comes in the place of the expected one; 0: a period begins. Why it may not; NULL: it may. */
    const char *(*judge_order)(uint32_t at);
    bool (*makes)(uint32_t part);    /* whether this process makes operations of this part (enum play_part) */
    void (*add_up)(uint64_t period); /* where gradients are averaged, in each turn */
    void (*average)(CUstream stream, const struct ddp_site *site);
    /* In front of an operation that is not in the plan: whether it reads what waits; after one that has; after all. */
    bool (*must_close)(const struct operation *operation); /* whether it has to find the round averaged */
    bool (*meet_unplanned)(const struct operation *operation, const char *name);
    void (*meet_loaded)(const struct operation *operation); /* a copy of a loader, which is ahead of its step */
    bool (*updates)(const struct operation *operation, const char *name); /* it makes what the plan does elsewhere */
    /* After an operation for which meet_unplanned() returned true: puts back what the ranks' averages replaced, also
     * where the driver refused the operation. */
    void (*put_back)(void);
    void (*judge_read)(const char *name); /* after that, if the driver took the operation `name` */
    void (*judge_end)(const struct operation *operation, bool enqueued);
    /* The program ends, or gives back what ranks average, or, without `ends`, goes on otherwise than the plan: whether
     * the open round is averaged. */
    bool (*close)(bool ends);
    void (*last_look)(void); /* after that */
    void (*say)(void);       /* at the end: lines for users, by rank 0 */
    void (*end)(void);       /* in place of all that */
};
extern const struct way by_gradients, by_state;
/* Of a process that plays all turns by gradients; of proofs in which data, or memory, is of another step. */
void by_gradients_change(struct way *way);
void exchange_change(struct way *way);
/* The program has waited for the device. Any thread, without the lock. */
void exchange_waited(void);

/* ---- unclassed.c: of exchange.c: memory that may differ between ranks, and that the plan does not name ---- */

/* In front of a copy of a step, or of a loader (`is_ahead`). */
void unclassed_note(const struct operation *operation, bool is_ahead);
/* After an operation that all ranks make, if it is a copy from the host: its bytes are the same on all ranks. */
void unclassed_note_copy(const struct operation *operation);
/* In front of any operation. `at`: of the plan, which only the rank whose turn it is makes; UINT32_MAX: another one. */
void unclassed_note_touch(const struct operation *operation, uint32_t at);
/* At a border: which of these are still there. */
void unclassed_meet_border(uint32_t border);
/* `at`: a byte that is unclassed; then *next, *next if there is any, is where the next one that is not begins. Else the
 * end of what begins at `at` and is not. `is_outside`: between steps, where what each step writes is named, too. */
uint64_t unclassed_begins(const struct allocation *allocation, uint64_t at, bool is_outside, uint64_t *next);
/* Of bytes that are unclassed, at a border: keeps what they are in the run in which nothing is exchanged; and in the
 * one in which they are, `now`, ends the proof if they feed themselves. `put`: what they get now; NULL: nothing. */
void unclassed_keep(const struct allocation *allocation, uint64_t lo, uint64_t hi, uint32_t border);
void unclassed_save(void);
void unclassed_compare(const struct allocation *allocation, uint64_t lo, uint64_t hi, uint32_t border, const char *now,
                       const char *put);

/* ---- alone.c: rank 0 goes on alone ---- */

bool alone_may_begin(uint64_t rounds); /* that were averaged */
/* The open round is closed: rank 0 goes on, player.is_alone; others end. `lost`: batches in no update; `is_given_up`:
 * so is the batch under way. */
void alone_begin(const char *name, const char *what, uint64_t lost, bool is_given_up);
/* An operation of the program, and its place in the plan; a batch begins with it. May set `skip`. */
void alone_meet(struct operation *operation, uint32_t at, bool begins);
void alone_after(const struct operation *operation);
/* An operation that was made before rank 0 was alone, and whose change is there now: in front of its alone_after(). */
void alone_take(const struct operation *operation);
/* Before trained memory goes, and at the end: whether it was updated. */
void alone_look(void);
void alone_end(void);

/* ---- all_turns.c: one process that plays all turns. `period` counts from the first that is played ---- */

/* Before the first operation of a period, and after the last. */
void turns_begin(uint32_t period);
void turns_end(uint32_t period);
/* Whether an operation is a fill, or a copy from the host; after one that all ranks make beside their batches: what
 * each rank has for itself gets it. */
bool turns_may_share(const struct operation *operation);
void turns_share(const struct operation *operation);
/* Where gradients are averaged. */
void turns_add_up(uint64_t period);
/* Of a tensor, what a turn of a round has computed, or changed: malloc'ed, taken over. The first turn's are kept. */
void turns_compare(uint32_t turn, uint32_t tensor, double *values, size_t count);
/* Whether all tensors of the last turn differ from those of the first one by the rounding of sums alone, and some do.
 */
bool turns_are_near(void);
/* Of a proof: all tensors are as they are after so many rounds, of one process after so many steps. Does not return
 * once all has been seen, unless it is timed then. */
void turns_report(uint32_t rounds);

/* ---- begun.c ---- */

/* Of a tensor that has noise, as a step has left it on the device, of a rank: keeps its bytes, or returns how far they
 * are from those of the other run, and puts these there, and in `own`, if it is not NULL. */
struct near_apart begun_meet(uint32_t number, uint32_t rank, uint32_t step, char *own);

/* ---- by_state.c ---- */

/* A variable that a launch is about to reach is known now. If the step has launched nothing before, it has begun with
 * what the variable holds. */
void state_variable_found(void);
/* Whether the period has made an operation that one rank makes. */
bool state_has_begun(void);
/* The rank that had a period among the last STATE_OWNERS, from 0; rank 0 of one that all ranks made. */
enum { STATE_OWNERS = 4096 };
uint32_t state_owner(uint64_t period);
/* Of by_contents.c: the step under way writes what is averaged. */
void state_is_written(void);

/* ---- left_out.c: steps by state that leave out what a program may leave out ---- */

/* A step begins, and makes operation `at` of the plan. */
void left_out_begin(void);
void left_out_make(uint32_t at);
void left_out_make_all(void);
/* Whether it has made any that may be left out. */
bool left_out_has_made_any(void);
/* It has written what is averaged for the last time; `is_own`: this process has made it, and can ask whether what is
 * averaged has changed. */
void left_out_end(bool is_own, bool (*has_changed)(void));
/* How many steps of the round so far are without an update. `on_any`: whether it holds here on any rank; a collective
 * of all ranks. */
uint32_t left_out_steps(bool (*on_any)(bool here));
void left_out_round_ends(void);

/* ---- bits.c ---- */

/* At each border, in front of a step. `judges`: ends the proof if the bits of what is averaged or added up are not of
 * the type that the plan says. */
void bits_judge(bool judges);

/* ---- pending_averages.c: of gradients that wait for the other ranks; and of what ranks average by state ---- */

/* Whether an operation that is not in the plan touches any that wait. */
bool pending_touched(const struct operation *operation);
/* Whether ranks average a tensor, or add it up, or take it from one of them. */
bool pending_is_averaged(uint32_t tensor);
/* The same of plans by state, and whether it is not to be seen that it touches none. */
bool pending_may_touch(const struct operation *operation);
/* An operation of the plan is about to be made. */
void pending_used(const struct operation *operation);
/* All gradients that are there are averaged. */
void pending_averaged(void);
/* The memory of a tensor of the plan was made. */
void pending_made(uint32_t tensor);
/* In front of it, once the engine has seen its beginning; and after it: whether it has changed them, which is put back.
 * Not of what only the host reads (PLAY_LAST). */
void pending_keep(void);
bool pending_restore(void);
/* After a change was put back: makes it once more if `again`, and forgets it. */
void pending_bring(bool again);

/* Operation `at` of the plan, in front of the average, comes in the first rounds: gradients that it touches are not
 * complete before; and whether one of the last pending_touched() is complete in front of operation `next`. */
void pending_reached(const struct operation *operation, uint32_t at);
bool pending_is_complete(uint32_t next);

/* ---- unplanned_launches.c: of launches that are not in a plan by gradients ---- */

/* In front of one, by the hash of its name, in this batch; and after it: whether it comes in each batch and has
 * changed what is trained. */
void unplanned_meet(uint64_t hash, const char *name, uint64_t period);
bool unplanned_changed(bool enqueued);
/* At the end: a line for each that came in each batch. */
void unplanned_say(void);

/* ---- rank_agreement.c: whether all ranks of `ddprun --plan` do the same ---- */

/* At the plan's first operation: annotates what is compared. */
void agreement_begin(void);
/* An operation of the plan, whether it is made or not; of the update: where it is made. */
void agreement_note(const struct operation *operation, uint32_t index, bool is_update);
/* A copy of a loader's thread. */
void agreement_load(const struct operation *operation);
/* Whether an operation outside of the plan has the name of one of its update's, and gets the same kinds of memory. */
bool agreement_update(const struct operation *operation, const char *name);
/* Before memory goes; bytes 0: the allocation that begins there. */
void agreement_release(CUdeviceptr address, uint64_t bytes);
/* The program has read the clock since its first batch. */
void agreement_note_clock(void);
/* Where gradients are averaged: what was heard so far is compared next. */
void agreement_show(CUstream stream);
/* Copies that brought fewer bytes than in the plan. */
uint64_t agreement_smaller(void);

/* ---- date_reads.c: programs that read the date in their steps ---- */

/* At the plan's first operation: the date of each rank runs from now on. */
void clock_begin(void);
/* In front of each average: whether the program has read it since then, and where. */
void clock_note(void);

/* ---- owner_reads.c: what the host reads, by turns, is what the rank has whose turn has written it last ---- */

enum { READS_BETWEEN = UINT32_MAX };

/* Once the plan is loaded from `path`. Of one process, and with --reads own, nothing is exchanged. */
void reads_open(const char *path);
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

/* ---- inner_engine.c ---- */

/* Loads the engine, which hooks report each launch to. NULL: it would not start. */
const struct engine *inner_engine_start(const struct shim_services *services, struct rank_status *status);
/* Fills in a table of the engine's functions for a program that is alone as far as it can see: what it says itself is
 * ignored. */
void inner_engine_table(struct engine *table);
/* Of a round: gradients that are complete are not sent before its step, until the hold ends. */
void inner_engine_hold(bool begins);

/* ---- chains.c: chains of calls that were met before ---- */

enum { CHAIN_FRAMES = 40 };

struct chain {
    const void *thread, *frame;
    uint32_t count; /* 0: none */
    const void *const *slots[CHAIN_FRAMES];
    const void *addresses[CHAIN_FRAMES];
};

/* Keeps the calls outside of `frame`, __builtin_frame_address(0) of a function that calls both of these. */
void chain_take(struct chain *chain, const void *frame);
bool chain_holds(const struct chain *chain, const void *frame);

/* ---- by_contents.c: of proofs, one process whose turns change where the program has written what is trained ---- */

/* Whether this is one. */
bool by_contents_is_played(void);
/* An object of call sites (struct scout_frame) is known now. */
void by_contents_object(uint32_t number, const char *path);
/* In front of an operation: whether a batch's first write of what is averaged; after it: whether its last one. */
bool by_contents_meet(const struct operation *operation);
bool by_contents_leave(const struct operation *operation);
/* Whether an operation is a copy to the host. */
bool by_contents_shows(const struct operation *operation);
/* Whether the first batch has begun, in front of by_contents_meet() of an operation. */
bool by_contents_is_amid(void);
/* By state, of an operation, after by_contents_meet(): whether a batch begins with it. */
bool by_contents_begins(bool writes_first, bool is_amid);
/* By gradients: whether a tensor that updates keep goes on in each batch, whatever its data. */
bool by_contents_counts(uint32_t tensor);
/* At the program's end. */
void by_contents_end(void) __attribute__((noreturn));

/* ---- contents_gradients.c: the batches and rounds of that process by gradients ---- */

/* In front of each operation from the first batch on: whether a batch begins with it. */
bool contents_passes_border(void);
/* Whether its batch has to begin now, `averages`: gradients are averaged in front of it; begins it; adds up gradients;
 * and after a batch's last write. */
bool contents_must_begin(bool averages);
void contents_batch_begins(void);
void contents_average(void);
void contents_batch_ends(void);
/* Whether the batch's update is under way, and is another turn's than the one that counts. */
bool contents_in_dropped_update(void);

/* ---- figures.c: of proofs, what copies bring to the host ---- */

/* After an operation, and after reads_end(). Without `following`. */
void figures_note(const struct operation *operation);

/* ---- round_times.c: how long a round takes ---- */

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
