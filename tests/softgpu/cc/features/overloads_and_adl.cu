// Overloaded kernels and device functions, argument-dependent look-up, conversion operators, default arguments.
namespace geo
{
struct P {
    float x, y;
    __host__ __device__ explicit operator float() const
    {
        return x + y;
    }
};
__host__ __device__ inline float
norm(const P &p)
{
    return p.x * p.x + p.y * p.y;
}
} // namespace geo
__device__ float
norm(float x)
{
    return x * x;
}
__global__ void
measure(const geo::P *p, float *out, float add = 1.0f)
{
    *out = norm(p[0]) + add + static_cast<float>(p[0]);
}
__global__ void
measure(const float *p, float *out, float add = 2.0f)
{
    *out = norm(p[0]) + add;
}
int
main()
{
    geo::P *p = managed(sizeof(*p));
    float *out = managed(12);
    *p = {3, 4};
    out[2] = 5;
    measure<<<1, 1>>>(p, out);
    measure<<<1, 1>>>(out + 2, out + 1);
    cudaDeviceSynchronize();
    return out[0] == 33 && out[1] == 27 ? 0 : 1;
}
