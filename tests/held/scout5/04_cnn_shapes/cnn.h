#ifndef CNN_H
#define CNN_H
#include <cuda_runtime.h>

#define IMG 12          /* images are IMG x IMG */
#define KSIZE 3
#define CONV_OUT 10     /* IMG - KSIZE + 1 */
#define POOL_OUT 5
#define CHANNELS 8
#define FC_IN (CHANNELS * POOL_OUT * POOL_OUT)
#define NCLASS 4

typedef struct {
    float *weight, *bias;
    float *d_weight, *d_bias;
    int nweight, nbias;
} Layer;

typedef struct {
    Layer conv, fc;
    float *image, *conv_out, *pool_out, *score;
    float *d_conv, *d_pool, *d_score;
    int *label, *pool_idx, *hits;
    float *loss;
    int max_batch;
} Net;

void net_create(Net *net, int max_batch);
void net_destroy(Net *net);
void net_forward(Net *net, int n);
void net_backward(Net *net, int n);
void net_update(Net *net, float lr);
float net_loss(Net *net, int n, int *correct);

void make_shapes(float *images, int *labels, int n, unsigned seed);
#endif
