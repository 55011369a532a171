/*
 * check.h - for the test programs of this folder: random inputs, device buffers, comparisons that end the program.
 *
 * Plain C++ over the CUDA runtime API: a test program also compiles with nvcc.
 */
#ifndef SOFTGPU_TEST_CHECK_H
#define SOFTGPU_TEST_CHECK_H

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(condition, ...)                                                    \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            std::fprintf(stderr, __VA_ARGS__);                                   \
            std::fprintf(stderr, "\n");                                          \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

#define CUDA(call)                                                                         \
    do {                                                                                   \
        const cudaError_t cuda_error = (call);                                             \
        CHECK(cuda_error == cudaSuccess, "%s: %s", #call, cudaGetErrorString(cuda_error)); \
    } while (0)

/* After a launch: it was accepted, and it ended. */
inline void
finish_launch()
{
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
}

/* One launch, to its end. */
#define RUN(...)         \
    do {                 \
        __VA_ARGS__;     \
        finish_launch(); \
    } while (0)

/* One launch, after which the first number of the buffer `out` is the wanted one. */
#define GIVES(what, out, wanted, ...)                                                \
    do {                                                                             \
        RUN(__VA_ARGS__);                                                            \
        const auto first = (out).read()[0];                                          \
        CHECK(first == (wanted), "%s gives %.9g", what, static_cast<double>(first)); \
    } while (0)

/* A kernel of a line. */
#define KERNEL(name, parameters, ...) \
    __global__ void name parameters   \
    {                                 \
        __VA_ARGS__;                  \
    }

inline std::mt19937 &
random_source()
{
    static std::mt19937 source(20240229);
    return source;
}

template <class T>
std::vector<T>
random_vector(size_t count, double low = -1, double high = 1)
{
    std::uniform_real_distribution<double> draw(low, high);
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(draw(random_source()));
    return values;
}

/* Device memory with the contents of a host vector, or zeros; there for all streams when the constructor returns. */
template <class T> struct buffer {
    T *data = nullptr;
    size_t count;

    explicit buffer(size_t n) : count(n)
    {
        CUDA(cudaMalloc(&data, n * sizeof(T)));
        CUDA(cudaMemset(data, 0, n * sizeof(T)));
        CUDA(cudaDeviceSynchronize());
    }
    explicit buffer(const std::vector<T> &host) : count(host.size())
    {
        CUDA(cudaMalloc(&data, count * sizeof(T)));
        CUDA(cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
        CUDA(cudaDeviceSynchronize());
    }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer()
    {
        cudaFree(data);
    }
    std::vector<T> read() const
    {
        std::vector<T> host(count);
        CUDA(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

/* Number i is of(i). */
template <class T, class F>
std::vector<T>
numbers_of(size_t count, F of)
{
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(of(static_cast<int>(i)));
    return values;
}

/* From `first`, so many different ones. */
inline std::vector<int>
random_integers(size_t count, unsigned different, int first = 0)
{
    return numbers_of<int>(count, [=](int) { return static_cast<int>(random_source()() % different) + first; });
}

template <class T>
void
expect_equal(const std::vector<T> &got, const std::vector<T> &wanted, const char *what)
{
    CHECK(got.size() == wanted.size(), "%s", what);
    for (size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == wanted[i], "%s: element %zu is %.9g, not %.9g", what, i, static_cast<double>(got[i]),
              static_cast<double>(wanted[i]));
}

template <class T>
void
expect_close(const std::vector<T> &got, const std::vector<T> &wanted, double tolerance, const char *what)
{
    CHECK(got.size() == wanted.size(), "%s", what);
    for (size_t i = 0; i < got.size(); ++i) {
        const double a = static_cast<double>(got[i]), b = static_cast<double>(wanted[i]);
        CHECK(std::fabs(a - b) <= tolerance * (1 + std::fabs(b)), "%s: element %zu is %.9g, not %.9g", what, i, a, b);
    }
}

#endif
