#include "rnn.cuh"

#define TPB 64
#define BLOCKS(n) (((n) + TPB - 1) / TPB)

/* h is [T + 1, B, H]; h[0] is zero; x is [B, T] */
__global__ void step_forward(rnn_shape s, rnn_weights w, const float *x, const float *prev, float *next, int t)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= s.batch * s.hidden) return;
    int b = id / s.hidden, j = id % s.hidden;
    float a = w.b[j] + w.wx[j] * x[b * s.steps + t];
    for (int k = 0; k < s.hidden; k++) a += w.wh[j * s.hidden + k] * prev[b * s.hidden + k];
    next[id] = tanhf(a);
}

__global__ void readout(rnn_shape s, rnn_weights w, const float *h, float *y)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= s.batch) return;
    float a = *w.c;
    for (int k = 0; k < s.hidden; k++) a += w.v[k] * h[b * s.hidden + k];
    y[b] = a;
}

void rnn_forward(rnn_shape s, rnn_weights w, const float *x, float *h, float *y)
{
    int bh = s.batch * s.hidden;
    for (int t = 0; t < s.steps; t++)
        step_forward<<<BLOCKS(bh), TPB>>>(s, w, x, h + t * bh, h + (t + 1) * bh, t);
    readout<<<BLOCKS(s.batch), TPB>>>(s, w, h + s.steps * bh, y);
}

__global__ void output_grad(rnn_shape s, rnn_weights w, rnn_weights g, const float *h, const float *y, const float *target,
                            float *dh, float *loss)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= s.batch) return;
    float e = y[b] - target[b];
    atomicAdd(loss, e * e / s.batch);
    float d = 2.0f * e / s.batch;
    atomicAdd(g.c, d);
    for (int k = 0; k < s.hidden; k++) {
        atomicAdd(&g.v[k], d * h[b * s.hidden + k]);
        dh[b * s.hidden + k] = d * w.v[k];
    }
}

/* dh becomes the gradient before tanh */
__global__ void through_tanh(float *dh, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dh[i] *= 1.0f - h[i] * h[i];
}

__global__ void weight_grad(rnn_shape s, rnn_weights g, const float *dz, const float *prev, const float *x, int t)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= s.hidden * s.hidden) return;
    int j = id / s.hidden, k = id % s.hidden;
    float a = 0, ax = 0, ab = 0;
    for (int b = 0; b < s.batch; b++) {
        float d = dz[b * s.hidden + j];
        a += d * prev[b * s.hidden + k];
        ax += d * x[b * s.steps + t];
        ab += d;
    }
    g.wh[id] += a;
    if (k == 0) {
        g.wx[j] += ax;
        g.b[j] += ab;
    }
}

__global__ void hidden_grad(rnn_shape s, rnn_weights w, const float *dz, float *dprev)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= s.batch * s.hidden) return;
    int b = id / s.hidden, k = id % s.hidden;
    float a = 0;
    for (int j = 0; j < s.hidden; j++) a += w.wh[j * s.hidden + k] * dz[b * s.hidden + j];
    dprev[id] = a;
}

void rnn_backward(rnn_shape s, rnn_weights w, rnn_weights g, const float *x, const float *target, const float *h,
                  const float *y, float *dh, float *dh_next, float *loss)
{
    int bh = s.batch * s.hidden;
    output_grad<<<BLOCKS(s.batch), TPB>>>(s, w, g, h + s.steps * bh, y, target, dh, loss);
    for (int t = s.steps - 1; t >= 0; t--) {
        through_tanh<<<BLOCKS(bh), TPB>>>(dh, h + (t + 1) * bh, bh);
        weight_grad<<<BLOCKS(s.hidden * s.hidden), TPB>>>(s, g, dh, h + t * bh, x, t);
        hidden_grad<<<BLOCKS(bh), TPB>>>(s, w, dh, dh_next);
        float *tmp = dh;
        dh = dh_next;
        dh_next = tmp;
    }
}

__global__ void sum_squares_kernel(const float *a, int n, float *out)
{
    __shared__ float part[TPB];
    float acc = 0;
    for (int i = threadIdx.x; i < n; i += TPB) acc += a[i] * a[i];
    part[threadIdx.x] = acc;
    __syncthreads();
    for (int half = TPB / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out += part[0];
}

void sum_squares(const float *a, int n, float *out)
{
    sum_squares_kernel<<<1, TPB>>>(a, n, out);
}

__global__ void sgd_kernel(float *w, const float *g, int n, float lr, const float *norm2, float max_norm)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float norm = sqrtf(*norm2);
    float k = norm > max_norm ? max_norm / norm : 1.0f;
    w[i] -= lr * k * g[i];
}

void sgd_clipped(float *w, const float *g, int n, float lr, const float *norm2, float max_norm)
{
    sgd_kernel<<<BLOCKS(n), TPB>>>(w, g, n, lr, norm2, max_norm);
}
