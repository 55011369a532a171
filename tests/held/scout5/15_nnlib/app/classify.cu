// Example: classify points of five Gaussian clusters in 20 dimensions that are bent by a nonlinearity.
#include "nn/nn.h"
#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

struct Dataset {
    int features, classes;
    std::vector<std::vector<float>> x;
    std::vector<int> y;
};

static Dataset make_dataset(int n, int features, int classes, std::mt19937 &rng)
{
    Dataset d{features, classes, {}, {}};
    std::normal_distribution<float> g(0, 1);
    std::vector<float> centers(classes * features);
    for (auto &c : centers)
        c = 0.9f * g(rng);
    for (int i = 0; i < n; ++i) {
        int c = static_cast<int>(rng() % classes);
        std::vector<float> row(features);
        for (int f = 0; f < features; ++f) {
            float v = centers[c * features + f] + g(rng);
            row[f] = v * std::sin(v) + 0.3f * v;
        }
        d.x.push_back(row);
        d.y.push_back(c);
    }
    return d;
}

class DataLoader {
public:
    DataLoader(const Dataset &d, int batch_size, std::mt19937 &rng) : data_(d), batch_size_(batch_size), rng_(rng), order_(d.x.size())
    {
        std::iota(order_.begin(), order_.end(), 0);
    }
    void reset()
    {
        std::shuffle(order_.begin(), order_.end(), rng_);
        next_ = 0;
    }
    bool next(std::vector<float> &x, std::vector<int> &y)
    {
        x.clear();
        y.clear();
        std::size_t end = std::min(next_ + batch_size_, order_.size());
        for (; next_ < end; ++next_) {
            const auto &row = data_.x[order_[next_]];
            x.insert(x.end(), row.begin(), row.end());
            y.push_back(data_.y[order_[next_]]);
        }
        return !y.empty();
    }

private:
    const Dataset &data_;
    std::size_t batch_size_, next_ = 0;
    std::mt19937 &rng_;
    std::vector<int> order_;
};

int main()
{
    std::mt19937 rng(8);
    Dataset train = make_dataset(1000, 20, 5, rng);
    const int batch_size = 64;
    DataLoader loader(train, batch_size, rng);

    nn::Sequential model(std::make_shared<nn::Linear>(20, 40, rng), std::make_shared<nn::ELU>(),
                         std::make_shared<nn::Linear>(40, 24, rng), std::make_shared<nn::ELU>(),
                         std::make_shared<nn::Linear>(24, 5, rng));
    nn::SGD optimizer(model.parameters(), 0.05f, 0.9f, 1e-4f);
    nn::CrossEntropyLoss criterion;

    std::vector<float> bx;
    std::vector<int> by;
    for (int epoch = 1; epoch <= 8; ++epoch) {
        loader.reset();
        float total = 0;
        int batches = 0;
        while (loader.next(bx, by)) {
            auto x = nn::make_tensor({static_cast<int>(by.size()), train.features});
            x->from_host(bx);
            optimizer.zero_grad();
            auto logits = model.forward(x);
            total += criterion.forward(logits, by);
            criterion.backward();
            model.backward();
            optimizer.step();
            ++batches;
        }
        std::cout << "epoch " << epoch << " lr " << optimizer.lr() << " loss " << total / batches << "\n";
        if (epoch % 3 == 0)
            optimizer.set_lr(optimizer.lr() * 0.5f);
    }
    return 0;
}
