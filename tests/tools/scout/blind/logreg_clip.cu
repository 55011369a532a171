/* Logistic regression, L2 penalty, gradient norm clipping done on the GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define FEATURES 20
#define SAMPLES 768
#define BATCH 48
#define EPOCHS 6
#define LAMBDA 1e-3f
#define MAX_NORM 0.2f
#define LR 0.6f

typedef struct {
    int nfeat;
    float *weights;     /* nfeat coefficients, then the bias */
    float *gradient;
    float *norm;        /* one float: norm of the gradient before clipping */
    float *margin_err;  /* sigmoid(z) - y for each row of the batch */
    float *losses;
} logreg_t;

static void die(const char *what, cudaError_t e) {
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

static float *device_floats(size_t n) {
    float *p = NULL;
    cudaError_t e = cudaMalloc((void **)&p, n * sizeof(float));
    if (e != cudaSuccess) die("cudaMalloc", e);
    e = cudaMemset(p, 0, n * sizeof(float));
    if (e != cudaSuccess) die("cudaMemset", e);
    return p;
}

logreg_t *logreg_new(int nfeat, int batch) {
    logreg_t *m = (logreg_t *)malloc(sizeof *m);
    m->nfeat = nfeat;
    m->weights = device_floats(nfeat + 1);
    m->gradient = device_floats(nfeat + 1);
    m->norm = device_floats(1);
    m->margin_err = device_floats(batch);
    m->losses = device_floats(batch);
    return m;
}

void logreg_free(logreg_t *m) {
    cudaFree(m->weights);
    cudaFree(m->gradient);
    cudaFree(m->norm);
    cudaFree(m->margin_err);
    cudaFree(m->losses);
    free(m);
}

__global__ void k_forward(const float *x, const float *y, const float *w, float *err, float *loss, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = w[d];
    for (int j = 0; j < d; j++) z += w[j] * x[i * d + j];
    float p = 1.0f / (1.0f + expf(-z));
    err[i] = p - y[i];
    loss[i] = fmaxf(z, 0.0f) - z * y[i] + log1pf(expf(-fabsf(z)));
}

__global__ void k_gradient(const float *x, const float *err, const float *w, float *g, int n, int d, float lambda) {
    int j = threadIdx.x;
    if (j > d) return;
    float s = 0.0f;
    for (int i = 0; i < n; i++) s += err[i] * (j < d ? x[i * d + j] : 1.0f);
    s /= n;
    if (j < d) s += lambda * w[j];
    g[j] = s;
}

/* single warp: norm of g by shuffles, then g is scaled down when it is too long */
__global__ void k_clip(float *g, float *norm, int n, float max_norm) {
    int lane = threadIdx.x;
    float s = 0.0f;
    for (int i = lane; i < n; i += 32) s += g[i] * g[i];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    float len = sqrtf(s);
    if (lane == 0) *norm = len;
    if (len > max_norm)
        for (int i = lane; i < n; i += 32) g[i] *= max_norm / len;
}

__global__ void k_step(float *w, const float *g, float lr, int n) {
    int i = threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

static unsigned long long seed = 88172645463325252ULL;
static float uniform(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (float)((seed >> 40) / 16777216.0);
}

int main(int argc, char *argv[]) {
    const char *file = argc > 1 ? argv[1] : "weights.bin";
    float *x = (float *)malloc(sizeof(float) * SAMPLES * FEATURES);
    float *y = (float *)malloc(sizeof(float) * SAMPLES);
    float truth[FEATURES], host_loss[BATCH], host_w[FEATURES + 1], gnorm = 0.0f;
    for (int j = 0; j < FEATURES; j++) truth[j] = 4.0f * uniform() - 2.0f;
    for (int i = 0; i < SAMPLES; i++) {
        float z = 0.3f;
        for (int j = 0; j < FEATURES; j++) {
            x[i * FEATURES + j] = 3.0f * uniform() - 1.5f;
            z += truth[j] * x[i * FEATURES + j];
        }
        y[i] = uniform() < 1.0f / (1.0f + expf(-2.0f * z)) ? 1.0f : 0.0f;
    }
    float *dx = device_floats(SAMPLES * FEATURES), *dy = device_floats(SAMPLES);
    cudaMemcpy(dx, x, sizeof(float) * SAMPLES * FEATURES, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, sizeof(float) * SAMPLES, cudaMemcpyHostToDevice);

    logreg_t *model = logreg_new(FEATURES, BATCH);
    int it = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int b = 0; b < SAMPLES / BATCH; b++, it++) {
            const float *bx = dx + b * BATCH * FEATURES, *by = dy + b * BATCH;
            k_forward<<<1, BATCH>>>(bx, by, model->weights, model->margin_err, model->losses, BATCH, FEATURES);
            k_gradient<<<1, 32>>>(bx, model->margin_err, model->weights, model->gradient, BATCH, FEATURES, LAMBDA);
            k_clip<<<1, 32>>>(model->gradient, model->norm, FEATURES + 1, MAX_NORM);
            k_step<<<1, 32>>>(model->weights, model->gradient, LR, FEATURES + 1);
            if (it % 16 == 0 || it == EPOCHS * (SAMPLES / BATCH) - 1) {
                float mean = 0.0f;
                cudaMemcpy(host_loss, model->losses, sizeof host_loss, cudaMemcpyDeviceToHost);
                cudaMemcpy(&gnorm, model->norm, sizeof gnorm, cudaMemcpyDeviceToHost);
                for (int i = 0; i < BATCH; i++) mean += host_loss[i] / BATCH;
                printf("iter %3d  loss %.5f  |g| %.4f%s\n", it, mean, gnorm, gnorm > MAX_NORM ? " (clipped)" : "");
            }
        }
    }
    cudaError_t e = cudaMemcpy(host_w, model->weights, sizeof host_w, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) die("copy of the weights", e);
    FILE *fp = fopen(file, "wb");
    if (fp == NULL || fwrite(host_w, sizeof(float), FEATURES + 1, fp) != FEATURES + 1) {
        perror(file);
        return 1;
    }
    fclose(fp);
    logreg_free(model);
    cudaFree(dx);
    cudaFree(dy);
    free(x);
    free(y);
    return 0;
}
