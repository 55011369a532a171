// Neural survival model: proportional hazards with a small tanh network, trained on mini-batches by SGD with momentum.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define CK(call)                                                                     \
    do {                                                                             \
        cudaError_t e_ = (call);                                                     \
        if (e_ != cudaSuccess) {                                                     \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

const int PATIENTS = 512, FEATURES = 12, HIDDEN = 16, BATCH = 64;
const int NPARAM = FEATURES * HIDDEN + HIDDEN + HIDDEN;

struct Rng {
    unsigned long long s;
    float uniform() { s = s * 6364136223846793005ull + 1442695040888963407ull; return (float)((s >> 40) / 16777216.0); }
    float normal() { return sqrtf(-2.0f * logf(uniform() + 1e-7f)) * cosf(6.2831853f * uniform()); }
};

// theta: W [FEATURES][HIDDEN], b [HIDDEN], v [HIDDEN]
__global__ void forward(const float *x, const float *theta, float *h, float *eta, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *b = theta + FEATURES * HIDDEN, *v = b + HIDDEN;
    float out = 0;
    for (int k = 0; k < HIDDEN; ++k) {
        float a = b[k];
        for (int f = 0; f < FEATURES; ++f) a += x[i * FEATURES + f] * theta[f * HIDDEN + k];
        a = tanhf(a);
        h[i * HIDDEN + k] = a;
        out += a * v[k];
    }
    eta[i] = out;
}

__global__ void risk_sums(const float *eta, const float *time, float *risk, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int j = 0; j < n; ++j)
        if (time[j] >= time[i]) s += expf(eta[j]);
    risk[i] = s;
}

__global__ void partial_likelihood(const float *eta, const float *time, const float *event, const float *risk,
                                   float *deta, float *loss, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    float g = -event[j];
    for (int i = 0; i < n; ++i)
        if (event[i] > 0 && time[i] <= time[j]) g += expf(eta[j]) / risk[i];
    deta[j] = g / n;
    loss[j] = event[j] * (logf(risk[j]) - eta[j]);
}

__global__ void backward(const float *x, const float *h, const float *deta, const float *theta, float *grad, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= NPARAM) return;
    const float *v = theta + FEATURES * HIDDEN + HIDDEN;
    int k = p % HIDDEN, f = p / HIDDEN;
    float g = 0;
    for (int i = 0; i < n; ++i) {
        float a = h[i * HIDDEN + k];
        if (f < FEATURES) g += deta[i] * v[k] * (1 - a * a) * x[i * FEATURES + f];
        else if (f == FEATURES) g += deta[i] * v[k] * (1 - a * a);
        else g += deta[i] * a;
    }
    grad[p] = g;
}

__global__ void momentum_sgd(float *theta, float *vel, const float *grad, float lr, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    vel[p] = 0.8f * vel[p] + grad[p];
    theta[p] -= lr * vel[p];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Rng rng = {20240117};
    std::vector<float> x(PATIENTS * FEATURES), t(PATIENTS), e(PATIENTS), init(NPARAM);
    for (int i = 0; i < PATIENTS; ++i) {
        float hazard = 0;
        for (int f = 0; f < FEATURES; ++f) {
            x[i * FEATURES + f] = rng.normal();
            hazard += x[i * FEATURES + f] * (f % 3 == 0 ? 0.8f : -0.3f);
        }
        t[i] = -logf(rng.uniform() + 1e-6f) * expf(-hazard);
        e[i] = rng.uniform() < 0.7f ? 1.0f : 0.0f;
    }
    for (int p = 0; p < NPARAM; ++p) init[p] = 0.25f * rng.normal();

    float *dx, *dt, *de, *theta, *grad, *vel, *h, *eta, *risk, *deta, *loss;
    CK(cudaMalloc(&dx, x.size() * 4)); CK(cudaMalloc(&dt, PATIENTS * 4)); CK(cudaMalloc(&de, PATIENTS * 4));
    CK(cudaMalloc(&theta, NPARAM * 4)); CK(cudaMalloc(&grad, NPARAM * 4)); CK(cudaMalloc(&vel, NPARAM * 4));
    CK(cudaMalloc(&h, BATCH * HIDDEN * 4)); CK(cudaMalloc(&eta, BATCH * 4)); CK(cudaMalloc(&risk, BATCH * 4));
    CK(cudaMalloc(&deta, BATCH * 4)); CK(cudaMalloc(&loss, BATCH * 4));
    CK(cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dt, t.data(), PATIENTS * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(de, e.data(), PATIENTS * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(theta, init.data(), NPARAM * 4, cudaMemcpyHostToDevice));
    CK(cudaMemset(vel, 0, NPARAM * 4));
    DDP_PARAMETER(theta, NPARAM, DDP_FLOAT32);
    DDP_STATE(vel, NPARAM, DDP_FLOAT32);
    DDP_GRADIENT(grad, NPARAM, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(step * BATCH) % PATIENTS + first;
        int n = (int)count;
        forward<<<1, BATCH>>>(dx + at * FEATURES, theta, h, eta, n);
        risk_sums<<<1, BATCH>>>(eta, dt + at, risk, n);
        partial_likelihood<<<1, BATCH>>>(eta, dt + at, de + at, risk, deta, loss, n);
        backward<<<(NPARAM + 63) / 64, 64>>>(dx + at * FEATURES, h, deta, theta, grad, n);
        DDP_STEP(0);
        momentum_sgd<<<(NPARAM + 63) / 64, 64>>>(theta, vel, grad, 0.08f, NPARAM);
        if (step % 10 == 9) {
            std::vector<float> l(n);
            CK(cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost));
            float sum = 0;
            for (float v : l) sum += v;
            sum /= n;
            DDP_MEAN_AS("loss", &sum);
            printf("step %d  negative log likelihood %.4f\n", step + 1, sum);
        }
    }
    CK(cudaMemcpy(init.data(), theta, NPARAM * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(init.data(), 4, NPARAM, f);
        fclose(f);
    }
    return 0;
}
