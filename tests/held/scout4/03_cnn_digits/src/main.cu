#include "layer.h"

#include <algorithm>
#include <cmath>
#include <iostream>

constexpr int kSize = 12;
constexpr int kClasses = 10;
constexpr int kBatch = 64;
constexpr int kSteps = 200;

// 5x7 glyphs, one row per byte
static const unsigned char kFont[10][7] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14}, {14, 17, 1, 2, 4, 8, 31},  {31, 2, 4, 2, 1, 17, 14},
    {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14}, {6, 8, 16, 30, 17, 17, 14}, {31, 1, 2, 4, 8, 8, 8},
    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12}};

class DigitSet {
public:
    DigitSet(int n, unsigned seed)
    {
        std::mt19937 rng(seed);
        std::normal_distribution<float> noise(0.0f, 0.25f);
        std::uniform_int_distribution<int> digit(0, 9), dx(1, 6), dy(1, 4);
        images.assign(n * kSize * kSize, 0.0f);
        labels.resize(n);
        for (int i = 0; i < n; ++i) {
            labels[i] = digit(rng);
            int x0 = dx(rng), y0 = dy(rng);
            float *img = &images[i * kSize * kSize];
            for (int r = 0; r < 7; ++r)
                for (int c = 0; c < 5; ++c)
                    if (kFont[labels[i]][r] >> (4 - c) & 1)
                        img[(y0 + r) * kSize + x0 + c] = 1.0f;
            for (int p = 0; p < kSize * kSize; ++p)
                img[p] += noise(rng);
        }
    }
    int count() const { return (int)labels.size(); }

    std::vector<float> images;
    std::vector<int> labels;
};

__global__ void crossEntropy(const float *logits, const int *labels, float *grad, float *loss, int *hits, int batch)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= batch)
        return;
    const float *z = logits + n * kClasses;
    int best = 0;
    for (int c = 1; c < kClasses; ++c)
        if (z[c] > z[best])
            best = c;
    float sum = 0;
    for (int c = 0; c < kClasses; ++c)
        sum += expf(z[c] - z[best]);
    for (int c = 0; c < kClasses; ++c)
        grad[n * kClasses + c] = (expf(z[c] - z[best]) / sum - (c == labels[n])) / batch;
    atomicAdd(loss, (logf(sum) + z[best] - z[labels[n]]) / batch);
    if (best == labels[n])
        atomicAdd(hits, 1);
}

__global__ void adamKernel(float *w, const float *g, float *m, float *v, float lr, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

class Network {
public:
    explicit Network(int maxBatch) : rng(5)
    {
        layers.push_back(std::make_unique<Conv>(1, 8, kSize, 3, maxBatch, rng));
        layers.push_back(std::make_unique<ReLU>(8 * 10 * 10, maxBatch));
        layers.push_back(std::make_unique<MaxPool>(8, 10, maxBatch));
        layers.push_back(std::make_unique<Dense>(8 * 5 * 5, 32, maxBatch, rng));
        layers.push_back(std::make_unique<ReLU>(32, maxBatch));
        layers.push_back(std::make_unique<Dense>(32, kClasses, maxBatch, rng));
        CUDA_CHECK(cudaMalloc(&gradLogits, maxBatch * kClasses * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&loss, sizeof(float)));
        CUDA_CHECK(cudaMalloc(&hits, sizeof(int)));
    }

    ~Network()
    {
        cudaFree(gradLogits);
        cudaFree(loss);
        cudaFree(hits);
    }

    void forward(float *x, const int *y, int batch)
    {
        for (auto &l : layers)
            x = l->forward(x, batch);
        CUDA_CHECK(cudaMemset(loss, 0, sizeof(float)));
        CUDA_CHECK(cudaMemset(hits, 0, sizeof(int)));
        crossEntropy<<<divUp(batch, 64), 64>>>(x, y, gradLogits, loss, hits, batch);
    }

    void backward(int batch)
    {
        float *g = gradLogits;
        for (auto it = layers.rbegin(); it != layers.rend(); ++it)
            g = (*it)->backward(g, batch);
    }

    void update(float lr)
    {
        ++t;
        float c1 = 1 - std::pow(0.9f, t), c2 = 1 - std::pow(0.999f, t);
        for (auto &l : layers)
            for (Param *p : l->params())
                adamKernel<<<divUp(p->size, 128), 128>>>(p->value, p->grad, p->m, p->v, lr, c1, c2, p->size);
    }

    float lossValue() const
    {
        float h;
        CUDA_CHECK(cudaMemcpy(&h, loss, sizeof(h), cudaMemcpyDeviceToHost));
        return h;
    }
    int hitCount() const
    {
        int h;
        CUDA_CHECK(cudaMemcpy(&h, hits, sizeof(h), cudaMemcpyDeviceToHost));
        return h;
    }

private:
    std::mt19937 rng;
    std::vector<std::unique_ptr<Layer>> layers;
    float *gradLogits, *loss;
    int *hits;
    int t = 0;
};

int main()
{
    DigitSet train(2048, 17), test(256, 18);
    Network net(kBatch);

    float *dImages;
    int *dLabels;
    CUDA_CHECK(cudaMalloc(&dImages, kBatch * kSize * kSize * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&dLabels, kBatch * sizeof(int)));

    auto load = [&](const DigitSet &set, int first) {
        CUDA_CHECK(cudaMemcpy(dImages, set.images.data() + first * kSize * kSize,
                              kBatch * kSize * kSize * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(dLabels, set.labels.data() + first, kBatch * sizeof(int), cudaMemcpyHostToDevice));
    };

    for (int step = 0; step < kSteps; ++step) {
        load(train, step * kBatch % train.count());
        net.forward(dImages, dLabels, kBatch);
        if (step % 10 == 0)
            std::cout << "step " << step << " loss " << net.lossValue() << std::endl;
        net.backward(kBatch);
        net.update(0.005f);

        if ((step + 1) % 20 == 0) {
            int hits = 0;
            float loss = 0;
            for (int first = 0; first < test.count(); first += kBatch) {
                load(test, first);
                net.forward(dImages, dLabels, kBatch);
                hits += net.hitCount();
                loss += net.lossValue() * kBatch / test.count();
            }
            std::cout << "test loss " << loss << " accuracy " << 100.0f * hits / test.count() << "%" << std::endl;
        }
    }
    cudaFree(dImages);
    cudaFree(dLabels);
    return 0;
}
