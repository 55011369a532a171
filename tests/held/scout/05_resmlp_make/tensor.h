#pragma once
#include <cstddef>

// A plain matrix on the device, with room for its gradient.
struct Tensor {
    int rows = 0, cols = 0;
    float *data = nullptr;
    float *grad = nullptr;
    int size() const { return rows * cols; }
};

Tensor tensor_new(int rows, int cols, bool with_grad);
void tensor_free(Tensor &t);
void tensor_upload(Tensor &t, const float *src);
void tensor_download(const Tensor &t, float *dst);
void tensor_randn(Tensor &t, float stddev);
void tensor_fill(Tensor &t, float v);
void die_on_error(const char *where);
