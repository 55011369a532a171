/*
 * average.cu [early] - an annotated trainer of one linear layer for tests/tools/scout/check.sh, which keeps a moving
 * average of its gradient that nothing annotates: of the averaged gradient, or, `early`, of what the rank has before
 * DDP_STEP.
 */
#include "tests/trainer.h"

#include <cstdlib>
#include <cstring>
#include <ddprun.h>

enum { BATCH = 32, COUNT = 8, STEPS = 30 };

/* The gradient of half the squared error of sum(w * x) and x[0] * 3, over rows. */
__global__ void
backward(float *gradient, const float *weight, const float *x, int rows)
{
    int k = (int)threadIdx.x;
    float sum = 0;
    for (int row = 0; row < rows; ++row) {
        float error = -3.0f * x[row * COUNT];
        for (int i = 0; i < COUNT; ++i)
            error += weight[i] * x[row * COUNT + i];
        sum += error * x[row * COUNT + k] / (float)rows;
    }
    gradient[k] = sum;
}

__global__ void
moving_average(float *average, const float *gradient)
{
    average[threadIdx.x] = 0.9f * average[threadIdx.x] + 0.1f * gradient[threadIdx.x];
}

__global__ void
update(float *weight, const float *gradient)
{
    weight[threadIdx.x] -= 0.05f * gradient[threadIdx.x];
}

int
main(int argc, char **argv)
{
    bool is_early = argc > 1 && strcmp(argv[1], "early") == 0;
    float batch[BATCH * COUNT], *x, *weight, *gradient, *average;
    size_t first, count;
    CHECK(cudaMalloc(&x, sizeof(batch)));
    for (float **to : {&weight, &gradient, &average})
        CHECK(cudaMalloc(to, COUNT * sizeof(float)));
    for (int i = 0; i < COUNT; ++i)
        batch[i] = 0.1f * (float)(i + 1);
    CHECK(cudaMemcpy(weight, batch, COUNT * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(average, 0, COUNT * sizeof(float)));
    DDP_PARAMETER(weight, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradient, COUNT, DDP_FLOAT32);
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < BATCH * COUNT; ++i)
            batch[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        CHECK(cudaMemcpy(x, batch + first * COUNT, count * COUNT * sizeof(float), cudaMemcpyHostToDevice));
        backward<<<1, COUNT>>>(gradient, weight, x, (int)count);
        if (is_early)
            moving_average<<<1, COUNT>>>(average, gradient);
        DDP_STEP(0);
        if (!is_early)
            moving_average<<<1, COUNT>>>(average, gradient);
        update<<<1, COUNT>>>(weight, gradient);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
