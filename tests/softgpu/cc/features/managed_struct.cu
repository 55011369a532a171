// A managed struct that the host and kernels change in turn, and a managed array.
struct State {
    int step;
    float loss[4];
};
__managed__ State state = {3, {}};
__device__ __managed__ int histogram[16];
__global__ void
advance()
{
    atomicAdd(&histogram[threadIdx.x % 16], 1);
    if (threadIdx.x == 0)
        state.loss[state.step % 4] = ++state.step;
}

int
main()
{
    advance<<<1, 40>>>();
    cudaDeviceSynchronize();
    state.step += 10;
    advance<<<1, 40>>>();
    cudaDeviceSynchronize();
    return state.step == 15 && histogram[0] == 6 && histogram[15] == 4 ? 0 : 1;
}
