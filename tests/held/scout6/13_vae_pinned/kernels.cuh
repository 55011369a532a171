#pragma once
#include <cuda_runtime.h>

enum Activation { ACT_NONE, ACT_RELU, ACT_SIGMOID };

// y = act(x w + b), x: n x in, w: in x out
void fc_forward(const float *x, const float *w, const float *b, float *y, int n, int in, int out, Activation act,
                cudaStream_t s);
// dy is multiplied by act'(y) in place first (ACT_RELU only); dx may be null; accumulate: dx += instead of dx =
void fc_backward(const float *x, const float *w, const float *y, float *dy, float *dw, float *db, float *dx, int n, int in,
                 int out, Activation act, bool accumulate, cudaStream_t s);
// z = mu + exp(logvar / 2) * eps
void reparameterize(const float *mu, const float *logvar, const float *eps, float *z, int n, cudaStream_t s);
// d loss / d mu and d logvar from dz, and the derivative of KL(q || N(0, 1))
void latent_backward(const float *mu, const float *logvar, const float *eps, const float *dz, float *dmu, float *dlogvar,
                     int n, cudaStream_t s);
// binary cross entropy + KL divergence, summed over all elements of the batch; recon are sigmoids. dlogits: d loss/d logits
void elbo(const float *recon, const float *x, const float *mu, const float *logvar, float *dlogits, float *loss, int n,
          int dim, int latent, cudaStream_t s);
void adam(float *p, const float *g, float *m, float *v, int n, float lr, int t, cudaStream_t s);
