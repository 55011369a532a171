// flags: -lcublas -lcurand
// The generator on the host in a class: a seed, uniform and normal numbers, an offset, a stream, moments of the sample.
#include <cmath>
#include <curand.h>
#include <stdexcept>
class Generator
{
    curandGenerator_t generator_ = nullptr;
    static void check(curandStatus_t status)
    {
        if (status != CURAND_STATUS_SUCCESS)
            throw std::runtime_error("curand");
    }

  public:
    explicit Generator(unsigned long long seed, cudaStream_t stream = nullptr)
    {
        check(curandCreateGenerator(&generator_, CURAND_RNG_PSEUDO_PHILOX4_32_10));
        check(curandSetPseudoRandomGeneratorSeed(generator_, seed));
        check(curandSetStream(generator_, stream));
    }
    ~Generator()
    {
        curandDestroyGenerator(generator_);
    }
    void uniform(float *p, size_t n)
    {
        check(curandGenerateUniform(generator_, p, n));
    }
    void normal(float *p, size_t n)
    {
        check(curandGenerateNormal(generator_, p, n, 3.0f, 2.0f));
    }
};
__global__ void
moments(const float *p, int n, double *out)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        atomicAdd(&out[0], double(p[i]));
        atomicAdd(&out[1], double(p[i]) * p[i]);
    }
}

int
main()
{
    const int n = 20000;
    float *a = managed(n * sizeof(float));
    float *b = managed(n * sizeof(float));
    double *m = managed(32);
    cudaMemset(m, 0, 32);
    Generator one(1234), same(1234);
    one.uniform(a, n);
    same.uniform(b, n);
    moments<<<1, 32>>>(a, n, m);
    cudaDeviceSynchronize();
    const bool ok = a[0] == b[0] && a[n - 1] == b[n - 1] && a[5] > 0 && a[5] <= 1 && fabs(m[0] / n - 0.5) < 0.02;
    one.normal(a, n);
    moments<<<1, 32>>>(a, n, m + 2);
    cudaDeviceSynchronize();
    const double mean = m[2] / n;
    return ok && fabs(mean - 3) < 0.1 && fabs(m[3] / n - mean * mean - 4) < 0.3 ? 0 : 1;
}
