// Headers of intrinsics that old programs include.
#include <common_functions.h>
#include <crt/device_functions.h>
#include <crt/math_functions.h>
#include <cuda_runtime.h>
#include <device_atomic_functions.h>
#include <device_functions.h>
#include <device_launch_parameters.h>
#include <math_constants.h>
#include <math_functions.h>
#include <sm_20_atomic_functions.h>
#include <sm_60_atomic_functions.h>
__global__ void
k(float *p)
{
    p[0] = expf(0.0f);
    p[1] = __expf(0.0f) + __int_as_float(0x3f800000);
    p[2] = CUDART_INF_F;
    atomicAdd(p + 3, rsqrtf(4.0f));
}

int
main()
{
    float *p = managed(16);
    p[3] = 1;
    k<<<1, 1>>>(p);
    cudaDeviceSynchronize();
    return p[0] == 1 && p[1] == 2 && p[2] > 1e38f && p[3] == 1.5f ? 0 : 1;
}
