// LeNet-like network on 10x10 pictures of bars: conv - conv - linear - linear
#include "layers.h"
#include "optimizer.h"
#include <cstdio>

namespace {
constexpr int kSide = 10, kClasses = 4, kBatch = 16, kSteps = 40, kSamples = 320;

struct Dataset {
    std::vector<float> images;
    std::vector<int> labels;
};

Dataset make_bars(std::mt19937 &rng)
{
    Dataset d;
    std::uniform_int_distribution<int> kind(0, kClasses - 1), at(2, kSide - 3);
    std::normal_distribution<float> noise(0.f, 0.3f);
    for (int i = 0; i < kSamples; ++i) {
        int k = kind(rng), a = at(rng);
        for (int r = 0; r < kSide; ++r)
            for (int c = 0; c < kSide; ++c) {
                bool on = k == 0 ? r == a : k == 1 ? c == a : k == 2 ? (r - c) == a - 5 : (r + c) == a + 4;
                d.images.push_back((on ? 1.f : 0.f) + noise(rng));
            }
        d.labels.push_back(k);
    }
    return d;
}
} // namespace

int main()
{
    std::mt19937 rng(5);
    Dataset data = make_bars(rng);

    std::vector<std::unique_ptr<Layer>> net;
    net.emplace_back(new Conv3x3(kBatch, 1, 4, kSide, rng)); // 8 x 8
    net.emplace_back(new Conv3x3(kBatch, 4, 6, 8, rng));     // 6 x 6
    net.emplace_back(new Linear(kBatch, 6 * 36, 16, rng));
    net.emplace_back(new Linear(kBatch, 16, kClasses, rng));
    CrossEntropy criterion(kBatch, kClasses);

    std::vector<Parameter *> params;
    for (auto &l : net)
        for (Parameter *p : l->parameters()) params.push_back(p);
    Adam adam(params, 0.005f);

    DeviceTensor input(kBatch * kSide * kSide);
    int *labels = nullptr;
    cudaMalloc(&labels, kBatch * sizeof(int));

    for (int step = 0; step < kSteps; ++step) {
        int start = step * kBatch % kSamples;
        input.upload(data.images.data() + start * kSide * kSide, kBatch * kSide * kSide);
        cudaMemcpy(labels, data.labels.data() + start, kBatch * sizeof(int), cudaMemcpyHostToDevice);

        const float *h = input.data();
        for (auto &l : net) h = l->forward(h, kBatch);
        const float *g = criterion(h, labels, kBatch);
        for (auto it = net.rbegin(); it != net.rend(); ++it) g = (*it)->backward(g, kBatch);
        adam.step();

        if (step % 5 == 0 || step + 1 == kSteps) std::printf("step %3d  loss %.5f\n", step, criterion.mean(kBatch));
    }
    cudaFree(labels);
    return 0;
}
