/*
 * steps.cu - a trainer whose steps are not all alike: another number of backward passes, layers that are left out on
 * all ranks or on some, kernels that run now and then; and what it can say about that. Each is a mode.
 *
 * Rank r adds 1 + r to every element of a gradient in each pass over its layer; an update takes a half of the mean from
 * the weight. The host knows what every weight must be at the end, and the program's exit code is 0 only if it is.
 */
#include "common.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 5, COUNT = 1024, BYTES = COUNT * 4, THREADS = 64, BLOCKS = COUNT / THREADS };

static int steps = 40;
static float *weights[LAYERS], *gradients[LAYERS], *statistics;
static double expected[LAYERS]; /* what each weight must be */
static cudaStream_t stream, side;
static cudaEvent_t event;

__global__ void
add(float *values, float summand)
{
    values[blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

__global__ void
set(float *value, float to)
{
    *value = to;
}

__global__ void
look(const float *values, float *out)
{
    *out = values[threadIdx.x];
}

__global__ void
update(float *weight, const float *gradient, const float *more)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    weight[i] -= 0.5f * gradient[i] + (more != NULL ? *more : 0.0f);
}

/* The same on all ranks, or not. */
static unsigned
noise(unsigned number)
{
    unsigned x = number * 2654435761u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return x >> 4;
}

static int
passes_of(int step)
{
    bool varies = is_mode("no-sync") || is_mode("passes") || is_mode("ready") || is_mode("no-sync-step");
    return varies ? 1 + (int)(noise((unsigned)step) % 4) : 1;
}

/* Whether rank `rank` works on the layer in this step. */
static bool
works_on(int rank, int layer, int step)
{
    unsigned number = (unsigned)(step * LAYERS + layer);
    if (is_mode("frozen"))
        return layer != 2;
    if (is_mode("layer-drop"))
        return noise(number) % 3 != 0;
    if (is_mode("layer-drop-alone"))
        return noise(number * 16u + (unsigned)rank) % 3 != 0;
    if (is_mode("other-branch"))
        return layer != (step % 2 == 0 ? 1 : 3);
    return true;
}

/* ---- one step ---- */

static void
backward(int step)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        if (works_on(DDP_RANK(), l, step))
            add<<<BLOCKS, THREADS, 0, stream>>>(gradients[l], 1.0f + (float)DDP_RANK());
        bool logs = is_mode("log") ? step % 7 == 3 : is_mode("log-alone") && step % 7 == 3 && DDP_RANK() == 1;
        if (logs && l == 2) /* of a gradient that may be complete, or on its way */
            look<<<1, 1, 0, stream>>>(gradients[LAYERS - 1], statistics + 1);
    }
}

static void
say_ready(int step)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        DDP_GRADIENT_READY(gradients[l], stream);
    if (is_mode("ready-write") && step == 20)
        add<<<BLOCKS, THREADS, 0, stream>>>(gradients[LAYERS - 1], 1.0f);
}

static void
accumulate(int step)
{
    int passes = passes_of(step);
    bool counts = !is_mode("no-sync") && !is_mode("no-sync-step");
    if (!counts)
        DDP_NO_SYNC_BEGIN();
    for (int pass = 0; pass + 1 < passes; ++pass)
        backward(step);
    if (is_mode("no-sync-step") && step == 9)
        DDP_STEP(stream);
    if (!counts)
        DDP_NO_SYNC_END();
    backward(step);
    if (is_mode("ready") || is_mode("ready-write"))
        say_ready(step);
}

static void
optimize(int step)
{
    bool with_statistics = is_mode("buffer");
    if (with_statistics) { /* on a stream that DDP_STEP does not name, before and after it */
        set<<<1, 1, 0, side>>>(statistics, 1.0f + 2.0f * (float)DDP_RANK());
        DDP_STEP(stream);
        look<<<1, 1, 0, side>>>(statistics, statistics + 1);
        stream_follow(side, stream, event);
    } else {
        DDP_STEP(stream);
    }
    for (int l = 0; l < LAYERS; ++l) {
        update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l], with_statistics ? statistics + 1 : NULL);
        if (!is_mode("frozen") || l != 2)
            CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
    }
    stream_follow(stream, side, event);

    for (int l = 0; l < LAYERS; ++l) {
        double sum = 0;
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
            sum += works_on(r, l, step) ? passes_of(step) * (1.0 + r) : 0.0;
        if (is_mode("frozen") && l == 2) /* as the ranks have left it before the first step */
            for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
                sum += 1.0 + r;
        expected[l] -= 0.5 * sum / DDP_WORLD_SIZE() + (with_statistics ? 1.0 : 0.0);
    }
}

/* ---- all of it ---- */

static void
create(void)
{
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&statistics, 2 * sizeof(float)));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMalloc(&weights[l], BYTES));
        CHECK(cudaMalloc(&gradients[l], BYTES));
        CHECK(cudaMemset(weights[l], 0, BYTES));
        CHECK(cudaMemset(gradients[l], 0, BYTES));
    }
    if (is_mode("frozen"))
        add<<<BLOCKS, THREADS>>>(gradients[2], 1.0f + (float)DDP_RANK());
    CHECK(cudaDeviceSynchronize());
    for (int l = 0; l < LAYERS; ++l)
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l)
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    if (is_mode("buffer"))
        DDP_BUFFER(statistics, 1, DDP_FLOAT32);
}

static int
weights_are_right(void)
{
    float host[COUNT];
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(host, weights[l], BYTES, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            if (fabs((double)host[i] - expected[l]) > 1e-5 * fabs(expected[l])) {
                fprintf(stderr, "steps: weight %d of layer %d is %.9g, not %.9g\n", i, l, (double)host[i], expected[l]);
                return 0;
            }
        }
    }
    return 1;
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "plain";
    if (argc > 2)
        steps = atoi(argv[2]);
    create();
    for (int step = 0; step < steps; ++step) {
        accumulate(step);
        optimize(step);
    }
    if (is_mode("no-end"))
        DDP_NO_SYNC_END();
    CHECK(cudaDeviceSynchronize());
    return weights_are_right() ? 0 : 1;
}
