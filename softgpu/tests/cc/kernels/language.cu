/*
 * language.cu - kernels and launches in the forms that programs have: templates, namespaces, overloads, default
 * arguments, macros, function pointers, lambdas, braces; arguments are converted as in a call and evaluated once.
 */
#include "check.h"

#include <functional>

/* ---- parameters of every form: each thread writes what it got ---- */

struct point {
    float x, y;
    short tag;
};

struct chained {
    long long value;
    chained(long long v) : value(v)
    {
    }
};

enum class colour : unsigned char { red = 1, green = 200 };

typedef void (*callback)(int *, int);

__device__ void
add_to(int *where, int what)
{
    *where += what;
}

__global__ void no_parameters();
__global__ void void_parameters(void);
__device__ int touched;

KERNEL(no_parameters, (), atomicAdd(&touched, 1))
KERNEL(void_parameters, (void), atomicAdd(&touched, 10))

__global__ void
all_forms(double *out, const point p, char, colour c, chained v, float numbers[], int (*rows)[3], callback,
          unsigned long n, bool yes, const int *const *const pp, signed, const unsigned char)
{
    out[0] = p.x + p.y + p.tag;
    out[1] = static_cast<double>(c);
    out[2] = static_cast<double>(v.value);
    out[3] = numbers[1];
    out[4] = rows[1][2];
    out[5] = static_cast<double>(n);
    out[6] = yes;
    out[7] = pp == nullptr;
}

static void
test_parameters()
{
    no_parameters<<<2, 3>>>();
    RUN(void_parameters<<<1, 2>>>());
    int count;
    CUDA(cudaMemcpyFromSymbol(&count, touched, sizeof(count)));
    CHECK(count == 26, "%d", count);

    buffer<double> out(8);
    buffer<float> numbers(std::vector<float>{1.5f, 2.5f});
    buffer<int> rows(std::vector<int>{1, 2, 3, 4, 5, 6});
    /* Braces, NULL, conversions to a class, to double, from int to bool. */
    all_forms<<<1, 1>>>(out.data, {1.0f, 2.0f, 3}, 'c', colour::green, 1ll << 40, numbers.data, (int(*)[3])rows.data,
                        NULL, 7, 2, NULL, -1, 255);
    finish_launch();
    expect_equal(out.read(), {6, 200, 1099511627776.0, 2.5, 6, 7, 1, 1}, "parameters");
}

/* ---- templates ---- */

template <class T, int N = 3> struct box {
    T items[N];
    static __device__ T largest(T a, T b)
    {
        return a > b ? a : b;
    }
};

template <class T>
__global__ void
fill(T *out, T value)
{
    out[threadIdx.x] = value;
}

template <bool Negate, typename T, template <class, int> class Box>
__global__ void
boxes(T *out, Box<T, 3> b)
{
    out[threadIdx.x] = Negate ? -b.items[threadIdx.x] : Box<T, 3>::largest(b.items[threadIdx.x], T(0));
}

template <class... Args>
__global__ void
sum_of(double *out, Args... args)
{
    double total = 0;
    const double values[] = {static_cast<double>(args)...};
    for (double value : values)
        total += value;
    *out = total;
}

template <>
__global__ void
fill<short>(short *out, short value)
{
    out[threadIdx.x] = static_cast<short>(value * 2);
}

template __global__ void fill<long>(long *, long);

template <int Depth>
static int
launch_in_template(int *out)
{
    if (Depth > 1)
        fill<int><<<1, Depth>>>(out, Depth);
    else
        fill<<<1, 1>>>(out, 77);
    return Depth;
}

template <class T> struct holder {
    T *data;
    template <class U> void set(U value)
    {
        fill<T><<<dim3(1), dim3(4)>>>(this->data, static_cast<T>(value));
    }
};

template <class T> struct wrapped {
    typedef T type;
    T t;
    __host__ __device__ operator int() const
    {
        return 1;
    }
    __host__ __device__ operator dim3() const
    {
        return dim3(1);
    }
};

static void
test_templates()
{
    buffer<int> ints(4);
    RUN(fill<<<1, 4>>>(ints.data, 5));
    expect_equal(ints.read(), {5, 5, 5, 5}, "deduced");
    launch_in_template<3>(ints.data);
    finish_launch();
    expect_equal(ints.read(), {3, 3, 3, 5}, "launched in a template");
    launch_in_template<1>(ints.data);
    finish_launch();
    CHECK(ints.read()[0] == 77, "launched in the other branch");
    holder<int> h = {ints.data};
    h.set(8.9);
    finish_launch();
    expect_equal(ints.read(), {8, 8, 8, 8}, "launched in a member template");

    buffer<short> shorts(2);
    RUN(fill<short><<<1, 2>>>(shorts.data, 21));
    expect_equal(shorts.read(), {42, 42}, "specialised");

    buffer<float> floats(3);
    box<float> b = {{1, -2, 3}};
    RUN(boxes<true, float, box><<<1, 3>>>(floats.data, b));
    expect_equal(floats.read(), {-1, 2, -3}, "template of a template");
    RUN(boxes<(2 > 3), float><<<1, 3>>>(floats.data, b));
    expect_equal(floats.read(), {1, 0, 3}, "template argument with >");

    buffer<double> total(1);
    RUN(sum_of<<<1, 1>>>(total.data, 1, 2.5f, 3.25, 'a', 5ull));
    CHECK(total.read()[0] == 1 + 2.5 + 3.25 + 'a' + 5, "pack");
    RUN(sum_of<wrapped<wrapped<int>>>
        <<<wrapped<wrapped<int>>(), wrapped<wrapped<wrapped<int>>>()>>>(total.data, wrapped<wrapped<int>>()));
    CHECK(total.read()[0] == 1, "angles of all kinds");
}

/* ---- namespaces, classes, overloads, default arguments ---- */

namespace outer
{
int from_namespace = 6;

namespace
{
KERNEL(hidden, (int *out), *out = 31)
} // namespace

namespace inner
{
KERNEL(named, (int *out, int value), *out = value + 1)
} // namespace inner

struct runner {
    int *out;
    static int calls;
    void run() const
    {
        inner::named<<<1, 1>>>(this->out, from_namespace);
    }
};
int runner::calls = 0;
} // namespace outer

KERNEL(overloaded, (int *out, int), *out = 1)
KERNEL(overloaded, (int *out, double), *out = 2)
KERNEL(overloaded, (int *out, const int *), *out = 3)
KERNEL(defaults, (int *out, int a = 5, int b = sizeof(box<int, 7>) / sizeof(int)), *out = a * 100 + b)

extern "C" __global__ void
with_c_name(int *out)
{
    *out = 12;
}

static int
result_of(const buffer<int> &out)
{
    finish_launch();
    return out.read()[0];
}

static void
test_names()
{
    buffer<int> out(1);
    GIVES("in a namespace", out, 5, outer::inner::named<<<1, 1>>>(out.data, 4));
    GIVES("from the root", out, 6, ::outer::inner::named<<<1, 1>>>(out.data, 5));
    GIVES("in an anonymous namespace", out, 31, outer::hidden<<<1, 1>>>(out.data));
    GIVES("in a member function", out, 7, outer::runner{out.data}.run());
    GIVES("overload int", out, 1, overloaded<<<1, 1>>>(out.data, 1));
    GIVES("overload double", out, 2, overloaded<<<1, 1>>>(out.data, 1.0));
    GIVES("overload pointer", out, 3, overloaded<<<1, 1>>>(out.data, out.data));
    GIVES("default arguments", out, 507, defaults<<<1, 1>>>(out.data));
    GIVES("one default argument", out, 107, defaults<<<1, 1>>>(out.data, 1));
    GIVES("extern C", out, 12, with_c_name<<<1, 1>>>(out.data));
}

/* ---- launches: macros, pointers, branches, commas, lambdas, the runtime call ---- */

#define BLOCKS(n, b)           (((n) + (b)-1) / (b))
#define LAUNCH(kernel, n, ...) kernel<<<BLOCKS(n, 2), 2>>>(__VA_ARGS__)
#define ASSIGNING(name, op)                              \
    __global__ void name(int *out, int v)                \
    {                                                    \
        out[blockIdx.x * blockDim.x + threadIdx.x] op v; \
    }
ASSIGNING(macro_set, =)
ASSIGNING(macro_add, +=)

static int evaluations;

static int
counted(int value)
{
    ++evaluations;
    return value;
}

static void
launch_through(void (*kernel)(int *, int), int *out, int value)
{
    kernel<<<1, 1>>>(out, value);
}

KERNEL(ordered, (int *out, int value), *out = *out * 10 + value)

static int *
nested_launch(int *out)
{
    ordered<<<1, 1>>>(out, 1); /* while the configuration of another launch is waiting */
    return out;
}

static void
test_launches()
{
    buffer<int> out(4);
    LAUNCH(macro_set, 4, out.data, 9);
    LAUNCH(macro_add, 3, out.data, 1);
    finish_launch();
    expect_equal(out.read(), {10, 10, 10, 10}, "macros");

    void (*table[2])(int *, int) = {macro_set, macro_add};
    table[0]<<<1, 1>>>(out.data, 3);
    (*table[1])<<<1, 1>>>(out.data, 4);
    CHECK(result_of(out) == 7, "table of kernels");
    launch_through(macro_add, out.data, 5);
    CHECK(result_of(out) == 12, "function pointer");

    for (int i = 0; i < 2; ++i)
        if (i == 0)
            macro_set<<<1, 1>>>(out.data, 40);
        else
            macro_add<<<dim3(1, 1, 1), dim3(counted(1), 1), 0, cudaStream_t(0)>>>(out.data, counted(2));
    CHECK(result_of(out) == 42, "branches without braces");
    CHECK(evaluations == 2, "arguments are evaluated once, not %d times", evaluations);

    GIVES("comma", out, 2, macro_set<<<1, 1>>>(out.data, 0), macro_add<<<1, 1>>>(out.data, 2));
    GIVES("a launch in the argument of a launch", out, 215, ordered<<<1, 1>>>(nested_launch(out.data), 5));

    const auto generic = [&](auto value) { macro_set<<<1, 1>>>(out.data, value); };
    GIVES("in a generic lambda", out, 6, generic(6));
    std::function<void()> later = [&out] { macro_set<<<1, 1>>>(out.data, 16); };
    GIVES("in a lambda", out, 16, later());

    int value = 23;
    int *data = out.data;
    void *arguments[] = {&data, &value};
    GIVES("cudaLaunchKernel", out, 23,
          CUDA(cudaLaunchKernel((const void *)macro_set, dim3(1), dim3(1), arguments, 0, 0)));
    value = 24;
    GIVES("cudaLaunchKernel, C++ form", out, 24, CUDA(cudaLaunchKernel(macro_set, dim3(1), dim3(1), arguments)));

    const char *text = "k<<<1, 1>>>(x)", *raw = R"(k<<<2, 2>>>(y))";
    CHECK(text[1] == '<' && raw[1] == '<', "strings stay");
}

/* ---- device code: function pointers, functors, lambdas, recursion, local classes, constexpr ---- */

struct scale_by {
    float factor;
    __host__ __device__ float operator()(float x) const
    {
        return factor * x;
    }
};

template <class Operation>
__global__ void
transform(const float *x, float *y, int n, Operation operation)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = operation(x[i]);
}

__host__ __device__ constexpr int
factorial(int n)
{
    return n < 2 ? 1 : n * factorial(n - 1);
}

__device__ int
fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

typedef float (*function)(float);
__device__ float
half_of(float x)
{
    return x / 2;
}
__device__ float
square_of(float x)
{
    return x * x;
}

__global__ void
device_features(float *out)
{
    struct local {
        int a;
        __device__ int twice() const
        {
            return 2 * a;
        }
    };
    const function functions[] = {half_of, square_of};
    const auto lambda = [](float x) { return x + 100; };
    local l = {21};
    out[0] = functions[0](8) + functions[1](3);
    out[1] = lambda(1);
    out[2] = l.twice();
    out[3] = factorial(5);
    out[4] = fibonacci(15);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        sum += i;
#pragma unroll 2
    for (int i = 0; i < 4; ++i)
        sum += i;
    out[5] = sum;
}

__device__ __noinline__ int
not_inlined(int x)
{
    return x + 1;
}

__device__ __forceinline__ int
inlined(int x)
{
    return x + 2;
}

__global__ void __launch_bounds__(64, 2) bounded(int *out)
{
    out[threadIdx.x] = not_inlined(inlined(static_cast<int>(threadIdx.x)));
}

static void
test_device_code()
{
    const std::vector<float> x = random_vector<float>(100);
    std::vector<float> wanted(100);
    buffer<float> dx(x), dy(100);
    transform<<<1, 128>>>(dx.data, dy.data, 100, scale_by{3.0f});
    finish_launch();
    for (int i = 0; i < 100; ++i)
        wanted[i] = 3.0f * x[i];
    expect_equal(dy.read(), wanted, "functor");
    const float offset = 0.5f;
    transform<<<1, 128>>>(dx.data, dy.data, 100, [=] __device__(float v) { return v + offset; });
    finish_launch();
    for (int i = 0; i < 100; ++i)
        wanted[i] = x[i] + 0.5f;
    expect_equal(dy.read(), wanted, "device lambda");

    buffer<float> features(6);
    RUN(device_features<<<1, 1>>>(features.data));
    expect_equal(features.read(), {13, 101, 42, 120, 610, 12}, "device code");

    buffer<int> ints(64);
    RUN(bounded<<<1, 64>>>(ints.data));
    for (int i = 0; i < 64; ++i)
        CHECK(ints.read()[i] == i + 3, "launch bounds");
}

int
main()
{
    test_parameters();
    test_templates();
    test_names();
    test_launches();
    test_device_code();
    return 0;
}
