#include "rnn.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define B BATCH_SIZE
#define H HIDDEN

__global__ static void step_hidden(const int *in, const float *Wxh, const float *Whh, const float *bh, const float *hprev, float *h)
{
    int b = blockIdx.x, j = threadIdx.x;
    float s = bh[j] + Wxh[in[b] * H + j];
    for (int k = 0; k < H; k++)
        s += Whh[k * H + j] * hprev[b * H + k];
    h[b * H + j] = tanhf(s);
}

__global__ static void step_output(const float *h, const float *Why, const float *by, const int *out, float *p, float *dy, float *loss, int V)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float mx = -1e30f, sum = 0;
    for (int v = 0; v < V; v++) {
        float s = by[v];
        for (int k = 0; k < H; k++) s += Why[k * V + v] * h[b * H + k];
        p[b * V + v] = s;
        mx = fmaxf(mx, s);
    }
    for (int v = 0; v < V; v++) sum += expf(p[b * V + v] - mx);
    for (int v = 0; v < V; v++) {
        float q = expf(p[b * V + v] - mx) / sum;
        if (v == out[b]) atomicAdd(loss, -logf(q));
        dy[b * V + v] = q - (v == out[b] ? 1.0f : 0.0f);
    }
}

__global__ static void back_output(const float *h, const float *dy, float *dWhy, float *dby, int V)
{
    int k = blockIdx.x, v = threadIdx.x;      /* block H is the bias */
    float s = 0;
    for (int b = 0; b < B; b++)
        s += dy[b * V + v] * (k < H ? h[b * H + k] : 1.0f);
    if (k < H) dWhy[k * V + v] += s;
    else dby[v] += s;
}

__global__ static void back_hidden(const float *h, const float *dy, const float *Why, const float *Whh, float *draw, int last, int V)
{
    __shared__ float next[H];
    int b = blockIdx.x, j = threadIdx.x;
    float s = 0;
    next[j] = last ? 0 : draw[b * H + j];
    __syncthreads();
    for (int v = 0; v < V; v++) s += Why[j * V + v] * dy[b * V + v];
    for (int k = 0; k < H; k++) s += Whh[j * H + k] * next[k];
    draw[b * H + j] = s * (1 - h[b * H + j] * h[b * H + j]);
}

__global__ static void back_weights(const int *in, const float *hprev, const float *draw, float *dWxh, float *dWhh, float *dbh)
{
    int k = blockIdx.x, j = threadIdx.x;
    float s = 0;
    if (k < H) {
        for (int b = 0; b < B; b++) s += hprev[b * H + k] * draw[b * H + j];
        dWhh[k * H + j] += s;
    } else {
        for (int b = 0; b < B; b++) {
            s += draw[b * H + j];
            dWxh[in[b] * H + j] += draw[b * H + j];
        }
        dbh[j] += s;
    }
}

__global__ static void adagrad(float *w, const float *dw, float *mem, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float g = dw[i] > 5 ? 5 : dw[i] < -5 ? -5 : dw[i];      /* clip to mitigate exploding gradients */
        mem[i] += g * g;
        w[i] -= rate * g / sqrtf(mem[i] + 1e-8f);
    }
}

void rnn_create(struct rnn *r, int V)
{
    int sizes[5] = {V * H, H * H, H * V, H, V};
    r->vocab = V;
    for (int k = 0; k < 5; k++) {
        int n = r->size[k] = sizes[k];
        float *tmp = (float *)calloc(n, sizeof(float));
        if (k < 3)
            for (int i = 0; i < n; i++) tmp[i] = (rand() / (float)RAND_MAX - 0.5f) * 0.2f;
        cudaMalloc((void **)&r->w[k], n * sizeof(float));
        cudaMalloc((void **)&r->dw[k], n * sizeof(float));
        cudaMalloc((void **)&r->mem[k], n * sizeof(float));
        cudaMemcpy(r->w[k], tmp, n * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(r->mem[k], 0, n * sizeof(float));
        free(tmp);
    }
    cudaMalloc((void **)&r->h, (SEQ_LENGTH + 1) * B * H * sizeof(float));
    cudaMalloc((void **)&r->p, B * V * sizeof(float));
    cudaMalloc((void **)&r->dy, SEQ_LENGTH * B * V * sizeof(float));
    cudaMalloc((void **)&r->draw, B * H * sizeof(float));
    cudaMalloc((void **)&r->loss, sizeof(float));
    cudaMalloc((void **)&r->in, SEQ_LENGTH * B * sizeof(int));
    cudaMalloc((void **)&r->out, SEQ_LENGTH * B * sizeof(int));
    cudaMemset(r->h, 0, (SEQ_LENGTH + 1) * B * H * sizeof(float));
    r->dh = NULL;
}

void rnn_destroy(struct rnn *r)
{
    for (int k = 0; k < 5; k++) {
        cudaFree(r->w[k]);
        cudaFree(r->dw[k]);
        cudaFree(r->mem[k]);
    }
    cudaFree(r->h); cudaFree(r->p); cudaFree(r->dy); cudaFree(r->draw); cudaFree(r->loss); cudaFree(r->in); cudaFree(r->out);
}

/* inputs, targets: [SEQ_LENGTH][BATCH_SIZE]; returns the summed loss */
float rnn_lossfun(struct rnn *r, const int *inputs, const int *targets)
{
    int V = r->vocab;
    float loss = 0;
    cudaMemcpy(r->in, inputs, SEQ_LENGTH * B * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(r->out, targets, SEQ_LENGTH * B * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(r->loss, 0, sizeof(float));
    cudaMemcpy(r->h, r->h + SEQ_LENGTH * B * H, B * H * sizeof(float), cudaMemcpyDeviceToDevice);
    for (int t = 0; t < SEQ_LENGTH; t++) {
        step_hidden<<<B, H>>>(r->in + t * B, r->w[0], r->w[1], r->w[3], r->h + t * B * H, r->h + (t + 1) * B * H);
        step_output<<<1, B>>>(r->h + (t + 1) * B * H, r->w[2], r->w[4], r->out + t * B, r->p, r->dy + t * B * V, r->loss, V);
    }
    for (int k = 0; k < 5; k++)
        cudaMemset(r->dw[k], 0, r->size[k] * sizeof(float));
    for (int t = SEQ_LENGTH - 1; t >= 0; t--) {
        back_output<<<H + 1, V>>>(r->h + (t + 1) * B * H, r->dy + t * B * V, r->dw[2], r->dw[4], V);
        back_hidden<<<B, H>>>(r->h + (t + 1) * B * H, r->dy + t * B * V, r->w[2], r->w[1], r->draw, t == SEQ_LENGTH - 1, V);
        back_weights<<<H + 1, H>>>(r->in + t * B, r->h + t * B * H, r->draw, r->dw[0], r->dw[1], r->dw[3]);
    }
    cudaMemcpy(&loss, r->loss, sizeof(float), cudaMemcpyDeviceToHost);
    return loss;
}

void rnn_adagrad(struct rnn *r, float learning_rate)
{
    for (int k = 0; k < 5; k++)
        adagrad<<<(r->size[k] + 63) / 64, 64>>>(r->w[k], r->dw[k], r->mem[k], r->size[k], learning_rate);
}
