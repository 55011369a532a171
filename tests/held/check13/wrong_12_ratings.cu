// Matrix factorisation of ratings, AdaGrad. Gradients and their squares are kept in one array of two halves.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

namespace mf {

enum { Users = 30, Items = 24, Rank = 6, Batch = 96, Ratings = 672, Size = (Users + Items) * Rank };

struct Rating {
    int user, item;
    float stars;
};

inline void guard(cudaError_t status, const char *file, int line)
{
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s:%d %s\n", file, line, cudaGetErrorString(status));
        std::abort();
    }
}
#define GUARD(x) mf::guard((x), __FILE__, __LINE__)

__global__ void errors(const Rating *r, const float *factor, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float *u = factor + r[i].user * Rank, *v = factor + (Users + r[i].item) * Rank;
    float dot = 0;
    for (int k = 0; k < Rank; ++k)
        dot += u[k] * v[k];
    err[i] = dot - r[i].stars;
}

__global__ void gradients(const Rating *r, const float *err, const float *factor, float *grad, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= Size)
        return;
    int row = id / Rank, k = id % Rank;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        if (row < Users && r[i].user == row)
            s += err[i] * factor[(Users + r[i].item) * Rank + k];
        if (row >= Users && r[i].item == row - Users)
            s += err[i] * factor[r[i].user * Rank + k];
    }
    grad[id] = 2 * s / n + 0.002f * factor[id];
}

__global__ void squares(const float *grad, float *square)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < Size)
        square[id] = grad[id] * grad[id];
}

__global__ void adagrad(float *factor, const float *grad, const float *square, float *sum, float rate)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < Size) {
        sum[id] += square[id];
        factor[id] -= rate * grad[id] / (sqrtf(sum[id]) + 1e-4f);
    }
}

class Model {
public:
    Model()
    {
        std::vector<float> init(Size);
        unsigned s = 17;
        for (float &f : init) {
            s = s * 1103515245u + 12345u;
            f = 0.5f * ((s >> 9) / 8388608.0f) + 0.1f;
        }
        GUARD(cudaMalloc(&factor_, Size * sizeof(float)));
        GUARD(cudaMalloc(&grad_, 2 * Size * sizeof(float)));
        GUARD(cudaMalloc(&sum_, Size * sizeof(float)));
        GUARD(cudaMalloc(&err_, Batch * sizeof(float)));
        GUARD(cudaMalloc(&batch_, Batch * sizeof(Rating)));
        GUARD(cudaMemset(sum_, 0, Size * sizeof(float)));
        GUARD(cudaMemset(grad_, 0, 2 * Size * sizeof(float)));
        GUARD(cudaMemcpy(factor_, init.data(), Size * sizeof(float), cudaMemcpyHostToDevice));
        square_ = grad_ + Size;
        DDP_PARAMETER(factor_, Size, DDP_FLOAT32);
        DDP_GRADIENT(grad_, 2 * Size, DDP_FLOAT32);
        DDP_STATE(sum_, Size, DDP_FLOAT32);
    }
    ~Model()
    {
        cudaFree(batch_);
        cudaFree(err_);
    }
    float fit(const Rating *host, int n)
    {
        const int blocks = (Size + 63) / 64;
        std::vector<float> e(n);
        GUARD(cudaMemcpy(batch_, host, n * sizeof(Rating), cudaMemcpyHostToDevice));
        errors<<<(n + 63) / 64, 64>>>(batch_, factor_, err_, n);
        gradients<<<blocks, 64>>>(batch_, err_, factor_, grad_, n);
        squares<<<blocks, 64>>>(grad_, square_);
        DDP_STEP(0);
        adagrad<<<blocks, 64>>>(factor_, grad_, square_, sum_, 0.15f);
        GUARD(cudaMemcpy(e.data(), err_, n * sizeof(float), cudaMemcpyDeviceToHost));
        float mse = 0;
        for (float v : e)
            mse += v * v / n;
        return mse;
    }
    std::vector<float> factors() const
    {
        std::vector<float> out(Size);
        GUARD(cudaMemcpy(out.data(), factor_, Size * sizeof(float), cudaMemcpyDeviceToHost));
        return out;
    }

private:
    float *factor_, *grad_, *square_, *sum_, *err_;
    Rating *batch_;
};

std::vector<Rating> synthetic()
{
    std::vector<Rating> all;
    unsigned s = 4711;
    for (int i = 0; i < Ratings; ++i) {
        s = s * 1103515245u + 12345u;
        int cell = (i * 271) % (Users * Items), u = cell / Items, v = cell % Items;
        float noise = ((s >> 9) / 8388608.0f - 0.5f) * 0.2f;
        float taste = (u % 3 == v % 3 ? 2.0f : 0.0f) + (u % 5 == v % 4 ? 1.5f : 0.0f);
        all.push_back({u, v, 0.8f + taste + noise});
    }
    return all;
}

} // namespace mf

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 70;
    std::vector<mf::Rating> ratings = mf::synthetic();
    mf::Model model;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(mf::Batch, &first, &count);
        float mse = model.fit(&ratings[(step * mf::Batch) % mf::Ratings + first], (int)count);
        DDP_MEAN(&mse);
        if (DDP_RANK() == 0 && (step % 10 == 0 || step + 1 == steps))
            std::printf("step %d mse %.4f\n", step, mse);
    }
    std::vector<float> out = model.factors();
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(out.data(), sizeof(float), out.size(), f);
        std::fclose(f);
    }
    return 0;
}
