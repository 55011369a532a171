// Softmax regression on synthetic digits. The step size follows Polyak's rule: (f - f_low) / |g|^2, bounded from above.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#include "ddprun.h"

namespace {

constexpr int kPixels = 36, kDigits = 10, kTrain = 600, kBatch = 40;

struct XorShift {
    unsigned s = 2463534242u;
    float operator()()
    {
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        return (s & 0xffffff) / 16777216.0f;
    }
};

struct Free { void operator()(void *p) const { cudaFree(p); } };
template <typename T> using Device = std::unique_ptr<T, Free>;
template <typename T> Device<T> allocate(size_t n)
{
    T *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) std::abort();
    cudaMemset(p, 0, n * sizeof(T));
    return Device<T>(p);
}

__global__ void softmax_xent(float *z, const int *target, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *row = z + i * kDigits, top = row[0], sum = 0;
    for (int c = 1; c < kDigits; ++c) top = fmaxf(top, row[c]);
    for (int c = 0; c < kDigits; ++c) sum += expf(row[c] - top);
    loss[i] = logf(sum) + top - row[target[i]];
    for (int c = 0; c < kDigits; ++c) row[c] = expf(row[c] - top) / sum - (c == target[i] ? 1.0f : 0.0f);
}

float average(const float *device, int n)
{
    std::vector<float> h(n);
    cudaMemcpy(h.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost);
    double s = 0;
    for (float v : h) s += v;
    return static_cast<float>(s / n);
}

}  // namespace

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    XorShift rng;
    std::vector<float> prototypes(kDigits * kPixels), images(kTrain * kPixels);
    std::vector<int> digits(kTrain);
    for (float &p : prototypes) p = rng() < 0.4f ? 1.0f : 0.0f;
    for (int i = 0; i < kTrain; ++i) {
        digits[i] = static_cast<int>(rng() * kDigits);
        for (int k = 0; k < kPixels; ++k) images[i * kPixels + k] = prototypes[digits[i] * kPixels + k] + 2.4f * (rng() - 0.5f);
    }
    auto x = allocate<float>(images.size());
    auto t = allocate<int>(kTrain);
    auto w = allocate<float>(kPixels * kDigits), g = allocate<float>(kPixels * kDigits);
    auto z = allocate<float>(kBatch * kDigits), loss = allocate<float>(kBatch);
    cudaMemcpy(x.get(), images.data(), images.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(t.get(), digits.data(), kTrain * sizeof(int), cudaMemcpyHostToDevice);

    cublasHandle_t blas;
    cublasCreate(&blas);
    DDP_PARAMETER(w.get(), kPixels * kDigits, DDP_FLOAT32);
    DDP_GRADIENT(g.get(), kPixels * kDigits, DDP_FLOAT32);

    const float f_low = 0.02f, eta_max = 1.5f;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const size_t row = static_cast<size_t>(step) * kBatch % kTrain + first;
        const int n = static_cast<int>(count);
        const float one = 1, zero = 0, inv = 1.0f / n;
        const float *xb = x.get() + row * kPixels;
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kDigits, n, kPixels, &one, w.get(), kDigits, xb, kPixels, &zero, z.get(),
                    kDigits);
        softmax_xent<<<1, 64>>>(z.get(), t.get() + row, loss.get(), n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kDigits, kPixels, n, &inv, z.get(), kDigits, xb, kPixels, &zero, g.get(),
                    kDigits);
        DDP_STEP(0);
        float f = average(loss.get(), kBatch);
        DDP_MEAN_AS("loss", &f);
        float norm = 0;
        cublasSnrm2(blas, kPixels * kDigits, g.get(), 1, &norm);
        const float eta = std::min(eta_max, std::max(0.0f, f - f_low) / (norm * norm + 1e-8f));
        const float minus = -eta;
        cublasSaxpy(blas, kPixels * kDigits, &minus, g.get(), 1, w.get(), 1);
        if ((step + 1) % 10 == 0) {
            std::printf("%3d loss %.4f eta %.4f\n", step + 1, f, eta);
        }
    }
    std::vector<float> out(kPixels * kDigits);
    cudaMemcpy(out.data(), w.get(), out.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cublasDestroy(blas);
    if (argc > 1 && DDP_RANK() == 0) {
        if (FILE *f = std::fopen(argv[1], "wb")) {
            std::fwrite(out.data(), sizeof(float), out.size(), f);
            std::fclose(f);
        }
    }
    return 0;
}
