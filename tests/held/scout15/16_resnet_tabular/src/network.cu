#include "network.h"
#include "kernels.h"
#include <cmath>
#include <cuda_runtime.h>
#include <stdexcept>

Network::Network(int features, int width, int capacity, unsigned seed) : features_(features), width_(width), rng_(seed) {
    auto layer = [&](int in, int out) {
        weights_.push_back(create(in * out, 0.8f / std::sqrt((float)in)));
        weights_.push_back(create(out, 0.f));
    };
    layer(features, width);
    for (int i = 0; i < kBlocks; i++) layer(width, width);
    layer(width, 1);
    for (float *&p : stream_) p = allocate(capacity * width);
    for (float *&p : branch_) p = allocate(capacity * width);
    score_ = allocate(capacity);
    dstream_ = allocate(capacity * width);
    dbranch_ = allocate(capacity * width);
    dtemp_ = allocate(capacity * width);
}

Network::~Network() {
    for (float *p : owned_) cudaFree(p);
}

float *Network::allocate(int count) {
    float *p;
    if (cudaMalloc(&p, count * sizeof(float)) != cudaSuccess) throw std::runtime_error("out of memory");
    cudaMemset(p, 0, count * sizeof(float));
    owned_.push_back(p);
    return p;
}

Weight Network::create(int count, float deviation) {
    Weight w = {allocate(count), allocate(count), allocate(count), allocate(count), count};
    if (deviation > 0.f) {
        std::normal_distribution<float> normal(0.f, deviation);
        std::vector<float> host(count);
        for (float &v : host) v = normal(rng_);
        cudaMemcpy(w.value, host.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    }
    return w;
}

const float *Network::forward(const float *x, int n) {
    linear(x, weights_[0].value, weights_[1].value, stream_[0], n, features_, width_);
    for (int i = 0; i < kBlocks; i++) {
        linear(stream_[i], weights_[2 * i + 2].value, weights_[2 * i + 3].value, branch_[i], n, width_, width_);
        add_tanh(stream_[i], branch_[i], stream_[i + 1], n * width_);
    }
    linear(stream_[kBlocks], weights_[2 * kBlocks + 2].value, weights_[2 * kBlocks + 3].value, score_, n, width_, 1);
    return score_;
}

void Network::backward(const float *x, const float *dscore, int n) {
    const int last = 2 * kBlocks + 2;
    linear_weight_grad(stream_[kBlocks], dscore, weights_[last].grad, weights_[last + 1].grad, n, width_, 1);
    linear_input_grad(dscore, weights_[last].value, dstream_, n, width_, 1);
    for (int i = kBlocks - 1; i >= 0; i--) {
        add_tanh_grad(branch_[i], dstream_, dbranch_, n * width_);
        linear_weight_grad(stream_[i], dbranch_, weights_[2 * i + 2].grad, weights_[2 * i + 3].grad, n, width_, width_);
        linear_input_grad(dbranch_, weights_[2 * i + 2].value, dtemp_, n, width_, width_);
        add_to(dstream_, dtemp_, n * width_);
    }
    linear_weight_grad(x, dstream_, weights_[0].grad, weights_[1].grad, n, features_, width_);
}

void Network::update(float rate) {
    ++t_;
    for (Weight &w : weights_) adam_update(w.value, w.grad, w.first, w.second, w.count, rate, t_);
}
