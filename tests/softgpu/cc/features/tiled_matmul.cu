// Tiles in shared memory with sizes as macros, two-dimensional blocks, a functor for the epilogue.
#define TILE           8
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
struct Relu {
    __host__ __device__ __forceinline__ float operator()(float x) const
    {
        return x > 0.f ? x : 0.f;
    }
};
template <typename Epilogue>
__global__ void
__launch_bounds__(TILE *TILE)
    matmul(const float *A, const float *B, float *C, int M, int N, int K, Epilogue f = Epilogue())
{
    __shared__ float As[TILE][TILE + 1], Bs[TILE][TILE + 1];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = 0; t < CEIL_DIV(K, TILE); ++t) {
        As[threadIdx.y][threadIdx.x] = row < M && t * TILE + threadIdx.x < K ? A[row * K + t * TILE + threadIdx.x] : 0;
        Bs[threadIdx.y][threadIdx.x] =
            col < N && t * TILE + threadIdx.y < K ? B[(t * TILE + threadIdx.y) * N + col] : 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = f(acc);
}

int
main()
{
    const int M = 10, N = 13, K = 9;
    float *m = managed(1000 * sizeof(float));
    float *A = m, *B = m + 200, *C = m + 400;
    for (int i = 0; i < 200; ++i)
        A[i] = i % 7 - 3, B[i] = i % 5 - 2;
    matmul<Relu><<<dim3(CEIL_DIV(N, TILE), CEIL_DIV(M, TILE)), dim3(TILE, TILE)>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
    for (int i = 0; i < M * N; ++i) {
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += A[i / N * K + k] * B[k * N + i % N];
        if (C[i] != (sum > 0 ? sum : 0))
            return 1;
    }
    return 0;
}
