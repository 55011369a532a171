// A linear layer that trains by bfloat16 tensor cores with float master weights: gradients by wmma over the batch, the loss by a reduction of
// cooperative groups, layers behind a virtual interface. The host trains the same in float.
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cuda_bf16.h>
#include <memory>
#include <mma.h>
#include <vector>

namespace cg = cooperative_groups;
namespace wmma = nvcuda::wmma;
using bf16 = __nv_bfloat16;

constexpr int BATCH = 32, IN = 32, OUT = 16, STEPS = 20;

template <class LayoutA, class LayoutB>
__global__ void product(const bf16 *a, const bf16 *b, float *c, int depth, int lda, int ldb, int ldc)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, LayoutA> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, LayoutB> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int row = blockIdx.x * 16, column = blockIdx.y * 16;
    constexpr bool a_rows = std::is_same<LayoutA, wmma::row_major>::value;
    for (int k = 0; k < depth; k += 16) {
        wmma::load_matrix_sync(left, a_rows ? a + row * lda + k : a + k * lda + row, lda);
        wmma::load_matrix_sync(right, b + k * ldb + column, ldb);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * ldc + column, sum, ldc, wmma::mem_row_major);
}

__global__ void errors(const float *y, const float *target, bf16 *dy, float *loss)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float d = y[i] - target[i];
    dy[i] = __float2bfloat16(2 * d / (BATCH * OUT));
    const float sum = cg::reduce(warp, d * d, cg::plus<float>());
    if (warp.thread_rank() == 0)
        atomicAdd(loss, sum / (BATCH * OUT));
}

__global__ void update(float *w, bf16 *low, const float *dw, int n, float rate)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        w[i] -= rate * dw[i];
        low[i] = __float2bfloat16(w[i]);
    }
}

struct layer {
    virtual ~layer() = default;
    virtual void forward(const bf16 *x, float *y) = 0;
    virtual void backward(const bf16 *x, const bf16 *dy, float rate) = 0;
};

struct linear : layer {
    float *w, *dw;
    bf16 *low;
    linear()
    {
        cudaMallocManaged(&w, IN * OUT * sizeof(float));
        cudaMallocManaged(&dw, IN * OUT * sizeof(float));
        cudaMallocManaged(&low, IN * OUT * sizeof(bf16));
        for (int i = 0; i < IN * OUT; ++i) {
            w[i] = 0.1f * std::sin(float(i));
            low[i] = __float2bfloat16(w[i]);
        }
    }
    ~linear() override
    {
        cudaFree(w);
        cudaFree(dw);
        cudaFree(low);
    }
    void forward(const bf16 *x, float *y) override
    {
        product<wmma::row_major, wmma::row_major><<<dim3(BATCH / 16, OUT / 16), 32>>>(x, low, y, IN, IN, OUT, OUT);
    }
    void backward(const bf16 *x, const bf16 *dy, float rate) override
    {
        product<wmma::col_major, wmma::row_major><<<dim3(IN / 16, OUT / 16), 32>>>(x, dy, dw, BATCH, IN, OUT, OUT);
        update<<<(IN * OUT + 127) / 128, 128>>>(w, low, dw, IN * OUT, rate);
    }
};

int main()
{
    bf16 *x, *dy;
    float *y, *target, *loss;
    cudaMallocManaged(&x, BATCH * IN * sizeof(bf16));
    cudaMallocManaged(&dy, BATCH * OUT * sizeof(bf16));
    cudaMallocManaged(&y, BATCH * OUT * sizeof(float));
    cudaMallocManaged(&target, BATCH * OUT * sizeof(float));
    cudaMallocManaged(&loss, STEPS * sizeof(float));
    cudaMemset(loss, 0, STEPS * sizeof(float));
    cudaDeviceSynchronize();
    for (int i = 0; i < BATCH * IN; ++i)
        x[i] = __float2bfloat16(std::cos(0.61f * i));
    for (int i = 0; i < BATCH * OUT; ++i)
        target[i] = std::sin(0.29f * i);
    std::vector<float> w(IN * OUT);
    for (int i = 0; i < IN * OUT; ++i)
        w[i] = 0.1f * std::sin(float(i));

    std::unique_ptr<layer> model(new linear);
    double worst = 0;
    for (int step = 0; step < STEPS; ++step) {
        model->forward(x, y);
        errors<<<BATCH * OUT / 64, 64>>>(y, target, dy, loss + step);
        model->backward(x, dy, 0.5f);
        if (cudaDeviceSynchronize() != cudaSuccess)
            return std::puts(cudaGetErrorString(cudaGetLastError())), 2;

        std::vector<float> d(BATCH * OUT), dw(IN * OUT);
        double sum = 0;
        for (int b = 0; b < BATCH; ++b) {
            for (int o = 0; o < OUT; ++o) {
                float out = 0;
                for (int k = 0; k < IN; ++k)
                    out += __bfloat162float(x[b * IN + k]) * __bfloat162float(__float2bfloat16(w[k * OUT + o]));
                const float e = out - target[b * OUT + o];
                d[b * OUT + o] = __bfloat162float(__float2bfloat16(2 * e / (BATCH * OUT)));
                sum += double(e) * e / (BATCH * OUT);
            }
        }
        for (int k = 0; k < IN; ++k) {
            for (int o = 0; o < OUT; ++o) {
                for (int b = 0; b < BATCH; ++b)
                    dw[k * OUT + o] += __bfloat162float(x[b * IN + k]) * d[b * OUT + o];
            }
        }
        for (int i = 0; i < IN * OUT; ++i)
            w[i] -= 0.5f * dw[i];
        worst = std::fmax(worst, std::fabs(loss[step] - sum) / sum);
    }
    const bool learns = loss[STEPS - 1] < loss[0];
    std::printf("%g %g -> %g %s\n", worst, loss[0], loss[STEPS - 1], worst < 1e-3 && learns ? "ok" : "wrong");
    return !(worst < 1e-3 && learns);
}
