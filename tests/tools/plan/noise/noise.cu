/*
 * noise.cu - noise HABIT [--steps N] [--save FILE] [--oracle N]: a net of two layers whose sums are added up by float
 * atomics, in the order of the device's threads. --oracle N: one process makes one update from the mean gradient of N
 * batches.
 */
#include "tests/lib/elementwise.h"
#include "tests/lib/trainer_memory.h"
#include "tests/lib/trainer_options.h"

#include <math.h>

enum { IN = 24, HIDDEN = 40, BATCH = 64, WEIGHTS = IN * HIDDEN + HIDDEN, BLOCK = 64 };

__global__ void
forward(const float *x, const float *w, float *h, float *y)
{
    int r = blockIdx.x;
    float sum = 0;
    for (int j = threadIdx.x; j < HIDDEN; j += blockDim.x) {
        float s = 0;
        for (int i = 0; i < IN; ++i)
            s += x[r * IN + i] * w[i * HIDDEN + j];
        h[r * HIDDEN + j] = tanhf(s);
    }
    __syncthreads();
    for (int j = 0; j < HIDDEN; ++j)
        sum += h[r * HIDDEN + j] * w[IN * HIDDEN + j];
    if (threadIdx.x == 0)
        y[r] = sum;
}

/* Each record adds its part; some add `offset` and others take it off, so that little is left of large sums. */
__global__ void
backward(const float *x, const float *t, const float *w, const float *h, const float *y, float *g, float *loss,
         float scale, float offset)
{
    int r = blockIdx.x;
    float d = (y[r] - t[r]) / BATCH;
    if (threadIdx.x == 0)
        atomicAdd(loss, d * d * BATCH);
    for (int j = threadIdx.x; j < HIDDEN; j += blockDim.x) {
        float e = d * w[IN * HIDDEN + j] * (1 - h[r * HIDDEN + j] * h[r * HIDDEN + j]);
        atomicAdd(&g[IN * HIDDEN + j], scale * d * h[r * HIDDEN + j] + (r % 2 ? offset : -offset));
        for (int i = 0; i < IN; ++i)
            atomicAdd(&g[i * HIDDEN + j], scale * e * x[r * IN + i] + (r % 2 ? offset : -offset));
    }
}

/* Of each element alone, in the order of records. */
__global__ void
backward_in_order(const float *x, const float *t, const float *w, const float *h, const float *y, float *g, float scale)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x, j = k % HIDDEN;
    float sum = 0;
    for (int r = 0; r < BATCH && k < WEIGHTS; ++r) {
        float d = (y[r] - t[r]) / BATCH, e = d * w[IN * HIDDEN + j] * (1 - h[r * HIDDEN + j] * h[r * HIDDEN + j]);
        sum += scale * (k >= IN * HIDDEN ? d * h[r * HIDDEN + j] : e * x[r * IN + k / HIDDEN]);
    }
    if (k < WEIGHTS)
        g[k] += sum;
}

ELEMENTWISE(norm, (const float *g, float *sum), WEIGHTS, atomicAdd(sum, g[i] * g[i]))

/* `times` lies in memory that the host shares with the device. */
__global__ void
sgd(float *w, float *m, const float *g, const float *sum, float rate, const float *times)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    float clip = sum == NULL || *sum < 1e-4f ? 1 : 1e-2f / sqrtf(*sum);
    if (k >= WEIGHTS)
        return;
    m[k] = 0.9f * m[k] + g[k];
    w[k] -= rate * clip * *times * m[k];
}

/* Of all weights: any other bit makes another number. */
static unsigned
last_digits(const float *weights)
{
    unsigned digits = 0, bits;
    for (int k = 0; k < WEIGHTS; ++k) {
        memcpy(&bits, &weights[k], sizeof(bits));
        digits = digits * 31 + bits;
    }
    return digits;
}

static float
drawn(void)
{
    return (float)(rand() % 2001 - 1000) * 1e-3f;
}

int
main(int argc, char **argv)
{
    const char *habit = argc > 1 ? argv[1] : "gradients", *save = NULL, *rank = getenv("RANK");
    int steps = 40, oracle = 1;
    unsigned seen = 0;
    take_options(argc, argv, 2, {{"--steps", &steps}, {"--oracle", &oracle}, {"--save", &save}});
    bool is_clipped = strstr(habit, "clip") != NULL, by_host = strstr(habit, "host") != NULL;
    float offset = strcmp(habit, "much") == 0 ? 2 : 0;
    float *x = device_floats(BATCH * IN), *t = device_floats(BATCH), *w = device_floats(WEIGHTS),
          *m = device_floats(WEIGHTS), *g = device_floats(WEIGHTS), *h = device_floats(BATCH * HIDDEN),
          *y = device_floats(BATCH), *loss = device_floats(1), *sum = device_floats(1), *times = NULL;
    static float hw[WEIGHTS], hx[BATCH * IN], ht[BATCH], hy[BATCH];
    CHECK(cudaHostAlloc((void **)&times, sizeof(*times), cudaHostAllocDefault));
    *times = 1;
    for (const char *of = strstr(habit, "scaled"); of != NULL && rank != NULL && atoi(rank) == 1; of = NULL)
        *times = strstr(habit, "more") != NULL ? 1.001f : 0.999f; /* a mistake: on one rank */
    srand(3);
    for (int k = 0; k < WEIGHTS; ++k)
        hw[k] = 0.2f * drawn();
    cudaMemcpy(w, hw, sizeof(hw), cudaMemcpyHostToDevice);
    for (int s = 0; s < steps; ++s) {
        float rate = (strcmp(habit, "steep") == 0 ? 12.5f : 0.05f) * (1 + 1e-7f * (float)seen), read;
        for (int r = 0; r < BATCH; ++r) {
            ht[r] = 0;
            for (int i = 0; i < IN; ++i) {
                hx[r * IN + i] = drawn();
                ht[r] += hx[r * IN + i] * (float)(i % 5 - 2) * 0.2f;
            }
            ht[r] = sinf(ht[r]) + (strcmp(habit, "carried") == 0 ? 0.1f * hy[r] : 0);
        }
        cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice);
        cudaMemcpy(t, ht, sizeof(ht), cudaMemcpyHostToDevice);
        if (s % oracle == 0)
            cudaMemset(g, 0, WEIGHTS * sizeof(float));
        cudaMemset(loss, 0, sizeof(float));
        forward<<<BATCH, BLOCK>>>(x, w, h, y);
        if (strcmp(habit, "clip") == 0 || strcmp(habit, "clip-rate") == 0 || by_host)
            backward_in_order<<<(WEIGHTS + BLOCK - 1) / BLOCK, BLOCK>>>(x, t, w, h, y, g, 1.0f / (float)oracle);
        else
            backward<<<BATCH, BLOCK>>>(x, t, w, h, y, g, loss, 1.0f / (float)oracle, offset);
        if (s % oracle != oracle - 1)
            continue;
        if (is_clipped) {
            cudaMemset(sum, 0, sizeof(float));
            norm<<<(WEIGHTS + BLOCK - 1) / BLOCK, BLOCK>>>(g, sum);
        }
        if (by_host) {
            cudaMemcpy(&read, sum, sizeof(read), cudaMemcpyDeviceToHost);
            rate *= read < 1e-4f ? 1 : 1e-2f / sqrtf(read);
        }
        if (strcmp(habit, "carried") == 0) /* to the next batch, which the host makes of it */
            CHECK(cudaMemcpy(hy, g, sizeof(hy), cudaMemcpyDeviceToHost));
        sgd<<<(WEIGHTS + BLOCK - 1) / BLOCK, BLOCK>>>(w, m, g, is_clipped && !by_host ? sum : NULL, rate, times);
        if (s % 8 == 7 && strcmp(habit, "clip-rate") == 0) { /* between steps, for later updates */
            CHECK(cudaMemcpy(hw, w, sizeof(hw), cudaMemcpyDeviceToHost));
            seen = last_digits(hw) % 16;
        }
    }
    cudaMemcpy(hw, w, sizeof(hw), cudaMemcpyDeviceToHost);
    FILE *file = save != NULL ? fopen(save, "wb") : NULL;
    REQUIRE(file == NULL || (fwrite(hw, sizeof(hw), 1, file) == 1 && fclose(file) == 0));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
