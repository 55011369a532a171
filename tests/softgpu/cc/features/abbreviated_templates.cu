// flags: -std=c++20 --expt-relaxed-constexpr
// Kernels and functions with auto parameters, lambdas in template arguments, a consteval function.
consteval int
square(int n)
{
    return n * n;
}
__device__ auto
larger(auto a, auto b)
{
    return a > b ? a : b;
}
template <auto N, typename... A>
__global__ void
k(int *p, A... a)
{
    p[threadIdx.x] = larger(N, (a + ...)) + square(3);
}

int
main()
{
    int *p = managed(128);
    k<5><<<1, 2>>>(p, 1, 2L);
    k<2><<<1, 1>>>(p, 1, 2L, 'a');
    cudaDeviceSynchronize();
    return p[1] == 14 && p[0] == 109 ? 0 : 1;
}
