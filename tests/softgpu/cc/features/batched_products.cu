// flags: -lcublas -lcurand
// cuBLAS: strided batches, pointers of batches, products of halves with sums of floats, a scale on the device.
#include <cublas_v2.h>
#include <cuda_fp16.h>
__global__ void
to_half(const float *x, __half *h)
{
    h[threadIdx.x] = __float2half(x[threadIdx.x]);
}

int
main()
{
    float *a = managed(64), *b = managed(64), *c = managed(64), **tables = managed(48), *scale = managed(8),
          *d = managed(16);
    __half *h = managed(32);
    for (int i = 0; i < 16; ++i)
        a[i] = static_cast<float>(i % 5), b[i] = static_cast<float>(i % 3), c[i] = -1;
    cublasHandle_t handle;
    cublasCreate(&handle);
    const float one = 1, zero = 0;
    cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &one, a, 2, 4, b, 2, 4, &zero, c, 2, 4, 2);
    for (int i = 0; i < 2; ++i)
        tables[i] = a + 4 * i, tables[2 + i] = b + 4 * i, tables[4 + i] = c + 8 + 4 * i;
    scale[0] = 2, scale[1] = 0;
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, scale, tables, 2, tables + 2, 2, scale + 1,
                       tables + 4, 2, 2);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST);
    to_half<<<1, 16>>>(a, h);
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, h, CUDA_R_16F, 2, h + 4, CUDA_R_16F, 2, &zero, d,
                 CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cudaDeviceSynchronize();
    cublasDestroy(handle);
    for (int batch = 0; batch < 2; ++batch) {
        for (int i = 0; i < 4; ++i) {
            const float *left = a + 4 * batch, *right = b + 4 * batch;
            const float wanted = left[i % 2] * right[i / 2] + left[2 + i % 2] * right[2 + i / 2];
            if (c[4 * batch + i] != wanted || c[8 + 4 * batch + i] != 2 * wanted)
                return 1;
        }
    }
    return d[0] != a[0] * a[4] + a[2] * a[5];
}
