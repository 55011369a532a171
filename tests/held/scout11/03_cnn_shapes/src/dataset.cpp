#include "dataset.h"
#include <random>

void load_shapes(Sample *set, int count, unsigned seed)
{
    std::mt19937 rng(seed);
    std::uniform_real_distribution<float> noise(-0.25f, 0.25f);
    for (int n = 0; n < count; ++n) {
        Sample &s = set[n];
        for (float &p : s.image)
            p = noise(rng);
        s.label = rng() % 4;
        int cy = 4 + rng() % 6, cx = 4 + rng() % 6;
        for (int d = -3; d <= 3; ++d) {
            if (s.label == 0 || s.label == 2)
                s.image[cy * 14 + cx + d] += 1;
            if (s.label == 1 || s.label == 2)
                s.image[(cy + d) * 14 + cx] += 1;
            if (s.label == 3) {
                s.image[(cy - 3) * 14 + cx + d] += 1;
                s.image[(cy + 3) * 14 + cx + d] += 1;
                s.image[(cy + d) * 14 + cx - 3] += 1;
                s.image[(cy + d) * 14 + cx + 3] += 1;
            }
        }
    }
}
