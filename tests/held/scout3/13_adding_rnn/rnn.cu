// Elman RNN on the adding problem, full BPTT, Adam, gradient clipping.
// Activations are time-major: [T][B][features].
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define T 12
#define B 48
#define I 2
#define H 24

static float *zeros(size_t n)
{
    float *p;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) exit(1);
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

/* h_t = tanh(x_t Wx + h_{t-1} Wh + b) */
__global__ void cell_forward(const float *x, const float *hp, const float *wx, const float *wh, const float *b, float *h)
{
    int s = blockIdx.x, j = threadIdx.x;
    float a = b[j];
    for (int i = 0; i < I; i++) a += x[s * I + i] * wx[i * H + j];
    for (int i = 0; i < H; i++) a += hp[s * H + i] * wh[i * H + j];
    h[s * H + j] = tanhf(a);
}

__global__ void readout(const float *h, const float *v, const float *c, const float *y, float *dout, float *loss)
{
    int s = threadIdx.x;
    if (s >= B) return;
    float o = c[0];
    for (int j = 0; j < H; j++) o += h[s * H + j] * v[j];
    float e = o - y[s];
    dout[s] = 2.f * e / B;
    atomicAdd(loss, e * e / B);
}

__global__ void readout_backward(const float *h, const float *v, const float *dout, float *dv, float *dc, float *dh)
{
    int j = threadIdx.x;
    float s = 0.f, sc = 0.f;
    for (int r = 0; r < B; r++) {
        s += dout[r] * h[r * H + j];
        sc += dout[r];
        dh[r * H + j] = dout[r] * v[j];
    }
    dv[j] = s;
    if (j == 0) dc[0] = sc;
}

/* dh -> da in place, then dhp = da Wh^T */
__global__ void cell_backward(const float *h, float *dh, const float *wh, float *dhp)
{
    __shared__ float da[H];
    int s = blockIdx.x, j = threadIdx.x;
    float ht = h[s * H + j];
    da[j] = dh[s * H + j] * (1.f - ht * ht);
    dh[s * H + j] = da[j];
    __syncthreads();
    float a = 0.f;
    for (int k = 0; k < H; k++) a += da[k] * wh[j * H + k];
    dhp[s * H + j] = a;
}

__global__ void accumulate_weights(const float *x, const float *hp, const float *da, float *dwx, float *dwh, float *db)
{
    int row = blockIdx.x, j = threadIdx.x;
    float a = 0.f;
    for (int s = 0; s < B; s++) {
        float d = da[s * H + j];
        a += d * (row < I ? x[s * I + row] : row < I + H ? hp[s * H + row - I] : 1.f);
    }
    if (row < I) dwx[row * H + j] += a;
    else if (row < I + H) dwh[(row - I) * H + j] += a;
    else db[j] += a;
}

__global__ void square_sum(const float *g, int n, float *out)
{
    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += g[i] * g[i];
    __shared__ float sh[64];
    sh[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x; i++) s += sh[i];
        *out += s;
    }
}

__global__ void adam(float *p, const float *g, float *m, float *v, int n, const float *norm2, float clip,
                     float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float norm = sqrtf(*norm2);
    float gi = norm > clip ? g[i] * clip / norm : g[i];
    m[i] = 0.9f * m[i] + 0.1f * gi;
    v[i] = 0.99f * v[i] + 0.01f * gi * gi;
    p[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-7f);
}

static void make_batch(float *x, float *y)
{
    for (int b = 0; b < B; b++) {
        int p = rand() % (T / 2), q = T / 2 + rand() % (T / 2);
        y[b] = 0.f;
        for (int t = 0; t < T; t++) {
            float v = rand() / (float)RAND_MAX;
            int mark = t == p || t == q;
            x[(t * B + b) * I] = v;
            x[(t * B + b) * I + 1] = (float)mark;
            if (mark) y[b] += v;
        }
    }
}

int main(void)
{
    enum { WX, WH, BH, V, C, NP };
    const int size[NP] = {I * H, H * H, H, H, 1};
    float *p[NP], *g[NP], *m[NP], *v[NP];
    srand(21);
    for (int k = 0; k < NP; k++) {
        p[k] = zeros(size[k]); g[k] = zeros(size[k]);
        m[k] = zeros(size[k]); v[k] = zeros(size[k]);
        if (k == BH || k == C) continue;
        float *h = (float *)malloc(size[k] * sizeof(float)), r = k == WX ? 0.7f : k == WH ? 0.3f : 0.2f;
        for (int i = 0; i < size[k]; i++) h[i] = r * (2.f * rand() / RAND_MAX - 1.f);
        cudaMemcpy(p[k], h, size[k] * sizeof(float), cudaMemcpyHostToDevice);
        free(h);
    }
    float *x = zeros(T * B * I), *y = zeros(B);
    float *h = zeros((T + 1) * B * H);          /* h[0] stays zero */
    float *dh = zeros((T + 1) * B * H), *dout = zeros(B), *loss = zeros(1), *norm2 = zeros(1);
    float hx[T * B * I], hy[B];

    for (int step = 1; step <= 200; step++) {
        make_batch(hx, hy);
        cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice);
        cudaMemcpy(y, hy, sizeof(hy), cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, sizeof(float));
        cudaMemset(norm2, 0, sizeof(float));
        for (int k = WX; k <= BH; k++) cudaMemset(g[k], 0, size[k] * sizeof(float));

        for (int t = 0; t < T; t++)
            cell_forward<<<B, H>>>(x + t * B * I, h + t * B * H, p[WX], p[WH], p[BH], h + (t + 1) * B * H);
        readout<<<1, 64>>>(h + T * B * H, p[V], p[C], y, dout, loss);
        readout_backward<<<1, H>>>(h + T * B * H, p[V], dout, g[V], g[C], dh + T * B * H);
        for (int t = T - 1; t >= 0; t--) {
            cell_backward<<<B, H>>>(h + (t + 1) * B * H, dh + (t + 1) * B * H, p[WH], dh + t * B * H);
            accumulate_weights<<<I + H + 1, H>>>(x + t * B * I, h + t * B * H, dh + (t + 1) * B * H, g[WX], g[WH], g[BH]);
        }
        for (int k = 0; k < NP; k++) square_sum<<<1, 64>>>(g[k], size[k], norm2);
        float c1 = 1.f - powf(0.9f, step), c2 = 1.f - powf(0.99f, step);
        for (int k = 0; k < NP; k++)
            adam<<<(size[k] + 63) / 64, 64>>>(p[k], g[k], m[k], v[k], size[k], norm2, 1.f, 0.01f, c1, c2);
        if (step % 20 == 0) {
            float hl;
            cudaMemcpy(&hl, loss, sizeof(float), cudaMemcpyDeviceToHost);
            printf("step %d mse %.6f\n", step, hl);
        }
    }
    return 0;
}
