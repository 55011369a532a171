// Small CNN: conv3x3(1->6) relu maxpool2 -> fc(150->4).  12x12 shape images,
// batches staged through two pinned buffers on a copy stream.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(x)                                                                       \
    do {                                                                               \
        cudaError_t err = (x);                                                         \
        if (err != cudaSuccess) {                                                      \
            fprintf(stderr, "%s(%d): %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(EXIT_FAILURE);                                                        \
        }                                                                              \
    } while (0)

const int IMG = 12, KS = 3, CH = 6, CONV = IMG - KS + 1, POOL = CONV / 2, FEAT = CH * POOL * POOL, CLASSES = 4;
const int BATCH_SIZE = 32, TRAIN = 800, ITERS = 150;

__global__ void convForward(const float *img, const float *k, const float *bias, float *out)
{
    int n = blockIdx.x, c = blockIdx.y;
    for (int p = threadIdx.x; p < CONV * CONV; p += blockDim.x) {
        int y = p / CONV, x = p % CONV;
        float s = bias[c];
        for (int i = 0; i < KS; i++)
            for (int j = 0; j < KS; j++) s += img[n * IMG * IMG + (y + i) * IMG + x + j] * k[c * KS * KS + i * KS + j];
        out[(n * CH + c) * CONV * CONV + p] = fmaxf(s, 0.f);
    }
}

__global__ void poolForward(const float *in, float *out, int *arg)
{
    int n = blockIdx.x, c = blockIdx.y, p = threadIdx.x;
    if (p >= POOL * POOL) return;
    const float *src = in + (n * CH + c) * CONV * CONV;
    int base = (p / POOL) * 2 * CONV + (p % POOL) * 2, best = base;
    int cand[3] = {base + 1, base + CONV, base + CONV + 1};
    for (int q : cand) if (src[q] > src[best]) best = q;
    out[n * FEAT + c * POOL * POOL + p] = src[best];
    arg[n * FEAT + c * POOL * POOL + p] = best;
}

__global__ void fcForward(const float *f, const float *w, const float *b, float *z)
{
    int n = blockIdx.x, c = threadIdx.x;
    if (c >= CLASSES) return;
    float s = b[c];
    for (int i = 0; i < FEAT; i++) s += f[n * FEAT + i] * w[c * FEAT + i];
    z[n * CLASSES + c] = s;
}

__global__ void softmaxLoss(const float *z, const int *t, float *dz, float *loss, int *correct, int batch)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= batch) return;
    float m = -1e9f, s = 0.f;
    int best = 0;
    for (int c = 0; c < CLASSES; c++)
        if (z[n * CLASSES + c] > m) { m = z[n * CLASSES + c]; best = c; }
    for (int c = 0; c < CLASSES; c++) s += expf(z[n * CLASSES + c] - m);
    for (int c = 0; c < CLASSES; c++)
        dz[n * CLASSES + c] = (expf(z[n * CLASSES + c] - m) / s - (t[n] == c)) / (float)batch;
    atomicAdd(loss, (logf(s) + m - z[n * CLASSES + t[n]]) / batch);
    if (best == t[n]) atomicAdd(correct, 1);
}

__global__ void fcBackward(const float *f, const float *dz, float *dw, float *db, int batch)
{
    int c = blockIdx.x;
    for (int i = threadIdx.x; i < FEAT; i += blockDim.x) {
        float s = 0.f;
        for (int n = 0; n < batch; n++) s += dz[n * CLASSES + c] * f[n * FEAT + i];
        dw[c * FEAT + i] = s;
    }
    if (threadIdx.x == 0) {
        float s = 0.f;
        for (int n = 0; n < batch; n++) s += dz[n * CLASSES + c];
        db[c] = s;
    }
}

// through fc, pool and relu in one go: one thread per pooled value
__global__ void featureBackward(const float *dz, const float *w, const float *f, const int *arg, float *dconv)
{
    int n = blockIdx.x, c = blockIdx.y, p = threadIdx.x;
    if (p >= POOL * POOL) return;
    int i = c * POOL * POOL + p;
    float s = 0.f;
    for (int q = 0; q < CLASSES; q++) s += dz[n * CLASSES + q] * w[q * FEAT + i];
    if (f[n * FEAT + i] > 0.f) dconv[(n * CH + c) * CONV * CONV + arg[n * FEAT + i]] = s;
}

__global__ void convBackward(const float *img, const float *dconv, float *dk, float *dbias, int batch)
{
    int c = blockIdx.x, t = threadIdx.x;
    if (t > KS * KS) return;
    float s = 0.f;
    for (int n = 0; n < batch; n++)
        for (int p = 0; p < CONV * CONV; p++) {
            float d = dconv[(n * CH + c) * CONV * CONV + p];
            s += t == KS * KS ? d : d * img[n * IMG * IMG + (p / CONV + t / KS) * IMG + p % CONV + t % KS];
        }
    if (t == KS * KS) dbias[c] = s;
    else dk[c * KS * KS + t] = s;
}

__global__ void momentumUpdate(float *w, float *v, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = 0.9f * v[i] + g[i];
        w[i] -= lr * v[i];
    }
}

struct Tensor {
    float *data, *grad, *vel;
    int n;
    Tensor(int count, float scale, std::mt19937 &g) : n(count)
    {
        CHECK(cudaMalloc(&data, n * sizeof(float)));
        CHECK(cudaMalloc(&grad, n * sizeof(float)));
        CHECK(cudaMalloc(&vel, n * sizeof(float)));
        CHECK(cudaMemset(vel, 0, n * sizeof(float)));
        std::uniform_real_distribution<float> u(-1.f, 1.f);
        std::vector<float> h(n);
        for (auto &v : h) v = scale * u(g);
        CHECK(cudaMemcpy(data, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    }
    void update(float lr, cudaStream_t s) { momentumUpdate<<<(n + 127) / 128, 128, 0, s>>>(data, vel, grad, n, lr); }
};

static void drawShape(float *im, int cls, std::mt19937 &g)
{
    int cx = 4 + g() % 4, cy = 4 + g() % 4, r = 2 + g() % 2;
    for (int y = 0; y < IMG; y++)
        for (int x = 0; x < IMG; x++) {
            int dx = abs(x - cx), dy = abs(y - cy);
            bool on = cls == 0 ? (dx == 0 && dy <= r) || (dy == 0 && dx <= r)
                    : cls == 1 ? (dx <= r && dy <= r && (dx == r || dy == r))
                    : cls == 2 ? dx == dy && dx <= r
                               : dx <= 1 && dy <= r;
            im[y * IMG + x] = on + 0.3f * ((g() & 0xffff) / 65536.f - 0.5f);
        }
}

int main()
{
    std::mt19937 gen(8);
    std::vector<float> images(TRAIN * IMG * IMG);
    std::vector<int> labels(TRAIN);
    for (int i = 0; i < TRAIN; i++) drawShape(&images[i * IMG * IMG], labels[i] = gen() % CLASSES, gen);

    Tensor k(CH * KS * KS, 0.5f, gen), kb(CH, 0.1f, gen), w(CLASSES * FEAT, 0.08f, gen), b(CLASSES, 0.01f, gen);
    float *img[2], *conv, *dconv, *feat, *z, *dz, *loss, *pinImg[2];
    int *lab[2], *arg, *correct, *pinLab[2];
    const size_t imgBytes = BATCH_SIZE * IMG * IMG * sizeof(float), labBytes = BATCH_SIZE * sizeof(int);
    cudaEvent_t copied[2], used[2];
    cudaStream_t compute, copy;
    CHECK(cudaStreamCreate(&compute));
    CHECK(cudaStreamCreate(&copy));
    for (int s = 0; s < 2; s++) {
        CHECK(cudaMalloc(&img[s], imgBytes));
        CHECK(cudaMalloc(&lab[s], labBytes));
        CHECK(cudaMallocHost(&pinImg[s], imgBytes));
        CHECK(cudaMallocHost(&pinLab[s], labBytes));
        CHECK(cudaEventCreate(&copied[s]));
        CHECK(cudaEventCreate(&used[s]));
    }
    const size_t convBytes = BATCH_SIZE * CH * CONV * CONV * sizeof(float);
    CHECK(cudaMalloc(&conv, convBytes));
    CHECK(cudaMalloc(&dconv, convBytes));
    CHECK(cudaMalloc(&feat, BATCH_SIZE * FEAT * sizeof(float)));
    CHECK(cudaMalloc(&arg, BATCH_SIZE * FEAT * sizeof(int)));
    CHECK(cudaMalloc(&z, BATCH_SIZE * CLASSES * sizeof(float)));
    CHECK(cudaMalloc(&dz, BATCH_SIZE * CLASSES * sizeof(float)));
    CHECK(cudaMalloc(&loss, sizeof(float)));
    CHECK(cudaMalloc(&correct, sizeof(int)));

    auto stage = [&](int it) {
        int s = it & 1;
        CHECK(cudaEventSynchronize(used[s]));
        for (int i = 0; i < BATCH_SIZE; i++) {
            int j = (it * BATCH_SIZE + i) % TRAIN;
            memcpy(pinImg[s] + i * IMG * IMG, &images[j * IMG * IMG], IMG * IMG * sizeof(float));
            pinLab[s][i] = labels[j];
        }
        CHECK(cudaMemcpyAsync(img[s], pinImg[s], imgBytes, cudaMemcpyHostToDevice, copy));
        CHECK(cudaMemcpyAsync(lab[s], pinLab[s], labBytes, cudaMemcpyHostToDevice, copy));
        CHECK(cudaEventRecord(copied[s], copy));
    };

    stage(0);
    const dim3 grid(BATCH_SIZE, CH);
    for (int it = 0; it < ITERS; it++) {
        int s = it & 1;
        if (it + 1 < ITERS) stage(it + 1);
        CHECK(cudaStreamWaitEvent(compute, copied[s], 0));
        CHECK(cudaMemsetAsync(loss, 0, sizeof(float), compute));
        CHECK(cudaMemsetAsync(correct, 0, sizeof(int), compute));
        CHECK(cudaMemsetAsync(dconv, 0, convBytes, compute));
        convForward<<<grid, 64, 0, compute>>>(img[s], k.data, kb.data, conv);
        poolForward<<<grid, 32, 0, compute>>>(conv, feat, arg);
        fcForward<<<BATCH_SIZE, CLASSES, 0, compute>>>(feat, w.data, b.data, z);
        softmaxLoss<<<1, BATCH_SIZE, 0, compute>>>(z, lab[s], dz, loss, correct, BATCH_SIZE);
        fcBackward<<<CLASSES, 64, 0, compute>>>(feat, dz, w.grad, b.grad, BATCH_SIZE);
        featureBackward<<<grid, 32, 0, compute>>>(dz, w.data, feat, arg, dconv);
        convBackward<<<CH, 16, 0, compute>>>(img[s], dconv, k.grad, kb.grad, BATCH_SIZE);
        CHECK(cudaEventRecord(used[s], compute));
        for (Tensor *t : {&k, &kb, &w, &b}) t->update(0.03f, compute);
        if (it % 15 == 14) {
            float hl;
            int hc;
            CHECK(cudaMemcpyAsync(&hl, loss, sizeof(hl), cudaMemcpyDeviceToHost, compute));
            CHECK(cudaMemcpyAsync(&hc, correct, sizeof(hc), cudaMemcpyDeviceToHost, compute));
            CHECK(cudaStreamSynchronize(compute));
            printf("iter %3d  loss %.5f  batch acc %d/%d\n", it + 1, hl, hc, BATCH_SIZE);
        }
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
