/*
 * causal_attention.cu - the lines of `ddprun scout` for attention over earlier positions: each launch writes the lower
 * half of its weights, row by row, and leaves the upper half alone. The weights are scratch: no question is asked.
 */
#include "tests/programs/layer.h"

enum { TIMES = 8, TOKENS = BATCH * TIMES };

/* Weights of positions up to its own, and the mean of their numbers. */
static __global__ void
attend(float *weights, float *out, const float *x, const float *scale)
{
    const int i = ELEMENT_OF_THREAD, first = i / TIMES * TIMES;
    if (i >= TOKENS)
        return;
    float *mine = weights + i * TIMES, all = 0;
    for (int s = 0; first + s <= i; ++s)
        all += mine[s] = expf(scale[0] * x[i] * x[first + s]);
    out[i] = 0;
    for (int s = 0; first + s <= i; ++s) {
        mine[s] /= all;
        out[i] += mine[s] * scale[1] * x[first + s];
    }
}

static __global__ void
attend_back(float *gradient, const float *weights, const float *delta, const float *x, const float *scale)
{
    gradient[0] = gradient[1] = 0;
    for (int i = 0; i < TOKENS; ++i) {
        const float *mine = weights + i * TIMES;
        const int first = i / TIMES * TIMES;
        float mean = 0, square = 0;
        for (int s = 0; first + s <= i; ++s) {
            mean += mine[s] * x[first + s];
            square += mine[s] * x[first + s] * x[first + s];
        }
        gradient[0] += delta[i] * scale[1] * x[i] * (square - mean * mean);
        gradient[1] += delta[i] * mean;
    }
}

int
main(void)
{
    float *x = device_floats(TOKENS), *target = device_floats(TOKENS), *out = device_floats(TOKENS);
    float *weights = device_floats(TOKENS * TIMES), *delta = device_floats(TOKENS);
    float *scale = device_noise(1, 2, 0.5f), *gradient = device_floats(2), *momentum = device_floats(2);
    const unsigned blocks = blocks_for(TOKENS);
    for (unsigned step = 0; step < STEPS; ++step) {
        std::vector<float> tokens = host_noise(100 + step, TOKENS, 1.0f), wanted = host_noise(200 + step, TOKENS, 0.8f);
        CHECK(cudaMemcpy(x, tokens.data(), TOKENS * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(target, wanted.data(), TOKENS * sizeof(float), cudaMemcpyHostToDevice));
        attend<<<blocks, THREADS>>>(weights, out, x, scale);
        loss_delta<<<blocks, THREADS>>>(delta, out, target, TIMES, BATCH);
        attend_back<<<1, 1>>>(gradient, weights, delta, x, scale);
        sgd<<<1, THREADS>>>(scale, momentum, gradient, 2, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
