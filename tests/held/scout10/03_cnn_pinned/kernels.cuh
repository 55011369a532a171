#pragma once
#include <cuda_runtime.h>

// Image sizes of the network: 12x12 -> conv 3x3 x C -> 10x10 -> maxpool 2 -> 5x5 -> fc
constexpr int IMG = 12;
constexpr int KS = 3;
constexpr int CONV = IMG - KS + 1;
constexpr int POOL = CONV / 2;
constexpr int CHANNELS = 6;
constexpr int FLAT = CHANNELS * POOL * POOL;
constexpr int CLASSES = 5;

__global__ void convForward(const float *img, const float *k, const float *b, float *out, int batch);
__global__ void poolForward(const float *in, float *out, int *where, int batch);
__global__ void fcForward(const float *in, const float *w, const float *b, float *out, int batch);
__global__ void softmaxLoss(const float *logits, const unsigned char *labels, float *dlogits, float *loss, int batch);
__global__ void fcBackward(const float *in, const float *dout, float *dw, float *db, int batch);
__global__ void fcBackwardInput(const float *w, const float *dout, float *din, int batch);
__global__ void poolBackward(const float *dpool, const int *where, float *dconv, int batch);
__global__ void convBackward(const float *img, const float *conv, const float *dconv, float *dk, float *db, int batch);
__global__ void sgdMomentum(float *p, float *v, const float *g, float lr, float mu, int n);
