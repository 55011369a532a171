/*
 * warp.c - the lanes of a warp that meet: shuffles, votes, reductions, __syncwarp, __activemask.
 *
 * A lane leaves what it brings in the warp's table and waits; the lane that comes last computes what all of them get
 * and wakes them. So a result is computed once, and no lane can overwrite what another has still to read: it waits in
 * one meeting at a time. Lanes that have ended are not waited for, as in CUDA.
 *
 * Also what runs when no fiber is ready: a new one, or lanes that ask for the active mask; otherwise it is a deadlock.
 */
#include "block.h"

#include <stdio.h>

void
warp_reset(struct warp *warp, unsigned lanes)
{
    warp->live = lanes == WARP_LANES ? ~0u : (1u << lanes) - 1;
    warp->group_count = 0;
    warp->asking = 0;
}

static struct group *
find_group(struct warp *warp, unsigned mask)
{
    for (unsigned g = 0; g < warp->group_count; ++g) {
        if (warp->groups[g].mask == mask)
            return &warp->groups[g];
    }
    return NULL;
}

/* Lanes in different groups have not ended and wait, so there are at most as many groups as lanes. */
static struct group *
open_group(struct warp *warp, unsigned mask, const struct softgpu_gathering *what, const void *context)
{
    struct group *group = &warp->groups[warp->group_count++];
    *group = (struct group){mask, mask, what, context};
    return group;
}

static bool
is_complete(const struct warp *warp, const struct group *group)
{
    return (warp->live & group->missing) == 0;
}

/* `runs`: of the lanes that have arrived, the one that does not wait, if any. */
static void
close_group(struct block *block, struct warp *warp, struct group *group, unsigned runs)
{
    warp->meeting.arrived = group->mask & ~group->missing;
    ++races_meetings;
    group->what->finish(&warp->meeting, group->context);
    const unsigned waiting = warp->meeting.arrived & ~runs;
    if (waiting != 0)
        block_make_ready(block, (unsigned)(warp - block->warps) * WARP_LANES, waiting);
    *group = warp->groups[--warp->group_count];
}

struct fiber *
warp_meet_step(const struct softgpu_gathering *gathering, unsigned mask, struct softgpu_word brought, int argument,
               const void *context, void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse(gathering->name);
    struct warp *warp = &block->warps[softgpu_thread.number / WARP_LANES];
    const unsigned lane = softgpu_thread.number % WARP_LANES;
    if ((mask >> lane & 1) == 0)
        softgpu_kernel_fatal("lane %u of warp %u calls %s with mask %#x, which leaves it out", lane,
                             softgpu_thread.number / WARP_LANES, gathering->name, mask);

    struct group *group = find_group(warp, mask);
    if (group == NULL)
        group = open_group(warp, mask, gathering, context);
    else if (group->what != gathering && group->what->name != gathering->name &&
             __builtin_strcmp(group->what->name, gathering->name) != 0)
        softgpu_kernel_fatal("lanes of warp %u meet in %s and in %s under the same mask %#x",
                             softgpu_thread.number / WARP_LANES, group->what->name, gathering->name, mask);

    warp->meeting.brought[lane] = brought;
    warp->meeting.argument[lane] = argument;
    group->missing &= ~(1u << lane);
    if (is_complete(warp, group)) {
        close_group(block, warp, group, 1u << lane);
        return block_return(block_running(block), frame, &warp->meeting.result[lane]);
    }
    return block_return_later(block, frame, &warp->meeting.result[lane]);
}

void
warp_close_groups(struct block *block, struct warp *warp)
{
    for (unsigned g = 0; g < warp->group_count;) {
        if (is_complete(warp, &warp->groups[g]))
            close_group(block, warp, &warp->groups[g], 0); /* another group takes its place */
        else
            ++g;
    }
}

struct fiber *
warp_active_mask_step(const void *site, void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("__activemask");
    struct warp *warp = &block->warps[softgpu_thread.number / WARP_LANES];
    const unsigned lane = softgpu_thread.number % WARP_LANES;

    warp->asking |= 1u << lane;
    warp->asking_at[lane] = site;
    return block_return_later(block, frame, &warp->answer[lane]);
}

/* Lanes of `warp` that ask at the same place as its first lane that asks. */
static unsigned
asking_together(const struct warp *warp)
{
    const void *site = warp->asking_at[__builtin_ctz(warp->asking)];
    unsigned together = 0;
    for (unsigned lane = 0; lane < WARP_LANES; ++lane) {
        if ((warp->asking >> lane & 1) != 0 && warp->asking_at[lane] == site)
            together |= 1u << lane;
    }
    return together;
}

/* Nothing can run: answers one group of lanes that ask who is active. False if none does. */
static bool
answer_active_mask(struct block *block)
{
    for (unsigned w = 0; w * WARP_LANES < block->thread_count; ++w) {
        struct warp *warp = &block->warps[w];
        if (warp->asking == 0)
            continue;
        const unsigned together = asking_together(warp);
        warp->asking &= ~together;
        ++races_meetings;
        for (unsigned lane = 0; lane < WARP_LANES; ++lane) {
            if ((together >> lane & 1) != 0)
                warp->answer[lane] = together;
        }
        block_make_ready(block, w * WARP_LANES, together);
        return true;
    }
    return false;
}

/* ---- what block_choose() calls when nothing is left ---- */

void
block_make_fibers(struct block *block)
{
    if (!fiber_make_some(&block->chunks, block->idle, block->begin))
        softgpu_kernel_fatal("no memory for the stacks of its threads; SOFTGPU_STACK_KB makes them smaller");
    block->idle_count = FIBER_CHUNK;
}

/* All threads of the block wait. Reports for whom, warp by warp, and ends the program: on a GPU it would hang. */
static void
report_deadlock(const struct block *block)
{
    char text[1024];
    int used =
        snprintf(text, sizeof(text), "deadlock: of %u threads, %u wait at __syncthreads", block->live, block->arrived);
    if (block->parked_count > 0)
        used += snprintf(text + used, sizeof(text) - (size_t)used, ", %u at a cuda::barrier or cuda::pipeline%s",
                         block->parked_count, block->launch->group[0] != 0 ? ", or for other blocks" : "");
    for (unsigned w = 0; w < MOST_WARPS && w * WARP_LANES < block->thread_count; ++w) {
        const struct warp *warp = &block->warps[w];
        for (unsigned g = 0; g < warp->group_count && used > 0 && (size_t)used < sizeof(text); ++g) {
            const struct group *group = &warp->groups[g];
            used +=
                snprintf(text + used, sizeof(text) - (size_t)used, "; lanes %#x of warp %u wait in %s for lanes %#x",
                         group->mask & ~group->missing, w, group->what->name, warp->live & group->missing);
        }
    }
    softgpu_kernel_fatal("%s", text);
}

bool
block_next_turn(struct block *block)
{
    if (block->leaves || (block->ready_count == 0 && block_waits(block)))
        return block->leaves = false;
    if (block->ready_count == 0 && !answer_active_mask(block))
        report_deadlock(block);
    block->turn = block->ready[block->first_ready++ % MOST_THREADS];
    --block->ready_count;
    return true;
}
