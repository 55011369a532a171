// Concentric shells in 3-d, trained with libnn.
#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include "nn/nn.h"

static unsigned g_seed = 2024;
static float uniform()
{
    g_seed = g_seed * 1103515245u + 12345u;
    return ((g_seed >> 16) & 0x7fff) / 32767.f;
}

int main()
{
    const int dim = 3, classes = 3, n = 1500, hidden = 30;
    const int minibatch = 50, epochs = 10;
    const float wd = 1e-4f;
    float lr = 1.5f;

    std::vector<float> hx(n * dim);
    std::vector<int> ht(n);
    for (int i = 0; i < n; i++) {
        float norm = 0;
        for (int d = 0; d < dim; d++) {
            hx[i * dim + d] = uniform() - 0.5f;
            norm += hx[i * dim + d] * hx[i * dim + d];
        }
        ht[i] = (int)(uniform() * classes);
        float radius = 0.6f + 0.9f * ht[i] + 0.2f * uniform();
        for (int d = 0; d < dim; d++) hx[i * dim + d] *= radius / std::sqrt(norm + 1e-6f);
    }

    float *x = nn::device_array<float>(n * dim);
    int *t = nn::device_array<int>(n);
    int *correct = nn::device_array<int>(1);
    cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(t, ht.data(), ht.size() * sizeof(int), cudaMemcpyHostToDevice);

    nn::Linear fc1 = nn::linear_create(dim, hidden, g_seed);
    nn::Linear fc2 = nn::linear_create(hidden, classes, g_seed);
    float *h = nn::device_array<float>(minibatch * hidden);
    float *dh = nn::device_array<float>(minibatch * hidden);
    float *logits = nn::device_array<float>(minibatch * classes);
    float *dlogits = nn::device_array<float>(minibatch * classes);
    float *row_loss = nn::device_array<float>(minibatch);
    std::vector<float> hl(minibatch);

    for (int e = 0; e < epochs; e++) {
        float sum = 0;
        cudaMemset(correct, 0, sizeof(int));
        for (int first = 0; first < n; first += minibatch) {
            const float *xb = x + (size_t)first * dim;
            nn::linear_forward(fc1, xb, h, minibatch);
            nn::sigmoid_forward(h, minibatch * hidden);
            nn::linear_forward(fc2, h, logits, minibatch);
            nn::cross_entropy(logits, t + first, dlogits, row_loss, minibatch, classes);
            nn::count_correct(logits, t + first, minibatch, classes, correct);

            nn::linear_backward(fc2, h, dlogits, dh, minibatch);
            nn::sigmoid_backward(h, dh, minibatch * hidden);
            nn::linear_backward(fc1, xb, dh, nullptr, minibatch);

            nn::sgd(fc1.w, lr, wd);
            nn::sgd(fc1.b, lr, 0.f);
            nn::sgd(fc2.w, lr, wd);
            nn::sgd(fc2.b, lr, 0.f);

            cudaMemcpy(hl.data(), row_loss, minibatch * sizeof(float), cudaMemcpyDeviceToHost);
            for (float v : hl) sum += v;
        }
        int hits;
        cudaMemcpy(&hits, correct, sizeof(int), cudaMemcpyDeviceToHost);
        std::printf("epoch %d  loss %.5f  accuracy %.2f%%\n", e, sum / n, 100.f * hits / n);
        lr *= 0.95f;
    }
    nn::linear_destroy(fc1);
    nn::linear_destroy(fc2);
    cudaFree(x); cudaFree(t); cudaFree(correct);
    cudaFree(h); cudaFree(dh); cudaFree(logits); cudaFree(dlogits); cudaFree(row_loss);
    return 0;
}
