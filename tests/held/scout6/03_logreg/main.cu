#include "logistic_regression.h"

#include <cstdio>
#include <cmath>
#include <random>
#include <vector>

// Blobs of light in the left or the right half of a 20x20 image
static void make_images(int n, std::mt19937& gen, std::vector<float>& X, std::vector<float>& y)
{
    const int S = 20;
    std::normal_distribution<float> noise(0.0f, 0.5f);
    std::uniform_int_distribution<int> side(0, 1), col(1, 6), row(2, S - 3);
    X.assign(n * S * S, 0.0f);
    y.resize(n);
    for (int i = 0; i < n; ++i) {
        int right = side(gen);
        int cx = col(gen) + (right ? 12 : 0), cy = row(gen);
        for (int r = 0; r < S; ++r)
            for (int c = 0; c < S; ++c) {
                float d2 = float((r - cy) * (r - cy) + (c - cx) * (c - cx));
                X[(i * S + r) * S + c] = 1.5f * std::exp(-d2 / 6.0f) + noise(gen);
            }
        y[i] = float(right);
    }
}

int main()
{
    std::mt19937 gen(42);
    std::vector<float> X, y, Xt, yt;
    make_images(1000, gen, X, y);
    make_images(256, gen, Xt, yt);

    LogisticRegression model(400, 0.1f, 120);
    model.fit(X, y, 9);
    std::printf("train accuracy %.3f, test accuracy %.3f\n", model.score(X, y), model.score(Xt, yt));
    return 0;
}
