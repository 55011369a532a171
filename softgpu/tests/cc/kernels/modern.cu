/*
 * modern.cu - kernels and launches in the forms of C++17 and C++20: static members, concepts, `if constexpr`, folds,
 * structured bindings, `auto` template parameters, generic lambdas on both sides, launches over a pack.
 */
#include "check.h"

#include <array>
#include <concepts>
#include <utility>

/* ---- members ---- */

struct holder {
    static __global__ void set(int *out, int value)
    {
        *out = value;
    }
    template <class T> static __global__ void through_shared(T *out, T value)
    {
        __shared__ T kept;
        if (threadIdx.x == 0)
            kept = value;
        __syncthreads();
        out[threadIdx.x] = kept;
    }
    static __global__ void declared(int *out);
    void run(int *out)
    {
        set<<<1, 1>>>(out, 4);
    }
};

__global__ void
holder::declared(int *out)
{
    *out = 17;
}

template <class T> struct holder_of {
    static __global__ void set(T *out)
    {
        *out = T(3);
    }
};

/* ---- templates ---- */

template <class T>
concept number = std::integral<T> || std::floating_point<T>;

template <number T>
__global__ void
constrained(T *out)
{
    *out = T(5);
}

template <class T>
requires number<T> __global__ void
constrained_too(T *out)
{
    *out = T(6);
}

template <class T>
requires std::integral<T> __device__ T
next(T v)
{
    return v + 1;
}

template <class T>
requires(sizeof(T) == 4) __global__ void advance(T *out)
{
    *out = next(*out);
}

template <class T>
__global__ void
branch(T *out)
{
    if constexpr (std::is_same_v<T, int>) {
        __syncthreads();
        *out = 1;
    } else {
        *out = 2;
    }
}

enum class sign { plus, minus };

template <class... T>
KERNEL(folded, (int *out, T... values), *out = (static_cast<int>(values) + ...))

template <auto V>
__global__ void constant(int *out)
{
    *out = static_cast<int>(V);
}

template <sign S, class T, std::size_t N>
__global__ void
sum(T *out, std::array<T, N> values)
{
    T total = 0;
    for (const T value : values)
        total += value;
    *out = S == sign::minus ? -total : total;
}

namespace
{
template <int N>
KERNEL(hidden, (int *out), *out = N)

struct scaled {
    __device__ int operator()(int i, float x) const
    {
        return i * 10 + static_cast<int>(x);
    }
};
} // namespace

inline namespace version
{
namespace a::b
{
KERNEL(nested, (int *out), *out = 99)
} // namespace a::b
} // namespace version

/* ---- bodies ---- */

struct pair_of {
    int first = 1;
    int second = 2;
};

__global__ void
bindings(int *out, pair_of both)
{
    const auto [first, second] = both;
    *out = first * 10 + second;
}

__global__ void
generic(int *out)
{
    const auto twice = []<class T>(T x) { return x * 2; };
    *out = twice(4) + [](auto... x) { return (x + ...); }(1, 2, 3);
}

template <class F>
KERNEL(call, (int *out, F function), out[threadIdx.x] = function(threadIdx.x, 2.5f))

inline constexpr int table[] = {1, 2, 3};
__constant__ constexpr float coefficients[2] = {1.5f, 2.5f};
constexpr pair_of
doubled(int value)
{
    return {value, 2 * value};
}
__device__ constexpr pair_of made = doubled(2);

__global__ void
constants(int *out)
{
    __shared__ int rows[doubled(2).second][2];
    rows[made.second - 1][1] = made.first;
    *out = static_cast<int>(2 * (table[2] + coefficients[1])) + 100 * rows[3][1];
}

static void
expect(const buffer<int> &out, size_t place, int wanted, const char *what)
{
    finish_launch();
    const int got = out.read()[place];
    CHECK(got == wanted, "%s: %d, not %d", what, got, wanted);
}

int
main()
{
    buffer<int> out(8);
    int *const d = out.data;
    GIVES("launched in the class of the kernel", out, 4, holder().run(d));
    GIVES("static member", out, 5, holder::set<<<1, 1>>>(d, 5));
    holder::through_shared<int><<<1, 2>>>(d, 6);
    expect(out, 1, 6, "static member template");
    GIVES("defined outside its class", out, 17, holder::declared<<<1, 1>>>(d));
    GIVES("member of a class template", out, 3, holder_of<int>::set<<<1, 1>>>(d));

    GIVES("concept", out, 5, constrained<<<1, 1>>>(d));
    GIVES("requires", out, 6, constrained_too<int><<<1, 1>>>(d));
    GIVES("requires an expression", out, 7, advance<int><<<1, 1>>>(d));
    GIVES("if constexpr", out, 1, branch<<<1, 2>>>(d));
    GIVES("fold", out, 100, folded<<<1, 1>>>(d, 1, 2.0, 'a'));
    GIVES("auto parameter", out, 'z', constant<'z'><<<1, 1>>>(d));
    GIVES("std::array", out, -6, sum<sign::minus><<<1, 1>>>(d, std::array<int, 3>{1, 2, 3}));
    GIVES("template in an anonymous namespace", out, 8, hidden<8><<<1, 1>>>(d));
    GIVES("nested and inline namespaces", out, 99, a::b::nested<<<1, 1>>>(d));

    GIVES("designated initialisers, structured bindings", out, 17, bindings<<<1, 1>>>(d, {.second = 7}));
    GIVES("generic lambdas in a kernel", out, 14, generic<<<1, 1>>>(d));
    call<<<1, 3>>>(d, [=] __device__(auto i, auto x) { return static_cast<int>(i * x); });
    expect(out, 2, 5, "generic device lambda");
    call<<<1, 3>>>(d, scaled{});
    expect(out, 1, 12, "functor of an anonymous namespace");
    GIVES("constexpr variables", out, 211, constants<<<1, 1>>>(d));

    [&]<int... I>(std::integer_sequence<int, I...>)
    {
        (hidden<I><<<1, 1>>>(d + I), ...);
    }
    (std::make_integer_sequence<int, 4>{});
    expect(out, 3, 3, "launches over a pack");
    const auto launch = [&](auto kernel, auto... values) { kernel<<<1, 1>>>(d, values...); };
    GIVES("launch of a parameter", out, 44, launch(holder::set, 44));
    return 0;
}
