// A sparse matrix in rows times a vector: a warp per row with a power of two of lanes, against the host.
#include <vector>
struct Csr {
    const int *offsets, *columns;
    const float *values;
    int rows;
};
template <unsigned LANES>
__global__ void
multiply(const Csr a, const float *__restrict__ x, float *__restrict__ y)
{
    const unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    float sum = 0;
    if (row < static_cast<unsigned>(a.rows)) {
        for (int i = a.offsets[row] + lane; i < a.offsets[row + 1]; i += LANES)
            sum += a.values[i] * x[a.columns[i]];
    }
    for (unsigned offset = LANES / 2; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset, LANES);
    if (lane == 0 && row < static_cast<unsigned>(a.rows))
        y[row] = sum;
}
template <typename T>
static T *
to_device(const std::vector<T> &host)
{
    T *p;
    cudaMalloc(&p, host.size() * sizeof(T));
    cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

int
main()
{
    std::vector<int> offsets = {0}, columns;
    std::vector<float> values, x(40), y(40, -1);
    for (int row = 0; row < 40; ++row) {
        x[row] = row + 1;
        for (int i = 0; i < row % 7; ++i)
            columns.push_back((row * 3 + i * 5) % 40), values.push_back(i + 1);
        offsets.push_back(static_cast<int>(columns.size()));
    }
    const Csr a = {to_device(offsets), to_device(columns), to_device(values), 40};
    float *const in = to_device(x), *const out = to_device(y);
    multiply<8><<<5, 64>>>(a, in, out);
    cudaMemcpy(y.data(), out, 160, cudaMemcpyDeviceToHost);
    for (int row = 0; row < 40; ++row) {
        float sum = 0;
        for (int i = offsets[row]; i < offsets[row + 1]; ++i)
            sum += values[i] * x[columns[i]];
        if (sum != y[row])
            return row + 1;
    }
    return 0;
}
