#ifndef LAYERS_H
#define LAYERS_H
#include "blob.h"

#include <random>

class Layer {
public:
    virtual ~Layer() = default;
    virtual BlobPtr setUp(BlobPtr bottom) = 0; // returns the top
    virtual void forward() = 0;
    virtual void backward() = 0;
    std::vector<BlobPtr> params;

protected:
    BlobPtr bottom_, top_;
};

class Convolution : public Layer { // 3x3, padded, followed by ReLU
public:
    Convolution(int filters, std::mt19937 &rng) : filters_(filters), rng_(rng) {}
    BlobPtr setUp(BlobPtr bottom) override;
    void forward() override;
    void backward() override;

private:
    int filters_;
    std::mt19937 &rng_;
};

class MaxPool : public Layer { // 2x2
public:
    ~MaxPool() override { cudaFree(which_); }
    BlobPtr setUp(BlobPtr bottom) override;
    void forward() override;
    void backward() override;

private:
    int *which_ = nullptr;
};

class InnerProduct : public Layer {
public:
    InnerProduct(int outputs, std::mt19937 &rng) : outputs_(outputs), rng_(rng) {}
    BlobPtr setUp(BlobPtr bottom) override;
    void forward() override;
    void backward() override;

private:
    int outputs_;
    std::mt19937 &rng_;
};

class SoftmaxLoss : public Layer {
public:
    ~SoftmaxLoss() override { cudaFree(labels_); cudaFree(each_); }
    BlobPtr setUp(BlobPtr bottom) override;
    void forward() override;
    void backward() override;
    int *labels() { return labels_; }
    float loss();

private:
    int *labels_ = nullptr;
    float *each_ = nullptr;
};
#endif
