// Kernels with template template parameters, values of deduced type, default and trailing packs.
template <class T> struct adds {
    static __device__ T apply(T a, T b)
    {
        return a + b;
    }
};
template <class T> struct takes_larger {
    static __device__ T apply(T a, T b)
    {
        return a < b ? b : a;
    }
};
template <template <class> class Operation, class T, auto Start = 0, int... Offsets>
__global__ void
fold(const T *x, T *out)
{
    T total = Start;
    ((total = Operation<T>::apply(total, x[Offsets])), ...);
    *out = total;
}

int
main()
{
    int *x = managed(24);
    for (int i = 0; i < 4; ++i)
        x[i] = (i + 1) * (i % 2 ? -1 : 1);
    fold<adds, int, 100, 0, 1, 2, 3><<<1, 1>>>(x, x + 4);
    fold<takes_larger, int, -9, 1, 3><<<1, 1>>>(x, x + 5);
    cudaDeviceSynchronize();
    return x[4] != 98 || x[5] != -2;
}
