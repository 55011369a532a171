// Marks of NVTX and the profiler's start and stop, which change nothing.
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
__global__ void
k(int *x)
{
    *x += 1;
}
struct range {
    explicit range(const char *name)
    {
        nvtxRangePushA(name);
    }
    ~range()
    {
        nvtxRangePop();
    }
};

int
main()
{
    int *x = managed(4);
    cudaProfilerStart();
    {
        range step("step");
        nvtxMarkA("launch");
        k<<<1, 1>>>(x);
    }
    cudaProfilerStop();
    return cudaDeviceSynchronize() != cudaSuccess || *x != 1;
}
