// A cast in a list of template arguments is a constant or a type, and stays what it is; beside it, one that is held to
// the range.
#include <functional>
template <int N> struct constant {
    __host__ __device__ static int value()
    {
        return N;
    }
};
template <int A, class F> struct pair_of {
    F *function;
};
template <int Mode> struct flags {
    enum { LOW = Mode & 3 };
    __host__ __device__ int low() const
    {
        return constant<int(LOW)>::value() + constant<int(Mode)>::value();
    }
};
__device__ int
twice(float x)
{
    return int(2 * x);
}
__global__ void
k(int *out, float x)
{
    pair_of<int(sizeof(x)), int(float)> pair = {twice};
    out[0] = flags<7>().low();
    out[1] = int(x);
    out[2] = pair.function(1.5f);
    out[3] = constant<unsigned(2.5)>::value();
}

int
main()
{
    int *out = managed(16);
    k<<<1, 1>>>(out, 1e30f);
    cudaDeviceSynchronize();
    return !(out[0] == 10 && out[1] == 2147483647 && out[2] == 3 && out[3] == 2 && flags<5>().low() == 6);
}
