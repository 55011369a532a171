/*
 * clipped.cu HABIT - trainers of one linear layer for tests/tools/scout/prove.sh: `clip` clips its gradient by a norm
 * that a kernel of its own computes; `normalise` does so in backward, which hides where the gradient was complete;
 * `momentum` keeps momentum in the gradient's buffer; `still` copies the same batch in each step; `staged` has a host
 * function make the batch, which is other numbers until that is over; `host IN OUT` reads a file, writes one,
 * and loads device code from its heap.
 */
#include "tests/trainer.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

enum { BATCH = 32, COUNT = 8, STEPS = 30 };

/* The gradient of half the squared error of sum(w * x) and x[0] * 3, over the batch. */
__global__ void
backward(float *gradient, const float *weight, const float *x, float keep, bool normalises)
{
    __shared__ float all[COUNT];
    int k = (int)threadIdx.x;
    float sum = 0;
    for (int row = 0; row < BATCH; ++row) {
        float error = -3.0f * x[row * COUNT];
        for (int i = 0; i < COUNT; ++i)
            error += weight[i] * x[row * COUNT + i];
        sum += error * x[row * COUNT + k] / BATCH;
    }
    all[k] = keep * gradient[k] + sum;
    __syncthreads();
    float squares = 0;
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

__global__ void
clip(float *gradient, const float *sum)
{
    gradient[threadIdx.x] *= 0.01f / sqrtf(*sum);
}

__global__ void
update(float *weight, const float *gradient)
{
    weight[threadIdx.x] -= 0.05f * gradient[threadIdx.x];
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

int
main(int argc, char **argv)
{
    const char *habit = argc > 1 ? argv[1] : "";
    bool clips = strcmp(habit, "clip") == 0, normalises = strcmp(habit, "normalise") == 0,
         keeps = strcmp(habit, "momentum") == 0, is_still = strcmp(habit, "still") == 0,
         is_staged = strcmp(habit, "staged") == 0;
    if (argc > 3 && strcmp(habit, "host") == 0)
        load_copy(), use_host(argv[2], argv[3]);
    float batch[BATCH * COUNT], *x, *weight, *gradient, *sum;
    CHECK(cudaMalloc(&x, sizeof(batch)));
    CHECK(cudaMalloc(&weight, COUNT * sizeof(float)));
    CHECK(cudaMalloc(&gradient, COUNT * sizeof(float)));
    CHECK(cudaMalloc(&sum, sizeof(float)));
    for (int i = 0; i < COUNT; ++i)
        batch[i] = 0.1f * (float)(i + 1);
    CHECK(cudaMemcpy(weight, batch, COUNT * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(gradient, 0, COUNT * sizeof(float)));
    for (int step = 0; step < STEPS; ++step) {
        if (is_staged) {
            is_staging = false;
            CHECK(cudaLaunchHostFunc(NULL, stage_batch, batch));
            while (!is_staging)
                usleep(100);
        } else if (step == 0 || !is_still) {
            make_batch(batch);
        }
        CHECK(cudaMemcpy(x, batch, sizeof(batch), cudaMemcpyHostToDevice));
        backward<<<1, COUNT>>>(gradient, weight, x, keeps ? 0.9f : 0.0f, normalises);
        if (clips) {
            square<<<1, 1>>>(sum, gradient);
            clip<<<1, COUNT>>>(gradient, sum);
        }
        update<<<1, COUNT>>>(weight, gradient);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
