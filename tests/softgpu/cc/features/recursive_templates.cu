// Recursion of templates: an unrolled loop, a compile-time tree reduction, lists of types, partial specialisation.
template <int N> struct Unroll {
    template <typename F> __device__ static void run(F &&f)
    {
        Unroll<N - 1>::run(f);
        f(N - 1);
    }
};
template <> struct Unroll<0> {
    template <typename F> __device__ static void run(F &&)
    {
    }
};
template <int N, typename T> struct Tree {
    __device__ static T sum(const T *p)
    {
        return Tree<N / 2, T>::sum(p) + Tree<N - N / 2, T>::sum(p + N / 2);
    }
};
template <typename T> struct Tree<1, T> {
    __device__ static T sum(const T *p)
    {
        return *p;
    }
};
template <typename... T> struct Bytes;
template <> struct Bytes<> {
    static constexpr int value = 0;
};
template <typename H, typename... T> struct Bytes<H, T...> {
    static constexpr int value = sizeof(H) + Bytes<T...>::value;
};
template <unsigned N>
__device__ unsigned
factorial()
{
    if constexpr (N < 2)
        return 1;
    else
        return N * factorial<N - 1>();
}
__global__ void
k(const float *in, float *out)
{
    float products[4];
    Unroll<4>::run([&](int i) { products[i] = in[i] * i; });
    out[0] = Tree<4, float>::sum(products);
    out[1] = Tree<7, float>::sum(in);
    out[2] = Bytes<char, short, double, float3>::value;
    out[3] = factorial<5>();
}

int
main()
{
    float *in = managed(32);
    float *out = managed(16);
    for (int i = 0; i < 8; ++i)
        in[i] = i + 1;
    k<<<1, 1>>>(in, out);
    cudaDeviceSynchronize();
    return out[0] == 20 && out[1] == 28 && out[2] == 23 && out[3] == 120 ? 0 : 1;
}
