// Rows of floats as bytes with a scale each, products of them by __dp4a, rounding and saturation.
#include <cmath>
#include <cstdint>
__global__ void
quantise(const float *x, int8_t *q, float *scales, int columns)
{
    __shared__ float largest;
    if (threadIdx.x == 0) {
        float m = 0;
        for (int i = 0; i < columns; ++i)
            m = fmaxf(m, fabsf(x[blockIdx.x * columns + i]));
        largest = m;
    }
    __syncthreads();
    const float scale = largest / 127.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const int at = blockIdx.x * columns + i;
        q[at] = static_cast<int8_t>(max(-128, min(127, __float2int_rn(x[at] / scale))));
    }
    if (threadIdx.x == 0)
        scales[blockIdx.x] = scale;
}
__global__ void
products(const int8_t *q, const float *scales, float *out, int columns)
{
    const int *a = reinterpret_cast<const int *>(q + blockIdx.x * columns);
    const int *b = reinterpret_cast<const int *>(q + threadIdx.x * columns);
    int sum = 0;
    for (int i = 0; i < columns / 4; ++i)
        sum = __dp4a(a[i], b[i], sum);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum * scales[blockIdx.x] * scales[threadIdx.x];
}

int
main()
{
    const int rows = 3, columns = 32;
    float *x = managed(rows * columns * 4);
    float *scales = managed(rows * 4);
    float *out = managed(rows * rows * 4);
    int8_t *q = managed(rows * columns);
    for (int i = 0; i < rows * columns; ++i)
        x[i] = sinf(0.7f * i) * (i / columns + 1);
    quantise<<<rows, 8>>>(x, q, scales, columns);
    products<<<rows, rows>>>(q, scales, out, columns);
    cudaDeviceSynchronize();
    for (int r = 0; r < rows; ++r) {
        for (int s = 0; s < rows; ++s) {
            float expected = 0;
            for (int i = 0; i < columns; ++i)
                expected += x[r * columns + i] * x[s * columns + i];
            if (fabsf(out[r * rows + s] - expected) > 0.05f * (r + 1) * (s + 1) * 4)
                return 1;
        }
    }
    return 0;
}
