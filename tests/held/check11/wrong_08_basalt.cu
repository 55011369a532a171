// Autoencoder with a sparse code, after the well-known course notes: sigmoid units, squared error, a penalty that
// pulls the mean activation of each hidden unit towards rho.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define D 20
#define H 28
#define BATCH 48
#define ROWS 480

static const float kRho = 0.1f, kBeta = 0.3f, kRate = 0.8f;

#define GPU(call)                                                               \
    do {                                                                        \
        if ((int)(call) != 0) {                                                 \
            fprintf(stderr, "failed at %d: %s\n", __LINE__, #call);             \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

struct Generator {
    unsigned long long s;
    double operator()()
    {
        s ^= s >> 12;
        s ^= s << 25;
        s ^= s >> 27;
        return (s * 2685821657736338717ull >> 11) / 9007199254740992.0;
    }
};

__global__ void addBiasSigmoid(float *z, const float *b, int rows, int cols)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < rows * cols)
        z[t] = 1 / (1 + expf(-z[t] - b[t % cols]));
}

// Sum over the rows of a column, times factor.
__global__ void columnSum(const float *m, float *out, int rows, int cols, float factor)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols)
        return;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += m[r * cols + c];
    out[c] = s * factor;
}

__global__ void outputDelta(const float *y, const float *x, float *d, int rows, float inv)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < rows * D)
        d[t] = (y[t] - x[t]) * y[t] * (1 - y[t]) * inv;
}

__global__ void hiddenDelta(float *d, const float *h, const float *usage, int rows, float inv, float rho, float beta)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * H)
        return;
    float u = usage[t % H];
    float pull = beta * ((1 - rho) / (1 - u) - rho / u) * inv;
    d[t] = (d[t] + pull) * h[t] * (1 - h[t]);
}

class Blas {
public:
    Blas() { GPU(cublasCreate(&handle_)); }
    ~Blas() { cublasDestroy(handle_); }
    // row-major C(m,n) = op(A) op(B)
    void product(bool ta, bool tb, int m, int n, int k, const float *a, const float *b, float *c)
    {
        float one = 1, zero = 0;
        GPU(cublasSgemm(handle_, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
                        tb ? k : n, a, ta ? m : k, &zero, c, n));
    }
    void descend(int n, float rate, const float *g, float *w)
    {
        float a = -rate;
        GPU(cublasSaxpy(handle_, n, &a, g, 1, w, 1));
    }

private:
    cublasHandle_t handle_;
};

struct Param {
    float *w, *g;
    int n;
};

static Param make(int n, double scale, Generator &r)
{
    Param p;
    p.n = n;
    std::vector<float> v(n);
    for (int i = 0; i < n; ++i)
        v[i] = (float)(scale * (2 * r() - 1));
    GPU(cudaMalloc(&p.w, n * sizeof(float)));
    GPU(cudaMalloc(&p.g, n * sizeof(float)));
    GPU(cudaMemcpy(p.w, v.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(p.w, n, DDP_FLOAT32);
    DDP_GRADIENT(p.g, n, DDP_FLOAT32);
    return p;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Generator r = {4101842887655102017ull};
    // Rows are sums of two of ten patterns.
    std::vector<float> pattern(10 * D), data(ROWS * D);
    for (float &v : pattern)
        v = r() < 0.3 ? 0.8f : 0.0f;
    for (int i = 0; i < ROWS; ++i) {
        int a = (int)(r() * 10), b = (int)(r() * 10);
        for (int j = 0; j < D; ++j)
            data[i * D + j] = fminf(0.9f, 0.1f + fmaxf(pattern[a * D + j], pattern[b * D + j]) + 0.05f * (float)r());
    }
    float *x, *h, *y, *dh, *dy, *usage;
    GPU(cudaMalloc(&x, data.size() * sizeof(float)));
    GPU(cudaMalloc(&h, BATCH * H * sizeof(float)));
    GPU(cudaMalloc(&dh, BATCH * H * sizeof(float)));
    GPU(cudaMalloc(&y, BATCH * D * sizeof(float)));
    GPU(cudaMalloc(&dy, BATCH * D * sizeof(float)));
    GPU(cudaMalloc(&usage, H * sizeof(float)));
    GPU(cudaMemcpy(x, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));

    Blas blas;
    Param w1 = make(D * H, 0.5, r), b1 = make(H, 0, r), w2 = make(H * D, 0.5, r), b2 = make(D, 0, r);
    Param all[4] = {w1, b1, w2, b2};

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        float inv = 1.0f / n;
        const float *in = x + ((size_t)step * BATCH % ROWS + first) * D;

        blas.product(false, false, n, H, D, in, w1.w, h);
        addBiasSigmoid<<<(n * H + 127) / 128, 128>>>(h, b1.w, n, H);
        columnSum<<<1, 32>>>(h, usage, n, H, inv);
        blas.product(false, false, n, D, H, h, w2.w, y);
        addBiasSigmoid<<<(n * D + 127) / 128, 128>>>(y, b2.w, n, D);

        outputDelta<<<(n * D + 127) / 128, 128>>>(y, in, dy, n, inv);
        blas.product(true, false, H, D, n, h, dy, w2.g);
        columnSum<<<1, 32>>>(dy, b2.g, n, D, 1);
        blas.product(false, true, n, H, D, dy, w2.w, dh);
        hiddenDelta<<<(n * H + 127) / 128, 128>>>(dh, h, usage, n, inv, kRho, kBeta);
        blas.product(true, false, D, H, n, in, dh, w1.g);
        columnSum<<<1, 32>>>(dh, b1.g, n, H, 1);

        DDP_STEP(0);
        for (const Param &p : all)
            blas.descend(p.n, kRate, p.g, p.w);

        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> out(n * D), want(n * D);
            GPU(cudaMemcpy(out.data(), y, n * D * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0;
            const float *row = &data[((size_t)step * BATCH % ROWS + first) * D];
            for (int i = 0; i < n * D; ++i)
                loss += 0.5f * (out[i] - row[i]) * (out[i] - row[i]) * inv;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d reconstruction loss %.4f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (const Param &p : all) {
            std::vector<float> v(p.n);
            GPU(cudaMemcpy(v.data(), p.w, p.n * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(v.data(), sizeof(float), p.n, f);
        }
        fclose(f);
    }
    return 0;
}
