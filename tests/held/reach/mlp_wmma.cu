// A layer of half weights on tensor cores: tiles in shared memory, four warps a block, bias and ReLU on the float accumulators, a second
// layer in float. Host code does the same sums.
#include <cmath>
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
#include <vector>

using namespace nvcuda;

constexpr int M = 64, N = 64, K = 96, TILE = 16, OUT = 10;

__global__ void layer(const half *x, const half *w, const float *bias, float *y)
{
    __shared__ half xs[TILE][TILE];
    __shared__ half ws[4][TILE][TILE];
    __shared__ float out[4][TILE * TILE];
    const int warp = threadIdx.y, lane = threadIdx.x;
    const int row = blockIdx.x * TILE, column = (blockIdx.y * 4 + warp) * TILE;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += TILE) {
        for (int i = warp * 32 + lane; i < TILE * TILE; i += 128)
            xs[i / TILE][i % TILE] = x[(row + i / TILE) * K + k + i % TILE];
        for (int i = lane; i < TILE * TILE; i += 32)
            ws[warp][i / TILE][i % TILE] = w[(k + i / TILE) * N + column + i % TILE];
        __syncthreads();
        wmma::load_matrix_sync(a, &xs[0][0], TILE);
        wmma::load_matrix_sync(b, &ws[warp][0][0], TILE);
        wmma::mma_sync(c, a, b, c);
        __syncthreads();
    }
    wmma::store_matrix_sync(out[warp], c, TILE, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < TILE * TILE; i += 32) {
        const float v = out[warp][i] + bias[column + i % TILE];
        y[(row + i / TILE) * N + column + i % TILE] = v > 0 ? v : 0;
    }
}

__global__ void head(const float *y, const float *w, float *z)
{
    const int o = threadIdx.x, r = blockIdx.x;
    float sum = 0;
    for (int k = 0; k < N; ++k)
        sum = fmaf(y[r * N + k], w[k * OUT + o], sum);
    z[r * OUT + o] = sum;
}

int main()
{
    half *x, *w;
    float *bias, *y, *w2, *z;
    cudaMallocManaged(&x, M * K * sizeof(half));
    cudaMallocManaged(&w, K * N * sizeof(half));
    cudaMallocManaged(&bias, N * sizeof(float));
    cudaMallocManaged(&y, M * N * sizeof(float));
    cudaMallocManaged(&w2, N * OUT * sizeof(float));
    cudaMallocManaged(&z, M * OUT * sizeof(float));
    for (int i = 0; i < M * K; ++i)
        x[i] = __float2half(std::sin(0.3f * i));
    for (int i = 0; i < K * N; ++i)
        w[i] = __float2half(0.2f * std::cos(0.7f * i));
    for (int i = 0; i < N; ++i)
        bias[i] = 0.01f * (i - 20);
    for (int i = 0; i < N * OUT; ++i)
        w2[i] = 0.05f * ((i * 13) % 17 - 8);
    layer<<<dim3(M / TILE, N / TILE / 4), dim3(32, 4)>>>(x, w, bias, y);
    head<<<M, OUT>>>(y, w2, z);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return std::puts(cudaGetErrorString(cudaGetLastError())), 2;
    double worst = 0;
    for (int r = 0; r < M; ++r) {
        std::vector<double> hidden(N);
        for (int c = 0; c < N; ++c) {
            double sum = bias[c];
            for (int k = 0; k < K; ++k)
                sum += double(__half2float(x[r * K + k])) * __half2float(w[k * N + c]);
            hidden[c] = sum > 0 ? sum : 0;
            worst = std::fmax(worst, std::fabs(hidden[c] - y[r * N + c]));
        }
        for (int o = 0; o < OUT; ++o) {
            double sum = 0;
            for (int k = 0; k < N; ++k)
                sum += hidden[k] * w2[k * OUT + o];
            worst = std::fmax(worst, std::fabs(sum - z[r * OUT + o]));
        }
    }
    std::printf("%g %s\n", worst, worst < 1e-3 ? "ok" : "wrong");
    return worst >= 1e-3;
}
