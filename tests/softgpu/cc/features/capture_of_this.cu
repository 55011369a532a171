// flags: -std=c++20 --expt-relaxed-constexpr
// Extended lambdas of member functions: *this by copy, structs and arrays by capture, initialised captures.
struct Settings {
    float gain[2];
    int shift;
};
template <typename F>
__global__ void
each(int n, F f)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        f(i);
}
class Amplifier
{
    Settings settings_;
    float offset_ = 0.5f;

  public:
    explicit Amplifier(Settings s) : settings_(s)
    {
    }
    __host__ __device__ float apply(float x, int i) const
    {
        return x * settings_.gain[i % 2] + offset_;
    }
    void run(float *p, int n) const
    {
        each<<<2, 16>>>(n, [=, *this] __device__(int i) { p[i] = apply(p[i], i + settings_.shift); });
    }
    void shift(float *p, int n)
    {
        const float table[3] = {10, 20, 30};
        each<<<2, 16>>>(
            n, [p, table, self = *this, by = 2 * n] __device__(int i) { p[i] += table[i % 3] + self.offset_ + by; });
        offset_ = 100;
    }
};

int
main()
{
    float *p = managed(128);
    for (int i = 0; i < 32; ++i)
        p[i] = i;
    Amplifier amplifier({.gain = {2, 3}, .shift = 1});
    amplifier.run(p, 32);
    amplifier.shift(p, 30);
    cudaDeviceSynchronize();
    return p[0] == 70.5f + 0.5f && p[1] == 2.5f + 80.5f && p[31] == 62.5f ? 0 : 1;
}
