// Classifies the arms of a spiral with the library in src/.
#include "nn.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

struct Spiral {
    std::vector<float> x, y;
    int n, classes;
    Spiral(int per_class, int classes) : n(per_class * classes), classes(classes)
    {
        std::mt19937 gen(4);
        std::normal_distribution<float> noise(0, 0.1f);
        for (int c = 0; c < classes; ++c)
            for (int i = 0; i < per_class; ++i) {
                float r = (float)i / per_class, t = c * 4.0f + 3.0f * r + noise(gen);
                x.push_back(r * std::sin(t) * 2);
                x.push_back(r * std::cos(t) * 2);
                for (int k = 0; k < classes; ++k) y.push_back(k == c ? 1.f : 0.f);
            }
    }
};

class DataLoader {
    const Spiral &ds_;
    int batch_;
    std::vector<int> order_;
    std::mt19937 gen_{8};

public:
    DataLoader(const Spiral &ds, int batch) : ds_(ds), batch_(batch), order_(ds.n) { std::iota(order_.begin(), order_.end(), 0); }
    void shuffle() { std::shuffle(order_.begin(), order_.end(), gen_); }
    int batches() const { return ds_.n / batch_; }
    std::pair<mg::TensorPtr, mg::TensorPtr> get(int i) const
    {
        std::vector<float> hx, hy;
        for (int k = i * batch_; k < (i + 1) * batch_; ++k) {
            int s = order_[k];
            hx.insert(hx.end(), &ds_.x[2 * s], &ds_.x[2 * s] + 2);
            hy.insert(hy.end(), &ds_.y[ds_.classes * s], &ds_.y[ds_.classes * s] + ds_.classes);
        }
        auto x = std::make_shared<mg::Tensor>(batch_, 2);
        auto y = std::make_shared<mg::Tensor>(batch_, ds_.classes);
        x->load(hx.data());
        y->load(hy.data());
        return {x, y};
    }
};

int main()
{
    using namespace mg;
    Spiral data(256, 3);
    DataLoader loader(data, 64);
    nn::Sequential model(std::make_shared<nn::Linear>(2, 48), std::make_shared<nn::ReLU>(), std::make_shared<nn::Linear>(48, 32),
                         std::make_shared<nn::ReLU>(), std::make_shared<nn::Linear>(32, 3));
    optim::SGD opt(model.parameters(), 0.1f, 0.9f, 1e-4f);

    for (int epoch = 0; epoch < 15; ++epoch) {
        loader.shuffle();
        float total = 0;
        for (int i = 0; i < loader.batches(); ++i) {
            auto [x, y] = loader.get(i);
            auto loss = softmax_cross_entropy(model.forward(x), y);
            opt.zero_grad();
            loss->backward();
            opt.step();
            total += loss->item();
        }
        if (epoch % 2 == 0) std::printf("epoch %2d  loss %.4f\n", epoch, total / loader.batches());
        if (epoch == 10) opt.lr *= 0.3f;
    }
    return 0;
}
