// min-char-rnn (after Karpathy), B streams in parallel, Adagrad.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>

#define V 28        // a..z, space, newline
#define H 48        // hidden size
#define T 16        // seq_length
#define B 32        // parallel streams
#define ITERS 60
#define TPB 128
#define BLOCKS(n) (((n) + TPB - 1) / TPB)

static const char *TEXT =
    "the quick brown fox jumps over the lazy dog and the lazy dog sleeps in the sun\n"
    "a quick sun rises over the brown field and the fox runs to the river in the field\n"
    "the dog sees the fox and the fox sees the dog and they run over the field together\n";

enum { WXH, WHH, WHY, BH, BY, NPARAMS };
static const int sizes[NPARAMS] = {V * H, H * H, H * V, H, V};

static float *param[NPARAMS], *grad[NPARAMS], *mem[NPARAMS];

__global__ void step_forward(const int *x, const float *Wxh, const float *Whh, const float *bh, const float *hprev, float *h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * H) return;
    int b = i / H, j = i % H;
    float s = bh[j] + Wxh[x[b] * H + j];
    for (int k = 0; k < H; k++) s += hprev[b * H + k] * Whh[k * H + j];
    h[i] = tanhf(s);
}

__global__ void output_forward(const float *h, const float *Why, const float *by, const int *target, float *dy, float *loss)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float y[V], m = -1e30f, z = 0;
    for (int v = 0; v < V; v++) {
        y[v] = by[v];
        for (int k = 0; k < H; k++) y[v] += h[b * H + k] * Why[k * V + v];
        m = fmaxf(m, y[v]);
    }
    for (int v = 0; v < V; v++) z += expf(y[v] - m);
    for (int v = 0; v < V; v++)
        dy[b * V + v] = (expf(y[v] - m) / z - (v == target[b])) / (B * T);
    atomicAdd(loss, -(y[target[b]] - m - logf(z)) / (B * T));
}

__global__ void back_output(const float *h, const float *dy, float *dWhy, float *dby)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= H * V) return;
    int k = i / V, v = i % V;
    float s = 0, sb = 0;
    for (int b = 0; b < B; b++) { s += h[b * H + k] * dy[b * V + v]; sb += dy[b * V + v]; }
    dWhy[i] += s;
    if (k == 0) dby[v] += sb;
}

// dpre = (Why dy + dhnext) * (1 - h^2)
__global__ void back_hidden(const float *dy, const float *Why, const float *dhnext, const float *h, float *dpre)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * H) return;
    int b = i / H, k = i % H;
    float s = dhnext[i];
    for (int v = 0; v < V; v++) s += Why[k * V + v] * dy[b * V + v];
    dpre[i] = s * (1 - h[i] * h[i]);
}

__global__ void back_recurrent(const int *x, const float *hprev, const float *dpre, float *dWxh, float *dWhh, float *dbh)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= H * H) return;
    int k = i / H, j = i % H;
    float s = 0;
    for (int b = 0; b < B; b++) s += hprev[b * H + k] * dpre[b * H + j];
    dWhh[i] += s;
    if (k == 0) {
        for (int b = 0; b < B; b++) {
            dWxh[x[b] * H + j] += dpre[b * H + j];
            dbh[j] += dpre[b * H + j];
        }
    }
}

__global__ void back_prev(const float *dpre, const float *Whh, float *dhnext)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * H) return;
    int b = i / H, k = i % H;
    float s = 0;
    for (int j = 0; j < H; j++) s += Whh[k * H + j] * dpre[b * H + j];
    dhnext[i] = s;
}

__global__ void adagrad(float *p, const float *g, float *m, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = fminf(fmaxf(g[i], -5.f), 5.f);
    m[i] += d * d;
    p[i] -= lr * d / sqrtf(m[i] + 1e-8f);
}

static int ix(char c) { return c == ' ' ? 26 : c == '\n' ? 27 : c - 'a'; }

int main()
{
    srand(1234);
    int len = strlen(TEXT);
    int *data = (int *)malloc(len * sizeof(int));
    for (int i = 0; i < len; i++) data[i] = ix(TEXT[i]);

    for (int p = 0; p < NPARAMS; p++) {
        float *init = (float *)calloc(sizes[p], sizeof(float));
        if (p <= WHY)
            for (int i = 0; i < sizes[p]; i++) init[i] = 0.2f * (rand() / (float)RAND_MAX - 0.5f);
        cudaMalloc(&param[p], sizes[p] * sizeof(float));
        cudaMalloc(&grad[p], sizes[p] * sizeof(float));
        cudaMalloc(&mem[p], sizes[p] * sizeof(float));
        cudaMemcpy(param[p], init, sizes[p] * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(mem[p], 0, sizes[p] * sizeof(float));
        free(init);
    }
    int *d_in;
    float *hs, *dy, *dpre, *dhnext, *d_loss;
    cudaMalloc(&d_in, (T + 1) * B * sizeof(int));
    cudaMalloc(&hs, (T + 1) * B * H * sizeof(float)); // hs[0] is the state carried over
    cudaMalloc(&dy, T * B * V * sizeof(float));
    cudaMalloc(&dpre, B * H * sizeof(float));
    cudaMalloc(&dhnext, B * H * sizeof(float));
    cudaMalloc(&d_loss, sizeof(float));
    cudaMemset(hs, 0, B * H * sizeof(float));

    int pos[B];
    for (int b = 0; b < B; b++) pos[b] = b * len / B;
    int h_in[(T + 1) * B]; // time major
    float smooth_loss = logf(V);

    for (int n = 0; n < ITERS; n++) {
        for (int b = 0; b < B; b++) {
            for (int t = 0; t <= T; t++) h_in[t * B + b] = data[(pos[b] + t) % len];
            pos[b] = (pos[b] + T) % len;
        }
        cudaMemcpy(d_in, h_in, sizeof(h_in), cudaMemcpyHostToDevice);
        cudaMemset(d_loss, 0, sizeof(float));
        for (int t = 0; t < T; t++) {
            step_forward<<<BLOCKS(B * H), TPB>>>(d_in + t * B, param[WXH], param[WHH], param[BH], hs + t * B * H, hs + (t + 1) * B * H);
            output_forward<<<1, B>>>(hs + (t + 1) * B * H, param[WHY], param[BY], d_in + (t + 1) * B, dy + t * B * V, d_loss);
        }
        for (int p = 0; p < NPARAMS; p++) cudaMemset(grad[p], 0, sizes[p] * sizeof(float));
        cudaMemset(dhnext, 0, B * H * sizeof(float));
        for (int t = T - 1; t >= 0; t--) {
            back_output<<<BLOCKS(H * V), TPB>>>(hs + (t + 1) * B * H, dy + t * B * V, grad[WHY], grad[BY]);
            back_hidden<<<BLOCKS(B * H), TPB>>>(dy + t * B * V, param[WHY], dhnext, hs + (t + 1) * B * H, dpre);
            back_recurrent<<<BLOCKS(H * H), TPB>>>(d_in + t * B, hs + t * B * H, dpre, grad[WXH], grad[WHH], grad[BH]);
            back_prev<<<BLOCKS(B * H), TPB>>>(dpre, param[WHH], dhnext);
        }
        for (int p = 0; p < NPARAMS; p++) adagrad<<<BLOCKS(sizes[p]), TPB>>>(param[p], grad[p], mem[p], 0.1f, sizes[p]);

        // carry the last hidden state to the next window
        cudaMemcpy(hs, hs + T * B * H, B * H * sizeof(float), cudaMemcpyDeviceToDevice);
        float loss;
        cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
        smooth_loss = smooth_loss * 0.9f + loss * 0.1f;
        if (n % 10 == 0 || n == ITERS - 1) printf("iter %d, loss: %f, smooth: %f\n", n, loss, smooth_loss);
    }
    return 0;
}
