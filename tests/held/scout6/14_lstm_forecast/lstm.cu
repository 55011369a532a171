// LSTM that forecasts the next value of a noisy periodic series ("energy consumption").
// All parameters live in one block of memory, and so do all gradients and Adam's moments.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#ifndef BATCH_SIZE
#define BATCH_SIZE 32
#endif
#ifndef WINDOW
#define WINDOW 12
#endif
#define HID 24
#define SERIES 3000
#define STEPS 120

// offsets in the block: input weights, recurrent weights and bias of the gates i f g o, then the output layer
#define OFF_WX 0
#define OFF_WH (OFF_WX + 4 * HID)
#define OFF_B  (OFF_WH + 4 * HID * HID)
#define OFF_WO (OFF_B + 4 * HID)
#define OFF_BO (OFF_WO + HID)
#define NPARAM (OFF_BO + 1)

typedef struct {
    float *params, *grads, *adam_m, *adam_v;
    float *series;
    int *starts;             // BATCH_SIZE starts of windows
    float *gates, *cell, *h; // [WINDOW][B][4H], [WINDOW+1][B][H], [WINDOW+1][B][H]
    float *dgates, *dc, *dh, *sqerr;
} Lstm;

__device__ static float sig(float x) { return 1.0f / (1.0f + expf(-x)); }

__global__ void lstm_step(const float *params, const float *series, const int *starts, int t, const float *h_in,
                          const float *c_in, float *gates, float *c_out, float *h_out)
{
    int b = blockIdx.x, k = threadIdx.x;
    float x = series[starts[b] + t];
    float a[4];
    for (int g = 0; g < 4; g++) {
        int row = g * HID + k;
        float s = params[OFF_B + row] + params[OFF_WX + row] * x;
        for (int j = 0; j < HID; j++)
            s += params[OFF_WH + row * HID + j] * h_in[b * HID + j];
        a[g] = g == 2 ? tanhf(s) : sig(s);
        gates[b * 4 * HID + row] = a[g];
    }
    float c = a[1] * c_in[b * HID + k] + a[0] * a[2];
    c_out[b * HID + k] = c;
    h_out[b * HID + k] = a[3] * tanhf(c);
}

// the mean squared error, and the gradients of the output layer; one block of HID threads
__global__ void output_layer(const float *params, float *grads, const float *series, const int *starts, const float *h,
                             float *dh, float *sqerr)
{
    __shared__ float err[BATCH_SIZE];
    int k = threadIdx.x;
    for (int b = k; b < BATCH_SIZE; b += HID) {
        float y = params[OFF_BO];
        for (int j = 0; j < HID; j++)
            y += params[OFF_WO + j] * h[b * HID + j];
        err[b] = y - series[starts[b] + WINDOW];
        sqerr[b] = err[b] * err[b];
    }
    __syncthreads();
    float s = 0, sb = 0;
    for (int b = 0; b < BATCH_SIZE; b++) {
        float d = 2.0f * err[b] / BATCH_SIZE;
        s += d * h[b * HID + k];
        sb += d;
        dh[b * HID + k] = d * params[OFF_WO + k];
    }
    grads[OFF_WO + k] = s;
    if (k == 0)
        grads[OFF_BO] = sb;
}

__global__ void lstm_step_back(const float *params, const float *gates, const float *c_in, const float *c_out, float *dgates,
                               float *dc, float *dh)
{
    __shared__ float dg[4 * HID];
    int b = blockIdx.x, k = threadIdx.x;
    const float *a = gates + b * 4 * HID;
    float i = a[k], f = a[HID + k], g = a[2 * HID + k], o = a[3 * HID + k];
    float tc = tanhf(c_out[b * HID + k]);
    float dhk = dh[b * HID + k];
    float dck = dc[b * HID + k] + dhk * o * (1 - tc * tc);
    dg[k] = dck * g * i * (1 - i);
    dg[HID + k] = dck * c_in[b * HID + k] * f * (1 - f);
    dg[2 * HID + k] = dck * i * (1 - g * g);
    dg[3 * HID + k] = dhk * tc * o * (1 - o);
    dc[b * HID + k] = dck * f;
    __syncthreads();
    float s = 0;
    for (int row = 0; row < 4 * HID; row++)
        s += params[OFF_WH + row * HID + k] * dg[row];
    dh[b * HID + k] = s;
    for (int q = 0; q < 4; q++)
        dgates[b * 4 * HID + q * HID + k] = dg[q * HID + k];
}

__global__ void accumulate_grads(float *grads, const float *dgates, const float *h_in, const float *series, const int *starts,
                                 int t)
{
    int row = blockIdx.x, j = threadIdx.x;
    float s = 0, sx = 0, sb = 0;
    for (int b = 0; b < BATCH_SIZE; b++) {
        float d = dgates[b * 4 * HID + row];
        s += d * h_in[b * HID + j];
        sx += d * series[starts[b] + t];
        sb += d;
    }
    grads[OFF_WH + row * HID + j] += s;
    if (j == 0) {
        grads[OFF_WX + row] += sx;
        grads[OFF_B + row] += sb;
    }
}

__global__ void adam_update(float *p, const float *g, float *m, float *v, float lr, float b1t, float b2t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NPARAM)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= lr * (m[i] / (1 - b1t)) / (sqrtf(v[i] / (1 - b2t)) + 1e-8f);
}

static void *gpu(size_t bytes)
{
    void *p;
    if (cudaMalloc(&p, bytes) != cudaSuccess) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    cudaMemset(p, 0, bytes);
    return p;
}

int main()
{
    const int BH = BATCH_SIZE * HID;
    Lstm L;
    L.params = (float *)gpu(NPARAM * sizeof(float));
    L.grads = (float *)gpu(NPARAM * sizeof(float));
    L.adam_m = (float *)gpu(NPARAM * sizeof(float));
    L.adam_v = (float *)gpu(NPARAM * sizeof(float));
    L.series = (float *)gpu(SERIES * sizeof(float));
    L.starts = (int *)gpu(BATCH_SIZE * sizeof(int));
    L.gates = (float *)gpu(WINDOW * 4 * BH * sizeof(float));
    L.cell = (float *)gpu((WINDOW + 1) * BH * sizeof(float));
    L.h = (float *)gpu((WINDOW + 1) * BH * sizeof(float));
    L.dgates = (float *)gpu(4 * BH * sizeof(float));
    L.dc = (float *)gpu(BH * sizeof(float));
    L.dh = (float *)gpu(BH * sizeof(float));
    L.sqerr = (float *)gpu(BATCH_SIZE * sizeof(float));

    srand(77);
    float series[SERIES], init[NPARAM];
    for (int i = 0; i < SERIES; i++)
        series[i] = 0.6f * sinf(0.26f * i) + 0.3f * sinf(0.061f * i + 1) + 0.05f * (rand() / (float)RAND_MAX - 0.5f);
    for (int i = 0; i < NPARAM; i++)
        init[i] = (rand() / (float)RAND_MAX - 0.5f) * 2 / sqrtf(HID);
    for (int k = 0; k < HID; k++)
        init[OFF_B + HID + k] = 1.0f;     // forget gate
    cudaMemcpy(L.series, series, sizeof series, cudaMemcpyHostToDevice);
    cudaMemcpy(L.params, init, sizeof init, cudaMemcpyHostToDevice);

    int starts[BATCH_SIZE];
    float sqerr[BATCH_SIZE];
    float b1t = 1, b2t = 1, avg = 0;
    for (int step = 1; step <= STEPS; step++) {
        for (int b = 0; b < BATCH_SIZE; b++)
            starts[b] = rand() % (SERIES - WINDOW);
        cudaMemcpy(L.starts, starts, sizeof starts, cudaMemcpyHostToDevice);

        for (int t = 0; t < WINDOW; t++)
            lstm_step<<<BATCH_SIZE, HID>>>(L.params, L.series, L.starts, t, L.h + t * BH, L.cell + t * BH,
                                           L.gates + t * 4 * BH, L.cell + (t + 1) * BH, L.h + (t + 1) * BH);
        cudaMemset(L.grads, 0, NPARAM * sizeof(float));
        cudaMemset(L.dc, 0, BH * sizeof(float));
        output_layer<<<1, HID>>>(L.params, L.grads, L.series, L.starts, L.h + WINDOW * BH, L.dh, L.sqerr);
        for (int t = WINDOW - 1; t >= 0; t--) {
            lstm_step_back<<<BATCH_SIZE, HID>>>(L.params, L.gates + t * 4 * BH, L.cell + t * BH, L.cell + (t + 1) * BH,
                                                L.dgates, L.dc, L.dh);
            accumulate_grads<<<4 * HID, HID>>>(L.grads, L.dgates, L.h + t * BH, L.series, L.starts, t);
        }
        b1t *= 0.9f;
        b2t *= 0.999f;
        float lr = step <= 80 ? 0.01f : 0.003f;
        adam_update<<<(NPARAM + 255) / 256, 256>>>(L.params, L.grads, L.adam_m, L.adam_v, lr, b1t, b2t);

        cudaMemcpy(sqerr, L.sqerr, sizeof sqerr, cudaMemcpyDeviceToHost);
        for (int b = 0; b < BATCH_SIZE; b++)
            avg += sqerr[b] / BATCH_SIZE;
        if (step % 20 == 0) {
            printf("step %d/%d mse %.5f\n", step, STEPS, avg / 20);
            avg = 0;
        }
    }
    return 0;
}
