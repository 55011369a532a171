/*
 * batch_norm_of_share.cu - `not comparable`: the ranks normalise, forward and backward, by sums over their shares. The
 * word `forward` adds up the sums of the forward pass over the ranks, and `backward` those of the backward pass: with
 * both words the ranks equal one process.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>
#include <string.h>

enum { SUMS = 2 * OUTPUTS + 1 };

/* Of each column the sums of a and of a * b, and the number of items. */
static __global__ void
column_sums(float *sums, const float *a, const float *b, int count)
{
    int k = ELEMENT_OF_THREAD;
    if (k >= OUTPUTS)
        return;
    sums[k] = sums[OUTPUTS + k] = 0.0f;
    sums[2 * OUTPUTS] = (float)count;
    for (int i = k; i < count * OUTPUTS; i += OUTPUTS) {
        sums[k] += a[i];
        sums[OUTPUTS + k] += a[i] * b[i];
    }
}

static __device__ float
deviation(const float *sums, int k)
{
    float items = sums[2 * OUTPUTS], mean = sums[k] / items;
    return sqrtf(sums[OUTPUTS + k] / items - mean * mean + 1e-3f);
}

ELEMENTWISE(normalise, (float *normal, const float *output, const float *sums, int count), (count * OUTPUTS),
            normal[i] = (output[i] - sums[i % OUTPUTS] / sums[2 * OUTPUTS]) / deviation(sums, i % OUTPUTS))

ELEMENTWISE(error, (float *error, const float *normal, const float *target, int count), (count * OUTPUTS),
            error[i] = normal[i] - target[i])

ELEMENTWISE(normalise_back,
            (float *delta, const float *error, const float *normal, const float *output, const float *sums,
             const float *error_sums, int count),
            (count * OUTPUTS), const int k = i % OUTPUTS;
            delta[i] = (error[i] - (error_sums[k] + normal[i] * error_sums[OUTPUTS + k]) / sums[2 * OUTPUTS]) /
                       deviation(sums, k) * (1.0f - output[i] * output[i]) / (float)count)

int
main(int argc, char **argv)
{
    bool adds_forward = argc > 1 && strcmp(argv[1], "forward") == 0;
    bool adds_backward = argc > 2 && strcmp(argv[2], "backward") == 0;
    struct layer layer = layer_create();
    float *normal = device_floats(BATCH * OUTPUTS), *errors = device_floats(BATCH * OUTPUTS);
    float *sums = device_floats(SUMS), *error_sums = device_floats(SUMS);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count, at;
        const unsigned blocks = blocks_for(BATCH * OUTPUTS);
        DDP_SHARD(BATCH, &first, &count);
        at = step * BATCH + first;
        layer_forward(&layer, at, (int)count);
        column_sums<<<1, OUTPUTS>>>(sums, layer.output, layer.output, (int)count);
        if (adds_forward)
            DDP_REDUCE(sums, SUMS, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<blocks, THREADS>>>(normal, layer.output, sums, (int)count);
        error<<<blocks, THREADS>>>(errors, normal, layer.target + at * OUTPUTS, (int)count);
        column_sums<<<1, OUTPUTS>>>(error_sums, errors, normal, (int)count);
        if (adds_backward)
            DDP_REDUCE(error_sums, SUMS, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise_back<<<blocks, THREADS>>>(layer.delta, errors, normal, layer.output, sums, error_sums, (int)count);
        layer_backward(&layer, at, (int)count, 0.0f);
        DDP_STEP(0);
        sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
