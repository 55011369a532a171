/*
 * check.h - a run of `ddprun check` (tools/check/format/run.h): what the engine in libddprun-check.so shows of itself,
 * and when.
 *
 * Data flow: observer.c is what the engine calls; boundaries, annotations, operations and the end of the program are
 * reported to course.c, which knows the step; values.c reads tensors, compare.c writes them to the reference or
 * compares them with it, force.c sets gradients to it, reduced.c does all of this with what DDP_REDUCE finds; copies.c
 * compares what comes from the host, by the call that brings it (call_site.c); updaters.c finds the functions that
 * update parameters, written_beside.c the memory without annotation that these write, beside_ranges.c compares that
 * memory; look.c keeps all operations of a step; turns.c plays the turns of all ranks in one process.
 *
 * Three sections of docs/check.md tell what is compared: "What is compared, and when", "Every step begins from the
 * reference" and "DDP_REDUCE". Parameters and states that DDP_STEP_PARAMETERS averages are read when boundary k is
 * over, and count as what step k has left.
 *
 * The host waits for the device at each boundary. Nothing else here changes what the trainer computes, but for a
 * perturbed start and for probes, which the launcher asks for in runs of their own.
 */
#ifndef DDPRUN_TOOLS_CHECK_TRAINER_CHECK_H
#define DDPRUN_TOOLS_CHECK_TRAINER_CHECK_H

#include "interpose/engine/core/capability.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/memory/memory.h"
#include "tools/check/format/reference.h"
#include "tools/check/format/run.h"

static inline pthread_mutex_t *NOT_ANALYSED
check_lock(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    return lock;
}

static inline void NOT_ANALYSED
check_unlock(pthread_mutex_t *const *held)
{
    pthread_mutex_unlock(*held);
}

/* Until the end of the block. */
#define HOLD(lock) pthread_mutex_t *const held_ __attribute__((unused, cleanup(check_unlock))) = check_lock(lock)

/* ---- course.c ---- */
/* The calls of observer.c's table (interpose/engine/core/observer.h). */
void check_open(void (*leave)(void));
void check_annotated(const struct tensor *parameter);
void check_boundary_begins(int group, bool captured, const struct ddp_site *site);
void check_boundary_ends(int group);
void check_mean(void *value, double own, int type, const struct ddp_site *site);
void check_reduce_begins(const struct observed_reduction *reduced, CUstream stream);
void check_reduce_ends(const struct observed_reduction *reduced, CUstream stream);
void check_shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site);
void check_operation_begins(const struct operation *operation);
void check_operation_ends(const struct operation *operation, bool enqueued);
void check_operation_left_out(const struct operation *operation);
void check_program_ends(void);
bool check_takes_alarm(const char *text);
void check_notes_stop(const char *text);
/* A copy is about to bring `rows` rows of `bytes` bytes each, `pitch` bytes apart, to `to` on the device; 0: that is
 * not known. Any thread. */
void check_copied(CUdeviceptr to, const void *source, size_t bytes, size_t pitch, size_t rows);

/* ---- values.c ---- */
/* As realloc(), `old` may be NULL; without memory it ends the job. */
void *values_room(void *old, size_t bytes);

extern struct check_run check_run;

/* Of a program with turns. */
extern struct check_turns {
    bool any;         /* DDP_TURN_BEGIN has come: steps are rounds */
    uint32_t rounds;  /* that have come to their DDP_STEP */
    uint64_t batches; /* that have begun */
} check_turns;

enum { VALUES_PIECE_BYTES = 4 << 20 };

/* Guards what is kept of operations and of memory without annotation. Held across calls of the driver; nothing that
 * these wait for takes it. */
extern pthread_mutex_t memory_lock;

void values_open(void);
/* A float or a double. */
double values_number(const void *memory, int type);
/* Hash of what this rank has. */
uint64_t values_hash(const struct tensor *tensor);
/* Moves all elements by a unit in the last place, or far (struct check_run); whole numbers too, if `counts`. */
void values_perturb(const struct tensor *tensor, bool counts);
/* The same, by the pattern of check_run.nudge, of what was copied from the host to `to`, where it is floats: all words
 * are normal or zero, and not all whole numbers; those stay. Waits for the device. */
void values_perturb_copied(CUdeviceptr to, const void *source, size_t bytes);
/* Asks for room for the whole reference before the first byte of it. */
void values_ask_for_room(void);
/* Half of the room that there was for the reference does not hold a step more than the `done` that it has. */
bool values_room_ends(uint32_t done);
/* The reference, which is being written, becomes empty. */
void values_restart(void);
/* The run has made so many steps, `in_rounds` of DDP_REDUCE calls. `by_us`: and the program is ended now. */
void values_close(uint32_t steps, bool by_us, bool in_rounds);
/* The tensor as it is, `number` of its enum check_role, goes into the reference that is written. Returns how many of
 * its elements are infinite or NaN. */
uint64_t values_keep(const struct tensor *tensor, uint32_t role, uint32_t number, uint32_t step);
void values_row(const struct check_row *row);
/* A row that is no more than a kind, a step and a value. */
void values_note(enum check_row_kind kind, uint32_t step, uint64_t value);
/* A CHECK_ROW_STEP; `site` is that of the DDP_STEP, or NULL. */
void values_note_boundary(uint32_t step, const struct ddp_site *site);

/* Memory of the device, or of the host if the driver knows it, to `to` or from `from`, of which one is NULL; the
 * context is current. */
void values_memory(CUdeviceptr address, size_t bytes, void *to, const void *from);

/* Tensors that are about to be looked at are read together, as far as there is room: what they hold is read and written
 * through this list then, and is on the device behind values_wait(). */
void values_together(struct tensor *list, size_t count);
void values_wait(void);

/* A part of a tensor, in the device's memory or the host's. */
void values_tensor_out(char *to, const struct tensor *tensor, size_t at, size_t bytes);
void values_tensor_in(const struct tensor *tensor, size_t at, const char *from, size_t bytes);
/* All of it in pieces, in order, each to `take`. */
void values_read_tensor(const struct tensor *tensor, void (*take)(void *arg, const void *piece, size_t bytes),
                        void *arg);

/* The reference, being written or read; NULL where it is the other. */
struct reference_writer *values_writer(void);
struct reference_reader *values_reader(void);
/* [VALUES_PIECE_BYTES]: of this process, and of the reference. */
extern char *values_piece, *values_theirs;
/* All of a record goes into the reference; or comes from there: false if it has none. */
void values_put(const struct reference_key *key, const void *data, size_t bytes);
bool values_get(const struct reference_key *key, void *data, size_t bytes) MUST_USE;
void __attribute__((noreturn)) values_stop_writing(void);
void __attribute__((noreturn)) values_stop_damaged(void);
/* What the user can put right: ends the run, and the launcher with DDPRUN_EXIT_USAGE. */
void __attribute__((noreturn, format(printf, 1, 2))) values_refuse(const char *format, ...);

/* ---- compare.c ---- */
struct compare_at {
    uint32_t step;    /* as in struct check_row */
    uint32_t during;  /* the same */
    bool is_update;   /* the step before began from the reference: what it has changed is compared, and what differs is
                         set to the reference's bytes */
    double units;     /* is_update: so many units in the last place of an element are rounding */
    bool is_averaged; /* by DDP_STEP_PARAMETERS */
};

/* Writes the tensor's elements, or compares them, of which *row remains. Device memory that nothing works on. */
void compare_tensor(const struct tensor *tensor, const struct compare_at *at, struct check_row *row);
/* The same of what row->tensor describes, a call of DDP_REDUCE for instance; whether it was compared. */
bool compare_described(const struct tensor *tensor, const struct compare_at *at, struct check_row *row);
/* The tensor becomes `factor` times what the reference has of that step; as it is if it has nothing. */
void compare_set(const struct tensor *tensor, const struct check_tensor *described, uint32_t step, double factor);
/* Whether one rank's parameters stay as they are until the next step, and later steps change them: the gradients are
 * those of a part of a batch, averaged once more before they are used, and each rank's part is another. */
bool compare_leads_on(uint32_t step);
/* The reference is empty again. */
void compare_restart(void);
void compare_mean(double value, int type, uint32_t call, uint32_t step, const struct ddp_site *site);
/* A row that is no more than a kind, a step and the tensor; and the same, written. */
void compare_describe(const struct tensor *tensor, enum check_row_kind kind, uint32_t step, struct check_row *row);
void compare_note(enum check_row_kind kind, uint32_t step, const struct tensor *tensor);
/* A CHECK_ROW_AFTER of a parameter: it was updated so often after the last boundary, and at most so often between
 * two. */
void compare_note_after(uint32_t step, const struct tensor *parameter, unsigned times, unsigned usual);

/* ---- force.c ---- */
/* Compares gradients that DDP_STEP has averaged; then, where steps begin from the reference, sets them to it. */
void force_gradients(const struct tensor *list, size_t count, int group, const struct compare_at *at);

/* ---- call_site.c ---- */
/* Identity of the call of the program's that has led here, the same in each process; its frames into text[bytes], one a
 * line: path of the object, offset in it. 0: it is not known. */
uint64_t call_site_find(char *text, size_t bytes);

/* ---- copies.c ---- */
/* Bytes that the call site brings to the device, to or from memory that is annotated or not. Any thread. */
void copies_seen(uint64_t site, const char *place, const void *source, size_t bytes, bool is_annotated);
/* The step is over: what was copied in it goes into the reference, or is compared with that, and forgotten. */
void copies_boundary(uint32_t step);
/* The memory of the host that the operation copies to the device, *bytes_p of it; NULL: it copies none. With
 * cudaMemcpyDefault the call does not say whose memory it is: the driver is asked. */
const void *copies_host_source(const struct operation *operation, size_t *bytes_p);

/* ---- readings.c ---- */
/* A row, with this step, for each place where the program has read the date or random bytes. Once, at the end. */
void readings_note(uint32_t step);

/* ---- look.c ---- */
/* At the start. Of a run that looks the file is there, empty, also where the program makes no operation. */
void look_open(void);
/* Around an operation that comes after `interval` DDP_STEPs; any thread. */
void look_begins(const struct operation *operation, uint32_t interval, bool from_host);
void look_ends(bool enqueued);
/* Around a DDP_REDUCE of memory of the device; it ends only if it is compared. */
void look_reduce_begins(const struct tensor *memory, uint32_t interval);
/* A DDP_STEP, whose group weighs the rank's gradients so. */
void look_boundary(double weight, uint32_t interval);
void look_reduce_ends(uint32_t number, uint32_t step);

/* ---- reduced.c ---- */
/* Whether one rank makes the call, too, and this step has made it already. */
bool reduced_repeats(const struct ddp_site *site, uint32_t step);
/* Compares what a call has found; then, where steps begin from the reference, sets it to that. `in_rounds`: no DDP_STEP
 * does. */
void reduced_look(const struct tensor *memory, int op, uint32_t step, bool in_rounds);
/* The reference is empty again. */
void reduced_restart(void);

/* ---- turns.c: the calls of observer.c's table in a program with turns ---- */
struct observed_rounds turns_taken(const struct ddp_site *site);
void turns_batch_begins(const struct observed_turn *turn);
void turns_batch_steps(const struct observed_turn *turn);
void turns_rest(const struct observed_turn *turn);
/* What the program asks: DDP_WORLD_SIZE() of one process that plays turns is their number, from the first region on;
 * from the start, where the run knows that the program has turns. */
void turns_show(struct engine *engine);

/* ---- turn_memory.c: unannotated memory that a batch of turns leaves to the next one ---- */
void turn_memory_begins(const struct observed_turn *turn);
void turn_memory_steps(const struct observed_turn *turn);
/* An operation of a batch, before it goes to the driver. */
void turn_memory_operation(const struct operation *operation);
/* What the reference says, before the first step. */
void turn_memory_open(void);

/* ---- turn_host.c: what the host makes of memory that other ranks' turns have left out ---- */
void turn_host_batch(const struct ddp_site *site);
void turn_host_begins(const struct observed_turn *turn);
void turn_host_steps(const struct observed_turn *turn);
void turn_host_operation(const struct operation *operation);
void turn_host_operation_ends(bool enqueued);
void turn_host_left_out(const struct operation *operation);
/* DDP_MEAN has made `value` of `own`, and DDP_REDUCE comes. */
void turn_host_mean(void *value, double own, int type, const struct ddp_site *site);
void turn_host_reduce(const struct ddp_site *site);
void turn_host_open(void);
/* `by_us`: check ends the program. */
void turn_host_ends(bool by_us);

/* ---- turn_after.c: what runs after each batch, where it means once an update ---- */
/* An operation after a batch's DDP_STEP that is not left out; `has_update`: the DDP_STEP had an effect. */
void turn_after_operation(const struct operation *operation);
void turn_after_operation_ends(bool has_update);

/* ---- updaters.c: functions that update parameters. With memory_lock held ---- */
struct updater {
    struct check_updater found; /* type 0: it writes memory that is compared */
    uint32_t since;             /* the step in which it was found */
};

/* What the reference says. */
void updaters_open(void);
/* NULL: the function is none, as far as is known. */
const struct updater *updaters_find(uint64_t call);
/* Whether it was seen to change a parameter that it got in this argument. */
bool updaters_changes_at(const struct updater *updater, uint32_t argument);
/* Around an operation of the run that writes the reference: is it an updater? False: it is not looked at. */
bool updaters_look_begins(uint64_t call, const struct operation *operation, const struct function_layout *layout);
void updaters_look_ends(bool enqueued);
/* The updater is called: counts what is updated. */
void updaters_count(const struct updater *updater, const struct operation *operation,
                    const struct function_layout *layout);
void updaters_boundary(uint32_t step);
/* The program ends: a CHECK_ROW_AFTER for each parameter that was updated more often after the last boundary than
 * between two of them. */
void updaters_end(uint32_t step);

/* ---- beside_ranges.c: memory without annotation that updaters write. With memory_lock held ---- */
/* An updater writes this, which is now at `address`, or nowhere yet (0); its number is given here. Goes into the
 * reference. */
void beside_ranges_add(const struct check_memory *found, CUdeviceptr address);
/* The updater was called with this pointer: where its ranges are in this step. Of `at` only what names the call. */
void beside_ranges_resolve(const struct check_memory *at, CUdeviceptr pointer);
/* The call is given this memory, or copies so many bytes of it. */
void beside_ranges_touched(uint64_t call, CUdeviceptr pointer, size_t copied);
/* Whether the address is in a range, as it was last found. */
bool beside_ranges_have(CUdeviceptr address);
/* Before the first step: ranges that the reference names. */
void beside_ranges_open(void);
/* A boundary of the first group; `step` as in values_tensor(). */
void beside_ranges_boundary(uint32_t step);
/* The program ends: as updaters_end(), of ranges. */
void beside_ranges_end(uint32_t step);

/* ---- written_beside.c: which memory without annotation updaters write ---- */
/* Before the first step. */
void beside_open(void);
/* A boundary of the first group; `step` as in values_tensor(). */
void beside_boundary(uint32_t step);
void beside_operation_begins(const struct operation *operation);
void beside_operation_ends(bool enqueued);
/* The program ends, as if by a boundary. */
void beside_ends(uint32_t step);

#endif
