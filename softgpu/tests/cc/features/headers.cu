// What headers bring: of intrinsics that old programs include, of libcu++, and of matrix products by the fragments of a
// warp, in their types, shapes and layouts.
#include <common_functions.h>
#include <crt/device_functions.h>
#include <crt/math_functions.h>
#include <cuda/atomic>
#include <cuda/bit>
#include <cuda/cmath>
#include <cuda/std/array>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/expected>
#include <cuda/std/inplace_vector>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/variant>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <device_atomic_functions.h>
#include <device_functions.h>
#include <device_launch_parameters.h>
#include <math_constants.h>
#include <math_functions.h>
#include <mma.h>
#include <sm_20_atomic_functions.h>
#include <sm_60_atomic_functions.h>

FEATURE(old_headers)
{
    gives<float>({1, 2, 1, 0.5}, 0, [] __device__(float *out) {
        out[0] = expf(0.0f);
        out[1] = __expf(0.0f) + __int_as_float(0x3f800000);
        out[2] = CUDART_INF_F > 1e38f;
        atomicAdd(out + 3, rsqrtf(4.0f));
    });
}

__device__ cuda::std::expected<int, float>
even(int i)
{
    if (i % 2)
        return cuda::std::unexpected<float>(0.5f);
    return i;
}

FEATURE(containers_and_atomics_of_libcudacxx)
{
    gives<float>({8, 2, 3, 0.25, 4, 2, 0.5}, 0, [] __device__(float *out) {
        cuda::std::array<int, 6> a{1, 2, 3, 4, 5, 6};
        const cuda::std::span<const int> all(a.data(), a.size());
        const cuda::std::mdspan<const int, cuda::std::extents<int, 2, cuda::std::dynamic_extent>> rows(all.data(), 3);
        auto t = cuda::std::make_tuple(1, 2.0f);
        out[0] = a[1] + cuda::std::get<0>(t) + (cuda::std::numeric_limits<int>::max() > 5) + cuda::ceil_div(7, 2);
        cuda::atomic_ref<float, cuda::thread_scope_device> r(out[1]);
        r.fetch_add(2, cuda::memory_order_relaxed);
        const cuda::std::inplace_vector<int, 4> few(3, 7);
        out[2] = few.size();
        cuda::std::variant<int, float> value = all.back();
        value = 0.25f;
        out[3] = cuda::std::visit([](auto v) { return static_cast<float>(v); }, value);
        out[4] = rows(1, 0);
        out[5] = *even(2);
        out[6] = even(3).error();
    });
}

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
    for (int i = 0; i < sum.num_elements; ++i) /* element-wise work on a fragment */
        sum.x[i] = Sum(2) * sum.x[i];
    wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}

// How many elements of the product are wrong.
template <class T, class Sum, int M, int N, int K, class LayoutA, class LayoutB>
int
wrong()
{
    typedef typename held<T>::type element;
    const int steps = 3, depth = steps * K;
    element *a = managed(M * depth * sizeof(element)), *b = managed(N * depth * sizeof(element));
    Sum *c = managed(M * N * sizeof(Sum));
    const bool a_rows = std::is_same<LayoutA, wmma::row_major>::value,
               b_rows = std::is_same<LayoutB, wmma::row_major>::value;
    for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < M; ++i)
            a[a_rows ? i * depth + k : k * M + i] = element(float((i + 2 * k) % 5));
        for (int j = 0; j < N; ++j)
            b[b_rows ? k * N + j : j * depth + k] = element(float((3 * j + k) % 4));
    }
    product<T, Sum, M, N, K, LayoutA, LayoutB><<<1, 32>>>(a, b, c, steps);
    int bad = !done();
    for (int at = 0; at < M * N; ++at) {
        int sum = 0;
        for (int k = 0; k < depth; ++k)
            sum += (at / N + 2 * k) % 5 * ((3 * (at % N) + k) % 4);
        bad += double(float(c[at])) != 2.0 * sum;
    }
    return bad;
}

FEATURE(products_of_fragments)
{
    typedef wmma::row_major rows;
    typedef wmma::col_major columns;
    EXPECT((wrong<half, float, 16, 16, 16, rows, columns>() == 0));
    EXPECT((wrong<half, half, 16, 16, 16, columns, rows>() == 0));
    EXPECT((wrong<half, float, 32, 8, 16, rows, rows>() == 0));
    EXPECT((wrong<half, float, 8, 32, 16, columns, columns>() == 0));
    EXPECT((wrong<__nv_bfloat16, float, 16, 16, 16, rows, columns>() == 0));
    EXPECT((wrong<wmma::precision::tf32, float, 16, 16, 8, rows, rows>() == 0));
    EXPECT((wrong<signed char, int, 16, 16, 16, rows, columns>() == 0));
    EXPECT((wrong<unsigned char, int, 32, 8, 16, rows, columns>() == 0));
    EXPECT((wrong<double, double, 8, 8, 4, rows, columns>() == 0));
    float between = 1.0f + 1.0f / 2048; /* halfway between two of tf32 */
    gives<float>({1.0f + 1.0f / 1024}, 0, [=] __device__(float *out) { out[0] = wmma::__float_to_tf32(between); });
}
