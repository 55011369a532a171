/*
 * turns_rank.cu - what turns.sh measures: a trainer whose device time takes no CPU, for SOFTGPU_COPY_US makes each copy
 * take time. A batch is a copy from the host, WORK copies on the device, a gradient and an update.
 *
 *     turns_rank [--reads 1] [--batches N]
 *
 * --reads 1: the host copies the loss in each batch. Rank 0 prints milliseconds a batch, without the first WARM
 * batches.
 */
#include "../lib/trainer_options.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 1024, WORK = 10, THREADS = 128, WARM = 31 };

__global__ void
gradient_of(float *gradient, float *loss, const float *target, const float *weight)
{
    int i = (int)(threadIdx.x + blockIdx.x * blockDim.x);
    gradient[i] = weight[i] - target[i];
    if (i == 0)
        *loss = gradient[0] * gradient[0];
}

__global__ void
descend(float *weight, const float *gradient)
{
    int i = (int)(threadIdx.x + blockIdx.x * blockDim.x);
    weight[i] -= 0.1f * gradient[i];
}

static void
require(cudaError_t result)
{
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "turns_rank: %s\n", cudaGetErrorString(result));
    exit(1);
}

static double
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static float *
floats(size_t count)
{
    float *memory;
    require(cudaMalloc((void **)&memory, count * sizeof(float)));
    require(cudaMemset(memory, 0, count * sizeof(float)));
    return memory;
}

int
main(int argc, char **argv)
{
    static float batch[COUNT];
    int reads = 0, batches = 131;
    float *input = floats(COUNT), *target = floats(COUNT), *weight = floats(COUNT), *gradient = floats(COUNT);
    float *device_loss = floats(1), loss = 0;
    double begin_ms = 0;
    take_options(argc, argv, 1, {{"--reads", &reads}, {"--batches", &batches}});
    if (batches <= WARM) {
        fprintf(stderr, "turns_rank: --batches %d: more than %d are needed\n", batches, WARM);
        return 2;
    }
    DDP_PARAMETER(weight, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradient, COUNT, DDP_FLOAT32);
    for (int b = 0; b < batches; ++b) {
        if (b == WARM) {
            require(cudaDeviceSynchronize());
            begin_ms = now_ms();
        }
        for (int i = 0; i < COUNT; ++i)
            batch[i] = (float)((b * 31 + i) % 97) / 97.0f;
        {
            DDP_TURN_BEGIN();
            require(cudaMemcpyAsync(input, batch, sizeof(batch), cudaMemcpyHostToDevice));
            for (int i = 0; i < WORK; ++i)
                require(cudaMemcpyAsync(target, input, sizeof(batch), cudaMemcpyDeviceToDevice));
            gradient_of<<<COUNT / THREADS, THREADS>>>(gradient, device_loss, target, weight);
            DDP_STEP(0);
            descend<<<COUNT / THREADS, THREADS>>>(weight, gradient);
        }
        if (reads)
            require(cudaMemcpy(&loss, device_loss, sizeof(loss), cudaMemcpyDeviceToHost));
    }
    require(cudaDeviceSynchronize());
    if (DDP_RANK() == 0)
        printf("%.3f\n", (now_ms() - begin_ms) / (batches - WARM));
    return 0;
}
