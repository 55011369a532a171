/*
 * turns_rank.cu - what turns.sh measures: a trainer whose device time takes no CPU, for SOFTGPU_COPY_US makes each copy
 * take time. A batch is a copy from the host, WORK copies on the device, a gradient and an update.
 *
 *     turns_rank [--reads 1] [--divides 1] [--batches N]
 *
 * --reads 1: the host copies the loss in each batch. --divides 1: ranks divide each batch, so that each makes its share
 * of the copies on the device, as if a share took that part of a batch's time; else they take turns. Rank 0 prints
 * milliseconds a batch, without the first WARM batches.
 */
#include "../lib/trainer_options.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORK = 12, PIECE = 128, COUNT = WORK * PIECE, THREADS = 128, WARM = 31 };

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

static float *input, *target, *weight, *gradient, *device_loss;

/* The device's part of a batch, with copies [first, first + count) of its work. */
static void
train(const float *batch, size_t first, size_t count)
{
    require(cudaMemcpyAsync(input, batch, COUNT * sizeof(*batch), cudaMemcpyHostToDevice));
    for (size_t i = first; i < first + count; ++i)
        require(
            cudaMemcpyAsync(target + i * PIECE, input + i * PIECE, PIECE * sizeof(*batch), cudaMemcpyDeviceToDevice));
    gradient_of<<<COUNT / THREADS, THREADS>>>(gradient, device_loss, target, weight);
    DDP_STEP(0);
    descend<<<COUNT / THREADS, THREADS>>>(weight, gradient);
}

static void
train_share(const float *batch)
{
    size_t first, count;
    DDP_SHARD(WORK, &first, &count);
    train(batch, first, count);
}

static void
train_in_turn(const float *batch)
{
    DDP_TURN_BEGIN();
    train(batch, 0, WORK);
}

int
main(int argc, char **argv)
{
    static float batch[COUNT];
    int reads = 0, divides = 0, batches = 131;
    float loss = 0;
    double begin_ms = 0;
    take_options(argc, argv, 1, {{"--reads", &reads}, {"--divides", &divides}, {"--batches", &batches}});
    input = floats(COUNT);
    target = floats(COUNT);
    weight = floats(COUNT);
    gradient = floats(COUNT);
    device_loss = floats(1);
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
        if (divides)
            train_share(batch);
        else
            train_in_turn(batch);
        if (reads)
            require(cudaMemcpy(&loss, device_loss, sizeof(loss), cudaMemcpyDeviceToHost));
    }
    require(cudaDeviceSynchronize());
    if (DDP_RANK() == 0)
        printf("%.3f\n", (now_ms() - begin_ms) / (batches - WARM));
    return 0;
}
