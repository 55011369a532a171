/* Two-layer perceptron on Gaussian blobs. Plain C style, everything global. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <cuda_runtime.h>

#define NIN    16
#define NHID   32
#define NOUT   4
#define BATCH  64
#define NTRAIN 2048
#define EPOCHS 6
#define LR     0.1f

static float train_x[NTRAIN * NIN];
static int   train_y[NTRAIN];

static float *d_x, *d_h, *d_p, *d_dz, *d_dh, *d_loss;
static int   *d_y;
static float *d_w1, *d_b1, *d_w2, *d_b2;
static float *d_gw1, *d_gb1, *d_gw2, *d_gb2;

static unsigned int lcg_state = 12345u;
static float frand(void)
{
    lcg_state = lcg_state * 1664525u + 1013904223u;
    return (float)(lcg_state >> 8) / 16777216.0f;
}
static float gauss(void)
{
    float s = 0;
    for (int i = 0; i < 12; i++) s += frand();
    return s - 6.0f;
}

__global__ void fwd_hidden(const float *x, const float *w, const float *b, float *h)
{
    int n = blockIdx.x, j = threadIdx.x;
    float s = b[j];
    for (int i = 0; i < NIN; i++) s += x[n * NIN + i] * w[i * NHID + j];
    h[n * NHID + j] = s > 0 ? s : 0;
}

/* one thread per sample: logits, softmax, loss, gradient at the logits */
__global__ void fwd_out(const float *h, const float *w, const float *b, const int *y,
                        float *p, float *dz, float *loss)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= BATCH) return;
    float z[NOUT], mx = -1e30f, sum = 0;
    for (int k = 0; k < NOUT; k++) {
        float s = b[k];
        for (int j = 0; j < NHID; j++) s += h[n * NHID + j] * w[j * NOUT + k];
        z[k] = s;
        if (s > mx) mx = s;
    }
    for (int k = 0; k < NOUT; k++) { z[k] = expf(z[k] - mx); sum += z[k]; }
    for (int k = 0; k < NOUT; k++) {
        p[n * NOUT + k] = z[k] / sum;
        dz[n * NOUT + k] = (z[k] / sum - (k == y[n] ? 1.0f : 0.0f)) / BATCH;
    }
    loss[n] = -logf(z[y[n]] / sum + 1e-9f);
}

__global__ void grad_out(const float *h, const float *dz, float *gw, float *gb)
{
    int j = blockIdx.x, k = threadIdx.x;
    float s = 0, t = 0;
    for (int n = 0; n < BATCH; n++) {
        s += h[n * NHID + j] * dz[n * NOUT + k];
        t += dz[n * NOUT + k];
    }
    gw[j * NOUT + k] = s;
    if (j == 0) gb[k] = t;
}

__global__ void back_hidden(const float *dz, const float *w, const float *h, float *dh)
{
    int n = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int k = 0; k < NOUT; k++) s += dz[n * NOUT + k] * w[j * NOUT + k];
    dh[n * NHID + j] = h[n * NHID + j] > 0 ? s : 0;
}

__global__ void grad_hidden(const float *x, const float *dh, float *gw, float *gb)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = 0, t = 0;
    for (int n = 0; n < BATCH; n++) {
        s += x[n * NIN + i] * dh[n * NHID + j];
        t += dh[n * NHID + j];
    }
    gw[i * NHID + j] = s;
    if (i == 0) gb[j] = t;
}

__global__ void sgd(float *w, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

static float *dev(int n)
{
    float *p;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) {
        fprintf(stderr, "out of device memory\n");
        exit(1);
    }
    return p;
}

static void init_weights(float *d, int n, float scale)
{
    float *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = scale * gauss();
    cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
}

static void make_data(void)
{
    float centre[NOUT][NIN];
    for (int k = 0; k < NOUT; k++)
        for (int i = 0; i < NIN; i++) centre[k][i] = gauss();
    for (int n = 0; n < NTRAIN; n++) {
        train_y[n] = (int)(frand() * NOUT);
        for (int i = 0; i < NIN; i++) train_x[n * NIN + i] = centre[train_y[n]][i] + 1.2f * gauss();
    }
}

int main(void)
{
    make_data();

    d_x = dev(BATCH * NIN);   d_h = dev(BATCH * NHID);  d_p = dev(BATCH * NOUT);
    d_dz = dev(BATCH * NOUT); d_dh = dev(BATCH * NHID); d_loss = dev(BATCH);
    cudaMalloc((void **)&d_y, BATCH * sizeof(int));

    d_w1 = dev(NIN * NHID);  d_gw1 = dev(NIN * NHID);
    d_b1 = dev(NHID);        d_gb1 = dev(NHID);
    d_w2 = dev(NHID * NOUT); d_gw2 = dev(NHID * NOUT);
    d_b2 = dev(NOUT);        d_gb2 = dev(NOUT);
    init_weights(d_w1, NIN * NHID, sqrtf(2.0f / NIN));
    init_weights(d_w2, NHID * NOUT, sqrtf(2.0f / NHID));
    cudaMemset(d_b1, 0, NHID * sizeof(float));
    cudaMemset(d_b2, 0, NOUT * sizeof(float));

    float h_loss[BATCH];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double total = 0;
        int steps = NTRAIN / BATCH;
        for (int s = 0; s < steps; s++) {
            cudaMemcpy(d_x, train_x + s * BATCH * NIN, BATCH * NIN * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(d_y, train_y + s * BATCH, BATCH * sizeof(int), cudaMemcpyHostToDevice);

            fwd_hidden<<<BATCH, NHID>>>(d_x, d_w1, d_b1, d_h);
            fwd_out<<<(BATCH + 31) / 32, 32>>>(d_h, d_w2, d_b2, d_y, d_p, d_dz, d_loss);

            grad_out<<<NHID, NOUT>>>(d_h, d_dz, d_gw2, d_gb2);
            back_hidden<<<BATCH, NHID>>>(d_dz, d_w2, d_h, d_dh);
            grad_hidden<<<NIN, NHID>>>(d_x, d_dh, d_gw1, d_gb1);

            sgd<<<(NIN * NHID + 127) / 128, 128>>>(d_w1, d_gw1, NIN * NHID, LR);
            sgd<<<1, NHID>>>(d_b1, d_gb1, NHID, LR);
            sgd<<<(NHID * NOUT + 127) / 128, 128>>>(d_w2, d_gw2, NHID * NOUT, LR);
            sgd<<<1, NOUT>>>(d_b2, d_gb2, NOUT, LR);

            cudaMemcpy(h_loss, d_loss, sizeof h_loss, cudaMemcpyDeviceToHost);
            for (int n = 0; n < BATCH; n++) total += h_loss[n];
        }
        printf("epoch %d loss %.5f\n", epoch + 1, total / (steps * BATCH));
    }

    float *w = (float *)malloc(NIN * NHID * sizeof(float));
    cudaMemcpy(w, d_w1, NIN * NHID * sizeof(float), cudaMemcpyDeviceToHost);
    FILE *f = fopen("weights.bin", "wb");
    if (f) { fwrite(w, sizeof(float), NIN * NHID, f); fclose(f); }
    free(w);
    return 0;
}
