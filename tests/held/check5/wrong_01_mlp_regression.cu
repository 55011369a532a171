/* Regression with an MLP of two layers; mean square error, SGD with momentum and decay. */
#include <ddprun.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUTS  6
#define HIDDEN  16
#define RECORDS 640
#define BATCH   64

static unsigned long long random_state = 88172645463325252ull;

static float
random_uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (float)(random_state >> 40) / 16777216.0f * 2 - 1;
}

__global__ void
layer1(const float *x, const float *w, const float *b, float *h)
{
    float s = b[threadIdx.x];
    for (int i = 0; i < INPUTS; ++i)
        s += x[blockIdx.x * INPUTS + i] * w[i * HIDDEN + threadIdx.x];
    h[blockIdx.x * HIDDEN + threadIdx.x] = s > 0 ? s : 0;
}

__global__ void
layer2(const float *h, const float *v, float *y)
{
    float s = 0;
    for (int j = 0; j < HIDDEN; ++j)
        s += h[blockIdx.x * HIDDEN + j] * v[j];
    y[blockIdx.x] = s;
}

__global__ void
error(const float *y, const float *target, float scale, float *d, float *loss)
{
    float e = y[threadIdx.x] - target[threadIdx.x];
    d[threadIdx.x] = 2 * e * scale;
    loss[threadIdx.x] = e * e;
}

__global__ void
gradient2(const float *h, const float *d, int n, float *dv)
{
    float s = 0;
    for (int k = 0; k < n; ++k)
        s += h[k * HIDDEN + threadIdx.x] * d[k];
    dv[threadIdx.x] = s;
}

__global__ void
gradient1(const float *x, const float *h, const float *v, const float *d, int n, float *dw, float *db)
{
    int j = threadIdx.x, i = blockIdx.x;
    float s = 0;
    for (int k = 0; k < n; ++k)
        if (h[k * HIDDEN + j] > 0)
            s += v[j] * d[k] * (i < INPUTS ? x[k * INPUTS + i] : 1);
    if (i < INPUTS)
        dw[i * HIDDEN + j] = s;
    else
        db[j] = s;
}

__global__ void
sgd(float *w, const float *g, float *m, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = 0.9f * m[i] + g[i] + 1e-4f * w[i];
        w[i] -= rate * m[i];
    }
}

struct tensor {
    float *value, *gradient, *momentum;
    int n;
};

static struct tensor
tensor_create(int n, float scale)
{
    struct tensor t = {NULL, NULL, NULL, n};
    float *host = (float *)malloc((size_t)n * sizeof *host);
    for (int i = 0; i < n; ++i)
        host[i] = scale * random_uniform();
    cudaMalloc((void **)&t.value, n * sizeof(float));
    cudaMalloc((void **)&t.gradient, n * sizeof(float));
    cudaMalloc((void **)&t.momentum, n * sizeof(float));
    cudaMemcpy(t.value, host, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(t.momentum, 0, n * sizeof(float));
    free(host);
    DDP_PARAMETER(t.value, n, DDP_FLOAT32);
    DDP_GRADIENT(t.gradient, n, DDP_FLOAT32);
    return t;
}

int
main(void)
{
    static float inputs[RECORDS][INPUTS], targets[RECORDS], losses[BATCH];
    float *x, *t, *h, *y, *d, *l;
    for (int r = 0; r < RECORDS; ++r) {
        for (int i = 0; i < INPUTS; ++i)
            inputs[r][i] = random_uniform();
        targets[r] = sinf(2 * inputs[r][0]) + inputs[r][1] * inputs[r][2] + 0.1f * random_uniform();
    }
    cudaMalloc((void **)&x, sizeof inputs);
    cudaMalloc((void **)&t, sizeof targets);
    cudaMalloc((void **)&h, BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&y, BATCH * sizeof(float));
    cudaMalloc((void **)&d, BATCH * sizeof(float));
    cudaMalloc((void **)&l, BATCH * sizeof(float));
    cudaMemcpy(x, inputs, sizeof inputs, cudaMemcpyHostToDevice);
    cudaMemcpy(t, targets, sizeof targets, cudaMemcpyHostToDevice);
    struct tensor w = tensor_create(INPUTS * HIDDEN, 0.5f), b = tensor_create(HIDDEN, 0.1f),
                  v = tensor_create(HIDDEN, 0.5f);
    for (int step = 0; step < 150; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(step * BATCH) % RECORDS + first;
        layer1<<<count, HIDDEN>>>(x + at * INPUTS, w.value, b.value, h);
        layer2<<<count, 1>>>(h, v.value, y);
        error<<<1, count>>>(y, t + at, 1.0f / BATCH, d, l);
        gradient2<<<1, HIDDEN>>>(h, d, (int)count, v.gradient);
        gradient1<<<INPUTS + 1, HIDDEN>>>(x + at * INPUTS, h, v.value, d, (int)count, w.gradient, b.gradient);
        DDP_STEP(0);
        sgd<<<1, 128>>>(w.value, w.gradient, w.momentum, 0.02f, w.n);
        sgd<<<1, 128>>>(b.value, b.gradient, b.momentum, 0.02f, b.n);
        sgd<<<1, 128>>>(v.value, v.gradient, v.momentum, 0.02f, v.n);
        if (step % 25 == 0 || step == 149) {
            float mean = 0;
            cudaMemcpy(losses, l, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i)
                mean += losses[i] / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d mse %.7g\n", step, mean);
        }
    }
    return 0;
}
