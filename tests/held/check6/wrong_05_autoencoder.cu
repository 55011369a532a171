// Sparse autoencoder (sigmoid code, KL sparsity penalty) on small image patches. cuBLAS, SGD with momentum.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>
#include "ddprun.h"

namespace {

constexpr int kPixels = 36, kCode = 40, kBatch = 32, kPatches = 640;

void cuda(cudaError_t e) { if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e)); }
void blas(cublasStatus_t s) { if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublas"); }
int blocks(int n) { return (n + 127) / 128; }

class Lcg {
    unsigned long long s_;
  public:
    explicit Lcg(unsigned long long s) : s_(s) {}
    float operator()() { s_ = s_ * 6364136223846793005ULL + 1442695040888963407ULL; return (float)(s_ >> 40) / (1 << 24); }
};

// Column-major: each column is one patch.
__global__ void sigmoidBias(float *z, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = 1.f / (1.f + expf(-z[i] - b[i % rows]));
}
__global__ void residual(float *out, const float *b, const float *x, float *loss, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float l = 0.f;
    for (int r = 0; r < rows; ++r) {
        float e = out[c * rows + r] + b[r] - x[c * rows + r];
        l += 0.5f * e * e;
        out[c * rows + r] = e / cols;
    }
    loss[c] = l;
}
__global__ void rowSum(const float *a, float *sum, float scale, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.f;
    for (int c = 0; c < cols; ++c) s += a[c * rows + r];
    sum[r] = s * scale;
}
__global__ void codeBack(float *d, const float *code, const float *usage, float target, float strength, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    float u = fminf(fmaxf(usage[i % rows], 1e-3f), 1.f - 1e-3f);
    float pull = strength * ((1.f - target) / (1.f - u) - target / u) / cols;
    d[i] = (d[i] + pull) * code[i] * (1.f - code[i]);
}
__global__ void momentum(float *w, float *v, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.9f * v[i] + g[i];
    w[i] -= rate * v[i];
}

struct Tensor {
    float *p, *g, *v;
    int n;
    Tensor(int n_, float scale, Lcg &r) : n(n_)
    {
        std::vector<float> h(n);
        for (float &x : h) x = scale * (2.f * r() - 1.f);
        for (float **q : {&p, &g, &v}) { cuda(cudaMalloc(q, n * sizeof(float))); cuda(cudaMemset(*q, 0, n * sizeof(float))); }
        cuda(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(p, n, DDP_TYPE_OF(p));
        DDP_GRADIENT(g, n, DDP_TYPE_OF(g));
        DDP_STATE(v, n, DDP_TYPE_OF(v));
    }
    void update(float rate) { momentum<<<blocks(n), 128>>>(p, v, g, rate, n); }
    void read(std::vector<float> &to) const
    {
        std::vector<float> h(n);
        cuda(cudaMemcpy(h.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost));
        to.insert(to.end(), h.begin(), h.end());
    }
};

class Autoencoder {
  public:
    explicit Autoencoder(Lcg &r)
        : we_(kCode * kPixels, 0.3f, r), be_(kCode, 0.1f, r), wd_(kPixels * kCode, 0.3f, r), bd_(kPixels, 0.01f, r)
    {
        blas(cublasCreate(&h_));
        cuda(cudaMalloc(&x_, kPixels * kBatch * 4));
        cuda(cudaMalloc(&code_, kCode * kBatch * 4));
        cuda(cudaMalloc(&out_, kPixels * kBatch * 4));
        cuda(cudaMalloc(&d_, kCode * kBatch * 4));
        cuda(cudaMalloc(&usage_, kCode * 4));
        cuda(cudaMalloc(&loss_, kBatch * 4));
    }
    ~Autoencoder() { cublasDestroy(h_); }

    float step(const float *patches, int n)
    {
        const float one = 1.f, zero = 0.f;
        cuda(cudaMemcpy(x_, patches, kPixels * n * 4, cudaMemcpyHostToDevice));
        blas(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_N, kCode, n, kPixels, &one, we_.p, kCode, x_, kPixels, &zero, code_, kCode));
        sigmoidBias<<<blocks(kCode * n), 128>>>(code_, be_.p, kCode, kCode * n);
        rowSum<<<1, 64>>>(code_, usage_, 1.f / n, kCode, n);
        blas(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_N, kPixels, n, kCode, &one, wd_.p, kPixels, code_, kCode, &zero, out_, kPixels));
        residual<<<1, 64>>>(out_, bd_.p, x_, loss_, kPixels, n);
        blas(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_T, kPixels, kCode, n, &one, out_, kPixels, code_, kCode, &zero, wd_.g, kPixels));
        rowSum<<<1, 64>>>(out_, bd_.g, 1.f, kPixels, n);
        blas(cublasSgemm(h_, CUBLAS_OP_T, CUBLAS_OP_N, kCode, n, kPixels, &one, wd_.p, kPixels, out_, kPixels, &zero, d_, kCode));
        codeBack<<<blocks(kCode * n), 128>>>(d_, code_, usage_, 0.08f, 0.2f, kCode, n);
        blas(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_T, kCode, kPixels, n, &one, d_, kCode, x_, kPixels, &zero, we_.g, kCode));
        rowSum<<<1, 64>>>(d_, be_.g, 1.f, kCode, n);
        DDP_STEP(0);
        for (Tensor *t : {&we_, &be_, &wd_, &bd_}) t->update(0.02f);
        float l[kBatch], sum = 0.f;
        cuda(cudaMemcpy(l, loss_, n * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i) sum += l[i] / n;
        return sum;
    }
    void save(const char *name) const
    {
        std::vector<float> all;
        for (const Tensor *t : {&we_, &be_, &wd_, &bd_}) t->read(all);
        FILE *f = fopen(name, "wb");
        fwrite(all.data(), 4, all.size(), f);
        fclose(f);
    }

  private:
    cublasHandle_t h_;
    Tensor we_, be_, wd_, bd_;
    float *x_, *code_, *out_, *d_, *usage_, *loss_;
};

} // namespace

int main(int argc, char **argv)
try {
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    Lcg random(31);
    std::vector<float> patches(kPatches * kPixels);
    for (int p = 0; p < kPatches; ++p) {
        float angle = 3.14159f * random(), phase = 6.28f * random(), frequency = 0.6f + random();
        for (int i = 0; i < kPixels; ++i)
            patches[p * kPixels + i] = sinf(phase + frequency * (cosf(angle) * (i % 6) + sinf(angle) * (i / 6)));
    }
    Autoencoder model(random);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        float loss = model.step(&patches[(s * kBatch % kPatches + first) * kPixels], (int)count);
        DDP_MEAN_AS("reconstruction", &loss);
        if (DDP_RANK() == 0 && s % 10 == 0) printf("%d %.4f\n", s, loss);
    }
    if (argc > 1 && DDP_RANK() == 0) model.save(argv[1]);
    return 0;
} catch (const std::exception &e) {
    fprintf(stderr, "error: %s\n", e.what());
    return 1;
}
