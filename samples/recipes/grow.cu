/*
 * grow.cu - a model whose number of parameters grows and shrinks, as in Gaussian splatting, pruning, or progressive
 * growing. Its memory is forgotten and annotated again. All ranks decide by numbers that they have in common: here by
 * the weights.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>

enum { ITEMS = 24, AT_MOST = 64, STEPS = 40 };

static float *w, *gradient;
static size_t weights;

__global__ void
backward(float *g, const float *values, size_t first, size_t count, float scale)
{
    int j = threadIdx.x;
    g[j] = 0;
    for (size_t i = first; i < first + count; ++i)
        g[j] += (values[j] - scale / (float)(1 + j) - 0.125f * ((float)i - 11.5f)) / (float)count;
}

__global__ void
update(float *values, const float *g)
{
    values[threadIdx.x] -= 0.5f * g[threadIdx.x];
}

/* The first weights are kept, new ones are 0. */
static void
resize(size_t count)
{
    float *old_w = w, *old_gradient = gradient;
    size_t kept = weights < count ? weights : count;
    cudaMalloc((void **)&w, count * sizeof(float));
    cudaMalloc((void **)&gradient, count * sizeof(float));
    cudaMemset(w, 0, count * sizeof(float));
    cudaMemcpy(w, old_w, kept * sizeof(float), cudaMemcpyDeviceToDevice);
    DDP_FORGET(old_w); /* before it is freed; with NULL nothing happens */
    DDP_FORGET(old_gradient);
    cudaFree(old_w);
    cudaFree(old_gradient);
    weights = count;
    DDP_PARAMETER(w, weights, DDP_FLOAT32); /* all ranks take rank 0's: equal already */
    DDP_GRADIENT(gradient, weights, DDP_FLOAT32);
}

int
main(void)
{
    float values[AT_MOST];
    size_t first, count;
    resize(4);
    DDP_SHARD(ITEMS, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        backward<<<1, (unsigned)weights>>>(gradient, w, first, count, step < STEPS / 2 ? 2.0f : 0.75f);
        DDP_STEP(0);
        update<<<1, (unsigned)weights>>>(w, gradient);
        if (step % 5 < 4)
            continue;
        cudaMemcpy(values, w, weights * sizeof(float), cudaMemcpyDeviceToHost);
        size_t used = 0;
        while (used < weights && values[used] > 0.25f)
            ++used;
        resize(used + 4);
        if (DDP_RANK() == 0)
            printf("step %d: %zu weights, the sum of the used ones %.4f\n", step, weights,
                   values[0] + values[used - 1]);
    }
}
