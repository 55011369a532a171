/*
 * elementwise.cu - kernels without barriers give what a loop on the host gives, whatever the shape of grid and block:
 * every index is visited once, threads beyond the end leave early, and vectorised code computes the same bits.
 */
#include "check.h"

__global__ void
axpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

__global__ void
relu_in_place(float *x, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    x[i] = fmaxf(x[i], 0.0f);
}

__global__ void
count_visits(unsigned *visits, unsigned nx, unsigned ny, unsigned nz)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
             z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < nx && y < ny && z < nz)
        visits[(z * ny + y) * nx + x] +=
            1 + (blockIdx.x < gridDim.x && blockIdx.y < gridDim.y && blockIdx.z < gridDim.z);
}

/* The index comes from a function, which has no parameters to find it in. */
__device__ int
global_index()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ int
twice_removed()
{
    return global_index() + 1;
}

__global__ void
index_of_function(int *out, int n)
{
    if (global_index() < n)
        out[global_index()] = twice_removed();
}

/* The same element count in each type that programs have for it. */
template <class Index>
__global__ void
counted_in(const float *x, float *y, Index n)
{
    const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i] + static_cast<float>(i);
}

#define COUNTED_IN(type, index)                                         \
    __global__ void counted_in_##type(const float *x, float *y, type n) \
    {                                                                   \
        const type i = index;                                           \
        if (i < n)                                                      \
            y[i] = 2 * x[i] + i;                                        \
    }
COUNTED_IN(size_t, blockIdx.x *(size_t)blockDim.x + threadIdx.x)
COUNTED_IN(unsigned, blockIdx.x *blockDim.x + threadIdx.x)
COUNTED_IN(long, (long)blockIdx.x *blockDim.x + threadIdx.x)

/* Parameters belong to each thread: changing one changes no other thread's. */
__global__ void
spend(int n, int *out, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (steps-- > i % 7)
        ++n;
    out += i;
    *out = n;
}

static void
test_axpy(int n, int block)
{
    const std::vector<float> x = random_vector<float>(n), y = random_vector<float>(n);
    buffer<float> dx(x), dy(y);
    RUN(axpy<<<(n + block - 1) / block, block>>>(n, 1.5f, dx.data, dy.data));
    std::vector<float> wanted(n);
    for (int i = 0; i < n; ++i)
        wanted[i] = 1.5f * x[i] + y[i];
    expect_close(dy.read(), wanted, 1e-7, "axpy");
}

static void
test_counted(int n, int block)
{
    const int grid = (n + block - 1) / block;
    const std::vector<float> x = random_vector<float>(n);
    buffer<float> dx(x);
    const auto expect = [&](const char *what, auto launch) {
        buffer<float> got(n);
        RUN(launch(got.data));
        expect_close(got.read(), numbers_of<float>(n, [&](int i) { return 2 * x[i] + static_cast<float>(i); }), 1e-7,
                     what);
    };
    expect("counted in int", [&](float *y) { counted_in<int><<<grid, block>>>(dx.data, y, n); });
    expect("counted in unsigned char and long long", [&](float *y) {
        counted_in<unsigned char><<<1, 1>>>(dx.data, y, 1);
        counted_in<long long><<<grid, block>>>(dx.data, y, n);
    });
    expect("counted in size_t", [&](float *y) { counted_in_size_t<<<grid, block>>>(dx.data, y, n); });
    expect("counted in unsigned", [&](float *y) { counted_in_unsigned<<<grid, block>>>(dx.data, y, n); });
    expect("counted in long", [&](float *y) { counted_in_long<<<grid, block>>>(dx.data, y, n); });
    expect("counted in a template's size_t", [&](float *y) { counted_in<size_t><<<grid, block>>>(dx.data, y, n); });
}

static void
test_relu()
{
    std::vector<float> x = random_vector<float>(5000);
    x[17] = NAN;
    x[18] = -INFINITY;
    x[19] = INFINITY;
    buffer<float> dx(x);
    RUN(relu_in_place<<<20, 256>>>(dx.data, x.size()));
    for (float &value : x)
        value = fmaxf(value, 0.0f);
    expect_equal(dx.read(), x, "relu, NaN becomes 0");
}

static void
test_visits(dim3 grid, dim3 block, unsigned nx, unsigned ny, unsigned nz)
{
    buffer<unsigned> visits(static_cast<size_t>(nx) * ny * nz);
    RUN(count_visits<<<grid, block>>>(visits.data, nx, ny, nz));
    const unsigned cx = grid.x * block.x, cy = grid.y * block.y, cz = grid.z * block.z;
    std::vector<unsigned> wanted;
    for (unsigned z = 0; z < nz; ++z)
        for (unsigned y = 0; y < ny; ++y)
            for (unsigned x = 0; x < nx; ++x)
                wanted.push_back(x < cx && y < cy && z < cz ? 2 : 0);
    expect_equal(visits.read(), wanted, "visits");
}

int
main()
{
    for (int n : {1, 31, 32, 33, 1000, 65536, 100003})
        for (int block : {1, 32, 100, 256, 1024})
            if (n / block < 70000)
                test_axpy(n, block);
    for (int n : {1, 100, 4096, 10001})
        for (int block : {7, 64, 1024})
            test_counted(n, block);
    test_relu();
    test_visits(dim3(3, 4, 5), dim3(8, 4, 2), 24, 16, 10);
    test_visits(dim3(3, 4, 5), dim3(8, 4, 2), 20, 13, 9);
    test_visits(dim3(1, 7), dim3(1, 33), 5, 300, 2);
    test_visits(dim3(2, 1, 3), dim3(5), 10, 2, 4);

    buffer<int> indices(1000);
    RUN(index_of_function<<<9, 128>>>(indices.data, 1000));
    expect_equal(indices.read(), numbers_of<int>(1000, [&](int i) { return i + 1; }), "index taken in a function");

    buffer<int> spent(256);
    RUN(spend<<<2, 128>>>(100, spent.data, 9));
    expect_equal(spent.read(), numbers_of<int>(256, [&](int i) { return 100 + 9 - i % 7; }),
                 "parameters changed by threads");
    return 0;
}
