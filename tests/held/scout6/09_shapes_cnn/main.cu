// A small LeNet that tells squares, crosses, discs and diagonals apart (14x14 grey images)
#include "layers.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>
#include <cuda_runtime.h>

static const int SIZE = 14;
static const int CLASSES = 4;
static const int BATCH_SIZE = 32;
static const int NUM_TRAIN = 480;

struct Dataset {
    std::vector<float> images;
    std::vector<int> labels;
};

static Dataset make_shapes(int n, std::mt19937 &rng)
{
    Dataset d;
    std::uniform_real_distribution<float> noise(0.0f, 0.3f);
    for (int i = 0; i < n; ++i) {
        int label = int(rng() % CLASSES), cy = 5 + int(rng() % 4), cx = 5 + int(rng() % 4), r = 2 + int(rng() % 3);
        for (int y = 0; y < SIZE; ++y)
            for (int x = 0; x < SIZE; ++x) {
                int ay = std::abs(y - cy), ax = std::abs(x - cx);
                bool on = false;
                if (ay <= r && ax <= r)
                    on = label == 0 ? (ay == r || ax == r) : label == 1 ? (y == cy || x == cx) :
                         label == 2 ? ay * ay + ax * ax <= r * r : y - cy == x - cx;
                d.images.push_back((on ? 0.8f : 0.0f) + noise(rng));
            }
        d.labels.push_back(label);
    }
    return d;
}

int main()
{
    std::mt19937 rng(5);
    Dataset train = make_shapes(NUM_TRAIN, rng);

    std::vector<std::unique_ptr<Layer>> net;
    net.push_back(std::make_unique<Conv2D>(BATCH_SIZE, 1, SIZE, SIZE, 6, 3, rng));      // 12x12
    net.push_back(std::make_unique<ReLU>(BATCH_SIZE * 6 * 12 * 12));
    net.push_back(std::make_unique<MaxPool2D>(BATCH_SIZE, 6, 12, 12));                  // 6x6
    net.push_back(std::make_unique<Conv2D>(BATCH_SIZE, 6, 6, 6, 8, 3, rng));            // 4x4
    net.push_back(std::make_unique<ReLU>(BATCH_SIZE * 8 * 4 * 4));
    net.push_back(std::make_unique<MaxPool2D>(BATCH_SIZE, 8, 4, 4));                    // 2x2
    net.push_back(std::make_unique<Dense>(BATCH_SIZE, 32, 24, rng));
    net.push_back(std::make_unique<ReLU>(BATCH_SIZE * 24));
    net.push_back(std::make_unique<Dense>(BATCH_SIZE, 24, CLASSES, rng));
    SoftmaxCrossEntropy criterion(BATCH_SIZE, CLASSES);

    float *d_images;
    int *d_labels;
    cudaMalloc(&d_images, BATCH_SIZE * SIZE * SIZE * sizeof(float));
    cudaMalloc(&d_labels, BATCH_SIZE * sizeof(int));

    for (int epoch = 0; epoch < 3; ++epoch) {
        float running = 0;
        for (int b = 0; b < NUM_TRAIN / BATCH_SIZE; ++b) {
            cudaMemcpy(d_images, &train.images[b * BATCH_SIZE * SIZE * SIZE], BATCH_SIZE * SIZE * SIZE * sizeof(float),
                       cudaMemcpyHostToDevice);
            cudaMemcpy(d_labels, &train.labels[b * BATCH_SIZE], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice);

            const float *x = d_images;
            for (auto &layer : net)
                x = layer->forward(x);
            running += criterion.loss(x, d_labels);

            const float *g = criterion.gradient();
            for (int i = int(net.size()) - 1; i >= 0; --i)
                g = net[i]->backward(g);
            for (auto &layer : net)
                layer->update(0.03f, 0.9f);
        }
        std::printf("[epoch %d] loss %.4f\n", epoch + 1, running / (NUM_TRAIN / BATCH_SIZE));
    }
    return 0;
}
