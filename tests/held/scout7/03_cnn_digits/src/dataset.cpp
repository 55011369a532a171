#include "dataset.h"
#include <cstdlib>
#include <random>

// Ten fixed glyphs, shifted by up to one pixel, with noise
Dataset makeDigits(int n, int width, int classes, unsigned seed)
{
    std::mt19937 glyphGen(99), gen(seed);
    int g = width - 2;
    std::vector<float> glyphs(classes * g * g);
    for (auto &v : glyphs) v = glyphGen() % 100 < 40 ? 1.f : 0.f;
    std::normal_distribution<float> noise(0.f, 0.2f);
    Dataset d;
    d.size = n;
    d.width = width;
    d.images.resize((size_t)n * width * width);
    d.labels.resize(n);
    for (int i = 0; i < n; ++i) {
        int c = gen() % classes, dx = gen() % 3, dy = gen() % 3;
        d.labels[i] = c;
        float *im = &d.images[(size_t)i * width * width];
        for (int p = 0; p < width * width; ++p) im[p] = noise(gen);
        for (int y = 0; y < g; ++y)
            for (int x = 0; x < g; ++x) im[(y + dy) * width + x + dx] += glyphs[(c * g + y) * g + x];
    }
    return d;
}
