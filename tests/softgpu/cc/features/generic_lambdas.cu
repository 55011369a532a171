// Device lambdas with init captures, arrays in captures, mutable ones, generic ones called with two types.
template <class F>
__global__ void
each(int n, F f)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        f(i);
}

int
main()
{
    float *x = managed(40);
    int *y = managed(40);
    const float weights[3] = {1, 2, 4};
    const int shift = 3;
    each<<<1, 32>>>(10, [=] __device__(int i) { x[i] = weights[i % 3]; });
    each<<<2, 5>>>(10, [y, twice = shift * 2] __device__(int i) mutable {
        twice += i;
        y[i] = twice;
    });
    each<<<1, 10>>>(10, [x, y] __device__(int i) {
        const auto add = [](auto a, auto b) { return a + b; };
        x[i] = add(x[i], 0.5f);
        y[i] = add(y[i], i);
    });
    cudaDeviceSynchronize();
    for (int i = 0; i < 10; ++i) {
        if (x[i] != weights[i % 3] + 0.5f || y[i] != 6 + 2 * i)
            return 1;
    }
    return 0;
}
