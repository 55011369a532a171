// Lambdas inside kernels: captures by reference and value, recursion by parameter, generic, returned, with defaults.
__device__ auto
make_adder(int n)
{
    return [n](int x) { return x + n; };
}
template <class F>
__device__ int
apply_twice(F f, int x)
{
    return f(f(x));
}
__global__ void
k(int *out)
{
    int total = 0;
    auto add = [&](int v) { total += v; };
    auto fib = [](auto self, int n) -> int { return n < 2 ? n : self(self, n - 1) + self(self, n - 2); };
    add(fib(fib, 10));
    add(apply_twice(make_adder(3), 1));
    const int lane = threadIdx.x;
    auto with_index = [=](int scale = 2) { return scale * lane; };
    out[lane] = total + with_index() + [](int a, int b) { return a * b; }(2, 3);
}
int
main()
{
    int *out = managed(128);
    k<<<1, 32>>>(out);
    cudaDeviceSynchronize();
    return out[31] == 55 + 7 + 62 + 6 ? 0 : 1;
}
