#include "layer.h"
#include <cmath>

// convolution followed by ReLU
__global__ void convForward(const float *in, const float *W, const float *b, float *out, int batch, int inC, int outC, int k, int h, int w)
{
    int oh = h - k + 1, ow = w - k + 1;
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * outC * oh * ow) return;
    int x = id % ow, y = id / ow % oh, o = id / (ow * oh) % outC, n = id / (ow * oh * outC);
    float acc = b[o];
    for (int c = 0; c < inC; ++c)
        for (int i = 0; i < k; ++i)
            for (int j = 0; j < k; ++j)
                acc += in[((n * inC + c) * h + y + i) * w + x + j] * W[((o * inC + c) * k + i) * k + j];
    out[id] = acc > 0 ? acc : 0;
}

__global__ void convReluBackward(const float *out, float *grad, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && out[i] <= 0) grad[i] = 0;
}

__global__ void convGradWeight(const float *in, const float *gout, float *gW, int batch, int inC, int outC, int k, int h, int w)
{
    int oh = h - k + 1, ow = w - k + 1;
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= outC * inC * k * k) return;
    int j = id % k, i = id / k % k, c = id / (k * k) % inC, o = id / (k * k * inC);
    float acc = 0;
    for (int n = 0; n < batch; ++n)
        for (int y = 0; y < oh; ++y)
            for (int x = 0; x < ow; ++x)
                acc += in[((n * inC + c) * h + y + i) * w + x + j] * gout[((n * outC + o) * oh + y) * ow + x];
    gW[id] = acc / batch;
}

__global__ void convGradBias(const float *gout, float *gb, int batch, int outC, int plane)
{
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= outC) return;
    float acc = 0;
    for (int n = 0; n < batch; ++n)
        for (int p = 0; p < plane; ++p)
            acc += gout[(n * outC + o) * plane + p];
    gb[o] = acc / batch;
}

__global__ void convGradInput(const float *gout, const float *W, float *gin, int batch, int inC, int outC, int k, int h, int w)
{
    int oh = h - k + 1, ow = w - k + 1;
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * inC * h * w) return;
    int x = id % w, y = id / w % h, c = id / (w * h) % inC, n = id / (w * h * inC);
    float acc = 0;
    for (int o = 0; o < outC; ++o)
        for (int i = 0; i < k; ++i)
            for (int j = 0; j < k; ++j) {
                int yy = y - i, xx = x - j;
                if (yy >= 0 && yy < oh && xx >= 0 && xx < ow)
                    acc += gout[((n * outC + o) * oh + yy) * ow + xx] * W[((o * inC + c) * k + i) * k + j];
            }
    gin[id] = acc;
}

__global__ void momentumStep(float *v, float *vel, const float *g, float lr, float m, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        vel[i] = m * vel[i] - lr * g[i];
        v[i] += vel[i];
    }
}

void Parameter::step(float lr, float momentum)
{
    int n = (int)value.size();
    momentumStep<<<(n + 127) / 128, 128>>>(value.get(), velocity.get(), grad.get(), lr, momentum, n);
}

Conv2D::Conv2D(int inC, int outC, int k, int h, int w, int maxBatch, std::mt19937 &gen)
    : inC(inC), outC(outC), k(k), h(h), w(w), oh(h - k + 1), ow(w - k + 1),
      W(outC * inC * k * k, std::sqrt(2.f / (inC * k * k)), gen), b(outC, 0, gen),
      out((size_t)maxBatch * outC * (h - k + 1) * (w - k + 1)), gradIn((size_t)maxBatch * inC * h * w)
{
}

float *Conv2D::forward(float *input, int batch)
{
    in = input;
    int total = batch * outC * oh * ow;
    convForward<<<(total + 127) / 128, 128>>>(input, W.value.get(), b.value.get(), out.get(), batch, inC, outC, k, h, w);
    return out.get();
}

float *Conv2D::backward(float *g, int batch)
{
    int total = batch * outC * oh * ow;
    convReluBackward<<<(total + 127) / 128, 128>>>(out.get(), g, total);
    int nw = outC * inC * k * k, ni = batch * inC * h * w;
    convGradWeight<<<(nw + 63) / 64, 64>>>(in, g, W.grad.get(), batch, inC, outC, k, h, w);
    convGradBias<<<1, outC>>>(g, b.grad.get(), batch, outC, oh * ow);
    if (inC > 1)
        convGradInput<<<(ni + 127) / 128, 128>>>(g, W.value.get(), gradIn.get(), batch, inC, outC, k, h, w);
    return gradIn.get();
}
