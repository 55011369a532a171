#pragma once
// Launchers of all kernels. Matrices are row major.
void linear(const float *x, const float *w, const float *b, float *y, int n, int in, int out);
void linear_weight_grad(const float *x, const float *dy, float *dw, float *db, int n, int in, int out);
void linear_input_grad(const float *dy, const float *w, float *dx, int n, int in, int out);
void gather_rows(const float *table, const int *index, float *rows, int n, int width);
void add_tanh(const float *a, const float *branch, float *y, int count);      // y = a + tanh(branch)
void add_tanh_grad(const float *branch, const float *dy, float *dbranch, int count);
void add_to(float *a, const float *b, int count);
void logistic_loss(const float *score, const float *label, float *dscore, float *loss, int n);
void adam_update(float *w, const float *g, float *m, float *v, int count, float rate, int t);
