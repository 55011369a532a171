#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>

// Row major helpers on top of the column major library
void matmul(cublasHandle_t h, const float *a, const float *b, float *c, int m, int k, int n, float beta = 0.f);
void matmul_ta(cublasHandle_t h, const float *a, const float *b, float *c, int k, int m, int n, float alpha = 1.f); // a^T b
void matmul_tb(cublasHandle_t h, const float *a, const float *b, float *c, int m, int k, int n, float beta = 0.f);  // a b^T
void bmm(cublasHandle_t h, const float *a, const float *b, float *c, int batch, int m, int k, int n);
void bmm_ta(cublasHandle_t h, const float *a, const float *b, float *c, int batch, int k, int m, int n);
void bmm_tb(cublasHandle_t h, const float *a, const float *b, float *c, int batch, int m, int k, int n, float alpha);

void softmax_rows(float *a, int rows, int n);
void softmax_rows_backward(const float *a, float *da, int rows, int n, float scale);
void pool(const float *o, float *p, int batch, int t, int d);
void unpool(const float *dp, float *d_o, int batch, int t, int d);
void mse(const float *y, const float *target, float *dy, float *loss, int batch, int out);
void momentum_update(float *w, const float *g, float *v, int n, float lr);
