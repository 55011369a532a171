// Small pictures of strokes, 8 x 8. The host picks a batch, shifts each picture at random and stages it in pinned
// memory; a network with one hidden layer of rectifiers tells the four kinds apart.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

namespace {

constexpr int kSide = 8, kPixels = kSide * kSide, kKinds = 4, kHidden = 40, kBatch = 32, kPictures = 400;

void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        std::exit(1);
    }
}

class Random {
public:
    explicit Random(unsigned long long seed) : s_(seed) {}
    unsigned next()
    {
        s_ = s_ * 6364136223846793005ull + 1442695040888963407ull;
        return (unsigned)(s_ >> 33);
    }
    int below(int n) { return (int)(next() % (unsigned)n); }
    float uniform() { return next() / 2147483648.0f; }

private:
    unsigned long long s_;
};

class Pictures {
public:
    Pictures()
    {
        Random r(17);
        pixels_.assign(kPictures * kPixels, 0.0f);
        kinds_.resize(kPictures);
        for (int p = 0; p < kPictures; ++p) {
            int kind = r.below(kKinds), at = 2 + r.below(4);
            kinds_[p] = kind;
            for (int i = 0; i < kSide; ++i) {
                int row = kind == 0 ? at : i, col = kind == 1 ? at : i;
                if (kind == 3)
                    col = kSide - 1 - i;
                pixels_[p * kPixels + row * kSide + col] = 1.0f;
            }
            for (int i = 0; i < kPixels; ++i)
                pixels_[p * kPixels + i] += 0.2f * (r.uniform() - 0.5f);
        }
    }
    const float *pixels(int p) const { return &pixels_[p * kPixels]; }
    int kind(int p) const { return kinds_[p]; }

private:
    std::vector<float> pixels_;
    std::vector<int> kinds_;
};

class Loader {
public:
    Loader(const Pictures &p, unsigned seed) : pictures_(p), random_(seed)
    {
        check(cudaMallocHost(&image_, kBatch * kPixels * sizeof(float)), "pinned");
        check(cudaMallocHost(&label_, kBatch * sizeof(int)), "pinned");
    }
    // The pictures [first, first + count) of the next batch.
    void next(size_t first, size_t count, float *image, int *label, cudaStream_t stream)
    {
        int pick[kBatch];
        for (int &p : pick)
            p = random_.below(kPictures);
        for (size_t i = 0; i < count; ++i) {
            const float *from = pictures_.pixels(pick[first + i]);
            int dx = random_.below(3) - 1, dy = random_.below(3) - 1;
            for (int r = 0; r < kSide; ++r)
                for (int c = 0; c < kSide; ++c)
                    image_[i * kPixels + r * kSide + c] =
                        from[((r + dy + kSide) % kSide) * kSide + (c + dx + kSide) % kSide];
            label_[i] = pictures_.kind(pick[first + i]);
        }
        check(cudaMemcpyAsync(image, image_, count * kPixels * sizeof(float), cudaMemcpyHostToDevice, stream), "copy");
        check(cudaMemcpyAsync(label, label_, count * sizeof(int), cudaMemcpyHostToDevice, stream), "copy");
        check(cudaStreamSynchronize(stream), "staging");
    }

private:
    const Pictures &pictures_;
    Random random_;
    float *image_;
    int *label_;
};

__global__ void layer(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool rectify)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out)
        return;
    int i = t / out, o = t % out;
    float s = b[o];
    for (int k = 0; k < in; ++k)
        s += x[i * in + k] * w[k * out + o];
    y[t] = rectify ? fmaxf(s, 0.0f) : s;
}

__global__ void crossEntropy(float *z, const int *label, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    float *r = z + i * kKinds, top = r[0], sum = 0;
    for (int c = 1; c < kKinds; ++c)
        top = fmaxf(top, r[c]);
    for (int c = 0; c < kKinds; ++c)
        sum += expf(r[c] - top);
    loss[i] = logf(sum) + top - r[label[i]];
    for (int c = 0; c < kKinds; ++c)
        r[c] = (expf(r[c] - top) / sum - (c == label[i])) / n;
}

__global__ void weightGradient(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (in + 1) * out)
        return;
    int k = t / out, o = t % out;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += (k < in ? x[i * in + k] : 1.0f) * dy[i * out + o];
    if (k < in)
        dw[t] = s;
    else
        db[o] = s;
}

__global__ void inputGradient(const float *dy, const float *w, const float *y, float *dx, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in)
        return;
    float s = 0;
    for (int o = 0; o < out; ++o)
        s += dy[(t / in) * out + o] * w[(t % in) * out + o];
    dx[t] = y[t] > 0 ? s : 0;
}

__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

struct Weights {
    float *value, *grad;
    int n;
    Weights(int n_, float scale, Random &r) : n(n_)
    {
        std::vector<float> v(n);
        for (float &e : v)
            e = scale * (2 * r.uniform() - 1);
        check(cudaMalloc(&value, n * sizeof(float)), "weights");
        check(cudaMalloc(&grad, n * sizeof(float)), "weights");
        check(cudaMemcpy(value, v.data(), n * sizeof(float), cudaMemcpyHostToDevice), "weights");
        DDP_PARAMETER(value, n, DDP_TYPE_OF(value));
        DDP_GRADIENT(grad, n, DDP_TYPE_OF(grad));
    }
};

inline int blocks(int n) { return (n + 63) / 64; }

} // namespace

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Pictures pictures;
    Loader loader(pictures, 99);
    Random init(4);
    Weights w1(kPixels * kHidden, 0.15f, init), b1(kHidden, 0, init);
    Weights w2(kHidden * kKinds, 0.2f, init), b2(kKinds, 0, init);
    Weights *all[] = {&w1, &b1, &w2, &b2};
    cudaStream_t s;
    check(cudaStreamCreate(&s), "stream");
    float *x, *h, *z, *dh, *loss;
    int *label;
    check(cudaMalloc(&x, kBatch * kPixels * sizeof(float)), "x");
    check(cudaMalloc(&h, kBatch * kHidden * sizeof(float)), "h");
    check(cudaMalloc(&dh, kBatch * kHidden * sizeof(float)), "dh");
    check(cudaMalloc(&z, kBatch * kKinds * sizeof(float)), "z");
    check(cudaMalloc(&loss, kBatch * sizeof(float)), "loss");
    check(cudaMalloc(&label, kBatch * sizeof(int)), "label");

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int n = (int)count;
        loader.next(first, count, x, label, s);

        layer<<<blocks(n * kHidden), 64, 0, s>>>(x, w1.value, b1.value, h, n, kPixels, kHidden, true);
        layer<<<blocks(n * kKinds), 64, 0, s>>>(h, w2.value, b2.value, z, n, kHidden, kKinds, false);
        crossEntropy<<<1, kBatch, 0, s>>>(z, label, loss, n);
        weightGradient<<<blocks((kHidden + 1) * kKinds), 64, 0, s>>>(h, z, w2.grad, b2.grad, n, kHidden, kKinds);
        inputGradient<<<blocks(n * kHidden), 64, 0, s>>>(z, w2.value, h, dh, n, kHidden, kKinds);
        weightGradient<<<blocks((kPixels + 1) * kHidden), 64, 0, s>>>(x, dh, w1.grad, b1.grad, n, kPixels, kHidden);

        DDP_STEP(s);
        for (Weights *w : all)
            sgd<<<blocks(w->n), 64, 0, s>>>(w->value, w->grad, w->n, 0.3f);

        if (step % 10 == 0 || step == steps - 1) {
            float part[kBatch], mean = 0;
            check(cudaMemcpyAsync(part, loss, n * sizeof(float), cudaMemcpyDeviceToHost, s), "loss");
            check(cudaStreamSynchronize(s), "loss");
            for (int i = 0; i < n; ++i)
                mean += part[i] / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                std::printf("step %d: loss %.4f\n", step, mean);
        }
    }

    check(cudaDeviceSynchronize(), "end");
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Weights *w : all) {
            std::vector<float> v(w->n);
            check(cudaMemcpy(v.data(), w->value, w->n * sizeof(float), cudaMemcpyDeviceToHost), "save");
            std::fwrite(v.data(), sizeof(float), v.size(), f);
        }
        std::fclose(f);
    }
    return 0;
}
