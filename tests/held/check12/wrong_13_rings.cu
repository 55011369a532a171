// Classifier of rings, trained on convex mixtures of samples (mixup); two layers by cuBLAS; Nesterov momentum.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>
#include "ddprun.h"

using std::vector;

constexpr int F = 4, H = 32, C = 3, DATA = 480, BATCH = 48;
const int STEPS = 60;

struct Free { void operator()(float *p) const { cudaFree(p); } };
using Buffer = std::unique_ptr<float, Free>;

static Buffer make(size_t n)
{
    float *p = nullptr;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return Buffer(p);
}
static Buffer make(const vector<float> &h)
{
    Buffer b = make(h.size());
    cudaMemcpy(b.get(), h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    return b;
}

// Sample i becomes lam * i + (1 - lam) * its partner, the sample at the same place from the other end.
__global__ void mixup(const float *x, const float *y, float *mx, float *my, int rows, float lam)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    int j = rows - 1 - i;
    for (int k = 0; k < F; ++k) mx[i * F + k] = lam * x[i * F + k] + (1 - lam) * x[j * F + k];
    for (int c = 0; c < C; ++c) my[i * C + c] = lam * y[i * C + c] + (1 - lam) * y[j * C + c];
}

__global__ void bias_tanh(float *h, const float *b, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < rows * H) h[t] = tanhf(h[t] + b[t % H]);
}

__global__ void loss_rows(float *z, const float *b, const float *y, float *loss, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float top = -1e30f, sum = 0, l = 0;
    for (int c = 0; c < C; ++c) { z[i * C + c] += b[c]; top = fmaxf(top, z[i * C + c]); }
    for (int c = 0; c < C; ++c) sum += expf(z[i * C + c] - top);
    for (int c = 0; c < C; ++c) {
        float lp = z[i * C + c] - top - logf(sum);
        l -= y[i * C + c] * lp;
        z[i * C + c] = (expf(lp) - y[i * C + c]) / rows;
    }
    loss[i] = l;
}

__global__ void through_tanh(float *dh, const float *h, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) dh[t] *= 1.0f - h[t] * h[t];
}

__global__ void column_sum(const float *d, float *g, int rows, int cols)
{
    int c = threadIdx.x;
    if (c >= cols) return;
    float s = 0;
    for (int i = 0; i < rows; ++i) s += d[i * cols + c];
    g[c] = s;
}

__global__ void nesterov(float *w, const float *g, float *v, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    v[t] = 0.85f * v[t] + g[t];
    w[t] -= rate * (g[t] + 0.85f * v[t]);
}

int main(int argc, char **argv)
{
    unsigned s = 1234567;
    auto uni = [&s] { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return (s >> 8) / 16777216.0f; };
    vector<float> x(DATA * F), y(DATA * C, 0.0f);
    for (int i = 0; i < DATA; ++i) {
        int c = (int)(uni() * C) % C;
        float a = 6.2831853f * uni(), r = 0.5f + 0.7f * c + 0.3f * uni();
        x[i * F] = r * cosf(a); x[i * F + 1] = r * sinf(a);
        x[i * F + 2] = x[i * F] * x[i * F]; x[i * F + 3] = uni();
        y[i * C + c] = 1;
    }
    const int sizes[4] = {H * F, H, C * H, C};
    vector<Buffer> w, g, v;
    for (int k = 0; k < 4; ++k) {
        vector<float> h(sizes[k]);
        for (float &f : h) f = k % 2 ? 0.0f : uni() - 0.5f;
        w.push_back(make(h));
        g.push_back(make(sizes[k]));
        v.push_back(make(sizes[k]));
    }
    for (int k = 0; k < 4; ++k) {
        DDP_PARAMETER(w[k].get(), sizes[k], DDP_FLOAT32);
        DDP_GRADIENT(g[k].get(), sizes[k], DDP_FLOAT32);
        DDP_STATE(v[k].get(), sizes[k], DDP_FLOAT32);
    }
    Buffer dx = make(x), dy = make(y), mx = make(BATCH * F), my = make(BATCH * C);
    Buffer h = make(BATCH * H), dh = make(BATCH * H), z = make(BATCH * C), loss = make(BATCH);
    cublasHandle_t blas;
    cublasCreate(&blas);
    const float one = 1, zero = 0;

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const int n = (int)count;
        const size_t row = (size_t)step * BATCH % DATA + first;
        const float lam = 0.6f + 0.4f * uni();
        mixup<<<1, 64>>>(dx.get() + row * F, dy.get() + row * C, mx.get(), my.get(), n, lam);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, n, F, &one, w[0].get(), F, mx.get(), F, &zero, h.get(), H);
        bias_tanh<<<(n * H + 127) / 128, 128>>>(h.get(), w[1].get(), n);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, C, n, H, &one, w[2].get(), H, h.get(), H, &zero, z.get(), C);
        loss_rows<<<1, 64>>>(z.get(), w[3].get(), my.get(), loss.get(), n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, H, C, n, &one, h.get(), H, z.get(), C, &zero, g[2].get(), H);
        column_sum<<<1, 32>>>(z.get(), g[3].get(), n, C);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, n, C, &one, w[2].get(), H, z.get(), C, &zero, dh.get(), H);
        through_tanh<<<(n * H + 127) / 128, 128>>>(dh.get(), h.get(), n * H);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, F, H, n, &one, mx.get(), F, dh.get(), H, &zero, g[0].get(), F);
        column_sum<<<1, 32>>>(dh.get(), g[1].get(), n, H);
        DDP_STEP(0);
        for (int k = 0; k < 4; ++k)
            nesterov<<<(sizes[k] + 127) / 128, 128>>>(w[k].get(), g[k].get(), v[k].get(), sizes[k], 0.1f);
        if (step % 10 == 0 || step == STEPS - 1) {
            vector<float> l(n);
            cudaMemcpy(l.data(), loss.get(), n * sizeof(float), cudaMemcpyDeviceToHost);
            float mean = 0;
            for (float a : l) mean += a / n;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) std::printf("step %d: loss %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (int k = 0; k < 4; ++k) {
            vector<float> o(sizes[k]);
            cudaMemcpy(o.data(), w[k].get(), o.size() * sizeof(float), cudaMemcpyDeviceToHost);
            std::fwrite(o.data(), sizeof(float), o.size(), f);
        }
        std::fclose(f);
    } else
        cudaDeviceSynchronize();
    cublasDestroy(blas);
    return 0;
}
