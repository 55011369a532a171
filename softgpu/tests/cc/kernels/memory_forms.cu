/*
 * memory_forms.cu - memory as programs reach it: managed variables, loads and stores of vector types, pairs of half
 * numbers added atomically, loops around atomicCAS, pointers of device variables, kernels as static members, launches
 * in generic code. Compiles as C++11 to C++20.
 */
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

/* ---- managed variables ---- */

__managed__ int counter = 3;
__managed__ float table[4];
__device__ __managed__ struct {
    int first;
    double second;
} record;

__global__ void
use_managed()
{
    atomicAdd(&counter, 1);
    table[threadIdx.x % 4] = threadIdx.x % 4 + 0.5f;
    if (threadIdx.x == 0)
        record.second = record.first * 2.0;
}

static void
test_managed()
{
    record.first = 21;
    RUN(use_managed<<<2, 32>>>());
    CHECK(counter == 67, "counter %d", counter);
    for (int i = 0; i < 4; ++i)
        CHECK(table[i] == i + 0.5f, "table");
    CHECK(record.second == 42, "record");
    void *address = nullptr;
    CUDA(cudaGetSymbolAddress(&address, counter));
    CHECK(address == &counter, "the host's address is the device's");
}

/* ---- vector types ---- */

template <class Vector>
__global__ void
copy_vectors(const Vector *from, Vector *to, int n)
{
    __shared__ Vector tile[32];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        tile[threadIdx.x] = __ldg(&from[i]);
    __syncthreads();
    if (i < n)
        __stcs(&to[n - 1 - i], tile[threadIdx.x]);
}

/* Scalars reached as vectors: what every fast copy, layer norm and matrix product does. */
__global__ void
scale_as_float4(const float *from, float *to, int n, float factor)
{
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    float4 v = reinterpret_cast<const float4 *>(from)[i / 4];
    v.x *= factor;
    v.y *= factor;
    v.z *= factor;
    v.w *= factor;
    *reinterpret_cast<float4 *>(&to[i]) = v;
    const int2 two = *reinterpret_cast<const int2 *>(from + i);
    if (__int_as_float(two.y) != from[i + 1])
        to[i] = -1;
}

template <class Vector>
static void
test_copy()
{
    const int n = 100, scalars = sizeof(Vector) / 4;
    std::vector<float> bits = random_vector<float>(n * scalars);
    std::vector<Vector> x(n);
    std::memcpy(static_cast<void *>(x.data()), bits.data(), n * sizeof(Vector));
    buffer<Vector> from(x), to(n);
    RUN(copy_vectors<<<(n + 31) / 32, 32>>>(static_cast<const Vector *>(from.data), to.data, n));
    const std::vector<Vector> got = to.read();
    for (int i = 0; i < n; ++i)
        CHECK(std::memcmp(&got[i], &x[n - 1 - i], sizeof(Vector)) == 0, "vector %d of %zu bytes", i, sizeof(Vector));
}

static void
test_vectors()
{
    test_copy<float4>();
    test_copy<float2>();
    test_copy<float3>();
    test_copy<int4>();
    test_copy<uint2>();
    test_copy<double2>();
    test_copy<ulonglong2>();
    test_copy<uchar4>();
    std::vector<float> x = random_vector<float>(400), wanted;
    for (float value : x)
        wanted.push_back(value * 2.5f);
    buffer<float> from(x), to(400);
    RUN(scale_as_float4<<<4, 32>>>(from.data, to.data, 400, 2.5f));
    expect_equal(to.read(), wanted, "float4");
}

/* ---- atomics on what the hardware has none for, and on pairs ---- */

__global__ void
add_pairs(__half2 *halves, __nv_bfloat162 *bfloats, __half *half, __nv_bfloat16 *bfloat)
{
    atomicAdd(halves, __floats2half2_rn(1.0f, -2.0f));
    atomicAdd(bfloats, __floats2bfloat162_rn(0.5f, 1.0f));
    atomicAdd(half, __float2half(0.25f));
    atomicAdd(&bfloat[threadIdx.x % 2], __float2bfloat16(1.0f)); /* neighbours in one word */
}

__device__ float
atomic_max(float *address, float value)
{
    int *const word = reinterpret_cast<int *>(address);
    int old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__device__ double
multiply_atomically(double *address, double value)
{
    unsigned long long int *word = (unsigned long long int *)address;
    unsigned long long int old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(value * __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

__global__ void
loops(const float *x, float *largest, double *product, unsigned short *tickets)
{
    atomic_max(largest, x[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x < 2)
        multiply_atomically(product, 2.0);
    unsigned short old = tickets[1], assumed;
    do {
        assumed = old;
        old = atomicCAS(&tickets[1], assumed, static_cast<unsigned short>(assumed + 1));
    } while (assumed != old);
}

static void
test_atomics()
{
    buffer<__half2> halves(1);
    buffer<__nv_bfloat162> bfloats(1);
    buffer<__half> half(1);
    buffer<__nv_bfloat16> bfloat(2);
    RUN(add_pairs<<<4, 32>>>(halves.data, bfloats.data, half.data, bfloat.data));
    const float2 h = __half22float2(halves.read()[0]), b = __bfloat1622float2(bfloats.read()[0]);
    CHECK(h.x == 128 && h.y == -256, "half pairs: %g %g", h.x, h.y);
    CHECK(b.x == 64 && b.y == 128, "bfloat pairs: %g %g", b.x, b.y);
    CHECK(__half2float(half.read()[0]) == 32, "half");
    CHECK(__bfloat162float(bfloat.read()[0]) == 64 && __bfloat162float(bfloat.read()[1]) == 64, "bfloat16");

    const std::vector<float> x = random_vector<float>(256);
    buffer<float> dx(x), largest(1);
    buffer<double> product(std::vector<double>(1, 1.0));
    buffer<unsigned short> tickets(2);
    RUN(loops<<<8, 32>>>(dx.data, largest.data, product.data, tickets.data));
    float wanted = 0;
    for (float value : x)
        wanted = value > wanted ? value : wanted;
    CHECK(largest.read()[0] == wanted, "maximum by atomicCAS");
    CHECK(product.read()[0] == 65536, "product by atomicCAS");
    CHECK(tickets.read()[1] == 256 && tickets.read()[0] == 0, "16 bits by atomicCAS");
}

/* ---- pointers of device variables in device code, functors as template arguments, launches in generic code ---- */

__device__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ float *where = weights + 2;
__constant__ float scales[2] = {10, 100};
__device__ const float *const ends[] = {weights, weights + 7};

struct twice {
    __device__ static float of(float x)
    {
        return 2 * x;
    }
};

template <class Operation, int... Places>
__global__ void
gather(float *out)
{
    const int places[] = {Places...};
    for (int i = 0; i < static_cast<int>(sizeof...(Places)); ++i)
        out[i] = Operation::of(where[places[i]]) + *ends[1] * scales[i % 2];
}

template <template <class> class Buffer, class... Launches>
static void
launch_all(Buffer<float> &out, Launches... launches)
{
    const int order[] = {(launches(out.data), 0)...};
    (void)order;
}

struct kernels {
    template <class T> static void run(T *out, int n);
};

template <class T>
__global__ static void
count_up(T *out)
{
    out[threadIdx.x] += static_cast<T>(threadIdx.x);
}

template <class T>
void
kernels::run(T *out, int n)
{
#define START(kernel, ...) kernel<T><<<1, n, 0, 0>>>(__VA_ARGS__)
    START(count_up, out);
    void (*pointer)(T *) = count_up<T>;
    pointer<<<1, n>>>(out);
#undef START
}

static void
test_generic()
{
    buffer<float> out(3);
    RUN(gather<twice, 0, 2, 4><<<1, 1>>>(out.data));
    expect_equal(out.read(), {6 + 80, 10 + 800, 14 + 80}, "device pointers");
    launch_all<buffer>(
        out, [](float *p) { count_up<<<1, 3>>>(p); }, [](float *p) { kernels::run(p, 3); });
    finish_launch();
    expect_equal(out.read(), {86, 810 + 3, 94 + 6}, "launches in lambdas of a pack");
}

int
main()
{
    test_managed();
    test_vectors();
    test_atomics();
    test_generic();
    return 0;
}
