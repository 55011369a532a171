/*
 * bench_kernels.cu - what running kernels on the CPU costs, on one thread, without the driver: elementwise kernels
 * against plain loops, and blocks with barriers and shuffles, barriers against bare switches of as many stacks. Medians
 * of repeated pairs; prints a table, with --json one object per figure.
 */
#include <cuda_runtime.h>
#include <softgpu/stub.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

__global__ void
axpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

__global__ void
relu(int n, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = fmaxf(x[i], 0.0f);
}

__global__ void
adam(int n, float *w, const float *g, float *m, float *v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= 1e-3f * m[i] / (sqrtf(v[i]) + 1e-8f);
}

/* The same with its index from elsewhere. */
__device__ int
global_index()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

template <class T>
__device__ T
index_as()
{
    return static_cast<T>(blockIdx.x) * blockDim.x + threadIdx.x;
}

struct place {
    int i;
    __device__ place() : i(blockIdx.x * blockDim.x + threadIdx.x)
    {
    }
};

__global__ void
axpy_function(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    int i = global_index();
    if (i < n)
        y[i] = a * x[i] + y[i];
}

__global__ void
axpy_template(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    int i = index_as<int>();
    if (i < n)
        y[i] = a * x[i] + y[i];
}

__global__ void
axpy_constructor(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    const place here;
    if (here.i < n)
        y[here.i] = a * x[here.i] + y[here.i];
}

__global__ void
axpy_lambda(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    const auto index = [=] { return blockIdx.x * blockDim.x + threadIdx.x; };
    const int i = index();
    if (i < n)
        y[i] = a * x[i] + y[i];
}

struct axpy_of {
    float a;
    __device__ float operator()(float x, float y) const
    {
        return a * x + y;
    }
};

template <class F>
__global__ void
axpy_functor(int n, F f, const float *__restrict__ x, float *__restrict__ y)
{
    int i = global_index();
    if (i < n)
        y[i] = f(x[i], y[i]);
}

__global__ void
axpy_stride(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = a * x[i] + y[i];
}

__attribute__((noinline)) static void
plain_axpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    for (int i = 0; i < n; ++i)
        y[i] = a * x[i] + y[i];
}

__attribute__((noinline)) static void
plain_relu(int n, const float *__restrict__ x, float *__restrict__ y)
{
    for (int i = 0; i < n; ++i)
        y[i] = x[i] > 0 ? x[i] : 0;
}

__attribute__((noinline)) static void
plain_adam(int n, float *__restrict__ w, const float *__restrict__ g, float *__restrict__ m, float *__restrict__ v)
{
    for (int i = 0; i < n; ++i) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        w[i] -= 1e-3f * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}

__global__ void
one_barrier(const float *x, float *y)
{
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[255 - threadIdx.x];
}

__global__ void
tree(const float *x, float *y)
{
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half)
            s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0)
        *y = s[0];
}

__global__ void
shuffles(const float *x, float *y)
{
    __shared__ float s[8];
    float v = x[threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2)
        v += __shfl_xor_sync(0xffffffff, v, offset);
    for (int offset = 16; offset > 0; offset /= 2)
        v += __shfl_down_sync(0xffffffff, v, offset);
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x / 32];
}

__global__ void
nothing_waits(const float *x, float *y, int n)
{
    if (n < 0)
        __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];
}

extern "C" bool bare_switches_prepare(unsigned count);
extern "C" void bare_switches();

static bool json;

/* Of this thread's CPU: what else the machine does counts less. */
static double
seconds()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

template <class F>
static double
time_of(F f)
{
    std::vector<double> times;
    for (int round = 0; round < 21; ++round) {
        const double begin = seconds();
        for (int i = 0; i < 20; ++i)
            f();
        times.push_back((seconds() - begin) / 20);
    }
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    return times[10];
}

static void
report(const char *name, double value, const char *unit, double bar)
{
    if (json)
        std::printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"bar\": %g, \"holds\": %s}\n", name, value,
                    unit, bar, value <= bar ? "true" : "false");
    else
        std::printf("%-44s %8.3f %-16s at most %g%s\n", name, value, unit, bar, value <= bar ? "" : "  MISSED");
}

/* The median time of a(), and of its ratio to the time of b(), which runs in turn with it. */
template <class A, class B>
static double
time_against(A a, B b, double *ratio)
{
    std::vector<double> times, ratios;
    for (int round = 0; round < 101; ++round) {
        const double begin = seconds();
        a();
        const double middle = seconds();
        b();
        times.push_back(middle - begin);
        ratios.push_back((middle - begin) / (seconds() - middle));
    }
    std::nth_element(times.begin(), times.begin() + 50, times.end());
    std::nth_element(ratios.begin(), ratios.begin() + 50, ratios.end());
    *ratio = ratios[50];
    return times[50];
}

enum { BLOCKS = 100 };

/* A block of 256 threads, as many times as bare switches through 256 stacks. */
template <class... P>
static void
report_block(const char *name, double bar, void (*kernel)(P...), P... args)
{
    const softgpu_image *image = softgpu_stub_image((const void *)kernel);
    const void *pointers[] = {&args...};
    const softgpu_launch launch = {{BLOCKS, 1, 1}, {256, 1, 1}, 0, pointers, 0, BLOCKS};
    double ratio;
    const auto bare_switches_of_blocks = [] {
        for (unsigned i = 0; i < BLOCKS; ++i)
            bare_switches();
    };
    const double time = time_against([&] { image->run(&launch); }, bare_switches_of_blocks, &ratio);
    if (!json)
        std::printf("%-44s %8.3f us per block\n", name, 1e6 * time / BLOCKS);
    report(name, ratio, "x 256 switches", bar);
}

template <class... P>
static double
time_kernel(void (*kernel)(P...), unsigned grid, unsigned block, P... args)
{
    const softgpu_image *image = softgpu_stub_image((const void *)kernel);
    const void *pointers[] = {&args...};
    const softgpu_launch launch = {{grid, 1, 1}, {block, 1, 1}, 0, pointers, 0, grid};
    return time_of([&] { image->run(&launch); });
}

int
main(int argc, char **argv)
{
    json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
    const int n = 65536;
    std::vector<float> x(n, 0.5f), y(n, 0.25f), m(n, 0.1f), v(n, 0.2f);
    const float *in = x.data();
    float *out = y.data();
    if (!json)
        std::printf("one thread, %d float32 elements, blocks of 256 threads, medians of 21 rounds of 20\n", n);

    const double axpy_loop = time_of([&] { plain_axpy(n, 1e-3f, in, out); });
    report("axpy: kernel over plain loop", time_kernel(axpy, n / 256, 256, n, 1e-3f, in, out) / axpy_loop, "times", 2);
    const auto report_axpy = [&](const char *name, double time) { report(name, time / axpy_loop, "times", 2); };
    report_axpy("axpy, index from a function: over plain loop",
                time_kernel(axpy_function, n / 256, 256, n, 1e-3f, in, out));
    report_axpy("axpy, index from a template: over plain loop",
                time_kernel(axpy_template, n / 256, 256, n, 1e-3f, in, out));
    report_axpy("axpy, index from a constructor: over plain loop",
                time_kernel(axpy_constructor, n / 256, 256, n, 1e-3f, in, out));
    report_axpy("axpy, index from a lambda: over plain loop",
                time_kernel(axpy_lambda, n / 256, 256, n, 1e-3f, in, out));
    report_axpy("axpy, grid-stride loop: over plain loop", time_kernel(axpy_stride, n / 256, 256, n, 1e-3f, in, out));
    report_axpy("axpy, grid-stride loop of 16 turns: over plain loop",
                time_kernel(axpy_stride, n / 256 / 16, 256, n, 1e-3f, in, out));
    report_axpy("axpy, from a functor: over plain loop",
                time_kernel(axpy_functor<axpy_of>, n / 256, 256, n, axpy_of{1e-3f}, in, out));
    const double relu_loop = time_of([&] { plain_relu(n, in, out); });
    report("relu: kernel over plain loop", time_kernel(relu, n / 256, 256, n, in, out) / relu_loop, "times", 2);
    const double adam_loop = time_of([&] { plain_adam(n, out, in, m.data(), v.data()); });
    report("adam: kernel over plain loop", time_kernel(adam, n / 256, 256, n, out, in, m.data(), v.data()) / adam_loop,
           "times", 2);
    report("plain axpy loop", axpy_loop / n * 1e9, "ns per element", 1);

    if (!bare_switches_prepare(256))
        return 1;
    report_block("256 threads, nothing waits", 1, nothing_waits, in, out, 1);
    report_block("256 threads, one barrier", 3, one_barrier, in, out);
    report_block("256 threads, tree of nine barriers", 27, tree, in, out);
    report_block("256 threads, ten shuffles, one barrier", 16, shuffles, in, out);
    return 0;
}
