// Causal attention, a warp for each query, with the online softmax: shuffles, dynamic shared memory, a template over the head's size.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

template <class T> __device__ __forceinline__ T warp_sum(T v)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

__device__ __forceinline__ float warp_max(float v)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
    return v;
}

template <int Size> __global__ void attention(const float *q, const float *k, const float *v, float *out, int length, float scale)
{
    extern __shared__ float queries[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int row = blockIdx.x * warps + warp;
    if (row >= length)
        return;
    float *mine = queries + warp * Size;
    for (int i = lane; i < Size; i += 32)
        mine[i] = q[row * Size + i];
    __syncwarp();
    float most = -FLT_MAX, total = 0, result[Size / 32] = {};
    for (int first = 0; first <= row; first += 32) {
        const int key = first + lane;
        float score = -FLT_MAX;
        if (key <= row) {
            score = 0;
            for (int i = 0; i < Size; ++i)
                score += mine[i] * k[key * Size + i];
            score *= scale;
        }
        const float higher = fmaxf(most, warp_max(score)), correction = __expf(most - higher);
        const float p = key <= row ? __expf(score - higher) : 0.0f;
        total = total * correction + warp_sum(p);
        for (int part = 0; part < Size / 32; ++part)
            result[part] *= correction;
        for (int j = 0; j < 32 && first + j <= row; ++j) {
            const float weight = __shfl_sync(0xffffffffu, p, j);
            for (int part = 0; part < Size / 32; ++part)
                result[part] += weight * v[(first + j) * Size + part * 32 + lane];
        }
        most = higher;
    }
    for (int part = 0; part < Size / 32; ++part)
        out[row * Size + part * 32 + lane] = result[part] / total;
}

template <int Size> int check(int length)
{
    float *q, *k, *v, *out;
    for (float **p : {&q, &k, &v, &out})
        cudaMallocManaged(p, length * Size * sizeof(float));
    for (int i = 0; i < length * Size; ++i) {
        q[i] = std::sin(0.17f * i);
        k[i] = std::cos(0.23f * i);
        v[i] = std::sin(0.05f * i + 1);
    }
    const float scale = 1 / std::sqrt(float(Size));
    attention<Size><<<(length + 3) / 4, 128, 4 * Size * sizeof(float)>>>(q, k, v, out, length, scale);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    double worst = 0;
    for (int r = 0; r < length; ++r) {
        std::vector<double> p(r + 1), sum(Size);
        double most = -1e30, total = 0;
        for (int j = 0; j <= r; ++j) {
            for (int i = 0; i < Size; ++i)
                p[j] += double(q[r * Size + i]) * k[j * Size + i] * scale;
            most = std::fmax(most, p[j]);
        }
        for (int j = 0; j <= r; ++j) {
            p[j] = std::exp(p[j] - most);
            total += p[j];
            for (int i = 0; i < Size; ++i)
                sum[i] += p[j] * v[j * Size + i];
        }
        for (int i = 0; i < Size; ++i)
            worst = std::fmax(worst, std::fabs(sum[i] / total - out[r * Size + i]));
    }
    std::printf("%d: %g\n", Size, worst);
    return worst > 1e-4;
}

int main()
{
    const int wrong = check<32>(45) + check<64>(101);
    std::puts(wrong ? "wrong" : "ok");
    return wrong != 0;
}
