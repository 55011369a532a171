// Categorical columns: embeddings summed, dropout, linear output; layer-wise adaptive rates after clipping by norm.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

const int COLS = 5, LEVELS = 12, EMB = 10, ROWS = 512, BATCH = 64, STEPS = 60;
const int NE = COLS * LEVELS * EMB;

__device__ unsigned hash3(unsigned a, unsigned b, unsigned c)
{
    unsigned h = a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du;
    h ^= h >> 15; h *= 0x2c1b3c6du; h ^= h >> 12; h *= 0x297a2d39u; h ^= h >> 15;
    return h;
}

// local sample i is sample start + i * stride of the batch
__global__ void forward(const float *emb, const float *out, const int *table, const float *y, float *act, float *err,
                        int start, int stride, int n, unsigned step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = start + i * stride;
    float z = out[EMB];
    for (int k = 0; k < EMB; ++k) {
        float s = 0;
        for (int c = 0; c < COLS; ++c) s += emb[(c * LEVELS + table[row * COLS + c]) * EMB + k];
        s = hash3(step, row, k) % 5u == 0 ? 0.0f : s * 1.25f;
        act[i * EMB + k] = s;
        z += out[k] * s;
    }
    err[i] = z - y[row];
}

__global__ void grad_embedding(const float *out, const int *table, const float *act, const float *err, float *g,
                               int start, int stride, int n, unsigned step)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NE) return;
    int c = t / (LEVELS * EMB), level = t / EMB % LEVELS, k = t % EMB;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        int row = start + i * stride;
        if (table[row * COLS + c] != level || hash3(step, row, k) % 5u == 0) continue;
        s += 1.25f * err[i] * out[k];
    }
    g[t] = s / n;
}

__global__ void grad_output(const float *act, const float *err, float *g, int n)
{
    int k = threadIdx.x;
    if (k > EMB) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += err[i] * (k < EMB ? act[i * EMB + k] : 1.0f);
    g[k] = s / n;
}

class Optimizer {
    struct Slot { float *w, *g; int n; };
    std::vector<Slot> slots_;
    cublasHandle_t blas_;
public:
    Optimizer() { cublasCreate(&blas_); }
    ~Optimizer() { cublasDestroy(blas_); }
    void add(float *w, float *g, int n)
    {
        slots_.push_back({w, g, n});
        DDP_PARAMETER(w, n, DDP_TYPE_OF(w));
        DDP_GRADIENT(g, n, DDP_TYPE_OF(g));
    }
    void step(float rate, float limit)
    {
        DDP_STEP(0);
        float all = 0;
        std::vector<float> norms;
        for (Slot &s : slots_) {
            float a;
            cublasSnrm2(blas_, s.n, s.g, 1, &a);
            norms.push_back(a);
            all += a * a;
        }
        float clip = fminf(1.0f, limit / (sqrtf(all) + 1e-6f));
        for (size_t k = 0; k < slots_.size(); ++k) {
            Slot &s = slots_[k];
            float size;
            cublasSnrm2(blas_, s.n, s.w, 1, &size);
            float a = -rate * clip * fmaxf(size, 0.1f) / (clip * norms[k] + 0.3f);
            cublasSaxpy(blas_, s.n, &a, s.g, 1, s.w, 1);
        }
    }
};

int main(int argc, char **argv)
{
    unsigned s = 88;
    auto u = [&s] { s = s * 22695477u + 1u; return (s >> 8) / 16777216.0f; };
    std::vector<int> table(ROWS * COLS);
    std::vector<float> y(ROWS), effect(COLS * LEVELS), he(NE), ho(EMB + 1, 0.0f);
    for (float &f : effect) f = 2 * u() - 1;
    for (int i = 0; i < ROWS; ++i) {
        y[i] = 0.2f * (u() - 0.5f);
        for (int c = 0; c < COLS; ++c) {
            table[i * COLS + c] = (int)(u() * u() * LEVELS);
            y[i] += effect[c * LEVELS + table[i * COLS + c]];
        }
    }
    for (float &f : he) f = 0.4f * (u() - 0.5f);
    for (int k = 0; k < EMB; ++k) ho[k] = u() - 0.5f;

    float *emb, *out, *gemb, *gout, *dy, *act, *err;
    int *dt;
    cudaMalloc(&emb, NE * 4); cudaMalloc(&gemb, NE * 4);
    cudaMalloc(&out, (EMB + 1) * 4); cudaMalloc(&gout, (EMB + 1) * 4);
    cudaMalloc(&dy, ROWS * 4); cudaMalloc(&act, BATCH * EMB * 4); cudaMalloc(&err, BATCH * 4);
    cudaMalloc(&dt, ROWS * COLS * sizeof(int));
    cudaMemcpy(emb, he.data(), NE * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(out, ho.data(), (EMB + 1) * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), ROWS * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dt, table.data(), table.size() * sizeof(int), cudaMemcpyHostToDevice);
    {
        Optimizer opt;
        opt.add(emb, gemb, NE);
        opt.add(out, gout, EMB + 1);
        const int stride = DDP_WORLD_SIZE(), rank = DDP_RANK();
        const int n = (BATCH - rank + stride - 1) / stride;
        for (int step = 0; step < STEPS; ++step) {
            int start = step * BATCH % ROWS + rank;
            forward<<<(n + 31) / 32, 32>>>(emb, out, dt, dy, act, err, start, stride, n, step);
            grad_embedding<<<(NE + 63) / 64, 64>>>(out, dt, act, err, gemb, start, stride, n, step);
            grad_output<<<1, 32>>>(act, err, gout, n);
            opt.step(0.3f, 1.0f);
            if (step % 10 == 0 || step == STEPS - 1) {
                std::vector<float> e(n);
                cudaMemcpy(e.data(), err, n * 4, cudaMemcpyDeviceToHost);
                float mse = 0;
                for (float f : e) mse += f * f / n;
                DDP_MEAN(&mse);
                if (rank == 0) std::printf("step %d mse %.4f\n", step, mse);
            }
        }
    }
    cudaMemcpy(he.data(), emb, NE * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(ho.data(), out, (EMB + 1) * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(he.data(), 4, NE, f);
        std::fwrite(ho.data(), 4, EMB + 1, f);
        std::fclose(f);
    }
    return 0;
}
