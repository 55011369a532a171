// Autoencoder 36 -> 10 -> 36 on 6x6 patches. Adam, pinned staging buffer, one stream.
#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 36, CODE = 10, BATCH = 28, PATCHES = 700, STEPS = 50 };

static float *device_array(size_t count) {
    float *p = NULL;
    if (cudaMalloc(&p, count * sizeof(float)) != cudaSuccess) {
        fprintf(stderr, "out of device memory\n");
        exit(1);
    }
    cudaMemset(p, 0, count * sizeof(float));
    return p;
}

typedef struct {
    int count;
    float *w, *g, *m, *v;
} Tensor;

static Tensor make_tensor(int count, float range) {
    Tensor t = {count, device_array(count), device_array(count), device_array(count), device_array(count)};
    if (range > 0) {
        float *h = (float *)malloc(count * sizeof(float));
        for (int i = 0; i < count; i++) h[i] = range * (rand() / (0.5f * RAND_MAX) - 1.0f);
        cudaMemcpy(t.w, h, count * sizeof(float), cudaMemcpyHostToDevice);
        free(h);
    }
    return t;
}

__global__ void bias_sigmoid(float *a, const float *b, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * width) a[i] = 1.0f / (1.0f + expf(-(a[i] + b[i % width])));
}

__global__ void output_delta(const float *y, const float *x, float *d, float *err, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float e = y[i] - x[i];
        err[i] = e * e;
        d[i] = 2.0f * e * y[i] * (1.0f - y[i]);
    }
}

__global__ void hidden_delta(float *d, const float *h, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) d[i] *= h[i] * (1.0f - h[i]);
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

int main(void) {
    srand(3);
    float *patches = (float *)malloc(PATCHES * PIXELS * sizeof(float));
    for (int i = 0; i < PATCHES; i++) {
        float fx = 2.0f * rand() / RAND_MAX, fy = 2.0f * rand() / RAND_MAX, ph = 6.28f * rand() / RAND_MAX;
        for (int p = 0; p < PIXELS; p++) patches[i * PIXELS + p] = 0.5f + 0.4f * sinf(fx * (p % 6) + fy * (p / 6) + ph);
    }

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSetStream(handle, stream);

    Tensor params[4];
    params[0] = make_tensor(PIXELS * CODE, 0.3f);
    params[1] = make_tensor(CODE, 0);
    params[2] = make_tensor(CODE * PIXELS, 0.3f);
    params[3] = make_tensor(PIXELS, 0);
    float *x = device_array(BATCH * PIXELS), *h = device_array(BATCH * CODE), *y = device_array(BATCH * PIXELS);
    float *dy = device_array(BATCH * PIXELS), *dh = device_array(BATCH * CODE), *err = device_array(BATCH * PIXELS);
    float *ones = device_array(BATCH);
    float *staging;
    cudaMallocHost(&staging, BATCH * PIXELS * sizeof(float));
    for (int i = 0; i < BATCH; i++) staging[i] = 1.0f;
    cudaMemcpy(ones, staging, BATCH * sizeof(float), cudaMemcpyHostToDevice);

    const float one = 1.0f, zero = 0.0f, inv = 1.0f / BATCH;
    const int gp = (BATCH * PIXELS + 255) / 256, gh = (BATCH * CODE + 255) / 256;
    for (int step = 1; step <= STEPS; step++) {
        int first = ((step - 1) * BATCH) % PATCHES;
        memcpy(staging, patches + first * PIXELS, BATCH * PIXELS * sizeof(float));
        cudaMemcpyAsync(x, staging, BATCH * PIXELS * sizeof(float), cudaMemcpyHostToDevice, stream);

        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, CODE, BATCH, PIXELS, &one, params[0].w, CODE, x, PIXELS, &zero, h, CODE);
        bias_sigmoid<<<gh, 256, 0, stream>>>(h, params[1].w, BATCH, CODE);
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, PIXELS, BATCH, CODE, &one, params[2].w, PIXELS, h, CODE, &zero, y, PIXELS);
        bias_sigmoid<<<gp, 256, 0, stream>>>(y, params[3].w, BATCH, PIXELS);

        output_delta<<<gp, 256, 0, stream>>>(y, x, dy, err, BATCH * PIXELS);
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, PIXELS, CODE, BATCH, &inv, dy, PIXELS, h, CODE, &zero, params[2].g, PIXELS);
        cublasSgemv(handle, CUBLAS_OP_N, PIXELS, BATCH, &inv, dy, PIXELS, ones, 1, &zero, params[3].g, 1);
        cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, CODE, BATCH, PIXELS, &one, params[2].w, PIXELS, dy, PIXELS, &zero, dh, CODE);
        hidden_delta<<<gh, 256, 0, stream>>>(dh, h, BATCH * CODE);
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, CODE, PIXELS, BATCH, &inv, dh, CODE, x, PIXELS, &zero, params[0].g, CODE);
        cublasSgemv(handle, CUBLAS_OP_N, CODE, BATCH, &inv, dh, CODE, ones, 1, &zero, params[1].g, 1);

        float c1 = 1.0f - powf(0.9f, step), c2 = 1.0f - powf(0.999f, step);
        for (int k = 0; k < 4; k++)
            adam<<<(params[k].count + 255) / 256, 256, 0, stream>>>(params[k].w, params[k].g, params[k].m, params[k].v,
                                                                    params[k].count, 0.01f, c1, c2);
        float sum = 0.0f;
        cublasSasum(handle, BATCH * PIXELS, err, 1, &sum);
        cudaStreamSynchronize(stream);
        if (step % 5 == 0) printf("step %3d  reconstruction error %.5f\n", step, sum / BATCH);
    }

    for (int k = 0; k < 4; k++) {
        cudaFree(params[k].w); cudaFree(params[k].g); cudaFree(params[k].m); cudaFree(params[k].v);
    }
    cudaFreeHost(staging);
    cublasDestroy(handle);
    cudaStreamDestroy(stream);
    free(patches);
    return 0;
}
