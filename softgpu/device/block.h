/*
 * block.h - the state of the block that an OS thread runs, shared by block.c, warp.c, arena.c and fatal.c.
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
};

struct warp {
    unsigned live;        /* lanes that exist and have not ended */
    unsigned group_count; /* open groups */
    struct group groups[WARP_LANES];
    struct fiber *waiting[WARP_LANES]; /* of lanes that have arrived in a group */
    struct softgpu_meeting meeting;    /* what each lane brought and gets: a lane is in one group at a time */
    unsigned asking;                   /* lanes that wait in softgpu_active_mask() */
    const void *asking_at[WARP_LANES];
    struct fiber *asking_fiber[WARP_LANES];
    unsigned answer[WARP_LANES];
};

/*
 * Fibers in an array: whose turn comes next is known without a look at the fibers before it, so that their memory can
 * be on its way. Taken from the front, or from the end.
 */
struct fiber_queue {
    unsigned first, count;
    struct fiber *at[MOST_THREADS]; /* a ring; a power of two, for all fibers that there are */
};

static inline struct fiber **
queue_at(struct fiber_queue *queue, unsigned n)
{
    return &queue->at[(queue->first + n) % MOST_THREADS];
}

static inline void
queue_append(struct fiber_queue *queue, struct fiber *fiber)
{
    *queue_at(queue, queue->count++) = fiber;
}

struct block {
    const char *kernel;
    const struct softgpu_launch *launch;
    softgpu_thread_fn thread;
    unsigned thread_count;
    unsigned next_thread; /* the first that has not been started */
    uint64_t next_xy;     /* its threadIdx: x in the low half, y in the high one */
    unsigned next_z;
    unsigned live;                          /* threads that have not ended, started or not */
    unsigned arrived;                       /* of them, at the barrier */
    struct fiber *at_barrier[MOST_THREADS]; /* those that have arrived, in that order */
    unsigned parked_count;                  /* threads in softgpu_wait() for an object */
    struct fiber *parked[MOST_THREADS];     /* in the order in which they came */
    const void *parked_for[MOST_THREADS];
    int vote_and, vote_or, vote_count; /* of those that have arrived */
    int vote_result[3];                /* of the last barrier, by enum softgpu_vote; read as 16 bytes */
    struct fiber *running;
    struct fiber_queue ready; /* first in, first out: no warp runs ahead of the others for long */
    struct fiber_queue idle;  /* last in, first out: its stack may still be in the caches */
    struct fiber_chunk *chunks;
    struct warp warps[MOST_WARPS];
    struct fiber main;   /* the OS thread's own stack */
    void (*begin)(void); /* where a fiber begins */
};

/* ---- fatal.c ---- */

/* The block that runs on fibers in this OS thread, or NULL: none, or a kernel that runs as a loop. */
extern __thread struct block *block_here SOFTGPU_INITIAL_EXEC;

/* The kernel that runs in this OS thread, for messages; NULL between kernels. */
extern __thread const char *kernel_here SOFTGPU_INITIAL_EXEC;

/* CUDA_ERROR_ILLEGAL_ADDRESS and the like; this library knows nothing else of CUDA's interface. */
enum { RESULT_ILLEGAL_ADDRESS = 700, RESULT_ASSERT = 710, RESULT_LAUNCH_FAILED = 719 };

/* Ends the launch with this result and a message that names the thread; without a driver, ends the program. */
void kernel_fail(int result, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* A blocking intrinsic where no fiber runs: names the kernel, or reports that no kernel runs, and ends the
 * program. */
void block_refuse(const char *intrinsic) __attribute__((noreturn));

/* ---- what runs next; where a queue is empty, by the functions of warp.c ---- */

/* Fills the empty block->idle. */
void block_make_fibers(struct block *block) __attribute__((cold));

/* When no fiber is ready: answers the threads that ask for the active mask; ends the program if no thread asks. */
void block_unblock(struct block *block) __attribute__((cold));

enum { AHEAD = 3 }; /* turns: time enough for the second-level cache */

/* Brings the memory of a fiber that is soon to run into the caches: itself, and below it the end of its stack. */
static inline void
block_expect(const struct fiber *fiber)
{
    __builtin_prefetch(fiber, 1);
    __builtin_prefetch((const char *)fiber - 64, 1);
    __builtin_prefetch((const char *)fiber - 128, 1);
    __builtin_prefetch((const char *)fiber - 192, 1);
}

static inline struct fiber *
block_take_idle(struct block *block)
{
    struct fiber_queue *idle = &block->idle;
    if (idle->count == 0)
        block_make_fibers(block);
    struct fiber *fiber = *queue_at(idle, --idle->count);
    if (idle->count >= AHEAD)
        block_expect(*queue_at(idle, idle->count - AHEAD));
    return fiber;
}

static inline struct fiber *
block_take_ready(struct block *block)
{
    struct fiber_queue *ready = &block->ready;
    if (ready->count == 0)
        block_unblock(block);
    struct fiber *fiber = *queue_at(ready, 0);
    if (ready->count > AHEAD)
        block_expect(*queue_at(ready, AHEAD));
    ++ready->first;
    --ready->count;
    return fiber;
}

/* Which fiber runs next: one for a thread that has not begun, or the fiber that has been ready the longest. */
static inline struct fiber *
block_choose(struct block *block)
{
    return block->next_thread < block->thread_count ? block_take_idle(block) : block_take_ready(block);
}

static inline void
block_enter_thread(const struct fiber *fiber)
{
    softgpu_thread.indices_of_fibers.thread = fiber->thread;
    softgpu_thread.number = fiber->number;
}

/* What every switch begins with; the rest is the caller's caller's (fiber.h). */
static inline struct fiber *
block_switch(struct block *block, struct fiber *self, struct fiber *other)
{
    block->running = other;
    block_enter_thread(other);
#ifndef FIBER_UCONTEXT
    if (__builtin_expect(fiber_is_watched, 0))
        fiber_before_switch(self, other);
#else
    (void)self;
#endif
    return other;
}

/* The end of a step (fiber.h): the running fiber, whose frame this is, is to return with *result. */
static inline struct fiber *
block_return(struct block *block, void **frame, const void *result)
{
    frame[FIBER_RESULT] = (void *)result;
#ifndef FIBER_UCONTEXT
    block->running->stack_pointer = frame;
#endif
    return block->running;
}

/* The other end: returns once another fiber has made this one ready and its turn comes; `other` runs now. */
static inline struct fiber *
block_return_later(struct block *block, void **frame, const void *result, struct fiber *other)
{
    return block_switch(block, block_return(block, frame, result), other);
}

/* ---- steps (fiber.h), each of the function with its name at the end of block.c ---- */

struct fiber *block_barrier_step(void **frame);
struct fiber *block_vote_step(int predicate, enum softgpu_vote vote, void **frame);
struct fiber *block_wait_step(const void *object, void **frame);

/* The threads of the block from the first to the last, on fibers. */
void block_run(struct block *block);
struct fiber *block_run_step(struct block *block, void **frame);

/* The running fiber's thread has ended, and there is no next one to take: the fiber lies idle, and the result runs
 * next. */
struct fiber *block_end_step(struct block *block);

/* Calls the step, where softgpu_thread_end() has not. Returns where the fiber was switched to again, if ever. */
void block_end_thread(struct block *block);

struct fiber *warp_meet_step(const struct softgpu_gathering *gathering, unsigned mask, struct softgpu_word brought,
                             int argument, const void *context, void **frame);
struct fiber *warp_active_mask_step(const void *site, void **frame);

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

/* ---- arena.c ---- */

/* Room for the shared memory of any kernel, and for `dynamic_bytes` of the dynamic kind; sets the thread-local
 * pointers. */
void arena_prepare(size_t dynamic_bytes);

/* Whether the launch for which the arena was prepared has written behind its dynamic shared memory: at which offset
 * first, and how many bytes there are. */
bool arena_overrun(size_t *offset_p, size_t *bytes_p);

#endif
