// Bounds and qualifiers of kernels that depend on template parameters, in each place where they may stand.
template <int Threads> struct policy {
    static constexpr int threads = Threads, blocks = 2;
};
template <class P>
__global__ void
__launch_bounds__(P::threads, P::blocks) k(int *x)
{
    atomicAdd(x, P::threads);
}
template <class P> __launch_bounds__(P::threads) __global__ void l(int *__restrict__ x)
{
    atomicAdd(x, 1);
}
template <int N>
__global__
__launch_bounds__(N) void m(const __grid_constant__ int add, int *x)
{
    atomicAdd(x, add);
}
template <class P> __global__ static __launch_bounds__(P::threads) void n(int *x)
{
    atomicSub(x, 1);
}

int
main()
{
    int *x = managed(4);
    k<policy<64>><<<1, policy<64>::threads>>>(x);
    l<policy<32>><<<2, 32>>>(x);
    m<16><<<1, 16>>>(10, x);
    n<policy<8>><<<1, 8>>>(x);
    cudaDeviceSynchronize();
    return *x != 64 * 64 + 64 + 160 - 8;
}
