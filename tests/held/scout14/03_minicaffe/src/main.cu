#include "layers.h"
#include "solver.h"

#include <cstdio>

static const int kSize = 10, kChannels = 3, kClasses = 4, kImages = 320, kBatch = 20, kIterations = 64;

// Coloured stripes and checks.
static void makeImages(std::vector<float> &images, std::vector<int> &labels, std::mt19937 &rng)
{
    std::normal_distribution<float> noise(0.f, 0.4f);
    images.resize(kImages * kChannels * kSize * kSize);
    labels.resize(kImages);
    float *p = images.data();
    for (int n = 0; n < kImages; ++n) {
        labels[n] = rng() % kClasses;
        int phase = rng() % 4;
        for (int c = 0; c < kChannels; ++c)
            for (int y = 0; y < kSize; ++y)
                for (int x = 0; x < kSize; ++x) {
                    int k[kClasses] = {x, y, x + y, x / 2 * 3 + y};
                    *p++ = (((k[labels[n]] + phase) / 2 + c) % 2 ? 0.5f : -0.5f) + noise(rng);
                }
    }
}

int main()
{
    std::mt19937 rng(1234);
    std::vector<float> images;
    std::vector<int> labels;
    makeImages(images, labels, rng);

    auto data = std::make_shared<Blob>(kBatch, kChannels, kSize, kSize);
    std::vector<std::unique_ptr<Layer>> net;
    net.push_back(std::make_unique<Convolution>(6, rng));
    net.push_back(std::make_unique<MaxPool>());
    net.push_back(std::make_unique<Convolution>(8, rng));
    net.push_back(std::make_unique<InnerProduct>(kClasses, rng));
    auto head = std::make_unique<SoftmaxLoss>();
    SoftmaxLoss *loss = head.get();
    net.push_back(std::move(head));

    std::vector<BlobPtr> params;
    BlobPtr top = data;
    for (auto &layer : net) {
        top = layer->setUp(top);
        params.insert(params.end(), layer->params.begin(), layer->params.end());
    }
    SGDSolver solver(params, SolverParameter());

    int cursor = 0;
    for (int iter = 0; iter < kIterations; ++iter) {
        cudaMemcpy(data->data(), images.data() + cursor * data->sample(), data->count() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(loss->labels(), labels.data() + cursor, kBatch * sizeof(int), cudaMemcpyHostToDevice);
        cursor = (cursor + kBatch) % kImages;

        for (auto &layer : net) layer->forward();
        for (auto layer = net.rbegin(); layer != net.rend(); ++layer) (*layer)->backward();
        if (iter % 4 == 0) std::printf("Iteration %d, loss = %.5f\n", iter, loss->loss());
        solver.applyUpdate(iter);
    }
    std::printf("Iteration %d, loss = %.5f\nOptimization Done.\n", kIterations, loss->loss());
    return 0;
}
