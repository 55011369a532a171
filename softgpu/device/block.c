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

#undef NDEBUG /* or <assert.h> hides __assert_fail */
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CUDA_ERROR_ILLEGAL_ADDRESS and the like; this library knows nothing else of CUDA's interface. */
enum { RESULT_ILLEGAL_ADDRESS = 700, RESULT_ASSERT = 710, RESULT_LAUNCH_FAILED = 719 };

__thread struct softgpu_thread softgpu_thread SOFTGPU_INITIAL_EXEC;

__thread struct block *block_here SOFTGPU_INITIAL_EXEC;

/* This OS thread's block, kept for the next launch. */
static __thread struct block *own_block SOFTGPU_INITIAL_EXEC;

__thread const char *kernel_here SOFTGPU_INITIAL_EXEC;

/* Frees own_block when its OS thread ends. */
static pthread_key_t own_block_key;
static pthread_once_t own_block_once = PTHREAD_ONCE_INIT;

/* ---- messages ---- */

/* The driver's way to give up a launch: the program continues, with an error. NULL: there is no driver. */
typedef void (*abandon_fn)(int result, const char *what);

static abandon_fn
find_abandon(void)
{
    abandon_fn abandon = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = driver != NULL ? dlsym(driver, "softgpuLaunchAbandon") : NULL;
    memcpy(&abandon, &found, sizeof(found));
    return abandon;
}

/* Ends the launch; `thread`: also says which of the block's threads it was. */
static void __attribute__((noreturn, format(printf, 3, 0)))
end_launch(int result, bool thread, const char *format, va_list args)
{
    char what[2048];
    const struct softgpu_index b = softgpu_thread.indices_of_fibers.block, t = softgpu_thread.indices_of_fibers.thread;
    int used = 0;
    if (block_here != NULL) /* where threads run as a loop, these are not kept */
        used = snprintf(what, sizeof(what), "block (%u,%u,%u)", b.x, b.y, b.z);
    if (block_here != NULL && thread)
        used += snprintf(what + used, sizeof(what) - (size_t)used, ", thread (%u,%u,%u)", t.x, t.y, t.z);
    if (block_here != NULL)
        used += snprintf(what + used, sizeof(what) - (size_t)used, ": ");
    vsnprintf(what + used, sizeof(what) - (size_t)used, format, args);

    const abandon_fn abandon = kernel_here != NULL ? find_abandon() : NULL;
    if (abandon != NULL)
        abandon(result, what);
    char line[2304];
    const int length =
        snprintf(line, sizeof(line), "softgpu: kernel %s: %s\n", kernel_here != NULL ? kernel_here : "(none)", what);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
    abort();
}

void
softgpu_kernel_fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end_launch(RESULT_LAUNCH_FAILED, false, format, args);
}

static void __attribute__((noreturn, format(printf, 2, 3))) end_launch_here(int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end_launch(result, true, format, args);
}

void
softgpu_trap(void)
{
    end_launch_here(RESULT_LAUNCH_FAILED, "__trap()");
}

void
softgpu_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
{
    if (kernel_here == NULL)
        __assert_fail(expression, file, line, function);
    end_launch_here(RESULT_ASSERT, "%s:%u: assertion '%s' failed", file, line, expression);
}

void
block_refuse(const char *intrinsic)
{
    if (kernel_here == NULL)
        softgpu_kernel_fatal("%s is called outside a kernel", intrinsic);
    softgpu_kernel_fatal(
        "%s is called, but softgpu-cc saw no path from the kernel to it and runs its threads as a loop; name the "
        "function that calls it in the same source file, or call it without a function pointer",
        intrinsic);
}

/* All threads of the block wait. Reports for whom, warp by warp, and ends the program: on a GPU it would hang. */
static void
report_deadlock(const struct block *block)
{
    char text[1024];
    int used =
        snprintf(text, sizeof(text), "deadlock: of %u threads, %u wait at __syncthreads", block->live, block->arrived);
    for (unsigned w = 0; w < MOST_WARPS && w * WARP_LANES < block->thread_count; ++w) {
        const struct warp *warp = &block->warps[w];
        for (unsigned g = 0; g < warp->group_count && used > 0 && (size_t)used < sizeof(text); ++g) {
            const struct group *group = &warp->groups[g];
            used +=
                snprintf(text + used, sizeof(text) - (size_t)used, "; lanes %#x of warp %u wait in %s for lanes %#x",
                         group->arrived, w, group->what->name, group->mask & warp->live & ~group->arrived);
        }
    }
    softgpu_kernel_fatal("%s", text);
}

/* ---- one block ---- */

void
block_make_fibers(struct block *block)
{
    struct fiber_list made = {NULL, NULL};
    if (!fiber_make_some(&block->chunks, &made))
        softgpu_kernel_fatal("no memory for the stacks of its threads; SOFTGPU_STACK_KB makes them smaller");
    for (struct fiber *fiber; (fiber = fiber_take(&made)) != NULL;)
        queue_append(&block->idle, fiber);
}

void
block_unblock(struct block *block)
{
    if (!warp_answer_active_mask(block))
        report_deadlock(block);
}

/* `waiting`: how many of those that have arrived. */
static void
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
block_end_step(void)
{
    struct block *block = block_here;
    struct fiber *self = block->running;
    end_thread(block, self);
    if (block->next_thread < block->thread_count)
        return NULL;
#ifndef FIBER_UCONTEXT
    self->stack_pointer = NULL;
#endif
    struct fiber *other = block->live == 0 ? &block->main : block_choose(block);
    queue_append(&block->idle, self);
    return block_switch(block, self, other);
}

/* The running fiber takes the next thread. */
static inline void
run_next_thread(struct block *block)
{
    struct fiber *self = block->running;
    const struct softgpu_index thread = self->thread = take_next_thread(block);
    self->number = block->next_thread++;
    block_enter_thread(self);
    block->thread(block->launch, thread, softgpu_thread.indices_of_fibers.block);
}

void
fiber_begin(void)
{
    struct block *block = block_here;
    if (fiber_is_watched)
        fiber_after_switch(block->running);
    for (;;) {
        run_next_thread(block);
        block_after_thread(block->running);
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
        end_launch_here(RESULT_ILLEGAL_ADDRESS,
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
