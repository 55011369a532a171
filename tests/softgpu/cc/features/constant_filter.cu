// A table in constant memory of structs, one of two dimensions, written with offsets.
#include <cstddef>
#include <cstring>
struct Layer {
    int in, out;
    float scale;
};
__constant__ Layer layers[4];
__constant__ float filter[3][3];
static __constant__ int one = 1;
__device__ float total;
__global__ void
use()
{
    float sum = 0;
    for (int i = 0; i < 4; ++i)
        sum += layers[i].in * layers[i].scale;
    for (const auto &row : filter)
        for (float v : row)
            sum += v;
    total = sum + one;
}

int
main()
{
    Layer l[4] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {0, 0, 0}};
    float f[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, result;
    cudaMemcpyToSymbol(layers, l, 2 * sizeof(Layer));
    cudaMemcpyToSymbol(layers, &l[2], sizeof(Layer), 2 * sizeof(Layer));
    cudaMemcpyToSymbol(filter, f, sizeof(f));
    use<<<1, 1>>>();
    cudaMemcpyFromSymbol(&result, total, sizeof(result));
    size_t bytes;
    cudaGetSymbolSize(&bytes, filter);
    return result == 3 + 24 + 63 + 9 + 1 && bytes == 36 ? 0 : 1;
}
