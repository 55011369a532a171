#ifndef MLP_CUH
#define MLP_CUH

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_SAFE(call) do { cudaError_t e__ = call; if (e__ != cudaSuccess) { \
    printf("%s at %s:%d\n", cudaGetErrorString(e__), __FILE__, __LINE__); exit(EXIT_FAILURE); } } while (0)

namespace kernels {

__global__ void affine(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, int leaky)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    int r = i / out, o = i % out;
    float s = b[o];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[o * in + k];
    y[i] = leaky && s < 0 ? 0.2f * s : s;
}

__global__ void leaky_backward(const float *y, float *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] < 0) dy[i] *= 0.2f;
}

__global__ void affine_grad(const float *x, const float *dy, float *dw, float *db, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in * out) {
        int o = i / in, k = i % in;
        float s = 0;
        for (int r = 0; r < rows; ++r) s += dy[r * out + o] * x[r * in + k];
        dw[i] += s;
    }
    if (i < out) {
        float s = 0;
        for (int r = 0; r < rows; ++r) s += dy[r * out + i];
        db[i] += s;
    }
}

__global__ void affine_dx(const float *w, const float *dy, float *dx, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * in) return;
    int r = i / in, k = i % in;
    float s = 0;
    for (int o = 0; o < out; ++o) s += dy[r * out + o] * w[o * in + k];
    dx[i] = s;
}

__global__ void adam(float *w, float *g, float *m, float *v, int n, float lr, float beta1, float beta2, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

}  // namespace kernels

class Mlp {
public:
    Mlp(std::vector<int> dims, int max_rows, unsigned seed) : dims_(dims)
    {
        std::mt19937 gen(seed);
        layers_.resize(dims.size() - 1);
        for (size_t l = 0; l < layers_.size(); ++l) {
            Fc &f = layers_[l];
            f.in = dims[l], f.out = dims[l + 1];
            int n = f.in * f.out;
            for (float **p : {&f.w, &f.dw, &f.mw, &f.vw}) zeros(p, n);
            for (float **p : {&f.b, &f.db, &f.mb, &f.vb}) zeros(p, f.out);
            zeros(&f.y, max_rows * f.out);
            zeros(&f.dx, max_rows * f.in);
            std::normal_distribution<float> d(0, std::sqrt(1.5f / f.in));
            std::vector<float> h(n);
            for (float &x : h) x = d(gen);
            CUDA_SAFE(cudaMemcpy(f.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        }
    }

    float *forward(const float *x, int rows)
    {
        x_ = x;
        for (size_t l = 0; l < layers_.size(); ++l) {
            Fc &f = layers_[l];
            kernels::affine<<<(rows * f.out + 127) / 128, 128>>>(l ? layers_[l - 1].y : x, f.w, f.b, f.y, rows, f.in, f.out,
                                                                 l + 1 < layers_.size());
        }
        return layers_.back().y;
    }

    // adds to the gradients; returns the gradient with respect to the input
    float *backward(float *dy, int rows)
    {
        for (int l = (int)layers_.size() - 1; l >= 0; --l) {
            Fc &f = layers_[l];
            if (l + 1 < (int)layers_.size())
                kernels::leaky_backward<<<(rows * f.out + 127) / 128, 128>>>(f.y, dy, rows * f.out);
            kernels::affine_grad<<<(f.in * f.out + 127) / 128, 128>>>(l ? layers_[l - 1].y : x_, dy, f.dw, f.db, rows, f.in,
                                                                      f.out);
            kernels::affine_dx<<<(rows * f.in + 127) / 128, 128>>>(f.w, dy, f.dx, rows, f.in, f.out);
            dy = f.dx;
        }
        return dy;
    }

    void zero_grad()
    {
        for (Fc &f : layers_) {
            CUDA_SAFE(cudaMemset(f.dw, 0, f.in * f.out * sizeof(float)));
            CUDA_SAFE(cudaMemset(f.db, 0, f.out * sizeof(float)));
        }
    }

    void adam(float lr, float beta1 = 0.5f, float beta2 = 0.999f)
    {
        ++t_;
        float c1 = 1 - std::pow(beta1, t_), c2 = 1 - std::pow(beta2, t_);
        for (Fc &f : layers_) {
            int n = f.in * f.out;
            kernels::adam<<<(n + 127) / 128, 128>>>(f.w, f.dw, f.mw, f.vw, n, lr, beta1, beta2, c1, c2);
            kernels::adam<<<(f.out + 127) / 128, 128>>>(f.b, f.db, f.mb, f.vb, f.out, lr, beta1, beta2, c1, c2);
        }
    }

private:
    struct Fc {
        int in, out;
        float *w, *b, *dw, *db, *mw, *mb, *vw, *vb, *y, *dx;
    };
    static void zeros(float **p, int n)
    {
        CUDA_SAFE(cudaMalloc(p, n * sizeof(float)));
        CUDA_SAFE(cudaMemset(*p, 0, n * sizeof(float)));
    }
    std::vector<int> dims_;
    std::vector<Fc> layers_;
    const float *x_ = nullptr;
    int t_ = 0;
};

#endif
