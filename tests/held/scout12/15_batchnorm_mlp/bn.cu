// MLP with batch normalisation: 20 -> 40 (BN, ReLU) -> 5, SGD with momentum and weight decay; test set every 20 steps.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define D 20
#define H 40
#define C 5
#define BATCH_SIZE 80
#define TRAIN 1600
#define TEST 400

enum { W1, GAMMA, BETA, W2, B2, NPARAM };
const int count[NPARAM] = { D * H, H, H, H * C, C };

__global__ void matmul(const float *a, const float *w, const float *bias, float *y, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float s = bias ? bias[i % out] : 0.f;
    for (int k = 0; k < in; ++k) s += a[i / out * in + k] * w[k * out + i % out];
    y[i] = s;
}

// one thread a column
__global__ void bn_train(const float *z, const float *gamma, const float *beta, float *xhat, float *istd, float *rmean, float *rvar, float *y, int n)
{
    int j = threadIdx.x;
    float mu = 0, var = 0;
    for (int i = 0; i < n; ++i) mu += z[i * H + j];
    mu /= n;
    for (int i = 0; i < n; ++i) var += (z[i * H + j] - mu) * (z[i * H + j] - mu);
    var /= n;
    istd[j] = rsqrtf(var + 1e-5f);
    rmean[j] = 0.9f * rmean[j] + 0.1f * mu;
    rvar[j] = 0.9f * rvar[j] + 0.1f * var;
    for (int i = 0; i < n; ++i) {
        float x = (z[i * H + j] - mu) * istd[j];
        xhat[i * H + j] = x;
        y[i * H + j] = fmaxf(gamma[j] * x + beta[j], 0.f);
    }
}

__global__ void bn_eval(const float *z, const float *gamma, const float *beta, const float *rmean, const float *rvar, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * H) return;
    int j = i % H;
    y[i] = fmaxf(gamma[j] * (z[i] - rmean[j]) * rsqrtf(rvar[j] + 1e-5f) + beta[j], 0.f);
}

__global__ void bn_backward(const float *dy, const float *y, const float *xhat, const float *gamma, const float *istd, float *dgamma, float *dbeta, float *dz, int n)
{
    int j = threadIdx.x;
    float dg = 0, db = 0;
    for (int i = 0; i < n; ++i) {
        float d = y[i * H + j] > 0 ? dy[i * H + j] : 0.f;
        dg += d * xhat[i * H + j];
        db += d;
    }
    dgamma[j] = dg;
    dbeta[j] = db;
    for (int i = 0; i < n; ++i) {
        float d = y[i * H + j] > 0 ? dy[i * H + j] : 0.f;
        dz[i * H + j] = gamma[j] * istd[j] / n * (n * d - db - xhat[i * H + j] * dg);
    }
}

__global__ void softmax_ce(float *z, const int *t, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *r = z + i * C, m = r[0], s = 0;
    for (int c = 1; c < C; ++c) m = fmaxf(m, r[c]);
    for (int c = 0; c < C; ++c) s += (r[c] = expf(r[c] - m));
    for (int c = 0; c < C; ++c) {
        r[c] /= s;
        if (c == t[i]) atomicAdd(loss, -logf(r[c]) / n);
        r[c] = (r[c] - (c == t[i])) / n;
    }
}

__global__ void grad_w(const float *a, const float *d, float *gw, float *gb, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float s = 0, b = 0;
    for (int r = 0; r < n; ++r) { s += a[r * in + i / out] * d[r * out + i % out]; b += d[r * out + i % out]; }
    gw[i] = s;
    if (gb && i < out) gb[i] = b;
}

__global__ void grad_a(const float *d, const float *w, float *da, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0;
    for (int c = 0; c < out; ++c) s += d[i / in * out + c] * w[i % in * out + c];
    da[i] = s;
}

__global__ void sgd_momentum(float *w, const float *g, float *v, int n, float lr, float wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.9f * v[i] + g[i] + wd * w[i];
    w[i] -= lr * v[i];
}

static inline int nb(int n) { return (n + 127) / 128; }

int main()
{
    float *param[NPARAM], *grad[NPARAM], *mom[NPARAM];
    std::mt19937 rng(77);
    std::normal_distribution<float> normal(0.f, 1.f);
    for (int p = 0; p < NPARAM; ++p) {
        cudaMalloc(&param[p], count[p] * sizeof(float));
        cudaMalloc(&grad[p], count[p] * sizeof(float));
        cudaMalloc(&mom[p], count[p] * sizeof(float));
        cudaMemset(mom[p], 0, count[p] * sizeof(float));
        std::vector<float> h(count[p]);
        for (auto &x : h) x = p == W1 ? normal(rng) * 0.3f : p == W2 ? normal(rng) * 0.2f : p == GAMMA ? 1.f : 0.f;
        cudaMemcpy(param[p], h.data(), count[p] * sizeof(float), cudaMemcpyHostToDevice);
    }

    std::vector<float> xs((TRAIN + TEST) * D), centre(2 * C * D);
    std::vector<int> ts(TRAIN + TEST);
    for (auto &c : centre) c = normal(rng);
    for (int i = 0; i < TRAIN + TEST; ++i) {
        int k = rng() % (2 * C);
        ts[i] = k % C;
        for (int d = 0; d < D; ++d) xs[i * D + d] = 3.f * centre[k * D + d] + 2.5f * normal(rng);
    }

    const int M = std::max(BATCH_SIZE, TEST);
    float *x, *z, *xhat, *istd, *rmean, *rvar, *a, *o, *da, *dz, *loss;
    int *t;
    cudaMalloc(&x, M * D * 4); cudaMalloc(&t, M * 4); cudaMalloc(&z, M * H * 4); cudaMalloc(&xhat, M * H * 4);
    cudaMalloc(&istd, H * 4); cudaMalloc(&rmean, H * 4); cudaMalloc(&rvar, H * 4); cudaMalloc(&a, M * H * 4);
    cudaMalloc(&o, M * C * 4); cudaMalloc(&da, M * H * 4); cudaMalloc(&dz, M * H * 4);
    cudaMallocManaged(&loss, sizeof(float));
    cudaMemset(rmean, 0, H * 4);
    std::vector<float> ones(H, 1.f);
    cudaMemcpy(rvar, ones.data(), H * 4, cudaMemcpyHostToDevice);

    float lr = 0.05f;
    int step = 0;
    for (int epoch = 0; epoch < 5; ++epoch) {
        for (int i = 0; i < TRAIN; i += BATCH_SIZE, ++step) {
            cudaMemcpy(x, xs.data() + i * D, sizeof(float) * BATCH_SIZE * D, cudaMemcpyHostToDevice);
            cudaMemcpy(t, ts.data() + i, sizeof(int) * BATCH_SIZE, cudaMemcpyHostToDevice);
            *loss = 0;
            matmul<<<nb(BATCH_SIZE * H), 128>>>(x, param[W1], nullptr, z, BATCH_SIZE, D, H);
            bn_train<<<1, H>>>(z, param[GAMMA], param[BETA], xhat, istd, rmean, rvar, a, BATCH_SIZE);
            matmul<<<nb(BATCH_SIZE * C), 128>>>(a, param[W2], param[B2], o, BATCH_SIZE, H, C);
            softmax_ce<<<nb(BATCH_SIZE), 128>>>(o, t, loss, BATCH_SIZE);
            grad_w<<<nb(H * C), 128>>>(a, o, grad[W2], grad[B2], BATCH_SIZE, H, C);
            grad_a<<<nb(BATCH_SIZE * H), 128>>>(o, param[W2], da, BATCH_SIZE, H, C);
            bn_backward<<<1, H>>>(da, a, xhat, param[GAMMA], istd, grad[GAMMA], grad[BETA], dz, BATCH_SIZE);
            grad_w<<<nb(D * H), 128>>>(x, dz, grad[W1], nullptr, BATCH_SIZE, D, H);
            for (int p = 0; p < NPARAM; ++p)
                sgd_momentum<<<nb(count[p]), 128>>>(param[p], grad[p], mom[p], count[p], lr, p == W1 || p == W2 ? 1e-4f : 0.f);
            cudaDeviceSynchronize();

            if (step % 20 == 0) {
                float train_loss = *loss;
                cudaMemcpy(x, xs.data() + TRAIN * D, sizeof(float) * TEST * D, cudaMemcpyHostToDevice);
                cudaMemcpy(t, ts.data() + TRAIN, sizeof(int) * TEST, cudaMemcpyHostToDevice);
                *loss = 0;
                matmul<<<nb(TEST * H), 128>>>(x, param[W1], nullptr, z, TEST, D, H);
                bn_eval<<<nb(TEST * H), 128>>>(z, param[GAMMA], param[BETA], rmean, rvar, a, TEST);
                matmul<<<nb(TEST * C), 128>>>(a, param[W2], param[B2], o, TEST, H, C);
                softmax_ce<<<nb(TEST), 128>>>(o, t, loss, TEST);
                cudaDeviceSynchronize();
                printf("step %d train loss %.4f test %.4f\n", step, train_loss, *loss);
            }
        }
        if (epoch == 2) lr *= 0.2f;
    }
    return 0;
}
