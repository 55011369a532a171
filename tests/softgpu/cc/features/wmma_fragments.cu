// flags: -std=c++17
// global
// Products of matrices by the fragments of a warp: half, bfloat16, tf32, int8 and double, in their shapes and layouts,
// with element-wise work on a fragment in between.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

template <class T> struct held {
    typedef T type;
};
template <> struct held<wmma::precision::tf32> {
    typedef float type;
};

template <class T, class Sum, int M, int N, int K, class LayoutA, class LayoutB>
__global__ void
product(const typename held<T>::type *a, const typename held<T>::type *b, Sum *c, int steps)
{
    wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> left;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> right;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
    wmma::fill_fragment(sum, Sum(0));
    const bool a_rows = std::is_same<LayoutA, wmma::row_major>::value,
               b_rows = std::is_same<LayoutB, wmma::row_major>::value;
    for (int s = 0; s < steps; ++s) {
        wmma::load_matrix_sync(left, a + s * K * (a_rows ? 1 : M), a_rows ? K * steps : M);
        wmma::load_matrix_sync(right, b + s * K * (b_rows ? N : 1), b_rows ? N : K * steps);
        wmma::mma_sync(sum, left, right, sum);
    }
    for (int i = 0; i < sum.num_elements; ++i)
        sum.x[i] = Sum(2) * sum.x[i];
    wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}

template <class T, class Sum, int M, int N, int K, class LayoutA, class LayoutB>
int
wrong()
{
    typedef typename held<T>::type element;
    const int steps = 3, depth = steps * K;
    element *a, *b;
    Sum *c;
    cudaMallocManaged(&a, M * depth * sizeof(element));
    cudaMallocManaged(&b, N * depth * sizeof(element));
    cudaMallocManaged(&c, M * N * sizeof(Sum));
    const bool a_rows = std::is_same<LayoutA, wmma::row_major>::value,
               b_rows = std::is_same<LayoutB, wmma::row_major>::value;
    for (int i = 0; i < M; ++i) {
        for (int k = 0; k < depth; ++k)
            a[a_rows ? i * depth + k : k * M + i] = element(float((i + 2 * k) % 5));
    }
    for (int j = 0; j < N; ++j) {
        for (int k = 0; k < depth; ++k)
            b[b_rows ? k * N + j : j * depth + k] = element(float((3 * j + k) % 4));
    }
    product<T, Sum, M, N, K, LayoutA, LayoutB><<<1, 32>>>(a, b, c, steps);
    int bad = cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            int sum = 0;
            for (int k = 0; k < depth; ++k)
                sum += (i + 2 * k) % 5 * ((3 * j + k) % 4);
            bad += double(float(c[i * N + j])) != 2.0 * sum;
        }
    }
    cudaFree(a);
    cudaFree(b);
    cudaFree(c);
    return bad;
}

__global__ void
rounded(float *x)
{
    *x = wmma::__float_to_tf32(*x);
}

int
main()
{
    typedef wmma::row_major rows;
    typedef wmma::col_major columns;
    int bad = wrong<half, float, 16, 16, 16, rows, columns>();
    bad += 1000 * wrong<half, half, 16, 16, 16, columns, rows>();
    bad += wrong<half, float, 32, 8, 16, rows, rows>() + wrong<half, float, 8, 32, 16, columns, columns>();
    bad += wrong<__nv_bfloat16, float, 16, 16, 16, rows, columns>();
    bad += wrong<wmma::precision::tf32, float, 16, 16, 8, rows, rows>();
    bad += wrong<signed char, int, 16, 16, 16, rows, columns>() + wrong<unsigned char, int, 32, 8, 16, rows, columns>();
    bad += wrong<double, double, 8, 8, 4, rows, columns>();
    float *x;
    cudaMallocManaged(&x, sizeof(*x));
    *x = 1.0f + 1.0f / 2048; /* halfway between two of tf32 */
    rounded<<<1, 1>>>(x);
    cudaDeviceSynchronize();
    return bad != 0 ? 1 : *x == 1.0f + 1.0f / 1024 ? 0 : 2;
}
