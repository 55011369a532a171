// flags: -lcublas -lcurand
// Products by overloads for float and double, strided batches, device pointers for scalars, a norm and an index.
#include <cublas_v2.h>
#include <vector>
inline cublasStatus_t
gemm(cublasHandle_t h, int m, int n, int k, const float *a, const float *b, float *c)
{
    const float one = 1, zero = 0;
    return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
}
inline cublasStatus_t
gemm(cublasHandle_t h, int m, int n, int k, const double *a, const double *b, double *c)
{
    const double one = 1, zero = 0;
    return cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
}
template <typename T>
bool
multiplies(cublasHandle_t handle)
{
    T *p = managed(3 * 4 * sizeof(T));
    const T a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
    cudaMemcpy(p, a, sizeof(a), cudaMemcpyDefault);
    cudaMemcpy(p + 4, b, sizeof(b), cudaMemcpyDefault);
    const bool ok = gemm(handle, 2, 2, 2, p, p + 4, p + 8) == CUBLAS_STATUS_SUCCESS;
    cudaDeviceSynchronize();
    return ok && p[8] == 23 && p[9] == 34 && p[10] == 31 && p[11] == 46;
}

int
main()
{
    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return 1;
    if (!multiplies<float>(handle) || !multiplies<double>(handle))
        return 2;
    float *x = managed(64);
    float *scalars = managed(16);
    for (int i = 0; i < 16; ++i)
        x[i] = i % 4;
    const float one = 1, zero = 0;
    cublasSgemmStridedBatched(handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 4, &one, x, 4, 4, x, 4, 4, &zero, scalars, 1, 1,
                              4);
    cudaDeviceSynchronize();
    const bool ok = scalars[0] == 14 && scalars[3] == 14;
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    cublasSdot(handle, 4, x, 1, x + 4, 1, scalars);
    cublasSscal(handle, 4, scalars, x, 1);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST);
    float norm = 0;
    int largest = 0;
    cublasSnrm2(handle, 2, x + 2, 1, &norm);
    cublasIsamax(handle, 16, x, 1, &largest);
    cublasDestroy(handle);
    return ok && x[1] == 14 && norm > 50.4f && norm < 50.5f && largest == 4 ? 0 : 3;
}
