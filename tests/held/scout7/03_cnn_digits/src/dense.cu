#include "layer.h"
#include <cmath>

__global__ void denseForward(const float *in, const float *W, const float *b, float *out, int batch, int nIn, int nOut)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * nOut) return;
    int n = id / nOut, o = id % nOut;
    float acc = b[o];
    for (int i = 0; i < nIn; ++i) acc += in[n * nIn + i] * W[o * nIn + i];
    out[id] = acc;
}

__global__ void denseGradWeight(const float *in, const float *g, float *gW, float *gb, int batch, int nIn, int nOut)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= nIn * nOut) return;
    int o = id / nIn, i = id % nIn;
    float acc = 0, accb = 0;
    for (int n = 0; n < batch; ++n) {
        acc += in[n * nIn + i] * g[n * nOut + o];
        accb += g[n * nOut + o];
    }
    gW[id] = acc / batch;
    if (i == 0) gb[o] = accb / batch;
}

__global__ void denseGradInput(const float *g, const float *W, float *gin, int batch, int nIn, int nOut)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * nIn) return;
    int n = id / nIn, i = id % nIn;
    float acc = 0;
    for (int o = 0; o < nOut; ++o) acc += g[n * nOut + o] * W[o * nIn + i];
    gin[id] = acc;
}

Dense::Dense(int in, int out_, int maxBatch, std::mt19937 &gen)
    : nIn(in), nOut(out_), W(in * out_, std::sqrt(1.f / in), gen), b(out_, 0, gen),
      out((size_t)maxBatch * out_), gradIn((size_t)maxBatch * in)
{
}

float *Dense::forward(float *input, int batch)
{
    in = input;
    denseForward<<<(batch * nOut + 127) / 128, 128>>>(input, W.value.get(), b.value.get(), out.get(), batch, nIn, nOut);
    return out.get();
}

float *Dense::backward(float *g, int batch)
{
    denseGradWeight<<<(nIn * nOut + 127) / 128, 128>>>(in, g, W.grad.get(), b.grad.get(), batch, nIn, nOut);
    denseGradInput<<<(batch * nIn + 127) / 128, 128>>>(g, W.value.get(), gradIn.get(), batch, nIn, nOut);
    return gradIn.get();
}
