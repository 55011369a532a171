#pragma once
#include <cublas_v2.h>
#include "tensor.h"

void ops_init();
void ops_shutdown();
// y = x w + b
void linear_forward(const Tensor &x, const Tensor &w, const Tensor &b, Tensor &y);
// fills w.grad and b.grad, adds to x.grad when want_dx
void linear_backward(Tensor &x, Tensor &w, Tensor &b, const Tensor &y, bool want_dx);
void relu_forward(const Tensor &x, Tensor &y);
void relu_backward(Tensor &x, const Tensor &y);
void add_forward(const Tensor &a, const Tensor &b, Tensor &y);
void softmax_xent(Tensor &logits, const int *labels, float *losses);
void zero_grad(Tensor &t);
void sgd_update(Tensor &p, float lr);
