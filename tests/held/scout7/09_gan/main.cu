// GAN on a correlated Gaussian in the plane
#include <cstdio>
#include "mlp.cuh"

#define BATCH_SIZE 64
#define NOISE_DIM 8
#define ITERATIONS 200

__global__ void bce_with_logits(const float *logit, float label, float *grad, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float p = 1.f / (1.f + expf(-logit[i]));
    grad[i] = (p - label) / n;
    loss[i] = -(label * logf(p + 1e-8f) + (1 - label) * logf(1 - p + 1e-8f));
}

static float mean(const float *d_loss)
{
    float h[BATCH_SIZE], s = 0;
    cudaMemcpy(h, d_loss, sizeof(h), cudaMemcpyDeviceToHost);
    for (float v : h) s += v;
    return s / BATCH_SIZE;
}

int main()
{
    MLP G({ NOISE_DIM, 48, 48, 2 }, BATCH_SIZE, 1), D({ 2, 48, 48, 1 }, BATCH_SIZE, 2);
    std::mt19937 rng(123);
    std::normal_distribution<float> N(0.f, 1.f);

    float *d_real, *d_noise, *d_loss;
    cudaMalloc(&d_real, BATCH_SIZE * 2 * sizeof(float));
    cudaMalloc(&d_noise, BATCH_SIZE * NOISE_DIM * sizeof(float));
    cudaMalloc(&d_loss, BATCH_SIZE * sizeof(float));
    std::vector<float> real(BATCH_SIZE * 2), noise(BATCH_SIZE * NOISE_DIM), fake(BATCH_SIZE * 2);

    for (int it = 0; it < ITERATIONS; it++) {
        for (int i = 0; i < BATCH_SIZE; i++) {
            float a = N(rng), b = N(rng);
            real[2 * i] = 2.f + 0.5f * a;
            real[2 * i + 1] = -1.f + 0.4f * a + 0.2f * b;
        }
        for (auto &z : noise) z = N(rng);
        cudaMemcpy(d_real, real.data(), real.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(d_noise, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice);

        // discriminator
        float *logit = D.forward(d_real, BATCH_SIZE);
        bce_with_logits<<<1, BATCH_SIZE>>>(logit, 1.f, D.outputGrad(), d_loss, BATCH_SIZE);
        float lossD = mean(d_loss);
        D.backward(BATCH_SIZE);
        float *x = G.forward(d_noise, BATCH_SIZE);
        logit = D.forward(x, BATCH_SIZE);
        bce_with_logits<<<1, BATCH_SIZE>>>(logit, 0.f, D.outputGrad(), d_loss, BATCH_SIZE);
        lossD += mean(d_loss);
        D.backward(BATCH_SIZE);
        D.step(0.002f);

        // generator
        for (auto &z : noise) z = N(rng);
        cudaMemcpy(d_noise, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice);
        x = G.forward(d_noise, BATCH_SIZE);
        logit = D.forward(x, BATCH_SIZE);
        bce_with_logits<<<1, BATCH_SIZE>>>(logit, 1.f, D.outputGrad(), d_loss, BATCH_SIZE);
        float lossG = mean(d_loss);
        float *dx = D.backward(BATCH_SIZE, false);
        cudaMemcpy(G.outputGrad(), dx, BATCH_SIZE * 2 * sizeof(float), cudaMemcpyDeviceToDevice);
        G.backward(BATCH_SIZE);
        G.step(0.002f);

        if (it % 20 == 0 || it == ITERATIONS - 1) {
            // how far the mean of the samples is from the mean of the data
            cudaMemcpy(fake.data(), x, fake.size() * sizeof(float), cudaMemcpyDeviceToHost);
            float mx = 0, my = 0;
            for (int i = 0; i < BATCH_SIZE; i++) {
                mx += fake[2 * i] / BATCH_SIZE;
                my += fake[2 * i + 1] / BATCH_SIZE;
            }
            float dist = std::sqrt((mx - 2) * (mx - 2) + (my + 1) * (my + 1));
            printf("iter %d  D loss %.4f  G loss %.4f  mean error %.4f\n", it, lossD, lossG, dist);
        }
    }
    return 0;
}
