/*
 * shared_memory.cu - __shared__ variables of every form are one per block, aligned, apart from each other, and the same
 * memory in functions and lambdas that name them.
 */
#include "check.h"

#include <cstdint>

/* ---- several declarations, types, scopes ---- */

struct pair_of {
    double value;
    int index;
};

template <class T, int N>
__global__ void
many(const T *x, T *out, unsigned long long *addresses)
{
    __shared__ T first[N], *where;
    __shared__ volatile int flag;
    __shared__ __align__(64) char aligned_by_macro[3];
    alignas(32) __shared__ unsigned char aligned_by_keyword[5];
    static __shared__ pair_of pairs[N];
    __shared__ float4 vectors[2];
    __shared__ T table[4][N / 4];
    const int t = threadIdx.x;
    first[t] = x[t];
    pairs[t].value = static_cast<double>(x[t]) * 2;
    pairs[t].index = t;
    table[t % 4][t / 4] = x[t] * T(3);
    if (t == 0) {
        where = first;
        flag = 77;
        vectors[0] = make_float4(1, 2, 3, 4);
        vectors[1] = make_float4(5, 6, 7, 8);
        aligned_by_macro[0] = 'm';
        aligned_by_keyword[4] = 'k';
    }
    __syncthreads();
    if (t % 2) {
        __shared__ T in_block;
        in_block = x[N - 1];
        __syncwarp(0xaaaaaaaa);
        out[t] = in_block;
    } else {
        __shared__ T in_block[2];
        in_block[1] = x[0];
        __syncwarp(0x55555555);
        out[t] = in_block[1];
    }
    __syncthreads();
    out[t] +=
        where[N - 1 - t] + T(pairs[(t + 1) % N].value) + table[3][0] + T(flag) + T(vectors[1].w) + T(pairs[t].index);
    if (t == 0) {
        addresses[0] = (uintptr_t)aligned_by_macro % 64;
        addresses[1] = (uintptr_t)aligned_by_keyword % 32;
        addresses[2] = (uintptr_t)vectors % 16;
        addresses[3] = sizeof(first) == N * sizeof(T) && sizeof(table[0]) == N / 4 * sizeof(T);
        addresses[4] = aligned_by_macro[0] == 'm' && aligned_by_keyword[4] == 'k';
    }
}

template <class T>
static void
test_many()
{
    const int n = 64;
    std::vector<T> x(n), wanted(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<T>(random_source()() % 50);
    for (int t = 0; t < n; ++t)
        wanted[t] =
            (t % 2 ? x[n - 1] : x[0]) + x[n - 1 - t] + T(2 * x[(t + 1) % n]) + T(3) * x[3] + T(77) + T(8) + T(t);
    buffer<T> dx(x), out(n);
    buffer<unsigned long long> addresses(5);
    RUN(many<T, 64><<<1, n>>>(dx.data, out.data, addresses.data));
    expect_equal(out.read(), wanted, "many shared variables");
    expect_equal(addresses.read(), {0, 0, 0, 1, 1}, "alignment and size");
}

/* ---- in functions: one per function, not per call ---- */

__device__ int
exchange(int mine)
{
    __shared__ int slots[128];
    slots[threadIdx.x] = mine;
    __syncthreads();
    const int got = slots[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    return got;
}

template <class T>
__device__ T
broadcast(T mine, unsigned from)
{
    __shared__ T slot;
    if (threadIdx.x == from)
        slot = mine;
    __syncthreads();
    T got = slot;
    __syncthreads();
    return got;
}

__global__ void
through_functions(int *out)
{
    __shared__ int own[128];
    own[threadIdx.x] = 1000 + threadIdx.x;
    __syncthreads();
    const int a = exchange(threadIdx.x);
    const double b = broadcast<double>(threadIdx.x * 0.5, 6);
    const int c = broadcast<int>(threadIdx.x * 10, 2);
    out[blockIdx.x * blockDim.x + threadIdx.x] =
        a + static_cast<int>(b * 100) + c + own[(threadIdx.x + 1) % blockDim.x];
}

/* ---- dynamic ---- */

extern __shared__ float at_file_scope[];

__global__ void
dynamic_at_file_scope(float *out)
{
    at_file_scope[threadIdx.x] = threadIdx.x * 2.0f;
    __syncthreads();
    out[threadIdx.x] = at_file_scope[blockDim.x - 1 - threadIdx.x];
}

template <class T>
__global__ void
dynamic_split(T *out, int n)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    T *a = reinterpret_cast<T *>(bytes);
    float *b = (float *)(a + n);
    a[threadIdx.x] = T(threadIdx.x);
    b[threadIdx.x] = threadIdx.x + 0.5f;
    __syncthreads();
    out[threadIdx.x] = a[(threadIdx.x + 1) % n] + T(2 * b[(threadIdx.x + 2) % n]);
}

__global__ void
dynamic_rows(int *out)
{
    extern __shared__ int rows[][8];
    rows[threadIdx.x / 8][threadIdx.x % 8] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = rows[threadIdx.x % 8][threadIdx.x / 8];
}

__global__ void
dynamic_pointers(int *out, int *a, int *b)
{
    extern __shared__ int *pointers[];
    if (threadIdx.x == 0) {
        pointers[0] = a;
        pointers[1] = b;
    }
    __syncthreads();
    out[threadIdx.x] = *pointers[threadIdx.x % 2];
}

/* ---- lambdas: shared variables need no capture in CUDA ---- */

__global__ void
in_lambdas(int *out)
{
    __shared__ int total, cells[32];
    extern __shared__ int more[];
    const int t = threadIdx.x;
    cells[t] = 0;
    more[t] = 0;
    if (t == 0)
        total = 0;
    __syncthreads();
    auto by_copy = [=](int v) {
        cells[t] = v;
        more[t] = v;
    };
    auto by_nothing = [](int i) { return cells[i] + more[i]; };
    auto by_name = [t](int v) { atomicAdd(&total, v + cells[t] * 0); };
    by_copy(t * 7);
    __syncthreads();
    by_name(by_nothing((t + 1) % 32));
    __syncthreads();
    auto by_reference = [&]() { return total; };
    out[t] = by_reference();
}

int
main()
{
    test_many<int>();
    test_many<float>();
    test_many<double>();
    test_many<unsigned long long>();

    buffer<int> out(256);
    RUN(through_functions<<<2, 128>>>(out.data));
    expect_equal(out.read(),
                 numbers_of<int>(256, [&](int i) { return 127 - i % 128 + 300 + 20 + 1000 + (i % 128 + 1) % 128; }),
                 "shared variables of functions");

    buffer<float> reversed(100);
    RUN(dynamic_at_file_scope<<<1, 100, 100 * sizeof(float)>>>(reversed.data));
    expect_equal(reversed.read(), numbers_of<float>(100, [&](int i) { return 2.0f * (99 - i); }),
                 "dynamic, at file scope");

    buffer<double> split(60);
    RUN(dynamic_split<double><<<1, 60, 60 * (sizeof(double) + sizeof(float))>>>(split.data, 60));
    expect_equal(split.read(), numbers_of<double>(60, [&](int i) { return (i + 1) % 60 + 2 * ((i + 2) % 60) + 1; }),
                 "dynamic, split by hand");

    buffer<int> rows(64);
    RUN(dynamic_rows<<<1, 64, 64 * sizeof(int)>>>(rows.data));
    expect_equal(rows.read(), numbers_of<int>(64, [&](int i) { return i % 8 * 8 + i / 8; }), "dynamic, in rows");

    buffer<int> a(std::vector<int>(1, 5)), b(std::vector<int>(1, 6)), picked(4);
    RUN(dynamic_pointers<<<1, 4, 2 * sizeof(int *)>>>(picked.data, a.data, b.data));
    expect_equal(picked.read(), {5, 6, 5, 6}, "dynamic, of pointers");

    buffer<int> totals(32);
    RUN(in_lambdas<<<1, 32, 32 * sizeof(int)>>>(totals.data));
    expect_equal(totals.read(), std::vector<int>(32, 2 * 7 * 31 * 16), "shared variables in lambdas");
    return 0;
}
