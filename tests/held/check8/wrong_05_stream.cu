// A character model on endless streams: Elman network, truncated backpropagation through time. Each lane of the batch
// reads one stream; a chunk begins with the hidden state in which the lane's last chunk ended.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

enum { VOCAB = 10, HID = 28, LANES = 24, CHUNK = 4, STEPS = 60 };

static void die_unless(int ok, const char *where)
{
    if (!ok) {
        fprintf(stderr, "failed: %s (%s)\n", where, cudaGetErrorString(cudaGetLastError()));
        exit(3);
    }
}

static float *alloc_f(size_t n)
{
    float *p = NULL;
    die_unless(cudaMalloc((void **)&p, n * sizeof(float)) == cudaSuccess, "alloc");
    die_unless(cudaMemset(p, 0, n * sizeof(float)) == cudaSuccess, "clear");
    return p;
}

typedef struct {
    float *emb;  /* VOCAB x HID */
    float *rec;  /* HID x HID */
    float *bias; /* HID */
    float *out;  /* HID x VOCAB */
} Weights;

/* One block a lane, one thread a hidden unit. h holds CHUNK + 1 states of each lane. */
__global__ void unroll(Weights w, const int *text, const float *carry, float *h)
{
    int lane = blockIdx.x, j = threadIdx.x;
    float *hl = h + lane * (CHUNK + 1) * HID;
    hl[j] = carry[lane * HID + j];
    __syncthreads();
    for (int t = 0; t < CHUNK; ++t) {
        float s = w.emb[text[lane * (CHUNK + 1) + t] * HID + j] + w.bias[j];
        for (int k = 0; k < HID; ++k)
            s += hl[t * HID + k] * w.rec[k * HID + j];
        hl[(t + 1) * HID + j] = tanhf(s);
        __syncthreads();
    }
}

__global__ void predict(Weights w, const int *text, const float *h, float *dlogit, float *loss, int lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lanes * CHUNK)
        return;
    int lane = i / CHUNK, t = i % CHUNK, want = text[lane * (CHUNK + 1) + t + 1];
    const float *s = h + (lane * (CHUNK + 1) + t + 1) * HID;
    float z[VOCAB], top = -1e30f, sum = 0;
    for (int v = 0; v < VOCAB; ++v) {
        z[v] = 0;
        for (int k = 0; k < HID; ++k)
            z[v] += s[k] * w.out[k * VOCAB + v];
        top = fmaxf(top, z[v]);
    }
    for (int v = 0; v < VOCAB; ++v)
        sum += expf(z[v] - top);
    for (int v = 0; v < VOCAB; ++v)
        dlogit[i * VOCAB + v] = (expf(z[v] - top) / sum - (v == want)) / (lanes * CHUNK);
    loss[i] = top + logf(sum) - z[want];
}

/* Gradient at each pre-activation, from the last position of the chunk to the first. */
__global__ void unroll_back(Weights w, const float *h, const float *dlogit, float *da)
{
    __shared__ float next[HID];
    int lane = blockIdx.x, j = threadIdx.x;
    float dh = 0;
    for (int t = CHUNK - 1; t >= 0; --t) {
        const float *dz = dlogit + (lane * CHUNK + t) * VOCAB;
        for (int v = 0; v < VOCAB; ++v)
            dh += dz[v] * w.out[j * VOCAB + v];
        float s = h[(lane * (CHUNK + 1) + t + 1) * HID + j];
        float a = dh * (1 - s * s);
        da[(lane * CHUNK + t) * HID + j] = a;
        next[j] = a;
        __syncthreads();
        dh = 0;
        for (int k = 0; k < HID; ++k)
            dh += next[k] * w.rec[j * HID + k];
        __syncthreads();
    }
}

__global__ void grad_emb(const int *text, const float *da, Weights g, int lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= VOCAB * HID)
        return;
    int v = i / HID, j = i % HID;
    float s = 0, all = 0;
    for (int r = 0; r < lanes * CHUNK; ++r) {
        float a = da[r * HID + j];
        all += a;
        if (text[r / CHUNK * (CHUNK + 1) + r % CHUNK] == v)
            s += a;
    }
    g.emb[i] = s;
    if (v == 0)
        g.bias[j] = all;
}

__global__ void grad_rec_out(const float *h, const float *da, const float *dlogit, Weights g, int lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < HID * HID) {
        int k = i / HID, j = i % HID;
        float s = 0;
        for (int r = 0; r < lanes * CHUNK; ++r)
            s += h[(r / CHUNK * (CHUNK + 1) + r % CHUNK) * HID + k] * da[r * HID + j];
        g.rec[i] = s;
    }
    if (i < HID * VOCAB) {
        int k = i / VOCAB, v = i % VOCAB;
        float s = 0;
        for (int r = 0; r < lanes * CHUNK; ++r)
            s += h[(r / CHUNK * (CHUNK + 1) + r % CHUNK + 1) * HID + k] * dlogit[r * VOCAB + v];
        g.out[i] = s;
    }
}

__global__ void keep_last(const float *h, float *carry, int lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < lanes * HID)
        carry[i] = h[(i / HID * (CHUNK + 1) + CHUNK) * HID + i % HID];
}

__global__ void adagrad(float *w, float *acc, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    acc[i] += g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(acc[i]) + 1e-4f);
}

static unsigned seed = 99;
static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 10) % below;
}

int main(int argc, char **argv)
{
    /* The next character depends on the last one and on the one six places back: more than a chunk. */
    static int stream[LANES][STEPS * CHUNK + 8];
    for (int l = 0; l < LANES; ++l)
        for (int t = 0; t < STEPS * CHUNK + 8; ++t)
            stream[l][t] = t < 6 || rnd(12) == 0 ? (int)rnd(VOCAB)
                                                 : (stream[l][t - 1] * 3 + stream[l][t - 6] / 5 * 5 + 1) % VOCAB;

    const int n[4] = {VOCAB * HID, HID * HID, HID, HID * VOCAB};
    float *w[4], *g[4], *acc[4], *init = (float *)malloc(HID * HID * sizeof(float));
    for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < n[k]; ++i)
            init[i] = k == 2 ? 0.0f : (rnd(2001) / 1000.0f - 1.0f) * (k == 1 ? 0.25f : 0.5f);
        w[k] = alloc_f(n[k]);
        g[k] = alloc_f(n[k]);
        acc[k] = alloc_f(n[k]);
        cudaMemcpy(w[k], init, n[k] * sizeof(float), cudaMemcpyHostToDevice);
        DDP_PARAMETER(w[k], n[k], DDP_FLOAT32);
        DDP_STATE(acc[k], n[k], DDP_FLOAT32);
        DDP_GRADIENT(g[k], n[k], DDP_FLOAT32);
    }
    free(init);
    Weights weights = {w[0], w[1], w[2], w[3]}, grads = {g[0], g[1], g[2], g[3]};

    size_t first, count;
    DDP_SHARD(LANES, &first, &count);
    int lanes = (int)count;
    float *carry = alloc_f(lanes * HID), *h = alloc_f(lanes * (CHUNK + 1) * HID), *da = alloc_f(lanes * CHUNK * HID);
    float *dlogit = alloc_f(lanes * CHUNK * VOCAB), *loss = alloc_f(lanes * CHUNK);
    DDP_BUFFER(carry, lanes * HID, DDP_FLOAT32);
    int *text;
    die_unless(cudaMalloc((void **)&text, lanes * (CHUNK + 1) * sizeof(int)) == cudaSuccess, "text");

    for (int step = 0; step < STEPS; ++step) {
        int chunk[LANES * (CHUNK + 1)];
        for (int l = 0; l < lanes; ++l)
            memcpy(chunk + l * (CHUNK + 1), &stream[first + l][step * CHUNK], (CHUNK + 1) * sizeof(int));
        cudaMemcpy(text, chunk, lanes * (CHUNK + 1) * sizeof(int), cudaMemcpyHostToDevice);

        unroll<<<lanes, HID>>>(weights, text, carry, h);
        predict<<<(lanes * CHUNK + 63) / 64, 64>>>(weights, text, h, dlogit, loss, lanes);
        keep_last<<<(lanes * HID + 63) / 64, 64>>>(h, carry, lanes);
        unroll_back<<<lanes, HID>>>(weights, h, dlogit, da);
        grad_emb<<<(VOCAB * HID + 63) / 64, 64>>>(text, da, grads, lanes);
        grad_rec_out<<<(HID * HID + 63) / 64, 64>>>(h, da, dlogit, grads, lanes);
        DDP_STEP(0);
        for (int k = 0; k < 4; ++k)
            adagrad<<<(n[k] + 63) / 64, 64>>>(w[k], acc[k], g[k], n[k], 0.08f);

        if (step % 12 == 0 || step == STEPS - 1) {
            float l[LANES * CHUNK], mean = 0;
            cudaMemcpy(l, loss, lanes * CHUNK * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < lanes * CHUNK; ++i)
                mean += l[i] / (lanes * CHUNK);
            DDP_MEAN_AS("nats", &mean);
            if (DDP_RANK() == 0)
                printf("chunk %2d: %.4f nats a character\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        float *save = (float *)malloc(HID * HID * sizeof(float));
        for (int k = 0; k < 4; ++k) {
            cudaMemcpy(save, w[k], n[k] * sizeof(float), cudaMemcpyDeviceToHost);
            fwrite(save, sizeof(float), n[k], f);
        }
        free(save);
        fclose(f);
    }
    die_unless(cudaDeviceSynchronize() == cudaSuccess, "end");
    return 0;
}
