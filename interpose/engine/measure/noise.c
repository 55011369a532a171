/*
 * noise.c - the gradient noise scale: up to which batch are more items a step worth their cost?
 *
 * S. McCandlish, J. Kaplan, D. Amodei, OpenAI Dota Team: An empirical model of large-batch training, arXiv 1812.06162,
 * 2018, appendix A.1. A rank's own gradient is of a batch B, the average of N ranks is of N B. With s, the mean of
 * the ranks' squared norms, and a, that of the average:
 *
 *     |G|^2 = (N a - s) / (N - 1)      tr(Sigma) = (s - a) B N / (N - 1)      noise scale = tr(Sigma) / |G|^2
 *
 * Both are without bias, but their ratio in one step is not: each is added up over steps first. Here B is 1: a rank's
 * batch, whatever it holds. Kernels that pass over buckets anyway add up the squares (comm/kernels/nonfinite.h), in one
 * step of LOOK_EVERY, a number that has no divisor in common with the batches of most epochs, nor with the turns in
 * which parts of buckets in place are looked at. Words of LOOKS steps are
 * sent at a time. Rank 0 finds the figure, from the later half of the run so far: the noise scale grows while a program
 * learns. Its spread is by the jackknife over blocks of steps.
 *
 * Not of steps in CUDA graphs or with DDP_WEIGHT, sums, averages of parameters, or of several groups. Where the norms
 * of average and ranks are the same, ranks have taken the same data, and nothing is said. The issuer's, but for what
 * its comment says.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"

#include <math.h>

enum { LOOK_EVERY = 17, LOOKS = 8, BLOCKS_AT_MOST = 32, BLOCKS_LEAST = 8 };

/* Below these nothing is said: the difference of the norms, of their size; and above this half a spread. */
#define LEAST_DIFFERENCE 1e-4
#define MOST_SPREAD      0.5 /* its ends are apart by a factor of 3 */

/* Sums over steps. */
struct norms {
    double own, average;
};

static struct {
    bool is_open, looks; /* this interval is looked at */
    int group;           /* of its gradients; where there is another one, nothing is looked at any more: */
    bool is_off;
    size_t look;              /* number of the next one among those that are sent together */
    CUdeviceptr own, average; /* double[LOOKS] */
    double *averages;         /* pinned, the same */
    struct gathered words;    /* own[] of each rank, bits of doubles */

    /* ---- host functions on the engine's stream ---- */
    struct norms blocks[BLOCKS_AT_MOST];
    size_t block_count, block_looks, last_looks; /* looks of a whole block; of the one that is being filled */
} noise = {.block_looks = 1};

/* ---- the figure ---- */

/* In ranks' batches; negative or not a number where the average tells no gradient from noise. */
static double
scale_of(struct norms norms)
{
    double ranks = engine_state.rendezvous.world_size;
    return ranks * (norms.own - norms.average) / (ranks * norms.average - norms.own);
}

/* Twice the standard error, as a part of the scale: the jackknife over blocks that add up to `all`. */
static double
spread_of(const struct norms *blocks, size_t count, struct norms all)
{
    double sum = 0, squares = 0, n = (double)count;
    for (size_t i = 0; i < count; ++i) {
        double without = scale_of((struct norms){all.own - blocks[i].own, all.average - blocks[i].average});
        sum += without;
        squares += without * without;
    }
    double variance = (n - 1) * (squares / n - sum / n * (sum / n));
    return 2 * sqrt(variance > 0 ? variance : 0) / scale_of(all);
}

static void
publish(void)
{
    size_t first = noise.block_count / 2, count = noise.block_count - first;
    struct norms all = {0, 0};
    for (size_t i = first; i < noise.block_count; ++i) {
        all.own += noise.blocks[i].own;
        all.average += noise.blocks[i].average;
    }
    double scale = scale_of(all), spread = spread_of(noise.blocks + first, count, all);
    bool is_known = count >= BLOCKS_LEAST && all.own - all.average > LEAST_DIFFERENCE * all.own && scale > 0 &&
                    spread <= MOST_SPREAD && scale < 1e12;
    atomic_store(&engine_state.status->noise_scale, is_known ? (uint64_t)(1e6 * scale) : 0);
    atomic_store(&engine_state.status->noise_spread, is_known ? (uint64_t)(1e6 * spread) : 0);
}

/* Of one step. Where blocks are full, each becomes one of two. */
static void
add_look(struct norms norms)
{
    if (!isfinite(norms.own) || !isfinite(norms.average) || norms.own <= 0)
        return;
    struct norms *block = &noise.blocks[noise.block_count];
    block->own += norms.own;
    block->average += norms.average;
    if (++noise.last_looks < noise.block_looks)
        return;
    noise.last_looks = 0;
    if (++noise.block_count < BLOCKS_AT_MOST)
        return;
    for (size_t i = 0; i < BLOCKS_AT_MOST; ++i) {
        struct norms from = noise.blocks[i];
        noise.blocks[i] = (struct norms){0, 0};
        noise.blocks[i / 2].own += from.own;
        noise.blocks[i / 2].average += from.average;
    }
    noise.block_count /= 2;
    noise.block_looks *= 2;
}

static void CUDA_CB
take_looks(void *unused)
{
    (void)unused;
    const double *own = (const double *)noise.words.all;
    for (size_t k = 0; k < LOOKS && engine_state.rendezvous.rank == 0; ++k) {
        struct norms norms = {0, noise.averages[k]};
        for (int r = 0; r < engine_state.rendezvous.world_size; ++r)
            norms.own += own[(size_t)r * LOOKS + k] / engine_state.rendezvous.world_size;
        add_look(norms);
    }
    if (engine_state.rendezvous.rank == 0)
        publish();
}

/* ---- looks ---- */

static void
open_looks(const struct group *group)
{
    RELAX_CAPTURES();
    noise.is_open = true;
    noise.group = group->id;
    noise.own = device_allocate(2 * LOOKS * sizeof(double), "cuMemAlloc for squares of gradients");
    noise.average = noise.own + LOOKS * sizeof(double);
    noise.averages = device_allocate_pinned(LOOKS * sizeof(double));
    gather_prepare(&noise.words, LOOKS);
    watch(WATCH_NOISE, true);
}

void
noise_next_interval(const struct group *group)
{
    const struct job_options *options = &engine_state.options;
    noise.is_off = noise.is_off || !engine_state.collectives.setting.divides ||
                   options->reduction != DDPRUN_REDUCE_MEAN || group->of_parameters || engine_state.observer != NULL ||
                   engine_state.rendezvous.world_size < 2 || (noise.is_open && group->id != noise.group);
    noise.looks = !noise.is_off && group->boundary_count % LOOK_EVERY == LOOK_EVERY - 1;
    if (!noise.is_off && !noise.is_open)
        open_looks(group);
    if (!noise.looks)
        return;
    const size_t at = noise.look * sizeof(double);
    CUDA("clearing squares", cuMemsetD8Async, noise.own + at, 0, sizeof(double), first_stream());
    CUDA("clearing squares", cuMemsetD8Async, noise.average + at, 0, sizeof(double), first_stream());
}

void
noise_bucket_begins(const struct group *group, size_t bucket, bool early)
{
    const CUdeviceptr own = noise.own + noise.look * sizeof(double), average = own + LOOKS * sizeof(double);
    struct bucket_wire *wire = group_wire(group, bucket);
    (void)early;
    wire->squares = noise.looks ? (struct wire_squares){own, average} : (struct wire_squares){0, 0};
    wire->look.turn = group->boundary_count; /* also where nothing looks for NaN */
}

void
noise_boundary(bool is_weighted)
{
    if (!noise.looks)
        return;
    const size_t bytes = LOOKS * sizeof(double);
    noise.looks = false;
    if (is_weighted || ++noise.look < LOOKS) /* weighted: another step is looked at in its place */
        return;
    noise.look = 0;
    CUDA("copying squares", cuMemcpyDtoHAsync, noise.words.mine, noise.own, bytes, first_stream());
    CUDA("copying squares", cuMemcpyDtoHAsync, noise.averages, noise.average, bytes, first_stream());
    gather_send(&noise.words, "the gradients' noise", engine_state.boundary_count + 1, take_looks, NULL);
}
