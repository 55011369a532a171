// Kernels launched by class templates with nested types, types of a trait, a static constexpr member as the block's
// size.
template <typename T> struct Traits {
    using acc_t = double;
    static constexpr int kThreads = 64;
    struct Params {
        const T *in;
        acc_t *out;
        int n;
    };
};
template <typename T, typename P>
__global__ void
run(const P p)
{
    typename Traits<T>::acc_t sum = 0;
    for (int i = threadIdx.x; i < p.n; i += Traits<T>::kThreads)
        sum += p.in[i];
    atomicAdd(p.out, sum);
}
template <typename T> struct Op {
    static cudaError_t launch(typename Traits<T>::Params p)
    {
        run<T, typename Traits<T>::Params><<<1, Traits<T>::kThreads>>>(p);
        return cudaGetLastError();
    }
};

int
main()
{
    float *in = managed(400);
    double *out = managed(8);
    for (int i = 0; i < 100; ++i)
        in[i] = i;
    if (Op<float>::launch({in, out, 100}) != cudaSuccess)
        return 1;
    cudaDeviceSynchronize();
    return *out == 4950 ? 0 : 2;
}
