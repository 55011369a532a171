/*
 * lockstep.cu - reductions that count on the threads of a warp running alike, as they are written all over: with a
 * volatile pointer and no __syncwarp. They give the sum, in each form.
 */
#include "check.h"

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
    std::vector<float> values(n);
    for (float &value : values)
        value = static_cast<float>(random_source()() % 1000);
    return values;
}

static void
test_sum(unsigned block, int n)
{
    const std::vector<float> x = numbers(n);
    buffer<float> dx(x), out(1), other(1);
    float sum = 0;
    for (float value : x)
        sum += value;
    switch (block) {
    case 32:
        in_function<32><<<1, 32>>>(dx.data, out.data, n);
        break;
    case 64:
        in_function<64><<<1, 64>>>(dx.data, out.data, n);
        break;
    case 256:
        in_function<256><<<1, 256>>>(dx.data, out.data, n);
        break;
    default:
        in_function<1024><<<1, 1024>>>(dx.data, out.data, n);
    }
    finish_launch();
    expect_equal(out.read(), std::vector<float>{sum}, "sum in a function");
    if (block < 64)
        return;
    RUN(with_register<<<1, block, block * sizeof(float)>>>(dx.data, other.data, n));
    expect_equal(other.read(), std::vector<float>{sum}, "sum with a register");
}

int
main()
{
    for (unsigned block : {32u, 64u, 256u, 1024u})
        for (int round = 0; round < 5; ++round)
            test_sum(block, 1 + static_cast<int>(random_source()() % block));
    for (int n : {1, 2, 31, 33, 64}) {
        const std::vector<float> x = numbers(n);
        buffer<float> dx(x), out(1);
        RUN(maximum<<<1, 32>>>(dx.data, out.data, n));
        float most = 0;
        for (float value : x)
            most = std::max(most, value);
        expect_equal(out.read(), std::vector<float>{most}, "maximum");
    }
    std::vector<float> x = numbers(32);
    buffer<float> dx(x), out(32);
    RUN(scan<<<1, 32>>>(dx.data, out.data));
    for (int i = 1; i < 32; ++i)
        x[i] += x[i - 1];
    expect_equal(out.read(), x, "scan of a warp");
    return 0;
}
