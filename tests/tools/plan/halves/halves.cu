/*
 * halves.cu - a linear model that is trained without annotations, with gradients in float16. Even gradients lie below
 * 2^-14, where float16 has fewer bits; odd gradients reach some ten thousands. Both move the weights, because even and
 * odd weights have rates of their own.
 *
 *     halves [--steps N] [--save FILE] [--oracle-gradients RANKS]
 *
 * The oracle is by gradients: a mean is the sum in float32, divided in float32, and rounded to float16. Gradients have
 * few bits, so sums of three are exact in any order.
 */
#include "tests/lib/trainer_draws.h"
#include "tests/lib/trainer_memory.h"
#include "tests/lib/trainer_options.h"
#include "tests/tools/plan/oracle.h"

#include <string.h>

enum { INPUTS = 24, OUTPUTS = 6, ROWS = 8, WEIGHTS = INPUTS * OUTPUTS, ERRORS = ROWS * OUTPUTS };

static const char *path = "/dev/null";
static int steps = 61;
static float *weights, *x, *targets, *errors;
static __half *gradient;
static float host_x[ROWS][INPUTS], host_targets[ROWS][OUTPUTS];

__global__ void
forward_kernel(const float *w, const float *x, const float *targets, float *errors)
{
    int row = (int)threadIdx.x / OUTPUTS, out = (int)threadIdx.x % OUTPUTS;
    float sum = -targets[threadIdx.x];
    for (int i = 0; i < INPUTS; ++i)
        sum += w[i * OUTPUTS + out] * x[row * INPUTS + i];
    errors[threadIdx.x] = sum;
}

/* What a gradient is multiplied by. */
__device__ static float
scale_of(int i)
{
    return i % 2 == 0 ? 0x1p-19f : 0x1p12f;
}

__global__ void
backward_kernel(const float *errors, const float *x, __half *gradient)
{
    int i = (int)threadIdx.x / OUTPUTS, out = (int)threadIdx.x % OUTPUTS;
    float sum = 0;
    for (int row = 0; row < ROWS; ++row)
        sum += errors[row * OUTPUTS + out] * x[row * INPUTS + i];
    float scaled = sum * scale_of((int)threadIdx.x);
    gradient[threadIdx.x] = __float2half(fminf(fmaxf(scaled, -65504.0f), 65504.0f));
}

__global__ void
update_kernel(float *w, const __half *gradient)
{
    w[threadIdx.x] -= 0.01f * __half2float(gradient[threadIdx.x]) / scale_of((int)threadIdx.x);
}

static void
load(void)
{
    for (int row = 0; row < ROWS; ++row) {
        for (int i = 0; i < INPUTS; ++i)
            host_x[row][i] = random_number() - 0.5f;
        for (int out = 0; out < OUTPUTS; ++out)
            host_targets[row][out] = 8.0f * host_x[row][out] - 4.0f * host_x[row][out + OUTPUTS];
    }
    CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(targets, host_targets, sizeof(host_targets), cudaMemcpyHostToDevice));
}

static void
train(void)
{
    for (int step = 0; turn(step, steps); ++step) {
        load();
        forward_kernel<<<1, ERRORS>>>(weights, x, targets, errors);
        backward_kernel<<<1, WEIGHTS>>>(errors, x, gradient);
        if (update_due())
            update_kernel<<<1, WEIGHTS>>>(weights, gradient);
    }
}

int
main(int argc, char **argv)
{
    take_options(argc, argv, 1, {{"--steps", &steps}, {"--save", &path}, {"--oracle-gradients", &oracle.ranks}});
    oracle.by_gradients = oracle.ranks;
    weights = device_floats(WEIGHTS), x = device_floats(ROWS * INPUTS);
    targets = device_floats(ERRORS), errors = device_floats(ERRORS);
    gradient = (__half *)device_floats(WEIGHTS / 2);
    keep("weight", weights, WEIGHTS);
    keep("gradient", gradient, WEIGHTS, GRADIENT);
    train();
    save(path);
    return 0;
}
