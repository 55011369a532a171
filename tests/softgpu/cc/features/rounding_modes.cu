// Arithmetic and conversions that round down, up and to zero by name: neighbours around what the exact value is nearest
// to.
#include <cmath>
__global__ void
k(float *f, double *d, float a, float b, float c, double x, double y)
{
    f[0] = __fmaf_rd(a, b, c), f[1] = __fmaf_ru(a, b, c), f[2] = __fmaf_rz(a, b, c);
    f[3] = __fadd_ru(1.0f, 1e-10f), f[4] = __fadd_rz(1.0f, 1e-10f), f[5] = __fdiv_rd(1.0f, 3.0f);
    f[6] = __frcp_ru(3.0f), f[7] = __fsqrt_rd(2.0f), f[8] = __int2float_ru(16777217), f[9] = __double2float_rz(0.1);
    d[0] = __dadd_rd(x, y), d[1] = __dadd_ru(x, y), d[2] = __fma_ru(x, x, y), d[3] = __dmul_rd(x + 0.1, -1.1);
}

int
main()
{
    float *f = managed(64);
    double *d = managed(64);
    k<<<1, 1>>>(f, d, 1.1f, -2.3f, 0.7f, 1.0, 3.0e-17);
    cudaDeviceSynchronize();
    const float sum = static_cast<float>(static_cast<double>(1.1f) * -2.3f + 0.7f); /* the nearest, which is below */
    const bool fine = f[0] == sum && f[1] == nextafterf(sum, 0.0f) && f[2] == f[1] && f[3] == nextafterf(1.0f, 2.0f) &&
                      f[4] == 1.0f && f[5] < 1.0f / 3.0f && f[6] == 1.0f / 3.0f &&
                      static_cast<double>(f[7]) * f[7] < 2 && f[8] == 16777218.0f && f[9] < 0.1f && d[0] == 1.0 &&
                      d[1] == nextafter(1.0, 2.0) && d[2] == d[1] && d[3] <= -1.21 + 1e-15 && 1.0 + 3.0e-17 == 1.0;
    return !fine;
}
