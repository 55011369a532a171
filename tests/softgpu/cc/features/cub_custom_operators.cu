// CUB's collectives with operators of the user's, part of a block, tiles of 16, structures.
#include <cub/cub.cuh>
struct best {
    float value;
    int index;
};
struct larger {
    __device__ best operator()(const best &a, const best &b) const
    {
        return b.value > a.value ? b : a;
    }
};
__global__ void
k(const float *x, int *out, int n)
{
    typedef cub::BlockReduce<best, 64> blocks;
    typedef cub::WarpReduce<float, 16> tiles;
    __shared__ typename blocks::TempStorage space;
    __shared__ typename tiles::TempStorage tile_space[4];
    const int t = threadIdx.x;
    const best winner = blocks(space).Reduce(best{t < n ? x[t] : -1, t}, larger(), n);
    const float sum = tiles(tile_space[t / 16]).Sum(x[t]);
    if (t == 0)
        out[0] = winner.index;
    if (t % 16 == 0)
        out[1 + t / 16] = static_cast<int>(sum);
}

int
main()
{
    float *x = managed(256), sums[4] = {};
    int *out = managed(20), wanted = 0;
    for (int i = 0; i < 64; ++i) {
        x[i] = static_cast<float>(i * 37 % 64), sums[i / 16] += x[i];
        if (i < 50 && x[i] > x[wanted])
            wanted = i;
    }
    k<<<1, 64>>>(x, out, 50);
    cudaDeviceSynchronize();
    return out[0] != wanted || out[1] != static_cast<int>(sums[0]) || out[4] != static_cast<int>(sums[3]);
}
