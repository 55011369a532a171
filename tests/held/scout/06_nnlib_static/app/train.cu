// Classifies short waveforms (sine, square, saw) with a 1-D convolutional net.
#include "nn.h"
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <random>
#include <vector>

int main()
{
    const int L = 24, N = 480, B = 40, classes = 3, epochs = 8;
    std::mt19937 gen(11);
    std::uniform_real_distribution<float> u(0, 1);
    std::normal_distribution<float> noise(0, 0.2f);
    std::vector<float> wave(N * L);
    std::vector<int> kind(N);
    for (int i = 0; i < N; ++i) {
        kind[i] = gen() % classes;
        float f = 0.06f + 0.06f * u(gen), ph = u(gen);
        for (int l = 0; l < L; ++l) {
            float t = ph + f * l;
            t -= floorf(t);
            float s = kind[i] == 0 ? sinf(6.2832f * t) : kind[i] == 1 ? (t < 0.5f ? 1.f : -1.f) : 2 * t - 1;
            wave[i * L + l] = s + noise(gen);
        }
    }

    std::vector<nn::Module *> net = {
        nn::conv1d("conv1", 1, 8, L, 5, B), nn::relu(8 * L, B),
        nn::conv1d("conv2", 8, 8, L, 5, B), nn::relu(8 * L, B),
        nn::meanPool(8, L, B),              nn::dense("fc", 8, classes, B)};
    std::vector<nn::Parameter> params;
    for (auto *m : net) m->collect(params);
    int total = 0;
    for (auto &p : params) total += p.count;
    printf("%d parameters\n", total);
    nn::Adam opt(params, 0.01f);

    float *x, *g;
    int *y;
    cudaMalloc((void **)&x, sizeof(float) * B * L);
    cudaMalloc((void **)&g, sizeof(float) * B * classes);
    cudaMalloc((void **)&y, sizeof(int) * B);

    for (int e = 0; e < epochs; ++e) {
        float sum = 0;
        for (int b = 0; b < N / B; ++b) {
            cudaMemcpy(x, wave.data() + b * B * L, sizeof(float) * B * L, cudaMemcpyHostToDevice);
            cudaMemcpy(y, kind.data() + b * B, sizeof(int) * B, cudaMemcpyHostToDevice);
            opt.zeroGrad();
            const float *a = x;
            for (auto *m : net) a = m->forward(a, B);
            sum += nn::crossEntropy(a, y, g, B, classes);
            const float *d = g;
            for (size_t i = net.size(); i-- > 0;) d = net[i]->backward(d, B);
            opt.step();
        }
        printf("epoch %d, training loss %.4f\n", e, sum / (N / B));
    }

    FILE *f = fopen("waves.model", "wb");
    if (f) {
        for (auto &p : params) {
            std::vector<float> h(p.count);
            cudaMemcpy(h.data(), p.value, sizeof(float) * p.count, cudaMemcpyDeviceToHost);
            fwrite(h.data(), sizeof(float), p.count, f);
        }
        fclose(f);
    }
    for (auto *m : net) delete m;
    return 0;
}
