#include <cmath>
#include <iostream>
#include <random>
#include "tensor.h"

using namespace tt;

class Linear : public Module {
public:
    Linear(int in, int out, std::mt19937 &g) : W(make(in, out, true)), b(make(1, out, true))
    {
        std::uniform_real_distribution<float> u(-1.f / std::sqrt((float)in), 1.f / std::sqrt((float)in));
        std::vector<float> w(in * out), z(out, 0.f);
        for (auto &x : w) x = u(g);
        W->copyFromHost(w.data());
        b->copyFromHost(z.data());
    }
    TensorPtr operator()(TensorPtr x) override { return addBias(matmul(x, W), b); }
    std::vector<TensorPtr> parameters() override { return { W, b }; }

private:
    TensorPtr W, b;
};

class Gelu : public Module {
public:
    TensorPtr operator()(TensorPtr x) override { return gelu(x); }
};

class Sequential : public Module {
public:
    void add(std::shared_ptr<Module> m) { mods.push_back(std::move(m)); }
    TensorPtr operator()(TensorPtr x) override
    {
        for (auto &m : mods) x = (*m)(x);
        return x;
    }
    std::vector<TensorPtr> parameters() override
    {
        std::vector<TensorPtr> all;
        for (auto &m : mods)
            for (auto &p : m->parameters()) all.push_back(p);
        return all;
    }

private:
    std::vector<std::shared_ptr<Module>> mods;
};

int main()
{
    constexpr int kIn = 6, kBatch = 50, kSamples = 1000, kEpochs = 6;
    std::mt19937 gen(0);
    std::uniform_real_distribution<float> u(-1.f, 1.f);
    std::vector<float> X(kSamples * kIn), Y(kSamples * 2);
    for (int i = 0; i < kSamples; ++i) {
        float *x = &X[i * kIn];
        for (int j = 0; j < kIn; ++j) x[j] = u(gen);
        Y[i * 2] = std::sin(2 * x[0]) * x[1] + x[2] * x[2];
        Y[i * 2 + 1] = std::fabs(x[3]) - x[4] * x[5];
    }

    Sequential net;
    net.add(std::make_shared<Linear>(kIn, 64, gen));
    net.add(std::make_shared<Gelu>());
    net.add(std::make_shared<Linear>(64, 32, gen));
    net.add(std::make_shared<Gelu>());
    net.add(std::make_shared<Linear>(32, 2, gen));
    SGD opt(net.parameters(), 0.1f, 0.9f, true);

    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        float total = 0;
        for (int i = 0; i < kSamples; i += kBatch) {
            auto x = make(kBatch, kIn), y = make(kBatch, 2);
            x->copyFromHost(&X[i * kIn]);
            y->copyFromHost(&Y[i * 2]);
            auto loss = mseLoss(net(x), y);
            opt.zeroGrad();
            loss->backward();
            opt.step();
            total += loss->toHost()[0];
        }
        std::cout << "epoch " << epoch << " loss " << total * kBatch / kSamples << std::endl;
        if (epoch == 3) opt.lr *= 0.3f;
    }
    return 0;
}
