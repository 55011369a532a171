#ifndef DATA_H
#define DATA_H
typedef struct {
    int rows, in, out;
    float *X, *y;
} data;

data make_rings(int rows, int classes, int extra);
void get_random_batch(data d, int n, float *X, float *y);
#endif
