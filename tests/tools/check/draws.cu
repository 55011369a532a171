/*
 * draws.cu - a linear model whose gradient is estimated from losses at weights that are moved along random directions,
 * and then corrected by backward with dropout, in one kernel that adds to the gradient and keeps each row's loss.
 * Modes: right; directions (the seed of the directions holds the rank), limited (differences of losses are limited on
 * each rank, before DDP_STEP), masks (dropout is drawn by the row's number in the share), shaken (a gradient
 * is some more than one process's on average, and other elements differ more; and from step 6 on the rate is divided by
 * the number of ranks).
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

enum { WIDTH = 16, BATCH = 24, BATCHES = 4, STEPS = 12, DIRECTIONS = 8 };

static __device__ unsigned
draw(unsigned seed, unsigned step, unsigned number, unsigned element)
{
    unsigned u = (seed * 0x9e3779b9u) ^ (step * 0x85ebca6bu) ^ (number * 0xc2b2ae35u) ^ (element * 0x27d4eb2fu);
    u ^= u >> 16;
    u *= 0x7feb352du;
    return u ^ u >> 15;
}

/* Mean loss of the share at both sides of each direction. */
static __global__ void
probe(double *losses, const float *w, const float *x, const float *y, int count, unsigned seed, int step)
{
    const int direction = (int)blockIdx.x / 2, side = (int)blockIdx.x % 2;
    double sum = 0;
    for (int n = 0; n < count; ++n) {
        float error = -y[n];
        for (int d = 0; d < WIDTH; ++d) {
            const float sign = draw(seed, (unsigned)step, (unsigned)direction, (unsigned)d) & 1 ? 0.1f : -0.1f;
            error += (w[d] + (side == 0 ? sign : -sign)) * x[n * WIDTH + d];
        }
        sum += error * error;
    }
    losses[blockIdx.x] = sum / count;
}

static __global__ void
estimate(float *g, const double *losses, unsigned seed, int step, float most)
{
    float sum = 0;
    for (int direction = 0; direction < DIRECTIONS; ++direction) {
        const float slope = (float)(losses[2 * direction] - losses[2 * direction + 1]);
        const bool is_up = draw(seed, (unsigned)step, (unsigned)direction, threadIdx.x) & 1;
        sum += fminf(fmaxf(slope, -most), most) * (is_up ? 1.0f : -1.0f);
    }
    g[threadIdx.x] = sum;
}

/* A block for each row. */
static __global__ void
backward(float *g, float *loss, const float *w, const float *x, const float *y, int count, int step, int number)
{
    const int n = (int)blockIdx.x, i = (int)threadIdx.x;
    const auto kept = [&](int d) {
        return draw(5, (unsigned)step, (unsigned)(number + n), (unsigned)d) % 4 > 0 ? x[n * WIDTH + d] : 0.0f;
    };
    float error = -y[n];
    for (int d = 0; d < WIDTH; ++d)
        error += w[d] * kept(d);
    atomicAdd(&g[i], error * kept(i) / (float)count);
    if (i == 0)
        loss[n] = error * error;
}

ELEMENTWISE_OF_ALL(shake, (float *g, int rank), g[i] *= 1 + (float)rank * (i % 2 == 0 ? 0.085f : -0.03f))
ELEMENTWISE_OF_ALL(descend, (float *w, const float *g, float rate), w[i] -= rate * g[i])

int
main(int argc, char **argv)
{
    names_take(argc, argv, " right directions limited masks shaken ");
    static float items[BATCHES * BATCH * WIDTH], labels[BATCHES * BATCH];
    for (int i = 0; i < BATCHES * BATCH * WIDTH; ++i)
        items[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    for (int i = 0; i < BATCHES * BATCH; ++i)
        labels[i] = (float)(i * 31 % 17) / 17 - 0.5f;
    float *w = device_floats(WIDTH), *g = device_floats(WIDTH), *loss = device_floats(BATCH),
          *x = device_floats(BATCHES * BATCH * WIDTH), *y = device_floats(BATCHES * BATCH);
    double *losses;
    CHECK(cudaMalloc(&losses, 2 * DIRECTIONS * sizeof(double)));
    CHECK(cudaMemcpy(x, items, sizeof(items), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, labels, sizeof(labels), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(w, items, WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, WIDTH, DDP_TYPE_OF(w));
    DDP_GRADIENT(g, WIDTH, DDP_TYPE_OF(g));
    const unsigned seed = 77 + (is("directions") ? (unsigned)DDP_RANK() : 0);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, share;
        DDP_SHARD(BATCH, &first, &share);
        const size_t at = (size_t)(step % BATCHES) * BATCH + first;
        const int count = (int)share, number = is("masks") ? 0 : (int)first;
        probe<<<2 * DIRECTIONS, 1>>>(losses, w, x + at * WIDTH, y + at, count, seed, step);
        estimate<<<1, WIDTH>>>(g, losses, seed, step, is("limited") ? 0.01f : 1e9f);
        backward<<<count, WIDTH>>>(g, loss, w, x + at * WIDTH, y + at, count, step, number);
        if (is("shaken"))
            shake<<<1, WIDTH>>>(g, DDP_RANK());
        DDP_STEP(0);
        descend<<<1, WIDTH>>>(w, g, is("shaken") && step >= 5 ? 0.05f / (float)DDP_WORLD_SIZE() : 0.05f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
