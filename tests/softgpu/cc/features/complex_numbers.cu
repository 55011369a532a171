// cuComplex's types and functions in kernels, FFT-like butterflies with __sincosf.
#include <cmath>
#include <cuComplex.h>
__global__ void
dft(const cuFloatComplex *x, cuFloatComplex *y, int n)
{
    const int k = threadIdx.x;
    cuFloatComplex sum = make_cuFloatComplex(0, 0);
    for (int i = 0; i < n; ++i) {
        float s, c;
        __sincosf(-2.0f * 3.14159265f * i * k / n, &s, &c);
        sum = cuCaddf(sum, cuCmulf(x[i], make_cuComplex(c, s)));
    }
    y[k] = sum;
}
int
main()
{
    cuDoubleComplex z = cuCmul(make_cuDoubleComplex(0, 1), make_cuDoubleComplex(0, 1));
    cuFloatComplex *x = managed(16 * sizeof(*x));
    for (int i = 0; i < 8; ++i)
        x[i] = make_cuFloatComplex(1, 0);
    dft<<<1, 8>>>(x, x + 8, 8);
    cudaDeviceSynchronize();
    return std::fabs(cuCrealf(x[8]) - 8) < 1e-4f && cuCabsf(x[11]) < 1e-4f && cuCreal(z) == -1 ? 0 : 1;
}
