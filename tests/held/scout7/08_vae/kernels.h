#pragma once
void gemm_bias(const float *x, const float *w, const float *b, float *y, int n, int in, int out);
void relu(float *x, int n);
void relu_grad(const float *y, float *dy, int n);
void grad_w(const float *x, const float *dy, float *dw, int n, int in, int out);
void grad_b(const float *dy, float *db, int n, int out);
void grad_x(const float *dy, const float *w, float *dx, int n, int in, int out, bool accumulate);
void sample_z(const float *mulv, const float *eps, float *z, int n, int latent);
void sample_z_grad(const float *mulv, const float *eps, const float *dz, float *dmulv, float *kl, int n, int latent, float beta);
void bce_logits(const float *logits, const float *x, float *dlogits, float *loss, int n);
void rmsprop(float *w, const float *g, float *s, float lr, float scale, int n);
