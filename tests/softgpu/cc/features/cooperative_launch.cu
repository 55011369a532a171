// cudaLaunchCooperativeKernel of a kernel that asks for its grid; blocks that wait for a count of the others do so by
// launches.
#include <cooperative_groups.h>
__global__ void
k(int *x)
{
    const auto grid = cooperative_groups::this_grid();
    const auto block = cooperative_groups::this_thread_block();
    x[grid.thread_rank()] = static_cast<int>(grid.size() * 100 + block.group_index().x);
}

int
main()
{
    int *x = managed(4 * 64), blocks = 0;
    void *arguments[] = {&x};
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 32, 0);
    const cudaError_t code =
        cudaLaunchCooperativeKernel(reinterpret_cast<void *>(k), dim3(2), dim3(32), arguments, 0, nullptr);
    if (code != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess || blocks < 1)
        return 1;
    return x[0] != 6400 || x[63] != 6401;
}
