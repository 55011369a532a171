#include "nn.h"
#include <cuda_runtime.h>
#include <math.h>

/* block: a sample; thread: a query position */
__global__ void att_forward(const float *q, const float *k, const float *v, float *att, float *out, int T, int D)
{
    size_t base = (size_t)blockIdx.x * T * D;
    int t = threadIdx.x;
    float *a = att + ((size_t)blockIdx.x * T + t) * T;
    float mx = -1e30f, z = 0.f, sc = rsqrtf((float)D);
    for (int s = 0; s < T; s++) {
        float dot = 0.f;
        for (int d = 0; d < D; d++) dot += q[base + t * D + d] * k[base + s * D + d];
        a[s] = dot * sc;
        mx = fmaxf(mx, a[s]);
    }
    for (int s = 0; s < T; s++) z += (a[s] = expf(a[s] - mx));
    for (int s = 0; s < T; s++) a[s] /= z;
    for (int d = 0; d < D; d++) {
        float o = 0.f;
        for (int s = 0; s < T; s++) o += a[s] * v[base + s * D + d];
        out[base + t * D + d] = o;
    }
}

__global__ void att_backward_scores(const float *v, const float *att, const float *dout, float *datt, int T, int D)
{
    size_t base = (size_t)blockIdx.x * T * D, abase = (size_t)blockIdx.x * T * T;
    int t = threadIdx.x;
    float dotsum = 0.f;
    for (int s = 0; s < T; s++) {
        float g = 0.f;
        for (int d = 0; d < D; d++) g += dout[base + t * D + d] * v[base + s * D + d];
        datt[abase + t * T + s] = g;
        dotsum += g * att[abase + t * T + s];
    }
    for (int s = 0; s < T; s++)
        datt[abase + t * T + s] = att[abase + t * T + s] * (datt[abase + t * T + s] - dotsum) * rsqrtf((float)D);
}

__global__ void att_backward_qkv(const float *q, const float *k, const float *att, const float *datt, const float *dout, float *dq, float *dk, float *dv, int T, int D)
{
    size_t base = (size_t)blockIdx.x * T * D, abase = (size_t)blockIdx.x * T * T;
    int t = threadIdx.x;
    for (int d = 0; d < D; d++) {
        float a = 0.f, b = 0.f, c = 0.f;
        for (int s = 0; s < T; s++) {
            a += datt[abase + t * T + s] * k[base + s * D + d];
            b += datt[abase + s * T + t] * q[base + s * D + d];
            c += att[abase + s * T + t] * dout[base + s * D + d];
        }
        dq[base + t * D + d] = a;
        dk[base + t * D + d] = b;
        dv[base + t * D + d] = c;
    }
}

void nn_attention_forward(const float *q, const float *k, const float *v, float *att, float *out, int batch, int T, int D)
{
    att_forward<<<batch, T>>>(q, k, v, att, out, T, D);
}

void nn_attention_backward(const float *q, const float *k, const float *v, const float *att, const float *dout, float *datt,
                           float *dq, float *dk, float *dv, int batch, int T, int D)
{
    att_backward_scores<<<batch, T>>>(v, att, dout, datt, T, D);
    att_backward_qkv<<<batch, T>>>(q, k, att, datt, dout, dq, dk, dv, T, D);
}
