/*
 * batch_by_time_steps.cu - the lines of `ddprun scout` for a recurrent net: its batch has time steps that follow each
 * other, each with one number of every record. A share is a part of each time step, and a part of the list of targets.
 */
#include "tests/programs/layer.h"

enum { TIMES = 10, HIDDEN = 6, STATE = BATCH * HIDDEN };

/* next = tanh(recurrent state + weight x), for each record and unit */
static __global__ void
recur(float *next, const float *state, const float *x, const float *recurrent, const float *weight)
{
    int i = ELEMENT_OF_THREAD, record = i / HIDDEN, unit = i % HIDDEN;
    if (record >= BATCH)
        return;
    float sum = weight[unit] * x[record];
    for (int k = 0; k < HIDDEN; ++k)
        sum += recurrent[unit * HIDDEN + k] * state[record * HIDDEN + k];
    next[i] = tanhf(sum);
}

int
main(void)
{
    float *x = device_floats(TIMES * BATCH), *target = device_floats(STATE),
          *states = device_floats((TIMES + 1) * STATE);
    float *recurrent = device_noise(1, HIDDEN * HIDDEN, 0.5f), *recurrent_gradient = device_floats(HIDDEN * HIDDEN);
    float *weight = device_noise(2, HIDDEN, 0.5f), *gradient = device_floats(HIDDEN), *momentum = device_floats(HIDDEN);
    float *recurrent_momentum = device_floats(HIDDEN * HIDDEN), *deltas = device_floats((TIMES + 1) * STATE);
    const unsigned blocks = blocks_for(STATE);
    for (unsigned step = 0; step < STEPS; ++step) {
        std::vector<float> sequences = host_noise(100 + step, TIMES * BATCH, 1.0f); /* [time][record] */
        std::vector<float> wanted = host_noise(200 + step, STATE, 0.8f);
        CHECK(cudaMemcpy(x, sequences.data(), TIMES * BATCH * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(target, wanted.data(), STATE * sizeof(float), cudaMemcpyHostToDevice));
        for (int t = 0; t < TIMES; ++t)
            recur<<<blocks, THREADS>>>(states + (t + 1) * STATE, states + t * STATE, x + t * BATCH, recurrent, weight);
        loss_delta<<<blocks, THREADS>>>(deltas + TIMES * STATE, states + TIMES * STATE, target, HIDDEN, BATCH);
        for (int t = TIMES; t-- > 0;) {
            float *delta = deltas + (t + 1) * STATE, *state = states + t * STATE;
            float keep = t < TIMES - 1 ? 1.0f : 0.0f;
            weight_gradient<<<1, THREADS>>>(gradient, delta, x + t * BATCH, 1, HIDDEN, BATCH, keep, 1.0f);
            weight_gradient<<<1, THREADS>>>(recurrent_gradient, delta, state, HIDDEN, HIDDEN, BATCH, keep, 1.0f);
            input_delta<<<blocks, THREADS>>>(deltas + t * STATE, recurrent, delta, state, HIDDEN, HIDDEN, BATCH);
        }
        sgd<<<1, THREADS>>>(weight, momentum, gradient, HIDDEN, 0.1f);
        sgd<<<1, THREADS>>>(recurrent, recurrent_momentum, recurrent_gradient, HIDDEN * HIDDEN, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
