// One-head attention learns to read the value of the marked token.
// Each sequence is handled by one block. Adam.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>

const int T = 8;        // tokens in a sequence
const int F = 8;        // features of a token: one-hot value (6), marker, constant
const int D = 16;       // width of queries, keys and values
const int C = 6;        // classes
const int BATCH = 32;
const int STEPS = 400;

float *dev(int n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

struct P {
    float *w, *g, *m, *v;
};
enum { WQ, WK, WV, WO, BO, NP };
const int len[NP] = {F * D, F * D, F * D, D * C, C};
P t[NP];

// cache of one sequence: q,k,v (T*D each), attention (T*T), context mean (D)
const int CACHE = 3 * T * D + T * T + D;

__global__ void forward(const float *x, const float *wq, const float *wk, const float *wv,
                        const float *wo, const float *bo, float *cache, float *logits)
{
    int s = blockIdx.x, d = threadIdx.x;
    const float *xs = x + s * T * F;
    float *q = cache + s * CACHE, *k = q + T * D, *v = k + T * D, *a = v + T * D, *ctx = a + T * T;
    for (int i = 0; i < T; i++) {
        float sq = 0, sk = 0, sv = 0;
        for (int f = 0; f < F; f++) {
            sq += xs[i * F + f] * wq[f * D + d];
            sk += xs[i * F + f] * wk[f * D + d];
            sv += xs[i * F + f] * wv[f * D + d];
        }
        q[i * D + d] = sq; k[i * D + d] = sk; v[i * D + d] = sv;
    }
    __syncthreads();
    if (d < T) {
        float e[T], mx = -1e30f, z = 0;
        for (int j = 0; j < T; j++) {
            e[j] = 0;
            for (int c = 0; c < D; c++) e[j] += q[d * D + c] * k[j * D + c];
            e[j] *= rsqrtf((float)D);
            mx = fmaxf(mx, e[j]);
        }
        for (int j = 0; j < T; j++) { e[j] = expf(e[j] - mx); z += e[j]; }
        for (int j = 0; j < T; j++) a[d * T + j] = e[j] / z;
    }
    __syncthreads();
    float m = 0;
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) m += a[i * T + j] * v[j * D + d];
    ctx[d] = m / T;
    __syncthreads();
    if (d < C) {
        float o = bo[d];
        for (int c = 0; c < D; c++) o += ctx[c] * wo[c * C + d];
        logits[s * C + d] = o;
    }
}

__global__ void softmax_loss(const float *logits, const int *y, float *dl, float *loss, int n)
{
    int s = threadIdx.x;
    if (s >= n) return;
    float mx = -1e30f, z = 0;
    for (int c = 0; c < C; c++) mx = fmaxf(mx, logits[s * C + c]);
    for (int c = 0; c < C; c++) z += expf(logits[s * C + c] - mx);
    for (int c = 0; c < C; c++) dl[s * C + c] = (expf(logits[s * C + c] - mx) / z - (c == y[s])) / n;
    atomicAdd(loss, (mx + logf(z) - logits[s * C + y[s]]) / n);
}

__global__ void backward(const float *x, const float *cache, const float *dl, const float *wo,
                         float *gq, float *gk, float *gv, float *go, float *gb)
{
    __shared__ float dctx[D], ds[T][T], dq[T][D], dk[T][D], dv[T][D];
    int s = blockIdx.x, d = threadIdx.x;
    const float *xs = x + s * T * F;
    const float *q = cache + s * CACHE, *k = q + T * D, *v = k + T * D, *a = v + T * D, *ctx = a + T * T;
    float sum = 0;
    for (int c = 0; c < C; c++) {
        atomicAdd(&go[d * C + c], ctx[d] * dl[s * C + c]);
        sum += dl[s * C + c] * wo[d * C + c];
    }
    if (d < C) atomicAdd(&gb[d], dl[s * C + d]);
    dctx[d] = sum / T;
    __syncthreads();
    if (d < T) {  // row d of the attention matrix
        float da[T], dot = 0;
        for (int j = 0; j < T; j++) {
            da[j] = 0;
            for (int c = 0; c < D; c++) da[j] += dctx[c] * v[j * D + c];
            dot += da[j] * a[d * T + j];
        }
        for (int j = 0; j < T; j++) ds[d][j] = a[d * T + j] * (da[j] - dot) * rsqrtf((float)D);
    }
    __syncthreads();
    for (int i = 0; i < T; i++) {
        float sq = 0, sk = 0, sv = 0;
        for (int j = 0; j < T; j++) {
            sq += ds[i][j] * k[j * D + d];
            sk += ds[j][i] * q[j * D + d];
            sv += a[j * T + i] * dctx[d];
        }
        dq[i][d] = sq; dk[i][d] = sk; dv[i][d] = sv;
    }
    for (int f = 0; f < F; f++) {
        float sq = 0, sk = 0, sv = 0;
        for (int i = 0; i < T; i++) {
            sq += xs[i * F + f] * dq[i][d];
            sk += xs[i * F + f] * dk[i][d];
            sv += xs[i * F + f] * dv[i][d];
        }
        atomicAdd(&gq[f * D + d], sq);
        atomicAdd(&gk[f * D + d], sk);
        atomicAdd(&gv[f * D + d], sv);
    }
}

__global__ void adam(P p, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = p.g[i];
    float m = p.m[i] = 0.9f * p.m[i] + 0.1f * g;
    float v = p.v[i] = 0.995f * p.v[i] + 0.005f * g * g;
    p.w[i] -= lr * (m / c1) / (sqrtf(v / c2) + 1e-8f);
    p.g[i] = 0;  // ready for the next step
}

int main()
{
    std::mt19937 rng(8);
    std::normal_distribution<float> nd;
    for (int i = 0; i < NP; i++) {
        t[i] = {dev(len[i]), dev(len[i]), dev(len[i]), dev(len[i])};
        if (i == BO) continue;
        std::vector<float> h(len[i]);
        for (auto &z : h) z = 0.35f * nd(rng);
        cudaMemcpy(t[i].w, h.data(), len[i] * sizeof(float), cudaMemcpyHostToDevice);
    }

    float *x = dev(BATCH * T * F), *cache = dev(BATCH * CACHE), *logits = dev(BATCH * C), *dl = dev(BATCH * C);
    float *loss = dev(1);
    int *y;
    cudaMalloc(&y, BATCH * sizeof(int));
    std::vector<float> hx(BATCH * T * F);
    std::vector<int> hy(BATCH);

    for (int step = 1; step <= STEPS; step++) {
        std::fill(hx.begin(), hx.end(), 0.f);
        for (int s = 0; s < BATCH; s++) {
            int marked = rng() % T;
            for (int i = 0; i < T; i++) {
                int val = rng() % C;
                float *tokn = &hx[(s * T + i) * F];
                tokn[val] = 1;
                tokn[6] = i == marked;
                tokn[7] = 1;
                if (i == marked) hy[s] = val;
            }
        }
        cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, hy.data(), hy.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, sizeof(float));

        forward<<<BATCH, D>>>(x, t[WQ].w, t[WK].w, t[WV].w, t[WO].w, t[BO].w, cache, logits);
        softmax_loss<<<1, BATCH>>>(logits, y, dl, loss, BATCH);
        backward<<<BATCH, D>>>(x, cache, dl, t[WO].w, t[WQ].g, t[WK].g, t[WV].g, t[WO].g, t[BO].g);

        float c1 = 1 - powf(0.9f, step), c2 = 1 - powf(0.995f, step);
        for (int i = 0; i < NP; i++) adam<<<(len[i] + 63) / 64, 64>>>(t[i], len[i], 0.01f, c1, c2);

        if (step % 25 == 0) {
            float h;
            cudaMemcpy(&h, loss, sizeof h, cudaMemcpyDeviceToHost);
            printf("%d\t%.5f\n", step, h);
        }
    }
    return 0;
}
