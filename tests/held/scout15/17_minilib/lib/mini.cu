#include "mini.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

#define MINI_MAX_LAYERS 8

typedef struct {
    int in, out;
    float *weight, *bias;
    float *d_weight, *d_bias;
    float *m_weight, *m_bias;
    float *act, *d_act;
} mini_layer;

struct mini_net {
    int layers, max_batch;
    mini_layer layer[MINI_MAX_LAYERS];
    float *input, *target, *ones;
    cublasHandle_t blas;
};

static float *mini_floats(int n)
{
    float *p = NULL;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess)
        abort();
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static float mini_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) / 8388608.0f - 1.0f;
}

__global__ static void mini_activate(float *y, const float *b, int n, int out, int hidden)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * out) {
        float v = y[i] + b[i % out];
        y[i] = hidden ? v / (1.0f + fabsf(v)) : v; /* softsign */
    }
}

__global__ static void mini_error(const float *y, const float *t, float *d, int count, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        d[i] = scale * (y[i] - t[i]);
}

__global__ static void mini_slope(float *d, const float *y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float s = 1.0f - fabsf(y[i]);
        d[i] *= s * s;
    }
}

mini_net *mini_create(const int *widths, int count, int max_batch, unsigned seed)
{
    mini_net *net = (mini_net *)calloc(1, sizeof(*net));
    net->layers = count - 1;
    net->max_batch = max_batch;
    for (int l = 0; l < net->layers; ++l) {
        mini_layer *a = &net->layer[l];
        int in = a->in = widths[l], out = a->out = widths[l + 1];
        a->weight = mini_floats(in * out);
        a->bias = mini_floats(out);
        a->d_weight = mini_floats(in * out);
        a->d_bias = mini_floats(out);
        a->m_weight = mini_floats(in * out);
        a->m_bias = mini_floats(out);
        a->act = mini_floats(max_batch * out);
        a->d_act = mini_floats(max_batch * out);
        float *h = (float *)malloc(in * out * sizeof(float));
        for (int i = 0; i < in * out; ++i)
            h[i] = mini_random(&seed) * sqrtf(3.0f / in);
        cudaMemcpy(a->weight, h, in * out * sizeof(float), cudaMemcpyHostToDevice);
        free(h);
    }
    net->input = mini_floats(max_batch * widths[0]);
    net->target = mini_floats(max_batch * widths[count - 1]);
    net->ones = mini_floats(max_batch);
    float *h = (float *)malloc(max_batch * sizeof(float));
    for (int i = 0; i < max_batch; ++i)
        h[i] = 1.0f;
    cudaMemcpy(net->ones, h, max_batch * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
    cublasCreate(&net->blas);
    return net;
}

void mini_destroy(mini_net *net)
{
    for (int l = 0; l < net->layers; ++l) {
        mini_layer *a = &net->layer[l];
        float *all[] = {a->weight, a->bias, a->d_weight, a->d_bias, a->m_weight, a->m_bias, a->act, a->d_act};
        for (float *p : all)
            cudaFree(p);
    }
    cudaFree(net->input);
    cudaFree(net->target);
    cudaFree(net->ones);
    cublasDestroy(net->blas);
    free(net);
}

static float *forward(mini_net *net, const float *x, int n)
{
    const float one = 1.0f, zero = 0.0f;
    cudaMemcpy(net->input, x, n * net->layer[0].in * sizeof(float), cudaMemcpyHostToDevice);
    float *a = net->input;
    for (int l = 0; l < net->layers; ++l) {
        mini_layer *k = &net->layer[l];
        cublasSgemm(net->blas, CUBLAS_OP_N, CUBLAS_OP_N, k->out, n, k->in, &one, k->weight, k->out, a, k->in, &zero, k->act, k->out);
        mini_activate<<<(n * k->out + 127) / 128, 128>>>(k->act, k->bias, n, k->out, l + 1 < net->layers);
        a = k->act;
    }
    return a;
}

float mini_train(mini_net *net, const float *x, const float *y, int n, float rate, float momentum)
{
    const float one = 1.0f, zero = 0.0f, minus = -rate;
    const int last = net->layers - 1, outputs = n * net->layer[last].out;
    float *prediction = forward(net, x, n);
    cudaMemcpy(net->target, y, outputs * sizeof(float), cudaMemcpyHostToDevice);
    mini_error<<<(outputs + 127) / 128, 128>>>(prediction, net->target, net->layer[last].d_act, outputs, 1.0f / n);
    float norm;
    cublasSnrm2(net->blas, outputs, net->layer[last].d_act, 1, &norm);

    for (int l = last; l >= 0; --l) {
        mini_layer *k = &net->layer[l];
        const float *a = l ? net->layer[l - 1].act : net->input;
        cublasSgemm(net->blas, CUBLAS_OP_N, CUBLAS_OP_T, k->out, k->in, n, &one, k->d_act, k->out, a, k->in, &zero, k->d_weight, k->out);
        cublasSgemv(net->blas, CUBLAS_OP_N, k->out, n, &one, k->d_act, k->out, net->ones, 1, &zero, k->d_bias, 1);
        if (l) {
            mini_layer *p = &net->layer[l - 1];
            cublasSgemm(net->blas, CUBLAS_OP_T, CUBLAS_OP_N, k->in, n, k->out, &one, k->weight, k->out, k->d_act, k->out, &zero, p->d_act, k->in);
            mini_slope<<<(n * k->in + 127) / 128, 128>>>(p->d_act, p->act, n * k->in);
        }
    }
    for (int l = 0; l <= last; ++l) {
        mini_layer *k = &net->layer[l];
        cublasSscal(net->blas, k->in * k->out, &momentum, k->m_weight, 1);
        cublasSaxpy(net->blas, k->in * k->out, &minus, k->d_weight, 1, k->m_weight, 1);
        cublasSaxpy(net->blas, k->in * k->out, &one, k->m_weight, 1, k->weight, 1);
        cublasSscal(net->blas, k->out, &momentum, k->m_bias, 1);
        cublasSaxpy(net->blas, k->out, &minus, k->d_bias, 1, k->m_bias, 1);
        cublasSaxpy(net->blas, k->out, &one, k->m_bias, 1, k->bias, 1);
    }
    return norm * norm * n; /* each error is divided by n already */
}

void mini_predict(mini_net *net, const float *x, float *y, int n)
{
    float *p = forward(net, x, n);
    cudaMemcpy(y, p, n * net->layer[net->layers - 1].out * sizeof(float), cudaMemcpyDeviceToHost);
}
