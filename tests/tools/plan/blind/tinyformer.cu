// One transformer block (causal single head, two layer norms, MLP), task: repeat the previous token; Adam, clipping by
// the global norm. Truth: gradients (truth_step over the flat gradient, in front of norm and clipping); norm and Adam's
// step count are on the device. Batches: 48 (batches of 8 sequences of 8 tokens).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int V = 10, L = 8, D = 16, F = 32, B = 8, R = B * L;
enum {
    E = 0,
    POS = E + V * D,
    G1 = POS + L * D,
    B1 = G1 + D,
    WQ = B1 + D,
    WK = WQ + D * D,
    WV = WK + D * D,
    WO = WV + D * D,
    G2 = WO + D * D,
    B2 = G2 + D,
    W1 = B2 + D,
    C1 = W1 + D * F,
    W2 = C1 + F,
    C2 = W2 + F * D,
    WT = C2 + D,
    NP = WT + D * V
};

#define CHECK_LAST()                                               \
    do {                                                           \
        cudaError_t e = cudaGetLastError();                        \
        if (e) {                                                   \
            printf("%s at %d\n", cudaGetErrorString(e), __LINE__); \
            exit(1);                                               \
        }                                                          \
    } while (0)

__global__ void
embed(const float *p, const int *tok, float *x)
{
    int r = blockIdx.x, d = threadIdx.x;
    x[r * D + d] = p[E + tok[r] * D + d] + p[POS + r % L * D + d];
}
__global__ void
layernorm(const float *x, const float *g, const float *b, float *y, float *xhat, float *rstd)
{
    int r = threadIdx.x;
    float m = 0, v = 0;
    for (int d = 0; d < D; ++d)
        m += x[r * D + d] / D;
    for (int d = 0; d < D; ++d) {
        float t = x[r * D + d] - m;
        v += t * t / D;
    }
    float s = rsqrtf(v + 1e-5f);
    rstd[r] = s;
    for (int d = 0; d < D; ++d) {
        float t = (x[r * D + d] - m) * s;
        xhat[r * D + d] = t;
        y[r * D + d] = t * g[d] + b[d];
    }
}
// dx += backward of layer norm
__global__ void
layernorm_bwd(const float *dy, const float *g, const float *xhat, const float *rstd, float *dx)
{
    int r = threadIdx.x;
    float a = 0, c = 0;
    for (int d = 0; d < D; ++d) {
        float t = dy[r * D + d] * g[d];
        a += t / D;
        c += t * xhat[r * D + d] / D;
    }
    for (int d = 0; d < D; ++d)
        dx[r * D + d] += rstd[r] * (dy[r * D + d] * g[d] - a - xhat[r * D + d] * c);
}
__global__ void
layernorm_param(const float *dy, const float *xhat, float *dg, float *db)
{
    int d = threadIdx.x;
    float s = 0, t = 0;
    for (int r = 0; r < R; ++r) {
        s += dy[r * D + d] * xhat[r * D + d];
        t += dy[r * D + d];
    }
    dg[d] = s;
    db[d] = t;
}
// y = x W (+ bias) (+ residual), optionally relu
__global__ void
linear(const float *x, const float *w, const float *bias, const float *res, float *y, int I, bool relu)
{
    int r = blockIdx.x, o = threadIdx.x, O = blockDim.x;
    float s = bias ? bias[o] : 0.f;
    for (int i = 0; i < I; ++i)
        s += x[r * I + i] * w[i * O + o];
    if (res)
        s += res[r * O + o];
    y[r * O + o] = relu ? fmaxf(s, 0.f) : s;
}
// dx (+)= dy W^T, masked by act > 0
__global__ void
linear_bwd(const float *dy, const float *w, float *dx, int O, const float *act, bool add)
{
    int r = blockIdx.x, i = threadIdx.x, I = blockDim.x;
    float s = add ? dx[r * I + i] : 0.f;
    for (int o = 0; o < O; ++o)
        s += dy[r * O + o] * w[i * O + o];
    dx[r * I + i] = act && act[r * I + i] <= 0.f ? 0.f : s;
}
__global__ void
linear_grad(const float *x, const float *dy, float *dw, float *dbias)
{
    int i = blockIdx.x, o = threadIdx.x, I = gridDim.x, O = blockDim.x;
    float s = 0, t = 0;
    for (int r = 0; r < R; ++r) {
        s += x[r * I + i] * dy[r * O + o];
        t += dy[r * O + o];
    }
    dw[i * O + o] = s;
    if (dbias && i == 0)
        dbias[o] = t;
}
__global__ void
attention(const float *q, const float *k, const float *v, float *att, float *o)
{
    int i = threadIdx.x, row = blockIdx.x * L + i, base = blockIdx.x * L;
    float s[L], mx = -1e30f, z = 0;
    for (int j = 0; j <= i; ++j) {
        s[j] = 0;
        for (int d = 0; d < D; ++d)
            s[j] += q[row * D + d] * k[(base + j) * D + d];
        s[j] *= 0.25f;
        mx = fmaxf(mx, s[j]);
    }
    for (int j = 0; j <= i; ++j) {
        s[j] = expf(s[j] - mx);
        z += s[j];
    }
    for (int j = 0; j < L; ++j)
        att[row * L + j] = j <= i ? s[j] / z : 0.f;
    for (int d = 0; d < D; ++d) {
        float t = 0;
        for (int j = 0; j <= i; ++j)
            t += s[j] / z * v[(base + j) * D + d];
        o[row * D + d] = t;
    }
}
__global__ void
attention_bwd(const float *q, const float *k, const float *v, const float *att, const float *dout, float *dq, float *dk,
              float *dv)
{
    __shared__ float ds[L][L];
    int i = threadIdx.x, base = blockIdx.x * L, row = base + i;
    float da[L], dot = 0;
    for (int j = 0; j < L; ++j) {
        da[j] = 0;
        for (int d = 0; d < D; ++d)
            da[j] += dout[row * D + d] * v[(base + j) * D + d];
        dot += da[j] * att[row * L + j];
    }
    for (int j = 0; j < L; ++j)
        ds[i][j] = att[row * L + j] * (da[j] - dot) * 0.25f;
    __syncthreads();
    for (int d = 0; d < D; ++d) {
        float a = 0, b = 0, c = 0;
        for (int j = 0; j < L; ++j) {
            a += ds[i][j] * k[(base + j) * D + d];
            b += ds[j][i] * q[(base + j) * D + d];
            c += att[(base + j) * L + i] * dout[(base + j) * D + d];
        }
        dq[row * D + d] = a;
        dk[row * D + d] = b;
        dv[row * D + d] = c;
    }
}
__global__ void
xent(const float *z, const int *y, float *dz, float *loss, int *hit)
{
    __shared__ float l[R];
    __shared__ int h[R];
    int r = threadIdx.x, best = 0;
    float mx = z[r * V], s = 0;
    for (int c = 1; c < V; ++c)
        if (z[r * V + c] > mx) {
            mx = z[r * V + c];
            best = c;
        }
    for (int c = 0; c < V; ++c)
        s += expf(z[r * V + c] - mx);
    for (int c = 0; c < V; ++c)
        dz[r * V + c] = (expf(z[r * V + c] - mx) / s - (c == y[r])) / R;
    l[r] = logf(s) + mx - z[r * V + y[r]];
    h[r] = best == y[r];
    __syncthreads();
    if (r == 0) {
        float t = 0;
        int n = 0;
        for (int i = 0; i < R; ++i) {
            t += l[i];
            n += h[i];
        }
        *loss = t / R;
        *hit = n;
    }
}
__global__ void
embed_grad(const int *tok, const float *dx, float *g)
{
    int e = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int r = 0; r < R; ++r)
        if (e < V ? tok[r] == e : r % L == e - V)
            s += dx[r * D + d];
    g[e * D + d] = s; // E and POS lie one behind the other
}
__global__ void
grad_norm(const float *g, float *norm, int *t)
{
    __shared__ float s[128];
    float a = 0;
    for (int i = threadIdx.x; i < NP; i += 128)
        a += g[i] * g[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = 64; k; k >>= 1) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *norm = sqrtf(s[0]);
        ++*t;
    }
}
__global__ void
adam_clip(float *p, const float *g, float *m, float *v, const float *norm, const int *t, float lr, float clip)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NP)
        return;
    float x = g[i] * fminf(1.f, clip / (*norm + 1e-6f));
    m[i] = 0.9f * m[i] + 0.1f * x;
    v[i] = 0.98f * v[i] + 0.02f * x * x;
    p[i] -= lr * m[i] / (1 - powf(0.9f, *t)) / (sqrtf(v[i] / (1 - powf(0.98f, *t))) + 1e-8f);
}

static unsigned lcg = 4u;
static unsigned
rnd()
{
    lcg = lcg * 1664525u + 1013904223u;
    return lcg >> 10;
}
static float *
buf(size_t n)
{
    float *p;
    if (cudaMalloc(&p, n * 4))
        exit(3);
    cudaMemset(p, 0, n * 4);
    return p;
}

int
main()
{
    std::vector<float> hp(NP);
    for (int i = 0; i < NP; ++i)
        hp[i] = ((rnd() % 2001) / 1000.f - 1.f) * 0.35f;
    for (int d = 0; d < D; ++d) {
        hp[G1 + d] = hp[G2 + d] = 1;
        hp[B1 + d] = hp[B2 + d] = hp[C2 + d] = 0;
    }
    for (int f = 0; f < F; ++f)
        hp[C1 + f] = 0;
    float *p = buf(NP), *g = buf(NP), *m = buf(NP), *v = buf(NP);
    cudaMemcpy(p, hp.data(), NP * 4, cudaMemcpyHostToDevice);
    float *x = buf(R * D), *n1 = buf(R * D), *h1 = buf(R * D), *s1 = buf(R), *q = buf(R * D), *k = buf(R * D),
          *va = buf(R * D), *att = buf(R * L), *o = buf(R * D);
    float *x2 = buf(R * D), *n2 = buf(R * D), *h2 = buf(R * D), *s2 = buf(R), *f = buf(R * F), *x3 = buf(R * D),
          *z = buf(R * V), *dz = buf(R * V);
    float *dx = buf(R * D), *df = buf(R * F), *dn = buf(R * D), *dO = buf(R * D), *dq = buf(R * D), *dk = buf(R * D),
          *dv = buf(R * D), *loss = buf(1), *norm = buf(1);
    int *tok = (int *)buf(R), *y = (int *)buf(R), *hit = (int *)buf(1), *t = (int *)buf(1), ht[R], hy[R], hh;
    float hl, hn;
    const int STEPS = 48;
    for (int step = 1; step <= STEPS + 1; ++step) { // one more for the test
        for (int r = 0; r < R; ++r) {
            ht[r] = rnd() % V;
            hy[r] = r % L ? ht[r - 1] : ht[r];
        }
        cudaMemcpy(tok, ht, sizeof ht, cudaMemcpyHostToDevice);
        cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
        embed<<<R, D>>>(p, tok, x);
        layernorm<<<1, R>>>(x, p + G1, p + B1, n1, h1, s1);
        linear<<<R, D>>>(n1, p + WQ, 0, 0, q, D, false);
        linear<<<R, D>>>(n1, p + WK, 0, 0, k, D, false);
        linear<<<R, D>>>(n1, p + WV, 0, 0, va, D, false);
        attention<<<B, L>>>(q, k, va, att, o);
        linear<<<R, D>>>(o, p + WO, 0, x, x2, D, false);
        layernorm<<<1, R>>>(x2, p + G2, p + B2, n2, h2, s2);
        linear<<<R, F>>>(n2, p + W1, p + C1, 0, f, D, true);
        linear<<<R, D>>>(f, p + W2, p + C2, x2, x3, F, false);
        linear<<<R, V>>>(x3, p + WT, 0, 0, z, D, false);
        xent<<<1, R>>>(z, y, dz, loss, hit);
        cudaMemcpy(&hl, loss, 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(&hh, hit, 4, cudaMemcpyDeviceToHost);
        if (step > STEPS)
            break;
        linear_grad<<<D, V>>>(x3, dz, g + WT, 0);
        linear_bwd<<<R, D>>>(dz, p + WT, dx, V, 0, false);
        linear_grad<<<F, D>>>(f, dx, g + W2, g + C2);
        linear_bwd<<<R, F>>>(dx, p + W2, df, D, f, false);
        linear_grad<<<D, F>>>(n2, df, g + W1, g + C1);
        linear_bwd<<<R, D>>>(df, p + W1, dn, F, 0, false);
        layernorm_param<<<1, D>>>(dn, h2, g + G2, g + B2);
        layernorm_bwd<<<1, R>>>(dn, p + G2, h2, s2, dx);
        linear_grad<<<D, D>>>(o, dx, g + WO, 0);
        linear_bwd<<<R, D>>>(dx, p + WO, dO, D, 0, false);
        attention_bwd<<<B, L>>>(q, k, va, att, dO, dq, dk, dv);
        linear_grad<<<D, D>>>(n1, dq, g + WQ, 0);
        linear_grad<<<D, D>>>(n1, dk, g + WK, 0);
        linear_grad<<<D, D>>>(n1, dv, g + WV, 0);
        linear_bwd<<<R, D>>>(dq, p + WQ, dn, D, 0, false);
        linear_bwd<<<R, D>>>(dk, p + WK, dn, D, 0, true);
        linear_bwd<<<R, D>>>(dv, p + WV, dn, D, 0, true);
        layernorm_param<<<1, D>>>(dn, h1, g + G1, g + B1);
        layernorm_bwd<<<1, R>>>(dn, p + G1, h1, s1, dx);
        embed_grad<<<V + L, D>>>(tok, dx, g + E);
        if (truth_step({{g, NP}})) {
            grad_norm<<<1, 128>>>(g, norm, t);
            adam_clip<<<(NP + 127) / 128, 128>>>(p, g, m, v, norm, t, 0.02f, 1.0f);
        }
        CHECK_LAST();
        if (step % 6 == 0 || step == 1) {
            cudaMemcpy(&hn, norm, 4, cudaMemcpyDeviceToHost);
            printf("step %2d loss %.4f acc %.3f last norm %.4f\n", step, hl, hh / (float)R, hn);
        }
    }
    printf("test loss %.4f, %d of %d tokens\n", hl, hh, R);
    truth_dump({{p, NP}});
    return 0;
}
