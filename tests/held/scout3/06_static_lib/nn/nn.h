#ifndef NN_H
#define NN_H

#include <cstddef>

namespace nn {

struct Param {
    float *value;
    float *grad;
    int count;
};

struct Linear {
    int in, out;
    Param w, b;
};

Linear linear_create(int in, int out, unsigned &seed);
void linear_destroy(Linear &l);
void linear_forward(const Linear &l, const float *x, float *y, int rows);
void linear_backward(Linear &l, const float *x, const float *dy, float *dx, int rows);

void sigmoid_forward(float *a, int n);
void sigmoid_backward(const float *a, float *d, int n);

// mean cross entropy; writes d(loss)/d(logits) and the loss of each row
void cross_entropy(const float *logits, const int *target, float *dlogits, float *row_loss, int rows, int classes);
void count_correct(const float *logits, const int *target, int rows, int classes, int *count);

void sgd(Param &p, float lr, float weight_decay);

template <typename T>
T *device_array(size_t n);

}  // namespace nn

#endif
