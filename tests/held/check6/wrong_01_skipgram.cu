/* Skip-gram with negative sampling on a synthetic corpus. Plain C style. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>
#include "ddprun.h"

#define VOCAB 120
#define DIM 16
#define PAIRS 64
#define NEG 4
#define CORPUS 4000

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t e_ = (call);                                                        \
        if (e_ != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

static unsigned long long corpus_state = 88172645463325252ULL;
static unsigned long long negative_state = 362436069ULL;

static unsigned next_random(unsigned long long *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (unsigned)(*s >> 20);
}

static int corpus[CORPUS];

static void make_corpus(void)
{
    int i, w = 3;
    for (i = 0; i < CORPUS; ++i) {
        unsigned r = next_random(&corpus_state);
        corpus[i] = w;
        w = (r % 8 == 0) ? (int)((r >> 8) % VOCAB) : (w * 7 + (int)((r >> 8) % 3)) % VOCAB;
    }
}

/* coefficient of each (pair, slot): sigmoid(u.v) - label */
__global__ void score(const float *in, const float *out, const int *center, const int *target, float *coef,
                      float *loss, int pairs)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= pairs * (NEG + 1))
        return;
    int p = t / (NEG + 1), slot = t % (NEG + 1);
    float s = 0.f;
    for (int d = 0; d < DIM; ++d)
        s += in[center[p] * DIM + d] * out[target[t] * DIM + d];
    float y = slot == 0 ? 1.f : 0.f;
    float q = 1.f / (1.f + expf(-s));
    coef[t] = q - y;
    loss[t] = slot == 0 ? -logf(q + 1e-7f) : -logf(1.f - q + 1e-7f);
}

__global__ void grad_in(const float *out, const int *center, const int *target, const float *coef, float *din,
                        int pairs, float inv)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= VOCAB * DIM)
        return;
    int w = t / DIM, d = t % DIM;
    float g = 0.f;
    for (int p = 0; p < pairs; ++p)
        if (center[p] == w)
            for (int k = 0; k <= NEG; ++k)
                g += coef[p * (NEG + 1) + k] * out[target[p * (NEG + 1) + k] * DIM + d];
    din[t] = g * inv;
}

__global__ void grad_out(const float *in, const int *center, const int *target, const float *coef, float *dout,
                         int pairs, float inv)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= VOCAB * DIM)
        return;
    int w = t / DIM, d = t % DIM;
    float g = 0.f;
    for (int j = 0; j < pairs * (NEG + 1); ++j)
        if (target[j] == w)
            g += coef[j] * in[center[j / (NEG + 1)] * DIM + d];
    dout[t] = g * inv;
}

__global__ void sgd(float *w, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60, step, i;
    const int n = VOCAB * DIM, blocks = (VOCAB * DIM + 127) / 128;
    static float host[2 * VOCAB * DIM], loss_h[PAIRS * (NEG + 1)];
    static int center_h[PAIRS], target_h[PAIRS * (NEG + 1)];
    float *in, *out, *din, *dout, *coef, *loss;
    int *center, *target;

    make_corpus();
    for (i = 0; i < 2 * n; ++i)
        host[i] = ((float)(next_random(&corpus_state) % 2000) / 1000.f - 1.f) * 0.3f;
    CHECK(cudaMalloc((void **)&in, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&out, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&din, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&dout, n * sizeof(float)));
    CHECK(cudaMalloc((void **)&coef, sizeof(loss_h)));
    CHECK(cudaMalloc((void **)&loss, sizeof(loss_h)));
    CHECK(cudaMalloc((void **)&center, sizeof(center_h)));
    CHECK(cudaMalloc((void **)&target, sizeof(target_h)));
    CHECK(cudaMemcpy(in, host, n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(out, host + n, n * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(in, n, DDP_FLOAT32);
    DDP_PARAMETER(out, n, DDP_FLOAT32);
    DDP_GRADIENT(din, n, DDP_FLOAT32);
    DDP_GRADIENT(dout, n, DDP_FLOAT32);

    for (step = 0; step < steps; ++step) {
        size_t first, count, p;
        DDP_SHARD(PAIRS, &first, &count);
        for (p = 0; p < count; ++p) {
            size_t at = ((size_t)step * PAIRS + first + p) % (CORPUS - 1);
            int k;
            center_h[p] = corpus[at];
            target_h[p * (NEG + 1)] = corpus[at + 1];
            for (k = 1; k <= NEG; ++k)
                target_h[p * (NEG + 1) + k] = (int)(next_random(&negative_state) % VOCAB);
        }
        int items = (int)count * (NEG + 1);
        CHECK(cudaMemcpy(center, center_h, count * sizeof(int), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(target, target_h, items * sizeof(int), cudaMemcpyHostToDevice));
        score<<<(items + 127) / 128, 128>>>(in, out, center, target, coef, loss, (int)count);
        grad_in<<<blocks, 128>>>(out, center, target, coef, din, (int)count, 1.f / (float)count);
        grad_out<<<blocks, 128>>>(in, center, target, coef, dout, (int)count, 1.f / (float)count);
        DDP_STEP(0);
        sgd<<<blocks, 128>>>(in, din, 6.f, n);
        sgd<<<blocks, 128>>>(out, dout, 6.f, n);
        if (step % 10 == 0 || step == steps - 1) {
            float sum = 0.f;
            CHECK(cudaMemcpy(loss_h, loss, items * sizeof(float), cudaMemcpyDeviceToHost));
            for (i = 0; i < items; ++i)
                sum += loss_h[i];
            sum /= (float)count;
            DDP_MEAN_AS("loss", &sum);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step, sum);
        }
    }
    CHECK(cudaMemcpy(host, in, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(host + n, out, n * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host, sizeof(float), 2 * n, f);
        fclose(f);
    }
    return 0;
}
