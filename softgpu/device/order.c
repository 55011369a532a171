/*
 * order.c - SOFTGPU_UNRULY: the order in which the warps of a block run is drawn anew for each block of each launch.
 *
 * The driver gives each launch a number to draw from; the same number and block give the same order, in whichever OS
 * thread the block runs. Lanes of a warp keep their order, as on a GPU, which runs them together.
 */
#include "block.h"

#include "softgpu/draw.h"

#include <string.h>

static void
draw_warps(unsigned char *order, unsigned count, uint64_t draw, uint64_t number)
{
    uint64_t random = softgpu_mix(draw, number);
    for (unsigned i = 0; i < count; ++i) {
        const unsigned other = softgpu_draw(&random, i + 1);
        order[i] = order[other];
        order[other] = (unsigned char)i;
    }
}

void
order_draw(struct block *block, uint64_t number)
{
    unsigned char order[MOST_WARPS];
    const unsigned warps = (block->thread_count + WARP_LANES - 1) / WARP_LANES;
    struct softgpu_place *end = block->drawn;
    draw_warps(order, warps, block->launch->draw, number);
    for (unsigned i = 0; i < warps; ++i) {
        const unsigned first = order[i] * WARP_LANES, left = block->thread_count - first;
        const unsigned lanes = left < WARP_LANES ? left : WARP_LANES;
        memcpy(end, block->places + first, lanes * sizeof(*end));
        end += lanes;
    }
    block->starts = block->drawn;
}

/* ---- kernels that run as loops ---- */

static __thread struct {
    struct softgpu_launch launch; /* the part that runs */
    uint64_t end;                 /* after the launch's last block */
    unsigned thread_count, warps, done;
    unsigned char order[MOST_WARPS];
} parts SOFTGPU_INITIAL_EXEC;

static const struct softgpu_launch *
take_warp(void)
{
    const unsigned first = parts.order[parts.done++] * WARP_LANES, left = parts.thread_count - first;
    parts.launch.threads_before = first;
    parts.launch.threads_behind = left < WARP_LANES ? 0 : left - WARP_LANES;
    return &parts.launch;
}

static const struct softgpu_launch *
begin_block(uint64_t number)
{
    parts.launch.block_begin = number;
    parts.launch.block_end = number + 1;
    parts.done = 0;
    draw_warps(parts.order, parts.warps, parts.launch.draw, number);
    return take_warp();
}

const struct softgpu_launch *
order_first_part(const struct softgpu_launch *launch)
{
    const unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
    parts.launch = *launch;
    parts.end = launch->block_end;
    parts.thread_count = threads;
    parts.warps = (threads + WARP_LANES - 1) / WARP_LANES;
    return begin_block(launch->block_begin);
}

const struct softgpu_launch *
order_next_part(void)
{
    if (parts.done < parts.warps)
        return take_warp();
    return parts.launch.block_end < parts.end ? begin_block(parts.launch.block_end) : NULL;
}
