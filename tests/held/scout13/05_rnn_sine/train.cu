/* Predicts the next value of noisy sine waves of different frequency and phase. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rnn.cuh"

#define B 32
#define T 10
#define H 24
#define SEQUENCES 384
#define STEPS 48

static uint64_t state = 88172645463325252ull;

static float frand(void) /* xorshift64, [0, 1) */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (float)(state >> 40) / 16777216.0f;
}

static const int sizes[RNN_TENSORS] = {H, H * H, H, H, 1};

static rnn_weights weights_alloc(void)
{
    rnn_weights w;
    float **p[RNN_TENSORS] = {&w.wx, &w.wh, &w.b, &w.v, &w.c};
    for (int i = 0; i < RNN_TENSORS; i++) {
        cudaMalloc((void **)p[i], sizes[i] * sizeof(float));
        cudaMemset(*p[i], 0, sizes[i] * sizeof(float));
    }
    return w;
}

static void randomise(float *dst, int n, float a)
{
    float *tmp = (float *)malloc(n * sizeof *tmp);
    for (int i = 0; i < n; i++) tmp[i] = (2 * frand() - 1) * a;
    cudaMemcpy(dst, tmp, n * sizeof *tmp, cudaMemcpyHostToDevice);
    free(tmp);
}

int main(void)
{
    float *seq = (float *)malloc(SEQUENCES * T * sizeof(float)), *next = (float *)malloc(SEQUENCES * sizeof(float));
    for (int i = 0; i < SEQUENCES; i++) {
        float f = 0.3f + 0.5f * frand(), p = 6.2831853f * frand();
        for (int t = 0; t < T; t++) seq[i * T + t] = sinf(p + f * t) + 0.02f * (frand() - 0.5f);
        next[i] = sinf(p + f * T);
    }

    rnn_weights w = weights_alloc(), g = weights_alloc();
    randomise(w.wx, H, 0.5f);
    randomise(w.wh, H * H, 1.0f / sqrtf(H));
    randomise(w.v, H, 0.3f);

    rnn_shape shape = {B, T, H};
    float *x, *y, *target, *h, *dh, *dh_next, *stats; /* stats: loss, squared norm */
    cudaMalloc((void **)&x, SEQUENCES * T * sizeof(float));
    cudaMalloc((void **)&target, SEQUENCES * sizeof(float));
    cudaMalloc((void **)&y, B * sizeof(float));
    cudaMalloc((void **)&h, (T + 1) * B * H * sizeof(float));
    cudaMalloc((void **)&dh, B * H * sizeof(float));
    cudaMalloc((void **)&dh_next, B * H * sizeof(float));
    cudaMalloc((void **)&stats, 2 * sizeof(float));
    cudaMemset(h, 0, B * H * sizeof(float));
    cudaMemcpy(x, seq, SEQUENCES * T * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(target, next, SEQUENCES * sizeof(float), cudaMemcpyHostToDevice);

    float *gs[RNN_TENSORS] = {g.wx, g.wh, g.b, g.v, g.c};
    float *ws[RNN_TENSORS] = {w.wx, w.wh, w.b, w.v, w.c};
    float lr = 0.1f;
    for (int step = 0; step < STEPS; step++) {
        int first = (step * B) % SEQUENCES;
        float out[2];
        for (int i = 0; i < RNN_TENSORS; i++) cudaMemset(gs[i], 0, sizes[i] * sizeof(float));
        cudaMemset(stats, 0, 2 * sizeof(float));

        rnn_forward(shape, w, x + first * T, h, y);
        rnn_backward(shape, w, g, x + first * T, target + first, h, y, dh, dh_next, stats);

        for (int i = 0; i < RNN_TENSORS; i++) sum_squares(gs[i], sizes[i], stats + 1);
        for (int i = 0; i < RNN_TENSORS; i++) sgd_clipped(ws[i], gs[i], sizes[i], lr, stats + 1, 0.5f);

        cudaMemcpy(out, stats, sizeof out, cudaMemcpyDeviceToHost);
        if (step % 6 == 0 || step == STEPS - 1)
            printf("%4d  mse %.6f  |g| %.4f\n", step, out[0], sqrtf(out[1]));
        if (step == 36) lr *= 0.5f;
    }
    free(seq);
    free(next);
    cudaDeviceReset();
    return 0;
}
