#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <array>
#include <cstddef>

// Two layer encoder whose weights serve several branches. Gradients of the branches add up.
class Encoder {
public:
    struct Branch {            // what one pass needs to remember
        float *input = nullptr, *hidden = nullptr, *embedding = nullptr;
        float *dhidden = nullptr, *dembedding = nullptr;
    };

    Encoder(int in, int hidden, int out, int rows);
    ~Encoder();

    Branch make_branch();
    void forward(const Branch &b);
    void backward(const Branch &b, bool first);
    void update(float rate);
    int embedding_size() const { return out_; }

private:
    float *take(std::size_t n);
    int in_, hidden_, out_, rows_;
    cublasHandle_t blas_;
    // column major, samples in columns
    float *w1_, *w2_, *gw1_, *gw2_;
    float *m1_, *m2_;
    std::array<float *, 64> owned_{};
    int owned_count_ = 0;
};
