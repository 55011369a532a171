// Fits the heat load of a building from six measurements with the mini library.
#include "lib/mini.h"
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

int main()
{
    const int train = 572, test = 40, batch = 52, in = 6, epochs = 5;
    std::mt19937 rng(50);
    std::uniform_real_distribution<float> uniform(-1.f, 1.f);
    std::vector<float> x((train + test) * in), y(train + test);
    for (int i = 0; i < train + test; ++i) {
        float *r = &x[i * in];
        for (int k = 0; k < in; ++k)
            r[k] = uniform(rng);
        y[i] = r[0] * r[1] + 0.5f * r[2] - 0.8f * std::fabs(r[3]) + 0.3f * r[4] * r[4];
    }

    const int widths[] = {in, 21, 13, 1};
    mini_net *net = mini_create(widths, 4, batch, 1u);
    for (int epoch = 0; epoch < epochs; ++epoch) {
        float sum = 0.f;
        for (int first = 0; first < train; first += batch)
            sum += mini_train(net, &x[first * in], &y[first], batch, 0.1f, 0.85f);
        std::printf("epoch %d: train mse %.5f\n", epoch, sum / (train / batch));
    }

    std::vector<float> p(test);
    mini_predict(net, &x[train * in], p.data(), test);
    float mse = 0.f;
    for (int i = 0; i < test; ++i)
        mse += (p[i] - y[train + i]) * (p[i] - y[train + i]) / test;
    std::printf("test mse %.5f\n", mse);
    mini_destroy(net);
    return 0;
}
