/* Shared trunk with a classification head and a regression head.
   Gradients of two micro-batches are added up before each Adagrad update.
   Parameters, gradients and activations are __device__ arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cuda_runtime.h>

#define NIN 8
#define NHID 20
#define NCLS 3
#define MICRO 16
#define ACCUM 2
#define NDATA 640
#define EPOCHS 4
#define REG_WEIGHT 0.5f

#define OFF_TW 0
#define OFF_TB (OFF_TW + NIN * NHID)
#define OFF_CW (OFF_TB + NHID)
#define OFF_CB (OFF_CW + NHID * NCLS)
#define OFF_RW (OFF_CB + NCLS)
#define OFF_RB (OFF_RW + NHID)
#define NPAR (OFF_RB + 1)

__device__ float params[NPAR];
__device__ float grads[NPAR];
__device__ float history[NPAR];
__device__ float data_x[NDATA * NIN];
__device__ float data_r[NDATA];
__device__ int data_c[NDATA];
__device__ float hid[MICRO * NHID];
__device__ float dhid[MICRO * NHID];
__device__ float dcls[MICRO * NCLS];
__device__ float dreg[MICRO];
__device__ float loss_out[2];

static void check(cudaError_t err, int line)
{
    if (err != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(err));
        exit(EXIT_FAILURE);
    }
}
#define CHECK(e) check((e), __LINE__)

__global__ void trunk_forward(int first)
{
    int n = blockIdx.x, j = threadIdx.x;
    const float *x = data_x + (first + n) * NIN;
    float s = params[OFF_TB + j];
    for (int i = 0; i < NIN; i++) s += x[i] * params[OFF_TW + i * NHID + j];
    hid[n * NHID + j] = tanhf(s);
}

/* One thread per row; both losses are divided by the whole effective batch. */
__global__ void heads(int first)
{
    __shared__ float lc[MICRO], lr[MICRO];
    int n = threadIdx.x;
    const float *h = hid + n * NHID;
    float z[NCLS], m, sum = 0.0f, r = params[OFF_RB];
    const float inv = 1.0f / (MICRO * ACCUM);
    for (int c = 0; c < NCLS; c++) {
        z[c] = params[OFF_CB + c];
        for (int j = 0; j < NHID; j++) z[c] += h[j] * params[OFF_CW + j * NCLS + c];
    }
    for (int j = 0; j < NHID; j++) r += h[j] * params[OFF_RW + j];
    m = fmaxf(z[0], fmaxf(z[1], z[2]));
    for (int c = 0; c < NCLS; c++) sum += expf(z[c] - m);
    int label = data_c[first + n];
    for (int c = 0; c < NCLS; c++) dcls[n * NCLS + c] = (expf(z[c] - m) / sum - (c == label ? 1.0f : 0.0f)) * inv;
    float e = r - data_r[first + n];
    dreg[n] = REG_WEIGHT * 2.0f * e * inv;
    lc[n] = logf(sum) + m - z[label];
    lr[n] = e * e;
    for (int j = 0; j < NHID; j++) {
        float d = dreg[n] * params[OFF_RW + j];
        for (int c = 0; c < NCLS; c++) d += dcls[n * NCLS + c] * params[OFF_CW + j * NCLS + c];
        dhid[n * NHID + j] = d * (1.0f - h[j] * h[j]);
    }
    __syncthreads();
    if (n == 0) {
        for (int i = 0; i < MICRO; i++) {
            loss_out[0] += lc[i];
            loss_out[1] += lr[i];
        }
    }
}

__global__ void add_gradients(int first)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= NPAR) return;
    float s = 0.0f;
    for (int n = 0; n < MICRO; n++) {
        if (p < OFF_TB) s += data_x[(first + n) * NIN + p / NHID] * dhid[n * NHID + p % NHID];
        else if (p < OFF_CW) s += dhid[n * NHID + p - OFF_TB];
        else if (p < OFF_CB) s += hid[n * NHID + (p - OFF_CW) / NCLS] * dcls[n * NCLS + (p - OFF_CW) % NCLS];
        else if (p < OFF_RW) s += dcls[n * NCLS + p - OFF_CB];
        else if (p < OFF_RB) s += hid[n * NHID + p - OFF_RW] * dreg[n];
        else s += dreg[n];
    }
    grads[p] += s;
}

__global__ void adagrad(float lr)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= NPAR) return;
    float g = grads[p];
    history[p] += g * g;
    params[p] -= lr * g / (sqrtf(history[p]) + 1e-6f);
    grads[p] = 0.0f;
}

static unsigned long rng = 424242UL;
static float rand01(void)
{
    rng = (rng * 69069UL + 1UL) & 0xffffffffUL;
    return (float)(rng >> 8) / 16777216.0f;
}

static float hx[NDATA * NIN], hr[NDATA], hp[NPAR];
static int hc[NDATA];

static void generate(void)
{
    for (int n = 0; n < NDATA; n++) {
        float *x = hx + n * NIN;
        for (int i = 0; i < NIN; i++) x[i] = 2.0f * rand01() - 1.0f;
        float s = x[0] + x[1] - x[2];
        hc[n] = s < -0.4f ? 0 : s < 0.4f ? 1 : 2;
        hr[n] = sinf(2.0f * s) + 0.5f * x[3] + 0.05f * (rand01() - 0.5f);
    }
    for (int p = 0; p < OFF_TB; p++) hp[p] = 1.2f * (rand01() - 0.5f);
    for (int p = OFF_CW; p < OFF_CB; p++) hp[p] = 0.6f * (rand01() - 0.5f);
    for (int p = OFF_RW; p < OFF_RB; p++) hp[p] = 0.6f * (rand01() - 0.5f);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "weights.bin";
    const int blocks = (NPAR + 63) / 64;
    float losses[2];
    generate();
    CHECK(cudaMemcpyToSymbol(data_x, hx, sizeof(hx)));
    CHECK(cudaMemcpyToSymbol(data_r, hr, sizeof(hr)));
    CHECK(cudaMemcpyToSymbol(data_c, hc, sizeof(hc)));
    CHECK(cudaMemcpyToSymbol(params, hp, sizeof(hp)));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        memset(losses, 0, sizeof(losses));
        CHECK(cudaMemcpyToSymbol(loss_out, losses, sizeof(losses)));
        for (int start = 0; start < NDATA; start += MICRO * ACCUM) {
            for (int k = 0; k < ACCUM; k++) {
                int first = start + k * MICRO;
                trunk_forward<<<MICRO, NHID>>>(first);
                heads<<<1, MICRO>>>(first);
                add_gradients<<<blocks, 64>>>(first);
            }
            adagrad<<<blocks, 64>>>(0.1f);
            CHECK(cudaGetLastError());
        }
        CHECK(cudaMemcpyFromSymbol(losses, loss_out, sizeof(losses)));
        printf("epoch %d: class loss %.4f, regression loss %.4f\n", epoch + 1, losses[0] / NDATA, losses[1] / NDATA);
    }
    CHECK(cudaMemcpyFromSymbol(hp, params, sizeof(hp)));
    FILE *f = fopen(name, "wb");
    if (!f) {
        perror(name);
        return EXIT_FAILURE;
    }
    fwrite(hp, sizeof(float), NPAR, f);
    fclose(f);
    return EXIT_SUCCESS;
}
