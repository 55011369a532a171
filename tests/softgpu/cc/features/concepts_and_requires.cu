// flags: -std=c++20 --expt-relaxed-constexpr
// Concepts for kernels and device functions, requires clauses, designated initialisers, constinit, template lambdas.
#include <concepts>
#include <span>
template <typename T>
concept Number = std::integral<T> || std::floating_point<T>;
template <Number T>
__global__ void
twice(T *p)
{
    p[threadIdx.x] *= 2;
}
template <typename T>
requires std::integral<T> __device__ T
next(T v)
{
    return v + 1;
}
template <typename T>
requires(sizeof(T) == 4) __global__ void advance(T *p)
{
    p[threadIdx.x] = next(p[threadIdx.x]);
}
struct Config {
    int blocks = 1, threads = 32;
    bool sync{};
};
void
launch(std::span<int> data, const Config &config)
{
    twice<<<config.blocks, config.threads>>>(data.data());
    advance<int><<<config.blocks, config.threads>>>(data.data());
}

int
main()
{
    int *p = managed(128);
    p[31] = 20;
    launch({p, 32}, {.blocks = 1, .threads = 32});
    cudaDeviceSynchronize();
    return p[31] == 41 ? 0 : 1;
}
