// Small softmax classifier with one hidden layer, plain C style.
// Data: 4 gaussian blobs in 16 dimensions.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define IN 16
#define HID 32
#define OUT 4
#define BATCH 64
#define SAMPLES 1024

static float h_x[SAMPLES * IN];
static int h_y[SAMPLES];
float *d_x, *w1, *w2, *g1, *g2, *hid, *dhid, *logit, *loss;
int *d_y;

static unsigned lcg = 12345;
static float frand(void)
{
    lcg = lcg * 1664525u + 1013904223u;
    return (float)(lcg >> 8) / 16777216.0f - 0.5f;
}

__global__ void forward_hidden(const float *x, const float *w, float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * HID) return;
    int r = i / HID, c = i % HID;
    float s = 0;
    for (int k = 0; k < IN; k++) s += x[r * IN + k] * w[k * HID + c];
    h[i] = s > 0 ? s : 0;
}

__global__ void forward_out(const float *h, const float *w, float *o, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * OUT) return;
    int r = i / OUT, c = i % OUT;
    float s = 0;
    for (int k = 0; k < HID; k++) s += h[r * HID + k] * w[k * OUT + c];
    o[i] = s;
}

// logits become the gradient of the mean cross entropy
__global__ void softmax_grad(float *o, const int *y, float *loss, int n, int divisor)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float m = o[r * OUT], z = 0;
    for (int c = 1; c < OUT; c++) m = fmaxf(m, o[r * OUT + c]);
    for (int c = 0; c < OUT; c++) z += expf(o[r * OUT + c] - m);
    loss[r] = logf(z) + m - o[r * OUT + y[r]];
    for (int c = 0; c < OUT; c++)
        o[r * OUT + c] = (expf(o[r * OUT + c] - m) / z - (c == y[r])) / divisor;
}

__global__ void backward_hidden(const float *go, const float *w, const float *h, float *gh, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * HID) return;
    int r = i / HID, c = i % HID;
    float s = 0;
    for (int k = 0; k < OUT; k++) s += go[r * OUT + k] * w[c * OUT + k];
    gh[i] = h[i] > 0 ? s : 0;
}

__global__ void weight_grad(const float *a, const float *g, float *gw, int n, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    float s = 0;
    for (int r = 0; r < n; r++) s += a[r * rows + i / cols] * g[r * cols + i % cols];
    gw[i] = s;
}

__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 40;
    for (int i = 0; i < SAMPLES; i++) {
        h_y[i] = i % OUT;
        for (int k = 0; k < IN; k++)
            h_x[i * IN + k] = frand() * 2 + ((k / 4) == h_y[i] ? 0.6f : 0.0f);
    }
    static float init[IN * HID];
    cudaMalloc(&d_x, sizeof(h_x)); cudaMalloc(&d_y, sizeof(h_y));
    cudaMalloc(&w1, IN * HID * 4); cudaMalloc(&g1, IN * HID * 4);
    cudaMalloc(&w2, HID * OUT * 4); cudaMalloc(&g2, HID * OUT * 4);
    cudaMalloc(&hid, BATCH * HID * 4); cudaMalloc(&dhid, BATCH * HID * 4);
    cudaMalloc(&logit, BATCH * OUT * 4); cudaMalloc(&loss, BATCH * 4);
    cudaMemcpy(d_x, h_x, sizeof(h_x), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, h_y, sizeof(h_y), cudaMemcpyHostToDevice);
    for (int i = 0; i < IN * HID; i++) init[i] = frand() * 0.6f;
    cudaMemcpy(w1, init, IN * HID * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < HID * OUT; i++) init[i] = frand() * 0.4f;
    cudaMemcpy(w2, init, HID * OUT * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(w1, IN * HID, DDP_FLOAT32);
    DDP_PARAMETER(w2, HID * OUT, DDP_FLOAT32);
    DDP_GRADIENT(g1, IN * HID, DDP_FLOAT32);
    DDP_GRADIENT(g2, HID * OUT, DDP_FLOAT32);

    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const float *x = d_x + ((s * BATCH) % SAMPLES + first) * IN;
        const int *y = d_y + (s * BATCH) % SAMPLES + first;
        forward_hidden<<<(n * HID + 127) / 128, 128>>>(x, w1, hid, n);
        forward_out<<<(n * OUT + 127) / 128, 128>>>(hid, w2, logit, n);
        softmax_grad<<<1, BATCH>>>(logit, y, loss, n, BATCH);
        weight_grad<<<1, HID * OUT>>>(hid, logit, g2, n, HID, OUT);
        backward_hidden<<<(n * HID + 127) / 128, 128>>>(logit, w2, hid, dhid, n);
        weight_grad<<<4, IN * HID / 4>>>(x, dhid, g1, n, IN, HID);
        DDP_STEP(0);
        sgd<<<4, IN * HID / 4>>>(w1, g1, 0.5f, IN * HID);
        sgd<<<1, HID * OUT>>>(w2, g2, 0.5f, HID * OUT);
        if (s % 10 == 0 || s == steps - 1) {
            float l[BATCH], sum = 0;
            cudaMemcpy(l, loss, n * 4, cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; i++) sum += l[i];
            sum /= n;
            DDP_MEAN(&sum);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, sum);
        }
    }
    return 0;
}
