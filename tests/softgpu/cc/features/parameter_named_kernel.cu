// A convolution whose parameters are called kernel and body, the names of softgpu-cc's own variables.
#include <cstdio>
__global__ void
convolve(const float *image, const float *kernel, const float *body, int width, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width)
        return;
    float sum = body[x];
    for (int k = -1; k <= 1; ++k)
        if (x + k >= 0 && x + k < width)
            sum += image[x + k] * kernel[k + 1];
    out[x] = sum;
}

int
main()
{
    float *m = managed(100 * sizeof(float));
    for (int i = 0; i < 100; ++i)
        m[i] = i < 10 ? i : 1;
    convolve<<<1, 32>>>(m, m + 10, m + 20, 10, m + 30);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    return m[30] == 2 && m[35] == 16 && m[39] == 18 ? 0 : 2;
}
