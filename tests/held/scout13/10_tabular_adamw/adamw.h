#pragma once
#include "array.h"
#include <cmath>

template <typename T>
__global__ void adamw_update(T *w, const T *g, T *m, T *v, int n, T lr, T wd, T b1, T b2, T bias1, T bias2)
{
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) {
        const T gi = g[i];
        m[i] += (T(1) - b1) * (gi - m[i]);
        v[i] += (T(1) - b2) * (gi * gi - v[i]);
        w[i] -= lr * (m[i] / bias1 / (sqrt(v[i] / bias2) + T(1e-8)) + wd * w[i]);
    }
}

template <typename T>
class AdamW {
    struct Slot {
        Array<T> w, g, m, v;
        T decay;
    };

public:
    AdamW(T b1 = T(0.9), T b2 = T(0.98)) : b1_(b1), b2_(b2) {}
    void track(const Array<T> &w, const Array<T> &g, T decay)
    {
        slots_.push_back(Slot{w, g, Array<T>(w.size()), Array<T>(w.size()), decay});
    }
    void step(T lr)
    {
        ++t_;
        for (auto &s : slots_)
            adamw_update<T><<<4, 64>>>(s.w.get(), s.g.get(), s.m.get(), s.v.get(), int(s.w.size()), lr, s.decay, b1_, b2_,
                                       T(1 - std::pow(b1_, t_)), T(1 - std::pow(b2_, t_)));
    }

private:
    std::vector<Slot> slots_;
    T b1_, b2_;
    int t_ = 0;
};
