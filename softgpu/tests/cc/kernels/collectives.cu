/*
 * collectives.cu - CUB's collectives give what a loop on the host gives: reductions and scans of blocks and warps of
 * every size, with operations that do not commute, items of any size, several items for a thread, parts of a block,
 * segments, prefixes; loads and stores in each arrangement.
 */
#include "check.h"

#include <cub/cub.cuh>
#include <cuda_fp16.h>

#include <algorithm>
#include <numeric>
#include <string>

/* Affine maps x -> a x + b modulo 2^64, under composition: associative, does not commute, more than a word. */
struct affine {
    unsigned long long a, b;
    unsigned tag[6]; /* 40 bytes: more than lanes exchange by shuffles */
};

static bool
operator==(const affine &x, const affine &y)
{
    return x.a == y.a && x.b == y.b;
}

struct compose {
    __host__ __device__ affine operator()(const affine &x, const affine &y) const
    {
        affine both = {y.a * x.a, y.a * x.b + y.b, {0, 0, 0, 0, 0, 0}};
        return both;
    }
};

static std::vector<affine>
random_maps(int n)
{
    std::vector<affine> maps(n);
    for (affine &map : maps)
        map = {random_source()() | 1ull, random_source()(), {1, 2, 3, 4, 5, 6}};
    return maps;
}

/* ---- blocks ---- */

template <int X, int Y, int Z, cub::BlockReduceAlgorithm Algorithm>
__global__ void
reduce_block(const affine *maps, const int *x, affine *composed, int *sums, int *largest, int valid)
{
    typedef cub::BlockReduce<affine, X, Algorithm, Y, Z> Maps;
    typedef cub::BlockReduce<int, X, Algorithm, Y, Z> Integers;
    __shared__ union {
        typename Maps::TempStorage maps;
        typename Integers::TempStorage integers;
    } temp;
    const int t = threadIdx.x + X * (threadIdx.y + Y * threadIdx.z), i = blockIdx.x * X * Y * Z + t;
    const affine all = Maps(temp.maps).Reduce(maps[i], compose());
    __syncthreads();
    const int sum = Integers(temp.integers).Sum(x[i]);
    __syncthreads();
    const int part = Integers(temp.integers).Sum(x[i], valid);
    __syncthreads();
    const int most = Integers(temp.integers)
                         .Reduce(
                             x[i], [](int a, int b) { return a > b ? a : b; }, valid);
    if (t == 0) {
        composed[blockIdx.x] = all;
        sums[2 * blockIdx.x] = sum;
        sums[2 * blockIdx.x + 1] = part;
        largest[blockIdx.x] = most;
    }
}

template <int X, int Y, int Z, cub::BlockReduceAlgorithm Algorithm>
static void
test_reduce_block()
{
    const int threads = X * Y * Z, blocks = 3;
    for (int valid : {1, threads / 2 + 1, threads}) {
        const std::vector<affine> maps = random_maps(blocks * threads);
        const std::vector<int> x = random_integers(blocks * threads, 2001, -1000);
        buffer<affine> dmaps(maps), composed(blocks);
        buffer<int> dx(x), sums(2 * blocks), largest(blocks);
        RUN(reduce_block<X, Y, Z, Algorithm>
            <<<blocks, dim3(X, Y, Z)>>>(dmaps.data, dx.data, composed.data, sums.data, largest.data, valid));
        std::vector<int> wanted_sums, wanted_largest;
        for (int b = 0; b < blocks; ++b) {
            const int *first = &x[b * threads];
            affine all = maps[b * threads];
            for (int t = 1; t < threads; ++t)
                all = compose()(all, maps[b * threads + t]);
            CHECK(composed.read()[b] == all, "composition of %d threads", threads);
            wanted_sums.push_back(std::accumulate(first, first + threads, 0));
            wanted_sums.push_back(std::accumulate(first, first + valid, 0));
            wanted_largest.push_back(*std::max_element(first, first + valid));
        }
        expect_equal(sums.read(), wanted_sums, "sums");
        expect_equal(largest.read(), wanted_largest, "largest");
    }
}

/* The storage that a collective brings itself; items in an array; half numbers; cub's operations under other names. */
using namespace cub;
typedef BlockReduce<float, 64> Floats;

__device__ float
reduce_in_a_function(float x)
{
    return Floats().Reduce(x, Max());
}

__global__ void
own_storage(const float *x, float *out)
{
    float items[3];
    for (int k = 0; k < 3; ++k)
        items[k] = x[3 * threadIdx.x + k];
    const float sum = Floats().Sum(items);
    __syncthreads();
    const float largest = reduce_in_a_function(items[1]);
    typedef cub::BlockReduce<KeyValuePair<int, float>, 64> Pairs;
    __shared__ typename Pairs::TempStorage temp;
    const KeyValuePair<int, float> least =
        Pairs(temp).Reduce(KeyValuePair<int, float>(threadIdx.x, items[2]), ArgMin());
    __half h = __float2half(1.0f);
    h = cub::BlockReduce<__half, 64>().Sum(h);
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = largest;
        out[2] = least.key;
        out[3] = least.value;
        out[4] = __half2float(h);
    }
}

static void
test_own_storage()
{
    const std::vector<float> x = random_vector<float>(3 * 64);
    buffer<float> dx(x), out(5);
    RUN(own_storage<<<1, 64>>>(dx.data, out.data));
    std::vector<float> wanted(5), middle, last;
    for (int t = 0; t < 64; ++t) {
        middle.push_back(x[3 * t + 1]);
        last.push_back(x[3 * t + 2]);
    }
    wanted[0] = std::accumulate(x.begin(), x.end(), 0.0f);
    wanted[1] = *std::max_element(middle.begin(), middle.end());
    wanted[2] = std::min_element(last.begin(), last.end()) - last.begin();
    wanted[3] = *std::min_element(last.begin(), last.end());
    wanted[4] = 64;
    expect_close(out.read(), wanted, 1e-5, "own storage");
}

/* ---- scans of blocks ---- */

struct running_total {
    int total;
    __device__ int operator()(int aggregate)
    {
        const int before = total;
        total += aggregate;
        return before;
    }
};

template <int Threads, cub::BlockScanAlgorithm Algorithm>
__global__ void
scan_block(const int *x, const affine *maps, int *out, affine *composed)
{
    typedef cub::BlockScan<int, Threads, Algorithm> Scan;
    typedef cub::BlockScan<affine, Threads, Algorithm> Maps;
    __shared__ typename Scan::TempStorage temp;
    __shared__ typename Maps::TempStorage maps_temp;
    const int t = threadIdx.x;
    int *mine = out + 10 * t;
    Scan(temp).InclusiveSum(x[t], mine[0], mine[1]);
    __syncthreads();
    Scan(temp).ExclusiveSum(x[t], mine[2], mine[3]);
    __syncthreads();
    Scan(temp).InclusiveScan(x[t], mine[4], [](int a, int b) { return a > b ? a : b; });
    __syncthreads();
    Scan(temp).ExclusiveScan(x[t], mine[5], -5000, cub::Max(), mine[6]);
    running_total prefix = {100};
    __syncthreads();
    Scan(temp).ExclusiveSum(x[t], mine[7], prefix);
    __syncthreads();
    Scan(temp).InclusiveSum(x[t], mine[8], prefix);
    mine[9] = t < 32 ? prefix.total : 0;
    Maps(maps_temp).InclusiveScan(maps[t], composed[2 * t], compose());
    __syncthreads();
    const affine identity = {1, 0, {0, 0, 0, 0, 0, 0}};
    Maps(maps_temp).ExclusiveScan(maps[t], composed[2 * t + 1], identity, compose());
}

template <int Threads, cub::BlockScanAlgorithm Algorithm>
static void
test_scan_block()
{
    const std::vector<int> x = random_integers(Threads, 2001, -1000);
    const std::vector<affine> maps = random_maps(Threads);
    buffer<int> dx(x), out(10 * Threads);
    buffer<affine> dmaps(maps), composed(2 * Threads);
    RUN(scan_block<Threads, Algorithm><<<1, Threads>>>(dx.data, dmaps.data, out.data, composed.data));
    const int total = std::accumulate(x.begin(), x.end(), 0), most = *std::max_element(x.begin(), x.end());
    std::vector<int> wanted;
    int sum = 0, largest = -5000;
    affine map = {1, 0, {0, 0, 0, 0, 0, 0}};
    const std::vector<affine> got = composed.read();
    for (int t = 0; t < Threads; ++t) {
        const int before = sum, largest_before = largest;
        CHECK(got[2 * t + 1] == map, "exclusive composition at %d of %d", t, Threads);
        sum += x[t];
        largest = std::max(largest, x[t]);
        map = compose()(map, maps[t]);
        CHECK(got[2 * t] == map, "inclusive composition at %d of %d", t, Threads);
        for (int value : {sum, total, before, total, largest, largest_before, most, 100 + before, 100 + total + sum,
                          t < 32 ? 100 + 2 * total : 0})
            wanted.push_back(value);
    }
    expect_equal(out.read(), wanted, "scans of a block");
}

/* Several items for each thread, loaded and stored in every arrangement, of which a part is valid. */
template <int Threads, int Items, cub::BlockLoadAlgorithm In, cub::BlockStoreAlgorithm Out>
__global__ void
scan_items(const int *x, int *inclusive, int *exclusive, int *aggregate, int valid)
{
    typedef cub::BlockLoad<int, Threads, Items, In> Load;
    typedef cub::BlockStore<int, Threads, Items, Out> Store;
    typedef cub::BlockScan<int, Threads> Scan;
    __shared__ typename Load::TempStorage load_temp;
    __shared__ typename Store::TempStorage store_temp;
    __shared__ typename Scan::TempStorage scan_temp;
    int items[Items], sums[Items];
    Load(load_temp).Load(x, items, valid, 0);
    __syncthreads();
    Scan(scan_temp).InclusiveSum(items, sums, aggregate[0]);
    __syncthreads();
    Store(store_temp).Store(inclusive, sums, valid);
    Scan(scan_temp).ExclusiveScan(items, items, 7, cub::Sum(), aggregate[1]);
    __syncthreads();
    Store(store_temp).Store(exclusive, items, valid);
}

template <int Threads, int Items, cub::BlockLoadAlgorithm In, cub::BlockStoreAlgorithm Out>
static void
test_scan_items()
{
    const int n = Threads * Items;
    for (int valid : {1, n / 2 + 1, n}) {
        const std::vector<int> x = random_integers(n, 2001, -1000);
        buffer<int> dx(x), inclusive(n), exclusive(n), aggregate(2);
        RUN(scan_items<Threads, Items, In, Out>
            <<<1, Threads>>>(dx.data, inclusive.data, exclusive.data, aggregate.data, valid));
        /* In which order the items are added depends on the arrangement in which they were loaded. */
        std::vector<int> order(n), wanted_inclusive(n), wanted_exclusive(n);
        for (int t = 0; t < Threads; ++t) {
            for (int i = 0; i < Items; ++i)
                order[t * Items + i] = In == cub::BLOCK_LOAD_STRIPED ? i * Threads + t : t * Items + i;
        }
        int sum = 0;
        for (int place : order) {
            const int item = place < valid ? x[place] : 0;
            if (place < valid)
                wanted_exclusive[place] = 7 + sum;
            sum += item;
            if (place < valid)
                wanted_inclusive[place] = sum;
        }
        expect_equal(inclusive.read(), wanted_inclusive, "items, inclusive");
        expect_equal(exclusive.read(), wanted_exclusive, "items, exclusive");
        expect_equal(aggregate.read(), std::vector<int>(2, sum), "items, aggregate");
    }
}

/* ---- warps ---- */

template <int Width>
__global__ void
warps(const int *x, const affine *maps, int *out, affine *composed, int valid, unsigned heads)
{
    typedef cub::WarpReduce<int, Width> Reduce;
    typedef cub::WarpReduce<affine, Width> Maps;
    typedef cub::WarpScan<int, Width> Scan;
    __shared__ typename Reduce::TempStorage temp[96 / Width];
    __shared__ typename Maps::TempStorage maps_temp[96 / Width];
    __shared__ typename Scan::TempStorage scan_temp[96 / Width];
    const int t = threadIdx.x, w = t / Width, lane = t % Width;
    int *mine = out + 12 * t;
    mine[0] = Reduce(temp[w]).Sum(x[t]);
    mine[1] = Reduce(temp[w]).Reduce(x[t], cub::Min(), valid);
    mine[2] = Reduce(temp[w]).HeadSegmentedSum(x[t], heads >> lane & 1);
    mine[3] = Reduce(temp[w]).TailSegmentedSum(x[t], heads >> lane & 1);
    Scan(scan_temp[w]).InclusiveSum(x[t], mine[4], mine[5]);
    Scan(scan_temp[w]).ExclusiveSum(x[t], mine[6]);
    Scan(scan_temp[w]).ExclusiveScan(x[t], mine[7], -5000, cub::Max());
    Scan(scan_temp[w]).Scan(x[t], mine[8], mine[9], 3, cub::Sum());
    mine[10] = Scan(scan_temp[w]).Broadcast(x[t], Width - 1);
    mine[11] = cub::LaneId();
    composed[t] = Maps(maps_temp[w]).Reduce(maps[t], compose());
}

template <int Width>
static void
test_warps()
{
    const int threads = 96;
    for (int round = 0; round < 5; ++round) {
        const std::vector<int> x = random_integers(threads, 2001, -1000);
        const std::vector<affine> maps = random_maps(threads);
        const int valid = 1 + random_source()() % Width;
        const unsigned heads = random_source()();
        buffer<int> dx(x), out(12 * threads);
        buffer<affine> dmaps(maps), composed(threads);
        RUN(warps<Width><<<1, threads>>>(dx.data, dmaps.data, out.data, composed.data, valid, heads));
        const std::vector<int> got = out.read();
        const std::vector<affine> got_maps = composed.read();
        for (int t = 0; t < threads; ++t) {
            const int lane = t % Width, first = t - lane;
            const int *warp = &x[first], *mine = &got[12 * t];
            const int total = std::accumulate(warp, warp + Width, 0), sum = std::accumulate(warp, warp + lane, 0);
            if (lane == 0) {
                affine all = maps[first];
                for (int i = 1; i < Width; ++i)
                    all = compose()(all, maps[first + i]);
                CHECK(got_maps[t] == all, "composition in a warp of %d", Width);
                CHECK(mine[0] == total && mine[1] == *std::min_element(warp, warp + valid), "warp of %d", Width);
            }
            int end = lane + 1;
            while (end < Width && (heads >> end & 1) == 0)
                ++end;
            if (lane == 0 || (heads >> lane & 1))
                CHECK(mine[2] == std::accumulate(warp + lane, warp + end, 0), "head segments of %d", Width);
            for (end = lane; end < Width - 1 && (heads >> end & 1) == 0;)
                ++end;
            if (lane == 0 || (heads << 1 >> lane & 1))
                CHECK(mine[3] == std::accumulate(warp + lane, warp + end + 1, 0), "tail segments of %d", Width);
            CHECK(mine[4] == sum + x[t] && mine[5] == total && mine[6] == sum, "sums in a warp of %d", Width);
            CHECK(mine[7] == (lane == 0 ? -5000 : *std::max_element(warp, warp + lane)), "maxima in a warp");
            CHECK(mine[8] == sum + x[t] + 3 && mine[9] == sum + 3, "scan in a warp of %d", Width);
            CHECK(mine[10] == warp[Width - 1] && mine[11] == t % 32, "broadcast in a warp of %d", Width);
        }
    }
}

/* ---- sorts ---- */

template <class K, int Threads, int Items>
__global__ void
sort_block(K *keys, int *values, K *down, K *striped)
{
    typedef cub::BlockRadixSort<K, Threads, Items, int> Sort;
    __shared__ union {
        typename Sort::TempStorage pairs;
        typename cub::BlockRadixSort<K, Threads, Items>::TempStorage keys;
    } temp;
    K a[Items], b[Items], c[Items];
    int with[Items];
    for (int i = 0; i < Items; ++i) {
        a[i] = b[i] = c[i] = keys[threadIdx.x * Items + i];
        with[i] = static_cast<int>(threadIdx.x) * Items + i;
    }
    Sort(temp.pairs).Sort(a, with);
    __syncthreads();
    cub::BlockRadixSort<K, Threads, Items>(temp.keys).SortDescending(b);
    __syncthreads();
    cub::BlockRadixSort<K, Threads, Items>(temp.keys).SortBlockedToStriped(c, 0, 3);
    for (int i = 0; i < Items; ++i) {
        keys[threadIdx.x * Items + i] = a[i];
        values[threadIdx.x * Items + i] = with[i];
        down[threadIdx.x * Items + i] = b[i];
        striped[threadIdx.x + i * Threads] = c[i];
    }
}

template <class K, int Threads, int Items>
static void
test_sort_block()
{
    std::vector<K> keys(Threads * Items);
    for (K &key : keys)
        key = static_cast<K>(static_cast<int>(random_source()() % 100) - 50);
    std::vector<int> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<K> up(keys), down(keys), by_bits(keys);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    std::sort(up.begin(), up.end());
    std::sort(down.begin(), down.end(), [](K a, K b) { return b < a; });
    buffer<K> in(keys), out_down(keys.size()), out_striped(keys.size());
    buffer<int> values(keys.size());
    RUN(sort_block<K, Threads, Items><<<1, Threads>>>(in.data, values.data, out_down.data, out_striped.data));
    expect_equal(in.read(), up, "keys of a block");
    expect_equal(values.read(), order, "and their values");
    expect_equal(out_down.read(), down, "descending");
    if (std::is_integral<K>::value) {
        std::stable_sort(by_bits.begin(), by_bits.end(),
                         [](K a, K b) { return (static_cast<int>(a) & 7) < (static_cast<int>(b) & 7); });
        expect_equal(out_striped.read(), by_bits, "by three bits");
    }
}

int
main()
{
    test_sort_block<int, 64, 4>();
    test_sort_block<float, 100, 3>();
    test_sort_block<unsigned char, 1, 1>();
    test_reduce_block<128, 1, 1, cub::BLOCK_REDUCE_WARP_REDUCTIONS>();
    test_reduce_block<1024, 1, 1, cub::BLOCK_REDUCE_RAKING>();
    test_reduce_block<100, 1, 1, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>();
    test_reduce_block<16, 4, 3, cub::BLOCK_REDUCE_WARP_REDUCTIONS>();
    test_reduce_block<7, 1, 1, cub::BLOCK_REDUCE_RAKING>();
    test_own_storage();
    test_scan_block<1, cub::BLOCK_SCAN_RAKING>();
    test_scan_block<32, cub::BLOCK_SCAN_WARP_SCANS>();
    test_scan_block<100, cub::BLOCK_SCAN_RAKING_MEMOIZE>();
    test_scan_block<512, cub::BLOCK_SCAN_RAKING>();
    test_scan_items<64, 4, cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>();
    test_scan_items<100, 3, cub::BLOCK_LOAD_STRIPED, cub::BLOCK_STORE_STRIPED>();
    test_scan_items<32, 1, cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>();
    test_warps<32>();
    test_warps<16>();
    test_warps<8>();
    test_warps<2>();
    test_warps<1>();
    return 0;
}
