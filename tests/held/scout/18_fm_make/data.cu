#include "fm.h"
#include <math.h>
#include <stdlib.h>
#include <cuda_runtime.h>

static unsigned next(unsigned *s) { return *s = *s * 1664525u + 1013904223u; }
static float flat(unsigned *s) { return (next(s) >> 8) / 16777216.0f; }

/* rows of sparse-ish features; the label depends on products of features */
void table_generate(table_t *t, int rows, unsigned seed)
{
    t->rows = rows;
    t->x = (float *)malloc(rows * NFEAT * sizeof(float));
    t->label = (float *)malloc(rows * sizeof(float));
    for (int r = 0; r < rows; r++) {
        float *x = t->x + r * NFEAT;
        for (int i = 0; i < NFEAT; i++) x[i] = flat(&seed) < 0.5f ? 2 * flat(&seed) - 1 : 0;
        float s = 4 * x[0] * x[1] - 3 * x[2] * x[3] + 5 * x[4] * x[5] + 2 * x[6] - 1.5f * x[7] + 3 * x[8] * x[0];
        t->label[r] = flat(&seed) < 1 / (1 + expf(-3 * s)) ? 1 : 0;
    }
    cudaMalloc((void **)&t->d_x, rows * NFEAT * sizeof(float));
    cudaMalloc((void **)&t->d_label, rows * sizeof(float));
    cudaMemcpy(t->d_x, t->x, rows * NFEAT * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(t->d_label, t->label, rows * sizeof(float), cudaMemcpyHostToDevice);
}

void table_free(table_t *t)
{
    free(t->x);
    free(t->label);
    cudaFree(t->d_x);
    cudaFree(t->d_label);
}
