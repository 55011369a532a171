#include "kernels.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#define CUDA_OK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("CUDA error %s at line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

static inline int blocks(int n) { return (n + 127) / 128; }

struct Param {
    float *value, *grad, *velocity;
    int n;
    void create(int count, float scale, std::mt19937 &rng)
    {
        n = count;
        CUDA_OK(cudaMalloc(&value, n * sizeof(float)));
        CUDA_OK(cudaMalloc(&grad, n * sizeof(float)));
        CUDA_OK(cudaMalloc(&velocity, n * sizeof(float)));
        std::vector<float> h(n);
        std::uniform_real_distribution<float> u(-scale, scale);
        for (float &v : h)
            v = scale > 0 ? u(rng) : 0.f;
        CUDA_OK(cudaMemcpy(value, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemset(velocity, 0, n * sizeof(float)));
    }
    void destroy() { cudaFree(value); cudaFree(grad); cudaFree(velocity); }
};

// The images: horizontal bar, vertical bar, two diagonals, square.
static void draw(float *img, int cls, std::mt19937 &rng)
{
    std::normal_distribution<float> noise(0.f, 0.35f);
    int a = 2 + rng() % 8;
    for (int y = 0; y < IMG; y++)
        for (int x = 0; x < IMG; x++) {
            bool on = false;
            if (cls == 0) on = y == a;
            if (cls == 1) on = x == a;
            if (cls == 2) on = y - x == a - 6;
            if (cls == 3) on = y + x == a + 5;
            if (cls == 4) on = (abs(x - 6) == a / 2 && abs(y - 6) <= a / 2) || (abs(y - 6) == a / 2 && abs(x - 6) <= a / 2);
            img[y * IMG + x] = (on ? 1.f : 0.f) + noise(rng);
        }
}

int main()
{
    const int nTrain = 1280, batch = 64, epochs = 4;
    std::mt19937 rng(99);
    std::vector<float> images(nTrain * IMG * IMG);
    std::vector<unsigned char> labels(nTrain);
    for (int i = 0; i < nTrain; i++) {
        labels[i] = rng() % CLASSES;
        draw(&images[i * IMG * IMG], labels[i], rng);
    }

    Param kernel, kbias, fcw, fcb;
    kernel.create(CHANNELS * KS * KS, 0.5f, rng);
    kbias.create(CHANNELS, 0.f, rng);
    fcw.create(CLASSES * FLAT, 0.1f, rng);
    fcb.create(CLASSES, 0.f, rng);
    Param *all[] = {&kernel, &kbias, &fcw, &fcb};

    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    float *hImg;
    unsigned char *hLab;
    CUDA_OK(cudaMallocHost((void **)&hImg, batch * IMG * IMG * sizeof(float)));
    CUDA_OK(cudaMallocHost((void **)&hLab, batch));

    float *dImg, *conv, *pool, *logits, *dlogits, *dpool, *dconv, *loss;
    unsigned char *dLab;
    int *where;
    CUDA_OK(cudaMalloc(&dImg, batch * IMG * IMG * sizeof(float)));
    CUDA_OK(cudaMalloc(&dLab, batch));
    CUDA_OK(cudaMalloc(&conv, batch * CHANNELS * CONV * CONV * sizeof(float)));
    CUDA_OK(cudaMalloc(&dconv, batch * CHANNELS * CONV * CONV * sizeof(float)));
    CUDA_OK(cudaMalloc(&pool, batch * FLAT * sizeof(float)));
    CUDA_OK(cudaMalloc(&dpool, batch * FLAT * sizeof(float)));
    CUDA_OK(cudaMalloc(&where, batch * FLAT * sizeof(int)));
    CUDA_OK(cudaMalloc(&logits, batch * CLASSES * sizeof(float)));
    CUDA_OK(cudaMalloc(&dlogits, batch * CLASSES * sizeof(float)));
    CUDA_OK(cudaMalloc(&loss, batch * sizeof(float)));
    std::vector<float> hLoss(batch);

    std::vector<int> order(nTrain);
    std::iota(order.begin(), order.end(), 0);
    for (int epoch = 0; epoch < epochs; epoch++) {
        std::shuffle(order.begin(), order.end(), rng);
        double sum = 0;
        for (int b = 0; b < nTrain / batch; b++) {
            CUDA_OK(cudaStreamSynchronize(stream));
            for (int i = 0; i < batch; i++) {
                int s = order[b * batch + i];
                memcpy(hImg + i * IMG * IMG, &images[s * IMG * IMG], IMG * IMG * sizeof(float));
                hLab[i] = labels[s];
            }
            CUDA_OK(cudaMemcpyAsync(dImg, hImg, batch * IMG * IMG * sizeof(float), cudaMemcpyHostToDevice, stream));
            CUDA_OK(cudaMemcpyAsync(dLab, hLab, batch, cudaMemcpyHostToDevice, stream));

            convForward<<<blocks(batch * CHANNELS * CONV * CONV), 128, 0, stream>>>(dImg, kernel.value, kbias.value, conv, batch);
            poolForward<<<blocks(batch * FLAT), 128, 0, stream>>>(conv, pool, where, batch);
            fcForward<<<blocks(batch * CLASSES), 128, 0, stream>>>(pool, fcw.value, fcb.value, logits, batch);
            softmaxLoss<<<blocks(batch), 128, 0, stream>>>(logits, dLab, dlogits, loss, batch);

            fcBackward<<<blocks(CLASSES * FLAT), 128, 0, stream>>>(pool, dlogits, fcw.grad, fcb.grad, batch);
            fcBackwardInput<<<blocks(batch * FLAT), 128, 0, stream>>>(fcw.value, dlogits, dpool, batch);
            CUDA_OK(cudaMemsetAsync(dconv, 0, batch * CHANNELS * CONV * CONV * sizeof(float), stream));
            poolBackward<<<blocks(batch * FLAT), 128, 0, stream>>>(dpool, where, dconv, batch);
            convBackward<<<CHANNELS, 64, 0, stream>>>(dImg, conv, dconv, kernel.grad, kbias.grad, batch);

            for (Param *p : all)
                sgdMomentum<<<blocks(p->n), 128, 0, stream>>>(p->value, p->velocity, p->grad, 0.05f, 0.9f, p->n);

            CUDA_OK(cudaMemcpyAsync(hLoss.data(), loss, batch * sizeof(float), cudaMemcpyDeviceToHost, stream));
            CUDA_OK(cudaStreamSynchronize(stream));
            for (float l : hLoss)
                sum += l;
        }
        printf("epoch %d  loss %.5f\n", epoch, sum / nTrain);
    }
    for (Param *p : all)
        p->destroy();
    cudaFreeHost(hImg);
    cudaFreeHost(hLab);
    cudaStreamDestroy(stream);
    return 0;
}
