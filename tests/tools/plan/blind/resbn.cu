// Residual MLP with batch norm (running mean and variance for the test), regression, SGD with momentum; everything in
// managed memory. Truth: gradients for the weights (truth_step) and, for the running statistics only, state
// (truth_by_state around each batch). Batches: 36 (3 epochs of 12 batches of 32).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define IN      8
#define H       16
#define NB      32
#define BATCHES 12
#define EPOCHS  3
#define TEST    64

struct Managed { // everything that derives from this lies in managed memory
    void *operator new(size_t n)
    {
        void *p;
        if (cudaMallocManaged(&p, n) != cudaSuccess)
            abort();
        return p;
    }
    void operator delete(void *p)
    {
        cudaDeviceSynchronize();
        cudaFree(p);
    }
};
struct Params {
    float w0[IN * H], b0[H], w1[H * H], gamma[H], beta[H], w2[H], b2;
};
#define NPARAM (sizeof(Params) / sizeof(float))
struct Net : Managed {
    Params p, g, vel;
    float run_mean[H], run_var[H];
    float mean[H], inv[H];
    float h0[TEST * H], a[TEST * H], xh[TEST * H], h1[TEST * H], out[TEST], dout[NB], dh[NB * H], da[NB * H];
    float loss;
};
struct Data : Managed {
    float x[NB * BATCHES * IN], y[NB * BATCHES], tx[TEST * IN], ty[TEST];
};

__global__ void
layer0(Net *n, const float *x)
{
    int s = blockIdx.x, j = threadIdx.x;
    float v = n->p.b0[j];
    for (int i = 0; i < IN; i++)
        v += x[s * IN + i] * n->p.w0[i * H + j];
    n->h0[s * H + j] = fmaxf(v, 0.f);
}
__global__ void
layer1(Net *n)
{
    int s = blockIdx.x, j = threadIdx.x;
    float v = 0;
    for (int i = 0; i < H; i++)
        v += n->h0[s * H + i] * n->p.w1[i * H + j];
    n->a[s * H + j] = v;
}
__global__ void
batch_stats(Net *n)
{
    int j = threadIdx.x;
    float m = 0, v = 0;
    for (int s = 0; s < NB; s++)
        m += n->a[s * H + j];
    m /= NB;
    for (int s = 0; s < NB; s++) {
        float d = n->a[s * H + j] - m;
        v += d * d;
    }
    n->mean[j] = m;
    n->inv[j] = rsqrtf(v / NB + 1e-5f);
    n->run_mean[j] += 0.1f * (m - n->run_mean[j]);
    n->run_var[j] += 0.1f * (v / (NB - 1) - n->run_var[j]);
}
__global__ void
use_running(Net *n)
{
    int j = threadIdx.x;
    n->mean[j] = n->run_mean[j];
    n->inv[j] = rsqrtf(n->run_var[j] + 1e-5f);
}
__global__ void
norm_skip_out(Net *n)
{
    __shared__ float part[H];
    int s = blockIdx.x, j = threadIdx.x;
    float xh = (n->a[s * H + j] - n->mean[j]) * n->inv[j];
    float h = n->h0[s * H + j] + fmaxf(xh * n->p.gamma[j] + n->p.beta[j], 0.f);
    n->xh[s * H + j] = xh;
    n->h1[s * H + j] = h;
    part[j] = h * n->p.w2[j];
    __syncthreads();
    if (j == 0) {
        float o = n->p.b2;
        for (int k = 0; k < H; k++)
            o += part[k];
        n->out[s] = o;
    }
}
__global__ void
mse(Net *n, const float *y)
{
    __shared__ float q[NB];
    int s = threadIdx.x;
    float e = n->out[s] - y[s];
    n->dout[s] = 2 * e / NB;
    q[s] = e * e;
    __syncthreads();
    if (s == 0) {
        float t = 0;
        for (int k = 0; k < NB; k++)
            t += q[k];
        n->loss = t / NB;
    }
}
__global__ void
back_bn(Net *n)
{
    int j = threadIdx.x;
    float dg = 0, db = 0, dw2 = 0;
    for (int s = 0; s < NB; s++) {
        float d = n->dout[s] * n->p.w2[j], xh = n->xh[s * H + j];
        dw2 += n->dout[s] * n->h1[s * H + j];
        n->dh[s * H + j] = d; // along the skip
        if (xh * n->p.gamma[j] + n->p.beta[j] <= 0)
            d = 0;
        n->da[s * H + j] = d;
        dg += d * xh;
        db += d;
    }
    for (int s = 0; s < NB; s++)
        n->da[s * H + j] = n->p.gamma[j] * n->inv[j] * (n->da[s * H + j] - db / NB - n->xh[s * H + j] * dg / NB);
    n->g.gamma[j] = dg;
    n->g.beta[j] = db;
    n->g.w2[j] = dw2;
    if (j == 0) {
        float t = 0;
        for (int s = 0; s < NB; s++)
            t += n->dout[s];
        n->g.b2 = t;
    }
}
__global__ void
back_skip(Net *n)
{
    int s = blockIdx.x, j = threadIdx.x;
    float d = n->dh[s * H + j];
    for (int k = 0; k < H; k++)
        d += n->da[s * H + k] * n->p.w1[j * H + k];
    n->dh[s * H + j] = n->h0[s * H + j] > 0 ? d : 0;
}
__global__ void
back_weights(Net *n, const float *x)
{
    int i = blockIdx.x, j = threadIdx.x;
    float t = 0;
    if (i < H) {
        for (int s = 0; s < NB; s++)
            t += n->h0[s * H + i] * n->da[s * H + j];
        n->g.w1[i * H + j] = t;
        return;
    }
    i -= H;
    if (i < IN) {
        for (int s = 0; s < NB; s++)
            t += x[s * IN + i] * n->dh[s * H + j];
        n->g.w0[i * H + j] = t;
        return;
    }
    for (int s = 0; s < NB; s++)
        t += n->dh[s * H + j];
    n->g.b0[j] = t;
}
__global__ void
momentum(Net *n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NPARAM)
        return;
    float *w = (float *)&n->p, *g = (float *)&n->g, *v = (float *)&n->vel;
    v[i] = 0.8f * v[i] + g[i] + 1e-4f * w[i];
    w[i] -= lr * v[i];
}

static float
r11()
{
    return 2.f * rand() / RAND_MAX - 1.f;
}
static float
target(const float *x)
{
    return sinf(2 * x[0]) + x[1] * x[2] - 0.5f * x[3] + fabsf(x[4]);
}

int
main()
{
    srand(5);
    Net *n = new Net();
    Data *d = new Data();
    for (float &v : d->x)
        v = r11();
    for (float &v : d->tx)
        v = r11();
    for (int i = 0; i < NB * BATCHES; i++)
        d->y[i] = target(d->x + i * IN) + 0.02f * r11();
    for (int i = 0; i < TEST; i++)
        d->ty[i] = target(d->tx + i * IN);
    for (float &v : n->p.w0)
        v = 0.6f * r11();
    for (float &v : n->p.w1)
        v = 0.4f * r11();
    for (float &v : n->p.w2)
        v = 0.3f * r11();
    for (int j = 0; j < H; j++)
        n->p.gamma[j] = n->run_var[j] = 1;

    truth_by_state stats;
    for (int e = 0; e < EPOCHS; e++) {
        float mean = 0;
        for (int b = 0; b < BATCHES; b++) {
            const float *x = d->x + b * NB * IN, *y = d->y + b * NB;
            stats.begin({{n->run_mean, H}, {n->run_var, H}});
            layer0<<<NB, H>>>(n, x);
            layer1<<<NB, H>>>(n);
            batch_stats<<<1, H>>>(n);
            norm_skip_out<<<NB, H>>>(n);
            mse<<<1, NB>>>(n, y);
            back_bn<<<1, H>>>(n);
            back_skip<<<NB, H>>>(n);
            back_weights<<<H + IN + 1, H>>>(n, x);
            if (truth_step({{&n->g, NPARAM}}))
                momentum<<<(NPARAM + 63) / 64, 64>>>(n, 0.04f);
            stats.end();
            if (cudaDeviceSynchronize() != cudaSuccess) {
                puts("cuda error");
                return 1;
            }
            mean += (n->loss - mean) / (b + 1);
            if (b % 4 == 3)
                printf("epoch %d batch %2d loss %.5f running mean %.5f\n", e, b, n->loss, mean);
        }
    }
    stats.close();
    layer0<<<TEST, H>>>(n, d->tx);
    layer1<<<TEST, H>>>(n);
    use_running<<<1, H>>>(n);
    norm_skip_out<<<TEST, H>>>(n);
    cudaDeviceSynchronize();
    float t = 0;
    for (int i = 0; i < TEST; i++)
        t += (n->out[i] - d->ty[i]) * (n->out[i] - d->ty[i]) / TEST;
    printf("test mse with running statistics %.5f\n", t);
    truth_dump({{&n->p, NPARAM}, {n->run_mean, H}, {n->run_var, H}});
    delete n;
    delete d;
    return 0;
}
