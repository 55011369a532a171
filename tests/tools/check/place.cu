/*
 * place.cu - a program whose step of N ranks and that of one process first part in one known operation: least squares
 * of a few weights. Modes: right; divisor (a kernel divides by a number of the share), rate (the update's rate depends
 * on the number of ranks), centre (a kernel subtracts the mean of the share), noise (a kernel's seed is the rank),
 * teacher (a kernel reads memory that each rank trains alone).
 */
#include <ddprun.h>

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/trainer.h"

enum { WIDTH = 16, BATCH = 24, ITEMS = 240 };

static __global__ void
residuals(float *r, const float *x, const float *y, const float *w, const float *teacher, int count)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count)
        return;
    r[n] = -y[n];
    for (int d = 0; d < WIDTH; ++d)
        r[n] += x[n * WIDTH + d] * (w[d] - (teacher != NULL ? 0.3f * teacher[d] : 0));
}

static __global__ void
centre(float *r, int count)
{
    float sum = 0;
    for (int n = 0; n < count; ++n)
        sum += r[n];
    for (int n = 0; n < count; ++n)
        r[n] -= sum / (float)count;
}

static __global__ void
gradient(float *g, const float *x, const float *r, int count, float divisor)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= WIDTH)
        return;
    g[d] = 0;
    for (int n = 0; n < count; ++n)
        g[d] += r[n] * x[n * WIDTH + d] / divisor;
}

static __global__ void
noise(float *g, unsigned seed)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d < WIDTH)
        g[d] += 0.1f * (float)(((unsigned)(d + 1) * 2654435761u ^ (seed + 1) * 2246822519u) >> 16 & 255) / 256;
}

static __global__ void
sgd(float *w, const float *g, float rate)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d < WIDTH)
        w[d] -= rate * g[d];
}

static __global__ void
follow(float *teacher, const float *r, int count)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d < WIDTH)
        teacher[d] += 0.01f * r[d % count];
}

static float *
device(size_t count)
{
    float *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(float)));
    CHECK(cudaMemset(memory, 0, count * sizeof(float)));
    return memory;
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "right";
    auto is = [mode](const char *name) { return strcmp(mode, name) == 0; };
    std::vector<float> data(ITEMS * WIDTH), labels(ITEMS), start(WIDTH);
    unsigned state = 1;
    auto draw = [&state] { return (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f; };
    for (float &value : data)
        value = draw();
    for (float &value : labels)
        value = draw();
    for (float &value : start)
        value = draw();
    float *x = device(BATCH * WIDTH), *y = device(BATCH), *r = device(BATCH), *w = device(WIDTH), *g = device(WIDTH),
          *teacher = device(WIDTH);
    CHECK(cudaMemcpy(w, start.data(), WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, WIDTH, DDP_FLOAT32);
    DDP_GRADIENT(g, WIDTH, DDP_FLOAT32);
    for (int step = 0; step < 20; ++step) {
        size_t first, share;
        DDP_SHARD(BATCH, &first, &share);
        int count = (int)share, at = step % (ITEMS / BATCH) * BATCH + (int)first;
        float divisor = is("divisor") ? (float)(count + 3 * DDP_RANK()) : (float)count;
        CHECK(cudaMemcpy(x, &data[(size_t)at * WIDTH], share * WIDTH * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(y, &labels[(size_t)at], share * sizeof(float), cudaMemcpyHostToDevice));
        residuals<<<1, 32>>>(r, x, y, w, is("teacher") ? teacher : NULL, count);
        if (is("teacher"))
            follow<<<1, 32>>>(teacher, r, count);
        if (is("centre"))
            centre<<<1, 1>>>(r, count);
        gradient<<<1, 32>>>(g, x, r, count, divisor);
        if (is("noise"))
            noise<<<1, 32>>>(g, (unsigned)DDP_RANK());
        DDP_STEP(0);
        sgd<<<1, 32>>>(w, g, is("rate") ? 0.1f * (float)DDP_WORLD_SIZE() : 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
