// The device part of a file under __CUDACC__, a host fallback beside it, and version macros.
#include <cuda.h>
#if defined(__CUDACC__) && defined(__NVCC__)
#define GLOBAL __global__
#else
#error "this is compiled as CUDA"
#endif
#if CUDART_VERSION < 11000 || CUDA_VERSION < 11000 || __CUDACC_VER_MAJOR__ < 11
#error "too old"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600
#error "atomicAdd of double"
#endif
GLOBAL void
k(double *p)
{
    atomicAdd(p, 1.0);
}

int
main()
{
    double *p = managed(8);
    k<<<2, 5>>>(p);
    cudaDeviceSynchronize();
    return *p == 10 ? 0 : 1;
}
