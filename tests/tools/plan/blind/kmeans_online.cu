// Mini-batch k-means (Sculley): each centre moves by the rate 1/count, the counts live on the device.
// Truth: state (centres and counts around each batch).
// Batches: 30 (batches of 64 points, streamed from the host).
#include "truth.h"
#include <cfloat>
#include <cstdio>
#include <memory>
#include <vector>

constexpr int kDim = 4, kClusters = 6, kBatch = 64, kBatches = 30;

inline void
must(cudaError_t e, int line)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "line %d: %s\n", line, cudaGetErrorName(e));
        std::abort();
    }
}
#define MUST(e) must((e), __LINE__)

struct CudaDeleter {
    void operator()(void *p) const
    {
        cudaFree(p);
    }
};
template <typename T> using DevPtr = std::unique_ptr<T[], CudaDeleter>;
template <typename T>
DevPtr<T>
makeDev(size_t n)
{
    void *p = nullptr;
    MUST(cudaMalloc(&p, n * sizeof(T)));
    MUST(cudaMemset(p, 0, n * sizeof(T)));
    return DevPtr<T>(static_cast<T *>(p));
}

__global__ void
assignKernel(const float *pts, const float *centres, int *who, float *dist)
{
    extern __shared__ float c[];
    for (int i = threadIdx.x; i < kClusters * kDim; i += blockDim.x)
        c[i] = centres[i];
    __syncthreads();
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    float best = FLT_MAX;
    int arg = 0;
    for (int k = 0; k < kClusters; ++k) {
        float d = 0;
        for (int j = 0; j < kDim; ++j) {
            const float t = pts[p * kDim + j] - c[k * kDim + j];
            d += t * t;
        }
        if (d < best) {
            best = d;
            arg = k;
        }
    }
    who[p] = arg;
    dist[p] = best;
}

// one block per centre, one thread per coordinate; points in their order
__global__ void
moveKernel(const float *pts, const int *who, float *centres, float *counts)
{
    const int k = blockIdx.x, j = threadIdx.x;
    float x = centres[k * kDim + j], n = counts[k];
    for (int p = 0; p < kBatch; ++p) {
        if (who[p] != k)
            continue;
        n += 1.f;
        x += (pts[p * kDim + j] - x) / n;
    }
    __syncthreads();
    centres[k * kDim + j] = x;
    if (j == 0)
        counts[k] = n;
}

class Stream
{ // endless source of points around true centres
  public:
    explicit Stream(unsigned s) : x_(s)
    {
        for (float &v : mu_)
            v = 8.f * next() - 4.f;
    }
    void fill(std::vector<float> &out)
    {
        for (size_t p = 0; p * kDim < out.size(); ++p) {
            const int k = static_cast<int>(next() * kClusters);
            for (int j = 0; j < kDim; ++j)
                out[p * kDim + j] = mu_[k * kDim + j] + (next() + next() + next() - 1.5f);
        }
    }

  private:
    float next()
    {
        x_ = x_ * 69069u + 1u;
        return (x_ >> 8) * (1.f / 16777216.f);
    }
    unsigned x_;
    float mu_[kClusters * kDim];
};

int
main()
{
    Stream source(17u);
    std::vector<float> points(kBatch * kDim), dist(kBatch), centres(kClusters * kDim), counts(kClusters);
    auto dPts = makeDev<float>(points.size());
    auto dCentres = makeDev<float>(kClusters * kDim);
    auto dCounts = makeDev<float>(kClusters);
    auto dWho = makeDev<int>(kBatch);
    auto dDist = makeDev<float>(kBatch);

    source.fill(points); // the first points are the start
    MUST(cudaMemcpy(dCentres.get(), points.data(), kClusters * kDim * sizeof(float), cudaMemcpyHostToDevice));
    truth_by_state truth;
    auto inertia = [&]() {
        MUST(cudaMemcpy(dist.data(), dDist.get(), kBatch * sizeof(float), cudaMemcpyDeviceToHost));
        float s = 0;
        for (float d : dist)
            s += d;
        return s / kBatch;
    };
    const size_t shm = kClusters * kDim * sizeof(float);
    for (int b = 0; b < kBatches; ++b) {
        source.fill(points);
        MUST(cudaMemcpy(dPts.get(), points.data(), points.size() * sizeof(float), cudaMemcpyHostToDevice));
        truth.begin({{dCentres.get(), kClusters * kDim}, {dCounts.get(), kClusters}});
        assignKernel<<<2, kBatch / 2, shm>>>(dPts.get(), dCentres.get(), dWho.get(), dDist.get());
        moveKernel<<<kClusters, kDim>>>(dPts.get(), dWho.get(), dCentres.get(), dCounts.get());
        MUST(cudaPeekAtLastError());
        truth.end();
        if (b % 3 == 0 || b == kBatches - 1)
            std::printf("batch %2d: mean squared distance %.5f\n", b, inertia());
    }
    truth.close();
    float test = 0;
    for (int b = 0; b < 4; ++b) {
        source.fill(points);
        MUST(cudaMemcpy(dPts.get(), points.data(), points.size() * sizeof(float), cudaMemcpyHostToDevice));
        assignKernel<<<2, kBatch / 2, shm>>>(dPts.get(), dCentres.get(), dWho.get(), dDist.get());
        test += inertia() / 4;
    }
    std::printf("test: %.5f\n", test);
    MUST(cudaMemcpy(centres.data(), dCentres.get(), centres.size() * sizeof(float), cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(counts.data(), dCounts.get(), counts.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int k = 0; k < kClusters; ++k) {
        std::printf("centre %d (%.2f):", k, counts[k]);
        for (int j = 0; j < kDim; ++j)
            std::printf(" %.4f", centres[k * kDim + j]);
        std::puts("");
    }
    truth_dump({{dCentres.get(), kClusters * kDim}, {dCounts.get(), kClusters}});
}
