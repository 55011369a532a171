#include "minidl/minidl.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

using namespace minidl;

int main(int argc, char **argv)
{
    size_t batch = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
    int epochs = argc > 2 ? std::atoi(argv[2]) : 8;

    const int perClass = 400, classes = 3;
    std::mt19937 rng(6);
    std::normal_distribution<float> noise(0.f, 0.12f);
    std::vector<float> x;
    std::vector<int> y;
    for (int c = 0; c < classes; ++c)
        for (int i = 0; i < perClass; ++i) {
            float r = (float)i / perClass, t = 4.f * c + 4.f * r + noise(rng);
            float px = r * std::sin(t), py = r * std::cos(t);
            for (float v : { px, py, px * px, py * py, px * py }) x.push_back(3.f * v);
            y.push_back(c);
        }

    Sequential net;
    net.add<Linear>(5, 48, 1u).add<ReLU>().add<Linear>(48, 32, 2u).add<ReLU>().add<Linear>(32, 3, 3u);
    CrossEntropy criterion;
    SGD optim(net.parameters(), 0.1f, 0.9f);
    DataLoader loader(x, y, 5, classes, batch, 100);

    Var in, target;
    for (int e = 0; e < epochs; ++e) {
        float total = 0;
        size_t seen = 0;
        while (loader.next(in, target)) {
            total += criterion.forward(net.forward(in), target);
            net.backward();
            optim.step(in->n);
            seen += in->n;
        }
        std::printf("epoch %d loss %.5f lr %.4f\n", e, total / seen, optim.lr);
        optim.lr *= 0.9f;
    }
    return 0;
}
