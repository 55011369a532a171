/*
 * mma.h - in the place of NVIDIA's: nvcuda::wmma. CUDA C++ Programming Guide, "Warp Matrix Functions".
 *
 * A lane holds an equal share of a fragment's elements, in the order of rows; CUDA leaves open which, and how many. The
 * lane that comes last to a product computes it for all: k in ascending order, in float, double or int. A tensor core
 * adds in an order of its own. Sub-byte types are not there.
 */
#ifndef SOFTGPU_MMA_H
#define SOFTGPU_MMA_H
#pragma GCC system_header

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace nvcuda
{
namespace wmma
{

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision
{
struct tf32;
}

namespace softgpu_detail
{
/* How an element is held, what it is computed in, and the shape that its fragments have: m, n and k in one number. */
template <class T> struct element;
#define SOFTGPU_ELEMENT(name, held, computed, fits) \
    template <> struct element<name> {              \
        typedef held type;                          \
        typedef computed wide;                      \
        static constexpr bool has(int shape)        \
        {                                           \
            return fits;                            \
        }                                           \
    };
#define SOFTGPU_WHOLE shape == 161616 || shape == 320816 || shape == 83216
SOFTGPU_ELEMENT(__half, __half, float, SOFTGPU_WHOLE)
SOFTGPU_ELEMENT(__nv_bfloat16, __nv_bfloat16, float, SOFTGPU_WHOLE)
SOFTGPU_ELEMENT(signed char, signed char, int, SOFTGPU_WHOLE)
SOFTGPU_ELEMENT(unsigned char, unsigned char, int, SOFTGPU_WHOLE)
SOFTGPU_ELEMENT(int, int, int, SOFTGPU_WHOLE)
SOFTGPU_ELEMENT(float, float, float, (SOFTGPU_WHOLE || shape == 161608))
SOFTGPU_ELEMENT(precision::tf32, float, float, shape == 161608)
SOFTGPU_ELEMENT(double, double, double, shape == 80804)
#undef SOFTGPU_WHOLE
#undef SOFTGPU_ELEMENT

template <class Use, int M, int N, int K> struct shape;
template <int M, int N, int K> struct shape<matrix_a, M, N, K> {
    enum { rows = M, columns = K };
};
template <int M, int N, int K> struct shape<matrix_b, M, N, K> {
    enum { rows = K, columns = N };
};
template <int M, int N, int K> struct shape<accumulator, M, N, K> {
    enum { rows = M, columns = N };
};
} // namespace softgpu_detail

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment : softgpu_detail::shape<Use, M, N, K> {
    static_assert(softgpu_detail::element<T>::has(M * 10000 + N * 100 + K),
                  "wmma has no fragment of this shape and type");
    typedef softgpu_detail::shape<Use, M, N, K> of;
    typedef typename softgpu_detail::element<T>::type element_type;
    enum { num_elements = static_cast<int>(of::rows) * static_cast<int>(of::columns) / 32 };
    element_type x[num_elements];

    /* f(element of this lane, its row, its column) */
    template <class F> void each(F f)
    {
        for (int i = 0; i < num_elements; ++i) {
            const int at = static_cast<int>(::softgpu::lane()) * num_elements + i;
            f(x[i], at / of::columns, at % of::columns);
        }
    }
};

template <class Use, int M, int N, int K, class T, class Layout, class V>
inline void
fill_fragment(fragment<Use, M, N, K, T, Layout> &to, const V &value)
{
    for (auto &x : to.x)
        x = value;
}

template <class Use, int M, int N, int K, class T, class Layout, class E>
inline void
load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const E *from, unsigned stride, layout_t layout)
{
    __syncwarp();
    to.each([=](E &x, int row, int column) {
        x = layout == mem_row_major ? from[row * stride + column] : from[column * stride + row];
    });
}
template <class Use, int M, int N, int K, class T, class Layout, class E>
inline void
load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const E *from, unsigned stride)
{
    static_assert(!std::is_same<Layout, void>::value, "an accumulator is loaded with a layout");
    load_matrix_sync(to, from, stride, std::is_same<Layout, row_major>::value ? mem_row_major : mem_col_major);
}

template <int M, int N, int K, class T, class E>
inline void
store_matrix_sync(E *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride, layout_t layout)
{
    fragment<accumulator, M, N, K, T> copy = from;
    __syncwarp();
    copy.each([=](const E &x, int row, int column) {
        to[layout == mem_row_major ? row * stride + column : column * stride + row] = x;
    });
    __syncwarp();
}

namespace softgpu_detail
{
/* What a lane brings to a product. */
template <class D, class A, class B, class C> struct product {
    D *d;
    const A *a;
    const B *b;
    const C *c;

    static void finish(softgpu_meeting *m, const void *)
    {
        typedef
            typename element<std::remove_const_t<std::remove_reference_t<decltype(std::declval<C>().x[0])>>>::wide wide;
        const auto of = [m](int lane) { return reinterpret_cast<const product *>(m->brought[lane].part[0]); };
        wide sum[D::of::rows * D::of::columns];
        for (int i = 0; i < D::of::rows; ++i) {
            for (int j = 0; j < D::of::columns; ++j) {
                const int at = i * D::of::columns + j;
                wide total = static_cast<wide>(of(at / C::num_elements)->c->x[at % C::num_elements]);
                for (int k = 0; k < A::of::columns; ++k) {
                    const int left = i * A::of::columns + k, right = k * B::of::columns + j;
                    total += static_cast<wide>(of(left / A::num_elements)->a->x[left % A::num_elements]) *
                             static_cast<wide>(of(right / B::num_elements)->b->x[right % B::num_elements]);
                }
                sum[at] = total;
            }
        }
        for (int at = 0; at < D::of::rows * D::of::columns; ++at) /* d may be c */
            of(at / D::num_elements)->d->x[at % D::num_elements] = static_cast<typename D::element_type>(sum[at]);
    }
};
} // namespace softgpu_detail

template <class D, int M, int N, int K, class T, class LayoutA, class LayoutB, class C>
inline void
mma_sync(fragment<accumulator, M, N, K, D> &d, const fragment<matrix_a, M, N, K, T, LayoutA> &a,
         const fragment<matrix_b, M, N, K, T, LayoutB> &b, const fragment<accumulator, M, N, K, C> &c)
{
    typedef softgpu_detail::product<fragment<accumulator, M, N, K, D>, fragment<matrix_a, M, N, K, T, LayoutA>,
                                    fragment<matrix_b, M, N, K, T, LayoutB>, fragment<accumulator, M, N, K, C>>
        product;
    static const softgpu_gathering how = {"wmma::mma_sync", product::finish};
    const product mine = {&d, &a, &b, &c};
    softgpu_meet(&how, ~0u, {{reinterpret_cast<uintptr_t>(&mine), 0}}, 0, nullptr);
}

/* To 10 bits behind the point, to nearest; of two as near, away from zero. */
inline float
__float_to_tf32(float x)
{
    return x - x != 0 ? x : ::softgpu::same_bits<float>((::softgpu::same_bits<unsigned>(x) + 0x1000u) & ~0x1fffu);
}

} // namespace wmma
} // namespace nvcuda

#endif
