/*
 * turns.cu HABIT - trainers of one linear layer for tests/tools/scout/turns.sh, with memory beside the weights that
 * stays: `counter`: the rate of an update falls with a number that the device counts; `noise`: a generator's state on
 * the device, noise in the batch; `statistics`: a running mean of the batches; `twice`: two updates in each step, of
 * different batches; `addresses`: the host copies a table of addresses for the next step; `fails`: launches that the
 * driver refuses stand between the others; `columns`: a record is a column of the batch; `labels`: what belongs to it
 * is copied number by number; `lazy`: the gradient is made in the first step; `looks`: once a log reads it between the
 * batches of a round, `halves`: once a kernel changes it there; `mask`, `seed`: elements of the gradient get weights
 * by a number that the device counts, or the host.
 */
#include "tests/trainer.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

enum { BATCH = 32, COUNT = 8, STEPS = 40, LOOKED_AT = 31 };

__global__ void
count(float *counter)
{
    *counter += 1;
}

/* The state of each thread goes on. */
__global__ void
draw(unsigned *states, float *noise)
{
    states[threadIdx.x] = states[threadIdx.x] * 1664525u + 1013904223u;
    noise[threadIdx.x] = (float)(states[threadIdx.x] >> 8) * 0x1p-24f;
}

__global__ void
average(float *mean, const float *x)
{
    float sum = 0;
    for (int row = 0; row < BATCH; ++row)
        sum += x[row * COUNT + threadIdx.x] / BATCH;
    mean[threadIdx.x] = 0.9f * mean[threadIdx.x] + 0.1f * sum;
}

/* The gradient of half the squared error of sum(w * (x + noise)) and x[0] * 3, over the batch. */
__global__ void
backward(float *gradient, const float *weight, const float *x, const float *noise, int to_record, int to_element)
{
    int k = (int)threadIdx.x;
    float sum = 0;
    for (int row = 0; row < BATCH; ++row) {
        float error = -3.0f * x[row * to_record];
        for (int i = 0; i < COUNT; ++i)
            error += weight[i] * (x[row * to_record + i * to_element] + noise[i]);
        sum += error * x[row * to_record + k * to_element] / BATCH;
    }
    gradient[k] = sum;
}

__global__ void
halve(float *to, const float *from)
{
    to[threadIdx.x] = 0.5f * from[threadIdx.x];
}

__global__ void
update(float *weight, const float *gradient, const float *divisor)
{
    weight[threadIdx.x] -= 0.05f * gradient[threadIdx.x] / *divisor;
}

__global__ void
weigh(float *gradient, const float *counter, int number)
{
    gradient[threadIdx.x] *= 0.5f + (float)(((int)*counter + number + (int)threadIdx.x) % 4);
}

/* What a table says stays what it is. */
__global__ void
take(float *to, const float *const *table)
{
    to[threadIdx.x] = table[0][threadIdx.x] + table[1][threadIdx.x];
}

static float *
make(size_t elements, float value)
{
    float *memory, values[BATCH * COUNT];
    for (int i = 0; i < BATCH * COUNT; ++i)
        values[i] = value * (float)(i % COUNT + 1);
    CHECK(cudaMalloc(&memory, elements * sizeof(float)));
    CHECK(cudaMemcpy(memory, values, elements * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

static const char *habit;

static bool
is(const char *name)
{
    return strcmp(habit, name) == 0;
}

int
main(int argc, char **argv)
{
    habit = argc > 1 ? argv[1] : "";
    void *gap; /* addresses differ between processes */
    for (int i = is("addresses") ? getpid() % 61 : 0; i > 0; --i)
        CHECK(cudaMalloc(&gap, 12345));
    float batch[BATCH * COUNT], *x = make(BATCH * COUNT, 0), *weight = make(COUNT, 0.1f),
                                *gradient = is("lazy") ? NULL : make(COUNT, 0), *noise = make(COUNT, 0),
                                *mean = make(COUNT, 0), *divisor = make(1, 1);
    float *addresses[] = {noise, mean}, **table = (float **)(void *)make(4, 0), *other = make(COUNT, 0);
    unsigned *states = (unsigned *)(void *)make(COUNT, 1);
    CHECK(cudaMemcpy(table, addresses, sizeof(addresses), cudaMemcpyHostToDevice));
    for (int step = 0; step < STEPS * (is("twice") ? 2 : 1); ++step) {
        for (int i = 0; i < BATCH * COUNT; ++i)
            batch[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        if (is("noise"))
            draw<<<1, COUNT>>>(states, noise);
        for (int i = 0; i < COUNT && is("labels"); ++i)
            CHECK(cudaMemcpy(noise + i, batch + i, sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(x, batch, sizeof(batch), cudaMemcpyHostToDevice));
        if (is("addresses"))
            take<<<1, COUNT>>>(other, table);
        if (is("counter") || is("mask"))
            count<<<1, 1>>>(is("mask") ? mean : divisor);
        if (is("statistics"))
            average<<<1, COUNT>>>(mean, x);
        if (gradient == NULL)
            gradient = make(COUNT, 0);
        if ((is("looks") || is("halves")) && step == LOOKED_AT)
            halve<<<1, COUNT>>>(is("looks") ? other : gradient, gradient);
        for (int i = 0; i < 2; ++i) {
            if (is("fails"))
                REQUIRE((update<<<1, 4096>>>(weight, gradient, divisor), cudaGetLastError() != cudaSuccess));
            if (i == 0)
                backward<<<1, COUNT>>>(gradient, weight, x, is("addresses") ? other : noise, is("columns") ? 1 : COUNT,
                                       is("columns") ? BATCH : 1);
        }
        if (is("mask") || is("seed"))
            weigh<<<1, COUNT>>>(gradient, mean, is("seed") ? step : 0);
        if (is("twice") && step % 2 == 1)
            CHECK(cudaMemset(noise, 0, COUNT * sizeof(float)));
        if (is("addresses"))
            CHECK(cudaMemcpy(table, addresses, sizeof(addresses), cudaMemcpyHostToDevice));
        update<<<1, COUNT>>>(weight, gradient, divisor);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
