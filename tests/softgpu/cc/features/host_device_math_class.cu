// A class with __host__ __device__ members, operators, conversions, used on both sides; __CUDA_ARCH__ guards.
#include <cmath>
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif
template <typename T> class Complex
{
    T re_, im_;

  public:
    HD constexpr Complex(T re = 0, T im = 0) : re_(re), im_(im)
    {
    }
    HD T real() const
    {
        return re_;
    }
    HD friend Complex operator*(const Complex &a, const Complex &b)
    {
        return {a.re_ * b.re_ - a.im_ * b.im_, a.re_ * b.im_ + a.im_ * b.re_};
    }
    HD Complex &operator+=(const Complex &o)
    {
        re_ += o.re_;
        im_ += o.im_;
        return *this;
    }
    HD explicit operator bool() const
    {
        return re_ != 0 || im_ != 0;
    }
    HD T abs() const
    {
#ifdef __CUDA_ARCH__
        return hypot(re_, im_);
#else
        return std::hypot(re_, im_);
#endif
    }
};
__global__ void
k(Complex<float> *z)
{
    Complex<float> a(1, 2), b(3);
    b += a * a;
    if (b)
        z[threadIdx.x] = b;
}

int
main()
{
    Complex<float> *z = managed(sizeof(*z) * 4);
    k<<<1, 4>>>(z);
    cudaDeviceSynchronize();
    return z[3].real() == 0 && z[3].abs() == 4 ? 0 : 1;
}
