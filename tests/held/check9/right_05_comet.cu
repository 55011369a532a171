// Fully connected network without gradient buffers: cuBLAS adds each layer's update to its weights during the backward pass.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

static const int WIDTHS[] = {26, 36, 24, 3};
static const int LAYERS = 3, BATCH = 37, ITEMS = 1110;
static const float RATE = 0.12f;

#define BLAS(call)                                                                     \
    do {                                                                               \
        if ((call) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cuBLAS: %s\n", #call); exit(2); } \
    } while (0)

struct Uniform {
    unsigned s = 19937u;
    float operator()() { s = s * 1664525u + 1013904223u; return (s >> 7) / 16777216.0f - 1.0f; }
};

__global__ void bias_tanh(float *a, const float *b, int rows, int n, int squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * n) return;
    float v = a[i] + b[i % n];
    a[i] = squash ? tanhf(v) : v;
}

__global__ void difference(const float *out, const float *target, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = out[i] - target[i];
}

__global__ void times_slope(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= 1 - a[i] * a[i];
}

__global__ void set(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

struct Layer {
    int in, out;
    bool squash;
    float *w, *b, *a, *d;
    Layer(int in_, int out_, bool squash_, Uniform &u) : in(in_), out(out_), squash(squash_)
    {
        std::vector<float> v(in * out);
        for (float &e : v) e = u() * sqrtf(2.0f / in);
        cudaMalloc(&w, in * out * 4); cudaMalloc(&b, out * 4);
        cudaMalloc(&a, BATCH * out * 4); cudaMalloc(&d, BATCH * out * 4);
        cudaMemcpy(w, v.data(), in * out * 4, cudaMemcpyHostToDevice);
        cudaMemset(b, 0, out * 4);
        DDP_PARAMETER(w, in * out, DDP_FLOAT32);
        DDP_PARAMETER(b, out, DDP_FLOAT32);
    }
    void forward(cublasHandle_t h, const float *x, int rows)
    {
        const float one = 1, zero = 0;
        BLAS(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, out, rows, in, &one, w, out, x, in, &zero, a, out));
        bias_tanh<<<(rows * out + 63) / 64, 64>>>(a, b, rows, out, squash);
    }
    void backward(cublasHandle_t h, const float *x, Layer *below, const float *ones, int rows)
    {
        const float one = 1, zero = 0, step = -RATE / rows;
        if (squash) times_slope<<<(rows * out + 63) / 64, 64>>>(d, a, rows * out);
        if (below)
            BLAS(cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, in, rows, out, &one, w, out, d, out, &zero, below->d, in));
        BLAS(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, out, in, rows, &step, d, out, x, in, &one, w, out));
        BLAS(cublasSgemv(h, CUBLAS_OP_N, out, rows, &step, d, out, ones, 1, &one, b, 1));
    }
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Uniform u;
    const int in = WIDTHS[0], out = WIDTHS[LAYERS];
    std::vector<float> x(ITEMS * in), t(ITEMS * out);
    for (int i = 0; i < ITEMS; ++i) {
        float *q = &x[i * in], *y = &t[i * out];
        for (int k = 0; k < in; ++k) q[k] = u();
        y[0] = q[0] - q[1] + q[2] * q[3];
        y[1] = sinf(2 * q[4]) + 0.5f * q[5] - q[6];
        y[2] = fabsf(q[7]) - 0.5f + q[8] + 0.1f * u();
    }
    float *dx, *dt, *ones;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dt, t.size() * 4); cudaMalloc(&ones, BATCH * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dt, t.data(), t.size() * 4, cudaMemcpyHostToDevice);
    set<<<1, BATCH>>>(ones, 1.0f, BATCH);
    std::vector<Layer> net;
    for (int l = 0; l < LAYERS; ++l) net.emplace_back(WIDTHS[l], WIDTHS[l + 1], l + 1 < LAYERS, u);
    cublasHandle_t h;
    BLAS(cublasCreate(&h));

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        DDP_WEIGHT(count, BATCH);
        const int rows = (int)count;
        const size_t at = s * BATCH % ITEMS + first;
        const float *bx = dx + at * in;
        for (int l = 0; l < LAYERS; ++l) net[l].forward(h, l ? net[l - 1].a : bx, rows);
        difference<<<(rows * out + 63) / 64, 64>>>(net.back().a, dt + at * out, net.back().d, rows * out);
        std::vector<float> e(rows * out);
        cudaMemcpy(e.data(), net.back().d, e.size() * 4, cudaMemcpyDeviceToHost);
        for (int l = LAYERS - 1; l >= 0; --l)
            net[l].backward(h, l ? net[l - 1].a : bx, l ? &net[l - 1] : nullptr, ones, rows);
        DDP_STEP_PARAMETERS(0);
        double mse = 0;
        for (float v : e) mse += v * v / e.size();
        DDP_MEAN_AS("mse", &mse);
        if (s % 10 == 0 || s == steps - 1) printf("%d %.4f\n", s, mse);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (Layer &l : net) {
            std::vector<float> v(l.in * l.out + l.out);
            cudaMemcpy(v.data(), l.w, l.in * l.out * 4, cudaMemcpyDeviceToHost);
            cudaMemcpy(v.data() + l.in * l.out, l.b, l.out * 4, cudaMemcpyDeviceToHost);
            for (float q : v) fprintf(f, "%.9g\n", q);
        }
        fclose(f);
    }
    cublasDestroy(h);
    return 0;
}
