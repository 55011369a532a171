#include "data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* concentric rings, embedded in `extra` noisy dimensions */
data make_rings(int rows, int classes, int extra)
{
    data d = { rows, 2 + extra, classes, 0, 0 };
    d.X = (float *)calloc((size_t)rows * d.in, sizeof(float));
    d.y = (float *)calloc((size_t)rows * classes, sizeof(float));
    for (int i = 0; i < rows; ++i) {
        int c = rand() % classes;
        float a = 6.28318f * rand() / RAND_MAX, r = 0.5f + c + 0.3f * rand() / RAND_MAX;
        d.X[i * d.in] = r * cosf(a);
        d.X[i * d.in + 1] = r * sinf(a);
        for (int j = 0; j < extra; ++j) d.X[i * d.in + 2 + j] = 0.2f * rand() / RAND_MAX;
        d.y[i * classes + c] = 1;
    }
    return d;
}

void get_random_batch(data d, int n, float *X, float *y)
{
    for (int j = 0; j < n; ++j) {
        int index = rand() % d.rows;
        memcpy(X + j * d.in, d.X + index * d.in, d.in * sizeof(float));
        memcpy(y + j * d.out, d.y + index * d.out, d.out * sizeof(float));
    }
}
