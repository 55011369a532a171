// Sparse autoencoder with sigmoid units on synthetic patches, after the well-known lecture notes. cuBLAS for the products.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include "ddprun.h"

static unsigned g_seed = 77u;
static float frand() { g_seed = g_seed * 1664525u + 1013904223u; return (g_seed >> 8) * (1.0f / 16777216.0f); }

static const float kOne = 1.0f, kZero = 0.0f;

class Tensor {
public:
    Tensor(int rows, int cols) : rows_(rows), cols_(cols) { cudaMalloc(&data_, bytes()); cudaMemset(data_, 0, bytes()); }
    ~Tensor() { cudaFree(data_); }
    float *get() const { return data_; }
    int size() const { return rows_ * cols_; }
    size_t bytes() const { return sizeof(float) * rows_ * cols_; }
    void uniform(float r)
    {
        std::vector<float> v(size());
        for (float &x : v) x = (2 * frand() - 1) * r;
        upload(v.data());
    }
    void upload(const float *src) { cudaMemcpy(data_, src, bytes(), cudaMemcpyHostToDevice); }
    std::vector<float> download() const
    {
        std::vector<float> v(size());
        cudaMemcpy(v.data(), data_, bytes(), cudaMemcpyDeviceToHost);
        return v;
    }
private:
    int rows_, cols_;
    float *data_;
};

__global__ void add_bias_sigmoid(float *a, const float *b, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * width) a[i] = 1.0f / (1.0f + expf(-(a[i] + b[i % width])));
}
__global__ void output_delta(const float *y, const float *x, float *d, float scale, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) d[i] = (y[i] - x[i]) * y[i] * (1 - y[i]) * scale;
}
__global__ void column_mean(const float *a, float *m, int width, int n)
{
    int k = threadIdx.x;
    if (k >= width) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += a[i * width + k];
    m[k] = s / n;
}
__global__ void hidden_delta(float *d, const float *a, const float *rho_hat, float rho, float beta, float scale, int width,
                             int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * width) return;
    float r = rho_hat[i % width];
    float sparsity = beta * (-rho / r + (1 - rho) / (1 - r));
    d[i] = (d[i] + sparsity * scale) * a[i] * (1 - a[i]);
}
__global__ void column_sum(const float *d, float *g, int width, int n)
{
    int k = threadIdx.x;
    if (k >= width) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += d[i * width + k];
    g[k] = s;
}

class SparseAutoencoder {
public:
    SparseAutoencoder(int visible, int hidden, int batch)
        : V(visible), H(hidden), w1(V, H), b1(1, H), w2(H, V), b2(1, V), gw1(V, H), gb1(1, H), gw2(H, V), gb2(1, V),
          a(batch, H), y(batch, V), dy(batch, V), da(batch, H), rho_hat(1, H)
    {
        cublasCreate(&blas);
        w1.uniform(0.4f);
        w2.uniform(0.4f);
        Tensor *p[] = {&w1, &b1, &w2, &b2}, *g[] = {&gw1, &gb1, &gw2, &gb2};
        for (int i = 0; i < 4; ++i) {
            DDP_PARAMETER(p[i]->get(), p[i]->size(), DDP_FLOAT32);
            DDP_GRADIENT(g[i]->get(), g[i]->size(), DDP_FLOAT32);
        }
    }
    ~SparseAutoencoder() { cublasDestroy(blas); }
    void gradients(const float *x, int n)
    {
        // row-major C = A B is column-major C' = B' A'
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, n, V, &kOne, w1.get(), H, x, V, &kZero, a.get(), H);
        add_bias_sigmoid<<<(n * H + 127) / 128, 128>>>(a.get(), b1.get(), H, n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, V, n, H, &kOne, w2.get(), V, a.get(), H, &kZero, y.get(), V);
        add_bias_sigmoid<<<(n * V + 127) / 128, 128>>>(y.get(), b2.get(), V, n);
        output_delta<<<(n * V + 127) / 128, 128>>>(y.get(), x, dy.get(), 1.0f / n, n * V);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, n, V, &kOne, w2.get(), V, dy.get(), V, &kZero, da.get(), H);
        column_mean<<<1, H>>>(a.get(), rho_hat.get(), H, n);
        hidden_delta<<<(n * H + 127) / 128, 128>>>(da.get(), a.get(), rho_hat.get(), 0.08f, 0.3f, 1.0f / n, H, n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, V, H, n, &kOne, dy.get(), V, a.get(), H, &kZero, gw2.get(), V);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, H, V, n, &kOne, da.get(), H, x, V, &kZero, gw1.get(), H);
        column_sum<<<1, V>>>(dy.get(), gb2.get(), V, n);
        column_sum<<<1, H>>>(da.get(), gb1.get(), H, n);
    }
    void update(float lr)
    {
        float m = -lr;
        cublasSaxpy(blas, w1.size(), &m, gw1.get(), 1, w1.get(), 1);
        cublasSaxpy(blas, b1.size(), &m, gb1.get(), 1, b1.get(), 1);
        cublasSaxpy(blas, w2.size(), &m, gw2.get(), 1, w2.get(), 1);
        cublasSaxpy(blas, b2.size(), &m, gb2.get(), 1, b2.get(), 1);
    }
    float error(const float *x_host, int n)
    {
        std::vector<float> out = y.download();
        float s = 0;
        for (int i = 0; i < n * V; ++i) s += (out[i] - x_host[i]) * (out[i] - x_host[i]);
        return 0.5f * s / n;
    }
    void save(const char *path)
    {
        FILE *f = fopen(path, "wb");
        for (Tensor *t : {&w1, &b1, &w2, &b2}) {
            std::vector<float> v = t->download();
            fwrite(v.data(), sizeof(float), v.size(), f);
        }
        fclose(f);
    }
private:
    int V, H;
    Tensor w1, b1, w2, b2, gw1, gb1, gw2, gb2, a, y, dy, da, rho_hat;
    cublasHandle_t blas;
};

int main(int argc, char **argv)
{
    const int side = 5, visible = side * side, hidden = 14, batch = 48, samples = 480;
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> patches(samples * visible);
    for (int s = 0; s < samples; ++s) {
        float fx = 2 * frand(), fy = 2 * frand(), phase = 6.28f * frand();
        for (int i = 0; i < visible; ++i)
            patches[s * visible + i] = 0.5f + 0.4f * std::sin(fx * (i % side) + fy * (i / side) + phase);
    }
    Tensor data(samples, visible);
    data.upload(patches.data());
    SparseAutoencoder net(visible, hidden, batch);
    for (int it = 0; it < steps; ++it) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        size_t row = (it * batch) % samples + first;
        net.gradients(data.get() + row * visible, (int)count);
        DDP_STEP(0);
        net.update(0.9f);
        if (it % 15 == 14 || it == 0) {
            float e = net.error(&patches[row * visible], (int)count);
            DDP_MEAN(&e);
            if (DDP_RANK() == 0) std::printf("iteration %d error %.4f\n", it + 1, e);
        }
    }
    cudaDeviceSynchronize();
    if (argc > 1 && DDP_RANK() == 0) net.save(argv[1]);
    return 0;
}
