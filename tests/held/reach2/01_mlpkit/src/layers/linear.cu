#include "mlpkit/layer.hpp"

namespace mlpkit {

namespace {

constexpr int kTile = 16;

// C[M,N] = op(A)[M,K] * op(B)[K,N] (+ bias[N]); row-major, op = transpose if TA/TB.
template <bool TA, bool TB>
__global__ void __launch_bounds__(kTile * kTile)
    gemm_tiled(const float* __restrict__ A, const float* __restrict__ B,
               const float* __restrict__ bias, float* __restrict__ C, int M, int N, int K) {
  __shared__ float As[kTile][kTile + 1];
  __shared__ float Bs[kTile][kTile + 1];

  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int row = blockIdx.y * kTile + ty;
  const int col = blockIdx.x * kTile + tx;

  float acc = 0.0f;
  for (int k0 = 0; k0 < K; k0 += kTile) {
    const int ka = k0 + tx;
    const int kb = k0 + ty;
    As[ty][tx] = (row < M && ka < K) ? (TA ? A[ka * M + row] : A[row * K + ka]) : 0.0f;
    Bs[ty][tx] = (col < N && kb < K) ? (TB ? B[col * K + kb] : B[kb * N + col]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) acc = fmaf(As[ty][k], Bs[k][tx], acc);
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc + (bias ? bias[col] : 0.0f);
}

// out[c] = sum over rows of x[r, c]; one block per column.
__global__ void column_sum(const float* __restrict__ x, float* __restrict__ out, int rows,
                           int cols) {
  extern __shared__ float partial[];
  const int c = blockIdx.x;
  float sum = 0.0f;
  for (int r = threadIdx.x; r < rows; r += blockDim.x) sum += x[r * cols + c];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[c] = partial[0];
}

template <bool TA, bool TB>
void gemm(const float* A, const float* B, const float* bias, float* C, int M, int N, int K) {
  dim3 block(kTile, kTile);
  dim3 grid(div_up(N, kTile), div_up(M, kTile));
  gemm_tiled<TA, TB><<<grid, block>>>(A, B, bias, C, M, N, K);
  MLPKIT_CHECK_LAUNCH();
}

}  // namespace

Linear::Linear(int in_features, int out_features) : in_(in_features), out_(out_features) {
  weight_.value = Tensor(in_, out_);
  weight_.grad = Tensor(in_, out_);
  bias_.value = Tensor(1, out_);
  bias_.grad = Tensor(1, out_);
}

const Tensor& Linear::forward(const Tensor& input) {
  if (input.cols() != in_) throw std::invalid_argument("Linear: wrong number of features");
  input_ = &input;
  output_.resize(input.rows(), out_);
  gemm<false, false>(input.data(), weight_.value.data(), bias_.value.data(), output_.data(),
                     input.rows(), out_, in_);
  return output_;
}

const Tensor& Linear::backward(const Tensor& grad_output) {
  const int n = grad_output.rows();
  grad_input_.resize(n, in_);
  gemm<true, false>(input_->data(), grad_output.data(), nullptr, weight_.grad.data(), in_, out_,
                    n);
  constexpr int threads = 64;
  column_sum<<<out_, threads, threads * sizeof(float)>>>(grad_output.data(), bias_.grad.data(), n,
                                                         out_);
  MLPKIT_CHECK_LAUNCH();
  gemm<false, true>(grad_output.data(), weight_.value.data(), nullptr, grad_input_.data(), n, in_,
                    out_);
  return grad_input_;
}

}  // namespace mlpkit
