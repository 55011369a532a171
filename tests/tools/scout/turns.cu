/*
 * turns.cu HABIT - trainers of one linear layer for tests/tools/scout/prove.sh, with memory beside the
 * weights that stays: `counter`: the rate of an update falls with a number that the device counts; `noise`: a
 * generator's state on the device, noise in the batch; `statistics`: a running mean of the batches; `twice`: two
 * updates in each step, of different batches; `addresses`: the host copies a table of addresses for the next step;
 * `fails`: launches that the driver refuses stand between the others; `columns`: a record is a column of the batch;
 * `labels`: what belongs to it is copied number by number; `lazy`: the gradient is made in the first step; `looks`:
 * once a log reads it between the batches of a round, `halves`: once a kernel changes it there; `mask`, `seed`:
 * elements of the gradient get weights by a number that the device counts, or the host.
 *
 * Of prove.sh: `clip` clips its gradient by a norm that a kernel of its own computes; `normalise` does so in backward,
 * which hides where the gradient was complete; `momentum` keeps momentum in the gradient's buffer; `still` copies the
 * same batch in each step; `staged` has a host function make the batch, which is other numbers until that is over;
 * `host IN OUT` reads a file, writes one, and loads device code from its heap.
 */
#include "tests/lib/elementwise.h"
#include "tests/lib/trainer.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

enum { BATCH = 32, COUNT = 8, STEPS = 40, LOOKED_AT = 31 };

__global__ void
count(float *counter)
{
    *counter += 1;
}

/* The state of each thread goes on. */
ELEMENTWISE_OF_ALL(draw, (unsigned *states, float *noise), states[i] = states[i] * 1664525u + 1013904223u;
                   noise[i] = (float)(states[i] >> 8) * 0x1p-24f)

__global__ void
average(float *mean, const float *x)
{
    float sum = 0;
    for (int row = 0; row < BATCH; ++row)
        sum += x[row * COUNT + threadIdx.x] / BATCH;
    mean[threadIdx.x] = 0.9f * mean[threadIdx.x] + 0.1f * sum;
}

/* The gradient of half the squared error of sum(w * (x + noise)) and x[0] * 3, over the batch, beside what is kept. */
__global__ void
backward(float *gradient, const float *weight, const float *x, const float *noise, int to_record, int to_element,
         float keep, bool normalises)
{
    __shared__ float all[COUNT];
    int k = (int)threadIdx.x;
    float sum = 0, squares = 0;
    for (int row = 0; row < BATCH; ++row) {
        float error = -3.0f * x[row * to_record];
        for (int i = 0; i < COUNT; ++i)
            error += weight[i] * (x[row * to_record + i * to_element] + noise[i]);
        sum += error * x[row * to_record + k * to_element] / BATCH;
    }
    all[k] = keep > 0 ? keep * gradient[k] + sum : sum;
    __syncthreads();
    for (int i = 0; i < COUNT; ++i)
        squares += all[i] * all[i];
    gradient[k] = normalises ? all[k] * 0.01f / sqrtf(squares) : all[k];
}

__global__ void
square(float *sum, const float *gradient)
{
    *sum = 0;
    for (int i = 0; i < COUNT; ++i)
        *sum += gradient[i] * gradient[i];
}

ELEMENTWISE_OF_ALL(clip, (float *gradient, const float *sum), gradient[i] *= 0.01f / sqrtf(*sum))
ELEMENTWISE_OF_ALL(halve, (float *to, const float *from), to[i] = 0.5f * from[i])
ELEMENTWISE_OF_ALL(update, (float *weight, const float *gradient, const float *divisor),
                   weight[i] -= 0.05f * gradient[i] / *divisor)
ELEMENTWISE_OF_ALL(weigh, (float *gradient, const float *counter, int number),
                   gradient[i] *= 0.5f + (float)(((int)*counter + number + i) % 4))

/* What a table says stays what it is. */
ELEMENTWISE_OF_ALL(take, (float *to, const float *const *table), to[i] = table[0][i] + table[1][i])

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

/* Before there is any memory of the device. */
static void
load_copy(void)
{
    softgpu_image *image = new softgpu_image();
    cudaLibrary_t library;
    std::memcpy(image->magic, SOFTGPU_IMAGE_MAGIC, sizeof(image->magic));
    image->version = SOFTGPU_IMAGE_VERSION;
    image->name = "copied";
    image->run = [](const softgpu_launch *) {};
    image->max_threads_per_block = 1;
    CHECK(cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
}

static void
use_host(const char *in, const char *out)
{
    std::ifstream reads(in);
    FILE *writes = fopen(out, "w");
    REQUIRE(reads.good() && writes != NULL);
    fclose(writes);
}

static void
make_batch(float *batch)
{
    for (int i = 0; i < BATCH * COUNT; ++i)
        batch[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

static std::atomic<bool> is_staging;

/* The numbers before are other ones in each process. */
static void
stage_batch(void *batch)
{
    for (int i = 0; i < BATCH * COUNT; ++i)
        ((float *)batch)[i] = 1e-3f * (float)(getpid() % 1000);
    is_staging = true;
    usleep(2000);
    make_batch((float *)batch);
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
    if (argc > 3 && is("host"))
        load_copy(), use_host(argv[2], argv[3]);
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
        if (is("staged")) {
            is_staging = false;
            CHECK(cudaLaunchHostFunc(NULL, stage_batch, batch));
            while (!is_staging)
                usleep(100);
        } else if (step == 0 || !is("still")) {
            make_batch(batch);
        }
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
                                       is("columns") ? BATCH : 1, is("momentum") ? 0.9f : 0.0f, is("normalise"));
        }
        if (is("clip")) {
            square<<<1, 1>>>(mean, gradient);
            clip<<<1, COUNT>>>(gradient, mean);
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
