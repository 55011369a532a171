// volatile, __restrict__, const __restrict__, __threadfence and its relatives, __ldcg, restrict with arrays.
__device__ volatile int flag;
__device__ int data;
__global__ void
publish(int *__restrict__ out, const int *const __restrict__ in)
{
    if (threadIdx.x == 0) {
        data = __ldcg(in) + __ldcs(in + 1) + __ldca(in + 2);
        __threadfence();
        flag = 1;
    }
    __threadfence_block();
    __syncthreads();
    if (threadIdx.x == 1)
        __stcg(out, flag ? data : -1);
    __threadfence_system();
}

int
main()
{
    int *m = managed(64);
    m[1] = 2, m[2] = 3, m[3] = 4;
    publish<<<1, 33>>>(m, m + 1);
    cudaDeviceSynchronize();
    return m[0] == 9 ? 0 : 1;
}
