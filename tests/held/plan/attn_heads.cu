// One layer of multi-head self-attention for a toy task: each token has a value and a
// key; the net must give, at every position, the value at the position named by the key.
// q, k and v lie in one buffer [token][3][head][dim], heads side by side in a row.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

constexpr int SEQ = 8, HEADS = 4, HDIM = 8, DM = HEADS * HDIM, VOC = 6, NB = 16, TOK = NB * SEQ, IN = VOC + SEQ + SEQ;

#define GPU(x) do { cudaError_t _e = x; if (_e) { fprintf(stderr, "gpu: %s (%s:%d)\n", cudaGetErrorString(_e), __FILE__, __LINE__); abort(); } } while (0)

static cublasHandle_t handle;

// row major C[m][n] = A[m][k] B[k][n], with either side transposed
static void mm(bool ta, bool tb, int m, int n, int k, const float* A, const float* B, float* C, float beta = 0.f) {
    float one = 1.f;
    cublasSgemm(handle, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, B, tb ? k : n, A, ta ? m : k, &beta, C, n);
}

// block: (sequence, head); thread: query position
__global__ void attention(const float* qkv, float* prob, float* out) {
    int s = blockIdx.x, h = blockIdx.y, i = threadIdx.x;
    const float* base = qkv + s * SEQ * 3 * DM + h * HDIM;
    float* p = prob + ((s * HEADS + h) * SEQ + i) * SEQ;
    float mx = -1e30f, sum = 0.f;
    for (int j = 0; j < SEQ; ++j) {
        float d = 0;
        for (int e = 0; e < HDIM; ++e) d += base[i * 3 * DM + e] * base[j * 3 * DM + DM + e];
        p[j] = d * rsqrtf((float)HDIM);
        mx = fmaxf(mx, p[j]);
    }
    for (int j = 0; j < SEQ; ++j) sum += p[j] = expf(p[j] - mx);
    for (int j = 0; j < SEQ; ++j) p[j] /= sum;
    for (int e = 0; e < HDIM; ++e) {
        float o = 0;
        for (int j = 0; j < SEQ; ++j) o += p[j] * base[j * 3 * DM + 2 * DM + e];
        out[(s * SEQ + i) * DM + h * HDIM + e] = o;
    }
}
__global__ void attention_back(const float* qkv, const float* prob, const float* dout, float* dqkv) {
    __shared__ float ds[SEQ][SEQ];
    int s = blockIdx.x, h = blockIdx.y, i = threadIdx.x;
    const float* base = qkv + s * SEQ * 3 * DM + h * HDIM;
    float* db = dqkv + s * SEQ * 3 * DM + h * HDIM;
    const float* p = prob + (s * HEADS + h) * SEQ * SEQ;
    const float* go = dout + s * SEQ * DM + h * HDIM;
    float dp[SEQ], dot = 0;
    for (int j = 0; j < SEQ; ++j) {
        dp[j] = 0;
        for (int e = 0; e < HDIM; ++e) dp[j] += go[i * DM + e] * base[j * 3 * DM + 2 * DM + e];
        dot += dp[j] * p[i * SEQ + j];
    }
    for (int j = 0; j < SEQ; ++j) ds[i][j] = p[i * SEQ + j] * (dp[j] - dot) * rsqrtf((float)HDIM);
    __syncthreads();
    for (int e = 0; e < HDIM; ++e) {
        float dq = 0, dk = 0, dv = 0;
        for (int j = 0; j < SEQ; ++j) {
            dq += ds[i][j] * base[j * 3 * DM + DM + e];
            dk += ds[j][i] * base[j * 3 * DM + e];
            dv += p[j * SEQ + i] * go[j * DM + e];
        }
        db[i * 3 * DM + e] = dq; db[i * 3 * DM + DM + e] = dk; db[i * 3 * DM + 2 * DM + e] = dv;
    }
}
__global__ void xent(const float* z, const int* y, float* dz, float* loss) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= TOK) return;
    float m = z[t * VOC], s = 0;
    for (int k = 1; k < VOC; ++k) m = fmaxf(m, z[t * VOC + k]);
    for (int k = 0; k < VOC; ++k) s += expf(z[t * VOC + k] - m);
    for (int k = 0; k < VOC; ++k) dz[t * VOC + k] = (expf(z[t * VOC + k] - m) / s - (k == y[t])) / TOK;
    loss[t] = logf(s) + m - z[t * VOC + y[t]];
}
// AdamW over one tensor
__global__ void adamw(float* w, const float* g, float* m, float* v, int n, float lr, float wd, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.02f * (g[i] * g[i] - v[i]);
    w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-6f) + wd * w[i]);
}

struct Mat {
    float *w, *g, *m, *v; int n;
    Mat(int rows, int cols, std::mt19937& r) : n(rows * cols) {
        for (float** p : {&w, &g, &m, &v}) { GPU(cudaMalloc(p, n * sizeof(float))); GPU(cudaMemset(*p, 0, n * sizeof(float))); }
        std::normal_distribution<float> d(0, 1.f / std::sqrt((float)rows));
        std::vector<float> h(n);
        for (auto& x : h) x = d(r);
        GPU(cudaMemcpy(w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
        oracle::state(w, n); oracle::state(m, n); oracle::state(v, n); oracle::grad(g, n);
#endif
    }
    void update(int t, float lr) { adamw<<<(n + 255) / 256, 256>>>(w, g, m, v, n, lr, 0.01f, 1 - std::pow(0.9f, t), 1 - std::pow(0.98f, t)); }
};

static float* scratch(int n) { float* p; GPU(cudaMalloc(&p, n * sizeof(float))); return p; }

int main(int argc, char** argv) {
    std::mt19937 rng(17);
    GPU(cudaFree(0));
    cublasCreate(&handle);
    Mat We(IN, DM, rng), Wqkv(DM, 3 * DM, rng), Wo(DM, DM, rng), Wc(DM, VOC, rng);
    float *x = scratch(TOK * IN), *e = scratch(TOK * DM), *qkv = scratch(TOK * 3 * DM), *prob = scratch(NB * HEADS * SEQ * SEQ);
    float *att = scratch(TOK * DM), *res = scratch(TOK * DM), *z = scratch(TOK * VOC), *dz = scratch(TOK * VOC), *loss = scratch(TOK);
    float *dres = scratch(TOK * DM), *datt = scratch(TOK * DM), *dqkv = scratch(TOK * 3 * DM);
    int* y; GPU(cudaMalloc(&y, TOK * sizeof(int)));
    std::vector<float> hx(TOK * IN), hl(TOK); std::vector<int> hy(TOK);
    for (int step = 1; step <= 300; ++step) {
        std::fill(hx.begin(), hx.end(), 0.f);
        for (int s = 0; s < NB; ++s) {
            int val[SEQ], key[SEQ];
            for (int i = 0; i < SEQ; ++i) { val[i] = rng() % VOC; key[i] = rng() % SEQ; }
            for (int i = 0; i < SEQ; ++i) {
                float* r = &hx[(s * SEQ + i) * IN];
                r[val[i]] = 1; r[VOC + key[i]] = 1; r[VOC + SEQ + i] = 1;
                hy[s * SEQ + i] = val[key[i]];
            }
        }
        GPU(cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(y, hy.data(), hy.size() * 4, cudaMemcpyHostToDevice));
        int t = step;
#ifdef ORACLE
        oracle::begin(); t = oracle::step(step);
#endif
        mm(false, false, TOK, DM, IN, x, We.w, e);
        mm(false, false, TOK, 3 * DM, DM, e, Wqkv.w, qkv);
        attention<<<dim3(NB, HEADS), SEQ>>>(qkv, prob, att);
        GPU(cudaMemcpy(res, e, TOK * DM * 4, cudaMemcpyDeviceToDevice));
        mm(false, false, TOK, DM, DM, att, Wo.w, res, 1.f);            // residual
        mm(false, false, TOK, VOC, DM, res, Wc.w, z);
        xent<<<(TOK + 63) / 64, 64>>>(z, y, dz, loss);
        mm(true, false, DM, VOC, TOK, res, dz, Wc.g);
        mm(false, true, TOK, DM, VOC, dz, Wc.w, dres);
        mm(true, false, DM, DM, TOK, att, dres, Wo.g);
        mm(false, true, TOK, DM, DM, dres, Wo.w, datt);
        attention_back<<<dim3(NB, HEADS), SEQ>>>(qkv, prob, datt, dqkv);
        mm(true, false, DM, 3 * DM, TOK, e, dqkv, Wqkv.g);
        mm(false, true, TOK, DM, 3 * DM, dqkv, Wqkv.w, dres, 1.f);
        mm(true, false, IN, DM, TOK, x, dres, We.g);
#ifdef ORACLE
        if (oracle::ready())
#endif
        { We.update(t, 0.01f); Wqkv.update(t, 0.01f); Wo.update(t, 0.01f); Wc.update(t, 0.01f); }
#ifdef ORACLE
        oracle::end();
#endif
        if (step % 10 == 0) {
            GPU(cudaMemcpy(hl.data(), loss, TOK * 4, cudaMemcpyDeviceToHost));
            double s = 0;
            for (float v : hl) s += v;
            printf("%5d %.6f\n", step, s / TOK);
        }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE* f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    for (Mat* p : {&We, &Wqkv, &Wo, &Wc}) {
        std::vector<float> h(p->n);
        GPU(cudaMemcpy(h.data(), p->w, p->n * 4, cudaMemcpyDeviceToHost));
        fwrite(h.data(), 4, h.size(), f);
    }
    fclose(f);
    cublasDestroy(handle);
}
