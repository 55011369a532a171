/*
 * block.h - the state of the block that an OS thread runs, shared by block.c, warp.c, arena.c and fatal.c.
 */
#ifndef SOFTGPU_DEVICE_BLOCK_H
#define SOFTGPU_DEVICE_BLOCK_H

#include "fiber.h"

enum { WARP_LANES = 32, MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / WARP_LANES };

/* Lanes that wait for others under the same mask. */
struct group {
    unsigned mask, missing;               /* missing: lanes of the mask that have not arrived, ended ones with them */
    const struct softgpu_gathering *what; /* of the first that came, as is the context, on its stack */
    const void *context;
};

struct warp {
    unsigned live;        /* lanes that exist and have not ended */
    unsigned group_count; /* open groups */
    struct group groups[WARP_LANES];
    struct softgpu_meeting meeting; /* what each lane brought and gets: a lane is in one group at a time */
    unsigned asking;                /* lanes that wait in softgpu_active_mask() */
    const void *asking_at[WARP_LANES];
    unsigned answer[WARP_LANES];
};

/* Lanes of a warp that may continue, from the lowest to the highest. */
struct turn {
    struct warp *warp;
    unsigned first; /* the number of its lane 0 */
    unsigned lanes;
};

enum { AHEAD = 3 }; /* turns: time enough for the second-level cache */

struct block {
    unsigned thread_count;
    unsigned next_thread;                       /* the first that has not been started */
    struct turn turn;                           /* what is left of it */
    struct softgpu_place places[MOST_THREADS];  /* by number */
    struct fiber *fibers[MOST_THREADS + AHEAD]; /* on which the threads run that have begun */
    struct fiber *beginning;                    /* the last that was taken to begin */
    const struct softgpu_place *starts; /* in the order in which threads start, a warp in one piece: `places`, or */
    struct softgpu_place drawn[MOST_THREADS]; /* where that order is drawn (order.c) */
    softgpu_thread_fn thread;
    const char *kernel;
    const struct softgpu_launch *launch;
    unsigned shape[3];             /* of the block for which `places` are */
    unsigned live;                 /* threads that have not ended, started or not */
    unsigned arrived;              /* of them, at the barrier */
    unsigned parked_count;         /* threads in softgpu_wait() for an object */
    unsigned parked[MOST_THREADS]; /* in the order in which they came */
    const void *parked_for[MOST_THREADS];
    int vote_and, vote_or, vote_count; /* of those that have arrived */
    int vote_result[3];                /* of the last barrier, by enum softgpu_vote; read as 16 bytes */
    unsigned first_ready, ready_count;
    struct turn ready[MOST_THREADS]; /* a ring; first in, first out: no warp runs ahead of the others for long */
    unsigned idle_count;
    struct fiber *idle[MOST_THREADS]; /* last in, first out: its stack may still be in the caches */
    struct fiber_chunk *chunks;
    struct warp warps[MOST_WARPS];
    struct fiber main;   /* the OS thread's own stack */
    void (*begin)(void); /* where a fiber begins */
    void (*yield)(void); /* softgpu_yield() */
    /* Of a group (blocks.c). */
    bool leaves; /* spins: the next turn is another block's */
    bool waits;  /* all its threads wait for the other blocks */
    struct softgpu_index index;
    char *arena;        /* its shared memory */
    struct block *next; /* in the group; the OS thread keeps them */
};

/* ---- fatal.c ---- */

/* The block that runs on fibers in this OS thread, or NULL: none, or a kernel that runs as a loop. */
extern __thread struct block *block_here SOFTGPU_INITIAL_EXEC;

/* The kernel that runs in this OS thread, for messages; NULL between kernels. */
extern __thread const char *kernel_here SOFTGPU_INITIAL_EXEC;

/* CUDA_ERROR_ILLEGAL_ADDRESS and the like; this library knows nothing else of CUDA's interface. */
enum { RESULT_ILLEGAL_ADDRESS = 700, RESULT_ASSERT = 710, RESULT_MISALIGNED_ADDRESS = 716, RESULT_LAUNCH_FAILED = 719 };

/* Ends the launch with this result and a message that names the thread; without a driver, ends the program. */
void kernel_fail(int result, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* A blocking intrinsic where no fiber runs: names the kernel, or reports that no kernel runs, and ends the
 * program. */
void block_refuse(const char *intrinsic) __attribute__((noreturn));

/* ---- what runs next; where nothing is left, by the functions of warp.c ---- */

/* There is no idle fiber: makes some. */
void block_make_fibers(struct block *block) __attribute__((cold));

/* All threads of the block wait for the other blocks of its group. */
static inline bool
block_waits(const struct block *block)
{
    bool all = block->launch->group[0] != 0 && block->parked_count == block->live;
    for (unsigned i = 0; i < block->parked_count && all; ++i)
        all = block->parked_for[i] == block->parked_for[0] && (uintptr_t)block->parked_for[i] <= 2;
    return all;
}

/* A turn is over: the lanes that have been ready the longest have the next. Where there are none, answers the threads
 * that ask for the active mask; ends the program if no thread asks. False: another block of the group is to run. */
bool block_next_turn(struct block *block);

/* Brings the memory of a fiber that is soon to run into the caches: itself, and what lies of its stack
 * below the frame of fiber_begin(). */
static inline void
block_expect(const struct fiber *fiber)
{
    const uintptr_t at = (uintptr_t)fiber; /* of a thread that has not begun it may be NULL */
    __builtin_prefetch(fiber, 1);
    __builtin_prefetch((const void *)(at - 128), 1);
    __builtin_prefetch((const void *)(at - 192), 1);
    __builtin_prefetch((const void *)(at - 256), 1);
}

static inline struct fiber *
block_take_idle(struct block *block)
{
    if (block->idle_count == 0)
        block_make_fibers(block);
    struct fiber *fiber = block->idle[--block->idle_count];
    if (block->idle_count >= AHEAD)
        block_expect(block->idle[block->idle_count - AHEAD]);
    block->beginning = fiber;
    return fiber;
}

/* Lanes of the warp whose lane 0 has the number `first`. */
static inline void
block_make_ready(struct block *block, unsigned first, unsigned lanes)
{
    block->ready[(block->first_ready + block->ready_count++) % MOST_THREADS] =
        (struct turn){&block->warps[first / WARP_LANES], first, lanes};
}

static inline void
block_make_thread_ready(struct block *block, unsigned number)
{
    block_make_ready(block, number & -WARP_LANES, 1u << number % WARP_LANES);
}

/* The next lane of a turn that is not over. */
static inline struct fiber *
block_take_lane(struct block *block)
{
    const unsigned lanes = block->turn.lanes, number = block->turn.first + (unsigned)__builtin_ctz(lanes);
    block->turn.lanes = lanes & (lanes - 1);
    block_expect(block->fibers[number + AHEAD]);
    softgpu_thread.place = block->places[number];
    return block->fibers[number];
}

static inline struct fiber *
block_take_ready(struct block *block)
{
    if (block->turn.lanes == 0 && !block_next_turn(block))
        return &block->main;
    return block_take_lane(block);
}

/* Which fiber runs next: one for a thread that has not begun, or the fiber that has been ready the longest. */
static inline struct fiber *
block_choose(struct block *block)
{
    return block->next_thread < block->thread_count ? block_take_idle(block) : block_take_ready(block);
}

/* The fiber of the thread that runs. */
static inline struct fiber *
block_running(struct block *block)
{
    return block->fibers[softgpu_thread.number];
}

/* What every switch begins with; the rest is the caller's caller's (fiber.h). */
static inline struct fiber *
block_switch(struct fiber *self, struct fiber *other)
{
#ifndef FIBER_UCONTEXT
    if (__builtin_expect(fiber_is_watched, 0))
        fiber_before_switch(self, other);
#else
    (void)self;
#endif
    return other;
}

/* The end of a step (fiber.h): `self`, whose frame this is and which runs, is to return with *result. */
static inline struct fiber *
block_return(struct fiber *self, void **frame, const void *result)
{
    frame[FIBER_RESULT] = (void *)result;
#ifndef FIBER_UCONTEXT
    self->stack_pointer = frame;
#endif
    return self;
}

/* The other end: it returns once another fiber has made its thread ready and its turn comes; another one runs now. */
static inline struct fiber *
block_return_later(struct block *block, void **frame, const void *result)
{
    struct fiber *self = block_return(block_running(block), frame, result);
    return block_switch(self, block_choose(block));
}

/* ---- steps (fiber.h), each of the function with its name at the end of block.c ---- */

struct fiber *block_barrier_step(void **frame);
struct fiber *block_vote_step(int predicate, enum softgpu_vote vote, void **frame);
struct fiber *block_wait_step(const void *object, void **frame);

/* The threads of the block on fibers: returns when all have ended, or another block of the group is to run. */
void block_run(struct block *block);
struct fiber *block_run_step(struct block *block, void **frame);

/* The running fiber's thread has ended, and there is no next one to take: the fiber lies idle, and the result runs
 * next. */
struct fiber *block_end_step(struct block *block);

/* A new one, for this OS thread. */
struct block *block_new(void);

/* For all blocks of a launch that run on this one's fibers. */
void block_prepare(struct block *block, const struct softgpu_launch *launch, const char *kernel,
                   softgpu_thread_fn thread);

/* No thread of the block has begun. */
void block_begin(struct block *block);

/* The launch may have written past its dynamic shared memory: ends it then. */
void block_check_shared_memory(void);

/* Calls the step, where softgpu_thread_end() has not. Returns where the fiber was switched to again, if ever. */
void block_end_thread(struct block *block);

struct fiber *warp_meet_step(const struct softgpu_gathering *gathering, unsigned mask, struct softgpu_word brought,
                             int argument, const void *context, void **frame);
struct fiber *warp_active_mask_step(const void *site, void **frame);

struct fiber *block_yield_step(void **frame);

/* ---- spin.c: a timer that ticks while kernels run ---- */

struct spin_watch {
    unsigned ticks; /* since the block, or the loops of the kernel, began */
    bool ticks_come;
};
extern __thread struct spin_watch spin_watch SOFTGPU_INITIAL_EXEC;

void spin_watch_begin(void);

/* A block begins, or a kernel that runs as loops. */
static inline void
spin_begin(void)
{
    spin_watch.ticks = 0;
    if (__builtin_expect(!spin_watch.ticks_come, 0))
        spin_watch_begin();
}

/* ---- warp.c ---- */

void warp_reset(struct warp *warp, unsigned lanes);

/* A lane has ended: answers those who waited for it alone. */
void warp_close_groups(struct block *block, struct warp *warp);

static inline void
warp_lane_ended(struct block *block, struct warp *warp, unsigned lane)
{
    warp->live &= ~(1u << lane);
    if (warp->group_count > 0)
        warp_close_groups(block, warp);
}

/* ---- order.c: SOFTGPU_UNRULY ---- */

/* Draws the order in which the warps of the linear block `number` start and leave barriers. */
void order_draw(struct block *block, uint64_t number);

/* The same for kernels that run as loops: the launch as parts, each one warp of one block, in this OS thread's memory.
 * NULL: there are no more. */
const struct softgpu_launch *order_first_part(const struct softgpu_launch *launch);
const struct softgpu_launch *order_next_part(void);

/* ---- races.c ---- */

/* How often threads of this OS thread have met, and launches begun: changes between two meetings have no order. */
extern __thread uint64_t races_meetings SOFTGPU_INITIAL_EXEC;

/* ---- arena.c ---- */

/* Start of this OS thread's mapping, or that of the block of a group which it runs; NULL: arena_prepare() makes one. */
extern __thread char *arena_here SOFTGPU_INITIAL_EXEC;
void arena_unmap(void *memory);

/* Room for the shared memory of any kernel, and for `dynamic_bytes` of the dynamic kind; sets the thread-local
 * pointers. */
void arena_prepare(size_t dynamic_bytes);

/* Whether the address is in the shared memory of this OS thread, which each block has for itself in its turn. */
bool arena_holds(const void *address);

/* Whether the launch for which the arena was prepared has written past its dynamic shared memory: at which offset
 * first, and how many bytes there are. */
bool arena_overrun(size_t *offset_p, size_t *bytes_p);

#endif
