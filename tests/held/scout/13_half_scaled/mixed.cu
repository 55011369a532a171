// Mixed precision training: weights, activations and gradients in half,
// master weights and momentum in float, dynamic loss scaling.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>

#define CUDA_OK(expr) { auto status = (expr); if (status != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); exit(1); } }

static const int kIn = 20, kHid = 48, kOut = 6, kBatch = 64, kSteps = 240;

template <typename T>
static T *gpu(size_t n)
{
    T *p;
    CUDA_OK(cudaMalloc(&p, n * sizeof(T)));
    CUDA_OK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}

// Y[n][o] = act(sum_i X[n][i] W[i][o] + b[o]), sums in float
__global__ void linear_half(const __half *X, const __half *W, const __half *b, __half *Y, int n, int in, int out, bool relu)
{
    int o = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (o >= out) return;
    float s = __half2float(b[o]);
    for (int i = 0; i < in; i++) s += __half2float(X[r * in + i]) * __half2float(W[i * out + o]);
    if (relu && s < 0) s = 0;
    Y[r * out + o] = __float2half(s);
}

__global__ void linear_half_wgrad(const __half *X, const __half *dY, __half *dW, __half *db, int n, int in, int out)
{
    int o = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (o >= out) return;
    float s = 0, t = 0;
    for (int r = 0; r < n; r++) {
        float d = __half2float(dY[r * out + o]);
        s += __half2float(X[r * in + i]) * d;
        t += d;
    }
    dW[i * out + o] = __float2half(s);
    if (i == 0) db[o] = __float2half(t);
}

__global__ void linear_half_dgrad(const __half *dY, const __half *W, const __half *act, __half *dX, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= in) return;
    float s = 0;
    for (int o = 0; o < out; o++) s += __half2float(dY[r * out + o]) * __half2float(W[i * out + o]);
    dX[r * in + i] = __float2half(__half2float(act[r * in + i]) > 0 ? s : 0.f);
}

__global__ void cross_entropy_half(const __half *Z, const int *label, __half *dZ, float *loss, int n, int classes, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float m = -INFINITY, s = 0;
    for (int c = 0; c < classes; c++) m = fmaxf(m, __half2float(Z[r * classes + c]));
    for (int c = 0; c < classes; c++) s += expf(__half2float(Z[r * classes + c]) - m);
    for (int c = 0; c < classes; c++) {
        float p = expf(__half2float(Z[r * classes + c]) - m) / s;
        dZ[r * classes + c] = __float2half(scale * (p - (c == label[r])) / n);
    }
    atomicAdd(loss, (m + logf(s) - __half2float(Z[r * classes + label[r]])) / n);
}

__global__ void find_overflow(const __half *g, int n, int *flag)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = __half2float(g[i]);
        if (isinf(v) || isnan(v)) *flag = 1;
    }
}

__global__ void master_update(float *master, float *vel, __half *w, const __half *g, int n, float inv_scale, float lr, float mom)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    vel[i] = mom * vel[i] + __half2float(g[i]) * inv_scale;
    master[i] -= lr * vel[i];
    w[i] = __float2half(master[i]);
}

struct HalfParam {
    int n;
    __half *w, *g;
    float *master, *vel;
};

static HalfParam make_param(int n, float sd, std::mt19937 &rng)
{
    HalfParam p = {n, gpu<__half>(n), gpu<__half>(n), gpu<float>(n), gpu<float>(n)};
    std::normal_distribution<float> d(0, 1);
    std::vector<float> f(n);
    std::vector<__half> h(n);
    for (int i = 0; i < n; i++) {
        f[i] = sd * d(rng);
        h[i] = __float2half(f[i]);
    }
    CUDA_OK(cudaMemcpy(p.master, f.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(p.w, h.data(), n * sizeof(__half), cudaMemcpyHostToDevice));
    return p;
}

int main()
{
    std::mt19937 rng(606);
    std::normal_distribution<float> nd(0, 1);
    float proto[kOut][kIn];
    for (auto &row : proto) for (float &v : row) v = nd(rng);

    HalfParam W1 = make_param(kIn * kHid, sqrtf(2.f / kIn), rng);
    HalfParam B1 = make_param(kHid, 0, rng);
    HalfParam W2 = make_param(kHid * kOut, sqrtf(1.f / kHid), rng);
    HalfParam B2 = make_param(kOut, 0, rng);
    HalfParam *all[] = {&W1, &B1, &W2, &B2};

    __half *X = gpu<__half>(kBatch * kIn), *A = gpu<__half>(kBatch * kHid), *dA = gpu<__half>(kBatch * kHid);
    __half *Z = gpu<__half>(kBatch * kOut), *dZ = gpu<__half>(kBatch * kOut);
    int *Y = gpu<int>(kBatch), *overflow = gpu<int>(1);
    float *loss = gpu<float>(1);

    float scale = 4194304.f;
    int good_steps = 0;
    std::vector<__half> hx(kBatch * kIn);
    std::vector<int> hy(kBatch);
    for (int step = 0; step < kSteps; step++) {
        for (int r = 0; r < kBatch; r++) {
            hy[r] = rng() % kOut;
            for (int i = 0; i < kIn; i++) hx[r * kIn + i] = __float2half(proto[hy[r]][i] + 1.3f * nd(rng));
        }
        CUDA_OK(cudaMemcpy(X, hx.data(), hx.size() * sizeof(__half), cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemcpy(Y, hy.data(), hy.size() * sizeof(int), cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemset(loss, 0, sizeof(float)));
        CUDA_OK(cudaMemset(overflow, 0, sizeof(int)));

        linear_half<<<dim3((kHid + 31) / 32, kBatch), 32>>>(X, W1.w, B1.w, A, kBatch, kIn, kHid, true);
        linear_half<<<dim3(1, kBatch), 32>>>(A, W2.w, B2.w, Z, kBatch, kHid, kOut, false);
        cross_entropy_half<<<(kBatch + 63) / 64, 64>>>(Z, Y, dZ, loss, kBatch, kOut, scale);
        linear_half_wgrad<<<dim3(1, kHid), 32>>>(A, dZ, W2.g, B2.g, kBatch, kHid, kOut);
        linear_half_dgrad<<<dim3((kHid + 31) / 32, kBatch), 32>>>(dZ, W2.w, A, dA, kHid, kOut);
        linear_half_wgrad<<<dim3((kHid + 31) / 32, kIn), 32>>>(X, dA, W1.g, B1.g, kBatch, kIn, kHid);

        // skip the step and halve the scale when a gradient has overflowed
        int bad = 0;
        for (HalfParam *p : all) find_overflow<<<(p->n + 127) / 128, 128>>>(p->g, p->n, overflow);
        CUDA_OK(cudaMemcpy(&bad, overflow, sizeof(int), cudaMemcpyDeviceToHost));
        if (bad) {
            scale *= 0.5f;
            good_steps = 0;
            printf("step %d: overflow, loss scale now %g\n", step, scale);
            continue;
        }
        for (HalfParam *p : all)
            master_update<<<(p->n + 127) / 128, 128>>>(p->master, p->vel, p->w, p->g, p->n, 1.f / scale, 0.05f, 0.9f);
        if (++good_steps == 200) {
            scale *= 2;
            good_steps = 0;
        }
        if (step % 20 == 0) {
            float l;
            CUDA_OK(cudaMemcpy(&l, loss, sizeof l, cudaMemcpyDeviceToHost));
            printf("step %d loss %.4f\n", step, l);
        }
    }
    return 0;
}
