// A launch for each block size, in a switch; the size is a template argument, which unrolls a reduction.
template <unsigned blockSize>
__device__ void
warp_reduce(volatile int *s, unsigned t)
{
    if (blockSize >= 64)
        s[t] += s[t + 32];
    if (blockSize >= 32)
        s[t] += s[t + 16];
    if (blockSize >= 16)
        s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
}
template <unsigned blockSize>
__global__ void
reduce(const int *in, int *out, unsigned n)
{
    extern __shared__ int sdata[];
    unsigned tid = threadIdx.x, i = blockIdx.x * blockSize * 2 + tid;
    sdata[tid] = 0;
    while (i < n) {
        sdata[tid] += in[i] + (i + blockSize < n ? in[i + blockSize] : 0);
        i += blockSize * 2 * gridDim.x;
    }
    __syncthreads();
    if (blockSize >= 128) {
        if (tid < 64)
            sdata[tid] += sdata[tid + 64];
        __syncthreads();
    }
    if (tid < 32)
        warp_reduce<blockSize>(sdata, tid);
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}

int
main()
{
    int *in, *out, sum = 0;
    cudaMallocManaged(&in, 1000 * sizeof(int));
    cudaMallocManaged(&out, 4 * sizeof(int));
    for (int i = 0; i < 1000; ++i)
        in[i] = i;
    for (unsigned threads = 64; threads <= 128; threads *= 2) {
        switch (threads) {
        case 64:
            reduce<64><<<4, threads, threads * 2 * sizeof(int)>>>(in, out, 1000);
            break;
        case 128:
            reduce<128><<<4, threads, threads * 2 * sizeof(int)>>>(in, out, 1000);
            break;
        }
        cudaDeviceSynchronize();
        for (int b = 0; b < 4; ++b)
            sum += out[b];
    }
    return sum == 2 * 499500 ? 0 : 1;
}
