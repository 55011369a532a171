// #pragma unroll with constants, template parameters and expressions, before every kind of loop; diagnostics by number
// and by name, and an assumption.
#pragma nv_diag_suppress static_var_with_dynamic_init
#pragma nv_diagnostic push
#pragma nv_exec_check_disable
template <int N>
__device__ int
unrolled(const int *p)
{
    int sum = 0;
#pragma unroll N
    for (int i = 0; i < N; ++i)
        sum += p[i];
#pragma unroll(N * 2 + 1)
    for (int i = 0; i < 2 * N; i += 2)
        sum += p[i % N];
    return sum;
}
__global__ void
k(const int *p, int *out, int n)
{
    constexpr int kStep = 2;
    __builtin_assume(n > 0);
    int sum = unrolled<4>(p);
#pragma unroll 1
    for (int i = 0; i < n; ++i)
        sum += p[i];
#pragma unroll 4
    while (n > 0)
        sum += --n;
    int left = 3;
#pragma unroll kStep + 1
    do {
        sum += 100;
    } while (--left > 0);
#pragma nv_diag_suppress 177
    int never_used;
#pragma nounroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
        for (int j = 0; j < 3; ++j)
            sum += i * j;
    }
    *out = sum;
}
#pragma nv_diagnostic pop
#pragma nv_diag_default 177

int
main()
{
    int *p = managed(32);
    int *out = managed(4);
    for (int i = 0; i < 8; ++i)
        p[i] = i;
    k<<<1, 1>>>(p, out, 8);
    cudaDeviceSynchronize();
    return *out == 6 + 4 + 28 + 28 + 300 + 9 ? 0 : 1;
}
