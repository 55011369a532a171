// Kernels as template arguments: by type and value, by auto, launched by a wrapper that deduces the arguments.
#include <utility>
__global__ void
scale(float *p, float by)
{
    p[threadIdx.x] *= by;
}
template <typename T>
__global__ void
shift(T *p, T by)
{
    p[threadIdx.x] += by;
}
template <void (*Kernel)(float *, float)>
void
launch_typed(float *p, float v)
{
    Kernel<<<1, 4>>>(p, v);
}
template <auto Kernel, typename... Args>
void
launch_auto(dim3 grid, dim3 block, Args &&...args)
{
    Kernel<<<grid, block>>>(std::forward<Args>(args)...);
}
template <typename... Params, typename... Args>
cudaError_t
launch_deduced(void (*kernel)(Params...), unsigned threads, Args... args)
{
    kernel<<<1, threads>>>(Params(args)...);
    return cudaGetLastError();
}

int
main()
{
    float *p = managed(16);
    for (int i = 0; i < 4; ++i)
        p[i] = i;
    launch_typed<scale>(p, 2);
    launch_typed<shift<float>>(p, 1);
    launch_auto<&scale>(1, 4, p, 10.0f);
    launch_auto<shift<float>>(dim3(1), dim3(2), p, 0.5f);
    if (launch_deduced(scale, 4, p, 2) != cudaSuccess)
        return 1;
    cudaDeviceSynchronize();
    return p[0] == 21 && p[1] == 61 && p[3] == 140 ? 0 : 2;
}
