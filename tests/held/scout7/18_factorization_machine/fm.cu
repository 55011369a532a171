// Factorization machine for click prediction: sum over pairs of field embeddings plus linear terms.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

#define FIELDS 5
#define BUCKETS 60
#define FEATURES (FIELDS * BUCKETS)
#define RANK 6
#define SAMPLES 12800
#define BATCH_SIZE 128

struct Sample {
    int feature[FIELDS];
    float click;
};

class FactorizationMachine {
public:
    FactorizationMachine()
    {
        cudaMalloc(&w0, sizeof(float));
        cudaMalloc(&w, FEATURES * sizeof(float));
        cudaMalloc(&v, FEATURES * RANK * sizeof(float));
        cudaMalloc(&grad_w0, sizeof(float));
        cudaMalloc(&grad_w, FEATURES * sizeof(float));
        cudaMalloc(&grad_v, FEATURES * RANK * sizeof(float));
        cudaMalloc(&samples, BATCH_SIZE * sizeof(Sample));
        cudaMalloc(&delta, BATCH_SIZE * sizeof(float));
        cudaMalloc(&loss, BATCH_SIZE * sizeof(float));
        cudaMemset(w0, 0, sizeof(float));
        cudaMemset(w, 0, FEATURES * sizeof(float));
        std::vector<float> init(FEATURES * RANK);
        for (float &x : init) x = 0.2f * ((float)rand() / RAND_MAX - 0.5f);
        cudaMemcpy(v, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    ~FactorizationMachine()
    {
        for (void *p : { (void *)w0, (void *)w, (void *)v, (void *)grad_w0, (void *)grad_w, (void *)grad_v, (void *)samples, (void *)delta, (void *)loss })
            cudaFree(p);
    }
    float trainBatch(const Sample *batch, float lr);

private:
    float *w0, *w, *v;
    float *grad_w0, *grad_w, *grad_v;
    Sample *samples;
    float *delta, *loss;
};

__global__ void forwardKernel(const Sample *s, const float *w0, const float *w, const float *v, float *delta, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float y = *w0;
    for (int f = 0; f < FIELDS; f++) y += w[s[i].feature[f]];
    for (int r = 0; r < RANK; r++) {
        float sum = 0, sq = 0;
        for (int f = 0; f < FIELDS; f++) {
            float x = v[s[i].feature[f] * RANK + r];
            sum += x;
            sq += x * x;
        }
        y += 0.5f * (sum * sum - sq);
    }
    float p = 1.f / (1.f + expf(-y));
    delta[i] = p - s[i].click;
    loss[i] = -(s[i].click * logf(p + 1e-7f) + (1 - s[i].click) * logf(1 - p + 1e-7f));
}

// one thread a feature
__global__ void gradientKernel(const Sample *s, const float *delta, const float *v, float *gw0, float *gw, float *gv, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k > FEATURES) return;
    if (k == FEATURES) {
        float g = 0;
        for (int i = 0; i < n; i++) g += delta[i];
        *gw0 = g / n;
        return;
    }
    int field = k / BUCKETS;
    float g = 0, g2[RANK] = { 0 };
    for (int i = 0; i < n; i++) {
        if (s[i].feature[field] != k) continue;
        g += delta[i];
        for (int r = 0; r < RANK; r++) {
            float others = 0;
            for (int f = 0; f < FIELDS; f++)
                if (f != field) others += v[s[i].feature[f] * RANK + r];
            g2[r] += delta[i] * others;
        }
    }
    gw[k] = g / n;
    for (int r = 0; r < RANK; r++) gv[k * RANK + r] = g2[r] / n;
}

__global__ void updateKernel(float *p, const float *g, float lr, float lambda, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * (g[i] + lambda * p[i]);
}

float FactorizationMachine::trainBatch(const Sample *batch, float lr)
{
    cudaMemcpy(samples, batch, BATCH_SIZE * sizeof(Sample), cudaMemcpyHostToDevice);
    forwardKernel<<<(BATCH_SIZE + 63) / 64, 64>>>(samples, w0, w, v, delta, loss, BATCH_SIZE);
    gradientKernel<<<FEATURES / 64 + 1, 64>>>(samples, delta, v, grad_w0, grad_w, grad_v, BATCH_SIZE);
    updateKernel<<<1, 1>>>(w0, grad_w0, lr, 0.f, 1);
    updateKernel<<<(FEATURES + 63) / 64, 64>>>(w, grad_w, lr, 1e-5f, FEATURES);
    updateKernel<<<(FEATURES * RANK + 63) / 64, 64>>>(v, grad_v, lr, 1e-5f, FEATURES * RANK);
    float h[BATCH_SIZE], sum = 0;
    cudaMemcpy(h, loss, sizeof(h), cudaMemcpyDeviceToHost);
    for (int i = 0; i < BATCH_SIZE; i++) sum += h[i];
    return sum / BATCH_SIZE;
}

int main()
{
    srand(1001);
    std::vector<float> effect(FEATURES);
    for (auto &e : effect) e = 3.f * ((float)rand() / RAND_MAX - 0.5f);
    std::vector<Sample> log(SAMPLES);
    for (auto &s : log) {
        float y = -0.3f;
        for (int f = 0; f < FIELDS; f++) {
            s.feature[f] = f * BUCKETS + rand() % BUCKETS;
            y += effect[s.feature[f]];
        }
        y += effect[s.feature[0]] * effect[s.feature[1]];
        s.click = y > 0 ? 1.f : 0.f;
    }

    FactorizationMachine fm;
    float lr = 8.f, running = 0;
    const int batches = SAMPLES / BATCH_SIZE;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < batches; b++) {
            running += fm.trainBatch(&log[b * BATCH_SIZE], lr);
            if ((b + 1) % 20 == 0) {
                printf("pass %d batch %3d logloss %.4f\n", pass, b + 1, running / 20);
                running = 0;
            }
        }
    return 0;
}
