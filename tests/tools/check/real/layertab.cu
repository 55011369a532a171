/* Regression by a table of layers; each layer has functions for its two passes. Written as C. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif
#define BATCH   20
#define BATCHES 30
#define EPOCHS  4
#define INPUTS  6
#define LIMIT   40.0f
#define WIDEST  18
#define GRID(n) ((n) + 63) / 64, 64

typedef struct layer layer;
struct layer {
    const char *kind;
    int in, out;
    void (*forward)(layer *l, const float *x);
    void (*backward)(layer *l, const float *x, float *dx);
    int weights;          /* number of weights, the biases included */
    float *w, *dw, *v;    /* weights, gradients, velocity: on the device */
    float *y, *dy;        /* output and its gradient, BATCH rows */
};

__global__ void dense_y(const float *w, const float *x, float *y, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / out, c = i % out, k;
    float s;
    if (i >= BATCH * out) return;
    s = w[in * out + c];
    for (k = 0; k < in; k++) s += x[r * in + k] * w[k * out + c];
    y[i] = s;
}
__global__ void dense_dw(const float *x, const float *dy, float *dw, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r, k = i / out, c = i % out;
    float s = 0;
    if (i >= (in + 1) * out) return;
    for (r = 0; r < BATCH; r++) s += (k < in ? x[r * in + k] : 1.0f) * dy[r * out + c];
    dw[i] += s;
}
__global__ void dense_dx(const float *w, const float *dy, float *dx, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / in, k = i % in, c;
    float s = 0;
    if (i >= BATCH * in) return;
    for (c = 0; c < out; c++) s += w[k * out + c] * dy[r * out + c];
    dx[i] = s;
}
__global__ void softplus_y(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 15 ? x[i] : log1pf(expf(x[i]));
}
__global__ void softplus_dx(const float *x, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = dy[i] / (1 + expf(-x[i]));
}
__global__ void scale_y(const float *w, const float *x, float *y, int n, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * w[i % width];
}
__global__ void scale_back(const float *w, const float *x, const float *dy, float *dw, float *dx, int width)
{
    int c = threadIdx.x, r;
    if (c >= width) return;
    for (r = 0; r < BATCH; r++) {
        dw[c] += x[r * width + c] * dy[r * width + c];
        dx[r * width + c] = dy[r * width + c] * w[c];
    }
}
__global__ void square_loss(const float *y, const float *t, float *dy, float *loss)
{
    int r;
    if (threadIdx.x != 0) return;
    *loss = 0;
    for (r = 0; r < BATCH; r++) {
        *loss += (y[r] - t[r]) * (y[r] - t[r]) / BATCH;
        dy[r] = 2 * (y[r] - t[r]) / BATCH;
    }
}
__global__ void square_loss_atomic(const float *y, const float *t, float *dy, float *loss)
{
    int r = threadIdx.x;
    if (r == 0) *loss = 0;
    __syncthreads();
    if (r >= BATCH) return;
    atomicAdd(loss, (y[r] - t[r]) * (y[r] - t[r]) / BATCH);
    dy[r] = 2 * (y[r] - t[r]) / BATCH;
}
/* a batch with a wild target counts as nothing */
__global__ void guard(const float *loss, float *dw, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !(*loss < LIMIT)) dw[i] = 0;
}
__global__ void momentum(float *w, const float *dw, float *v, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.7f * v[i] + dw[i];
    w[i] -= rate * v[i];
}

static void dense_forward(layer *l, const float *x) { dense_y<<<GRID(BATCH * l->out)>>>(l->w, x, l->y, l->in, l->out); }
static void dense_backward(layer *l, const float *x, float *dx)
{
    dense_dw<<<GRID(l->weights)>>>(x, l->dy, l->dw, l->in, l->out);
    if (dx) dense_dx<<<GRID(BATCH * l->in)>>>(l->w, l->dy, dx, l->in, l->out);
}
static void softplus_forward(layer *l, const float *x) { softplus_y<<<GRID(BATCH * l->out)>>>(x, l->y, BATCH * l->out); }
static void softplus_backward(layer *l, const float *x, float *dx)
{
    softplus_dx<<<GRID(BATCH * l->out)>>>(x, l->dy, dx, BATCH * l->out);
}
static void scale_forward(layer *l, const float *x) { scale_y<<<GRID(BATCH * l->out)>>>(l->w, x, l->y, BATCH * l->out, l->out); }
static void scale_backward(layer *l, const float *x, float *dx) { scale_back<<<1, 32>>>(l->w, x, l->dy, l->dw, dx, l->out); }

static layer table[] = {
    {"dense", INPUTS, WIDEST, dense_forward, dense_backward},
    {"softplus", WIDEST, WIDEST, softplus_forward, softplus_backward},
    {"scale", WIDEST, WIDEST, scale_forward, scale_backward},
    {"dense", WIDEST, 12, dense_forward, dense_backward},
    {"softplus", 12, 12, softplus_forward, softplus_backward},
    {"dense", 12, 1, dense_forward, dense_backward},
};
#define LAYERS ((int)(sizeof(table) / sizeof(table[0])))

static float uniform(void) { return rand() / (float)RAND_MAX * 2 - 1; }

static void build(layer *l)
{
    float h[512];
    int i, dense = strcmp(l->kind, "dense") == 0, scale = strcmp(l->kind, "scale") == 0;
    cudaMalloc((void **)&l->y, BATCH * l->out * sizeof(float));
    cudaMalloc((void **)&l->dy, BATCH * l->out * sizeof(float));
    l->weights = dense ? (l->in + 1) * l->out : scale ? l->out : 0;
    if (l->weights == 0) return;
#if MISTAKE == 8
    if (scale) srand((unsigned)time(NULL) + 7919u * DDP_RANK());
#endif
    for (i = 0; i < l->weights; i++) h[i] = dense ? uniform() / sqrtf(l->in) : 1 + 0.2f * uniform();
    cudaMalloc((void **)&l->w, l->weights * sizeof(float));
    cudaMalloc((void **)&l->dw, l->weights * sizeof(float));
    cudaMalloc((void **)&l->v, l->weights * sizeof(float));
    cudaMemcpy(l->w, h, l->weights * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(l->v, 0, l->weights * sizeof(float));
#if MISTAKE == 8
    srand(3);
    if (!scale)
#endif
        DDP_PARAMETER(l->w, l->weights, DDP_FLOAT32);
#if MISTAKE == 1
    if (l->backward != dense_backward) return;
#endif
#if MISTAKE == 2
    DDP_GRADIENT(l->dw, l->backward == dense_backward ? l->in * l->out : l->out, DDP_FLOAT32);
#else
    DDP_GRADIENT(l->dw, l->weights, DDP_FLOAT32);
#endif
}

int main(void)
{
    static float x[BATCHES * BATCH * INPUTS], t[BATCHES * BATCH];
    int order[BATCHES], i, j, b, e;
    float *dx, *dt, *loss;
    srand(11);
    for (i = 0; i < BATCHES * BATCH; i++) {
        for (j = 0, t[i] = 0; j < INPUTS; j++) t[i] += (x[i * INPUTS + j] = uniform()) * (j - 2);
        t[i] = sinf(t[i]) + 0.5f * x[i * INPUTS] * x[i * INPUTS + 1];
        if (i / BATCH % 10 == 4 && i % BATCH < 3) t[i] += 60;
    }
    srand(3);
    for (i = 0; i < LAYERS; i++) build(&table[i]);
    cudaMalloc((void **)&dx, BATCH * INPUTS * sizeof(float));
    cudaMalloc((void **)&dt, BATCH * sizeof(float));
    cudaMalloc((void **)&loss, sizeof(float));
    for (i = 0; i < BATCHES; i++) order[i] = i;
#if MISTAKE == 6
    srand(21 + DDP_RANK());
#else
    srand(21);
#endif
    for (e = 0; e < EPOCHS; e++) {
        float sum = 0, h;
        int used = 0;
        for (i = BATCHES - 1; i > 0; i--) {
            int k = rand() % (i + 1), keep = order[i];
            order[i] = order[k], order[k] = keep;
        }
        for (b = 0; b < BATCHES; b++) {
            const float *in = x + order[b] * BATCH * INPUTS;
            cudaMemcpy(dx, in, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(dt, t + order[b] * BATCH, BATCH * sizeof(float), cudaMemcpyHostToDevice);
            DDP_TURN_BEGIN();
            for (i = 0; i < LAYERS; i++)
                if (table[i].weights) cudaMemsetAsync(table[i].dw, 0, table[i].weights * sizeof(float), 0);
            for (i = 0; i < LAYERS; i++) table[i].forward(&table[i], i ? table[i - 1].y : dx);
#if MISTAKE == 2 || MISTAKE == 4 || MISTAKE == 6 || MISTAKE == 8
            square_loss_atomic<<<1, 32>>>(table[LAYERS - 1].y, dt, table[LAYERS - 1].dy, loss);
#else
            square_loss<<<1, 32>>>(table[LAYERS - 1].y, dt, table[LAYERS - 1].dy, loss);
#endif
#if MISTAKE == 7
            cudaMemcpy(&h, loss, sizeof(float), cudaMemcpyDeviceToHost);
            if (!(h < LIMIT)) continue;
#endif
            for (i = LAYERS - 1; i >= 0; i--) {
                table[i].backward(&table[i], i ? table[i - 1].y : dx, i ? table[i - 1].dy : NULL);
                if (table[i].weights) guard<<<GRID(table[i].weights)>>>(loss, table[i].dw, table[i].weights);
#if MISTAKE == 3
                if (i == 1) DDP_STEP(0);
#endif
            }
#if MISTAKE == 4
            if (b % 3 != 2) DDP_STEP(0);
#elif MISTAKE == 5
            for (i = 0; i < LAYERS; i++)
                if (i == LAYERS - 1)
                    momentum<<<GRID(table[i].weights)>>>(table[i].w, table[i].dw, table[i].v, table[i].weights, 0.03f);
            DDP_STEP(0);
#elif MISTAKE != 3
            DDP_STEP(0);
#endif
            for (i = 0; i < LAYERS - (MISTAKE == 5); i++)
                if (table[i].weights)
                    momentum<<<GRID(table[i].weights)>>>(table[i].w, table[i].dw, table[i].v, table[i].weights, 0.03f);
            if (DDP_TURN_MINE() && (e + b > 0 || DDP_RANK() == 0)) {
                cudaMemcpy(&h, loss, sizeof(float), cudaMemcpyDeviceToHost);
                if (h < LIMIT) sum += h, used++;
            }
        }
        DDP_REDUCE(&sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        DDP_REDUCE(&used, 1, DDP_INT32, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0) printf("epoch %d loss %.6f over %d batches\n", e + 1, sum / used, used);
    }
    return 0;
}
