/*
 * indices.cu - threadIdx, blockIdx, blockDim and gridDim mean the same wherever code of a kernel asks for them: in
 * functions, constructors, static members, templates and lambdas, called from each other, by a value or by a pointer,
 * vectorised or not, with and without barriers in between; in grids and blocks of one, two and three dimensions.
 */
#include "check.h"

#define HD __host__ __device__

/* ---- each form stores the number of its thread in the grid, x fastest, at that number ---- */

static HD unsigned
number_of(uint3 thread, uint3 block, dim3 size, dim3 grid)
{
    const unsigned in_block = (thread.z * size.y + thread.y) * size.x + thread.x;
    return ((block.z * grid.y + block.y) * grid.x + block.x) * (size.x * size.y * size.z) + in_block;
}

__device__ unsigned
in_function()
{
    return number_of(threadIdx, blockIdx, blockDim, gridDim);
}

__device__ __noinline__ unsigned
in_function_apart()
{
    return number_of(threadIdx, blockIdx, blockDim, gridDim);
}

template <class T>
__device__ __forceinline__ T
in_template()
{
    return static_cast<T>(in_function());
}

struct in_constructor {
    unsigned number;
    __device__ in_constructor() : number(in_function())
    {
    }
};

struct in_member {
    unsigned base;
    static __device__ unsigned one()
    {
        return number_of(threadIdx, blockIdx, blockDim, gridDim);
    }
    __device__ unsigned operator()(unsigned more) const
    {
        return base + one() + more;
    }
};

typedef unsigned (*number_function)();
__device__ number_function pointer_to_function = in_function_apart;

KERNEL(from_function, (unsigned *out), out[in_function()] += in_template<unsigned>())
KERNEL(from_far_function, (unsigned *out), out[in_function_apart()] += in_function())

__global__ void
from_constructor(unsigned *out)
{
    const in_constructor here;
    out[here.number] += here.number;
}

template <class F>
__global__ void
from_value(unsigned *out, F f)
{
    out[f(0)] += f(0);
}

__global__ void
from_pointer(unsigned *out)
{
    out[pointer_to_function()] += in_function();
}

__global__ void
from_lambda(unsigned *out)
{
    const auto by_copy = [=] { return number_of(threadIdx, blockIdx, blockDim, gridDim); };
    const auto by_reference = [&]() -> int { return number_of(threadIdx, blockIdx, blockDim, gridDim); };
    out[by_copy()] += by_reference();
}

__global__ void
from_shadow(unsigned *out)
{
    const unsigned block = blockIdx.x;
    {
        const uint3 blockIdx = {block, 0, 0}; /* a name like any other */
        if (blockIdx.x == ::blockIdx.x)
            out[in_function()] += in_function();
    }
}

__global__ void
across_a_barrier(unsigned *out)
{
    const unsigned before = in_function();
    __syncthreads();
    out[in_function_apart()] += before == in_function() ? before : 12345;
}

template <class... F>
static void
expect_numbers(void (*kernel)(unsigned *, F...), dim3 grid, dim3 block, const char *what, F... f)
{
    const size_t count = static_cast<size_t>(grid.x) * grid.y * grid.z * block.x * block.y * block.z;
    buffer<unsigned> out(count);
    RUN(kernel<<<grid, block>>>(out.data, f...));
    expect_equal(out.read(), numbers_of<unsigned>(count, [](int i) { return i; }), what);
}

static void
test_shape(dim3 grid, dim3 block)
{
    expect_numbers(from_function, grid, block, "in a function and a template");
    expect_numbers(from_far_function, grid, block, "in a function that is not inlined");
    expect_numbers(from_constructor, grid, block, "in a constructor");
    expect_numbers(from_pointer, grid, block, "through a pointer to a function");
    expect_numbers(from_lambda, grid, block, "in lambdas");
    expect_numbers(from_shadow, grid, block, "beside a variable of the same name");
    expect_numbers(across_a_barrier, grid, block, "across a barrier");
    expect_numbers(from_value<in_member>, grid, block, "in a functor", in_member{0});
    auto lambda = [] __device__(unsigned n) { return n + number_of(threadIdx, blockIdx, blockDim, gridDim); };
    expect_numbers(from_value<decltype(lambda)>, grid, block, "in a lambda that is an argument", lambda);
}

/* ---- counting elements in a function, in each type ---- */

template <class T>
__device__ T
count_of()
{
    return static_cast<T>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ int
count_int()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ unsigned
count_unsigned()
{
    return threadIdx.x + blockDim.x * blockIdx.x;
}

__device__ size_t
count_size()
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    return i;
}

template <class T, class N>
__global__ void
square(const T *x, T *y, N n)
{
    const N i = sizeof(N) == 8 ? count_size() : count_unsigned();
    if (i < n)
        y[i] = x[i] * x[i] + static_cast<T>(count_of<N>() % 7) + static_cast<T>(count_int() % 3);
}

/* What is written could be an index, as far as types say. */
__global__ void
square_in_place(unsigned *x, int n)
{
    if (count_int() >= n)
        return;
    x[count_int()] *= x[count_int()];
    x[count_int()] += count_unsigned();
}

template <class T, class N>
static void
test_square(N n, unsigned block)
{
    const std::vector<T> x = random_vector<T>(n, -100, 100);
    buffer<T> dx(x), dy(n);
    RUN(square<T, N><<<static_cast<unsigned>((n + block - 1) / block), block>>>(dx.data, dy.data, n));
    std::vector<T> wanted(n);
    for (N i = 0; i < n; ++i)
        wanted[i] = x[i] * x[i] + static_cast<T>(i % 7) + static_cast<T>(i % 3);
    expect_close(dy.read(), wanted, 1e-6, "counted in a function");
}

static void
test_square_in_place(int n, unsigned block)
{
    std::vector<unsigned> x = random_vector<unsigned>(n, 0, 1000);
    buffer<unsigned> dx(x);
    RUN(square_in_place<<<(n + block - 1) / block, block>>>(dx.data, n));
    for (int i = 0; i < n; ++i)
        x[i] = x[i] * x[i] + i;
    expect_equal(dx.read(), x, "unsigned numbers, squared in place");
}

/* ---- the user's own variables of these names ---- */

template <int blockDim>
__device__ int
of_template()
{
    return blockDim + static_cast<int>(threadIdx.x);
}

template <int blockIdx> struct of_class {
    __device__ int value() const
    {
        return blockIdx;
    }
};

__device__ int
of_parameters(int blockDim, int gridDim)
{
    return blockDim * gridDim + static_cast<int>(blockIdx.x);
}

template <int gridDim>
__global__ void
template_parameter(int *out)
{
    *out = gridDim + of_template<4>();
}

__global__ void
parameters(int *out, int threadIdx, int warpSize)
{
    *out = threadIdx + warpSize + static_cast<int>(blockIdx.x);
}

__global__ void
locals(int *out)
{
    const int x = static_cast<int>(threadIdx.x), blockIdx = x + 1;
    const dim3 gridDim(3, 4), blockDim(5, 6);
    *out = blockIdx + static_cast<int>(gridDim.y + blockDim.y);
}

__global__ void
in_a_loop(int *out)
{
    int sum = 0;
    for (int blockDim = 0; blockDim < 3; ++blockDim) {
        sum += blockDim;
        __syncthreads();
    }
    *out = sum + of_parameters(static_cast<int>(blockDim.x), 7) + of_class<20>().value();
}

static void
test_own_names()
{
    buffer<int> out(1);
    GIVES("a template's parameter", out, 7, template_parameter<3><<<1, 1>>>(out.data));
    GIVES("a kernel's parameters", out, 8, parameters<<<1, 1>>>(out.data, 3, 5));
    GIVES("local variables", out, 11, locals<<<1, 1>>>(out.data));
    GIVES("a loop's variable", out, 30, in_a_loop<<<1, 1>>>(out.data));
}

int
main()
{
    test_own_names();
    test_shape(dim3(1), dim3(1));
    test_shape(dim3(37), dim3(96));
    test_shape(dim3(5, 3), dim3(33, 2));
    test_shape(dim3(2, 3, 4), dim3(5, 4, 3));
    for (int n : {1, 33, 4099}) {
        for (unsigned block : {7u, 64u, 1024u}) {
            test_square<float, int>(n, block);
            test_square<float, unsigned>(n, block);
            test_square<float, size_t>(n, block);
            test_square<double, long>(n, block);
            test_square<int, int>(n, block);
            test_square_in_place(n, block);
        }
    }
    return 0;
}
