/* GAN that learns a ring in the plane. Generator 4-32-2, discriminator 2-32-1, RMSprop for both. */
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define BATCH 64
#define LATENT 4
#define STEPS 200

/* d = (sigmoid(y) - target) / n, loss = bce */
__global__ void bce(const float *y, float target, float *d, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float p = 1 / (1 + expf(-y[i]));
    d[i] = (p - target) / n;
    loss[i] = -(target * logf(p + 1e-7f) + (1 - target) * logf(1 - p + 1e-7f));
}

static float uniform(void) { return rand() / (RAND_MAX + 1.0f); }

static float mean(const float *d)
{
    float h[BATCH], s = 0;
    cudaMemcpy(h, d, sizeof(h), cudaMemcpyDeviceToHost);
    for (int i = 0; i < BATCH; i++) s += h[i];
    return s / BATCH;
}

int main()
{
    srand(21);
    net G, D;
    net_init(&G, LATENT, 32, 2, BATCH);
    net_init(&D, 2, 32, 1, BATCH);

    float *real, *noise, *dout, *loss;
    cudaMalloc((void **)&real, BATCH * 2 * sizeof(float));
    cudaMalloc((void **)&noise, BATCH * LATENT * sizeof(float));
    cudaMalloc((void **)&dout, BATCH * sizeof(float));
    cudaMalloc((void **)&loss, BATCH * sizeof(float));
    float h_real[BATCH * 2], h_noise[BATCH * LATENT], fakes[BATCH * 2];

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH; i++) {
            float a = 6.2831853f * uniform();
            h_real[2 * i] = 2.0f + 0.5f * cosf(a);
            h_real[2 * i + 1] = -1.0f + 0.5f * sinf(a);
        }
        for (int i = 0; i < BATCH * LATENT; i++) h_noise[i] = 2 * uniform() - 1;
        cudaMemcpy(real, h_real, sizeof(h_real), cudaMemcpyHostToDevice);
        cudaMemcpy(noise, h_noise, sizeof(h_noise), cudaMemcpyHostToDevice);

        /* discriminator: real, then fake */
        net_zero(&D);
        float *y = net_forward(&D, real);
        bce<<<1, BATCH>>>(y, 1.0f, dout, loss, BATCH);
        float lr_ = mean(loss);
        net_backward(&D, real, dout);
        float *fake = net_forward(&G, noise);
        y = net_forward(&D, fake);
        bce<<<1, BATCH>>>(y, 0.0f, dout, loss, BATCH);
        float lf = mean(loss);
        net_backward(&D, fake, dout);
        net_update(&D, 0.003f);

        /* generator */
        net_zero(&G);
        y = net_forward(&D, fake);
        bce<<<1, BATCH>>>(y, 1.0f, dout, loss, BATCH);
        float lg = mean(loss);
        float *dfake = net_backward(&D, fake, dout);
        net_backward(&G, noise, dfake);
        net_update(&G, 0.004f);

        if (step % 20 == 0 || step == STEPS - 1) {
            float mx = 0, my = 0;
            cudaMemcpy(fakes, fake, sizeof(fakes), cudaMemcpyDeviceToHost);
            for (int i = 0; i < BATCH; i++) { mx += fakes[2 * i] / BATCH; my += fakes[2 * i + 1] / BATCH; }
            printf("step %3d D %.4f G %.4f  distance of the means, error %.4f\n", step, lr_ + lf, lg, hypotf(mx - 2, my + 1));
        }
    }
    net_free(&G);
    net_free(&D);
    cudaFree(real); cudaFree(noise); cudaFree(dout); cudaFree(loss);
    return 0;
}
