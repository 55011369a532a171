/*
 * block.c - runs the threads of a block, one at a time, on as few fibers as they need.
 *
 * The first fiber runs thread 0, then 1, 2, ... as a loop, until a thread waits for others (a barrier, a warp
 * collective). Then another fiber continues with the next thread. When all have been started, fibers that may continue
 * do so first in, first out: each warp advances by one collective per turn, which is what code that (rightly or not)
 * counts on warps running alike needs.
 *
 * Called by the code that softgpu-cc generates, on a thread of the stand-in's driver. It must not call into CUDA, but
 * for softgpuLaunchAbandon, which is made for that.
 */
#include "block.h"

#include <pthread.h>
#include <stdlib.h>

/* This OS thread's block, kept for the next launch. */
static __thread struct block *own_block SOFTGPU_INITIAL_EXEC;

/* Frees own_block when its OS thread ends. */
static pthread_key_t own_block_key;
static pthread_once_t own_block_once = PTHREAD_ONCE_INIT;

/* ---- one block ---- */

/* `waiting`: how many of those that have arrived. Once for many threads: those who call it have few registers to save.
 */
static __attribute__((noinline)) void
release_barrier(struct block *block, unsigned waiting)
{
    block->vote_result[SOFTGPU_VOTE_AND] = block->vote_and;
    block->vote_result[SOFTGPU_VOTE_OR] = block->vote_or;
    block->vote_result[SOFTGPU_VOTE_COUNT] = block->vote_count;
    block->vote_and = 1;
    block->vote_or = block->vote_count = 0;
    for (unsigned i = 0; i < waiting; ++i)
        queue_append(&block->ready, block->at_barrier[i]);
    block->arrived = 0;
}

/* Stored and read in parts of the same sizes: a processor waits for a value that it has just stored in other parts. */
static inline struct softgpu_index
take_next_thread(struct block *block)
{
    const uint64_t xy = block->next_xy;
    const struct softgpu_index thread = {(unsigned)xy, (unsigned)(xy >> 32), block->next_z};
    const unsigned *size = block->launch->block;
    if (thread.x + 1 < size[0]) {
        block->next_xy = xy + 1;
    } else if (thread.y + 1 < size[1]) {
        block->next_xy = (uint64_t)(thread.y + 1) << 32;
    } else {
        block->next_xy = 0;
        ++block->next_z;
    }
    return thread;
}

static inline void
end_thread(struct block *block, const struct fiber *fiber)
{
    warp_lane_ended(block, &block->warps[fiber->number / WARP_LANES], fiber->number % WARP_LANES);
    --block->live;

    /* A thread that has ended is not waited for. */
    if (block->arrived != 0 && block->arrived == block->live)
        release_barrier(block, block->arrived);
}

struct fiber *
block_end_step(struct block *block)
{
    struct fiber *self = block->running;
    end_thread(block, self);
#ifndef FIBER_UCONTEXT
    self->stack_pointer = NULL;
#endif
    struct fiber *other = block->live == 0 ? &block->main : block_take_ready(block);
    queue_append(&block->idle, self);
    return block_switch(block, self, other);
}

/* The running fiber takes the next thread. What is in registers here is not read back from memory. */
static inline void
run_next_thread(struct block *block, struct fiber *self)
{
    const struct softgpu_index thread = take_next_thread(block);
    const unsigned number = block->next_thread++;
    self->thread = softgpu_thread.indices_of_fibers.thread = thread;
    self->number = softgpu_thread.number = number;
    block->thread(block->launch, thread, softgpu_thread.indices_of_fibers.block);
}

void
fiber_begin(void)
{
    struct block *block = block_here;
    if (fiber_is_watched)
        fiber_after_switch(block->running);
    for (struct fiber *self = block->running;;) {
        run_next_thread(block, self);
        if (block->next_thread < block->thread_count)
            end_thread(block, self);
        else
            block_end_thread(block);
    }
}

struct fiber *
block_run_step(struct block *block, void **frame)
{
    block->running = &block->main;
    return block_return_later(block, frame, frame, block_take_idle(block));
}

static void
run_block(struct block *block)
{
    const unsigned *size = block->launch->block;
    block->thread_count = block->live = size[0] * size[1] * size[2];
    block->next_thread = 0;
    block->next_xy = 0;
    block->next_z = 0;
    block->arrived = 0;
    block->parked_count = 0;
    block->vote_and = 1;
    block->vote_or = block->vote_count = 0;
    for (unsigned w = 0, left = block->thread_count; left > 0; ++w) {
        unsigned lanes = left < WARP_LANES ? left : WARP_LANES;
        warp_reset(&block->warps[w], lanes);
        left -= lanes;
    }
    block_run(block);
}

/* ---- many blocks ---- */

static void
free_block(void *argument)
{
    struct block *block = argument;
    fiber_free_all(block->chunks);
    fiber_release_thread(&block->main);
    free(block);
}

static void
make_key(void)
{
    if (pthread_key_create(&own_block_key, free_block) != 0)
        abort(); /* no key is left in this process: nothing of the program can work */
}

static struct block *
get_own_block(void)
{
    if (own_block != NULL)
        return own_block;
    struct block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        softgpu_kernel_fatal("no memory to run its threads");
    block->begin = fiber_begin;
    fiber_adopt_thread(&block->main);
    pthread_once(&own_block_once, make_key);
    pthread_setspecific(own_block_key, block);
    own_block = block;
    return block;
}

/* When the last block has ended, which need not be the one that wrote. */
static void
check_shared_memory(void)
{
    size_t offset, bytes;
    if (arena_overrun(&offset, &bytes))
        kernel_fail(RESULT_ILLEGAL_ADDRESS,
                    "it wrote byte %zu of its dynamic shared memory, which has %zu bytes (third launch argument)",
                    offset, bytes);
}

void
softgpu_run_fibers(const struct softgpu_launch *launch, const char *kernel, softgpu_thread_fn thread)
{
    kernel_here = kernel;
    if ((size_t)launch->block[0] * launch->block[1] * launch->block[2] > MOST_THREADS)
        softgpu_kernel_fatal("a block of %ux%ux%u threads is more than %d", launch->block[0], launch->block[1],
                             launch->block[2], MOST_THREADS);
    struct block *block = get_own_block();
    block->kernel = kernel;
    block->launch = launch;
    block->thread = thread;
    block_here = block;
    struct softgpu_indices *here = softgpu_thread.here = &softgpu_thread.indices_of_fibers;
    here->block_dim = (struct softgpu_index){launch->block[0], launch->block[1], launch->block[2]};
    here->grid_dim = (struct softgpu_index){launch->grid[0], launch->grid[1], launch->grid[2]};
    arena_prepare(launch->dynamic_shared_bytes);

    const uint64_t across = launch->grid[0], slice = across * launch->grid[1];
    for (uint64_t b = launch->block_begin; b < launch->block_end; ++b) {
        here->block =
            (struct softgpu_index){(unsigned)(b % across), (unsigned)(b % slice / across), (unsigned)(b / slice)};
        run_block(block);
    }
    block_here = NULL;
    check_shared_memory();
    kernel_here = NULL;
}

void
softgpu_loop_begin(const struct softgpu_launch *launch, const char *kernel)
{
    kernel_here = kernel;
    arena_prepare(launch->dynamic_shared_bytes);
}

void
softgpu_loop_end(void)
{
    softgpu_thread.here = NULL; /* the loop's frame is gone */
    check_shared_memory();
    kernel_here = NULL;
}

/* ---- barriers ---- */

struct fiber *
block_barrier_step(void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("__syncthreads");
    const unsigned waiting = block->arrived++;
    if (block->arrived == block->live) {
        release_barrier(block, waiting);
        return block_return(block, frame, frame);
    }
    block->at_barrier[waiting] = block->running;
    return block_return_later(block, frame, frame, block_choose(block));
}

struct fiber *
block_vote_step(int predicate, enum softgpu_vote vote, void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("__syncthreads_and, _or or _count");
    block->vote_and &= predicate != 0;
    block->vote_or |= predicate != 0;
    block->vote_count += predicate != 0;
    struct fiber *next = block_barrier_step(frame);
    frame[FIBER_RESULT] = &block->vote_result[vote];
    return next;
}

struct fiber *
block_wait_step(const void *object, void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("cuda::barrier or cuda::pipeline");
    if (object == NULL) {
        queue_append(&block->ready, block->running);
    } else {
        block->parked[block->parked_count] = block->running;
        block->parked_for[block->parked_count++] = object;
    }
    return block_return_later(block, frame, frame, block_choose(block));
}

void
softgpu_wake(const void *object)
{
    struct block *block = block_here;
    unsigned stay = 0;
    for (unsigned i = 0; block != NULL && i < block->parked_count; ++i) {
        if (block->parked_for[i] == object) {
            queue_append(&block->ready, block->parked[i]);
            continue;
        }
        block->parked[stay] = block->parked[i];
        block->parked_for[stay++] = block->parked_for[i];
    }
    if (block != NULL)
        block->parked_count = stay;
}

/* ---- the functions that wait, around their steps ---- */

#ifndef FIBER_UCONTEXT

/*
 * softgpu_barrier() and the others, as assembly: `sp` is the instruction that gives the step the stack pointer, as the
 * parameter behind those of the function itself.
 */
#define DEFINE_WAIT(name, step, sp)                                                                          \
    __asm__(".text\n\t.p2align 4\n\t.globl " #name "\n\t"                                                    \
            ".type " #name ", @function\n" #name ":\n\t"                                                     \
            ".cfi_startproc\n\t"                                                                             \
            "endbr64\n\t" FIBER_SAVE sp "\n\tcall " #step "\n\t" FIBER_RESUME ".cfi_endproc\n\t.size " #name \
            ", .-" #name "\n");

DEFINE_WAIT(softgpu_barrier, block_barrier_step, "movq %rsp, %rdi")
DEFINE_WAIT(softgpu_barrier_vote, block_vote_step, "movq %rsp, %rdx")
DEFINE_WAIT(softgpu_active_mask, warp_active_mask_step, "movq %rsp, %rsi")
DEFINE_WAIT(softgpu_wait, block_wait_step, "movq %rsp, %rsi")
DEFINE_WAIT(softgpu_meet, warp_meet_step, "movq %rsp, %rax\n\tpushq %rax\n\tpushq %rax")
DEFINE_WAIT(block_run, block_run_step, "movq %rsp, %rsi")

/*
 * Where there is a next thread, fiber_begin() takes it. Where there is none, the fiber's stack is as good as empty, and
 * nothing is saved. A sanitizer in the program wants its functions to return first.
 */
_Static_assert(offsetof(struct block, thread_count) == 24 && offsetof(struct block, next_thread) == 28, "as below");
__asm__(".text\n\t.p2align 4\n\t.globl softgpu_thread_end\n\t"
        ".type softgpu_thread_end, @function\nsoftgpu_thread_end:\n\t.cfi_startproc\n\tendbr64\n\t"
        "movq block_here@gottpoff(%rip), %rdi\n\tmovq %fs:(%rdi), %rdi\n\t"
        "movl 28(%rdi), %ecx\n\tcmpl 24(%rdi), %ecx\n\tjb 4f\n\t"
        "cmpb $0, fiber_is_watched(%rip)\n\tjne 4f\n"
        "block_end_thread:\n\tsubq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\tcall block_end_step\n\t" FIBER_RESUME
        "4:\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t.size softgpu_thread_end, .-softgpu_thread_end\n");

#else

/* The running fiber, if any: without one, the step reports the mistake. */
static struct fiber *
running(void)
{
    return block_here != NULL ? block_here->running : NULL;
}

void
softgpu_barrier(void)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_barrier_step(frame));
}

int
softgpu_barrier_vote(int predicate, enum softgpu_vote vote)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_vote_step(predicate, vote, frame));
    return *(const int *)frame[FIBER_RESULT];
}

unsigned
softgpu_active_mask(const void *site)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, warp_active_mask_step(site, frame));
    return *(const unsigned *)frame[FIBER_RESULT];
}

void
softgpu_wait(const void *object)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_wait_step(object, frame));
}

struct softgpu_word
softgpu_meet(const struct softgpu_gathering *gathering, unsigned mask, struct softgpu_word brought, int argument,
             const void *context)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, warp_meet_step(gathering, mask, brought, argument, context, frame));
    return *(const struct softgpu_word *)frame[FIBER_RESULT];
}

void
block_run(struct block *block)
{
    void *frame[FIBER_FRAME];
    fiber_switch(&block->main, block_run_step(block, frame));
}

void
softgpu_thread_end(void)
{
}

void
block_end_thread(struct block *block)
{
    struct fiber *self = block->running;
    fiber_switch(self, block_end_step(block)); /* it lies idle in there, and is taken from there */
}

#endif
