/*
 * denominators.cu - two losses in a step, each divided by a number of items that no rank knows alone: as box and class
 * losses of a detector, or tokens that are not masked. The numbers are summed over the ranks before the division.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>

enum { ITEMS = 24, WEIGHTS = 4, STEPS = 30 };

__host__ __device__ static bool
has_label(size_t item)
{
    return item % 3 == 0 || item < 5;
}

__host__ __device__ static bool
has_box(size_t item)
{
    return item % 5 == 1;
}

/* Of the share's items; per_label and per_box divide both losses. */
__global__ void
backward(float *gradient, const float *w, size_t first, size_t count, float per_label, float per_box)
{
    int j = threadIdx.x;
    gradient[j] = 0;
    for (size_t i = first; i < first + count; ++i) {
        if (has_label(i))
            gradient[j] += per_label * (w[j] - 0.125f * (float)i);
        if (has_box(i))
            gradient[j] += per_box * (w[j] - 0.0625f * (float)(i * j));
    }
}

__global__ void
update(float *w, const float *gradient)
{
    w[threadIdx.x] -= 0.25f * gradient[threadIdx.x];
}

int
main(void)
{
    float *w, *gradient, result[WEIGHTS];
    cudaMalloc((void **)&w, sizeof(result));
    cudaMalloc((void **)&gradient, sizeof(result));
    cudaMemset(w, 0, sizeof(result));
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(gradient, WEIGHTS, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(ITEMS, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        float labels = 0, boxes = 0;
        for (size_t i = first; i < first + count; ++i) {
            labels += has_label(i);
            boxes += has_box(i);
        }
        float items[] = {labels, boxes};
        DDP_REDUCE(items, 2, DDP_FLOAT32, DDP_OP_SUM, 0); /* of all ranks */
        float ranks = (float)DDP_WORLD_SIZE();            /* DDP_STEP divides by it; shares are equal */
        backward<<<1, WEIGHTS>>>(gradient, w, first, count, ranks / fmaxf(items[0], 1), ranks / fmaxf(items[1], 1));
        DDP_STEP(0);
        update<<<1, WEIGHTS>>>(w, gradient);
    }
    cudaMemcpy(result, w, sizeof(result), cudaMemcpyDeviceToHost);
    if (DDP_RANK() == 0)
        printf("w %.4f %.4f %.4f %.4f\n", result[0], result[1], result[2], result[3]);
}
