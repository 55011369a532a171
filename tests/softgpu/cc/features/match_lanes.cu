// __match_any_sync and __match_all_sync: groups of equal keys, a leader for each, one atomic for a group.
__global__ void
count_keys(const int *keys, int *counts, unsigned *masks, int *all)
{
    const int key = keys[threadIdx.x];
    const unsigned peers = __match_any_sync(0xffffffffu, key);
    const int leader = __ffs(peers) - 1;
    if (static_cast<int>(threadIdx.x) == leader)
        atomicAdd(&counts[key], __popc(peers));
    masks[threadIdx.x] = peers;
    int same;
    const unsigned mask = __match_all_sync(0xffffffffu, 7ull, &same);
    all[0] = same && mask == 0xffffffffu;
    __match_all_sync(0xffffffffu, key, &same);
    all[1] = same;
}

int
main()
{
    int *keys = managed(128);
    int *counts = managed(16);
    int *all = managed(8);
    unsigned *masks = managed(128);
    cudaMemset(counts, 0, 16);
    for (int i = 0; i < 32; ++i)
        keys[i] = i < 4 ? 3 : i % 3;
    count_keys<<<1, 32>>>(keys, counts, masks, all);
    cudaDeviceSynchronize();
    if (masks[1] != 0xfu || counts[3] != 4 || counts[0] + counts[1] + counts[2] != 28)
        return 1;
    return all[0] == 1 && all[1] == 0 ? 0 : 2;
}
