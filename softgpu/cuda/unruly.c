/*
 * unruly.c - SOFTGPU_UNRULY=SEED: the device does what CUDA allows and a GPU does, and no machine does twice. Blocks
 * run in a drawn order, as do warps (softgpu/device/order.c), anew for each launch and rank; the device lags behind the
 * host by a drawn time.
 *
 * A block starts after all lower ones have, as on GPUs: kernels count on that ("decoupled look-back": a block waits for
 * the results of lower blocks). So the next block is drawn among those that are resident. One thread runs them to their
 * ends; where one waits for a lower block that has not had its turn, workers.c sends another thread.
 *
 * Called by: launch.c, queue.c, workers.c.
 */
#include "driver.h"

#include "softgpu/draw.h"
#include "softgpu/private_calls.h"

enum { WAITING_KERNELS = 16 };

/* Kernels of which a block has waited for lower ones: these are run in ascending order. */
static _Atomic(const struct softgpu_image *) waiting[WAITING_KERNELS];
static _Atomic unsigned waiting_next;

bool
softgpuUnruly(void)
{
    return driver.unruly;
}

uint64_t
unruly_draw(struct stream *stream)
{
    if (!driver.unruly) {
        return 0;
    }
    uint64_t rank = softgpu_mix(driver.unruly_key, (uint64_t)driver.device_index[stream->context->device]);
    return softgpu_mix(softgpu_mix(rank, stream->id), ++stream->draws) | 1;
}

/* Of 64 commands, one waits for up to 2 ms, and of these one in 32 for 20 ms: long enough for the host to be ahead by
 * as many commands as a stream takes. */
void
unruly_lag(uint64_t *random)
{
    if (softgpu_draw(random, 64) == 0) {
        stream_spend(softgpu_draw(random, 32) == 0 ? 20000000 : softgpu_draw(random, 2000000));
    }
}

/* ---- blocks ---- */

static void
fill(struct window *window)
{
    while (window->count < RESIDENT_BLOCKS && window->next < window->block_count) {
        window->resident[window->count++] = window->next++;
    }
}

void
window_open(struct window *window, const struct softgpu_image *image, uint64_t draw, uint64_t block_count)
{
    pthread_mutex_init(&window->lock, NULL);
    window->image = image;
    window->random = draw;
    window->next = window->taken = window->count = 0;
    window->seen = UINT64_MAX;
    window->block_count = block_count;
    window->ascends = false;
    for (unsigned i = 0; i < WAITING_KERNELS; ++i) {
        window->ascends = window->ascends || atomic_load(&waiting[i]) == image;
    }
    fill(window);
}

bool
window_take(struct window *window, uint64_t *block_p)
{
    pthread_mutex_lock(&window->lock);
    bool is = window->count > 0;
    if (is) {
        unsigned place = window->ascends ? 0 : softgpu_draw(&window->random, window->count);
        for (unsigned i = 1; i < window->count && window->ascends; ++i) {
            place = window->resident[i] < window->resident[place] ? i : place;
        }
        *block_p = window->resident[place];
        window->resident[place] = window->resident[--window->count];
        ++window->taken;
        fill(window);
    }
    pthread_mutex_unlock(&window->lock);
    return is;
}

void
window_close(struct window *window)
{
    pthread_mutex_lock(&window->lock);
    window->count = 0;
    window->next = window->block_count;
    pthread_mutex_unlock(&window->lock);
}

bool
window_is_open(struct window *window)
{
    pthread_mutex_lock(&window->lock);
    bool is = window->count > 0;
    pthread_mutex_unlock(&window->lock);
    return is;
}

bool
window_is_stuck(struct window *window)
{
    pthread_mutex_lock(&window->lock);
    bool is = window->count > 0 && window->taken == window->seen;
    window->seen = window->taken;
    if (is && !window->ascends) {
        window->ascends = true;
        atomic_store(&waiting[atomic_fetch_add(&waiting_next, 1) % WAITING_KERNELS], window->image);
    }
    pthread_mutex_unlock(&window->lock);
    return is;
}
