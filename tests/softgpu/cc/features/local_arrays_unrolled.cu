// Register tiles: local arrays, #pragma unroll with a number and a macro, constexpr sizes, asm-free prefetch.
#define UNROLL _Pragma("unroll")
template <int TM, int TN>
__global__ void
outer(const float *a, const float *b, float *c)
{
    float ra[TM], rb[TN], acc[TM][TN] = {{0.0f}};
#pragma unroll 4
    for (int i = 0; i < TM; ++i)
        ra[i] = a[i];
    UNROLL for (int j = 0; j < TN; ++j) rb[j] = b[j];
#pragma unroll TM
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j)
            acc[i][j] = fmaf(ra[i], rb[j], acc[i][j]);
    }
    for (int i = 0; i < TM; ++i)
#pragma nounroll
        for (int j = 0; j < TN; ++j)
            c[i * TN + j] = acc[i][j];
}

int
main()
{
    float *m = managed(400);
    for (int i = 0; i < 20; ++i)
        m[i] = i;
    outer<4, 8><<<1, 1>>>(m, m + 10, m + 20);
    cudaDeviceSynchronize();
    return m[20 + 3 * 8 + 7] == 3 * 17 ? 0 : 1;
}
