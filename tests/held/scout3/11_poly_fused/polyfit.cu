// Least squares on polynomial features of a noisy curve, one fused kernel per
// iteration for features, prediction, loss and gradient.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>
#include <cuda_runtime.h>

#define DEG 7
#define THREADS 128

#define CHECK(e)                                                            \
    if ((e) != cudaSuccess) {                                               \
        printf("error %s at line %d\n", cudaGetErrorString(e), __LINE__);   \
        return 1;                                                           \
    }

struct Stats {
    float loss;
    float grad_norm;
};

__device__ float block_sum(float v, float *buf)
{
    int t = threadIdx.x;
    buf[t] = v;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (t < s) buf[t] += buf[t + s];
        __syncthreads();
    }
    float r = buf[0];
    __syncthreads();
    return r;
}

// Chebyshev features T_0..T_DEG-1
__device__ void features(float x, float *f)
{
    f[0] = 1.f;
    f[1] = x;
#pragma unroll
    for (int j = 2; j < DEG; j++) f[j] = 2.f * x * f[j - 1] - f[j - 2];
}

__global__ void fused_fit(const float *x, const float *y, const float *coef, float *grad, Stats *st, int n)
{
    __shared__ float buf[THREADS];
    float g[DEG], f[DEG], loss = 0.f;
    for (int j = 0; j < DEG; j++) g[j] = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        features(x[i], f);
        float p = 0.f;
        for (int j = 0; j < DEG; j++) p += coef[j] * f[j];
        float e = p - y[i];
        loss += 0.5f * e * e;
        for (int j = 0; j < DEG; j++) g[j] += e * f[j];
    }
    float inv = 1.f / n;
    for (int j = 0; j < DEG; j++) {
        float s = block_sum(g[j], buf);
        if (threadIdx.x == 0) atomicAdd(&grad[j], s * inv);
    }
    float s = block_sum(loss, buf);
    if (threadIdx.x == 0) atomicAdd(&st->loss, s * inv);
}

// update and clear for the next iteration
__global__ void apply(float *coef, float *mom, float *grad, Stats *st, float lr)
{
    int j = threadIdx.x;
    if (j < DEG) {
        float g = grad[j];
        mom[j] = 0.7f * mom[j] + g;
        coef[j] -= lr * mom[j];
        grad[j] = 0.f;
        atomicAdd(&st->grad_norm, g * g);
    }
}

int main(int argc, char **argv)
{
    const int total = 6144, iters = 16;
    int batch = 1024;
    if (argc > 1) batch = atoi(argv[1]);
    if (batch <= 0 || total % batch) {
        printf("usage: %s [batch], a divisor of %d\n", argv[0], total);
        return 1;
    }

    std::vector<float> hx(total), hy(total);
    srand(77);
    for (int i = 0; i < total; i++) {
        float u = rand() / (float)RAND_MAX;
        hx[i] = 2.f * u - 1.f;
        hy[i] = expf(hx[i]) * sinf(3.f * hx[i]) + 0.05f * (rand() / (float)RAND_MAX - 0.5f);
    }
    float *x, *y, *coef, *mom, *grad;
    Stats *st, hs;
    CHECK(cudaMalloc(&x, total * sizeof(float)));
    CHECK(cudaMalloc(&y, total * sizeof(float)));
    CHECK(cudaMalloc(&coef, DEG * sizeof(float)));
    CHECK(cudaMalloc(&mom, DEG * sizeof(float)));
    CHECK(cudaMalloc(&grad, DEG * sizeof(float)));
    CHECK(cudaMalloc(&st, sizeof(Stats)));
    CHECK(cudaMemcpy(x, hx.data(), total * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(y, hy.data(), total * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(coef, 0, DEG * sizeof(float)));
    CHECK(cudaMemset(mom, 0, DEG * sizeof(float)));
    CHECK(cudaMemset(grad, 0, DEG * sizeof(float)));

    clock_t begin = clock();
    for (int it = 0; it < iters; it++) {
        int at = (it % (total / batch)) * batch;
        int blocks = (batch + THREADS * 4 - 1) / (THREADS * 4);
        CHECK(cudaMemset(st, 0, sizeof(Stats)));
        fused_fit<<<blocks, THREADS>>>(x + at, y + at, coef, grad, st, batch);
        apply<<<1, 32>>>(coef, mom, grad, st, 0.6f);
        CHECK(cudaMemcpy(&hs, st, sizeof(Stats), cudaMemcpyDeviceToHost));
        printf("iter %2d  loss %.6f  |g| %.6f\n", it, hs.loss, sqrtf(hs.grad_norm));
    }
    fprintf(stderr, "%.3f s\n", (clock() - begin) / (double)CLOCKS_PER_SEC);

    float hc[DEG];
    CHECK(cudaMemcpy(hc, coef, sizeof(hc), cudaMemcpyDeviceToHost));
    for (int j = 0; j < DEG; j++) printf("c%d = %+.5f\n", j, hc[j]);
    cudaFree(x); cudaFree(y); cudaFree(coef); cudaFree(mom); cudaFree(grad); cudaFree(st);
    return 0;
}
