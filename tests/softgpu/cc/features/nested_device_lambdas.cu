// Lambdas in lambdas: an extended one that makes others, passes them on by reference, returns them, composes them.
template <typename F>
__global__ void
launch(F f, int *out)
{
    out[threadIdx.x] = f(static_cast<int>(threadIdx.x));
}
template <typename F>
__host__ __device__ int
apply_twice(const F &f, int x)
{
    return f(f(x));
}

int
main()
{
    int *out = managed(64);
    const int base = 7;
    launch<<<1, 16>>>(
        [=] __device__(int i) {
            int calls = 0;
            const auto add = [&calls, base](int x) {
                ++calls;
                return x + base;
            };
            auto make = [](int factor) { return [factor](int x) { return x * factor; }; };
            const auto &reference = add;
            return apply_twice(reference, i) + make(10)(apply_twice(make(2), 1)) + 1000 * calls;
        },
        out);
    cudaDeviceSynchronize();
    const bool ok = out[0] == 2054 && out[5] == 2059;
    const auto plus = [] __host__ __device__(int x) { return x + 1; };
    const auto twice = [] __host__ __device__(int x) { return 2 * x; };
    const auto twice_plus = [=] __host__ __device__(int x) { return plus(twice(x)); };
    launch<<<1, 16>>>(twice_plus, out);
    cudaDeviceSynchronize();
    return ok && out[6] == 13 && twice_plus(6) == 13 ? 0 : 1;
}
