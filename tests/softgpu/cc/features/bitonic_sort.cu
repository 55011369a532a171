// A bitonic sort in shared memory, of keys with values, for any comparison; a sort of rows with a block each.
#include <algorithm>
#include <vector>
template <typename T>
__device__ inline void
exchange(T &a, T &b)
{
    T t = a;
    a = b;
    b = t;
}
template <unsigned N, typename Less>
__global__ void
sort_rows(float *keys, short *values, Less less)
{
    __shared__ float k[N];
    __shared__ short v[N];
    const unsigned t = threadIdx.x, base = blockIdx.x * N;
    for (unsigned i = t; i < N; i += blockDim.x)
        k[i] = keys[base + i], v[i] = values[base + i];
    for (unsigned size = 2; size <= N; size <<= 1) {
        for (unsigned stride = size >> 1; stride > 0; stride >>= 1) {
            __syncthreads();
            const unsigned i = 2 * t - (t & (stride - 1));
            if (less(k[i + stride], k[i]) == ((i & size) == 0)) {
                exchange(k[i], k[i + stride]);
                exchange(v[i], v[i + stride]);
            }
        }
    }
    __syncthreads();
    for (unsigned i = t; i < N; i += blockDim.x)
        keys[base + i] = k[i], values[base + i] = v[i];
}
struct Descending {
    __device__ bool operator()(float a, float b) const
    {
        return a > b;
    }
};

int
main()
{
    float *keys = managed(128 * sizeof(float));
    short *values = managed(128 * sizeof(short));
    for (int i = 0; i < 128; ++i)
        keys[i] = (i * 37 + 11) % 128, values[i] = i;
    std::vector<float> expected(keys, keys + 64);
    std::sort(expected.rbegin(), expected.rend());
    sort_rows<64><<<2, 32>>>(keys, values, Descending());
    cudaDeviceSynchronize();
    for (int i = 0; i < 128; ++i) {
        if ((i < 64 && keys[i] != expected[i]) || (values[i] * 37 + 11) % 128 != keys[i] || values[i] / 64 != i / 64)
            return i + 1;
    }
    return 0;
}
