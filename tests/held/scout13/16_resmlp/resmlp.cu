/*
 * Residual MLP with layer norm: x -> in projection -> [x + W2 relu(W1 LN(x))] * BLOCKS -> linear -> MSE.
 * All parameters are in one arena, so the optimizer, the gradient norm and the clipping are one call each.
 * Gradients of MICRO micro batches are accumulated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define IN     10
#define WIDTH  16
#define INNER  32
#define BLOCKS 2
#define ROWS   32   /* rows of a micro batch */
#define MICRO  2
#define DATA   1024
#define STEPS  48

#define LAUNCH1D(n) (((n) + 127) / 128), 128

typedef struct {
    float *win, *bin;                         /* IN x WIDTH, WIDTH */
    struct {
        float *gain, *shift;                  /* WIDTH */
        float *w1, *b1;                       /* WIDTH x INNER */
        float *w2;                            /* INNER x WIDTH */
    } block[BLOCKS];
    float *wout, *bout;                       /* WIDTH x 1 */
} params_t;

/* sets the pointers into the arena, or only counts if the arena is NULL */
static size_t layout(params_t *p, float *arena)
{
    size_t n = 0;
#define PLACE(field, count) do { p->field = arena ? arena + n : NULL; n += (count); } while (0)
    PLACE(win, IN * WIDTH);
    PLACE(bin, WIDTH);
    for (int b = 0; b < BLOCKS; b++) {
        PLACE(block[b].gain, WIDTH);
        PLACE(block[b].shift, WIDTH);
        PLACE(block[b].w1, WIDTH * INNER);
        PLACE(block[b].b1, INNER);
        PLACE(block[b].w2, INNER * WIDTH);
    }
    PLACE(wout, WIDTH);
    PLACE(bout, 1);
#undef PLACE
    return n;
}

static cublasHandle_t blas;

/* row major c[m x n] = alpha op(a) op(b) + beta c */
static void gemm(int ta, int tb, int m, int n, int k, float alpha, const float *a, const float *b, float beta, float *c)
{
    cublasSgemm(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, b, tb ? k : n, a,
                ta ? m : k, &beta, c, n);
}

__global__ void add_bias(float *y, const float *b, int n, int width, int relu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = y[i] + b[i % width];
        y[i] = relu && v < 0 ? 0 : v;
    }
}

__global__ void bias_grad(const float *dy, float *db, int rows, int width)
{
    int c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rows; r++) s += dy[r * width + c];
    db[c] += s;
}

__global__ void norm_forward(const float *x, const float *gain, const float *shift, float *xhat, float *rstd, float *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float mean = 0, var = 0;
    for (int c = 0; c < WIDTH; c++) mean += x[r * WIDTH + c] / WIDTH;
    for (int c = 0; c < WIDTH; c++) var += (x[r * WIDTH + c] - mean) * (x[r * WIDTH + c] - mean) / WIDTH;
    rstd[r] = rsqrtf(var + 1e-5f);
    for (int c = 0; c < WIDTH; c++) {
        xhat[r * WIDTH + c] = (x[r * WIDTH + c] - mean) * rstd[r];
        y[r * WIDTH + c] = gain[c] * xhat[r * WIDTH + c] + shift[c];
    }
}

/* dx += gradient through the norm */
__global__ void norm_backward(const float *dy, const float *xhat, const float *rstd, const float *gain, float *dgain,
                              float *dshift, float *dx, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float a = 0, b = 0;
    for (int c = 0; c < WIDTH; c++) {
        float d = dy[r * WIDTH + c], h = xhat[r * WIDTH + c];
        atomicAdd(&dgain[c], d * h);
        atomicAdd(&dshift[c], d);
        a += d * gain[c] / WIDTH;
        b += d * gain[c] * h / WIDTH;
    }
    for (int c = 0; c < WIDTH; c++)
        dx[r * WIDTH + c] += rstd[r] * (dy[r * WIDTH + c] * gain[c] - a - xhat[r * WIDTH + c] * b);
}

__global__ void relu_mask(float *d, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] <= 0) d[i] = 0;
}

__global__ void loss_grad(const float *y, const float *t, float *dy, float *loss, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e = y[i] - t[i];
        dy[i] = 2 * e * scale;
        atomicAdd(loss, e * e * scale);
    }
}

__global__ void adamw(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f) + 0.01f * w[i]);
}

static float *floats(size_t n)
{
    float *p = NULL;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) exit(1);
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static float urand(void) { return 2.0f * rand() / RAND_MAX - 1; }

static void fill(float *dst, int n, float scale, float offset)
{
    float tmp[WIDTH * INNER];
    for (int i = 0; i < n; i++) tmp[i] = offset + scale * urand();
    cudaMemcpy(dst, tmp, n * sizeof(float), cudaMemcpyHostToDevice);
}

int main(void)
{
    srand(4);
    cublasCreate(&blas);
    params_t w, g;
    size_t count = layout(&w, NULL);
    float *weights = floats(count), *grads = floats(count), *m = floats(count), *v = floats(count);
    layout(&w, weights);
    layout(&g, grads);
    fill(w.win, IN * WIDTH, sqrtf(3.0f / IN), 0);
    for (int b = 0; b < BLOCKS; b++) {
        fill(w.block[b].gain, WIDTH, 0, 1);
        fill(w.block[b].w1, WIDTH * INNER, sqrtf(6.0f / WIDTH), 0);
        fill(w.block[b].w2, INNER * WIDTH, 0.5f * sqrtf(6.0f / INNER), 0);
    }
    fill(w.wout, WIDTH, sqrtf(3.0f / WIDTH), 0);

    float *hx = (float *)malloc(DATA * IN * sizeof(float)), *ht = (float *)malloc(DATA * sizeof(float));
    for (int i = 0; i < DATA; i++) {
        float *x = hx + i * IN;
        for (int k = 0; k < IN; k++) x[k] = 1.7f * urand();
        ht[i] = x[0] * x[1] + fabsf(x[2]) - x[3] + 0.3f * x[4] * x[4];
    }

    float *x = floats(ROWS * IN), *t = floats(ROWS), *loss = floats(1), *y = floats(ROWS), *dy = floats(ROWS);
    float *res[BLOCKS + 1], *xhat[BLOCKS], *rstd[BLOCKS], *ln[BLOCKS], *act[BLOCKS];
    for (int b = 0; b <= BLOCKS; b++) res[b] = floats(ROWS * WIDTH);
    for (int b = 0; b < BLOCKS; b++) {
        xhat[b] = floats(ROWS * WIDTH);
        rstd[b] = floats(ROWS);
        ln[b] = floats(ROWS * WIDTH);
        act[b] = floats(ROWS * INNER);
    }
    float *dres = floats(ROWS * WIDTH), *dln = floats(ROWS * WIDTH), *dact = floats(ROWS * INNER);

    int position = 0;
    for (int step = 1; step <= STEPS; step++) {
        cudaMemset(grads, 0, count * sizeof(float));
        cudaMemset(loss, 0, sizeof(float));
        for (int micro = 0; micro < MICRO; micro++) {
            cudaMemcpy(x, hx + position * IN, ROWS * IN * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(t, ht + position, ROWS * sizeof(float), cudaMemcpyHostToDevice);
            position = (position + ROWS) % DATA;

            gemm(0, 0, ROWS, WIDTH, IN, 1, x, w.win, 0, res[0]);
            add_bias<<<LAUNCH1D(ROWS * WIDTH)>>>(res[0], w.bin, ROWS * WIDTH, WIDTH, 0);
            for (int b = 0; b < BLOCKS; b++) {
                norm_forward<<<1, ROWS>>>(res[b], w.block[b].gain, w.block[b].shift, xhat[b], rstd[b], ln[b], ROWS);
                gemm(0, 0, ROWS, INNER, WIDTH, 1, ln[b], w.block[b].w1, 0, act[b]);
                add_bias<<<LAUNCH1D(ROWS * INNER)>>>(act[b], w.block[b].b1, ROWS * INNER, INNER, 1);
                cudaMemcpyAsync(res[b + 1], res[b], ROWS * WIDTH * sizeof(float), cudaMemcpyDeviceToDevice);
                gemm(0, 0, ROWS, WIDTH, INNER, 1, act[b], w.block[b].w2, 1, res[b + 1]);
            }
            gemm(0, 0, ROWS, 1, WIDTH, 1, res[BLOCKS], w.wout, 0, y);
            add_bias<<<1, ROWS>>>(y, w.bout, ROWS, 1, 0);

            loss_grad<<<1, ROWS>>>(y, t, dy, loss, ROWS, 1.0f / (ROWS * MICRO));

            gemm(1, 0, WIDTH, 1, ROWS, 1, res[BLOCKS], dy, 1, g.wout);
            bias_grad<<<1, 1>>>(dy, g.bout, ROWS, 1);
            gemm(0, 1, ROWS, WIDTH, 1, 1, dy, w.wout, 0, dres);
            for (int b = BLOCKS - 1; b >= 0; b--) {
                gemm(1, 0, INNER, WIDTH, ROWS, 1, act[b], dres, 1, g.block[b].w2);
                gemm(0, 1, ROWS, INNER, WIDTH, 1, dres, w.block[b].w2, 0, dact);
                relu_mask<<<LAUNCH1D(ROWS * INNER)>>>(dact, act[b], ROWS * INNER);
                gemm(1, 0, WIDTH, INNER, ROWS, 1, ln[b], dact, 1, g.block[b].w1);
                bias_grad<<<1, INNER>>>(dact, g.block[b].b1, ROWS, INNER);
                gemm(0, 1, ROWS, WIDTH, INNER, 1, dact, w.block[b].w1, 0, dln);
                norm_backward<<<1, ROWS>>>(dln, xhat[b], rstd[b], w.block[b].gain, g.block[b].gain, g.block[b].shift, dres, ROWS);
            }
            gemm(1, 0, IN, WIDTH, ROWS, 1, x, dres, 1, g.win);
            bias_grad<<<1, WIDTH>>>(dres, g.bin, ROWS, WIDTH);
        }

        float norm, clip = 1.0f;
        cublasSnrm2(blas, (int)count, grads, 1, &norm);
        if (norm > clip) {
            float shrink = clip / norm;
            cublasSscal(blas, (int)count, &shrink, grads, 1);
        }
        float lr = step <= 8 ? 0.01f * step / 8 : 0.01f * (1 - (step - 8) / (float)(STEPS - 7));
        adamw<<<LAUNCH1D((int)count)>>>(weights, grads, m, v, (int)count, lr, 1 - powf(0.9f, step), 1 - powf(0.99f, step));

        if (step % 6 == 0 || step == 1) {
            float l;
            cudaMemcpy(&l, loss, sizeof l, cudaMemcpyDeviceToHost);
            printf("step %2d  lr %.5f  norm %7.4f  loss %.5f\n", step, lr, norm, l);
        }
    }
    cublasDestroy(blas);
    free(hx);
    free(ht);
    return 0;
}
