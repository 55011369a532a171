/*
 * noise_scale.cu - gradient descent on a quadratic whose gradients have a known covariance: of item j in step s,
 * element i of the gradient is x[i] and sigma (1 + i % 4) times a number of variance 1, drawn from s, j and i. The
 * noise scale, tr(Sigma) / |G|^2, which rank 0 prints, hardly changes, because the rate is small.
 *
 * Options: --steps N, --count N (elements), --items N (of a batch of all ranks), --sigma N (hundredths), --flat 1 (sent
 * in place), --shard 0 (a rank takes its items without DDP_SHARD), --same 1 (all ranks take the same items), --weigh 1
 * (DDP_WEIGHT), --passes N (backward passes of a step, each over a batch of its own, with a DDP_SHARD for each),
 * --sick N (a NaN in each N-th step of rank 1), --ahead N (the host waits for the device in each N-th step).
 */
#include "../lib/elementwise.h"
#include "../lib/trainer.h"
#include "../lib/trainer_options.h"

#include <cuda_runtime.h>
#include <ddprun.h>

#include <math.h>

enum { TENSORS = 3 };

static struct {
    int steps, count, items, sigma, flat, shard, same, weigh, passes, sick, ahead;
} options = {.steps = 1200, .count = 768, .items = 8, .sigma = 50, .shard = 1, .passes = 1, .ahead = 8};

/* Equally distributed, of variance 1. */
__device__ static float
draw(unsigned long long seed)
{
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
    return ((float)(seed >> 40) * 0x1p-24f - 0.5f) * 3.4641016f;
}

__global__ void
backward(const float *x, float *gradient, int count, float sigma, unsigned long long first, int items, float factor,
         bool adds, bool sick)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float sum = 0;
        for (int item = 0; item < items; ++item)
            sum += draw(((first + item) * 100003 + i) * 0x9e3779b97f4a7c15ull);
        const float found = (x[i] + sigma * (1 + i % 4) * sum / items) * factor;
        gradient[i] = sick && i == 0 ? NAN : adds ? gradient[i] + found : found;
    }
}

ELEMENTWISE_BY_STRIDES(update, (float *x, const float *gradient, int count), count,
                       x[i] -= isnan(gradient[i]) ? 0 : 1e-7f * gradient[i])
ELEMENTWISE_BY_STRIDES(fill, (float *x, int count), count, x[i] = 1)

static float *x[TENSORS], *gradient[TENSORS];

static void
make_tensors(void)
{
    float *flat;
    CHECK(cudaMalloc((void **)&flat, TENSORS * options.count * sizeof(float)));
    for (int t = 0; t < TENSORS; ++t) {
        CHECK(cudaMalloc((void **)&x[t], options.count * sizeof(float)));
        gradient[t] = flat + t * options.count;
        if (!options.flat)
            CHECK(cudaMalloc((void **)&gradient[t], options.count * sizeof(float)));
        fill<<<1, 64>>>(x[t], options.count);
        DDP_PARAMETER(x[t], options.count, DDP_FLOAT32);
        DDP_GRADIENT(gradient[t], options.count, DDP_FLOAT32);
    }
}

/* The items of this rank in one pass. */
static void
pass(unsigned long long batch, bool adds, bool sick)
{
    size_t first = (size_t)DDP_RANK() * options.items / DDP_WORLD_SIZE(), count = options.items / DDP_WORLD_SIZE();
    if (options.shard)
        DDP_SHARD((size_t)options.items, &first, &count);
    if (options.weigh)
        DDP_WEIGHT(count, (size_t)options.items);
    for (int t = TENSORS - 1; t >= 0; --t)
        backward<<<2, 64>>>(x[t], gradient[t], options.count, options.sigma / 100.0f,
                            (batch * options.items + (options.same ? 0 : first)) * TENSORS + t * count, (int)count,
                            1.0f / options.passes, adds, sick);
}

int
main(int argc, char **argv)
{
    take_options(argc, argv, 1,
                 {OPTION(options, steps), OPTION(options, count), OPTION(options, items), OPTION(options, sigma),
                  OPTION(options, flat), OPTION(options, shard), OPTION(options, same), OPTION(options, weigh),
                  OPTION(options, passes), OPTION(options, sick), OPTION(options, ahead)});
    make_tensors();
    for (int step = 0; step < options.steps; ++step) {
        for (int p = 0; p < options.passes; ++p) {
            if (p + 1 < options.passes)
                DDP_NO_SYNC_BEGIN();
            pass((unsigned long long)step * options.passes + p, p > 0,
                 options.sick && DDP_RANK() == 1 && step % options.sick == 0);
            if (p + 1 < options.passes)
                DDP_NO_SYNC_END();
        }
        DDP_STEP(0);
        for (int t = 0; t < TENSORS; ++t)
            update<<<2, 64>>>(x[t], gradient[t], options.count);
        if (step % options.ahead == 0)
            CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaDeviceSynchronize());
    const double sigma = options.sigma / 100.0;
    if (DDP_RANK() == 0) /* 1, 2, 3 and 4 squared are 7.5 in the mean */
        printf("noise scale %.6g\n", 7.5 * sigma * sigma);
    return 0;
}
