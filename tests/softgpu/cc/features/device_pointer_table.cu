// Device variables that point: to another one, to a buffer whose address the host writes, to functions by number.
typedef float (*activation)(float);
__device__ float
twice(float x)
{
    return 2 * x;
}
__device__ float
half_of(float x)
{
    return x / 2;
}
__device__ activation activations[] = {twice, half_of};
__device__ int counters[4] = {1, 2, 3};
__device__ int *counter = &counters[2];
__device__ float *workspace;
__global__ void
k(int which)
{
    workspace[threadIdx.x] = activations[which](threadIdx.x) + *counter;
}

int
main()
{
    float *buffer = managed(32);
    cudaMemcpyToSymbol(workspace, &buffer, sizeof(buffer));
    k<<<1, 8>>>(1);
    cudaDeviceSynchronize();
    if (buffer[6] != 6)
        return 1;
    activation host;
    cudaMemcpyFromSymbol(&host, activations, sizeof(activation));
    k<<<1, 8>>>(0);
    cudaDeviceSynchronize();
    return buffer[6] == 15 ? 0 : 2;
}
