#pragma once
// Noisy 14x14 drawings: horizontal bar, vertical bar, cross, square outline
struct Sample {
    float image[14 * 14];
    unsigned int label;
};
void load_shapes(Sample *set, int count, unsigned seed);
