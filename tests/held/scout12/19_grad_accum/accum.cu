// Small 1-d convolution net for time series, gradients accumulated over ACCUM micro batches, clipped by global norm.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#ifndef MICRO
#define MICRO 32
#endif
#ifndef ACCUM
#define ACCUM 4
#endif
#define LEN   48
#define KW    7
#define CH    24
#define OLEN  (LEN - KW + 1)
#define CLS   4
#define STEPS 60
#define SERIES 3072

#define OFF_K 0
#define OFF_KB (OFF_K + CH * KW)
#define OFF_F (OFF_KB + CH)
#define OFF_FB (OFF_F + CLS * CH)
#define NPARAMS (OFF_FB + CLS)

__global__ void forward(const float *x, const float *theta, float *act, float *feat)
{
    int s = blockIdx.x, c = threadIdx.x;
    const float *k = theta + OFF_K + c * KW;
    float sum = 0;
    for (int o = 0; o < OLEN; o++) {
        float a = theta[OFF_KB + c];
        for (int j = 0; j < KW; j++) a += x[s * LEN + o + j] * k[j];
        a = a > 0 ? a : 0;
        act[(s * CH + c) * OLEN + o] = a;
        sum += a;
    }
    feat[s * CH + c] = sum / OLEN;
}

__global__ void loss_kernel(const float *feat, const int *label, const float *theta, float *dlog, float *loss)
{
    int s = threadIdx.x;
    float z[CLS], m = -1e30f, t = 0;
    for (int q = 0; q < CLS; q++) {
        z[q] = theta[OFF_FB + q];
        for (int c = 0; c < CH; c++) z[q] += theta[OFF_F + q * CH + c] * feat[s * CH + c];
        m = fmaxf(m, z[q]);
    }
    for (int q = 0; q < CLS; q++) t += expf(z[q] - m);
    for (int q = 0; q < CLS; q++) {
        float p = expf(z[q] - m) / t;
        dlog[s * CLS + q] = (p - (q == label[s])) / (MICRO * ACCUM);
    }
    atomicAdd(loss, (m + logf(t) - z[label[s]]) / (MICRO * ACCUM));
}

__global__ void backward(const float *x, const float *act, const float *feat, const float *dlog, const float *theta, float *grad)
{
    int s = blockIdx.x, c = threadIdx.x;
    float df = 0;
    for (int q = 0; q < CLS; q++) {
        df += dlog[s * CLS + q] * theta[OFF_F + q * CH + c];
        atomicAdd(&grad[OFF_F + q * CH + c], dlog[s * CLS + q] * feat[s * CH + c]);
        if (c == 0) atomicAdd(&grad[OFF_FB + q], dlog[s * CLS + q]);
    }
    df /= OLEN;
    float gk[KW] = { 0 }, gb = 0;
    for (int o = 0; o < OLEN; o++)
        if (act[(s * CH + c) * OLEN + o] > 0) {
            gb += df;
            for (int j = 0; j < KW; j++) gk[j] += df * x[s * LEN + o + j];
        }
    for (int j = 0; j < KW; j++) atomicAdd(&grad[OFF_K + c * KW + j], gk[j]);
    atomicAdd(&grad[OFF_KB + c], gb);
}

__global__ void norm_kernel(const float *g, float *norm)
{
    __shared__ float s[128];
    float t = 0;
    for (int i = threadIdx.x; i < NPARAMS; i += 128) t += g[i] * g[i];
    s[threadIdx.x] = t;
    __syncthreads();
    for (int o = 64; o; o /= 2) {
        if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) *norm = sqrtf(s[0]);
}

__global__ void adam_clip(float *w, float *g, float *m, float *v, const float *norm, float clip, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NPARAMS) return;
    float d = *norm > clip ? g[i] * clip / *norm : g[i];
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.99f * v[i] + 0.01f * d * d;
    w[i] -= lr * m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f);
}

int main(void)
{
    srand(2020);
    float *xs, *xh, *d_theta, *d_grad, *d_m, *d_v, *d_act, *d_feat, *d_dlog, *d_loss, *d_norm, *d_x;
    int *ys, *d_y;
    xs = (float *)malloc(SERIES * LEN * sizeof(float));
    ys = (int *)malloc(SERIES * sizeof(int));
    for (int s = 0; s < SERIES; s++) {
        ys[s] = rand() % CLS;
        float ph = 6.28f * rand() / RAND_MAX, fr = 0.3f + 0.5f * ys[s];
        for (int t = 0; t < LEN; t++) xs[s * LEN + t] = sinf(fr * t + ph) + 0.3f * (2.0f * rand() / RAND_MAX - 1);
    }
    xh = (float *)malloc(NPARAMS * sizeof(float));
    for (int i = 0; i < NPARAMS; i++) {
        float r = 2.0f * rand() / RAND_MAX - 1;
        xh[i] = i < OFF_KB ? 0.5f * r : i < OFF_F ? 0 : i < OFF_FB ? 0.5f * r : 0;
    }
    cudaMalloc((void **)&d_theta, NPARAMS * sizeof(float));
    cudaMalloc((void **)&d_grad, NPARAMS * sizeof(float));
    cudaMalloc((void **)&d_m, NPARAMS * sizeof(float));
    cudaMalloc((void **)&d_v, NPARAMS * sizeof(float));
    cudaMalloc((void **)&d_act, MICRO * CH * OLEN * sizeof(float));
    cudaMalloc((void **)&d_feat, MICRO * CH * sizeof(float));
    cudaMalloc((void **)&d_dlog, MICRO * CLS * sizeof(float));
    cudaMalloc((void **)&d_loss, sizeof(float));
    cudaMalloc((void **)&d_norm, sizeof(float));
    cudaMalloc((void **)&d_x, MICRO * LEN * sizeof(float));
    cudaMalloc((void **)&d_y, MICRO * sizeof(int));
    cudaMemcpy(d_theta, xh, NPARAMS * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(d_m, 0, NPARAMS * sizeof(float));
    cudaMemset(d_v, 0, NPARAMS * sizeof(float));

    int pos = 0;
    for (int step = 1; step <= STEPS; step++) {
        cudaMemset(d_grad, 0, NPARAMS * sizeof(float));
        cudaMemset(d_loss, 0, sizeof(float));
        for (int k = 0; k < ACCUM; k++) {
            cudaMemcpy(d_x, xs + pos * LEN, MICRO * LEN * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(d_y, ys + pos, MICRO * sizeof(int), cudaMemcpyHostToDevice);
            pos = (pos + MICRO) % SERIES;
            forward<<<MICRO, CH>>>(d_x, d_theta, d_act, d_feat);
            loss_kernel<<<1, MICRO>>>(d_feat, d_y, d_theta, d_dlog, d_loss);
            backward<<<MICRO, CH>>>(d_x, d_act, d_feat, d_dlog, d_theta, d_grad);
        }
        norm_kernel<<<1, 128>>>(d_grad, d_norm);
        adam_clip<<<(NPARAMS + 127) / 128, 128>>>(d_theta, d_grad, d_m, d_v, d_norm, 1.0f, 0.05f, 1 - powf(0.9f, step), 1 - powf(0.99f, step));
        if (step % 10 == 0 || step == 1) {
            float loss, norm;
            cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemcpy(&norm, d_norm, sizeof(float), cudaMemcpyDeviceToHost);
            printf("step %d loss %f grad norm %f\n", step, loss, norm);
        }
    }
    free(xs); free(ys); free(xh);
    return 0;
}
