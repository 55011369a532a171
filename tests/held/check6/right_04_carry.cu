// Softmax classifier with a hidden layer. The gradient buffers are never cleared: each gemm leaves 0.9 of what they held
// and adds the new gradient, so they double as the optimizer's velocity.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

struct Config {
    int in = 12, hidden = 36, classes = 7, batch = 56, rows = 784;
    float keep = 0.9f, rate = 0.03f, decay = 1e-3f;
};

static void ok(cudaError_t e) { if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } }
static void ok(cublasStatus_t s) { if (s != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas %d\n", (int)s); exit(1); } }

class Random {
    unsigned a = 1, b = 7;
  public:
    float operator()() { a = 36969 * (a & 65535) + (a >> 16); b = 18000 * (b & 65535) + (b >> 16); return (float)(((a << 16) + b) >> 8) / 16777216.f; }
};

__global__ void bias_elu(float *z, const float *b, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = z[i] + b[i % width];
    z[i] = v > 0 ? v : expf(v) - 1;
}
__global__ void elu_back(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] < 0) d[i] *= a[i] + 1;
}
// label smoothing 0.1
__global__ void smooth_softmax(float *z, const float *b, const int *y, float *loss, int classes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *q = z + i * classes, s = 0, mean = 0;
    for (int c = 0; c < classes; ++c) { q[c] += b[c]; s += expf(q[c]); mean += q[c] / classes; }
    loss[i] = logf(s) - 0.9f * q[y[i]] - 0.1f * mean;
    for (int c = 0; c < classes; ++c) q[c] = (expf(q[c]) / s - (c == y[i] ? 0.9f : 0.f) - 0.1f / classes) / n;
}
__global__ void step(float *w, const float *velocity, float rate, float decay, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * (velocity[i] + decay * w[i]);
}

class Net {
  public:
    Net(const Config &config, Random &r) : c(config)
    {
        ok(cublasCreate(&blas));
        const int n[4] = {c.in * c.hidden, c.hidden, c.hidden * c.classes, c.classes};
        std::copy(n, n + 4, size);
        for (int k = 0; k < 4; ++k) {
            std::vector<float> h(size[k]);
            for (float &v : h) v = (k % 2 ? 0.f : 0.5f) * (2 * r() - 1);
            w[k] = make(size[k]);
            g[k] = make(size[k]);
            ok(cudaMemcpy(w[k], h.data(), h.size() * 4, cudaMemcpyHostToDevice));
            DDP_PARAMETER(w[k], size[k], DDP_FLOAT32);
            DDP_GRADIENT(g[k], size[k], DDP_FLOAT32);
        }
        x = make(c.in * c.batch), a = make(c.hidden * c.batch), d = make(c.hidden * c.batch), z = make(c.classes * c.batch);
        loss = make(c.batch), ones = make(c.batch);
        y = (int *)make(c.batch);
        std::vector<float> h(c.batch, 1.f);
        ok(cudaMemcpy(ones, h.data(), c.batch * 4, cudaMemcpyHostToDevice));
    }
    float train(const float *rows, const int *labels, int n)
    {
        const float one = 1, zero = 0;
        ok(cudaMemcpy(x, rows, n * c.in * 4, cudaMemcpyHostToDevice));
        ok(cudaMemcpy(y, labels, n * 4, cudaMemcpyHostToDevice));
        ok(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.hidden, n, c.in, &one, w[0], c.hidden, x, c.in, &zero, a, c.hidden));
        bias_elu<<<(n * c.hidden + 63) / 64, 64>>>(a, w[1], c.hidden, n * c.hidden);
        ok(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.classes, n, c.hidden, &one, w[2], c.classes, a, c.hidden, &zero, z, c.classes));
        smooth_softmax<<<(n + 31) / 32, 32>>>(z, w[3], y, loss, c.classes, n);
        ok(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, c.classes, c.hidden, n, &one, z, c.classes, a, c.hidden, &c.keep, g[2], c.classes));
        ok(cublasSgemv(blas, CUBLAS_OP_N, c.classes, n, &one, z, c.classes, ones, 1, &c.keep, g[3], 1));
        ok(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, c.hidden, n, c.classes, &one, w[2], c.classes, z, c.classes, &zero, d, c.hidden));
        elu_back<<<(n * c.hidden + 63) / 64, 64>>>(d, a, n * c.hidden);
        ok(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, c.hidden, c.in, n, &one, d, c.hidden, x, c.in, &c.keep, g[0], c.hidden));
        ok(cublasSgemv(blas, CUBLAS_OP_N, c.hidden, n, &one, d, c.hidden, ones, 1, &c.keep, g[1], 1));
        DDP_STEP(0);
        for (int k = 0; k < 4; ++k)
            step<<<(size[k] + 63) / 64, 64>>>(w[k], g[k], c.rate, k % 2 ? 0.f : c.decay, size[k]);
        std::vector<float> l(n);
        ok(cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost));
        float sum = 0;
        for (float v : l) sum += v / n;
        return sum;
    }
    void save(FILE *f) const
    {
        for (int k = 0; k < 4; ++k) {
            std::vector<float> h(size[k]);
            ok(cudaMemcpy(h.data(), w[k], size[k] * 4, cudaMemcpyDeviceToHost));
            fwrite(h.data(), 4, h.size(), f);
        }
    }

  private:
    Config c;
    cublasHandle_t blas;
    int size[4];
    float *w[4], *g[4], *x, *a, *d, *z, *loss, *ones;
    int *y;
    static float *make(int n)
    {
        float *p;
        ok(cudaMalloc(&p, n * 4));
        ok(cudaMemset(p, 0, n * 4));
        return p;
    }
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    Config c;
    Random r;
    std::vector<float> X(c.rows * c.in), centre(c.classes * c.in);
    std::vector<int> Y(c.rows);
    for (float &v : centre) v = 2 * r() - 1;
    for (int i = 0; i < c.rows; ++i) {
        Y[i] = i * 5 % c.classes;
        for (int k = 0; k < c.in; ++k) X[i * c.in + k] = centre[Y[i] * c.in + k] * (i % 2 ? 1.f : -1.f) + 1.2f * (r() - 0.5f);
    }
    Net net(c, r);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(c.batch, &first, &count);
        size_t row = s * c.batch % c.rows + first;
        float loss = net.train(&X[row * c.in], &Y[row], (int)count);
        DDP_MEAN(&loss);
        if (DDP_RANK() == 0 && s % 10 == 0) printf("step %d: %.4f\n", s, loss);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        net.save(f);
        fclose(f);
    }
    return 0;
}
