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
grid_stride(const double *x, double *y, unsigned n)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] * x[i] - 1.0;
}

/* AdamW as trainers write it. */
__global__ void
adam(float *w, const float *g, float *m, float *v, float lr, float b1, float b2, float eps, float decay, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float grad = g[i];
    m[i] = b1 * m[i] + (1.0f - b1) * grad;
    v[i] = b2 * v[i] + (1.0f - b2) * grad * grad;
    w[i] -= lr * (m[i] / (sqrtf(v[i]) + eps) + decay * w[i]);
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

__global__ void
counted_in_size(const float *x, float *y, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    y[i] = 2 * x[i] + i;
}

__global__ void
counted_in_unsigned(const float *x, float *y, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i] + i;
}

__global__ void
counted_in_long(const float *x, float *y, long n)
{
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i] + i;
}

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
    std::vector<float> wanted(n);
    for (int i = 0; i < n; ++i)
        wanted[i] = 2 * x[i] + static_cast<float>(i);
    buffer<float> dx(x);
    const auto expect = [&](const buffer<float> &got, const char *what) {
        finish_launch();
        expect_close(got.read(), wanted, 1e-7, what);
    };
    buffer<float> a(n), b(n), c(n), d(n), e(n), f(n);
    counted_in<int><<<grid, block>>>(dx.data, a.data, n);
    expect(a, "counted in int");
    counted_in<unsigned char><<<1, 1>>>(dx.data, b.data, 1);
    counted_in<long long><<<grid, block>>>(dx.data, b.data, n);
    expect(b, "counted in long long");
    counted_in_size<<<grid, block>>>(dx.data, c.data, n);
    expect(c, "counted in size_t");
    counted_in_unsigned<<<grid, block>>>(dx.data, d.data, n);
    expect(d, "counted in unsigned");
    counted_in_long<<<grid, block>>>(dx.data, e.data, n);
    expect(e, "counted in long");
    counted_in<size_t><<<grid, block>>>(dx.data, f.data, n);
    expect(f, "counted in a template's size_t");
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
test_adam(int n)
{
    std::vector<float> w = random_vector<float>(n), g = random_vector<float>(n), m = random_vector<float>(n),
                       v = random_vector<float>(n, 0, 1);
    buffer<float> dw(w), dg(g), dm(m), dv(v);
    RUN(adam<<<(n + 127) / 128, 128>>>(dw.data, dg.data, dm.data, dv.data, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, n));
    for (int i = 0; i < n; ++i) {
        m[i] = 0.9f * m[i] + (1.0f - 0.9f) * g[i];
        v[i] = 0.999f * v[i] + (1.0f - 0.999f) * g[i] * g[i];
        w[i] -= 1e-3f * (m[i] / (sqrtf(v[i]) + 1e-8f) + 0.01f * w[i]);
    }
    expect_close(dw.read(), w, 1e-6, "adam: weights");
    expect_close(dm.read(), m, 1e-6, "adam: first moment");
    expect_close(dv.read(), v, 1e-6, "adam: second moment");
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
    test_adam(10007);

    const std::vector<double> x = random_vector<double>(12345);
    buffer<double> dx(x), dy(x.size());
    RUN(grid_stride<<<4, 96>>>(dx.data, dy.data, x.size()));
    std::vector<double> squares(x.size());
    for (size_t i = 0; i < x.size(); ++i)
        squares[i] = x[i] * x[i] - 1.0;
    expect_close(dy.read(), squares, 1e-14, "grid stride");

    test_visits(dim3(3, 4, 5), dim3(8, 4, 2), 24, 16, 10);
    test_visits(dim3(3, 4, 5), dim3(8, 4, 2), 20, 13, 9);
    test_visits(dim3(1, 7), dim3(1, 33), 5, 300, 2);
    test_visits(dim3(2, 1, 3), dim3(5), 10, 2, 4);

    buffer<int> indices(1000);
    RUN(index_of_function<<<9, 128>>>(indices.data, 1000));
    std::vector<int> one_to_n(1000);
    for (int i = 0; i < 1000; ++i)
        one_to_n[i] = i + 1;
    expect_equal(indices.read(), one_to_n, "index taken in a function");

    buffer<int> spent(256);
    RUN(spend<<<2, 128>>>(100, spent.data, 9));
    std::vector<int> wanted(256);
    for (int i = 0; i < 256; ++i)
        wanted[i] = 100 + 9 - i % 7;
    expect_equal(spent.read(), wanted, "parameters changed by threads");
    return 0;
}
