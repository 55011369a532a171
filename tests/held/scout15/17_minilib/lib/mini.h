/* mini.h - a minimal multilayer perceptron for CUDA, C interface */
#ifndef MINI_H
#define MINI_H
#ifdef __cplusplus
extern "C" {
#endif

typedef struct mini_net mini_net;

mini_net *mini_create(const int *widths, int count, int max_batch, unsigned seed);
void mini_destroy(mini_net *net);

/* One step of gradient descent with momentum on `n` rows in host memory; returns the mean squared error. */
float mini_train(mini_net *net, const float *x, const float *y, int n, float rate, float momentum);

/* Predictions for `n` rows in host memory. */
void mini_predict(mini_net *net, const float *x, float *y, int n);

#ifdef __cplusplus
}
#endif
#endif
