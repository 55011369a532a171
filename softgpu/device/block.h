/*
 * block.h - the state of the block that an OS thread runs, shared by block.c, warp.c and arena.c.
 */
#ifndef SOFTGPU_DEVICE_BLOCK_H
#define SOFTGPU_DEVICE_BLOCK_H

#include "fiber.h"

enum { WARP_LANES = 32, MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / WARP_LANES };

/* Lanes that wait for others under the same mask. */
struct group {
    unsigned mask;
    const struct softgpu_gathering *what; /* of the first that came, as is the context, on its stack */
    const void *context;
    unsigned arrived;
    struct fiber_list waiting;
};

struct warp {
    unsigned live;        /* lanes that exist and have not ended */
    unsigned group_count; /* open groups */
    struct group groups[WARP_LANES];
    struct softgpu_meeting meeting; /* what each lane brought and gets: a lane is in one group at a time */
    unsigned asking;                /* lanes that wait in softgpu_active_mask() */
    const void *asking_at[WARP_LANES];
    struct fiber *asking_fiber[WARP_LANES];
    unsigned answer[WARP_LANES];
};

struct block {
    const char *kernel;
    const struct softgpu_launch *launch;
    softgpu_thread_fn thread;
    unsigned thread_count;
    unsigned next_thread;            /* the first that has not been started */
    struct softgpu_index next_index; /* its threadIdx */
    unsigned live;                   /* threads that have not ended, started or not */
    unsigned arrived;                /* of them, at the barrier */
    struct fiber_list at_barrier;
    int vote_and, vote_or, vote_count; /* of those that have arrived */
    int vote_result[3];                /* of the last barrier, by enum softgpu_vote */
    struct fiber *running;
    struct fiber_list ready; /* first in, first out: no warp runs ahead of the others for long */
    struct fiber_list idle;
    struct fiber_chunk *chunks;
    struct fiber main; /* the OS thread's own stack */
    struct warp warps[MOST_WARPS];
};

/* The block that runs on fibers in this OS thread, or NULL: none, or a kernel that runs as a loop. */
extern __thread struct block *block_here SOFTGPU_INITIAL_EXEC;

/* The kernel that runs in this OS thread, for messages; NULL between kernels. */
extern __thread const char *kernel_here SOFTGPU_INITIAL_EXEC;

/* A blocking intrinsic where no fiber runs: tells the kernel, or that there is none, and ends the program. */
void block_refuse(const char *intrinsic) __attribute__((noreturn));

/* ---- waiting: inline, for it must be part of the exported function that waits ---- */

/* A fiber that lies idle; makes more if there is none. */
struct fiber *block_idle_fiber(struct block *block);

/* When nobody is ready: answers those who ask for the active mask, and ends the program if there are none. */
struct fiber *block_unblock(struct block *block);

/* Who goes on: a thread that has not begun, or the fiber that has been ready the longest. */
static inline struct fiber *
block_choose(struct block *block)
{
    if (block->next_thread < block->thread_count)
        return block_idle_fiber(block);
    struct fiber *fiber = fiber_take(&block->ready);
    if (fiber == NULL)
        return block_unblock(block);
#ifndef FIBER_UCONTEXT
    if (fiber->next != NULL) {
        __builtin_prefetch((char *)fiber->next->stack_pointer);
        __builtin_prefetch((char *)fiber->next->stack_pointer + 64);
        __builtin_prefetch((char *)fiber->next->stack_pointer + 128);
        if (fiber->next->next != NULL)
            __builtin_prefetch(fiber->next->next);
    }
#endif
    return fiber;
}

static inline void
block_enter_thread(const struct fiber *fiber)
{
    softgpu_indices_of_fibers.thread = fiber->thread;
    softgpu_thread_number = fiber->number;
}

/*
 * Runs `other` until somebody runs `self` again. Inline: were it a call, every switch would return to a place that the
 * processor's return predictor does not expect, which costs more than all the rest.
 */
static inline __attribute__((always_inline)) void
block_run_instead(struct block *block, struct fiber *self, struct fiber *other)
{
    block->running = other;
    fiber_switch(self, other);
    block_enter_thread(self);
}

/* Lets others run until somebody puts the running fiber among the ready ones. */
static inline __attribute__((always_inline)) void
block_wait(struct block *block)
{
    block_run_instead(block, block->running, block_choose(block));
}

/* ---- warp.c ---- */

void warp_reset(struct warp *warp, unsigned lanes);

/* Lane `lane` has ended: whoever waits for it need not any more. */
void warp_lane_ended(struct block *block, struct warp *warp, unsigned lane);

/* Nothing can run: answers one group of lanes that ask who is active. False if none does. */
bool warp_answer_active_mask(struct block *block);

/* ---- arena.c ---- */

/* Room for the shared memory of any kernel, and for `dynamic_bytes` of the dynamic kind; sets the thread-local
 * pointers. */
void arena_prepare(size_t dynamic_bytes);

#endif
