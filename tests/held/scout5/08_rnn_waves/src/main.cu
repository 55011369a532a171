// Predict the next value of a noisy wave from the last 12. New waves are drawn for each step.
#include "optim.h"
#include "rnn.h"

#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <random>

const int kSeqLen = 12;
const int kHidden = 32;
const int kBatch = 48;
const int kSteps = 90;

static void sample_waves(std::mt19937 &rng, std::vector<float> &x, std::vector<float> &target, int batch)
{
    std::uniform_real_distribution<float> freq(0.3f, 0.9f), phase(0.0f, 6.2831f), amp(0.5f, 1.0f);
    std::normal_distribution<float> noise(0.0f, 0.02f);
    for (int s = 0; s < batch; s++) {
        float f = freq(rng), p = phase(rng), a = amp(rng);
        for (int t = 0; t < kSeqLen; t++)
            x[t * batch + s] = a * std::sin(f * t + p) + noise(rng);
        target[s] = a * std::sin(f * kSeqLen + p);
    }
}

int main()
{
    std::mt19937 rng(11);
    RNN rnn(kHidden, kSeqLen, kBatch, 77u);
    Adagrad opt(rnn.parameters(), 0.06f);

    std::vector<float> x(kSeqLen * kBatch), target(kBatch);
    float *d_x, *d_target;
    cudaMalloc(&d_x, x.size() * sizeof(float));
    cudaMalloc(&d_target, target.size() * sizeof(float));

    float running = 0;
    for (int step = 1; step <= kSteps; step++) {
        sample_waves(rng, x, target, kBatch);
        cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(d_target, target.data(), target.size() * sizeof(float), cudaMemcpyHostToDevice);
        rnn.zero_grad();
        rnn.forward(d_x, kBatch);
        float l = rnn.loss(d_target, kBatch);
        rnn.backward(d_x, kBatch);
        float norm = opt.clip(1.0f);
        opt.step();
        running += l;
        if (step % 15 == 0) {
            printf("step %3d loss %.5f |g| %.3f\n", step, running / 15, norm);
            running = 0;
        }
    }
    cudaFree(d_x);
    cudaFree(d_target);
    return 0;
}
