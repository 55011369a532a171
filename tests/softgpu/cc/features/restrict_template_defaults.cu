// Template parameters with defaults, template templates, explicit instantiations and specialisations of kernels.
template <typename T> struct Plus {
    static __device__ T run(T a, T b)
    {
        return a + b;
    }
};
template <typename T, template <typename> class Op = Plus, bool Twice = false>
__global__ void
k(T *p, T v)
{
    p[0] = Op<T>::run(p[0], Twice ? v + v : v);
}
template <>
__global__ void
k<int, Plus, true>(int *p, int v)
{
    p[0] += 1000 * v;
}
template __global__ void k<double, Plus, true>(double *, double);
extern template __global__ void k<short, Plus, false>(short *, short);
template __global__ void k<short, Plus, false>(short *, short);
int
main()
{
    int *i = managed(4);
    double *d = managed(8);
    short *s = managed(2);
    k<<<1, 1>>>(i, 1);
    k<int, Plus, true><<<1, 1>>>(i, 2);
    k<double, Plus, true><<<1, 1>>>(d, 1.5);
    k<short><<<1, 1>>>(s, short(3));
    cudaDeviceSynchronize();
    return *i == 2001 && *d == 3 && *s == 3 ? 0 : 1;
}
