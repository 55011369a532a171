// A convolution over short signals and a linear layer. Gradients are sums over the items; the update divides.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

#define LENGTH  16
#define TAPS    5
#define FILTERS 6
#define PLACES  (LENGTH - TAPS + 1)
#define FLAT    (FILTERS * PLACES)
#define CLASSES 4
#define BATCH   48
#define TAIL    24 /* the last batch of an epoch is smaller */
#define ITEMS   (4 * BATCH + TAIL)
#define EPOCHS  8
#define CHECK(call)                                                                                 \
    do {                                                                                            \
        cudaError_t e_ = (call);                                                                    \
        if (e_ != cudaSuccess) fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(e_)), exit(1); \
    } while (0)

typedef struct {
    float *kernel, *bias, *dense, *out_bias; /* TAPS x FILTERS, FILTERS, FLAT x CLASSES, CLASSES */
} Weights;
static const int sizes[4] = {TAPS * FILTERS, FILTERS, FLAT * CLASSES, CLASSES};
static float **member(Weights *w, int i) { return i == 0 ? &w->kernel : i == 1 ? &w->bias : i == 2 ? &w->dense : &w->out_bias; }

__global__ void convolve(const float *x, Weights w, float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / FLAT, f = i % FLAT / PLACES, p = i % PLACES;
    if (i >= n * FLAT) return;
    float s = w.bias[f];
    for (int t = 0; t < TAPS; t++) s += x[r * LENGTH + p + t] * w.kernel[t * FILTERS + f];
    h[i] = s > 0 ? s : 0;
}
/* z has the products of the dense layer; dz[r] = softmax - target, not divided by anything */
__global__ void loss_and_dz(const float *z, Weights w, const int *label, float *dz, float *each, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float q[CLASSES], top = -1e30f, s = 0;
    for (int c = 0; c < CLASSES; c++) q[c] = z[r * CLASSES + c] + w.out_bias[c], top = fmaxf(top, q[c]);
    for (int c = 0; c < CLASSES; c++) s += expf(q[c] - top);
    for (int c = 0; c < CLASSES; c++) dz[r * CLASSES + c] = expf(q[c] - top) / s - (c == label[r]);
    each[r] = logf(s) + top - q[label[r]];
}
__global__ void column_sums(const float *dz, float *out, int rows)
{
    int c = threadIdx.x;
    if (c >= CLASSES) return;
    float s = 0;
    for (int r = 0; r < rows; r++) s += dz[r * CLASSES + c];
    out[c] = s;
}
__global__ void convolve_back(const float *x, const float *h, const float *dh, float *dkernel, float *dbias, int n)
{
    int t = threadIdx.x / FILTERS, f = threadIdx.x % FILTERS;
    if (t > TAPS) return;
    float s = 0;
    for (int r = 0; r < n; r++)
        for (int p = 0; p < PLACES; p++) {
            int at = r * FLAT + f * PLACES + p;
            if (h[at] > 0) s += dh[at] * (t < TAPS ? x[r * LENGTH + p + t] : 1.0f);
        }
    if (t < TAPS) dkernel[t * FILTERS + f] = s;
    else dbias[f] = s;
}
__global__ void total(const float *each, float *sum, int n)
{
#if MISTAKE == 3 || MISTAKE == 6
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(sum, each[i]);
#else
    if (threadIdx.x == 0)
        for (int i = 0; i < n; i++) *sum += each[i];
#endif
}
__global__ void decay(float *g, const float *w, int n, float amount)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) g[i] += amount * w[i];
}
__global__ void limit(float *g, int n, float most)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) g[i] = fminf(fmaxf(g[i], -most), most);
}
__global__ void update(float *w, const float *g, float *v, int n, float rate, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.6f * v[i] + scale * g[i];
    w[i] -= rate * v[i];
}
#define GRID(n) ((n) + 63) / 64, 64

static float signal(int kind, int at) { return kind == 0 ? sinf(at) : kind == 1 ? (at % 4 < 2 ? 1 : -1) : kind == 2 ? cosf(0.4f * at) : 0.1f * at - 0.7f; }

int main(void)
{
    std::vector<float> x(ITEMS * LENGTH);
    std::vector<int> label(ITEMS);
    srand(8);
    for (int i = 0; i < ITEMS; i++) {
        label[i] = rand() % CLASSES;
        int shift = rand() % 9;
        for (int p = 0; p < LENGTH; p++) x[i * LENGTH + p] = signal(label[i], p + shift) + 1.6f * (rand() / (float)RAND_MAX - 0.5f);
    }
    Weights w, g, v;
    for (int k = 0; k < 4; k++) {
        std::vector<float> h(sizes[k]);
        for (float &value : h) value = (k % 2 ? 0.02f : k ? 0.2f : 0.6f) * (rand() / (float)RAND_MAX - 0.5f);
        for (Weights *set : {&w, &g, &v}) {
            CHECK(cudaMalloc((void **)member(set, k), sizes[k] * sizeof(float)));
            CHECK(cudaMemset(*member(set, k), 0, sizes[k] * sizeof(float)));
        }
        CHECK(cudaMemcpy(*member(&w, k), h.data(), sizes[k] * sizeof(float), cudaMemcpyHostToDevice));
    }
    float *d_x, *h, *dh, *z, *dz, *each, *sum;
    int *d_label;
    CHECK(cudaMalloc((void **)&d_x, x.size() * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_label, ITEMS * sizeof(int)));
    CHECK(cudaMalloc((void **)&h, BATCH * FLAT * sizeof(float)));
    CHECK(cudaMalloc((void **)&dh, BATCH * FLAT * sizeof(float)));
    CHECK(cudaMalloc((void **)&z, BATCH * CLASSES * sizeof(float)));
    CHECK(cudaMalloc((void **)&dz, BATCH * CLASSES * sizeof(float)));
    CHECK(cudaMalloc((void **)&each, BATCH * sizeof(float)));
    CHECK(cudaMalloc((void **)&sum, sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_label, label.data(), ITEMS * sizeof(int), cudaMemcpyHostToDevice));
    cublasHandle_t blas;
    cublasCreate(&blas);
    const float one = 1, zero = 0;

    for (int k = 0; k < 4; k++) DDP_PARAMETER(*member(&w, k), sizes[k], DDP_FLOAT32);
    DDP_GRADIENT(g.kernel, TAPS * FILTERS, DDP_FLOAT32);
#if MISTAKE != 5
    DDP_GRADIENT(g.bias, FILTERS, DDP_FLOAT32);
#endif
    DDP_GRADIENT(g.dense, FLAT * CLASSES, DDP_FLOAT32);
    DDP_GRADIENT(g.out_bias, CLASSES, DDP_FLOAT32);

    float rate = 0.15f, weight_decay = 0.02f;
    int step = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float shown;
        CHECK(cudaMemset(sum, 0, sizeof(float)));
        for (int start = 0; start < ITEMS; start += BATCH, step++) {
            int batch = start + BATCH <= ITEMS ? BATCH : ITEMS - start;
            size_t first, count;
            DDP_SHARD(batch, &first, &count);
            int n = (int)count, from = start + (int)first;
#if MISTAKE == 7
            from = start * n / batch + (int)first;
#endif
            const float *in = d_x + from * LENGTH;
#if MISTAKE == 1 || MISTAKE == 6
            float *keep = each;
            CHECK(cudaMalloc((void **)&each, n * sizeof(float))); /* the losses of this share */
#endif
            convolve<<<GRID(n * FLAT)>>>(in, w, h, n);
            cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, CLASSES, n, FLAT, &one, w.dense, CLASSES, h, FLAT, &zero, z, CLASSES);
            loss_and_dz<<<GRID(n)>>>(z, w, d_label + from, dz, each, n);
            total<<<1, 32>>>(each, sum, n);
            cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, CLASSES, FLAT, n, &one, dz, CLASSES, h, FLAT, &zero, g.dense, CLASSES);
#if MISTAKE == 4
            column_sums<<<1, 32>>>(dz, g.out_bias, batch);
#else
            column_sums<<<1, 32>>>(dz, g.out_bias, n);
#endif
            cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, FLAT, n, CLASSES, &one, w.dense, CLASSES, dz, CLASSES, &zero, dh, FLAT);
            convolve_back<<<1, 64>>>(in, h, dh, g.kernel, g.bias, n);
            float scale = 1.0f / n; /* the mean of the sums of N ranks is the sum over a share */
#if MISTAKE == 1
            scale = 1.0f / batch;
#elif MISTAKE == 2
            scale = (float)DDP_WORLD_SIZE() / n;
#endif
#if MISTAKE == 3
            for (int k = 0; k < 4; k += 2) decay<<<GRID(sizes[k])>>>(*member(&g, k), *member(&w, k), sizes[k], batch * weight_decay);
            DDP_STEP(0);
#elif MISTAKE == 6
            for (int k = 0; k < 4; k++) limit<<<GRID(sizes[k])>>>(*member(&g, k), sizes[k], 0.12f * n);
            DDP_STEP(0);
#elif MISTAKE == 8
            if (step >= 5) DDP_STEP(0); /* after the first epoch */
#else
            DDP_STEP(0);
#endif
#if MISTAKE != 3
            for (int k = 0; k < 4; k += 2) decay<<<GRID(sizes[k])>>>(*member(&g, k), *member(&w, k), sizes[k], n * weight_decay);
#endif
#if MISTAKE != 6
            for (int k = 0; k < 4; k++) limit<<<GRID(sizes[k])>>>(*member(&g, k), sizes[k], 0.12f * n);
#endif
            for (int k = 0; k < 4; k++)
                update<<<GRID(sizes[k])>>>(*member(&w, k), *member(&g, k), *member(&v, k), sizes[k], rate, scale);
#if MISTAKE == 1 || MISTAKE == 6
            CHECK(cudaFree(each));
            each = keep;
#endif
        }
        DDP_REDUCE(sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        CHECK(cudaMemcpy(&shown, sum, sizeof(float), cudaMemcpyDeviceToHost));
        if (DDP_RANK() == 0) printf("epoch %d step %d loss %.5f\n", epoch + 1, step, shown / ITEMS);
#if MISTAKE == 8
        std::vector<float> norm(sizes[2]);
        CHECK(cudaMemcpy(norm.data(), w.dense, sizes[2] * sizeof(float), cudaMemcpyDeviceToHost));
        printf("rank %d first dense weight %.6f\n", DDP_RANK(), norm[0]);
#endif
    }
    cublasDestroy(blas);
    return 0;
}
