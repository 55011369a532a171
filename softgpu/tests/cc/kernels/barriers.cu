/*
 * barriers.cu - __syncthreads() holds each thread until all of its block have come, for blocks of any size; threads
 * that have left are not waited for; its voting relatives count all threads of the block.
 */
#include "check.h"

template <class T>
__global__ void
tree_sum(const T *x, T *sums, int n)
{
    extern __shared__ char raw[];
    T *part = reinterpret_cast<T *>(raw);
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : T(0);
    __syncthreads();
    for (int width = blockDim.x; width > 1;) {
        const int half = (width + 1) / 2;
        if (t + half < width)
            part[t] += part[t + half];
        __syncthreads();
        width = half;
    }
    if (t == 0)
        sums[blockIdx.x] = part[0];
}

/* Game of life on a torus, several generations in shared memory: each generation needs all of the one before. */
__global__ void
life(unsigned char *cells, int generations)
{
    __shared__ unsigned char world[2][16][17];
    const int x = threadIdx.x, y = threadIdx.y;
    unsigned char *mine = cells + blockIdx.x * 256;
    world[0][y][x] = mine[y * 16 + x];
    __syncthreads();
    for (int g = 0; g < generations; ++g) {
        int neighbours = 0;
        for (int dy = 15; dy <= 17; ++dy)
            for (int dx = 15; dx <= 17; ++dx)
                neighbours += world[g & 1][(y + dy) % 16][(x + dx) % 16];
        neighbours -= world[g & 1][y][x];
        world[~g & 1][y][x] = neighbours == 3 || (neighbours == 2 && world[g & 1][y][x]);
        __syncthreads();
    }
    mine[y * 16 + x] = world[generations & 1][y][x];
}

/* Some threads leave before the barrier; the others continue without them. */
__global__ void
leave_early(int *out, int staying)
{
    __shared__ int marks[1024];
    const int t = threadIdx.x;
    if (t >= staying)
        return;
    marks[t] = t * 3;
    __syncthreads();
    out[t] = marks[staying - 1 - t];
}

__global__ void
votes(const int *x, int *out)
{
    const int t = threadIdx.x;
    out[3 * t] = __syncthreads_count(x[t] > 0);
    out[3 * t + 1] = __syncthreads_and(x[t] > -50) != 0;
    out[3 * t + 2] = __syncthreads_or(x[t] > 50) != 0;
}

/* A barrier in a function called in a loop, and local variables that must survive it. */
__device__ float
rotate(float *ring, float mine, int by)
{
    ring[threadIdx.x] = mine;
    __syncthreads();
    float got = ring[(threadIdx.x + by) % blockDim.x];
    __syncthreads();
    return got;
}

__global__ void
rotations(const float *x, float *y, int rounds)
{
    __shared__ float ring[512];
    float local[8], mine = x[threadIdx.x];
    for (int k = 0; k < 8; ++k)
        local[k] = mine * k;
    for (int r = 1; r <= rounds; ++r)
        mine = rotate(ring, mine, r);
    double sum = mine;
    for (int k = 0; k < 8; ++k)
        sum += local[k];
    y[threadIdx.x] = static_cast<float>(sum);
}

template <class T>
static void
test_sum(int n, int block)
{
    const int grid = (n + block - 1) / block;
    const std::vector<T> x = random_vector<T>(n, -100, 100);
    buffer<T> dx(x), sums(grid);
    RUN(tree_sum<<<grid, block, block * sizeof(T)>>>(dx.data, sums.data, n));
    std::vector<T> wanted(grid);
    for (int i = 0; i < n; ++i)
        wanted[i / block] += x[i];
    expect_close(sums.read(), wanted, sizeof(T) == 4 ? 1e-3 : 1e-9, "tree sum");
}

static void
test_life()
{
    std::vector<unsigned char> cells(3 * 256);
    for (unsigned char &cell : cells)
        cell = random_source()() & 1;
    buffer<unsigned char> device(cells);
    RUN(life<<<3, dim3(16, 16)>>>(device.data, 5));
    for (int g = 0; g < 5; ++g) {
        const std::vector<unsigned char> before = cells;
        for (int i = 0; i < 3 * 256; ++i) {
            const int base = i / 256 * 256, y = i % 256 / 16, x = i % 16;
            int neighbours = -before[i];
            for (int dy = 15; dy <= 17; ++dy)
                for (int dx = 15; dx <= 17; ++dx)
                    neighbours += before[base + (y + dy) % 16 * 16 + (x + dx) % 16];
            cells[i] = neighbours == 3 || (neighbours == 2 && before[i]);
        }
    }
    expect_equal(device.read(), cells, "life");
}

static void
test_votes(int block)
{
    const std::vector<int> x = random_integers(block, 103, -51);
    std::vector<int> wanted;
    int count = 0;
    bool all = true, any = false;
    for (int value : x) {
        count += value > 0;
        all = all && value > -50;
        any = any || value > 50;
    }
    for (int i = 0; i < block; ++i) {
        wanted.push_back(count);
        wanted.push_back(all);
        wanted.push_back(any);
    }
    buffer<int> dx(x), out(3 * block);
    RUN(votes<<<1, block>>>(dx.data, out.data));
    expect_equal(out.read(), wanted, "votes of a block");
}

static void
test_rotations(int block, int rounds)
{
    const std::vector<float> x = random_vector<float>(block);
    buffer<float> dx(x), dy(block);
    RUN(rotations<<<1, block>>>(dx.data, dy.data, rounds));
    std::vector<float> wanted(block);
    for (int t = 0; t < block; ++t) {
        double sum = x[(t + rounds * (rounds + 1) / 2) % block];
        for (int k = 0; k < 8; ++k)
            sum += x[t] * k;
        wanted[t] = static_cast<float>(sum);
    }
    expect_close(dy.read(), wanted, 1e-6, "rotations");
}

int
main()
{
    for (int block : {1, 2, 31, 32, 33, 64, 100, 256, 1000, 1024}) {
        test_sum<int>(3000, block);
        test_sum<float>(3000, block);
        test_sum<double>(2999, block);
        test_votes(block);
    }
    test_life();
    for (int staying : {1, 31, 32, 100, 512, 1023}) {
        buffer<int> out(1024);
        RUN(leave_early<<<1, 1024>>>(out.data, staying));
        expect_equal(out.read(), numbers_of<int>(1024, [&](int t) { return t < staying ? 3 * (staying - 1 - t) : 0; }),
                     "threads that left before a barrier");
    }
    test_rotations(512, 9);
    test_rotations(77, 30);
    return 0;
}
