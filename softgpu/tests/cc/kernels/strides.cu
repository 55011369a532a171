/*
 * strides.cu - grid-stride loops give what a loop on the host gives, whatever the grid, the type that counts and the
 * form of the loop: also those which carry something from turn to turn, which run as they stand.
 */
#include "check.h"

#define GRID_INDEX  blockIdx.x *blockDim.x + threadIdx.x
#define GRID_STRIDE blockDim.x *gridDim.x
#define EACH(i, n)  for (int i = GRID_INDEX; i < (n); i += GRID_STRIDE)

struct arguments {
    const float *in;
    float *out;
    float scale;
};

__global__ void
in_for(const float *x, float *y, int n)
{
    EACH(i, n)
    y[i] += 2 * x[i];
}

__global__ void
with_continue(const float *x, float *y, int n)
{
    EACH(i, n)
    {
        if (x[i] < 0)
            continue;
        y[i] += 2 * x[i];
    }
}

__global__ void
in_while(const float *x, float *y, unsigned n)
{
    unsigned i = GRID_INDEX;
    const unsigned stride = GRID_STRIDE;
    while (i < n) {
        y[i] += 2 * x[i];
        i += stride;
    }
}

__global__ void
up_to_and_with(const float *x, float *y, long last)
{
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i <= last; i = i + (long)gridDim.x * blockDim.x)
        y[i] += 2 * x[i];
}

__global__ void
of_a_struct(arguments a, size_t n)
{
    if (n == 0)
        return;
    size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x;
    for (; i < n; i += GRID_STRIDE)
        a.out[i] += a.scale * a.in[i];
}

template <class T>
__global__ void
of_a_template(const T *x, T *y, int n)
{
    EACH(i, n)
    {
        T sum = 0;
        for (int k = 0; k < 2; ++k)
            sum += x[i];
        y[i] += sum;
    }
}

/* Turns that depend on the ones before. */
__global__ void
running_sum(const float *x, float *y, int n)
{
    float sum = 0;
    EACH(i, n)
    {
        sum += x[i];
        y[i] += sum;
    }
}

__global__ void
until_negative(const float *x, float *y, int n)
{
    EACH(i, n)
    {
        if (x[i] < 0)
            break;
        y[i] += 2 * x[i];
    }
}

__global__ void
fewer_each_turn(const float *x, float *y, int n)
{
    EACH(i, n)
    y[i] += 2 * x[i] + (n -= 5);
}

__global__ void
some_threads(const float *x, float *y, int n)
{
    if (threadIdx.x % 2 == 0)
        return;
    EACH(i, n)
    y[i] += 2 * x[i];
}

__global__ void
with_block(const float *x, float *y, int n)
{
    EACH(i, n)
    y[i] += 2 * x[i] + blockIdx.x;
}

__global__ void
reduction(const float *x, float *sum, int n)
{
    float mine = 0;
    EACH(i, n)
    mine += x[i];
    atomicAdd(sum, mine);
}

/* What `turn` does to element i, by thread, in the order of the turns. */
template <class F>
static std::vector<float>
model(const std::vector<float> &x, const std::vector<float> &y, unsigned grid, unsigned block, F thread)
{
    std::vector<float> wanted = y;
    for (unsigned b = 0; b < grid; ++b)
        for (unsigned t = 0; t < block; ++t)
            thread(x, wanted, b, t, b * block + t, grid * block);
    return wanted;
}

static void
test(int n, unsigned grid, unsigned block)
{
    const std::vector<float> x = random_vector<float>(n), y = random_vector<float>(n);
    const buffer<float> dx(x);
    typedef std::vector<float> v;
    const auto expect = [&](const v &wanted, const char *what,
                            void (*launch)(dim3, dim3, const float *, float *, int)) {
        buffer<float> dy(y);
        launch(dim3(grid), dim3(block), dx.data, dy.data, n);
        finish_launch();
        expect_close(dy.read(), wanted, 1e-6, what);
    };
    const v doubled = model(x, y, 1, n, [](const v &a, v &b, unsigned, unsigned, int i, int) { b[i] += 2 * a[i]; });
#define LAUNCH(...) [](dim3 g, dim3 b, const float *in, float *out, int count) { __VA_ARGS__; }
    expect(doubled, "for", LAUNCH((in_for<<<g, b>>>(in, out, count))));
    expect(doubled, "for, of blocks in two dimensions",
           LAUNCH((in_for<<<dim3(g.x, 1), dim3(b.x, 1)>>>(in, out, count))));
    expect(doubled, "while", LAUNCH((in_while<<<g, b>>>(in, out, count))));
    expect(doubled, "i <= last", LAUNCH((up_to_and_with<<<g, b>>>(in, out, count - 1))));
    expect(doubled, "struct", LAUNCH((of_a_struct<<<g, b>>>(arguments{in, out, 2.0f}, count))));
    expect(doubled, "template", LAUNCH((of_a_template<float><<<g, b>>>(in, out, count))));
    expect(model(x, y, 1, n, [](const v &a, v &b, unsigned, unsigned, int i, int) { b[i] += a[i] < 0 ? 0 : 2 * a[i]; }),
           "continue", LAUNCH((with_continue<<<g, b>>>(in, out, count))));
    expect(model(x, y, grid, block,
                 [](const v &a, v &b, unsigned, unsigned, int i, int step) {
                     float sum = 0;
                     for (; i < static_cast<int>(a.size()); i += step)
                         b[i] += sum += a[i];
                 }),
           "running sum", LAUNCH((running_sum<<<g, b>>>(in, out, count))));
    expect(model(x, y, grid, block,
                 [](const v &a, v &b, unsigned, unsigned, int i, int step) {
                     for (; i < static_cast<int>(a.size()) && a[i] >= 0; i += step)
                         b[i] += 2 * a[i];
                 }),
           "break", LAUNCH((until_negative<<<g, b>>>(in, out, count))));
    expect(model(x, y, grid, block,
                 [](const v &a, v &b, unsigned, unsigned, int i, int step) {
                     for (int left = static_cast<int>(a.size()); i < left; i += step)
                         b[i] += 2 * a[i] + (left -= 5);
                 }),
           "limit that changes", LAUNCH((fewer_each_turn<<<g, b>>>(in, out, count))));
    expect(model(x, y, grid, block,
                 [](const v &a, v &b, unsigned, unsigned t, int i, int step) {
                     for (; t % 2 != 0 && i < static_cast<int>(a.size()); i += step)
                         b[i] += 2 * a[i];
                 }),
           "some threads", LAUNCH((some_threads<<<g, b>>>(in, out, count))));
    expect(model(x, y, grid, block,
                 [](const v &a, v &b, unsigned block_index, unsigned, int i, int step) {
                     for (; i < static_cast<int>(a.size()); i += step)
                         b[i] += 2 * a[i] + block_index;
                 }),
           "blockIdx", LAUNCH((with_block<<<g, b>>>(in, out, count))));

    buffer<float> sum(1);
    RUN(reduction<<<grid, block>>>(dx.data, sum.data, n));
    double wanted = 0;
    for (float value : x)
        wanted += value;
    CHECK(std::fabs(sum.read()[0] - wanted) < 1e-4 * n, "sum %g, not %g", sum.read()[0], wanted);
}

int
main()
{
    for (int n : {1, 31, 1000, 4097})
        for (unsigned grid : {1u, 3u, 16u, 40u})
            for (unsigned block : {1u, 32u, 100u, 256u})
                test(n, grid, block);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* there it takes a quarter of a minute */
    /* Another turn would leave 31 bits: 2^30 threads, of which few have anything to do. */
    const std::vector<float> x = random_vector<float>(777);
    buffer<float> dx(x), dy(x.size());
    RUN(in_for<<<(1 << 20) + 1, 1024>>>(dx.data, dy.data, 777));
    expect_equal(dy.read(), numbers_of<float>(x.size(), [&](int i) { return 2 * x[i]; }), "a grid of 2^30 threads");
#endif
    return 0;
}
