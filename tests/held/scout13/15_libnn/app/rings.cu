// Tells the inner from the outer ring.
#include "nn/nn.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>

struct Rings {
    std::vector<float> xy, label;
    Rings(int n, std::mt19937 &rng)
    {
        std::uniform_real_distribution<float> angle(0.f, 6.2831853f);
        std::normal_distribution<float> noise(0.f, 0.15f);
        for (int i = 0; i < n; i++) {
            int c = rng() & 1;
            float a = angle(rng), r = (c ? 1.4f : 0.7f) + noise(rng);
            xy.push_back(r * std::cos(a));
            xy.push_back(r * std::sin(a));
            label.push_back(c);
        }
    }
};

int main()
try {
    const int batch = 32, epochs = 4, samples = 416, tests = 128;
    std::mt19937 rng(21);
    Rings train_set(samples, rng), test_set(tests, rng);

    nn::Sequential net;
    net.add<nn::Linear>(2, 32, true, rng).add<nn::Dropout>(0.1f, 99u);
    net.add<nn::Linear>(32, 16, true, rng).add<nn::Linear>(16, 1, false, rng);
    nn::SGD optimizer(net.params(), 0.1f, 0.9f, 1e-4f);

    auto input = std::make_shared<nn::Activation>(batch, 2);
    nn::Buffer target(batch);
    std::vector<float> x(batch * 2), t(batch);
    std::vector<int> order(samples);
    std::iota(order.begin(), order.end(), 0);

    for (int epoch = 0; epoch < epochs; epoch++) {
        std::shuffle(order.begin(), order.end(), rng);
        net.train(true);
        float total = 0.f;
        int steps = 0;
        for (int first = 0; first + batch <= samples; first += batch, steps++) {
            for (int i = 0; i < batch; i++) {
                int s = order[first + i];
                x[2 * i] = train_set.xy[2 * s];
                x[2 * i + 1] = train_set.xy[2 * s + 1];
                t[i] = train_set.label[s];
            }
            input->data->write(x.data(), batch * 2);
            target.write(t.data(), batch);
            optimizer.zero_grad();
            auto logits = net.forward(input);
            total += nn::bce_with_logits(logits, target);
            net.backward();
            optimizer.step();
        }
        optimizer.lr *= 0.7f;

        net.train(false);
        int right = 0;
        std::vector<float> z(batch);
        for (int first = 0; first < tests; first += batch) {
            input->data->write(&test_set.xy[2 * first], batch * 2);
            net.forward(input)->data->read(z.data(), batch);
            for (int i = 0; i < batch; i++) right += (z[i] > 0.f) == (test_set.label[first + i] > 0.5f);
        }
        std::printf("epoch %d  loss %.4f  test accuracy %.1f%%\n", epoch + 1, total / steps, 100.0 * right / tests);
    }
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
