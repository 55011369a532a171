// Policies: templates of members with the template keyword, rebinding, inherited traits, dependent types in kernels.
template <int THREADS> struct BlockPolicy {
    static constexpr int threads = THREADS;
    template <typename T> struct Accumulator {
        T sum{};
        __device__ void put(T v)
        {
            sum += v;
        }
        template <int SCALE> __device__ T scaled() const
        {
            return sum * SCALE;
        }
    };
};
struct Wide : BlockPolicy<64> {
    using value_type = double;
};
template <typename Policy, typename In, typename Out = typename Policy::value_type>
__global__ void
__launch_bounds__(Policy::threads) accumulate(const In *in, Out *out, int per_thread)
{
    typename Policy::template Accumulator<Out> acc;
    for (int i = 0; i < per_thread; ++i)
        acc.put(static_cast<Out>(in[threadIdx.x * per_thread + i]));
    out[threadIdx.x] = acc.template scaled<3>();
}
template <typename Policy>
void
run(const int *in, typename Policy::value_type *out)
{
    accumulate<Policy><<<1, Policy::threads>>>(in, out, 2);
}

int
main()
{
    int *in = managed(512);
    double *out = managed(512);
    for (int i = 0; i < 128; ++i)
        in[i] = i;
    run<Wide>(in, out);
    cudaDeviceSynchronize();
    return out[0] == 3 && out[63] == 3 * 253 ? 0 : 1;
}
