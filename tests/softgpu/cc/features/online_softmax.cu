// A softmax of rows in one pass, the maximum and the sum together, by shuffles of a structure's parts.
#include <cmath>
__global__ void
softmax(const float *x, float *y, int columns)
{
    const float *row = x + blockIdx.x * columns;
    float largest = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += warpSize) {
        const float next = fmaxf(largest, row[i]);
        sum = sum * expf(largest - next) + expf(row[i] - next);
        largest = next;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(~0u, largest, offset), other_sum = __shfl_xor_sync(~0u, sum, offset);
        const float next = fmaxf(largest, other);
        sum = sum * expf(largest - next) + other_sum * expf(other - next);
        largest = next;
    }
    for (int i = threadIdx.x; i < columns; i += warpSize)
        __stcs(&y[blockIdx.x * columns + i], expf(__ldcs(&row[i]) - largest) / sum);
}

int
main()
{
    const int rows = 3, columns = 77;
    float *x = managed(4 * rows * columns), *y = managed(4 * rows * columns);
    for (int i = 0; i < rows * columns; ++i)
        x[i] = static_cast<float>(i * 31 % 17) - 8;
    softmax<<<rows, 32>>>(x, y, columns);
    cudaDeviceSynchronize();
    for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int i = 0; i < columns; ++i)
            sum += std::exp(static_cast<double>(x[r * columns + i]));
        for (int i = 0; i < columns; ++i) {
            if (std::fabs(std::exp(static_cast<double>(x[r * columns + i])) / sum - y[r * columns + i]) > 1e-6)
                return 1;
        }
    }
    return 0;
}
