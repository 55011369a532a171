// Numbers of 8 bits: conversions to both formats and back, saturation, pairs.
#include <cuda_fp8.h>
__global__ void
k(const float *x, float *out)
{
    const int i = threadIdx.x;
    const __nv_fp8_e4m3 narrow(x[i]);
    const __nv_fp8_e5m2 wide(x[i]);
    out[2 * i] = static_cast<float>(narrow);
    out[2 * i + 1] = static_cast<float>(wide);
    if (i == 0) {
        const __nv_fp8x2_e4m3 pair(make_float2(1.5f, -3.0f));
        const float2 back = static_cast<float2>(pair);
        out[8] = back.x + back.y;
    }
}

int
main()
{
    float *x = managed(16), *out = managed(36);
    x[0] = 1.0625f, x[1] = 1000, x[2] = -0.40625f, x[3] = 448;
    k<<<1, 4>>>(x, out);
    cudaDeviceSynchronize();
    const float wanted[] = {1, 1, 448, 1024, -0.40625f, -0.4375f, 448, 448, -1.5f};
    for (int i = 0; i < 9; ++i) {
        if (out[i] != wanted[i] && !(i == 5 && out[i] == -0.375f))
            return i + 1;
    }
    return 0;
}
