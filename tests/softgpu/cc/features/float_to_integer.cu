// Conversions to integers are held to the range of the type, and NaN gives 0: by casts of every form and declarations.
#include <climits>
#include <cmath>
#include <cstdint>
template <class T>
__global__ void
convert(const float *x, const double *d, T *out)
{
    const int i = threadIdx.x;
    T *o = out + i * 10;
    o[0] = (int)x[i];
    o[1] = int(x[i]);
    o[2] = static_cast<int>(d[i]);
    int one = x[i] * 1.0f, two = d[i] + 0.0;
    o[3] = one;
    o[4] = two;
    o[5] = (T)(float)(unsigned)x[i] == 0;
    o[6] = static_cast<T>(x[i]);
    o[7] = (unsigned char)x[i];
    o[8] = (int64_t)x[i] == LLONG_MAX;
    o[9] = T(x[i]) | (int)-0.5;
}
int
main()
{
    const float values[] = {NAN, INFINITY, -3e9f, -2.7f, 300.5f};
    const int wanted[][10] = {{0, 0, INT_MIN, 0, INT_MIN, 1, 0, 0, 0, 0},
                              {INT_MAX, INT_MAX, INT_MAX, INT_MAX, INT_MAX, 0, INT_MAX, 255, 1, INT_MAX},
                              {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, 1, INT_MIN, 0, 0, INT_MIN},
                              {-2, -2, -2, -2, -2, 1, -2, 0, 0, -2},
                              {300, 300, 300, 300, 300, 0, 300, 44, 0, 300}};
    int *o, failed = 0;
    float *x = managed(64);
    double *d = managed(64);
    cudaMallocManaged(&o, sizeof(wanted));
    for (int i = 0; i < 5; ++i)
        d[i] = x[i] = values[i];
    convert<<<1, 5>>>(x, d, o);
    cudaDeviceSynchronize();
    for (int i = 0; i < 50; ++i)
        failed += o[i] != wanted[i / 10][i % 10] ? 1 + i : 0;
    return failed;
}
