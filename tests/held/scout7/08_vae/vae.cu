#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>
#include "kernels.h"

namespace {

constexpr int X = 49, HIDDEN = 40, LATENT = 4, BATCH = 64, TRAIN = 1280, EPOCHS = 5;

struct Linear {
    int in, out;
    float *w, *b, *dw, *db, *sw, *sb;
    Linear(int in_, int out_, std::mt19937 &g) : in(in_), out(out_)
    {
        cudaMalloc(&w, in * out * sizeof(float));
        cudaMalloc(&b, out * sizeof(float));
        cudaMalloc(&dw, in * out * sizeof(float));
        cudaMalloc(&db, out * sizeof(float));
        cudaMalloc(&sw, in * out * sizeof(float));
        cudaMalloc(&sb, out * sizeof(float));
        std::vector<float> h(in * out);
        std::uniform_real_distribution<float> u(-std::sqrt(6.f / (in + out)), std::sqrt(6.f / (in + out)));
        for (auto &v : h) v = u(g);
        cudaMemcpy(w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(b, 0, out * sizeof(float));
        cudaMemset(sw, 0, in * out * sizeof(float));
        cudaMemset(sb, 0, out * sizeof(float));
    }
    void forward(const float *x, float *y, int n) { gemm_bias(x, w, b, y, n, in, out); }
    void backward(const float *x, const float *dy, float *dx, int n)
    {
        grad_w(x, dy, dw, n, in, out);
        grad_b(dy, db, n, out);
        if (dx) grad_x(dy, w, dx, n, in, out, false);
    }
    void update(float lr, int n)
    {
        rmsprop(w, dw, sw, lr, 1.f / n, in * out);
        rmsprop(b, db, sb, lr, 1.f / n, out);
    }
};

float *device(int n)
{
    float *p = nullptr;
    cudaMalloc(&p, n * sizeof(float));
    return p;
}

float sum(const float *d, int n)
{
    std::vector<float> h(n);
    cudaMemcpy(h.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost);
    double s = 0;
    for (float v : h) s += v;
    return (float)s;
}

} // namespace

int main()
{
    std::mt19937 gen(11);
    std::normal_distribution<float> normal;

    // binary 7x7 images of one horizontal and one vertical bar
    std::vector<float> images(TRAIN * X);
    for (int s = 0; s < TRAIN; s++) {
        int r = gen() % 7, c = gen() % 7;
        for (int i = 0; i < 7; i++) images[s * X + r * 7 + i] = images[s * X + i * 7 + c] = 1.f;
    }

    Linear enc1(X, HIDDEN, gen), enc2(HIDDEN, 2 * LATENT, gen), dec1(LATENT, HIDDEN, gen), dec2(HIDDEN, X, gen);
    float *x = device(BATCH * X), *eps = device(BATCH * LATENT), *h1 = device(BATCH * HIDDEN), *mulv = device(BATCH * 2 * LATENT),
          *z = device(BATCH * LATENT), *h2 = device(BATCH * HIDDEN), *logits = device(BATCH * X);
    float *dlogits = device(BATCH * X), *dh2 = device(BATCH * HIDDEN), *dz = device(BATCH * LATENT), *dmulv = device(BATCH * 2 * LATENT),
          *dh1 = device(BATCH * HIDDEN);
    float *rec = device(BATCH * X), *kl = device(BATCH * LATENT);
    std::vector<float> noise(BATCH * LATENT);

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float recSum = 0, klSum = 0;
        float beta = 0.2f * (epoch + 1) / EPOCHS; // KL annealing
        for (int start = 0; start < TRAIN; start += BATCH) {
            for (auto &v : noise) v = normal(gen);
            cudaMemcpy(x, &images[start * X], BATCH * X * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(eps, noise.data(), BATCH * LATENT * sizeof(float), cudaMemcpyHostToDevice);

            enc1.forward(x, h1, BATCH);
            relu(h1, BATCH * HIDDEN);
            enc2.forward(h1, mulv, BATCH);
            sample_z(mulv, eps, z, BATCH, LATENT);
            dec1.forward(z, h2, BATCH);
            relu(h2, BATCH * HIDDEN);
            dec2.forward(h2, logits, BATCH);

            bce_logits(logits, x, dlogits, rec, BATCH * X);
            dec2.backward(h2, dlogits, dh2, BATCH);
            relu_grad(h2, dh2, BATCH * HIDDEN);
            dec1.backward(z, dh2, dz, BATCH);
            sample_z_grad(mulv, eps, dz, dmulv, kl, BATCH, LATENT, beta);
            enc2.backward(h1, dmulv, dh1, BATCH);
            relu_grad(h1, dh1, BATCH * HIDDEN);
            enc1.backward(x, dh1, nullptr, BATCH);

            for (Linear *l : { &enc1, &enc2, &dec1, &dec2 }) l->update(0.005f, BATCH);
            recSum += sum(rec, BATCH * X);
            klSum += sum(kl, BATCH * LATENT);
        }
        printf("epoch %d  reconstruction loss %.4f  kl %.4f\n", epoch + 1, recSum / TRAIN, klSum / TRAIN);
    }
    return 0;
}
