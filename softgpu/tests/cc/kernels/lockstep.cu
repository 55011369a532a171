/*
 * lockstep.cu - reductions that count on the threads of a warp running alike, as they are written all over: with a
 * volatile pointer and no __syncwarp. They give the sum, in each form.
 */
#include "check.h"

#include <algorithm>
#include <numeric>

template <unsigned Block>
__device__ void
unrolled(volatile float *s, unsigned t)
{
    if (Block >= 64)
        s[t] += s[t + 32];
    if (Block >= 32)
        s[t] += s[t + 16];
    if (Block >= 16)
        s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
}

template <unsigned Block>
__global__ void
in_function(const float *x, float *out, unsigned n)
{
    __shared__ float s[Block < 64 ? 64 : Block];
    const unsigned t = threadIdx.x;
    s[t] = t < n ? x[t] : 0;
    if (t + Block < 64)
        s[t + Block] = 0;
    __syncthreads();
    for (unsigned half = Block / 2; half > 32; half >>= 1) {
        if (t < half)
            s[t] += s[t + half];
        __syncthreads();
    }
    if (t < 32)
        unrolled<Block>(s, t);
    if (t == 0)
        *out = s[0];
}

/* With a sum in a register beside it. */
__global__ void
with_register(const float *x, float *out, int n)
{
    extern __shared__ float data[];
    const int t = threadIdx.x;
    float sum = t < n ? x[t] : 0;
    data[t] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 32; half >>= 1) {
        if (t < half)
            data[t] = sum = sum + data[t + half];
        __syncthreads();
    }
    if (t < 32) {
        volatile float *s = data;
        s[t] = sum = sum + s[t + 32];
        s[t] = sum = sum + s[t + 16];
        s[t] = sum = sum + s[t + 8];
        s[t] = sum = sum + s[t + 4];
        s[t] = sum = sum + s[t + 2];
        s[t] = sum = sum + s[t + 1];
    }
    if (t == 0)
        *out = data[0];
}

/* A maximum, over a volatile array, in a loop that all lanes run. */
__global__ void
maximum(const float *x, float *out, int n)
{
    volatile __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = t < n ? x[t] : -INFINITY;
    s[t + 32] = t + 32 < n ? x[t + 32] : -INFINITY;
    for (int offset = 32; offset > 0; offset /= 2)
        s[t] = s[t] > s[t + offset] ? s[t] : s[t + offset];
    if (t == 0)
        *out = s[0];
}

/* A scan of one warp, by half of its lanes at a time. */
__global__ void
scan(const float *x, float *out)
{
    volatile __shared__ float s[32];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t >= 1)
        s[t] += s[t - 1];
    if (t >= 2)
        s[t] += s[t - 2];
    if (t >= 4)
        s[t] += s[t - 4];
    if (t >= 8)
        s[t] += s[t - 8];
    if (t >= 16)
        s[t] += s[t - 16];
    out[t] = s[t];
}

/* Small integers: their sums are exact in any order. */
static std::vector<float>
numbers(int n)
{
    return numbers_of<float>(n, [](int) { return random_source()() % 1000; });
}

static void
test_sum(unsigned block, void (*in_function_of_block)(const float *, float *, unsigned), int n)
{
    const std::vector<float> x = numbers(n);
    buffer<float> dx(x), out(1), other(1);
    const float sum = std::accumulate(x.begin(), x.end(), 0.0f);
    GIVES("sum in a function", out, sum, in_function_of_block<<<1, block>>>(dx.data, out.data, n));
    if (block >= 64)
        GIVES("sum with a register", other, sum,
              with_register<<<1, block, block * sizeof(float)>>>(dx.data, other.data, n));
}

int
main()
{
    for (int round = 0; round < 5; ++round) {
        test_sum(32, in_function<32>, 1 + static_cast<int>(random_source()() % 32));
        test_sum(64, in_function<64>, 1 + static_cast<int>(random_source()() % 64));
        test_sum(256, in_function<256>, 1 + static_cast<int>(random_source()() % 256));
        test_sum(1024, in_function<1024>, 1 + static_cast<int>(random_source()() % 1024));
    }
    for (int n : {1, 2, 31, 33, 64}) {
        const std::vector<float> x = numbers(n);
        buffer<float> dx(x), out(1);
        GIVES("maximum", out, *std::max_element(x.begin(), x.end()), maximum<<<1, 32>>>(dx.data, out.data, n));
    }
    std::vector<float> x = numbers(32);
    buffer<float> dx(x), out(32);
    RUN(scan<<<1, 32>>>(dx.data, out.data));
    std::partial_sum(x.begin(), x.end(), x.begin());
    expect_equal(out.read(), x, "scan of a warp");
    return 0;
}
