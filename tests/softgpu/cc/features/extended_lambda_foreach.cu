// Generic loops over extended lambdas: capture by value, of a struct, in a template, with auto parameters.
template <typename F>
__global__ void
for_each_kernel(int n, F f)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        f(i);
}
template <typename F>
void
for_each(int n, F &&f)
{
    for_each_kernel<<<4, 32>>>(n, f);
}
template <typename T>
void
fill(T *p, int n, T v)
{
    for_each(n, [=] __device__(int i) { p[i] = v; });
}
struct Affine {
    float a, b;
};

int
main()
{
    float *p = managed(400);
    fill(p, 100, 2.0f);
    const Affine f{3, 4};
    for_each(100, [p, f] __device__(auto i) mutable { p[i] = f.a * p[i] + f.b + i; });
    auto op = [] __host__ __device__(float x) { return x * x; };
    for_each(100, [=] __device__(int i) { p[i] = op(p[i]); });
    cudaDeviceSynchronize();
    return p[5] == 225 && op(3) == 9 ? 0 : 1;
}
