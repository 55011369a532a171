#ifndef OPS_CUH
#define OPS_CUH
#include <cuda_runtime.h>

#define FOR_INDEX(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)

template <int IN, int OUT> __global__ void affine(const float *x, const float *w, const float *b, float *y, int n)
{
    FOR_INDEX(i, n * OUT)
    {
        int r = i / OUT, c = i % OUT;
        float s = b ? b[c] : 0.f;
#pragma unroll 4
        for (int k = 0; k < IN; k++)
            s += x[r * IN + k] * w[c * IN + k];
        y[i] = s;
    }
}

template <int IN, int OUT> __global__ void affine_dw(const float *x, const float *dy, float *dw, float *db, int n)
{
    FOR_INDEX(i, IN * OUT)
    {
        int c = i / IN, k = i % IN;
        float s = 0.f, t = 0.f;
        for (int r = 0; r < n; r++) {
            s += dy[r * OUT + c] * x[r * IN + k];
            t += dy[r * OUT + c];
        }
        dw[i] = s;
        if (k == 0 && db)
            db[c] = t;
    }
}

template <int IN, int OUT> __global__ void affine_dx(const float *dy, const float *w, float *dx, int n)
{
    FOR_INDEX(i, n * IN)
    {
        int r = i / IN, k = i % IN;
        float s = 0.f;
        for (int c = 0; c < OUT; c++)
            s += dy[r * OUT + c] * w[c * IN + k];
        dx[i] = s;
    }
}

// One block of 64 threads per feature. Batch statistics in training, running ones otherwise.
template <int C>
__global__ void batchnorm(const float *x, const float *gamma, const float *beta, float *run_mean, float *run_var,
                          float *xhat, float *inv_std, float *y, int n, bool training)
{
    __shared__ float s1[64], s2[64];
    int c = blockIdx.x, t = threadIdx.x;
    float mean, var;
    if (training) {
        float a = 0.f, b = 0.f;
        for (int r = t; r < n; r += 64) {
            a += x[r * C + c];
            b += x[r * C + c] * x[r * C + c];
        }
        s1[t] = a;
        s2[t] = b;
        __syncthreads();
        for (int h = 32; h > 0; h >>= 1) {
            if (t < h) {
                s1[t] += s1[t + h];
                s2[t] += s2[t + h];
            }
            __syncthreads();
        }
        mean = s1[0] / n;
        var = fmaxf(s2[0] / n - mean * mean, 0.f);
        if (t == 0) {
            run_mean[c] = 0.9f * run_mean[c] + 0.1f * mean;
            run_var[c] = 0.9f * run_var[c] + 0.1f * var;
            inv_std[c] = rsqrtf(var + 1e-5f);
        }
    } else {
        mean = run_mean[c];
        var = run_var[c];
    }
    float is = rsqrtf(var + 1e-5f);
    for (int r = t; r < n; r += 64) {
        float h = (x[r * C + c] - mean) * is;
        xhat[r * C + c] = h;
        y[r * C + c] = gamma[c] * h + beta[c];
    }
}

template <int C>
__global__ void batchnorm_back(const float *dy, const float *gamma, const float *xhat, const float *inv_std,
                               float *dgamma, float *dbeta, float *dx, int n)
{
    __shared__ float s1[64], s2[64];
    int c = blockIdx.x, t = threadIdx.x;
    float a = 0.f, b = 0.f;
    for (int r = t; r < n; r += 64) {
        a += dy[r * C + c];
        b += dy[r * C + c] * xhat[r * C + c];
    }
    s1[t] = a;
    s2[t] = b;
    __syncthreads();
    for (int h = 32; h > 0; h >>= 1) {
        if (t < h) {
            s1[t] += s1[t + h];
            s2[t] += s2[t + h];
        }
        __syncthreads();
    }
    if (t == 0) {
        dbeta[c] = s1[0];
        dgamma[c] = s2[0];
    }
    for (int r = t; r < n; r += 64)
        dx[r * C + c] = gamma[c] * inv_std[c] * (dy[r * C + c] - s1[0] / n - xhat[r * C + c] * s2[0] / n);
}

// y = skip + relu(x)
__global__ void relu_skip(const float *x, const float *skip, float *y, int n)
{
    FOR_INDEX(i, n)
    y[i] = (skip ? skip[i] : 0.f) + fmaxf(x[i], 0.f);
}

__global__ void relu_back(const float *x, const float *dy, float *dx, int n)
{
    FOR_INDEX(i, n)
    dx[i] = x[i] > 0.f ? dy[i] : 0.f;
}

__global__ void add_to(float *a, const float *b, int n)
{
    FOR_INDEX(i, n)
    a[i] += b[i];
}

template <int K> __global__ void softmax_xent(const float *z, const int *y, float *dz, float *loss, int *hit, int n)
{
    FOR_INDEX(r, n)
    {
        const float *q = z + r * K;
        int am = 0;
        for (int k = 1; k < K; k++)
            if (q[k] > q[am])
                am = k;
        float s = 0.f;
        for (int k = 0; k < K; k++)
            s += expf(q[k] - q[am]);
        for (int k = 0; k < K; k++)
            dz[r * K + k] = (expf(q[k] - q[am]) / s - (k == y[r])) * (1.f / n);
        loss[r] = logf(s) + q[am] - q[y[r]];
        hit[r] = am == y[r];
    }
}

__global__ void adamw(float *p, const float *g, float *m, float *v, float lr, float wd, float c1, float c2, int n)
{
    FOR_INDEX(i, n)
    {
        m[i] = .9f * m[i] + .1f * g[i];
        v[i] = .99f * v[i] + .01f * g[i] * g[i];
        p[i] -= lr * (m[i] * c1 / (sqrtf(v[i] * c2) + 1e-8f) + wd * p[i]);
    }
}
#endif
