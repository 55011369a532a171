// MLP with two compute streams and a copy stream.  The next batch is copied while this one
// is worked on (two buffers); the two layers' gradients and updates run on two streams.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define NI 12
#define NH 40
#define NBATCH 32
#define BATCHES 24
#define EPOCHS 6

#define CUCHK(x) do { cudaError_t r = (x); if (r != cudaSuccess) { fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(r)); exit(1); } } while (0)

typedef struct { float *w, *g, *m; int n; } param_t;
typedef struct { float *x, *y; cudaEvent_t ready, used; } slot_t;

__global__ void fwd1(const float *x, const float *w, float *h) { int r = blockIdx.x, c = threadIdx.x; float s = w[NI * NH + c]; for (int i = 0; i < NI; i++) s += x[r * NI + i] * w[i * NH + c]; h[r * NH + c] = tanhf(s); }
__global__ void fwd2(const float *h, const float *w, const float *y, float *d, float *loss)
{
    __shared__ float l[NBATCH];
    int r = threadIdx.x;
    float s = w[NH];
    for (int i = 0; i < NH; i++) s += h[r * NH + i] * w[i];
    float p = 1 / (1 + expf(-s));
    d[r] = (p - y[r]) / NBATCH;
    l[r] = fmaxf(s, 0.f) - s * y[r] + log1pf(expf(-fabsf(s)));
    __syncthreads();
    if (r == 0) { float t = 0; for (int i = 0; i < NBATCH; i++) t += l[i]; *loss = t / NBATCH; }
}
__global__ void bwd_hidden(const float *h, const float *w2, const float *d, float *dh) { int r = blockIdx.x, c = threadIdx.x; float a = h[r * NH + c]; dh[r * NH + c] = d[r] * w2[c] * (1 - a * a); }
__global__ void grad2(const float *h, const float *d, float *g) { int i = threadIdx.x; float s = 0; for (int r = 0; r < NBATCH; r++) s += d[r] * (i < NH ? h[r * NH + i] : 1.f); g[i] = s; }
__global__ void grad1(const float *x, const float *dh, float *g) { int i = blockIdx.x, c = threadIdx.x; float s = 0; for (int r = 0; r < NBATCH; r++) s += dh[r * NH + c] * (i < NI ? x[r * NI + i] : 1.f); g[i * NH + c] = s; }
__global__ void heavy_ball(float *w, const float *g, float *m, int n, float lr) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { m[i] = 0.7f * m[i] + g[i]; w[i] -= lr * m[i]; } }

static unsigned lcg = 2463534242u;
static float rf(void) { lcg ^= lcg << 13; lcg ^= lcg >> 17; lcg ^= lcg << 5; return (lcg >> 8) / 16777216.0f; }

static param_t new_param(int in, int out)
{
    param_t p; p.n = (in + 1) * out;
    float *h = (float *)calloc(p.n, sizeof(float));
    for (int i = 0; i < in * out; i++) h[i] = (2 * rf() - 1) / sqrtf((float)in) * 1.5f;
    CUCHK(cudaMalloc((void **)&p.w, p.n * sizeof(float)));
    CUCHK(cudaMalloc((void **)&p.g, p.n * sizeof(float)));
    CUCHK(cudaMalloc((void **)&p.m, p.n * sizeof(float)));
    CUCHK(cudaMemcpy(p.w, h, p.n * sizeof(float), cudaMemcpyHostToDevice));
    CUCHK(cudaMemset(p.m, 0, p.n * sizeof(float)));
    free(h);
#ifdef ORACLE
    oracle::state(p.w, p.n); oracle::state(p.m, p.n); oracle::grad(p.g, p.n);
#endif
    return p;
}

int main(int argc, char **argv)
{
    float *px, *py, *hloss;         // pinned
    CUCHK(cudaMallocHost((void **)&px, BATCHES * NBATCH * NI * sizeof(float)));
    CUCHK(cudaMallocHost((void **)&py, BATCHES * NBATCH * sizeof(float)));
    CUCHK(cudaMallocHost((void **)&hloss, BATCHES * sizeof(float)));
    for (int i = 0; i < BATCHES * NBATCH; i++) {
        float *x = px + i * NI;
        for (int j = 0; j < NI; j++) x[j] = 2 * rf() - 1;
        py[i] = x[0] * x[1] + x[2] * 0.8f - 0.5f * x[3] > 0 ? 1.f : 0.f;
    }
    param_t p1 = new_param(NI, NH), p2 = new_param(NH, 1);
    slot_t slot[2];
    for (int i = 0; i < 2; i++) {
        CUCHK(cudaMalloc((void **)&slot[i].x, NBATCH * NI * sizeof(float)));
        CUCHK(cudaMalloc((void **)&slot[i].y, NBATCH * sizeof(float)));
        CUCHK(cudaEventCreate(&slot[i].ready));
        CUCHK(cudaEventCreate(&slot[i].used));
    }
    float *h, *d, *dh, *dloss;
    CUCHK(cudaMalloc((void **)&h, NBATCH * NH * sizeof(float)));
    CUCHK(cudaMalloc((void **)&d, NBATCH * sizeof(float)));
    CUCHK(cudaMalloc((void **)&dh, NBATCH * NH * sizeof(float)));
    CUCHK(cudaMalloc((void **)&dloss, BATCHES * sizeof(float)));
    cudaStream_t main_s, side_s, copy_s;
    CUCHK(cudaStreamCreate(&main_s)); CUCHK(cudaStreamCreate(&side_s)); CUCHK(cudaStreamCreate(&copy_s));
    cudaEvent_t fwd_done, dh_done, side_done;
    CUCHK(cudaEventCreate(&fwd_done)); CUCHK(cudaEventCreate(&dh_done)); CUCHK(cudaEventCreate(&side_done));

    int total = EPOCHS * BATCHES;
    for (int k = -1; k < total; k++) {
        // copy batch k + 1 into the other slot
        if (k + 1 < total) {
            slot_t *s = &slot[(k + 1) & 1];
            int b = (k + 1) % BATCHES;
            CUCHK(cudaStreamWaitEvent(copy_s, s->used, 0));
            CUCHK(cudaMemcpyAsync(s->x, px + b * NBATCH * NI, NBATCH * NI * sizeof(float), cudaMemcpyHostToDevice, copy_s));
            CUCHK(cudaMemcpyAsync(s->y, py + b * NBATCH, NBATCH * sizeof(float), cudaMemcpyHostToDevice, copy_s));
            CUCHK(cudaEventRecord(s->ready, copy_s));
        }
        if (k < 0) continue;
        slot_t *s = &slot[k & 1];
        int b = k % BATCHES;
#ifdef ORACLE
        oracle::begin();
#endif
        CUCHK(cudaStreamWaitEvent(main_s, s->ready, 0));
        fwd1<<<NBATCH, NH, 0, main_s>>>(s->x, p1.w, h);
        fwd2<<<1, NBATCH, 0, main_s>>>(h, p2.w, s->y, d, dloss + b);
        CUCHK(cudaEventRecord(fwd_done, main_s));
        bwd_hidden<<<NBATCH, NH, 0, main_s>>>(h, p2.w, d, dh);
        CUCHK(cudaEventRecord(dh_done, main_s));
        // second layer on the side stream; its weights may move only when dh is there
        CUCHK(cudaStreamWaitEvent(side_s, fwd_done, 0));
        grad2<<<1, NH + 1, 0, side_s>>>(h, d, p2.g);
        CUCHK(cudaStreamWaitEvent(side_s, dh_done, 0));
        grad1<<<NI + 1, NH, 0, main_s>>>(s->x, dh, p1.g);
#ifdef ORACLE
        if (oracle::ready())
#endif
        {
            heavy_ball<<<1, 64, 0, side_s>>>(p2.w, p2.g, p2.m, p2.n, 0.25f);
            heavy_ball<<<(p1.n + 63) / 64, 64, 0, main_s>>>(p1.w, p1.g, p1.m, p1.n, 0.25f);
        }
        CUCHK(cudaEventRecord(side_done, side_s));
        CUCHK(cudaEventRecord(s->used, main_s));
        CUCHK(cudaStreamWaitEvent(main_s, side_done, 0));
#ifdef ORACLE
        oracle::end();
#endif
        if (b == BATCHES - 1) {
            CUCHK(cudaMemcpyAsync(hloss, dloss, BATCHES * sizeof(float), cudaMemcpyDeviceToHost, main_s));
            CUCHK(cudaStreamSynchronize(main_s));
            float mean = 0;
            for (int i = 0; i < BATCHES; i++) mean += hloss[i] / BATCHES;
            printf("epoch %d  loss %.5f  (first %.5f, last %.5f)\n", k / BATCHES, mean, hloss[0], hloss[BATCHES - 1]);
        }
    }
    CUCHK(cudaDeviceSynchronize());
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { perror("open"); return 1; }
    for (param_t *p = &p1; p; p = p == &p1 ? &p2 : NULL) {
        float *v = (float *)malloc(p->n * sizeof(float));
        CUCHK(cudaMemcpy(v, p->w, p->n * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(v, sizeof(float), p->n, f);
        free(v);
    }
    fclose(f);
    cudaStreamDestroy(main_s); cudaStreamDestroy(side_s); cudaStreamDestroy(copy_s);
    return 0;
}
