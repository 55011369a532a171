// A sum in one launch: the block that counts last adds up what the others have written, behind a fence.
__device__ unsigned finished;
__global__ void
sum(const float *x, float *partial, float *total, int n)
{
    __shared__ float s[128];
    __shared__ bool last;
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += x[i];
    s[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half)
            s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        for (unsigned b = 0; b < gridDim.x; ++b)
            *total += static_cast<volatile float *>(partial)[b];
    }
}

int
main()
{
    const int n = 1000;
    float *x = managed(4 * n), *partial = managed(4 * 7), *total = managed(4);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<float>(i % 10);
    *total = 0;
    for (int round = 0; round < 2; ++round)
        sum<<<7, 128>>>(x, partial, total, n);
    cudaDeviceSynchronize();
    return *total != 9000;
}
