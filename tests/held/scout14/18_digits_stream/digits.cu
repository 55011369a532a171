// Small convolutional network on 14x14 digits. The convolution is im2col and a cuBLAS product, activations are stored
// picture by picture, channels last. The next batch is copied while the present one is worked on.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CUDA(x)                                                                                        \
    do {                                                                                               \
        cudaError_t e_ = (x);                                                                          \
        if (e_ != cudaSuccess) { fprintf(stderr, "%s (line %d)\n", cudaGetErrorString(e_), __LINE__); exit(1); } \
    } while (0)
#define BLAS(x)                                                                          \
    do {                                                                                 \
        if ((x) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas (line %d)\n", __LINE__); exit(1); } \
    } while (0)

constexpr int SIDE = 14, PIX = SIDE * SIDE, K = 5, OUT = SIDE - K + 1, CH = 6, HALF = OUT / 2, FLAT = HALF * HALF * CH;
constexpr int HID = 30, CLS = 10, BATCH = 32, TRAIN = 576, EPOCHS = 3;

__global__ void im2col(const float *x, float *cols, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * OUT * OUT * K * K) return;
    int k = i % (K * K), p = i / (K * K), ox = p % OUT, oy = p / OUT % OUT, b = p / (OUT * OUT);
    cols[i] = x[b * PIX + (oy + k / K) * SIDE + ox + k % K];
}
__global__ void biasRelu(float *y, const float *b, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(y[i] + b[i % width], 0.f);
}
__global__ void pool(const float *y, float *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * FLAT) return;
    int c = i % CH, x = i / CH % HALF, r = i / (CH * HALF) % HALF, b = i / FLAT;
    float s = 0.f;
    for (int q = 0; q < 4; q++) s += y[((b * OUT + 2 * r + q / 2) * OUT + 2 * x + q % 2) * CH + c];
    p[i] = 0.25f * s;
}
__global__ void unpool(const float *dp, const float *y, float *dy, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * OUT * OUT * CH) return;
    int c = i % CH, x = i / CH % OUT, r = i / (CH * OUT) % OUT, b = i / (CH * OUT * OUT);
    dy[i] = y[i] > 0.f ? 0.25f * dp[((b * HALF + r / 2) * HALF + x / 2) * CH + c] : 0.f;
}
__global__ void reluBack(const float *y, float *d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0.f) d[i] = 0.f;
}
__global__ void softmax(const float *z, const float *b, const int *label, float *d, float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v[CLS], m = -1e30f, s = 0.f;
    for (int c = 0; c < CLS; c++) m = fmaxf(m, v[c] = z[i * CLS + c] + b[c]);
    for (int c = 0; c < CLS; c++) s += expf(v[c] - m);
    for (int c = 0; c < CLS; c++) d[i * CLS + c] = expf(v[c] - m) / s - (c == label[i]);
    loss[i] = m + logf(s) - v[label[i]];
}
__global__ void momentum(float *w, const float *g, float *v, int n, float rate, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.9f * v[i] - rate * (g[i] + decay * w[i]);
    w[i] += v[i];
}

static float *dev(size_t n) {
    float *p;
    CUDA(cudaMalloc(&p, n * sizeof(float)));
    CUDA(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

// w is stored with the outputs running fastest: out x in, column major
struct Product {
    int in, out;
    float *w, *b, *gw, *gb, *vw, *vb;
    Product(int i, int o, std::mt19937 &rng) : in(i), out(o), w(dev(i * o)), b(dev(o)), gw(dev(i * o)), gb(dev(o)), vw(dev(i * o)), vb(dev(o)) {
        std::normal_distribution<float> normal(0.f, std::sqrt(2.f / in));
        std::vector<float> h(i * o);
        for (float &x : h) x = normal(rng);
        CUDA(cudaMemcpy(w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    void forward(cublasHandle_t blas, const float *x, float *y, int rows) const {
        const float one = 1.f, zero = 0.f;
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, out, rows, in, &one, w, out, x, in, &zero, y, out));
    }
    void gradient(cublasHandle_t blas, const float *x, const float *dy, int rows, const float *ones, float mean) const {
        const float zero = 0.f;
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, rows, &mean, dy, out, x, in, &zero, gw, out));
        BLAS(cublasSgemv(blas, CUBLAS_OP_N, out, rows, &mean, dy, out, ones, 1, &zero, gb, 1));
    }
    void input(cublasHandle_t blas, const float *dy, float *dx, int rows) const {
        const float one = 1.f, zero = 0.f;
        BLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, in, rows, out, &one, w, out, dy, out, &zero, dx, in));
    }
};

struct Slot {
    float *hx, *x;
    int *hy, *y;
    cudaEvent_t copied, used;
};

#define RUN(kernel, n) kernel<<<((n) + 127) / 128, 128, 0, work>>>

int main() {
    std::mt19937 rng(4);
    std::vector<float> images(TRAIN * PIX), shape(CLS * PIX);
    std::vector<int> labels(TRAIN);
    for (float &s : shape) s = rng() % 4 == 0;
    for (int i = 0; i < TRAIN; i++) {
        labels[i] = rng() % CLS;
        for (int p = 0; p < PIX; p++) images[i * PIX + p] = 0.7f * shape[labels[i] * PIX + p] + 0.8f * (rng() % 1000) / 1000.f;
    }

    cudaStream_t work, copy;
    CUDA(cudaStreamCreate(&work));
    CUDA(cudaStreamCreate(&copy));
    cublasHandle_t blas;
    BLAS(cublasCreate(&blas));
    BLAS(cublasSetStream(blas, work));

    Product conv(K * K, CH, rng), full(FLAT, HID, rng), last(HID, CLS, rng);
    const int spots = BATCH * OUT * OUT;
    float *cols = dev(spots * K * K), *y1 = dev(spots * CH), *p1 = dev(BATCH * FLAT), *y2 = dev(BATCH * HID), *z = dev(BATCH * CLS);
    float *dz = dev(BATCH * CLS), *d2 = dev(BATCH * HID), *dp = dev(BATCH * FLAT), *d1 = dev(spots * CH), *loss = dev(BATCH), *ones = dev(spots);
    std::vector<float> h(spots, 1.f);
    CUDA(cudaMemcpy(ones, h.data(), spots * sizeof(float), cudaMemcpyHostToDevice));

    Slot slot[2];
    for (Slot &s : slot) {
        CUDA(cudaMallocHost(&s.hx, BATCH * PIX * sizeof(float)));
        CUDA(cudaMallocHost(&s.hy, BATCH * sizeof(int)));
        CUDA(cudaMalloc(&s.x, BATCH * PIX * sizeof(float)));
        CUDA(cudaMalloc(&s.y, BATCH * sizeof(int)));
        CUDA(cudaEventCreate(&s.copied));
        CUDA(cudaEventCreate(&s.used));
    }
    auto prefetch = [&](int step) {
        Slot &s = slot[step % 2];
        const int first = step * BATCH % TRAIN;
        CUDA(cudaEventSynchronize(s.copied)); // the pinned memory is free again
        std::copy_n(&images[first * PIX], BATCH * PIX, s.hx);
        std::copy_n(&labels[first], BATCH, s.hy);
        CUDA(cudaStreamWaitEvent(copy, s.used, 0));
        CUDA(cudaMemcpyAsync(s.x, s.hx, BATCH * PIX * sizeof(float), cudaMemcpyHostToDevice, copy));
        CUDA(cudaMemcpyAsync(s.y, s.hy, BATCH * sizeof(int), cudaMemcpyHostToDevice, copy));
        CUDA(cudaEventRecord(s.copied, copy));
    };

    const int steps = EPOCHS * TRAIN / BATCH;
    prefetch(0);
    for (int step = 0; step < steps; step++) {
        Slot &s = slot[step % 2];
        if (step + 1 < steps) prefetch(step + 1);
        CUDA(cudaStreamWaitEvent(work, s.copied, 0));

        RUN(im2col, spots * K * K)(s.x, cols, BATCH);
        conv.forward(blas, cols, y1, spots);
        RUN(biasRelu, spots * CH)(y1, conv.b, spots * CH, CH);
        RUN(pool, BATCH * FLAT)(y1, p1, BATCH);
        full.forward(blas, p1, y2, BATCH);
        RUN(biasRelu, BATCH * HID)(y2, full.b, BATCH * HID, HID);
        last.forward(blas, y2, z, BATCH);
        RUN(softmax, BATCH)(z, last.b, s.y, dz, loss, BATCH);
        CUDA(cudaEventRecord(s.used, work));

        const float mean = 1.f / BATCH;
        last.gradient(blas, y2, dz, BATCH, ones, mean);
        last.input(blas, dz, d2, BATCH);
        RUN(reluBack, BATCH * HID)(y2, d2, BATCH * HID);
        full.gradient(blas, p1, d2, BATCH, ones, mean);
        full.input(blas, d2, dp, BATCH);
        RUN(unpool, spots * CH)(dp, y1, d1, BATCH);
        conv.gradient(blas, cols, d1, spots, ones, mean);

        const float rate = step < steps / 2 ? 0.03f : 0.01f;
        for (Product *p : {&conv, &full, &last}) {
            RUN(momentum, p->in * p->out)(p->w, p->gw, p->vw, p->in * p->out, rate, 1e-4f);
            RUN(momentum, p->out)(p->b, p->gb, p->vb, p->out, rate, 0.f);
        }
        if (step % 8 == 7) {
            float sum;
            BLAS(cublasSasum(blas, BATCH, loss, 1, &sum));
            printf("step %2d loss %.4f\n", step + 1, sum / BATCH);
        }
    }
    CUDA(cudaDeviceSynchronize());
    return 0;
}
