/* Restricted Boltzmann machine, contrastive divergence (CD-1), with cuBLAS. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <cublas_v2.h>

#define NVIS 96
#define NHID 48
#define NDATA 1280
#define MINIBATCH 40
#define NEPOCHS 4

#define SAFE(x) if ((x) != 0) { fprintf(stderr, "error in line %d\n", __LINE__); exit(-1); }

struct rbm_params {
    float lr;
    float momentum;
    float decay;
};

static cublasHandle_t handle;
static float one = 1.0f, zero = 0.0f, minus_one = -1.0f;

/* arrays on the device; matrices are column major, one column a sample */
static float *d_data;
static float *W, *vbias, *hbias;
static float *dW, *dvb, *dhb;
static float *incW, *incvb, *inchb;
static float *h0, *h0s, *v1, *h1, *rnd, *ones, *err;
static float *h_rnd;

__global__ void sigmoid_bias(float *a, const float *bias, int rows, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        a[i] = 1.0f / (1.0f + __expf(-(a[i] + bias[i % rows])));
}

__global__ void bernoulli(const float *p, const float *u, float *s, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        s[i] = p[i] > u[i] ? 1.0f : 0.0f;
}

__global__ void squared_error(const float *a, const float *b, float *e, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        atomicAdd(e, (a[i] - b[i]) * (a[i] - b[i]));
}

/* inc = momentum * inc + lr * (grad - decay * w), w += inc */
__global__ void update(float *w, float *inc, const float *grad, float momentum, float lr, float decay, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) {
        inc[i] = momentum * inc[i] + lr * (grad[i] / MINIBATCH - decay * w[i]);
        w[i] += inc[i];
    }
}

static float *dalloc(int n)
{
    float *p;
    SAFE(cudaMalloc((void **)&p, n * sizeof(float)));
    SAFE(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static void setup(void)
{
    int i, k, n;
    float *tmp = (float *)malloc(NVIS * NHID * sizeof(float));
    float *data = (float *)malloc(NDATA * NVIS * sizeof(float));
    SAFE(cublasCreate(&handle));
    /* bars: each pattern is a union of a few runs of ones */
    for (n = 0; n < NDATA; n++) {
        int kind = rand() % 8;
        for (i = 0; i < NVIS; i++) {
            int on = (i / 6 + kind) % 8 < 3;
            data[n * NVIS + i] = (rand() % 100 < 5) ? !on : on;
        }
    }
    for (k = 0; k < NVIS * NHID; k++)
        tmp[k] = 0.1f * (rand() / (float)RAND_MAX - 0.5f);
    d_data = dalloc(NDATA * NVIS);
    SAFE(cudaMemcpy(d_data, data, NDATA * NVIS * sizeof(float), cudaMemcpyHostToDevice));
    W = dalloc(NVIS * NHID); dW = dalloc(NVIS * NHID); incW = dalloc(NVIS * NHID);
    vbias = dalloc(NVIS); dvb = dalloc(NVIS); incvb = dalloc(NVIS);
    hbias = dalloc(NHID); dhb = dalloc(NHID); inchb = dalloc(NHID);
    SAFE(cudaMemcpy(W, tmp, NVIS * NHID * sizeof(float), cudaMemcpyHostToDevice));
    h0 = dalloc(NHID * MINIBATCH); h0s = dalloc(NHID * MINIBATCH); h1 = dalloc(NHID * MINIBATCH);
    v1 = dalloc(NVIS * MINIBATCH); rnd = dalloc(NHID * MINIBATCH);
    ones = dalloc(MINIBATCH); err = dalloc(1);
    for (k = 0; k < MINIBATCH; k++) tmp[k] = 1.0f;
    SAFE(cudaMemcpy(ones, tmp, MINIBATCH * sizeof(float), cudaMemcpyHostToDevice));
    SAFE(cudaMallocHost((void **)&h_rnd, NHID * MINIBATCH * sizeof(float)));
    free(tmp);
    free(data);
}

static void cd1(const float *v0)
{
    int i;
    /* positive phase */
    SAFE(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, NHID, MINIBATCH, NVIS, &one, W, NVIS, v0, NVIS, &zero, h0, NHID));
    sigmoid_bias<<<(NHID * MINIBATCH + 127) / 128, 128>>>(h0, hbias, NHID, NHID * MINIBATCH);
    for (i = 0; i < NHID * MINIBATCH; i++) h_rnd[i] = rand() / (float)RAND_MAX;
    SAFE(cudaMemcpyAsync(rnd, h_rnd, NHID * MINIBATCH * sizeof(float), cudaMemcpyHostToDevice, 0));
    bernoulli<<<(NHID * MINIBATCH + 127) / 128, 128>>>(h0, rnd, h0s, NHID * MINIBATCH);
    /* negative phase */
    SAFE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, NVIS, MINIBATCH, NHID, &one, W, NVIS, h0s, NHID, &zero, v1, NVIS));
    sigmoid_bias<<<(NVIS * MINIBATCH + 127) / 128, 128>>>(v1, vbias, NVIS, NVIS * MINIBATCH);
    SAFE(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, NHID, MINIBATCH, NVIS, &one, W, NVIS, v1, NVIS, &zero, h1, NHID));
    sigmoid_bias<<<(NHID * MINIBATCH + 127) / 128, 128>>>(h1, hbias, NHID, NHID * MINIBATCH);
    /* statistics: data minus reconstruction */
    SAFE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, NVIS, NHID, MINIBATCH, &one, v0, NVIS, h0, NHID, &zero, dW, NVIS));
    SAFE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, NVIS, NHID, MINIBATCH, &minus_one, v1, NVIS, h1, NHID, &one, dW, NVIS));
    SAFE(cublasSgemv(handle, CUBLAS_OP_N, NVIS, MINIBATCH, &one, v0, NVIS, ones, 1, &zero, dvb, 1));
    SAFE(cublasSgemv(handle, CUBLAS_OP_N, NVIS, MINIBATCH, &minus_one, v1, NVIS, ones, 1, &one, dvb, 1));
    SAFE(cublasSgemv(handle, CUBLAS_OP_N, NHID, MINIBATCH, &one, h0, NHID, ones, 1, &zero, dhb, 1));
    SAFE(cublasSgemv(handle, CUBLAS_OP_N, NHID, MINIBATCH, &minus_one, h1, NHID, ones, 1, &one, dhb, 1));
    squared_error<<<(NVIS * MINIBATCH + 127) / 128, 128>>>(v0, v1, err, NVIS * MINIBATCH);
}

int main(void)
{
    struct rbm_params p = {0.1f, 0.5f, 2e-4f};
    int epoch, b;
    srand(1983);
    setup();
    for (epoch = 0; epoch < NEPOCHS; epoch++) {
        float e;
        if (epoch >= 2) p.momentum = 0.9f;
        SAFE(cudaMemset(err, 0, sizeof(float)));
        for (b = 0; b < NDATA / MINIBATCH; b++) {
            cd1(d_data + b * MINIBATCH * NVIS);
            update<<<(NVIS * NHID + 127) / 128, 128>>>(W, incW, dW, p.momentum, p.lr, p.decay, NVIS * NHID);
            update<<<1, 128>>>(vbias, incvb, dvb, p.momentum, p.lr, 0.0f, NVIS);
            update<<<1, 128>>>(hbias, inchb, dhb, p.momentum, p.lr, 0.0f, NHID);
            SAFE(cudaDeviceSynchronize());
        }
        SAFE(cudaMemcpy(&e, err, sizeof(float), cudaMemcpyDeviceToHost));
        printf("epoch %d: reconstruction error %f\n", epoch, e / NDATA);
    }
    cublasDestroy(handle);
    return 0;
}
