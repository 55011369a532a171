// Grid strides in three dimensions, 64-bit indices, macros for the loop.
#define CUDA_KERNEL_LOOP(i, n) \
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < (n); i += (long)blockDim.x * gridDim.x)
#define CUDA_1D_KERNEL_LOOP_T(i, n, index_t)                               \
    int64_t _i_n_d_e_x = ((int64_t)blockIdx.x) * blockDim.x + threadIdx.x; \
    for (index_t i = _i_n_d_e_x; _i_n_d_e_x < (n); _i_n_d_e_x += blockDim.x * gridDim.x, i = _i_n_d_e_x)
__global__ void
volume(int *v, int nx, int ny, int nz)
{
    for (int z = blockIdx.z * blockDim.z + threadIdx.z; z < nz; z += blockDim.z * gridDim.z)
        for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < ny; y += blockDim.y * gridDim.y)
            for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < nx; x += blockDim.x * gridDim.x)
                v[(z * ny + y) * nx + x] += x + 10 * y + 100 * z;
}
__global__ void
loops(long n, int *v)
{
    CUDA_KERNEL_LOOP(i, n)
    {
        v[i] += 1;
    }
    CUDA_1D_KERNEL_LOOP_T(i, n, int)
    {
        v[i] += 1;
    }
}

int
main()
{
    int *v = managed(7 * 5 * 3 * 4);
    volume<<<dim3(2, 2, 2), dim3(2, 2, 1)>>>(v, 7, 5, 3);
    loops<<<2, 8>>>(105, v);
    cudaDeviceSynchronize();
    return v[104] == 6 + 40 + 200 + 2 && v[36] == 1 + 0 + 100 + 2 ? 0 : 1;
}
