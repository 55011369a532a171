// flags: -lcublas -lcurand
// A handle in a class, a product in row-major order, a kernel on the library's stream.
#include <cublas_v2.h>
#include <stdexcept>
#define CUBLAS_CHECK(x)                              \
    do {                                             \
        if ((x) != CUBLAS_STATUS_SUCCESS)            \
            throw std::runtime_error("cublas: " #x); \
    } while (0)
__global__ void
bias(float *y, const float *b, int n)
{
    y[blockIdx.x * n + threadIdx.x] += b[threadIdx.x];
}
int
main()
{
    cublasHandle_t handle;
    cudaStream_t stream;
    float *m, one = 1, zero = 0;
    cudaStreamCreate(&stream);
    cudaMallocManaged(&m, 400);
    for (int i = 0; i < 100; ++i)
        m[i] = i % 5;
    CUBLAS_CHECK(cublasCreate(&handle));
    CUBLAS_CHECK(cublasSetStream(handle, stream));
    CUBLAS_CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 3, 5, &one, m, 4, m + 20, 5, &zero, m + 40, 4));
    bias<<<3, 4, 0, stream>>>(m + 40, m + 1, 4);
    cudaStreamSynchronize(stream);
    float sum = m[1];
    for (int k = 0; k < 5; ++k)
        sum += m[k * 4] * m[20 + k];
    CUBLAS_CHECK(cublasDestroy(handle));
    return m[40] == sum ? 0 : 1;
}
