// A sparse update: CUB's device-wide sort, scan and select in two phases, equal keys of a warp found by __match_any_sync, one atomic a leader.
#include <cmath>
#include <cstdio>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <vector>

struct is_large {
    float threshold;
    __host__ __device__ bool operator()(float x) const
    {
        return x > threshold;
    }
};

__global__ void count_rows(const int *rows, int n, int *counts)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i >= n)
        return;
    const unsigned same = __match_any_sync(active, rows[i]);
    const int leader = __ffs(same) - 1;
    if ((threadIdx.x & 31) == leader)
        atomicAdd(&counts[rows[i]], __popc(same));
}

template <class F> void two_phases(F f)
{
    void *room = nullptr;
    size_t bytes = 0;
    f(room, bytes);
    cudaMalloc(&room, bytes);
    f(room, bytes);
    cudaDeviceSynchronize();
    cudaFree(room);
}

int main()
{
    const int n = 3001, kinds = 57;
    int *rows, *sorted, *index, *order, *counts, *offsets, *kept;
    float *x, *large, *most;
    for (int **p : {&rows, &sorted, &index, &order, &counts, &offsets, &kept})
        cudaMallocManaged(p, n * sizeof(int));
    for (float **p : {&x, &large, &most})
        cudaMallocManaged(p, n * sizeof(float));
    cudaMemset(counts, 0, n * sizeof(int));
    cudaDeviceSynchronize();
    for (int i = 0; i < n; ++i) {
        rows[i] = (i * i + 3 * i) % kinds;
        index[i] = i;
        x[i] = std::sin(0.9f * i);
    }
    count_rows<<<(n + 255) / 256, 256>>>(rows, n, counts);
    two_phases([&](void *room, size_t &bytes) { cub::DeviceScan::ExclusiveSum(room, bytes, counts, offsets, kinds); });
    two_phases([&](void *room, size_t &bytes) { cub::DeviceRadixSort::SortPairs(room, bytes, rows, sorted, index, order, n); });
    two_phases([&](void *room, size_t &bytes) { cub::DeviceSelect::If(room, bytes, x, large, kept, n, is_large{0.5f}); });
    two_phases([&](void *room, size_t &bytes) { cub::DeviceReduce::Max(room, bytes, x, most, n); });

    std::vector<int> wanted(kinds);
    std::vector<float> above;
    float highest = -1;
    for (int i = 0; i < n; ++i) {
        ++wanted[rows[i]];
        if (x[i] > 0.5f)
            above.push_back(x[i]);
        highest = std::fmax(highest, x[i]);
    }
    int wrong = 0, before = 0;
    for (int r = 0; r < kinds; ++r) {
        wrong += counts[r] != wanted[r] || offsets[r] != before;
        for (int i = before; i < before + wanted[r]; ++i)
            wrong += sorted[i] != r || rows[order[i]] != r || (i > before && order[i - 1] >= order[i]);
        before += wanted[r];
    }
    wrong += *kept != int(above.size()) || *most != highest;
    for (size_t i = 0; i < above.size(); ++i)
        wrong += large[i] != above[i];
    std::printf("%d %s\n", wrong, wrong ? "wrong" : "ok");
    return wrong != 0;
}
