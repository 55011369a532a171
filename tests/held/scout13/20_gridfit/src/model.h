#pragma once
#include "config.h"
#include <cuda_runtime.h>
#include <memory>
#include <vector>

namespace gridfit {

template <typename T> class Device {
public:
    explicit Device(size_t n = 1) : n_(n)
    {
        void *p;
        if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
        cudaMemset(p, 0, n * sizeof(T));
        p_.reset(static_cast<T *>(p), cudaFree);
    }
    T *get() const { return p_.get(); }
    size_t count() const { return n_; }
    void clear() { cudaMemset(p_.get(), 0, n_ * sizeof(T)); }

private:
    std::shared_ptr<T> p_;
    size_t n_;
};

// A trainable thing with its gradient and the two moments of Adam, all of one type
template <typename T> struct Trainable {
    Device<T> value, gradient, first, second;
    explicit Trainable(size_t n = 1) : value(n), gradient(n), first(n), second(n) {}
    size_t floats() const { return value.count() * sizeof(T) / sizeof(float); }
};

class Model {
public:
    explicit Model(unsigned seed);
    // pixels: the image on the device; chosen: numbers of pixels, on the device
    float step(const Pixel *pixels, const int *chosen, int n, float rate);
    float psnr(const Pixel *pixels, int n);

private:
    Trainable<float> grid_{(size_t)grid_size()};
    Trainable<Mlp> mlp_;
    Device<float> loss_;
    int iteration_ = 0;
};

} // namespace gridfit
