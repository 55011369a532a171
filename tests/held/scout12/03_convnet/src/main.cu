#include "layers.h"
#include "data.h"
#include <cstdio>
#include <memory>

int main()
{
    const int batchSize = 32, size = 12, steps = 60;
    Dataset train(1024, size, 1);

    std::vector<std::unique_ptr<Layer>> net;
    net.emplace_back(new Conv(1, 6, 12, batchSize));       // 10x10
    net.emplace_back(new Relu(6 * 100, batchSize));
    net.emplace_back(new MaxPool(6, 10, batchSize));       // 5x5
    net.emplace_back(new Conv(6, 8, 5, batchSize));        // 3x3
    net.emplace_back(new Relu(8 * 9, batchSize));
    net.emplace_back(new Dense(72, 32, batchSize));
    net.emplace_back(new Relu(32, batchSize));
    net.emplace_back(new Dense(32, 4, batchSize));
    SoftmaxLoss criterion(4, batchSize);

    Adam optimizer(0.004f);
    std::vector<Param *> params;
    for (auto &l : net) l->collect(params);
    for (Param *p : params) optimizer.add(p);

    float *images;
    int *labels;
    cudaMalloc(&images, batchSize * size * size * sizeof(float));
    cudaMalloc(&labels, batchSize * sizeof(int));

    int pos = 0;
    for (int step = 1; step <= steps; step++) {
        if (pos + batchSize > train.count) pos = 0;
        cudaMemcpy(images, &train.images[pos * size * size], batchSize * size * size * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(labels, &train.labels[pos], batchSize * sizeof(int), cudaMemcpyHostToDevice);
        pos += batchSize;

        float *x = images;
        for (auto &l : net) x = l->forward(x, batchSize);
        float loss = criterion.forward(x, labels, batchSize);
        float *d = criterion.backward();
        for (auto it = net.rbegin(); it != net.rend(); ++it) d = (*it)->backward(d, batchSize);
        optimizer.step();
        if (step % 10 == 0 || step == 1) printf("step %3d  loss %.4f\n", step, loss);
    }
    cudaFree(images);
    cudaFree(labels);
    return 0;
}
