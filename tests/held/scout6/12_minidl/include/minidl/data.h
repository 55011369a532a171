#pragma once
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>
#include "minidl/tensor.h"

namespace minidl {

struct Dataset {
    int features = 0, classes = 0;
    std::vector<float> x;
    std::vector<int> y;
    int size() const { return static_cast<int>(y.size()); }
};

struct Batch {
    Tensor x, y;    // y is one-hot
};

/// Yields shuffled batches; drops the last one if it is not full.
class DataLoader {
public:
    DataLoader(const Dataset& ds, int batch_size, bool shuffle, unsigned seed)
        : ds_(ds), batch_size_(batch_size), shuffle_(shuffle), rng_(seed), order_(ds.size())
    {
        std::iota(order_.begin(), order_.end(), 0);
    }
    int batches() const { return ds_.size() / batch_size_; }
    void reset()
    {
        cursor_ = 0;
        if (shuffle_)
            std::shuffle(order_.begin(), order_.end(), rng_);
    }
    bool next(Batch& batch)
    {
        if (cursor_ + batch_size_ > ds_.size())
            return false;
        std::vector<float> x(batch_size_ * ds_.features), y(batch_size_ * ds_.classes, 0.0f);
        for (int i = 0; i < batch_size_; ++i) {
            int s = order_[cursor_ + i];
            std::copy_n(&ds_.x[s * ds_.features], ds_.features, &x[i * ds_.features]);
            y[i * ds_.classes + ds_.y[s]] = 1.0f;
        }
        batch.x = Tensor::from_host(x, batch_size_, ds_.features);
        batch.y = Tensor::from_host(y, batch_size_, ds_.classes);
        cursor_ += batch_size_;
        return true;
    }

private:
    const Dataset& ds_;
    int batch_size_;
    bool shuffle_;
    std::mt19937 rng_;
    std::vector<int> order_;
    int cursor_ = 0;
};

}  // namespace minidl
