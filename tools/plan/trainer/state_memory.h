/*
 * state_memory.h - of a plan by state: what a rank keeps of the state that it averages, beside the program's memory:
 * how it was as the round began, and what steps have changed. With `following` held.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_STATE_MEMORY_H
#define DDPRUN_TOOLS_PLAN_TRAINER_STATE_MEMORY_H

#include "tools/near/element.h"
#include "tools/plan/trainer/kernels/state.h"
#include "tools/plan/trainer/player.h"

/* Kernels, and what they do (kernels/state.h). */
enum state_kernel { KEEP, RETURN, CHANGE, DIVIDE, APPLY, KERNELS };

enum { STATE_ALIGNED = 16 };

enum { LASTS = ELEMENT_UINT64 + 1, PLACES };

/* The chunks of what is averaged, [0], and of what is summed. */
struct state_table {
    CUdeviceptr chunks;
    uint32_t count, room;
    struct state_chunk *host;
};

extern struct state_room {
    /* Of each tensor that is averaged or added up: [tensor_count]. */
    struct state_kept {
        uint64_t begin, change; /* in `memory` */
        CUdeviceptr value;      /* as the tables of chunks have it; 0: not there */
    } * kept;
    CUdeviceptr memory; /* begins, then changes of what is averaged, then of what is summed, then the latest bytes */
    uint64_t changes_at, lasts_at, memory_end;
    uint64_t ends_at[PLACES]; /* of what is averaged, [0], of sums of each type, and of the latest bytes */
    struct state_table tables[2];
    CUdeviceptr found; /* struct state_found */
    CUdeviceptr flag;  /* uint32_t, of a question to all ranks */
} state_room;

/* Loads the kernels, finds places, and allocates all. Ends the process if there is no room. */
void state_make_room(void);
/* Where tensors are now. Returns whether all are there: *missing is one that is not. */
bool state_find_tensors(CUstream stream, uint32_t *missing);

bool state_is_sum(uint32_t tensor);
/* Whether it is averaged or added up. */
bool state_is_kept(uint32_t tensor);
uint64_t state_bytes(uint32_t tensor);
uint64_t state_elements(uint32_t tensor);
/* enum ddp_type of a change: 16-bit floats travel and add as float32. */
int state_wide_type(uint32_t tensor);
/* The next place that is `aligned`, which *at moves behind. */
uint64_t state_place(uint64_t *at, uint64_t bytes, uint64_t aligned);

/* Arguments are those of the kernel, after the table. */
void state_launch(int kernel, const struct state_table *table, void *third, void *fourth, CUstream stream);
/* Of a table, 1: of sums, which are whole numbers. */
void state_launch_change(int number, uint32_t adds, CUstream stream);

/* In front of each operation of the program. */
void state_note_operation(const struct operation *operation);
/* The stream after all that the program has enqueued so far. */
CUstream state_stream(void);
/* What comes next of the program's, on whichever stream, comes after what was enqueued here. */
void state_release(void);

#endif
