// Pragmas of nvcc's: diagnostics by number and by name, unrolling by a constant.
#pragma nv_diag_suppress 177
#pragma nv_diag_suppress static_var_with_dynamic_init
#pragma nv_diagnostic push
#pragma nv_exec_check_disable
template <int N>
__global__ void
sum(const int *x, int *out)
{
    int unused;
    int total = 0;
#pragma unroll N / 2
    for (int i = 0; i < N; ++i)
        total += x[i];
#pragma unroll 1
    for (int i = 0; i < N; ++i)
        total += x[i];
    *out = total;
}
#pragma nv_diagnostic pop
#pragma nv_diag_default 177

int
main()
{
    int *x = managed(4 * 9);
    for (int i = 0; i < 8; ++i)
        x[i] = i;
    sum<8><<<1, 1>>>(x, x + 8);
    cudaDeviceSynchronize();
    return x[8] != 56;
}
