/*
 * shorter_last_batch.cu - the lines of `ddprun scout` where a batch is a pointer into data on the device, and the last
 * batch of an epoch has fewer items. Each launch gets a share, whose size follows the batch's own count; a label is one
 * byte.
 */
#include "tests/programs/layer.h"

enum { EPOCHS = 3, COUNT = 5 * BATCH + BATCH / 2 };

/* delta = softmax(scores) - one-hot(label), for the mean over `count` items */
static __global__ void
softmax_delta(float *delta, const float *scores, const unsigned char *labels, int count)
{
    int item = ELEMENT_OF_THREAD;
    float sum = 0.0f;
    if (item >= count)
        return;
    for (int k = 0; k < OUTPUTS; ++k)
        sum += expf(scores[item * OUTPUTS + k]);
    for (int k = 0; k < OUTPUTS; ++k)
        delta[item * OUTPUTS + k] = (expf(scores[item * OUTPUTS + k]) / sum - (k == labels[item])) / (float)count;
}

ELEMENTWISE(descend, (float *weight, const float *gradient, float rate), WEIGHTS,
            weight[i] -= rate * (gradient[i] + 1e-3f * weight[i]))

int
main(void)
{
    float *x = device_noise(1, COUNT * INPUTS, 1.0f), *weight = device_noise(3, WEIGHTS, 0.1f);
    float *scores = device_floats(BATCH * OUTPUTS), *delta = device_floats(BATCH * OUTPUTS), *gradient;
    std::vector<unsigned char> classes(COUNT);
    for (unsigned i = 0; i < COUNT; ++i)
        classes[i] = (unsigned char)(noise_of(2, i) > 0 ? i % OUTPUTS : 1);
    unsigned char *labels = device_copy(classes.data(), COUNT);
    CHECK(cudaMalloc(&gradient, WEIGHTS * sizeof(float)));
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        for (int start = 0; start < COUNT; start += BATCH) {
            int n = start + BATCH <= COUNT ? BATCH : COUNT - start;
            const float *from = x + start * INPUTS;
            dense_forward<<<blocks_for(n * OUTPUTS), THREADS>>>(scores, from, weight, NULL, INPUTS, OUTPUTS, n);
            softmax_delta<<<1, THREADS>>>(delta, scores, labels + start, n);
            weight_gradient<<<1, THREADS>>>(gradient, delta, from, INPUTS, OUTPUTS, n, 0.0f, 1.0f);
            descend<<<1, THREADS>>>(weight, gradient, 0.2f);
        }
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
