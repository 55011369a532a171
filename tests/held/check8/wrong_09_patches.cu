// Sparse autoencoder on image patches: sigmoid units whose mean activation is held near a target by a KL penalty.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include "ddprun.h"

#define SIDE 6
#define PIXELS (SIDE * SIDE)
#define UNITS 40
#define BATCH 64
#define PATCHES 640
#define STEPS 60

static cublasHandle_t blas;

static void ok(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "cuda: %s\n", cudaGetErrorString(e));
        exit(1);
    }
}

typedef struct array {
    float *d;
    int rows, cols;
} array;

static array make(int rows, int cols)
{
    array a = {NULL, rows, cols};
    ok(cudaMalloc((void **)&a.d, sizeof(float) * rows * cols));
    ok(cudaMemset(a.d, 0, sizeof(float) * rows * cols));
    return a;
}

static void upload(array a, const float *h) { ok(cudaMemcpy(a.d, h, sizeof(float) * a.rows * a.cols, cudaMemcpyHostToDevice)); }

/* c = alpha * op(a) op(b), row-major, with m rows of op(a) used */
static void product(char ta, char tb, int m, int n, int k, const float *a, const float *b, float *c)
{
    const float one = 1, zero = 0;
    cublasStatus_t s = cublasSgemm(blas, tb == 'T' ? CUBLAS_OP_T : CUBLAS_OP_N, ta == 'T' ? CUBLAS_OP_T : CUBLAS_OP_N, n,
                                   m, k, &one, b, tb == 'T' ? k : n, a, ta == 'T' ? m : k, &zero, c, n);
    if (s != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "cublas: %d\n", (int)s);
        exit(1);
    }
}

__global__ void add_bias_sigmoid(float *x, const float *b, int n, int cols, int squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i] + b[i % cols];
        x[i] = squash ? 1.0f / (1.0f + expf(-v)) : v;
    }
}

__global__ void reconstruction(const float *y, const float *x, float *dy, float *sq, int n, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float d = y[i] - x[i];
        dy[i] = d / rows;
        sq[i] = 0.5f * d * d;
    }
}

__global__ void column_reduce(const float *m, float *out, int rows, int cols, float scale)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        float s = 0;
        for (int r = 0; r < rows; ++r)
            s += m[r * cols + c];
        out[c] = s * scale;
    }
}

/* adds the penalty's gradient to dh and goes through the sigmoid */
__global__ void hidden_back(float *dh, const float *h, const float *rho_hat, float rho, float strength, int n, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float q = fminf(fmaxf(rho_hat[i % UNITS], 1e-3f), 0.999f);
        float penalty = strength * (-rho / q + (1 - rho) / (1 - q)) / rows;
        dh[i] = (dh[i] + penalty) * h[i] * (1 - h[i]);
    }
}

__global__ void nesterov(float *w, float *v, const float *g, int n, float lr, float mu, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float d = g[i] + decay * w[i];
        v[i] = mu * v[i] + d;
        w[i] -= lr * (d + mu * v[i]);
    }
}

static unsigned lcg = 7u;
static float uniform(void)
{
    lcg = lcg * 1664525u + 1013904223u;
    return (lcg >> 8) / 16777216.0f;
}

static int blocks_for(int n) { return (n + 127) / 128; }

int main(int argc, char **argv)
{
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS)
        return 1;
    /* patches: a bright bar at a random angle over a faint gradient */
    float *pixels = (float *)malloc(sizeof(float) * PATCHES * PIXELS);
    for (int p = 0; p < PATCHES; ++p) {
        float a = 3.1415927f * uniform(), off = 3 * uniform() - 1.5f, glow = 0.3f * uniform(), amp = p % BATCH < 20 ? 1.6f : 0.9f;
        for (int i = 0; i < PIXELS; ++i) {
            float x = i % SIDE - 2.5f, y = i / SIDE - 2.5f, d = x * cosf(a) + y * sinf(a) - off;
            pixels[p * PIXELS + i] = amp * expf(-d * d) + glow * x / 3 + 0.05f * uniform() - 0.3f;
        }
    }
    array data = make(PATCHES, PIXELS);
    upload(data, pixels);

    array par[4] = {make(PIXELS, UNITS), make(1, UNITS), make(UNITS, PIXELS), make(1, PIXELS)}, grad[4], vel[4];
    for (int k = 0; k < 4; ++k) {
        int n = par[k].rows * par[k].cols;
        for (int i = 0; i < n; ++i)
            pixels[i] = k % 2 ? 0.0f : 0.5f * (uniform() - 0.5f);
        upload(par[k], pixels);
        grad[k] = make(par[k].rows, par[k].cols);
        vel[k] = make(par[k].rows, par[k].cols);
        DDP_PARAMETER(par[k].d, n, DDP_FLOAT32);
        DDP_GRADIENT(grad[k].d, n, DDP_FLOAT32);
    }
    free(pixels);
    array h = make(BATCH, UNITS), dh = make(BATCH, UNITS), y = make(BATCH, PIXELS), dy = make(BATCH, PIXELS);
    array sq = make(BATCH, PIXELS), rho_hat = make(1, UNITS);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const float *x = data.d + (size_t)(step * BATCH % PATCHES + first) * PIXELS;

        product('N', 'N', n, UNITS, PIXELS, x, par[0].d, h.d);
        add_bias_sigmoid<<<blocks_for(n * UNITS), 128>>>(h.d, par[1].d, n * UNITS, UNITS, 1);
        product('N', 'N', n, PIXELS, UNITS, h.d, par[2].d, y.d);
        add_bias_sigmoid<<<blocks_for(n * PIXELS), 128>>>(y.d, par[3].d, n * PIXELS, PIXELS, 0);
        reconstruction<<<blocks_for(n * PIXELS), 128>>>(y.d, x, dy.d, sq.d, n * PIXELS, n);

        product('T', 'N', UNITS, PIXELS, n, h.d, dy.d, grad[2].d);
        column_reduce<<<1, 64>>>(dy.d, grad[3].d, n, PIXELS, 1.0f);
        product('N', 'T', n, UNITS, PIXELS, dy.d, par[2].d, dh.d);
        column_reduce<<<1, 64>>>(h.d, rho_hat.d, n, UNITS, 1.0f / n);
        hidden_back<<<blocks_for(n * UNITS), 128>>>(dh.d, h.d, rho_hat.d, 0.08f, 0.3f, n * UNITS, n);
        product('T', 'N', PIXELS, UNITS, n, x, dh.d, grad[0].d);
        column_reduce<<<1, 64>>>(dh.d, grad[1].d, n, UNITS, 1.0f);
        DDP_STEP(0);
        for (int k = 0; k < 4; ++k) {
            int m = par[k].rows * par[k].cols;
            nesterov<<<blocks_for(m), 128>>>(par[k].d, vel[k].d, grad[k].d, m, 0.08f, 0.8f, k % 2 ? 0.0f : 1e-4f);
        }
        if (step % 15 == 0 || step == STEPS - 1) {
            static float host[BATCH * PIXELS];
            double sum = 0;
            ok(cudaMemcpy(host, sq.d, sizeof(float) * n * PIXELS, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n * PIXELS; ++i)
                sum += host[i];
            sum /= n;
            DDP_MEAN_AS("reconstruction", &sum);
            if (DDP_RANK() == 0)
                printf("%2d: reconstruction error %.4f\n", step, sum);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        static float host[PIXELS * UNITS];
        for (int k = 0; k < 4; ++k) {
            int m = par[k].rows * par[k].cols;
            ok(cudaMemcpy(host, par[k].d, sizeof(float) * m, cudaMemcpyDeviceToHost));
            fwrite(host, sizeof(float), m, f);
        }
        fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
