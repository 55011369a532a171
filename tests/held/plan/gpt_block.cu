// A one-block GPT on characters: token and position embedding, layer norm, causal
// attention (one head), residual, layer norm, GELU MLP, residual, tied-free output head.
// All parameters are slices of one allocation, as are the gradients; AdamW.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define Bz 8
#define T 12
#define C 24
#define F 48
#define BT (Bz * T)
#define VMAX 32

#define cudaCheck(e) _check((e), __FILE__, __LINE__)
static void _check(cudaError_t e, const char *f, int l) { if (e != cudaSuccess) { printf("[CUDA ERROR] %s:%d %s\n", f, l, cudaGetErrorString(e)); exit(EXIT_FAILURE); } }

typedef struct { float *wte, *wpe, *ln1, *wqkv, *wproj, *ln2, *wfc, *bfc, *wfc2, *bfc2, *whead; } Params;   // ln: C scales, then C shifts
#define NTENSORS 11
static size_t psize[NTENSORS];

static size_t fill_sizes(int V)
{
    size_t s[NTENSORS] = {(size_t)V * C, T * C, 2 * C, C * 3 * C, C * C, 2 * C, C * F, F, F * C, C, (size_t)C * V}, n = 0;
    memcpy(psize, s, sizeof s);
    for (int i = 0; i < NTENSORS; i++) n += s[i];
    return n;
}
static void point(Params *p, float *mem) { float **t = (float **)p; for (int i = 0; i < NTENSORS; i++) { t[i] = mem; mem += psize[i]; } }

__global__ void embed(const int *tok, const float *wte, const float *wpe, float *x) { int r = blockIdx.x, c = threadIdx.x; x[r * C + c] = wte[tok[r] * C + c] + wpe[(r % T) * C + c]; }
__global__ void embed_back(const int *tok, const float *dx, float *gwte, float *gwpe)
{
    int r = blockIdx.x, c = threadIdx.x;
    atomicAdd(&gwte[tok[r] * C + c], dx[r * C + c]);
    atomicAdd(&gwpe[(r % T) * C + c], dx[r * C + c]);
}
__global__ void layernorm(const float *x, const float *w, float *y, float *xhat, float *rstd)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= BT) return;
    float m = 0, v = 0;
    for (int c = 0; c < C; c++) m += x[r * C + c];
    m /= C;
    for (int c = 0; c < C; c++) v += (x[r * C + c] - m) * (x[r * C + c] - m);
    float s = rsqrtf(v / C + 1e-5f);
    rstd[r] = s;
    for (int c = 0; c < C; c++) { float h = (x[r * C + c] - m) * s; xhat[r * C + c] = h; y[r * C + c] = h * w[c] + w[C + c]; }
}
// dx is added to
__global__ void layernorm_back(const float *dy, const float *w, const float *xhat, const float *rstd, float *dx, float *gw)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= BT) return;
    float a = 0, b = 0;
    for (int c = 0; c < C; c++) { float d = dy[r * C + c] * w[c]; a += d; b += d * xhat[r * C + c]; }
    for (int c = 0; c < C; c++) {
        float d = dy[r * C + c];
        dx[r * C + c] += rstd[r] * (d * w[c] - a / C - xhat[r * C + c] * b / C);
        atomicAdd(&gw[c], d * xhat[r * C + c]);
        atomicAdd(&gw[C + c], d);
    }
}
// y (+)= x W (+ b)
__global__ void matmul(const float *x, const float *W, const float *b, float *y, int in, int out, int add)
{
    int r = blockIdx.x, c = threadIdx.x;
    float s = add ? y[r * out + c] : 0;
    if (b) s += b[c];
    for (int i = 0; i < in; i++) s += x[r * in + i] * W[i * out + c];
    y[r * out + c] = s;
}
__global__ void matmul_dx(const float *dy, const float *W, float *dx, int in, int out)
{
    int r = blockIdx.x, i = threadIdx.x;
    float s = 0;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * W[i * out + c];
    dx[r * in + i] = s;
}
__global__ void matmul_dw(const float *x, const float *dy, float *gW, float *gb, int in, int out)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0, t = 0;
    for (int r = 0; r < BT; r++) { s += x[r * in + i] * dy[r * out + c]; t += dy[r * out + c]; }
    gW[i * out + c] += s;
    if (gb && i == 0) gb[c] += t;
}
__global__ void attn(const float *qkv, float *p, float *o)
{
    int b = blockIdx.x, i = threadIdx.x;
    const float *Q = qkv + b * T * 3 * C;
    float *pi = p + (b * T + i) * T, mx = -1e30f, s = 0;
    for (int j = 0; j <= i; j++) { float d = 0; for (int c = 0; c < C; c++) d += Q[i * 3 * C + c] * Q[j * 3 * C + C + c]; pi[j] = d * rsqrtf(C); mx = fmaxf(mx, pi[j]); }
    for (int j = 0; j <= i; j++) { pi[j] = expf(pi[j] - mx); s += pi[j]; }
    for (int j = 0; j < T; j++) pi[j] = j <= i ? pi[j] / s : 0;
    for (int c = 0; c < C; c++) { float a = 0; for (int j = 0; j <= i; j++) a += pi[j] * Q[j * 3 * C + 2 * C + c]; o[(b * T + i) * C + c] = a; }
}
__global__ void attn_back(const float *qkv, const float *p, const float *dO, float *dq)
{
    __shared__ float ds[T][T];
    int b = blockIdx.x, i = threadIdx.x;
    const float *Q = qkv + b * T * 3 * C, *P = p + b * T * T, *g = dO + b * T * C;
    float dot = 0, dp[T];
    for (int j = 0; j <= i; j++) { dp[j] = 0; for (int c = 0; c < C; c++) dp[j] += g[i * C + c] * Q[j * 3 * C + 2 * C + c]; dot += dp[j] * P[i * T + j]; }
    for (int j = 0; j < T; j++) ds[i][j] = j <= i ? P[i * T + j] * (dp[j] - dot) * rsqrtf(C) : 0;
    __syncthreads();
    for (int c = 0; c < C; c++) {
        float a = 0, k = 0, v = 0;
        for (int j = 0; j < T; j++) { a += ds[i][j] * Q[j * 3 * C + C + c]; k += ds[j][i] * Q[j * 3 * C + c]; v += P[j * T + i] * g[j * C + c]; }
        float *d = dq + (b * T + i) * 3 * C;
        d[c] = a; d[C + c] = k; d[2 * C + c] = v;
    }
}
__global__ void gelu(const float *z, float *a) { int i = blockIdx.x * F + threadIdx.x; float x = z[i]; a[i] = 0.5f * x * (1 + erff(x * 0.70710678f)); }
__global__ void gelu_back(const float *z, float *d) { int i = blockIdx.x * F + threadIdx.x; float x = z[i]; d[i] *= 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x); }
__global__ void softmax_loss(float *z, const int *y, float *loss, int V)     // z becomes its gradient
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= BT) return;
    float m = -1e30f, s = 0;
    for (int k = 0; k < V; k++) m = fmaxf(m, z[r * V + k]);
    for (int k = 0; k < V; k++) s += expf(z[r * V + k] - m);
    loss[r] = logf(s) + m - z[r * V + y[r]];
    for (int k = 0; k < V; k++) z[r * V + k] = (expf(z[r * V + k] - m) / s - (k == y[r])) / BT;
}
__global__ void adamw(float *p, const float *g, float *m, float *v, int n, float lr, float wd, float bc1, float bc2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
    p[i] -= lr * (m[i] / bc1 / (sqrtf(v[i] / bc2) + 1e-8f) + wd * p[i]);
}
static float *dmalloc(size_t n) { float *p; cudaCheck(cudaMalloc(&p, n * sizeof(float))); cudaCheck(cudaMemset(p, 0, n * sizeof(float))); return p; }

int main(int argc, char **argv)
{
    const char *text = "the quick brown fox jumps over the lazy dog. the dog sleeps and the fox runs over the hill. "
                       "a lazy cat sits on the mat and looks at the dog. the hill is green and the fox is brown. ";
    int n = (int)strlen(text), V = 0, map[256]; memset(map, -1, sizeof map);
    int *ids = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) { unsigned char ch = text[i]; if (map[ch] < 0) map[ch] = V++; ids[i] = map[ch]; }
    size_t np = fill_sizes(V);
    float *mem = dmalloc(np), *gmem = dmalloc(np), *m = dmalloc(np), *v = dmalloc(np), *h = (float *)malloc(np * sizeof(float));
    Params P, G; point(&P, mem); point(&G, gmem);
    unsigned r = 1337;
    for (size_t i = 0; i < np; i++) { float s = 0; for (int k = 0; k < 4; k++) { r = r * 1664525u + 1013904223u; s += (r >> 8) / 16777216.f - 0.5f; } h[i] = 0.25f * s; }
    for (int c = 0; c < C; c++) { h[P.ln1 - mem + c] = h[P.ln2 - mem + c] = 1; h[P.ln1 - mem + C + c] = h[P.ln2 - mem + C + c] = 0; }
    cudaCheck(cudaMemcpy(mem, h, np * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
    oracle::state(mem, np); oracle::state(m, np); oracle::state(v, np); oracle::grad(gmem, np);
#endif
    float *x = dmalloc(BT * C), *n1 = dmalloc(BT * C), *h1 = dmalloc(BT * C), *r1 = dmalloc(BT), *qkv = dmalloc(BT * 3 * C), *att = dmalloc(BT * T), *o = dmalloc(BT * C);
    float *n2 = dmalloc(BT * C), *h2 = dmalloc(BT * C), *r2 = dmalloc(BT), *fc = dmalloc(BT * F), *fa = dmalloc(BT * F), *z = dmalloc(BT * VMAX), *loss = dmalloc(BT);
    float *dx = dmalloc(BT * C), *d1 = dmalloc(BT * C), *dq = dmalloc(BT * 3 * C), *df = dmalloc(BT * F);
    int *tok, *tgt, ht[BT], hy[BT];
    cudaCheck(cudaMalloc(&tok, sizeof ht)); cudaCheck(cudaMalloc(&tgt, sizeof hy));
    float hl[BT];
    for (int step = 0; step < 150; step++) {
        for (int b = 0; b < Bz; b++) {
            r = r * 1664525u + 1013904223u;
            int at = (r >> 8) % (n - T - 1);
            for (int t = 0; t < T; t++) { ht[b * T + t] = ids[at + t]; hy[b * T + t] = ids[at + t + 1]; }
        }
        cudaCheck(cudaMemcpy(tok, ht, sizeof ht, cudaMemcpyHostToDevice));
        cudaCheck(cudaMemcpy(tgt, hy, sizeof hy, cudaMemcpyHostToDevice));
        int t = step + 1;
#ifdef ORACLE
        oracle::begin(); t = oracle::step(t);
#endif
        embed<<<BT, C>>>(tok, P.wte, P.wpe, x);
        layernorm<<<3, 32>>>(x, P.ln1, n1, h1, r1);
        matmul<<<BT, 3 * C>>>(n1, P.wqkv, NULL, qkv, C, 3 * C, 0);
        attn<<<Bz, T>>>(qkv, att, o);
        matmul<<<BT, C>>>(o, P.wproj, NULL, x, C, C, 1);
        layernorm<<<3, 32>>>(x, P.ln2, n2, h2, r2);
        matmul<<<BT, F>>>(n2, P.wfc, P.bfc, fc, C, F, 0);
        gelu<<<BT, F>>>(fc, fa);
        matmul<<<BT, C>>>(fa, P.wfc2, P.bfc2, x, F, C, 1);
        matmul<<<BT, V>>>(x, P.whead, NULL, z, C, V, 0);
        softmax_loss<<<3, 32>>>(z, tgt, loss, V);
        cudaCheck(cudaMemset(gmem, 0, np * sizeof(float)));
        matmul_dw<<<C, V>>>(x, z, G.whead, NULL, C, V);
        matmul_dx<<<BT, C>>>(z, P.whead, dx, C, V);
        matmul_dw<<<F, C>>>(fa, dx, G.wfc2, G.bfc2, F, C);
        matmul_dx<<<BT, F>>>(dx, P.wfc2, df, F, C);
        gelu_back<<<BT, F>>>(fc, df);
        matmul_dw<<<C, F>>>(n2, df, G.wfc, G.bfc, C, F);
        matmul_dx<<<BT, C>>>(df, P.wfc, d1, C, F);
        layernorm_back<<<3, 32>>>(d1, P.ln2, h2, r2, dx, G.ln2);
        matmul_dw<<<C, C>>>(o, dx, G.wproj, NULL, C, C);
        matmul_dx<<<BT, C>>>(dx, P.wproj, d1, C, C);
        attn_back<<<Bz, T>>>(qkv, att, d1, dq);
        matmul_dw<<<C, 3 * C>>>(n1, dq, G.wqkv, NULL, C, 3 * C);
        matmul_dx<<<BT, C>>>(dq, P.wqkv, d1, C, 3 * C);
        layernorm_back<<<3, 32>>>(d1, P.ln1, h1, r1, dx, G.ln1);
        embed_back<<<BT, C>>>(tok, dx, G.wte, G.wpe);
#ifdef ORACLE
        if (oracle::ready())
#endif
        adamw<<<((int)np + 255) / 256, 256>>>(mem, gmem, m, v, (int)np, 8e-3f, 0.01f, 1 - powf(0.9f, t), 1 - powf(0.95f, t));
        cudaCheck(cudaGetLastError());
#ifdef ORACLE
        oracle::end();
#endif
        cudaCheck(cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost));
        float l = 0;
        for (int i = 0; i < BT; i++) l += hl[i];
        if (step % 10 == 0 || step == 149) printf("step %d train loss %f\n", step, l / BT);
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    cudaCheck(cudaMemcpy(h, mem, np * sizeof(float), cudaMemcpyDeviceToHost));
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { printf("cannot write\n"); return 1; }
    fwrite(h, sizeof(float), np, f);
    fclose(f);
    return 0;
}
