#include "tensor.h"
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

static std::mt19937 rng(99);

Tensor tensor_new(int rows, int cols, bool with_grad)
{
    Tensor t;
    t.rows = rows;
    t.cols = cols;
    cudaMalloc(&t.data, t.size() * sizeof(float));
    if (with_grad) {
        cudaMalloc(&t.grad, t.size() * sizeof(float));
        cudaMemset(t.grad, 0, t.size() * sizeof(float));
    }
    die_on_error("tensor_new");
    return t;
}

void tensor_free(Tensor &t)
{
    cudaFree(t.data);
    if (t.grad) cudaFree(t.grad);
    t = Tensor();
}

void tensor_upload(Tensor &t, const float *src)
{
    cudaMemcpy(t.data, src, t.size() * sizeof(float), cudaMemcpyHostToDevice);
}

void tensor_download(const Tensor &t, float *dst)
{
    cudaMemcpy(dst, t.data, t.size() * sizeof(float), cudaMemcpyDeviceToHost);
}

void tensor_randn(Tensor &t, float stddev)
{
    std::normal_distribution<float> d(0.0f, stddev);
    std::vector<float> h(t.size());
    for (float &v : h) v = d(rng);
    tensor_upload(t, h.data());
}

void tensor_fill(Tensor &t, float v)
{
    std::vector<float> h(t.size(), v);
    tensor_upload(t, h.data());
}

void die_on_error(const char *where)
{
    cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", where, cudaGetErrorString(e));
        exit(1);
    }
}
