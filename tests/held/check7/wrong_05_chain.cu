// Fitted Q iteration from logged transitions of a noisy grid world, with a target network.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

enum { SIDE = 5, STATES = SIDE * SIDE, ACTIONS = 4, HID = 20, LOG = 1024, BATCH = 32 };
enum { NW1 = HID * STATES, NB1 = HID, NW2 = ACTIONS * HID, NET = NW1 + NB1 + NW2 + ACTIONS };

#define OK(call)                                                                      \
    do {                                                                              \
        cudaError_t rc_ = (call);                                                     \
        if (rc_ != cudaSuccess) { printf("%s: %s\n", #call, cudaGetErrorString(rc_)); exit(1); } \
    } while (0)

typedef struct { int s, a, s2; float r; } transition;

__device__ void hidden_of(const float *net, int s, float *h)
{
    for (int j = 0; j < HID; ++j) {
        float a = net[j * STATES + s] + net[NW1 + j];
        h[j] = a > 0 ? a : 0.1f * a;
    }
}

__device__ float q_of(const float *net, const float *h, int a)
{
    const float *w2 = net + NW1 + NB1, *b2 = w2 + NW2;
    float q = b2[a];
    for (int j = 0; j < HID; ++j) q += w2[a * HID + j] * h[j];
    return q;
}

__global__ void td_error(const transition *tr, const float *net, const float *frozen, float *act, float *err, float *sq, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float h[HID];
    transition t = tr[i];
    hidden_of(frozen, t.s2, h);
    float best = q_of(frozen, h, 0);
    for (int a = 1; a < ACTIONS; ++a) best = fmaxf(best, q_of(frozen, h, a));
    float goal = t.r + 0.9f * best;
    hidden_of(net, t.s, h);
    float d = q_of(net, h, t.a) - goal;
    for (int j = 0; j < HID; ++j) act[i * HID + j] = h[j];
    sq[i] = d * d;
    err[i] = fminf(fmaxf(d, -1.f), 1.f) / n;
}

__global__ void td_gradient(const transition *tr, const float *net, const float *act, const float *err, float *g, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NET) return;
    float sum = 0;
    const float *w2 = net + NW1 + NB1;
    for (int i = 0; i < n; ++i) {
        int a = tr[i].a;
        if (k < NW1 + NB1) {
            int j = k < NW1 ? k / STATES : k - NW1;
            if (k < NW1 && k % STATES != tr[i].s) continue;
            sum += err[i] * w2[a * HID + j] * (act[i * HID + j] > 0 ? 1.f : 0.1f);
        } else if (k < NW1 + NB1 + NW2) {
            int q = k - NW1 - NB1;
            if (q / HID == a) sum += err[i] * act[i * HID + q % HID];
        } else if (k - NW1 - NB1 - NW2 == a) {
            sum += err[i];
        }
    }
    g[k] = sum;
}

__global__ void adam(float *p, const float *g, float *m, float *v, float rate, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    m[k] = 0.9f * m[k] + 0.1f * g[k];
    v[k] = 0.99f * v[k] + 0.01f * g[k] * g[k];
    p[k] -= rate * m[k] / (sqrtf(v[k]) + 1e-4f);
}

static unsigned lcg = 777;
static float rnd(void) { lcg = lcg * 1103515245u + 12345u; return ((lcg >> 8) & 0xffff) / 65536.f; }

int main(int argc, char **argv)
{
    static transition log_[LOG];
    static float init[NET];
    const int dx[4] = {1, -1, 0, 0}, dy[4] = {0, 0, 1, -1};
    for (int i = 0; i < LOG; ++i) {
        int x = (int)(rnd() * SIDE), y = (int)(rnd() * SIDE), a = (int)(rnd() * ACTIONS), m = rnd() < 0.1f ? (a + 1) % 4 : a;
        int x2 = x + dx[m], y2 = y + dy[m];
        if (x2 < 0 || x2 >= SIDE) x2 = x;
        if (y2 < 0 || y2 >= SIDE) y2 = y;
        log_[i].s = y * SIDE + x; log_[i].a = a; log_[i].s2 = y2 * SIDE + x2;
        log_[i].r = x2 == SIDE - 1 && y2 == SIDE - 1 ? 1.f : x2 == 2 && y2 == 2 ? -0.5f : 0.f;
    }
    for (int k = 0; k < NET; ++k) init[k] = (rnd() - 0.5f) * 1.2f;

    transition *tr;
    float *net, *frozen, *g, *m, *v, *act, *err, *sq;
    OK(cudaMalloc(&tr, sizeof log_));
    OK(cudaMemcpy(tr, log_, sizeof log_, cudaMemcpyHostToDevice));
    OK(cudaMalloc(&net, sizeof init));
    OK(cudaMalloc(&frozen, sizeof init));
    OK(cudaMalloc(&g, sizeof init));
    OK(cudaMalloc(&m, sizeof init));
    OK(cudaMalloc(&v, sizeof init));
    OK(cudaMalloc(&act, BATCH * HID * sizeof(float)));
    OK(cudaMalloc(&err, BATCH * sizeof(float)));
    OK(cudaMalloc(&sq, BATCH * sizeof(float)));
    OK(cudaMemcpy(net, init, sizeof init, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(frozen, init, sizeof init, cudaMemcpyHostToDevice));
    OK(cudaMemset(m, 0, sizeof init));
    OK(cudaMemset(v, 0, sizeof init));

    DDP_PARAMETER(net, NET, DDP_FLOAT32);
    DDP_STATE(frozen, NET, DDP_FLOAT32);
    DDP_STATE(m, NET, DDP_FLOAT32);
    DDP_STATE(v, NET, DDP_FLOAT32);
    DDP_GRADIENT(g, NET, DDP_FLOAT32);

    size_t seen = 0;
    for (int it = 0; it < 64; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const transition *part = tr + (it * BATCH) % LOG + first;
        td_error<<<1, BATCH>>>(part, net, frozen, act, err, sq, (int)count);
        td_gradient<<<(NET + 95) / 96, 96>>>(part, net, act, err, g, (int)count);
        DDP_STEP(0);
        adam<<<(NET + 95) / 96, 96>>>(net, g, m, v, 0.02f, NET);
        seen += count;
        if (seen >= 256) {
            OK(cudaMemcpyAsync(frozen, net, sizeof init, cudaMemcpyDeviceToDevice, 0));
            seen = 0;
        }
        if (it % 16 == 15 || it == 0) {
            float h[BATCH], mean = 0;
            OK(cudaMemcpy(h, sq, count * sizeof(float), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < count; ++i) mean += h[i];
            mean /= (float)count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) printf("update %d: squared td error %.4f\n", it, mean);
        }
    }
    OK(cudaMemcpy(init, net, sizeof init, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *out = fopen(argv[1], "wb");
        if (out == NULL) return 1;
        fwrite(init, sizeof(float), NET, out);
        fclose(out);
    }
    return 0;
}
