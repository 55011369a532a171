/*
 * streams.cu - blocks of several kernels run at the same time, on threads of their own, and do not see each other's
 * shared memory, barriers or indices. Host threads launch at once, also for the first time.
 */
#include "check.h"

#include <thread>

template <int Salt>
__global__ void
mix(unsigned *x, int rounds)
{
    __shared__ unsigned ring[96];
    extern __shared__ unsigned more[];
    const unsigned t = threadIdx.x;
    unsigned mine = x[blockIdx.x * blockDim.x + t];
    for (int r = 0; r < rounds; ++r) {
        ring[t] = mine;
        more[t] = mine ^ blockIdx.x;
        __syncthreads();
        mine = mine * 1664525u + ring[(t + 1) % blockDim.x] + more[(t + 5) % blockDim.x] + Salt;
        mine += __shfl_xor_sync(0xffffffff, mine, 1 + Salt % 3);
        __syncthreads();
    }
    x[blockIdx.x * blockDim.x + t] = mine;
}

static void
model(std::vector<unsigned> &x, unsigned block_size, int rounds, unsigned salt)
{
    for (unsigned first = 0; first < x.size(); first += block_size) {
        const unsigned block = first / block_size;
        std::vector<unsigned> mine(x.begin() + first, x.begin() + first + block_size), next(block_size);
        for (int r = 0; r < rounds; ++r) {
            for (unsigned t = 0; t < block_size; ++t)
                next[t] = mine[t] * 1664525u + mine[(t + 1) % block_size] + (mine[(t + 5) % block_size] ^ block) + salt;
            for (unsigned t = 0; t < block_size; ++t)
                mine[t] = next[t] + next[t ^ (1 + salt % 3)];
        }
        std::copy(mine.begin(), mine.end(), x.begin() + first);
    }
}

template <int Salt>
static void
run(unsigned seed)
{
    const unsigned block = 96, blocks = 9;
    std::mt19937 source(seed);
    std::vector<unsigned> x(block * blocks);
    for (unsigned &value : x)
        value = static_cast<unsigned>(source());
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    buffer<unsigned> device(x);
    for (int launch = 0; launch < 10; ++launch) {
        mix<Salt><<<blocks, block, block * sizeof(unsigned), stream>>>(device.data, 6);
        model(x, block, 6, Salt);
    }
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
    expect_equal(device.read(), x, "mixed in a stream");
}

int
main()
{
    std::vector<std::thread> threads;
    threads.emplace_back(run<0>, 1);
    threads.emplace_back(run<0>, 2);
    threads.emplace_back(run<1>, 3);
    threads.emplace_back(run<2>, 4);
    for (std::thread &thread : threads)
        thread.join();
    return 0;
}
