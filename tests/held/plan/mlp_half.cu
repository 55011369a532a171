// MLP in half precision with float master weights.  The forward and backward passes read
// __half copies and write __half gradients (the loss is scaled by 128); the update works
// on the masters and then makes the half copies anew.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

const int NIN = 16, NHID = 32, NOUT = 4, NB = 32;
const float SCALE = 128.f;

struct HalfParam {
    float *master, *vel;
    __half *w, *g;
    int n;
};

__global__ void to_half(const float *m, __half *w, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) w[i] = __float2half(m[i]); }

__global__ void layer(const __half *x, const __half *w, __half *y, int in, int out, int relu)
{
    int r = blockIdx.x, c = threadIdx.x;          // the last row of w is the bias
    float s = __half2float(w[in * out + c]);
    for (int i = 0; i < in; i++) s += __half2float(x[r * in + i]) * __half2float(w[i * out + c]);
    y[r * out + c] = __float2half(relu && s < 0 ? 0.f : s);
}

__global__ void softmax_ce(const __half *z, const int *y, __half *dz, float *loss)
{
    int r = threadIdx.x;
    float v[NOUT], m = -1e30f, s = 0;
    for (int k = 0; k < NOUT; k++) { v[k] = __half2float(z[r * NOUT + k]); m = fmaxf(m, v[k]); }
    for (int k = 0; k < NOUT; k++) s += expf(v[k] - m);
    for (int k = 0; k < NOUT; k++) dz[r * NOUT + k] = __float2half(SCALE * (expf(v[k] - m) / s - (k == y[r])) / NB);
    loss[r] = logf(s) + m - v[y[r]];
}

__global__ void back_x(const __half *dy, const __half *w, const __half *x, __half *dx, int in, int out)
{
    int r = blockIdx.x, i = threadIdx.x;
    float s = 0;
    for (int c = 0; c < out; c++) s += __half2float(dy[r * out + c]) * __half2float(w[i * out + c]);
    dx[r * in + i] = __float2half(__half2float(x[r * in + i]) > 0 ? s : 0.f);
}

__global__ void back_w(const __half *x, const __half *dy, __half *g, int in, int out)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < NB; r++) s += (i < in ? __half2float(x[r * in + i]) : 1.f) * __half2float(dy[r * out + c]);
    g[i * out + c] = __float2half(s);
}

__global__ void master_update(float *m, float *vel, const __half *g, __half *w, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = __half2float(g[i]) / SCALE;
    vel[i] = mu * vel[i] + gi;
    m[i] -= lr * vel[i];
    w[i] = __float2half(m[i]);
}

static HalfParam create(int in, int out, std::mt19937 &rng)
{
    HalfParam p; p.n = (in + 1) * out;
    cudaMalloc(&p.master, p.n * sizeof(float));
    cudaMalloc(&p.vel, p.n * sizeof(float));
    cudaMalloc(&p.w, p.n * sizeof(__half));
    cudaMalloc(&p.g, p.n * sizeof(__half));
    std::normal_distribution<float> d(0, sqrtf(2.f / in));
    std::vector<float> h(p.n, 0.f);
    for (int i = 0; i < in * out; i++) h[i] = d(rng);
    cudaMemcpy(p.master, h.data(), p.n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(p.vel, 0, p.n * sizeof(float));
    to_half<<<(p.n + 127) / 128, 128>>>(p.master, p.w, p.n);
#ifdef ORACLE
    oracle::state(p.master, p.n); oracle::state(p.vel, p.n);
    oracle::state(p.w, p.n, oracle::F16); oracle::grad(p.g, p.n, 0, oracle::F16);
#endif
    return p;
}

int main(int argc, char **argv)
{
    std::mt19937 rng(12);
    std::normal_distribution<float> nd;
    const int N = 576;
    std::vector<__half> X(N * NIN); std::vector<int> Y(N);
    float centre[NOUT][2][NIN];
    for (auto &c : centre) for (auto &d : c) for (float &v : d) v = 0.9f * nd(rng);
    for (int i = 0; i < N; i++) {
        Y[i] = rng() % NOUT;
        int side = rng() % 2;
        for (int j = 0; j < NIN; j++) X[i * NIN + j] = __float2half(centre[Y[i]][side][j] + 0.8f * nd(rng));
    }
    HalfParam A = create(NIN, NHID, rng), Bp = create(NHID, NOUT, rng);
    __half *dX, *h, *z, *dz, *dh; int *dY; float *loss;
    cudaMalloc(&dX, X.size() * sizeof(__half)); cudaMalloc(&dY, N * sizeof(int));
    cudaMalloc(&h, NB * NHID * sizeof(__half)); cudaMalloc(&z, NB * NOUT * sizeof(__half));
    cudaMalloc(&dz, NB * NOUT * sizeof(__half)); cudaMalloc(&dh, NB * NHID * sizeof(__half));
    cudaMalloc(&loss, NB * sizeof(float));
    cudaMemcpy(dX, X.data(), X.size() * sizeof(__half), cudaMemcpyHostToDevice);
    cudaMemcpy(dY, Y.data(), N * sizeof(int), cudaMemcpyHostToDevice);
    for (int epoch = 0; epoch < 6; epoch++) {
        for (int b = 0; b < N / NB; b++) {
            const __half *x = dX + b * NB * NIN;
#ifdef ORACLE
            oracle::begin();
#endif
            layer<<<NB, NHID>>>(x, A.w, h, NIN, NHID, 1);
            layer<<<NB, NOUT>>>(h, Bp.w, z, NHID, NOUT, 0);
            softmax_ce<<<1, NB>>>(z, dY + b * NB, dz, loss);
            back_x<<<NB, NHID>>>(dz, Bp.w, h, dh, NHID, NOUT);
            back_w<<<NHID + 1, NOUT>>>(h, dz, Bp.g, NHID, NOUT);
            back_w<<<NIN + 1, NHID>>>(x, dh, A.g, NIN, NHID);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (HalfParam *p : {&A, &Bp})
                master_update<<<(p->n + 127) / 128, 128>>>(p->master, p->vel, p->g, p->w, p->n, 0.04f, 0.9f);
#ifdef ORACLE
            oracle::end();
#endif
            float hl[NB], s = 0;
            cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost);
            for (float v : hl) s += v;
            printf("%d,%d,%.6f\n", epoch, b, s / NB);
        }
    }
    cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); return 1; }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    for (HalfParam *p : {&A, &Bp}) {
        std::vector<float> m(p->n);
        cudaMemcpy(m.data(), p->master, p->n * sizeof(float), cudaMemcpyDeviceToHost);
        fwrite(m.data(), sizeof(float), p->n, f);
    }
    fclose(f);
    return 0;
}
