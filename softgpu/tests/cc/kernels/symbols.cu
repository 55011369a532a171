/*
 * symbols.cu - __constant__, __device__ and __managed__ variables: kernels and the runtime's symbol calls see the same
 * memory, and variables and functions of one source file are its own (symbols_other.cu has some of the same names).
 */
#include "check.h"

__constant__ float coefficients[8];
__constant__ int table[3][2] = {{1, 2}, {3, 4}, {5, 6}};
__device__ int counter, *pointer_there, pair_there[2] = {10, 20};
__device__ float device_scale = 2.5f;
__managed__ int managed_value = 3;
static __device__ double only_here = 1.25;

struct settings {
    float rate;
    int steps[3];
    __host__ __device__ float of(int step) const
    {
        return rate * steps[step];
    }
};
__constant__ settings current;

namespace deep
{
namespace inside
{
__device__ int value = 9;
}
} // namespace deep

/* symbols_other.cu has a function and a variable of these names, and they are others. */
__device__ int same_name = 100;

static __device__ int
same_function()
{
    return 1;
}

void run_other(int *out);

__global__ void
read_all(float *out)
{
    const int t = threadIdx.x;
    out[t] = coefficients[t] * device_scale + table[t % 3][t % 2] + current.of(t % 3) + pair_there[t % 2] +
             static_cast<float>(only_here) + deep::inside::value + managed_value;
    atomicAdd(&counter, t);
}

KERNEL(own_names, (int *out), *out = same_name + same_function())
KERNEL(through_pointer, (), pointer_there[threadIdx.x] = threadIdx.x + pair_there[1])

int
main()
{
    const std::vector<float> c = random_vector<float>(8);
    CUDA(cudaMemcpyToSymbol(coefficients, c.data(), 8 * sizeof(float)));
    const float replaced = 0.75f;
    CUDA(cudaMemcpyToSymbol(coefficients, &replaced, sizeof(float), 3 * sizeof(float)));
    const settings host_settings = {0.5f, {2, 4, 8}};
    CUDA(cudaMemcpyToSymbolAsync(current, &host_settings, sizeof(host_settings), 0, cudaMemcpyHostToDevice, 0));
    managed_value = 4;

    buffer<float> out(8);
    RUN(read_all<<<1, 8>>>(out.data));
    static const int host_table[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    std::vector<float> wanted(8);
    for (int t = 0; t < 8; ++t)
        wanted[t] = (t == 3 ? replaced : c[t]) * 2.5f + host_table[t % 3][t % 2] + 0.5f * host_settings.steps[t % 3] +
                    (t % 2 ? 20 : 10) + 1.25f + 9 + 4;
    expect_close(out.read(), wanted, 1e-6, "variables in a kernel");

    int count = 0;
    CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof(count)));
    CHECK(count == 28, "counter is %d", count);
    settings back = {};
    CUDA(cudaMemcpyFromSymbolAsync(&back, current, sizeof(back), 0, cudaMemcpyDeviceToHost, 0));
    CUDA(cudaStreamSynchronize(0));
    CHECK(back.rate == 0.5f && back.steps[2] == 8, "a struct in constant memory, read back");

    void *address = nullptr;
    size_t bytes = 0;
    CUDA(cudaGetSymbolAddress(&address, counter));
    CUDA(cudaGetSymbolSize(&bytes, coefficients));
    CHECK(bytes == 8 * sizeof(float), "size of a symbol is %zu", bytes);
    CUDA(cudaMemset(address, 0, sizeof(int)));
    CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof(count)));
    CHECK(count == 0, "counter, cleared through its address, is %d", count);

    buffer<int> target(4);
    CUDA(cudaMemcpyToSymbol(pointer_there, &target.data, sizeof(int *)));
    RUN(through_pointer<<<1, 4>>>());
    expect_equal(target.read(), {20, 21, 22, 23}, "through a pointer in device memory");

    buffer<int> mine(1), others(1);
    own_names<<<1, 1>>>(mine.data);
    run_other(others.data);
    finish_launch();
    CHECK(mine.read()[0] == 101, "this file's names give %d", mine.read()[0]);
    CHECK(others.read()[0] == 205, "the other file's names give %d", others.read()[0]);
    return 0;
}
