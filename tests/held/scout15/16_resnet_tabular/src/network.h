#pragma once
#include <random>
#include <vector>

struct Weight {
    float *value, *grad, *first, *second;
    int count;
};

// features -> width, two residual blocks x + tanh(Wx + b), width -> 1
class Network {
public:
    Network(int features, int width, int capacity, unsigned seed);
    ~Network();
    const float *forward(const float *x, int n);
    void backward(const float *x, const float *dscore, int n);
    void update(float rate);

private:
    static const int kBlocks = 2;
    Weight create(int count, float deviation);
    float *allocate(int count);

    int features_, width_, t_ = 0;
    std::mt19937 rng_;
    std::vector<Weight> weights_;  // matrix and bias in turn
    std::vector<float *> owned_;
    float *stream_[kBlocks + 1], *branch_[kBlocks], *score_, *dstream_, *dbranch_, *dtemp_;
};
