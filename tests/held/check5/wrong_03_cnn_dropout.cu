// A convolutional network on small pictures with dropout; masks come from a counter-based generator.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#define S 8            /* side of a picture */
#define O (S - 2)      /* side after a 3x3 convolution */
#define C 4            /* channels */
#define F (C * O * O)  /* features */
#define K 3            /* classes */
#define BATCH 32
#define DATA 256
#define STEPS 80

__device__ float random01(unsigned a, unsigned b)
{
    unsigned h = a * 0x9E3779B9u ^ (b + 0x7F4A7C15u) * 0x85EBCA6Bu;
    h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12, h *= 0x297A2D39u, h ^= h >> 15;
    return (h >> 8) / 16777216.f;
}

__global__ void convolve(const float *x, const float *k, float *f)
{
    int n = blockIdx.x;
    for (int i = threadIdx.x; i < F; i += blockDim.x) {
        int c = i / (O * O), r = i / O % O, q = i % O;
        float s = 0;
        for (int a = 0; a < 3; ++a)
            for (int b = 0; b < 3; ++b)
                s += x[n * S * S + (r + a) * S + q + b] * k[c * 9 + a * 3 + b];
        f[n * F + i] = fmaxf(s, 0.f);
    }
}

__global__ void dropout(float *f, float *mask, unsigned step, float keep, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    mask[i] = random01(step, i) < keep ? 1 / keep : 0;
    f[i] *= mask[i];
}

__global__ void softmax(const float *f, const float *w, const int *y, float *d, float *loss, int count)
{
    int n = blockIdx.x;
    float p[K], z = 0;
    for (int k = 0; k < K; ++k) {
        float s = 0;
        for (int i = 0; i < F; ++i)
            s += f[n * F + i] * w[i * K + k];
        z += p[k] = expf(s);
    }
    for (int k = 0; k < K; ++k)
        d[n * K + k] = (p[k] / z - (k == y[n])) / count;
    loss[n] = -logf(p[y[n]] / z);
}

__global__ void head_gradient(const float *f, const float *d, float *g, int count)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += f[n * F + i] * d[n * K + k];
    g[i * K + k] = s;
}

__global__ void feature_gradient(const float *f, const float *mask, const float *w, const float *d, float *df)
{
    int n = blockIdx.x;
    for (int i = threadIdx.x; i < F; i += blockDim.x) {
        float s = 0;
        for (int k = 0; k < K; ++k)
            s += d[n * K + k] * w[i * K + k];
        df[n * F + i] = f[n * F + i] > 0 ? s * mask[n * F + i] : 0.f;
    }
}

__global__ void kernel_gradient(const float *x, const float *df, float *g, int count)
{
    int c = threadIdx.x / 9, a = threadIdx.x % 9 / 3, b = threadIdx.x % 3;
    float s = 0;
    for (int n = 0; n < count; ++n)
        for (int i = 0; i < O * O; ++i)
            s += df[n * F + c * O * O + i] * x[n * S * S + (i / O + a) * S + i % O + b];
    g[threadIdx.x] = s;
}

__global__ void update(float *w, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

static unsigned lcg = 12345;
static float uniform() { return ((lcg = lcg * 1103515245u + 12345u) >> 8 & 0xffff) / 32768.f - 1; }

int main()
{
    std::vector<float> hx(DATA * S * S), hk(C * 9), hw(F * K);
    std::vector<int> hy(DATA);
    for (int n = 0; n < DATA; ++n) {
        hy[n] = n * 7 % K;
        for (int i = 0; i < S * S; ++i) {
            int r = i / S, q = i % S;
            bool on = hy[n] == 0 ? r % 3 == n % 3 : hy[n] == 1 ? q % 3 == n % 3 : (r + q) % 3 == n % 3;
            hx[n * S * S + i] = on + .7f * uniform();
        }
    }
    for (float &v : hk)
        v = .4f * uniform();
    for (float &v : hw)
        v = .1f * uniform();
    float *x, *k, *w, *gk, *gw, *f, *df, *mask, *d, *loss;
    int *y;
    struct { float **p; size_t n; } all[] = {{&x, hx.size()}, {&k, hk.size()}, {&w, hw.size()}, {&gk, hk.size()},
        {&gw, hw.size()}, {&f, BATCH * F}, {&df, BATCH * F}, {&mask, BATCH * F}, {&d, BATCH * K}, {&loss, BATCH}};
    for (auto &a : all)
        cudaMalloc(a.p, a.n * sizeof(float));
    cudaMalloc(&y, DATA * sizeof(int));
    cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy.data(), hy.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(k, hk.data(), hk.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(w, hw.data(), hw.size() * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(k, C * 9, DDP_FLOAT32);
    DDP_PARAMETER(w, F * K, DDP_FLOAT32);
    DDP_GRADIENT(gk, C * 9, DDP_FLOAT32);
    DDP_GRADIENT(gw, F * K, DDP_FLOAT32);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int at = step * BATCH % DATA + (int)first, n = (int)count;
        convolve<<<n, 48, 0, stream>>>(x + at * S * S, k, f);
        dropout<<<(n * F + 127) / 128, 128, 0, stream>>>(f, mask, step, .6f, n * F);
        softmax<<<n, 1, 0, stream>>>(f, w, y + at, d, loss, n);
        head_gradient<<<F, K, 0, stream>>>(f, d, gw, n);
        feature_gradient<<<n, 48, 0, stream>>>(f, mask, w, d, df);
        kernel_gradient<<<1, C * 9, 0, stream>>>(x + at * S * S, df, gk, n);
        DDP_STEP(stream);
        update<<<(F * K + 63) / 64, 64, 0, stream>>>(w, gw, .2f, F * K);
        update<<<1, 64, 0, stream>>>(k, gk, .2f, C * 9);
        if (step % 10 == 9) {
            std::vector<float> l(n);
            cudaMemcpyAsync(l.data(), loss, n * 4, cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            float mean = 0;
            for (float v : l)
                mean += v / n;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d loss %.7g\n", step + 1, mean);
        }
    }
}
