#pragma once
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

constexpr int NUM_FIELDS = 4;
constexpr int NUM_DENSE = 6;
constexpr int BUCKETS = 400;       // rows of the embedding table, shared by all fields
constexpr int EMB = 8;
constexpr int WIDTH = NUM_FIELDS * EMB + NUM_DENSE;
constexpr int HIDDEN = 32;

struct Impression {
    int cat[NUM_FIELDS];
    float dense[NUM_DENSE];
    float click;
};

#define CHECK_CUDA(call)                                                             \
    if (cudaError_t e = (call)) {                                                    \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));   \
        exit(1);                                                                     \
    }

// weights with gradient and the accumulator of Adagrad
template <int ROWS, int COLS> struct Weights {
    static constexpr int size = ROWS * COLS;
    float *value = nullptr, *grad = nullptr, *accum = nullptr;
    void create(float scale)
    {
        std::vector<float> h(size);
        for (float &x : h) x = scale * (2.f * rand() / RAND_MAX - 1.f);
        CHECK_CUDA(cudaMalloc(&value, size * sizeof(float)));
        CHECK_CUDA(cudaMalloc(&grad, size * sizeof(float)));
        CHECK_CUDA(cudaMalloc(&accum, size * sizeof(float)));
        CHECK_CUDA(cudaMemcpy(value, h.data(), size * sizeof(float), cudaMemcpyHostToDevice));
        CHECK_CUDA(cudaMemset(accum, 0, size * sizeof(float)));
    }
    void zero() { CHECK_CUDA(cudaMemset(grad, 0, size * sizeof(float))); }
    void destroy() { cudaFree(value); cudaFree(grad); cudaFree(accum); }
};

class CTRModel {
public:
    explicit CTRModel(int max_batch);
    ~CTRModel();
    void predict(const Impression *host, int n, float *host_prob);
    // adds the gradient of scale * sum of the losses, returns the sum of the losses
    float accumulate(const Impression *host, int n, float scale);
    void apply(float lr);
    void zero_grad();

private:
    void forward(const Impression *host, int n);
    int max_batch_;
    Weights<BUCKETS, EMB> table_;
    Weights<HIDDEN, WIDTH + 1> fc1_;
    Weights<1, HIDDEN + 1> fc2_;
    Impression *batch_;
    float *input_, *hidden_, *logit_, *dinput_, *dhidden_, *dlogit_, *loss_;
};
