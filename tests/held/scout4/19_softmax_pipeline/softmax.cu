// Softmax regression with Nesterov momentum. The next batch is copied while the present one is used.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int kRows = 12, kPixels = kRows * kRows, kClasses = 10;
constexpr int kTrain = 2560;
constexpr int kBatchSize = 128;
constexpr int kEpochs = 5;

static void check(cudaError_t e, int line)
{
    if (e == cudaSuccess) return;
    std::fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
    std::exit(1);
}
#define CK(x) check((x), __LINE__)

struct HostBatch {       // page-locked
    float images[kBatchSize * kPixels];
    int labels[kBatchSize];
};

struct Stage {
    HostBatch *host;
    float *images;
    int *labels;
    cudaEvent_t copied, used;
};

__global__ void softmaxRows(const float *x, const int *y, const float *w, const float *b, float *prob, float *loss)
{
    __shared__ float logit[kClasses];
    int row = blockIdx.x, c = threadIdx.x;
    if (c < kClasses) {
        float s = b[c];
        for (int p = 0; p < kPixels; ++p) s += x[row * kPixels + p] * w[p * kClasses + c];
        logit[c] = s;
    }
    __syncthreads();
    if (c < kClasses) {
        float m = logit[0], sum = 0;
        for (int k = 1; k < kClasses; ++k) m = fmaxf(m, logit[k]);
        for (int k = 0; k < kClasses; ++k) sum += expf(logit[k] - m);
        float q = expf(logit[c] - m) / sum;
        prob[row * kClasses + c] = q - (c == y[row] ? 1.0f : 0.0f);
        if (c == y[row]) atomicAdd(loss, -logf(fmaxf(q, 1e-12f)));
    }
}

__global__ void gradients(const float *x, const float *err, float *gw, float *gb)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < kPixels * kClasses) {
        int p = i / kClasses, c = i % kClasses;
        float s = 0;
        for (int r = 0; r < kBatchSize; ++r) s += x[r * kPixels + p] * err[r * kClasses + c];
        gw[i] = s * (1.0f / kBatchSize);
    } else if (i < kPixels * kClasses + kClasses) {
        int c = i - kPixels * kClasses;
        float s = 0;
        for (int r = 0; r < kBatchSize; ++r) s += err[r * kClasses + c];
        gb[c] = s * (1.0f / kBatchSize);
    }
}

__global__ void nesterov(float *w, const float *g, float *v, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float old = v[i];
        v[i] = mu * v[i] - lr * g[i];
        w[i] += -mu * old + (1 + mu) * v[i];
    }
}

int main()
{
    std::mt19937 rng(123);
    std::normal_distribution<float> normal;
    std::vector<float> images(kTrain * kPixels), proto(kClasses * kPixels);
    std::vector<int> labels(kTrain);
    for (float &p : proto) p = normal(rng) * 0.5f;
    for (int n = 0; n < kTrain; ++n) {
        labels[n] = rng() % kClasses;
        for (int p = 0; p < kPixels; ++p)
            images[n * kPixels + p] = proto[labels[n] * kPixels + p] + 1.5f * normal(rng);
    }

    float *w, *b, *gw, *gb, *vw, *vb, *err, *loss;
    const int nw = kPixels * kClasses;
    CK(cudaMalloc(&w, nw * sizeof(float)));
    CK(cudaMalloc(&b, kClasses * sizeof(float)));
    CK(cudaMalloc(&gw, nw * sizeof(float)));
    CK(cudaMalloc(&gb, kClasses * sizeof(float)));
    CK(cudaMalloc(&vw, nw * sizeof(float)));
    CK(cudaMalloc(&vb, kClasses * sizeof(float)));
    CK(cudaMalloc(&err, kBatchSize * kClasses * sizeof(float)));
    CK(cudaMalloc(&loss, sizeof(float)));
    CK(cudaMemset(w, 0, nw * sizeof(float)));
    CK(cudaMemset(b, 0, kClasses * sizeof(float)));
    CK(cudaMemset(vw, 0, nw * sizeof(float)));
    CK(cudaMemset(vb, 0, kClasses * sizeof(float)));

    cudaStream_t copyStream, computeStream;
    CK(cudaStreamCreateWithFlags(&copyStream, cudaStreamNonBlocking));
    CK(cudaStreamCreateWithFlags(&computeStream, cudaStreamNonBlocking));
    Stage stage[2];
    for (Stage &s : stage) {
        CK(cudaHostAlloc((void **)&s.host, sizeof(HostBatch), cudaHostAllocDefault));
        CK(cudaMalloc(&s.images, sizeof(s.host->images)));
        CK(cudaMalloc(&s.labels, sizeof(s.host->labels)));
        CK(cudaEventCreateWithFlags(&s.copied, cudaEventDisableTiming));
        CK(cudaEventCreateWithFlags(&s.used, cudaEventDisableTiming));
    }
    CK(cudaDeviceSynchronize());

    std::vector<int> perm(kTrain);
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), rng);
    int cursor = 0;

    // gathers the next rows of the permutation and starts their way to the device
    auto prefetch = [&](Stage &s) {
        CK(cudaEventSynchronize(s.copied));
        for (int i = 0; i < kBatchSize; ++i) {
            if (cursor == kTrain) {
                std::shuffle(perm.begin(), perm.end(), rng);
                cursor = 0;
            }
            int n = perm[cursor++];
            std::copy_n(&images[n * kPixels], kPixels, &s.host->images[i * kPixels]);
            s.host->labels[i] = labels[n];
        }
        CK(cudaStreamWaitEvent(copyStream, s.used, 0));
        CK(cudaMemcpyAsync(s.images, s.host->images, sizeof(s.host->images), cudaMemcpyHostToDevice, copyStream));
        CK(cudaMemcpyAsync(s.labels, s.host->labels, sizeof(s.host->labels), cudaMemcpyHostToDevice, copyStream));
        CK(cudaEventRecord(s.copied, copyStream));
    };

    const int perEpoch = kTrain / kBatchSize;
    prefetch(stage[0]);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        float lr = 0.1f * std::pow(0.5f, (float)epoch);
        CK(cudaMemsetAsync(loss, 0, sizeof(float), computeStream));
        for (int k = 0; k < perEpoch; ++k) {
            Stage &now = stage[(epoch * perEpoch + k) % 2];
            prefetch(stage[(epoch * perEpoch + k + 1) % 2]);

            CK(cudaStreamWaitEvent(computeStream, now.copied, 0));
            softmaxRows<<<kBatchSize, 32, 0, computeStream>>>(now.images, now.labels, w, b, err, loss);
            gradients<<<(nw + kClasses + 127) / 128, 128, 0, computeStream>>>(now.images, err, gw, gb);
            CK(cudaEventRecord(now.used, computeStream));
            nesterov<<<(nw + 127) / 128, 128, 0, computeStream>>>(w, gw, vw, lr, 0.9f, nw);
            nesterov<<<1, 32, 0, computeStream>>>(b, gb, vb, lr, 0.9f, kClasses);
        }
        float total;
        CK(cudaMemcpyAsync(&total, loss, sizeof(float), cudaMemcpyDeviceToHost, computeStream));
        CK(cudaStreamSynchronize(computeStream));
        std::printf("epoch %d lr %.4f loss %.4f\n", epoch, lr, total / (perEpoch * kBatchSize));
    }

    CK(cudaDeviceSynchronize());
    for (Stage &s : stage) {
        cudaFreeHost(s.host);
        cudaFree(s.images);
        cudaFree(s.labels);
        cudaEventDestroy(s.copied);
        cudaEventDestroy(s.used);
    }
    for (float *p : {w, b, gw, gb, vw, vb, err, loss}) cudaFree(p);
    cudaStreamDestroy(copyStream);
    cudaStreamDestroy(computeStream);
    return 0;
}
