// A hash table in device memory: keys by atomicCAS of 64 bits, sums by atomicAdd, look-ups by another kernel.
struct Table {
    unsigned long long *keys;
    int *sums;
    unsigned capacity;
    static constexpr unsigned long long kEmpty = ~0ull;
    __host__ __device__ static unsigned hash(unsigned long long k)
    {
        k ^= k >> 33;
        k *= 0xff51afd7ed558ccdull;
        k ^= k >> 33;
        return static_cast<unsigned>(k);
    }
    __device__ void add(unsigned long long key, int v)
    {
        for (unsigned slot = hash(key) & (capacity - 1);; slot = (slot + 1) & (capacity - 1)) {
            const unsigned long long seen = atomicCAS(&keys[slot], kEmpty, key);
            if (seen == kEmpty || seen == key) {
                atomicAdd(&sums[slot], v);
                return;
            }
        }
    }
    __device__ int find(unsigned long long key) const
    {
        unsigned slot = hash(key) & (capacity - 1);
        while (keys[slot] != key) {
            if (keys[slot] == kEmpty)
                return -1;
            slot = (slot + 1) & (capacity - 1);
        }
        return sums[slot];
    }
};
__global__ void
insert_all(Table table, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        table.add(static_cast<unsigned long long>(i % 50) << 40, i);
}
__global__ void
find_all(const Table table, int *out)
{
    out[threadIdx.x] = table.find(static_cast<unsigned long long>(threadIdx.x) << 40);
}

int
main()
{
    Table table = {nullptr, nullptr, 128};
    cudaMalloc(&table.keys, 128 * sizeof(*table.keys));
    cudaMalloc(&table.sums, 128 * sizeof(*table.sums));
    int *out = managed(64 * sizeof(int));
    cudaMemset(table.keys, 0xff, 128 * sizeof(*table.keys));
    cudaMemset(table.sums, 0, 128 * sizeof(*table.sums));
    insert_all<<<2, 64>>>(table, 200);
    find_all<<<1, 64>>>(table, out);
    cudaDeviceSynchronize();
    return out[0] == 300 && out[49] == 49 * 4 + 300 && out[50] == -1 ? 0 : 1;
}
