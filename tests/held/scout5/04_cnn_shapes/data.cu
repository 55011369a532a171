#include "cnn.h"
#include <stdlib.h>

static float frand(unsigned *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (*s >> 8) / 16777216.0f;
}

/* horizontal bar, vertical bar, cross, square, each with noise */
void make_shapes(float *images, int *labels, int n, unsigned seed)
{
    unsigned s = seed;
    for (int i = 0; i < n; i++) {
        float *im = images + i * IMG * IMG;
        int kind = (int)(frand(&s) * NCLASS) % NCLASS;
        int cx = 3 + (int)(frand(&s) * 6), cy = 3 + (int)(frand(&s) * 6);
        for (int p = 0; p < IMG * IMG; p++)
            im[p] = 0.25f * frand(&s);
        for (int t = -2; t <= 2; t++) {
            if (kind == 0 || kind == 2)
                im[cy * IMG + cx + t] += 0.9f;
            if (kind == 1 || kind == 2)
                im[(cy + t) * IMG + cx] += 0.9f;
            if (kind == 3) {
                im[(cy - 2) * IMG + cx + t] += 0.9f;
                im[(cy + 2) * IMG + cx + t] += 0.9f;
                im[(cy + t) * IMG + cx - 2] += 0.9f;
                im[(cy + t) * IMG + cx + 2] += 0.9f;
            }
        }
        labels[i] = kind;
    }
}
