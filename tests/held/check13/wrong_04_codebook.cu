/* VQ autoencoder: linear encoder, codebook kept by exponential averages, linear decoder, straight-through gradient. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

enum { X = 20, Z = 6, K = 12, BATCH = 64, DATA = 512 };
static const float DECAY = 0.9f;

#define TRY(e) do { cudaError_t r = (e); if (r) { printf("%s: %s\n", #e, cudaGetErrorString(r)); return 1; } } while (0)

typedef struct {
    float *enc, *dec;           /* X x Z and Z x X */
    float *genc, *gdec;
    float *book, *size, *sum;   /* K x Z, K, K x Z */
} Vq;

static unsigned state = 7u;
static float rnd(void) { state = state * 747796405u + 2891336453u; return ((state >> 8) / 8388608.0f) - 1.0f; }

__global__ void encode(Vq m, const float *x, float *z, int *code, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float best = 1e30f;
    for (int c = 0; c < Z; ++c) {
        float s = 0;
        for (int k = 0; k < X; ++k) s += x[i * X + k] * m.enc[k * Z + c];
        z[i * Z + c] = s;
    }
    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int c = 0; c < Z; ++c) d += (z[i * Z + c] - m.book[k * Z + c]) * (z[i * Z + c] - m.book[k * Z + c]);
        if (d < best) { best = d; code[i] = k; }
    }
}

/* residual of the reconstruction and its way back to z; commitment cost 0.25 */
__global__ void decode(Vq m, const float *x, const float *z, const int *code, float *dy, float *dz, float *loss, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float *q = m.book + code[i] * Z;
    float l = 0;
    for (int k = 0; k < X; ++k) {
        float s = 0;
        for (int c = 0; c < Z; ++c) s += q[c] * m.dec[c * X + k];
        float r = s - x[i * X + k];
        l += r * r / X;
        dy[i * X + k] = 2 * r / (X * count);
    }
    for (int c = 0; c < Z; ++c) {
        float s = 0;
        for (int k = 0; k < X; ++k) s += dy[i * X + k] * m.dec[c * X + k];
        dz[i * Z + c] = s + 0.25f * 2 * (z[i * Z + c] - q[c]) / (Z * count);
    }
    loss[i] = l;
}

__global__ void gradients(Vq m, const float *x, const int *code, const float *dy, const float *dz, int count)
{
    int id = threadIdx.x;
    if (id >= X * Z) return;
    float a = 0, b = 0;
    for (int i = 0; i < count; ++i) {
        a += x[i * X + id / Z] * dz[i * Z + id % Z];
        b += m.book[code[i] * Z + id / X] * dy[i * X + id % X];
    }
    m.genc[id] = a;
    m.gdec[id] = b;
}

__global__ void tally(const float *z, const int *code, float *hits, float *total, int count)
{
    int id = threadIdx.x;
    if (id >= K * Z) return;
    float n = 0, s = 0;
    for (int i = 0; i < count; ++i)
        if (code[i] == id / Z) { n += 1; s += z[i * Z + id % Z]; }
    total[id] = s;
    if (id % Z == 0) hits[id / Z] = n;
}

__global__ void move_codes(Vq m, const float *hits, const float *total, float decay)
{
    int k = threadIdx.x;
    if (k >= K) return;
    m.size[k] = decay * m.size[k] + (1 - decay) * hits[k];
    for (int c = 0; c < Z; ++c) {
        m.sum[k * Z + c] = decay * m.sum[k * Z + c] + (1 - decay) * total[k * Z + c];
        m.book[k * Z + c] = m.sum[k * Z + c] / (m.size[k] + 1e-3f);
    }
}

__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

int main(int argc, char **argv)
{
    static float data[DATA * X], init[X * Z], book[K * Z], sum[K * Z], size[K], hloss[BATCH];
    float *x, *z, *dy, *dz, *loss, *hits, *total;
    int *code, steps = argc > 2 ? atoi(argv[2]) : 60;
    Vq m;
    float centre[6][X];
    for (int g = 0; g < 6; ++g)
        for (int k = 0; k < X; ++k) centre[g][k] = rnd() * 1.5f;
    for (int i = 0; i < DATA; ++i)
        for (int k = 0; k < X; ++k) data[i * X + k] = centre[(i * 7 + i / 6) % 6][k] + 0.3f * rnd();
    TRY(cudaMalloc(&m.enc, sizeof init)); TRY(cudaMalloc(&m.dec, sizeof init));
    TRY(cudaMalloc(&m.genc, sizeof init)); TRY(cudaMalloc(&m.gdec, sizeof init));
    TRY(cudaMalloc(&m.book, sizeof book)); TRY(cudaMalloc(&m.sum, sizeof sum)); TRY(cudaMalloc(&m.size, sizeof size));
    TRY(cudaMalloc(&x, sizeof(float) * BATCH * X)); TRY(cudaMalloc(&z, sizeof(float) * BATCH * Z));
    TRY(cudaMalloc(&dy, sizeof(float) * BATCH * X)); TRY(cudaMalloc(&dz, sizeof(float) * BATCH * Z));
    TRY(cudaMalloc(&loss, sizeof(float) * BATCH)); TRY(cudaMalloc(&code, sizeof(int) * BATCH));
    TRY(cudaMalloc(&hits, sizeof size)); TRY(cudaMalloc(&total, sizeof sum));
    for (int i = 0; i < X * Z; ++i) init[i] = 0.4f * rnd();
    TRY(cudaMemcpy(m.enc, init, sizeof init, cudaMemcpyHostToDevice));
    for (int i = 0; i < X * Z; ++i) init[i] = 0.4f * rnd();
    TRY(cudaMemcpy(m.dec, init, sizeof init, cudaMemcpyHostToDevice));
    for (int i = 0; i < K * Z; ++i) book[i] = sum[i] = rnd();
    for (int k = 0; k < K; ++k) size[k] = 1;
    TRY(cudaMemcpy(m.book, book, sizeof book, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(m.sum, sum, sizeof sum, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(m.size, size, sizeof size, cudaMemcpyHostToDevice));

    DDP_PARAMETER(m.enc, X * Z, DDP_FLOAT32);
    DDP_PARAMETER(m.dec, X * Z, DDP_FLOAT32);
    DDP_GRADIENT(m.genc, X * Z, DDP_FLOAT32);
    DDP_GRADIENT(m.gdec, X * Z, DDP_FLOAT32);
    DDP_BUFFER(m.book, K * Z, DDP_FLOAT32);
    DDP_BUFFER(m.sum, K * Z, DDP_FLOAT32);
    DDP_BUFFER(m.size, K, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const float *part = data + ((size_t)step * BATCH % DATA + first) * X;
        TRY(cudaMemcpy(x, part, count * X * sizeof(float), cudaMemcpyHostToDevice));
        encode<<<1, BATCH>>>(m, x, z, code, (int)count);
        decode<<<1, BATCH>>>(m, x, z, code, dy, dz, loss, (int)count);
        gradients<<<1, 128>>>(m, x, code, dy, dz, (int)count);
        tally<<<1, 128>>>(z, code, hits, total, (int)count);
        DDP_REDUCE(hits, K, DDP_FLOAT32, DDP_OP_SUM, 0);
        move_codes<<<1, K>>>(m, hits, total, DECAY);
        DDP_STEP(0);
        sgd<<<1, 128>>>(m.enc, m.genc, 0.3f, X * Z);
        sgd<<<1, 128>>>(m.dec, m.gdec, 0.3f, X * Z);
        TRY(cudaMemcpy(hloss, loss, count * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0;
        for (size_t i = 0; i < count; ++i) mean += hloss[i] / count;
        DDP_MEAN(&mean);
        if (step % 10 == 0 && DDP_RANK() == 0) printf("%d %.5f\n", step, mean);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        TRY(cudaMemcpy(init, m.enc, sizeof init, cudaMemcpyDeviceToHost));
        fwrite(init, sizeof init, 1, f);
        TRY(cudaMemcpy(init, m.dec, sizeof init, cudaMemcpyDeviceToHost));
        fwrite(init, sizeof init, 1, f);
        TRY(cudaMemcpy(book, m.book, sizeof book, cudaMemcpyDeviceToHost));
        fwrite(book, sizeof book, 1, f);
        fclose(f);
    }
    return 0;
}
