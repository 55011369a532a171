// Layer normalisation, forward and backward, a block for each row: cub::BlockReduce by template, float4 loads, column sums by a second kernel.
#include <cmath>
#include <cstdio>
#include <cub/block/block_reduce.cuh>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t error = (call);                                                \
        if (error != cudaSuccess) {                                                \
            std::printf("%s: %s\n", #call, cudaGetErrorString(error));             \
            return 2;                                                              \
        }                                                                          \
    } while (0)

struct moments {
    float sum, squares;
};

struct add_moments {
    __device__ moments operator()(const moments &a, const moments &b) const
    {
        return {a.sum + b.sum, a.squares + b.squares};
    }
};

template <int Threads>
__global__ void __launch_bounds__(Threads) forward(const float4 *x, const float *gain, const float *bias, float *y, float *mean, float *scale, int width)
{
    typedef cub::BlockReduce<moments, Threads> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ float row_mean, row_scale;
    const float4 *row = x + blockIdx.x * (width / 4);
    moments mine = {0, 0};
    for (int i = threadIdx.x; i < width / 4; i += Threads) {
        const float4 v = row[i];
        mine.sum += v.x + v.y + v.z + v.w;
        mine.squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const moments all = Reduce(storage).Reduce(mine, add_moments());
    if (threadIdx.x == 0) {
        row_mean = all.sum / width;
        row_scale = rsqrtf(all.squares / width - row_mean * row_mean + 1e-5f);
        mean[blockIdx.x] = row_mean;
        scale[blockIdx.x] = row_scale;
    }
    __syncthreads();
    const float *flat = reinterpret_cast<const float *>(row);
    for (int i = threadIdx.x; i < width; i += Threads)
        y[blockIdx.x * width + i] = (flat[i] - row_mean) * row_scale * gain[i] + bias[i];
}

template <int Threads>
__global__ void backward(const float *x, const float *dy, const float *gain, const float *mean, const float *scale, float *dx, int width)
{
    typedef cub::BlockReduce<float, Threads> Reduce;
    __shared__ union {
        typename Reduce::TempStorage first, second;
    } storage;
    __shared__ float sums[2];
    const int at = blockIdx.x * width;
    const float m = mean[blockIdx.x], s = scale[blockIdx.x];
    float a = 0, b = 0;
    for (int i = threadIdx.x; i < width; i += Threads) {
        const float g = dy[at + i] * gain[i];
        a += g;
        b += g * (x[at + i] - m) * s;
    }
    a = Reduce(storage.first).Sum(a);
    __syncthreads();
    b = Reduce(storage.second).Sum(b);
    if (threadIdx.x == 0) {
        sums[0] = a / width;
        sums[1] = b / width;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += Threads) {
        const float hat = (x[at + i] - m) * s;
        dx[at + i] = s * (dy[at + i] * gain[i] - sums[0] - hat * sums[1]);
    }
}

__global__ void columns(const float *x, const float *dy, const float *mean, const float *scale, float *dgain, float *dbias, int rows, int width)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width)
        return;
    float g = 0, b = 0;
    for (int r = 0; r < rows; ++r) {
        g += dy[r * width + i] * (x[r * width + i] - mean[r]) * scale[r];
        b += dy[r * width + i];
    }
    dgain[i] = g;
    dbias[i] = b;
}

static int compare(const char *name, const float *got, const std::vector<double> &wanted)
{
    double worst = 0;
    for (size_t i = 0; i < wanted.size(); ++i)
        worst = std::fmax(worst, std::fabs(got[i] - wanted[i]) / (1 + std::fabs(wanted[i])));
    std::printf("%s: %g\n", name, worst);
    return worst > 1e-4;
}

int main()
{
    const int rows = 37, width = 200;
    float *x, *gain, *bias, *y, *mean, *scale, *dy, *dx, *dgain, *dbias;
    for (float **p : {&x, &y, &dy, &dx})
        CHECK(cudaMallocManaged(p, rows * width * sizeof(float)));
    for (float **p : {&gain, &bias, &mean, &scale, &dgain, &dbias})
        CHECK(cudaMallocManaged(p, width * sizeof(float)));
    for (int i = 0; i < rows * width; ++i) {
        x[i] = std::sin(0.37f * i) + 0.2f * (i % 7);
        dy[i] = std::cos(0.11f * i);
    }
    for (int i = 0; i < width; ++i) {
        gain[i] = 1 + 0.01f * i;
        bias[i] = 0.5f - 0.002f * i;
    }
    forward<128><<<rows, 128>>>(reinterpret_cast<float4 *>(x), gain, bias, y, mean, scale, width);
    backward<64><<<rows, 64>>>(x, dy, gain, mean, scale, dx, width);
    columns<<<(width + 63) / 64, 64>>>(x, dy, mean, scale, dgain, dbias, rows, width);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    std::vector<double> wy(rows * width), wdx(rows * width), wg(width), wb(width);
    for (int r = 0; r < rows; ++r) {
        double sum = 0, squares = 0, a = 0, b = 0;
        for (int i = 0; i < width; ++i) {
            sum += x[r * width + i];
            squares += double(x[r * width + i]) * x[r * width + i];
        }
        const double m = sum / width, s = 1 / std::sqrt(squares / width - m * m + 1e-5);
        for (int i = 0; i < width; ++i) {
            const double hat = (x[r * width + i] - m) * s, g = dy[r * width + i] * gain[i];
            wy[r * width + i] = hat * gain[i] + bias[i];
            a += g / width;
            b += g * hat / width;
            wg[i] += dy[r * width + i] * hat;
            wb[i] += dy[r * width + i];
        }
        for (int i = 0; i < width; ++i)
            wdx[r * width + i] = s * (dy[r * width + i] * gain[i] - a - (x[r * width + i] - m) * s * b);
    }
    const int wrong = compare("y", y, wy) + compare("dx", dx, wdx) + compare("dgain", dgain, wg) + compare("dbias", dbias, wb);
    std::printf("%s\n", wrong ? "wrong" : "ok");
    return wrong != 0;
}
