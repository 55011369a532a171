#pragma once
#include <cstdlib>
#include <vector>

struct Transition {
    float state[4];
    int action;
    float reward;
    float next[4];
    float done;
};

// Ring buffer on the host
class ReplayBuffer {
public:
    explicit ReplayBuffer(size_t capacity) : capacity_(capacity) { items_.reserve(capacity); }
    void push(const Transition &t)
    {
        if (items_.size() < capacity_)
            items_.push_back(t);
        else
            items_[pos_] = t;
        pos_ = (pos_ + 1) % capacity_;
    }
    void sample(std::vector<Transition> &out, size_t n) const
    {
        out.clear();
        for (size_t i = 0; i < n; i++) out.push_back(items_[rand() % items_.size()]);
    }
    size_t size() const { return items_.size(); }

private:
    std::vector<Transition> items_;
    size_t capacity_, pos_ = 0;
};
