/*
 * half.cu - half and bfloat16 in kernels: conversions, arithmetic and functions round as one operation on exact values
 * does, pairs work on both halves, warps and shared memory hold them. softgpu/convert.h converts arrays to
 * the same bits.
 */
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <softgpu/convert.h>

template <class T> __host__ __device__ T from_float(float x);
template <>
__host__ __device__ __half
from_float<__half>(float x)
{
    return __float2half(x);
}
template <>
__host__ __device__ __nv_bfloat16
from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16(x);
}
__host__ __device__ inline float
to_float(__half x)
{
    return __half2float(x);
}
__host__ __device__ inline float
to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <class T>
__global__ void
arithmetic(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const T a = from_float<T>(x[i]), b = from_float<T>(x[(i + 1) % n]), c = from_float<T>(x[(i + 2) % n]);
    float *out = y + 8 * i;
    out[0] = to_float(a + b);
    out[1] = to_float(a * b);
    out[2] = to_float(__hsub(a, b));
    out[3] = to_float(a / (b * b + from_float<T>(1.0f)));
    out[4] = to_float(__hfma(a, b, c));
    out[5] = to_float(hexp(a)) + to_float(hsqrt(__habs(b))) + to_float(htanh(c));
    out[6] = to_float(__hmax(a, b)) - to_float(__hmin(a, b));
    out[7] = (a < b) + 2 * (__hge(a, c)) + 4 * static_cast<float>(__hisnan(a));
}

template <class T>
static void
test_arithmetic()
{
    const int n = 1000;
    const std::vector<float> x = random_vector<float>(n, -4, 4);
    buffer<float> dx(x), dy(8 * n);
    RUN(arithmetic<T><<<(n + 99) / 100, 100>>>(dx.data, dy.data, n));
    std::vector<float> wanted(8 * n);
    const auto round = [](double v) { return to_float(from_float<T>(static_cast<float>(v))); };
    for (int i = 0; i < n; ++i) {
        const double a = round(x[i]), b = round(x[(i + 1) % n]), c = round(x[(i + 2) % n]);
        float *out = &wanted[8 * i];
        out[0] = round(a + b);
        out[1] = round(a * b);
        out[2] = round(a - b);
        out[3] = round(a / round(round(b * b) + 1));
        out[4] = round(a * b + c);
        out[5] = round(std::exp(a)) + round(std::sqrt(std::fabs(b))) + round(std::tanh(c));
        out[6] = static_cast<float>(std::fabs(a - b));
        out[7] = static_cast<float>((a < b) + 2 * (a >= c));
    }
    expect_equal(dy.read(), wanted, "arithmetic");
}

__global__ void
pairs(const __half2 *x, __half2 *y, int n)
{
    const int i = threadIdx.x;
    if (i < n)
        y[i] = __hfma2(x[i], __float2half2_rn(2.0f), __halves2half2(__high2half(x[i]), __low2half(x[i])));
}

template <class T>
__global__ void
block_sum(const T *x, float *out)
{
    __shared__ T values[64];
    values[threadIdx.x] = __shfl_xor_sync(0xffffffff, x[threadIdx.x], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < 64; ++i)
            sum += to_float(values[i]) * (i + 1);
        *out = sum;
    }
}

static float
float_of(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static unsigned
bits_of(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Floats all over their range, and for each 16-bit pattern the float between it and the next, with neighbours. */
static std::vector<float>
floats_to_narrow()
{
    std::vector<float> values;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 1021)
        values.push_back(float_of(static_cast<unsigned>(bits)));
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const unsigned half = bits_of(__half2float(__ushort_as_half(static_cast<unsigned short>(bits))));
        const unsigned next = bits_of(__half2float(__ushort_as_half(static_cast<unsigned short>(bits + 1))));
        const unsigned between[] = {half / 2 + next / 2 + (half & next & 1), bits << 16 | 0x8000};
        for (unsigned middle : between) {
            for (unsigned near = middle - 1; near != middle + 2; ++near)
                values.push_back(float_of(near));
        }
    }
    return values;
}

static void
test_arrays_of_floats(float scale)
{
    const std::vector<float> values = floats_to_narrow();
    std::vector<uint16_t> halves(values.size()), bfloats(values.size());
    softgpu_floats_to_halves(halves.data(), values.data(), values.size(), scale);
    softgpu_floats_to_bfloats(bfloats.data(), values.data(), values.size(), scale);
    for (size_t i = 0; i < values.size(); ++i) {
        const float scaled = values[i] * scale;
        const unsigned half = __half_as_ushort(__float2half_rn(scaled));
        const unsigned bfloat = __bfloat16_as_ushort(__float2bfloat16_rn(scaled));
        CHECK(halves[i] == half, "%a to half is %#x, not %#x", scaled, halves[i], half);
        CHECK(bfloats[i] == bfloat, "%a to bfloat16 is %#x, not %#x", scaled, bfloats[i], bfloat);
    }
}

static void
test_arrays_of_16_bits()
{
    std::vector<uint16_t> all(65536);
    for (unsigned bits = 0; bits < 65536; ++bits)
        all[bits] = static_cast<uint16_t>(bits);
    for (float scale : {1.0f, 3.0f}) {
        std::vector<float> halves(65536), bfloats(65536);
        softgpu_halves_to_floats(halves.data(), all.data(), all.size(), scale);
        softgpu_bfloats_to_floats(bfloats.data(), all.data(), all.size(), scale);
        for (unsigned bits = 0; bits < 65536; ++bits) {
            const unsigned half = bits_of(__half2float(__ushort_as_half(all[bits])) * scale);
            const unsigned bfloat = bits_of(__bfloat162float(__ushort_as_bfloat16(all[bits])) * scale);
            CHECK(bits_of(halves[bits]) == half, "half %#x is %#x, not %#x", bits, bits_of(halves[bits]), half);
            CHECK(bits_of(bfloats[bits]) == bfloat, "bfloat16 %#x is %#x, not %#x", bits, bits_of(bfloats[bits]),
                  bfloat);
        }
    }
}

int
main()
{
    test_arrays_of_floats(1.0f);
    test_arrays_of_floats(1.0f / 3);
    test_arrays_of_16_bits();

    test_arithmetic<__half>();
    test_arithmetic<__nv_bfloat16>();

    std::vector<__half2> x(10);
    for (int i = 0; i < 10; ++i)
        x[i] = __floats2half2_rn(i, i + 0.5f);
    buffer<__half2> dx(x), dy(10);
    RUN(pairs<<<1, 32>>>(dx.data, dy.data, 10));
    for (int i = 0; i < 10; ++i) {
        const float2 got = __half22float2(dy.read()[i]);
        CHECK(got.x == 2.0f * i + i + 0.5f && got.y == 2 * (i + 0.5f) + i, "pair %d is %g, %g", i, got.x, got.y);
    }

    std::vector<__nv_bfloat16> values(64);
    float wanted = 0;
    for (int i = 0; i < 64; ++i)
        values[i] = __float2bfloat16(static_cast<float>(i % 16));
    for (int i = 0; i < 64; ++i)
        wanted += __bfloat162float(values[i ^ 1]) * (i + 1);
    buffer<__nv_bfloat16> dvalues(values);
    buffer<float> sum(1);
    RUN(block_sum<<<1, 64>>>(dvalues.data, sum.data));
    CHECK(sum.read()[0] == wanted, "bfloat16 in shared memory and shuffles");
    return 0;
}
