#ifndef NN_H
#define NN_H
#include <stddef.h>

/* One learnable matrix. */
typedef struct nn_param {
    const char *name;
    int rows, cols;
    float *data;
    float *grad;
    float *moment1;
    float *moment2;
} nn_param;

#define NN_MAX_PARAMS 16
typedef struct nn_registry {
    nn_param params[NN_MAX_PARAMS];
    int count;
    int step;
} nn_registry;

/* optimizer.cu */
nn_param *nn_register(nn_registry *reg, const char *name, int rows, int cols, float scale);
void nn_zero_grad(nn_registry *reg);
void nn_adamw(nn_registry *reg, float lr, float weight_decay);

/* gemm.cu: c (m x n) = a (m x k) b (k x n), with transposes; beta 0 or 1 */
void nn_gemm(const float *a, int ta, const float *b, int tb, float *c, int m, int n, int k, float alpha, float beta);

/* attention.cu: single head, for each sample a T x D block */
void nn_attention_forward(const float *q, const float *k, const float *v, float *att, float *out, int batch, int T, int D);
void nn_attention_backward(const float *q, const float *k, const float *v, const float *att, const float *dout, float *datt,
                           float *dq, float *dk, float *dv, int batch, int T, int D);
void *nn_alloc(size_t bytes);
#endif
