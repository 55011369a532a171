/*
 * blocks.c - runs the blocks of a launch one after the other; or in groups of blocks that may wait for each other: the
 * grid of a cooperative launch, or a cluster.
 *
 * The blocks of a group take turns on one OS thread, each with fibers and shared memory of its own: a block runs until
 * all its threads have ended or wait for the other blocks. When all blocks have come that far, all of them go on. So
 * each run has the same bits. A block that spins gives its turn to the next after a while (spin.c).
 */
#include "block.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

/* This OS thread's block, kept for the next launch. */
static __thread struct block *own_block SOFTGPU_INITIAL_EXEC;

/* Frees own_block when its OS thread ends. */
static pthread_key_t own_block_key;
static pthread_once_t own_block_once = PTHREAD_ONCE_INIT;

static __thread struct block *group SOFTGPU_INITIAL_EXEC; /* its first block */

const struct softgpu_launch *
softgpu_launch_here(void)
{
    return block_here->launch;
}

void *
softgpu_shared_of(const void *address, unsigned rank)
{
    const struct block *block = group;
    for (; rank > 0 && block != NULL; --rank)
        block = block->next;
    if (block == NULL || !arena_holds(address))
        softgpu_kernel_fatal("map_shared_rank() is called for memory that is not shared, or a rank that is not there");
    return block->arena + ((const char *)address - arena_here);
}

/* The OS thread is that block's now. */
static void
enter(struct block *block)
{
    block_here = block;
    arena_here = block->arena;
    arena_prepare(block->launch->dynamic_shared_bytes);
    block->arena = arena_here;
    softgpu_thread.indices_of_fibers.block = block->index;
}

static void
begin(struct block *block, const unsigned first[3], unsigned rank)
{
    const struct softgpu_launch *launch = block->launch;
    const unsigned x = launch->group[0], y = launch->group[1];
    block->index =
        (struct softgpu_index){first[0] + rank % x, first[1] + rank / x % y, first[2] + (unsigned)(rank / x / y)};
    if (launch->draw != 0)
        order_draw(block, block->index.x + (uint64_t)launch->grid[0] *
                                               (block->index.y + (uint64_t)launch->grid[1] * block->index.z));
    block_begin(block);
    block->leaves = block->waits = false;
}

/* Returns how many blocks wait for the others. */
static unsigned
run_each_once(struct block *first, unsigned count, unsigned *live_p)
{
    unsigned live = 0, waiting = 0, i = 0;
    for (struct block *block = first; i < count; ++i, block = block->next) {
        if (block->live > 0 && !block->waits) {
            enter(block);
            block_run(block);
            block_check_shared_memory();
            block->waits = block->live > 0 && block_waits(block);
        }
        live += block->live > 0;
        waiting += block->live > 0 && block->waits;
    }
    *live_p = live;
    return waiting;
}

static void
run_group(struct block *first, unsigned count)
{
    unsigned live;
    do {
        const unsigned waiting = run_each_once(first, count, &live);
        if (live == 0 || waiting < live)
            continue;
        if (live < count && first->launch->cooperative)
            softgpu_kernel_fatal("deadlock: %u of the grid's %u blocks wait at grid.sync(), the others have ended",
                                 live, count);
        unsigned i = 0;
        for (struct block *block = first; i < count; ++i, block = block->next) {
            block_here = block;
            block->waits = false;
            if (block->parked_count > 0)
                softgpu_wake(block->parked_for[0]);
        }
    } while (live > 0);
}

/* The launch's blocks group by group. `first` is the OS thread's own, prepared for the launch. */
static void
run_groups(struct block *first)
{
    const struct softgpu_launch *launch = first->launch;
    const unsigned *shape = launch->group, count = shape[0] * shape[1] * shape[2];
    unsigned at[3], i = 1;
    group = first;
    first->arena = arena_here;
    for (struct block *block = first; i < count; ++i, block = block->next) {
        if (block->next == NULL)
            block->next = block_new();
        block_prepare(block->next, launch, first->kernel, first->thread);
    }
    for (at[2] = 0; at[2] < launch->grid[2]; at[2] += shape[2]) {
        for (at[1] = 0; at[1] < launch->grid[1]; at[1] += shape[1]) {
            for (at[0] = 0; at[0] < launch->grid[0]; at[0] += shape[0]) {
                i = 0;
                for (struct block *block = first; i < count; ++i, block = block->next)
                    begin(block, at, i);
                run_group(first, count);
            }
        }
    }
    arena_here = first->arena;
    arena_prepare(launch->dynamic_shared_bytes);
}

/* ---- all blocks of a launch ---- */

static void
free_block(void *argument)
{
    for (struct block *block = argument, *next; block != NULL; block = next) {
        next = block->next;
        if (block != argument && block->arena != NULL)
            arena_unmap(block->arena);
        fiber_free_all(block->chunks);
        fiber_release_thread(&block->main);
        free(block);
    }
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
    if (own_block == NULL) {
        own_block = block_new();
        pthread_once(&own_block_once, make_key);
        pthread_setspecific(own_block_key, own_block);
    }
    return own_block;
}

void
softgpu_run_fibers(const struct softgpu_launch *launch, const char *kernel, softgpu_thread_fn thread)
{
    kernel_here = kernel;
    if ((size_t)launch->block[0] * launch->block[1] * launch->block[2] > MOST_THREADS)
        softgpu_kernel_fatal("a block of %ux%ux%u threads is more than %d", launch->block[0], launch->block[1],
                             launch->block[2], MOST_THREADS);
    struct block *block = get_own_block();
    block_prepare(block, launch, kernel, thread);
    block_here = block;
    struct softgpu_indices *here = softgpu_thread.here = &softgpu_thread.indices_of_fibers;
    here->block_dim = (struct softgpu_index){launch->block[0], launch->block[1], launch->block[2]};
    here->grid_dim = (struct softgpu_index){launch->grid[0], launch->grid[1], launch->grid[2]};
    arena_prepare(launch->dynamic_shared_bytes);
    ++races_meetings;

    const uint64_t across = launch->grid[0], slice = across * launch->grid[1];
    if (launch->group[0] != 0)
        run_groups(block);
    for (uint64_t b = launch->group[0] != 0 ? launch->block_end : launch->block_begin; b < launch->block_end; ++b) {
        here->block =
            (struct softgpu_index){(unsigned)(b % across), (unsigned)(b % slice / across), (unsigned)(b / slice)};
        if (launch->draw != 0)
            order_draw(block, b);
        block_begin(block);
        block_run(block);
    }
    block_here = NULL;
    block_check_shared_memory();
    softgpu_thread.static_shared = NULL;
    kernel_here = NULL;
}
