// Friedman #1 regression with the little autograd library.
#include "lib/optim.h"

#include <cmath>
#include <iostream>
#include <random>

using namespace tg;

static const int kFeatures = 10;

struct Batch {
    std::vector<float> x, y;
};

class Friedman {
public:
    explicit Friedman(unsigned seed) : gen(seed) {}
    Batch next(int n)
    {
        Batch b;
        std::uniform_real_distribution<float> u(0, 1);
        std::normal_distribution<float> noise(0, 0.02f);
        for (int i = 0; i < n; ++i) {
            float f[kFeatures];
            for (float &v : f)
                v = u(gen);
            float t = 10 * std::sin(3.14159265f * f[0] * f[1]) + 20 * (f[2] - 0.5f) * (f[2] - 0.5f) + 10 * f[3] + 5 * f[4];
            for (float v : f)
                b.x.push_back(2 * v - 1);
            b.y.push_back((t - 14.4f) / 5 + noise(gen));
        }
        return b;
    }

private:
    std::mt19937 gen;
};

int main()
{
    const int batch_size = 64, steps = 150;
    Sequential net{std::make_shared<Linear>(kFeatures, 48, 1), std::make_shared<Gelu>(),
                   std::make_shared<Linear>(48, 48, 2),        std::make_shared<Gelu>(),
                   std::make_shared<Linear>(48, 1, 3)};
    std::vector<Tensor> params;
    net.parameters(params);
    SGD opt(params, 0.03f, 0.9f, 1e-4f);
    Friedman data(2024);

    auto x = zeros(batch_size, kFeatures);
    auto y = zeros(batch_size, 1);
    float running = 0;
    for (int step = 1; step <= steps; ++step) {
        Batch b = data.next(batch_size);
        x->from_host(b.x.data());
        y->from_host(b.y.data());
        opt.zero_grad();
        Tensor loss = mse_loss(net.forward(x), y);
        backward(loss);
        opt.step();
        running += loss->item();
        if (step == 100)
            opt.lr *= 0.3f;
        if (step % 15 == 0) {
            std::cout << "step " << step << "  mse " << running / 15 << "\n";
            running = 0;
        }
    }
    return 0;
}
