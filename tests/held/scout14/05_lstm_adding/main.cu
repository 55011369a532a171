// The adding problem: the sum of the two marked numbers in a sequence.
#include "lstm.h"

#include <cstdio>
#include <random>

int main()
{
    const int steps = 8, inputs = 2, hidden = 20, batch = 32, iterations = 210;
    std::mt19937 rng(42);
    std::uniform_real_distribution<float> uniform(0.f, 1.f);

    LstmRegressor net(inputs, hidden, steps, batch, 7);
    std::vector<float> x(batch * steps * inputs), target(batch);
    float *dx, *dtarget;
    if (cudaMalloc(&dx, x.size() * sizeof(float)) || cudaMalloc(&dtarget, target.size() * sizeof(float))) return 1;

    float mean = 0.f;
    for (int it = 1; it <= iterations; ++it) {
        for (int n = 0; n < batch; ++n) {
            int first = rng() % (steps / 2), second = steps / 2 + rng() % (steps / 2);
            target[n] = 0.f;
            for (int t = 0; t < steps; ++t) {
                float *row = &x[(n * steps + t) * inputs];
                row[0] = uniform(rng);
                row[1] = t == first || t == second;
                target[n] += row[0] * row[1];
            }
        }
        cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dtarget, target.data(), target.size() * sizeof(float), cudaMemcpyHostToDevice);

        net.forward(dx);
        mean += net.loss(dtarget);
        net.backward(dx);
        float norm = net.clip(1.f);
        net.adam(it <= 150 ? 0.02f : 0.005f);

        if (it % 15 == 0) {
            std::printf("%4d  mse %.5f  |g| %.3f\n", it, mean / 15, norm);
            mean = 0.f;
        }
    }
    cudaFree(dx);
    cudaFree(dtarget);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
