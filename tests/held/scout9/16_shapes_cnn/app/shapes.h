#pragma once
#include <cmath>
#include <random>

// 12 x 12 images of a disc, a square, a cross or a ring
class Shapes {
public:
    static const int kSide = 12, kClasses = 4;
    explicit Shapes(unsigned seed) : rng_(seed) {}
    void draw(float *image, int *label)
    {
        std::uniform_real_distribution<float> u(0.f, 1.f);
        const int kind = rng_() % kClasses;
        const float cx = 4.5f + 2.f * u(rng_), cy = 4.5f + 2.f * u(rng_), r = 2.8f + 1.2f * u(rng_);
        for (int y = 0; y < kSide; ++y)
            for (int x = 0; x < kSide; ++x) {
                const float dx = std::fabs(x - cx), dy = std::fabs(y - cy), d = std::sqrt(dx * dx + dy * dy);
                bool on = false;
                if (kind == 0) on = d < r;
                if (kind == 1) on = std::fmax(dx, dy) < 0.85f * r;
                if (kind == 2) on = (dx < 0.8f || dy < 0.8f) && std::fmax(dx, dy) < r;
                if (kind == 3) on = d < r && d > r - 1.3f;
                image[y * kSide + x] = (on ? 0.8f : 0.f) + 0.2f * u(rng_) - 0.2f;
            }
        *label = kind;
    }

private:
    std::mt19937 rng_;
};
