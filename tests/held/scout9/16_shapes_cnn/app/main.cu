#include "mininn.h"
#include "shapes.h"
#include <cstring>

static constexpr int kBatch = 64;
static constexpr int kSteps = 90;
static constexpr int kPixels = Shapes::kSide * Shapes::kSide;

// Two pinned buffers: while the device works with one, the host fills the other.
struct Slot {
    float *images = nullptr;
    int *labels = nullptr;
    float *dImages = nullptr;
    int *dLabels = nullptr;
    cudaEvent_t copied, used;
};

int main()
{
    cudaStream_t compute, transfer;
    NN_CHECK(cudaStreamCreate(&compute));
    NN_CHECK(cudaStreamCreate(&transfer));

    nn::Sequential net(nn::Dim{1, Shapes::kSide, Shapes::kSide}, kBatch, 31);
    net.add<nn::Conv3x3>(6).add<nn::MaxPool2>().add<nn::Conv3x3>(10).add<nn::Dense>(Shapes::kClasses);
    nn::SoftmaxLoss criterion(Shapes::kClasses, kBatch);
    nn::Nesterov optimizer(net.parameters(), 0.03f, 0.9f, 1e-4f);

    Slot slots[2];
    for (Slot &s : slots) {
        NN_CHECK(cudaMallocHost(&s.images, sizeof(float) * kBatch * kPixels));
        NN_CHECK(cudaMallocHost(&s.labels, sizeof(int) * kBatch));
        NN_CHECK(cudaMalloc(&s.dImages, sizeof(float) * kBatch * kPixels));
        NN_CHECK(cudaMalloc(&s.dLabels, sizeof(int) * kBatch));
        NN_CHECK(cudaEventCreateWithFlags(&s.copied, cudaEventDisableTiming));
        NN_CHECK(cudaEventCreateWithFlags(&s.used, cudaEventDisableTiming));
    }
    NN_CHECK(cudaDeviceSynchronize());

    Shapes source(12), testSource(13);
    auto load = [&](int step) {
        Slot &s = slots[step % 2];
        NN_CHECK(cudaEventSynchronize(s.copied));
        for (int i = 0; i < kBatch; ++i)
            source.draw(s.images + i * kPixels, s.labels + i);
        NN_CHECK(cudaStreamWaitEvent(transfer, s.used, 0));
        NN_CHECK(cudaMemcpyAsync(s.dImages, s.images, sizeof(float) * kBatch * kPixels, cudaMemcpyHostToDevice, transfer));
        NN_CHECK(cudaMemcpyAsync(s.dLabels, s.labels, sizeof(int) * kBatch, cudaMemcpyHostToDevice, transfer));
        NN_CHECK(cudaEventRecord(s.copied, transfer));
    };

    load(0);
    for (int step = 0; step < kSteps; ++step) {
        Slot &s = slots[step % 2];
        NN_CHECK(cudaStreamWaitEvent(compute, s.copied, 0));
        const float *logits = net.forward(s.dImages, kBatch, compute);
        float *grad = criterion.compute(logits, s.dLabels, kBatch, compute);
        net.backward(grad, kBatch, compute);
        NN_CHECK(cudaEventRecord(s.used, compute));
        if (step + 1 < kSteps)
            load(step + 1);
        if (step == 60)
            optimizer.setRate(0.01f);
        optimizer.step(compute);
        if (step % 10 == 0 || step == kSteps - 1)
            std::printf("step %2d  loss %.4f  accuracy %.3f\n", step, criterion.loss(kBatch, compute), criterion.accuracy(kBatch, compute));
    }

    NN_CHECK(cudaDeviceSynchronize());
    Slot &s = slots[0];
    for (int i = 0; i < kBatch; ++i)
        testSource.draw(s.images + i * kPixels, s.labels + i);
    NN_CHECK(cudaMemcpy(s.dImages, s.images, sizeof(float) * kBatch * kPixels, cudaMemcpyHostToDevice));
    NN_CHECK(cudaMemcpy(s.dLabels, s.labels, sizeof(int) * kBatch, cudaMemcpyHostToDevice));
    criterion.compute(net.forward(s.dImages, kBatch, compute), s.dLabels, kBatch, compute);
    std::printf("test accuracy %.3f\n", criterion.accuracy(kBatch, compute));

    for (Slot &t : slots) {
        cudaFreeHost(t.images); cudaFreeHost(t.labels);
        cudaFree(t.dImages); cudaFree(t.dLabels);
        cudaEventDestroy(t.copied); cudaEventDestroy(t.used);
    }
    cudaStreamDestroy(compute);
    cudaStreamDestroy(transfer);
    return 0;
}
