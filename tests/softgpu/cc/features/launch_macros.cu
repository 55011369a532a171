// Launches by macros: template arguments with commas, variadic arguments, a block of statements, pasted names, dim3
// braces.
#define LAUNCH(kernel, grid, block, ...)                \
    do {                                                \
        kernel<<<(grid), (block), 0, 0>>>(__VA_ARGS__); \
        if (cudaGetLastError() != cudaSuccess)          \
            return 9;                                   \
    } while (0)
#define CONFIG(n)          ((n) + 31) / 32, 32
#define KERNEL(name)       name##_kernel
#define CALL(name, n, ...) KERNEL(name)<<<CONFIG(n)>>>(__VA_ARGS__)
#define ARGS(...)          (__VA_ARGS__)
#define RUN(k, cfg, args)  k<<<cfg>>> args
#define PAIR               1, 4
template <typename A, typename B>
__global__ void
convert(const A *in, B *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x + threadIdx.y;
    if (i < n)
        out[i] = B(in[i]) + 1;
}
__global__ void
KERNEL(twice)(float *p)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
}

int
main()
{
    int *in = managed(256);
    float *out = managed(256);
    for (int i = 0; i < 64; ++i)
        in[i] = i;
    LAUNCH((convert<int, float>), 2, 32, in, out, 64);
    CALL(twice, 64, out);
    RUN(KERNEL(twice), PAIR, (out));
    cudaDeviceSynchronize();
    const bool ok = out[0] == 4 && out[10] == 22 && out[63] == 128;
    LAUNCH((convert<int, float>), (dim3{2, 1}), (dim3{32, 1, 1}), in, out, 64);
    RUN((convert<int, float>), PAIR, ARGS(in + 1, out, 4));
    cudaDeviceSynchronize();
    return ok && out[0] == 2 && out[63] == 64 ? 0 : 1;
}
