#pragma once
#include <cuda_fp16.h>
#include <mma.h>

#include <type_traits>

namespace wgemm {

using namespace nvcuda;

constexpr int kTile = 16;
constexpr int kWarpsPerBlock = 4;

// C[M,N] = A[M,K] * B[K,N], C row-major. A col_major layout is the transpose of a
// row-major matrix. One warp computes one 16x16 tile of C.
template <typename LayoutA, typename LayoutB>
__global__ void gemm(const half* __restrict__ A, const half* __restrict__ B,
                     float* __restrict__ C, int M, int N, int K, int lda, int ldb) {
  const int warp = blockIdx.x * kWarpsPerBlock + threadIdx.x / warpSize;
  const int tiles_n = N / kTile;
  if (warp >= (M / kTile) * tiles_n) return;  // the whole warp leaves
  const int row = warp / tiles_n * kTile;
  const int col = warp % tiles_n * kTile;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, LayoutA> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, LayoutB> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  constexpr bool a_row = std::is_same<LayoutA, wmma::row_major>::value;
  constexpr bool b_row = std::is_same<LayoutB, wmma::row_major>::value;
  for (int k = 0; k < K; k += kTile) {
    wmma::load_matrix_sync(a, a_row ? A + row * lda + k : A + k * lda + row, lda);
    wmma::load_matrix_sync(b, b_row ? B + k * ldb + col : B + col * ldb + k, ldb);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(C + row * N + col, acc, N, wmma::mem_row_major);
}

template <bool TransA, bool TransB>
void run(const half* A, const half* B, float* C, int M, int N, int K) {
  using LA = typename std::conditional<TransA, wmma::col_major, wmma::row_major>::type;
  using LB = typename std::conditional<TransB, wmma::col_major, wmma::row_major>::type;
  const int warps = (M / kTile) * (N / kTile);
  gemm<LA, LB><<<(warps + kWarpsPerBlock - 1) / kWarpsPerBlock, kWarpsPerBlock * 32>>>(
      A, B, C, M, N, K, TransA ? M : K, TransB ? K : N);
}

}  // namespace wgemm
