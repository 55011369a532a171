/*
 * hidden_state_is_carried.cu - a recurrent net begins each batch with the hidden state that the batch before has left.
 * `ddprun scout` asks whether that state is each rank's own; `ddprun --plan auto` refuses the program, as ranks cannot
 * compute its batches in turn.
 */
#include "tests/programs/layer.h"

enum { LANES = 16, HIDDEN = 6, STATE = LANES * HIDDEN };

/* next = tanh(recurrent state + x) */
static __global__ void
recur(float *next, const float *state, const float *x, const float *recurrent)
{
    int i = ELEMENT_OF_THREAD;
    if (i >= STATE)
        return;
    float sum = x[i];
    for (int k = 0; k < HIDDEN; ++k)
        sum += recurrent[i % HIDDEN * HIDDEN + k] * state[i / HIDDEN * HIDDEN + k];
    next[i] = tanhf(sum);
}

int
main(void)
{
    enum { COUNT = HIDDEN * HIDDEN };
    float *x = device_floats(STATE), *target = device_floats(STATE), *delta = device_floats(STATE);
    float *state = device_floats(STATE), *next = device_floats(STATE);
    float *recurrent = device_noise(1, COUNT, 0.6f), *gradient = device_floats(COUNT), *momentum = device_floats(COUNT);
    for (unsigned step = 0; step < 4 * STEPS; ++step) {
        std::vector<float> values = host_noise(100 + step, STATE, 0.8f), wanted = host_noise(200 + step, STATE, 0.8f);
        CHECK(cudaMemcpy(x, values.data(), STATE * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(target, wanted.data(), STATE * sizeof(float), cudaMemcpyHostToDevice));
        recur<<<blocks_for(STATE), THREADS>>>(next, state, x, recurrent);
        loss_delta<<<blocks_for(STATE), THREADS>>>(delta, next, target, HIDDEN, LANES);
        weight_gradient<<<1, THREADS>>>(gradient, delta, state, HIDDEN, HIDDEN, LANES, 0.0f, 1.0f);
        sgd<<<1, THREADS>>>(recurrent, momentum, gradient, COUNT, 0.1f);
        CHECK(cudaMemcpy(state, next, STATE * sizeof(float), cudaMemcpyDeviceToDevice));
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
