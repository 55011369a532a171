// Bits of floating-point numbers as integers and back, halves of doubles, a fast inverse root, next numbers.
__device__ float
quake_rsqrt(float x)
{
    int i = __float_as_int(x);
    i = 0x5f3759df - (i >> 1);
    float y = __int_as_float(i);
    y = y * (1.5f - 0.5f * x * y * y);
    return y * (1.5f - 0.5f * x * y * y);
}
__global__ void
k(double *out, float one, double two)
{
    out[0] = __float_as_uint(-one) >> 31;
    out[1] = __uint_as_float(0x40490fdbu);
    out[2] = __double2hiint(two) == 0x40000000 && __double2loint(two) == 0;
    out[3] = __hiloint2double(0x3ff80000, 0);
    out[4] = __longlong_as_double(__double_as_longlong(two) + (1ll << 52));
    out[5] = fabsf(quake_rsqrt(4 * one) - 0.5f) < 1e-4f;
    out[6] = nextafterf(one, 2.0f) > one && nextafter(two, 0.0) < two;
    out[7] = signbit(-0.0f) && !isfinite(__int_as_float(0x7f800000)) && isnan(__int_as_float(0x7fffffff));
    out[8] = ilogbf(8 * one) + ldexp(two, 3) + scalbnf(one, 2);
    int exponent;
    out[9] = frexp(two * 3, &exponent) * 100 + exponent;
    float whole;
    out[10] = modff(3.25f * one, &whole) + whole * 10;
}

int
main()
{
    double *out = managed(96);
    k<<<1, 1>>>(out, 1.0f, 2.0);
    cudaDeviceSynchronize();
    const double expected[] = {1, 3.1415927410125732, 1, 1.5, 4, 1, 1, 1, 23, 78, 30.25};
    for (int i = 0; i < 11; ++i) {
        if (out[i] != expected[i])
            return i + 1;
    }
    return 0;
}
