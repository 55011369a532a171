#include "dataset.h"
#include "layer.h"
#include <algorithm>
#include <cmath>

__global__ void softmaxLoss(const float *logits, const int *labels, float *grad, float *loss, int *correct, int batch, int c)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= batch) return;
    int best = 0;
    for (int j = 1; j < c; ++j)
        if (logits[n * c + j] > logits[n * c + best]) best = j;
    float sum = 0;
    for (int j = 0; j < c; ++j) sum += expf(logits[n * c + j] - logits[n * c + best]);
    for (int j = 0; j < c; ++j)
        grad[n * c + j] = expf(logits[n * c + j] - logits[n * c + best]) / sum - (j == labels[n]);
    loss[n] = logf(sum) + logits[n * c + best] - logits[n * c + labels[n]];
    correct[n] = best == labels[n];
}

class Network {
public:
    void add(std::unique_ptr<Layer> l) { layers.push_back(std::move(l)); }
    float *forward(float *x, int batch)
    {
        for (auto &l : layers) x = l->forward(x, batch);
        return x;
    }
    void backward(float *g, int batch)
    {
        for (auto it = layers.rbegin(); it != layers.rend(); ++it) g = (*it)->backward(g, batch);
    }
    void step(float lr, float momentum)
    {
        for (auto &l : layers) l->step(lr, momentum);
    }

private:
    std::vector<std::unique_ptr<Layer>> layers;
};

int main()
{
    const int width = 10, classes = 10, batchSize = 32, epochs = 4;
    Dataset train = makeDigits(640, width, classes, 1), test = makeDigits(128, width, classes, 2);
    std::mt19937 gen(7);

    Network net;
    net.add(std::unique_ptr<Layer>(new Conv2D(1, 8, 3, width, width, batchSize, gen)));
    net.add(std::unique_ptr<Layer>(new MaxPool(8, 8, 8, batchSize)));
    net.add(std::unique_ptr<Layer>(new Dense(8 * 4 * 4, classes, batchSize, gen)));

    DeviceBuffer images(batchSize * width * width), grad(batchSize * classes), loss(batchSize);
    int *labels, *correct;
    CUDA_CHECK(cudaMalloc(&labels, batchSize * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&correct, batchSize * sizeof(int)));
    std::vector<float> hostLoss(batchSize);
    std::vector<int> hostCorrect(batchSize);
    const size_t imageBytes = width * width * sizeof(float);

    for (int epoch = 1; epoch <= epochs; ++epoch) {
        double trainLoss = 0;
        int batches = train.size / batchSize;
        for (int b = 0; b < batches; ++b) {
            CUDA_CHECK(cudaMemcpy(images.get(), &train.images[(size_t)b * batchSize * width * width], batchSize * imageBytes, cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(labels, &train.labels[b * batchSize], batchSize * sizeof(int), cudaMemcpyHostToDevice));
            float *out = net.forward(images.get(), batchSize);
            softmaxLoss<<<1, batchSize>>>(out, labels, grad.get(), loss.get(), correct, batchSize, classes);
            net.backward(grad.get(), batchSize);
            net.step(0.05f, 0.9f);
            CUDA_CHECK(cudaMemcpy(hostLoss.data(), loss.get(), batchSize * sizeof(float), cudaMemcpyDeviceToHost));
            for (float l : hostLoss) trainLoss += l;
        }
        int right = 0;
        for (int b = 0; b < test.size / batchSize; ++b) {
            CUDA_CHECK(cudaMemcpy(images.get(), &test.images[(size_t)b * batchSize * width * width], batchSize * imageBytes, cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(labels, &test.labels[b * batchSize], batchSize * sizeof(int), cudaMemcpyHostToDevice));
            float *out = net.forward(images.get(), batchSize);
            softmaxLoss<<<1, batchSize>>>(out, labels, grad.get(), loss.get(), correct, batchSize, classes);
            CUDA_CHECK(cudaMemcpy(hostCorrect.data(), correct, batchSize * sizeof(int), cudaMemcpyDeviceToHost));
            for (int c : hostCorrect) right += c;
        }
        std::printf("Epoch %d: loss %.5f, test accuracy %.1f%%\n", epoch, trainLoss / (batches * batchSize), 100.0 * right / test.size);
    }
    cudaFree(labels);
    cudaFree(correct);
    return 0;
}
