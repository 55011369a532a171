// Template arguments that are values: enumerators, booleans, characters, functions, addresses, auto.
enum class Mode { Add, Multiply };
__device__ float
half_of(float x)
{
    return x / 2;
}
__device__ float
third_of(float x)
{
    return x / 3;
}
template <Mode M, bool NEGATE, char TAG>
__global__ void
combine(float *p, float v)
{
    float r = M == Mode::Add ? p[threadIdx.x] + v : p[threadIdx.x] * v;
    p[threadIdx.x] = (NEGATE ? -r : r) + (TAG == 'x' ? 100 : 0);
}
template <float (*F)(float)>
__global__ void
apply(float *p)
{
    p[threadIdx.x] = F(p[threadIdx.x]);
}
template <auto N, unsigned long long SHIFT = (1ull << 33)>
__global__ void
value(long long *out)
{
    *out = N + static_cast<long long>(SHIFT >> 32);
}

int
main()
{
    float *p = managed(16);
    long long *out = managed(8);
    for (int i = 0; i < 4; ++i)
        p[i] = i;
    combine<Mode::Add, true, 'y'><<<1, 4>>>(p, 3);
    combine<Mode::Multiply, false, 'x'><<<1, 4>>>(p, 2);
    apply<half_of><<<1, 4>>>(p);
    apply<&third_of><<<1, 4>>>(p);
    value<-5><<<1, 1>>>(out);
    cudaDeviceSynchronize();
    const bool ok = *out == -3;
    value<5u, (8 > 4)><<<1, 1>>>(out);
    cudaDeviceSynchronize();
    return ok && *out == 5 && p[0] == (94.0f / 2) / 3 && p[3] == (88.0f / 2) / 3 ? 0 : 1;
}
