/*
 * draws.cu - samples that the device draws. Each rank must draw others. Best: by the number of the item in the batch of
 * all ranks, so that any number of ranks draws what one process draws. A generator with one sequence per process gets a
 * seed for each rank: draws.cu with the argument `seeds`.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 24, WEIGHTS = 4, STEPS = 30 };

/* From 0 to 1, by the generator splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators"). With
 * cuRAND: curand_init(seed, item, 0, &state). */
__device__ static float
draw(uint64_t seed, uint64_t item)
{
    uint64_t z = seed + (item + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ (z >> 31)) >> 40) / 16777216.0f;
}

__global__ void
backward(float *gradient, const float *w, uint64_t seed, uint64_t first, size_t count)
{
    int j = threadIdx.x;
    gradient[j] = 0;
    for (size_t i = 0; i < count; ++i)
        gradient[j] += (w[j] - (float)j * draw(seed, first + i)) / (float)count;
}

__global__ void
update(float *w, const float *gradient)
{
    w[threadIdx.x] -= 0.25f * gradient[threadIdx.x];
}

int
main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "items";
    float *w, *gradient, result[WEIGHTS];
    cudaMalloc((void **)&w, sizeof(result));
    cudaMalloc((void **)&gradient, sizeof(result));
    cudaMemset(w, 0, sizeof(result));
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(gradient, WEIGHTS, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    uint64_t seed = 7;
    if (strcmp(way, "seeds") == 0)
        seed += (uint64_t)DDP_RANK();
    if (strcmp(way, "items") != 0)
        first =
            0; /* each rank has a sequence of its own; with `alike` it is the same: a mistake, which ddprun reports */
    for (int step = 0; step < STEPS; ++step) {
        backward<<<1, WEIGHTS>>>(gradient, w, seed, (uint64_t)step * BATCH + first, count);
        DDP_STEP(0);
        update<<<1, WEIGHTS>>>(w, gradient);
    }
    cudaMemcpy(result, w, sizeof(result), cudaMemcpyDeviceToHost);
    if (DDP_RANK() == 0)
        printf("w %.4f %.4f %.4f %.4f\n", result[0], result[1], result[2], result[3]);
}
