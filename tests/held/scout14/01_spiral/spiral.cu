/*
 * spiral.cu - small network with two hidden layers that separates the arms of a spiral.
 * Plain C style; every matrix is row major.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define POINTS  600
#define BATCH   50
#define INPUTS  2
#define HIDDEN1 32
#define HIDDEN2 24
#define ARMS    3
#define EPOCHS  18
#define RATE    0.25f

static float points[POINTS][INPUTS];
static int arm[POINTS];

static void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "%s failed: %s\n", what, cudaGetErrorString(e));
        exit(EXIT_FAILURE);
    }
}

static float frand(float lo, float hi)
{
    return lo + (hi - lo) * (float)rand() / (float)RAND_MAX;
}

/* Device memory for n floats, all zero. */
static float *zeros(int n)
{
    float *p;
    check(cudaMalloc((void **)&p, n * sizeof(float)), "cudaMalloc");
    check(cudaMemset(p, 0, n * sizeof(float)), "cudaMemset");
    return p;
}

/* Device memory for a weight matrix, filled with uniform numbers. */
static float *random_matrix(int rows, int cols)
{
    int i, n = rows * cols;
    float a = sqrtf(3.0f / rows);
    float *host = (float *)malloc(n * sizeof(float)), *p = zeros(n);
    for (i = 0; i < n; i++)
        host[i] = frand(-a, a);
    check(cudaMemcpy(p, host, n * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    free(host);
    return p;
}

__global__ void layer_forward(const float *in, const float *w, const float *b, float *out, int rows, int n_in, int n_out, int squash)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * n_out)
        return;
    int r = t / n_out, c = t % n_out;
    float s = b[c];
    for (int k = 0; k < n_in; k++)
        s += in[r * n_in + k] * w[k * n_out + c];
    out[t] = squash ? tanhf(s) : s;
}

__global__ void cross_entropy(const float *score, const int *label, float *d, float *loss, int rows, int classes)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float top = -1e30f, sum = 0.0f;
    for (int c = 0; c < classes; c++)
        top = fmaxf(top, score[r * classes + c]);
    for (int c = 0; c < classes; c++)
        sum += expf(score[r * classes + c] - top);
    for (int c = 0; c < classes; c++) {
        float p = expf(score[r * classes + c] - top) / sum;
        d[r * classes + c] = (p - (c == label[r])) / rows;
    }
    loss[r] = logf(sum) + top - score[r * classes + label[r]];
}

__global__ void layer_backward(const float *d_out, const float *w, const float *out_below, float *d_in, int rows, int n_in, int n_out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * n_in)
        return;
    int r = t / n_in, k = t % n_in;
    float s = 0.0f;
    for (int c = 0; c < n_out; c++)
        s += d_out[r * n_out + c] * w[k * n_out + c];
    d_in[t] = s * (1.0f - out_below[t] * out_below[t]);
}

__global__ void layer_gradient(const float *in, const float *d_out, float *gw, float *gb, int rows, int n_in, int n_out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (n_in + 1) * n_out)
        return;
    int k = t / n_out, c = t % n_out;
    float s = 0.0f;
    if (k < n_in) {
        for (int r = 0; r < rows; r++)
            s += in[r * n_in + k] * d_out[r * n_out + c];
        gw[t] = s;
    } else {
        for (int r = 0; r < rows; r++)
            s += d_out[r * n_out + c];
        gb[c] = s;
    }
}

__global__ void descend(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

#define GRID(n) ((n) + 127) / 128, 128

static void make_spiral(void)
{
    for (int i = 0; i < POINTS; i++) {
        arm[i] = i % ARMS;
        float r = (float)i / POINTS, a = 3.5f * r + 2.0944f * arm[i] + frand(-0.2f, 0.2f);
        points[i][0] = 2.0f * r * cosf(a);
        points[i][1] = 2.0f * r * sinf(a);
    }
}

static void shuffle(void)
{
    for (int i = POINTS - 1; i > 0; i--) {
        int j = rand() % (i + 1), t = arm[i];
        float x = points[i][0], y = points[i][1];
        arm[i] = arm[j], arm[j] = t;
        points[i][0] = points[j][0], points[j][0] = x;
        points[i][1] = points[j][1], points[j][1] = y;
    }
}

int main(void)
{
    srand(11);
    make_spiral();

    float *w1 = random_matrix(INPUTS, HIDDEN1), *b1 = zeros(HIDDEN1);
    float *w2 = random_matrix(HIDDEN1, HIDDEN2), *b2 = zeros(HIDDEN2);
    float *w3 = random_matrix(HIDDEN2, ARMS), *b3 = zeros(ARMS);
    float *gw1 = zeros(INPUTS * HIDDEN1), *gb1 = zeros(HIDDEN1);
    float *gw2 = zeros(HIDDEN1 * HIDDEN2), *gb2 = zeros(HIDDEN2);
    float *gw3 = zeros(HIDDEN2 * ARMS), *gb3 = zeros(ARMS);
    float *x = zeros(BATCH * INPUTS), *h1 = zeros(BATCH * HIDDEN1), *h2 = zeros(BATCH * HIDDEN2), *out = zeros(BATCH * ARMS);
    float *d1 = zeros(BATCH * HIDDEN1), *d2 = zeros(BATCH * HIDDEN2), *d3 = zeros(BATCH * ARMS), *loss = zeros(BATCH);
    int *label;
    check(cudaMalloc((void **)&label, BATCH * sizeof(int)), "cudaMalloc");
    float host_loss[BATCH];

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        float total = 0.0f;
        shuffle();
        for (int at = 0; at < POINTS; at += BATCH) {
            check(cudaMemcpy(x, points[at], BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice), "copy of points");
            check(cudaMemcpy(label, arm + at, BATCH * sizeof(int), cudaMemcpyHostToDevice), "copy of labels");

            layer_forward<<<GRID(BATCH * HIDDEN1)>>>(x, w1, b1, h1, BATCH, INPUTS, HIDDEN1, 1);
            layer_forward<<<GRID(BATCH * HIDDEN2)>>>(h1, w2, b2, h2, BATCH, HIDDEN1, HIDDEN2, 1);
            layer_forward<<<GRID(BATCH * ARMS)>>>(h2, w3, b3, out, BATCH, HIDDEN2, ARMS, 0);
            cross_entropy<<<GRID(BATCH)>>>(out, label, d3, loss, BATCH, ARMS);

            layer_backward<<<GRID(BATCH * HIDDEN2)>>>(d3, w3, h2, d2, BATCH, HIDDEN2, ARMS);
            layer_backward<<<GRID(BATCH * HIDDEN1)>>>(d2, w2, h1, d1, BATCH, HIDDEN1, HIDDEN2);
            layer_gradient<<<GRID((HIDDEN2 + 1) * ARMS)>>>(h2, d3, gw3, gb3, BATCH, HIDDEN2, ARMS);
            layer_gradient<<<GRID((HIDDEN1 + 1) * HIDDEN2)>>>(h1, d2, gw2, gb2, BATCH, HIDDEN1, HIDDEN2);
            layer_gradient<<<GRID((INPUTS + 1) * HIDDEN1)>>>(x, d1, gw1, gb1, BATCH, INPUTS, HIDDEN1);

            descend<<<GRID(INPUTS * HIDDEN1)>>>(w1, gw1, INPUTS * HIDDEN1, RATE);
            descend<<<GRID(HIDDEN1)>>>(b1, gb1, HIDDEN1, RATE);
            descend<<<GRID(HIDDEN1 * HIDDEN2)>>>(w2, gw2, HIDDEN1 * HIDDEN2, RATE);
            descend<<<GRID(HIDDEN2)>>>(b2, gb2, HIDDEN2, RATE);
            descend<<<GRID(HIDDEN2 * ARMS)>>>(w3, gw3, HIDDEN2 * ARMS, RATE);
            descend<<<GRID(ARMS)>>>(b3, gb3, ARMS, RATE);

            check(cudaMemcpy(host_loss, loss, sizeof host_loss, cudaMemcpyDeviceToHost), "copy of loss");
            for (int i = 0; i < BATCH; i++)
                total += host_loss[i];
        }
        printf("epoch %2d: loss %.5f\n", epoch, total / POINTS);
    }
    cudaDeviceReset();
    return 0;
}
