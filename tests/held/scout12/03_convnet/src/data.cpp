#include "data.h"
#include <random>
// four classes: horizontal stripe, vertical stripe, square, cross
Dataset::Dataset(int count, int size, unsigned seed) : count(count), size(size), images(count * size * size), labels(count)
{
    std::mt19937 rng(seed);
    std::normal_distribution<float> noise(0.f, 0.25f);
    for (int i = 0; i < count; i++) {
        int c = rng() % 4, x0 = 2 + rng() % (size - 5), y0 = 2 + rng() % (size - 5);
        labels[i] = c;
        float *im = &images[i * size * size];
        for (int y = 0; y < size; y++)
            for (int x = 0; x < size; x++) {
                bool on = c == 0 ? y == y0 : c == 1 ? x == x0
                        : c == 2 ? (x >= x0 && x < x0 + 3 && y >= y0 && y < y0 + 3) : (x == x0 || y == y0);
                im[y * size + x] = (on ? 1.f : 0.f) + noise(rng);
            }
    }
}
