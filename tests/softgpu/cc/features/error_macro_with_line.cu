// The check macro of most public programs: expression as text, file and line, exit.
#include <cstdio>
#include <cstdlib>
#define CUDA_CHECK(call)                                                                                 \
    do {                                                                                                 \
        cudaError_t status_ = call;                                                                      \
        if (status_ != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s:%d '%s': %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_)); \
            exit(EXIT_FAILURE);                                                                          \
        }                                                                                                \
    } while (0)
#define LAUNCH(kernel, n, ...) kernel<<<((n) + 255) / 256, 256>>>(__VA_ARGS__, n)
__global__ void
scale(float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= a;
}

int
main()
{
    float *x;
    const int n = 1000;
    CUDA_CHECK(cudaMallocManaged(&x, n * sizeof *x));
    for (int i = 0; i < n; ++i)
        x[i] = i;
    LAUNCH(scale, n, x, 2.0f);
    return 0;
}
