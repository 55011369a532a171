#include "layer.h"

__global__ void poolForward(const float *in, float *out, int *arg, int total, int h, int w)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= total) return;
    int ow = w / 2, oh = h / 2;
    int x = id % ow, y = id / ow % oh, nc = id / (ow * oh);
    int best = (nc * h + 2 * y) * w + 2 * x;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int q = (nc * h + 2 * y + i) * w + 2 * x + j;
            if (in[q] > in[best]) best = q;
        }
    out[id] = in[best];
    arg[id] = best;
}

__global__ void poolBackward(const float *g, const int *arg, float *gin, int total)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < total) gin[arg[id]] = g[id];
}

MaxPool::MaxPool(int c, int h, int w, int maxBatch)
    : c(c), h(h), w(w), out((size_t)maxBatch * c * (h / 2) * (w / 2)), gradIn((size_t)maxBatch * c * h * w)
{
    CUDA_CHECK(cudaMalloc(&argmax, out.size() * sizeof(int)));
}

MaxPool::~MaxPool() { cudaFree(argmax); }

float *MaxPool::forward(float *input, int batch)
{
    int total = batch * outputSize();
    poolForward<<<(total + 127) / 128, 128>>>(input, out.get(), argmax, total, h, w);
    return out.get();
}

float *MaxPool::backward(float *g, int batch)
{
    int total = batch * outputSize();
    CUDA_CHECK(cudaMemset(gradIn.get(), 0, (size_t)batch * c * h * w * sizeof(float)));
    poolBackward<<<(total + 127) / 128, 128>>>(g, argmax, gradIn.get(), total);
    return gradIn.get();
}
