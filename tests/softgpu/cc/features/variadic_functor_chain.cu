// A chain of functors in a tuple of the device, applied by recursion; perfect forwarding to a launch.
#include <utility>
template <class... Fs> struct Chain;
template <> struct Chain<> {
    __host__ __device__ float operator()(float x) const
    {
        return x;
    }
};
template <class F, class... Rest> struct Chain<F, Rest...> {
    F f;
    Chain<Rest...> rest;
    __host__ __device__ Chain(F first, Rest... others) : f(first), rest(others...)
    {
    }
    __host__ __device__ float operator()(float x) const
    {
        return rest(f(x));
    }
};
struct Mul {
    float a;
    __host__ __device__ float operator()(float x) const
    {
        return a * x;
    }
};
struct Add {
    float b;
    __host__ __device__ float operator()(float x) const
    {
        return x + b;
    }
};
template <class F>
__global__ void
map_kernel(float *p, int n, const F f)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        p[i] = f(p[i]);
}
template <class... A>
void
launch(dim3 g, dim3 b, void (*kernel)(A...), A... args)
{
    kernel<<<g, b>>>(std::forward<A>(args)...);
}
int
main()
{
    float *p = managed(40);
    p[9] = 5;
    const Chain<Mul, Add, Mul> chain(Mul{2}, Add{1}, Mul{10});
    map_kernel<<<1, 32>>>(p, 10, chain);
    launch(1, 32, map_kernel<Add>, p, 10, Add{0.5f});
    cudaDeviceSynchronize();
    return p[9] == 110.5f && p[0] == 10.5f && chain(5) == 110 ? 0 : 1;
}
