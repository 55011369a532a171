// LSTM that predicts the next value of a noisy sine; cuBLAS for the products, Adam.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

struct Param {
    float *w;      // value
    float *g;      // gradient
    float *m, *v;  // Adam
    int n;
};

constexpr int SEQ = 20;
constexpr int HIDDEN = 24;
constexpr int GATES = 4 * HIDDEN;
constexpr int BATCH = 64;
constexpr int STEPS = 100;

// All matrices are column major, one column per sequence
static Param Wx, Wh, bias, Wy, by;
static cublasHandle_t handle;

static Param make_param(int n, float scale)
{
    Param p;
    p.n = n;
    std::vector<float> h(n);
    for (auto &x : h)
        x = scale * (2.f * rand() / RAND_MAX - 1.f);
    cudaMalloc((void **)&p.w, n * sizeof(float));
    cudaMalloc((void **)&p.g, n * sizeof(float));
    cudaMalloc((void **)&p.m, n * sizeof(float));
    cudaMalloc((void **)&p.v, n * sizeof(float));
    cudaMemcpy(p.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(p.m, 0, n * sizeof(float));
    cudaMemset(p.v, 0, n * sizeof(float));
    return p;
}

__device__ float sigm(float x) { return 1.f / (1.f + expf(-x)); }

__global__ void gates_forward(float *z, const float *x, const float *Wx, const float *b, const float *cprev, float *c, float *h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= BATCH * HIDDEN) return;
    int s = i / HIDDEN, k = i % HIDDEN;
    float *zz = z + s * GATES;
    float a[4];
    for (int q = 0; q < 4; ++q) {
        float pre = zz[q * HIDDEN + k] + Wx[q * HIDDEN + k] * x[s] + b[q * HIDDEN + k];
        a[q] = q < 3 ? sigm(pre) : tanhf(pre);
        zz[q * HIDDEN + k] = a[q];
    }
    c[i] = a[1] * cprev[i] + a[0] * a[3];
    h[i] = a[2] * tanhf(c[i]);
}

__global__ void gates_backward(const float *z, const float *cprev, const float *c, const float *dh, float *dc, float *dz)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= BATCH * HIDDEN) return;
    int s = i / HIDDEN, k = i % HIDDEN;
    const float *a = z + s * GATES + k;
    float in = a[0], f = a[HIDDEN], o = a[2 * HIDDEN], g = a[3 * HIDDEN];
    float tc = tanhf(c[i]);
    float d = dc[i] + dh[i] * o * (1.f - tc * tc);
    float *q = dz + s * GATES + k;
    q[0] = d * g * in * (1.f - in);
    q[HIDDEN] = d * cprev[i] * f * (1.f - f);
    q[2 * HIDDEN] = dh[i] * tc * o * (1.f - o);
    q[3 * HIDDEN] = d * in * (1.f - g * g);
    dc[i] = d * f;
}

// dWx and db get += over time steps
__global__ void input_gradient(const float *dz, const float *x, float *dWx, float *db)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= GATES) return;
    float s = 0.f, sb = 0.f;
    for (int b = 0; b < BATCH; ++b) {
        s += dz[b * GATES + r] * x[b];
        sb += dz[b * GATES + r];
    }
    dWx[r] += s;
    db[r] += sb;
}

__global__ void mse(const float *h, const float *Wy, const float *by, const float *target, float *dy, float *loss)
{
    __shared__ float acc[BATCH];
    int b = threadIdx.x;
    float y = by[0];
    for (int k = 0; k < HIDDEN; ++k)
        y += Wy[k] * h[b * HIDDEN + k];
    float e = y - target[b];
    dy[b] = 2.f * e / BATCH;
    acc[b] = e * e / BATCH;
    __syncthreads();
    if (b == 0) {
        float s = 0;
        for (int i = 0; i < BATCH; ++i)
            s += acc[i];
        *loss = s;
    }
}

__global__ void output_gradient(const float *h, const float *dy, const float *Wy, float *dWy, float *dby, float *dh)
{
    int k = threadIdx.x;
    float s = 0.f, sb = 0.f;
    for (int b = 0; b < BATCH; ++b) {
        s += dy[b] * h[b * HIDDEN + k];
        sb += dy[b];
        dh[b * HIDDEN + k] = dy[b] * Wy[k];
    }
    dWy[k] = s;
    if (k == 0) dby[0] = sb;
}

__global__ void adam_kernel(Param p, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    p.m[i] = 0.9f * p.m[i] + 0.1f * p.g[i];
    p.v[i] = 0.999f * p.v[i] + 0.001f * p.g[i] * p.g[i];
    p.w[i] -= lr * (p.m[i] / c1) / (sqrtf(p.v[i] / c2) + 1e-8f);
}

static void adam(const Param &p, int t)
{
    adam_kernel<<<(p.n + 127) / 128, 128>>>(p, 0.01f, 1.f - powf(0.9f, t), 1.f - powf(0.999f, t));
}

static void make_batch(float *x, float *y)
{
    for (int b = 0; b < BATCH; ++b) {
        float phase = 6.2832f * rand() / RAND_MAX;
        float freq = 0.2f + 0.3f * rand() / RAND_MAX;
        for (int t = 0; t < SEQ; ++t)
            x[t * BATCH + b] = sinf(phase + freq * t) + 0.05f * (2.f * rand() / RAND_MAX - 1.f);
        y[b] = sinf(phase + freq * SEQ);
    }
}

int main()
{
    srand(2023);
    cublasCreate(&handle);
    Wx = make_param(GATES, 0.3f);
    Wh = make_param(GATES * HIDDEN, 0.2f);
    bias = make_param(GATES, 0.1f);
    Wy = make_param(HIDDEN, 0.3f);
    by = make_param(1, 0.f);

    float *hx = new float[SEQ * BATCH], *hy = new float[BATCH];
    float *x, *y, *h, *c, *z, *dz, *dh, *dc, *dy, *loss;
    cudaMalloc((void **)&x, SEQ * BATCH * sizeof(float));
    cudaMalloc((void **)&y, BATCH * sizeof(float));
    cudaMalloc((void **)&h, (SEQ + 1) * BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&c, (SEQ + 1) * BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&z, SEQ * BATCH * GATES * sizeof(float));
    cudaMalloc((void **)&dz, BATCH * GATES * sizeof(float));
    cudaMalloc((void **)&dh, BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&dc, BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&dy, BATCH * sizeof(float));
    cudaMalloc((void **)&loss, sizeof(float));
    cudaMemset(h, 0, BATCH * HIDDEN * sizeof(float));
    cudaMemset(c, 0, BATCH * HIDDEN * sizeof(float));

    const float one = 1.f, zero = 0.f;
    const int BH = BATCH * HIDDEN, nb = (BH + 127) / 128;
    for (int step = 1; step <= STEPS; ++step) {
        make_batch(hx, hy);
        cudaMemcpy(x, hx, SEQ * BATCH * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, hy, BATCH * sizeof(float), cudaMemcpyHostToDevice);

        for (int t = 0; t < SEQ; ++t) {
            cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, GATES, BATCH, HIDDEN, &one, Wh.w, GATES, h + t * BH, HIDDEN, &zero,
                        z + t * BATCH * GATES, GATES);
            gates_forward<<<nb, 128>>>(z + t * BATCH * GATES, x + t * BATCH, Wx.w, bias.w, c + t * BH, c + (t + 1) * BH, h + (t + 1) * BH);
        }
        mse<<<1, BATCH>>>(h + SEQ * BH, Wy.w, by.w, y, dy, loss);
        output_gradient<<<1, HIDDEN>>>(h + SEQ * BH, dy, Wy.w, Wy.g, by.g, dh);

        cudaMemset(dc, 0, BH * sizeof(float));
        cudaMemset(Wx.g, 0, Wx.n * sizeof(float));
        cudaMemset(bias.g, 0, bias.n * sizeof(float));
        for (int t = SEQ - 1; t >= 0; --t) {
            gates_backward<<<nb, 128>>>(z + t * BATCH * GATES, c + t * BH, c + (t + 1) * BH, dh, dc, dz);
            const float *beta = t == SEQ - 1 ? &zero : &one;
            cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, GATES, HIDDEN, BATCH, &one, dz, GATES, h + t * BH, HIDDEN, beta, Wh.g, GATES);
            input_gradient<<<1, GATES>>>(dz, x + t * BATCH, Wx.g, bias.g);
            cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, HIDDEN, BATCH, GATES, &one, Wh.w, GATES, dz, GATES, &zero, dh, HIDDEN);
        }

        adam(Wx, step);
        adam(Wh, step);
        adam(bias, step);
        adam(Wy, step);
        adam(by, step);

        if (step == 1 || step % 20 == 0) {
            float l;
            cudaMemcpy(&l, loss, sizeof(float), cudaMemcpyDeviceToHost);
            printf("[%3d/%d] mse loss = %.6f\n", step, STEPS, l);
        }
    }
    cublasDestroy(handle);
    return 0;
}
