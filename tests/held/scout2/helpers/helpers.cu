// Two-layer classifier of spiral points, plain functions, SGD with momentum.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define BATCH 24
#define INPUTS 2
#define HIDDEN 12
#define CLASSES 3
#define SAMPLES 240

static void die(const char *what) { fprintf(stderr, "%s failed\n", what); exit(1); }

static float *device_zeros(int n)
{
    void *p;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) die("cudaMalloc");
    if (cudaMemset(p, 0, n * sizeof(float)) != cudaSuccess) die("cudaMemset");
    return (float *)p;
}

static void fill_random(float *p, int n, float scale)
{
    float *h = new float[n];
    for (int i = 0; i < n; ++i) h[i] = scale * (rand() / (float)RAND_MAX * 2 - 1);
    cudaMemcpy(p, h, n * sizeof(float), cudaMemcpyHostToDevice);
    delete[] h;
}

__global__ void k_affine(const float *x, const float *w, const float *b, float *y, int in, int out, int relu)
{
    int i = blockIdx.x, o = threadIdx.x;
    float s = b[o];
    for (int k = 0; k < in; ++k) s += x[i * in + k] * w[k * out + o];
    y[i * out + o] = relu && s < 0 ? 0 : s;
}

__global__ void k_softmax_xent(const float *z, const int *y, float *dz, float *loss, int n)
{
    int i = threadIdx.x;
    float sum = 0;
    for (int c = 0; c < CLASSES; ++c) sum += expf(z[i * CLASSES + c]);
    for (int c = 0; c < CLASSES; ++c) dz[i * CLASSES + c] = (expf(z[i * CLASSES + c]) / sum - (c == y[i])) / n;
    loss[i] = logf(sum) - z[i * CLASSES + y[i]];
}

__global__ void k_affine_dw(const float *x, const float *dy, float *gw, float *gb, int n, int in, int out)
{
    int k = blockIdx.x, o = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += dy[i * out + o] * (k < in ? x[i * in + k] : 1);
    if (k < in) gw[k * out + o] = s;
    else gb[o] = s;
}

__global__ void k_affine_dx(const float *dy, const float *w, const float *y, float *dx, int in, int out)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int o = 0; o < out; ++o) s += dy[i * out + o] * w[k * out + o];
    dx[i * in + k] = y[i * in + k] > 0 ? s : 0;
}

__global__ void k_momentum(float *w, float *v, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] += v[i] = 0.9f * v[i] - lr * g[i];
}

static void affine(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int relu)
{
    k_affine<<<n, out>>>(x, w, b, y, in, out, relu);
}

static void affine_backward(const float *x, const float *dy, float *gw, float *gb, int n, int in, int out)
{
    k_affine_dw<<<in + 1, out>>>(x, dy, gw, gb, n, in, out);
}

static void sgd(float *w, float *v, const float *g, int n) { k_momentum<<<(n + 31) / 32, 32>>>(w, v, g, n, 0.2f); }

static float mean_loss(const float *loss, int n)
{
    float h[BATCH], s = 0;
    if (cudaMemcpy(h, loss, n * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) die("reading the loss");
    for (int i = 0; i < n; ++i) s += h[i];
    return s / n;
}

int main()
{
    static float points[SAMPLES][INPUTS];
    static int labels[SAMPLES];
    srand(5);
    for (int i = 0; i < SAMPLES; ++i) {
        float r = (rand() % 1000) / 1000.0f, a = 2.5f * r + 2.094f * (labels[i] = i % CLASSES);
        points[i][0] = r * cosf(a);
        points[i][1] = r * sinf(a);
    }

    float *w1 = device_zeros(INPUTS * HIDDEN), *b1 = device_zeros(HIDDEN);
    float *w2 = device_zeros(HIDDEN * CLASSES), *b2 = device_zeros(CLASSES);
    float *gw1 = device_zeros(INPUTS * HIDDEN), *gb1 = device_zeros(HIDDEN);
    float *gw2 = device_zeros(HIDDEN * CLASSES), *gb2 = device_zeros(CLASSES);
    float *vw1 = device_zeros(INPUTS * HIDDEN), *vb1 = device_zeros(HIDDEN);
    float *vw2 = device_zeros(HIDDEN * CLASSES), *vb2 = device_zeros(CLASSES);
    float *x = device_zeros(BATCH * INPUTS), *h = device_zeros(BATCH * HIDDEN), *dh = device_zeros(BATCH * HIDDEN);
    float *z = device_zeros(BATCH * CLASSES), *dz = device_zeros(BATCH * CLASSES), *loss = device_zeros(BATCH);
    int *y = (int *)device_zeros(BATCH);
    fill_random(w1, INPUTS * HIDDEN, 1.0f);
    fill_random(w2, HIDDEN * CLASSES, 0.5f);

    for (int step = 0; step < 20; ++step) {
        int at = step * BATCH % SAMPLES;
        cudaMemcpy(x, points[at], BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, labels + at, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        affine(x, w1, b1, h, BATCH, INPUTS, HIDDEN, 1);
        affine(h, w2, b2, z, BATCH, HIDDEN, CLASSES, 0);
        k_softmax_xent<<<1, BATCH>>>(z, y, dz, loss, BATCH);
        affine_backward(h, dz, gw2, gb2, BATCH, HIDDEN, CLASSES);
        k_affine_dx<<<BATCH, HIDDEN>>>(dz, w2, h, dh, HIDDEN, CLASSES);
        affine_backward(x, dh, gw1, gb1, BATCH, INPUTS, HIDDEN);
        sgd(w1, vw1, gw1, INPUTS * HIDDEN);
        sgd(b1, vb1, gb1, HIDDEN);
        sgd(w2, vw2, gw2, HIDDEN * CLASSES);
        sgd(b2, vb2, gb2, CLASSES);
        if (step % 5 == 4) printf("step %d: loss %.4f\n", step + 1, mean_loss(loss, BATCH));
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
