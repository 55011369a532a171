// VQ autoencoder: linear encoder and decoder, codebook learned by exponential moving averages.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

#define DX 32
#define DZ 6
#define CODES 12
#define BATCH 56
#define ITEMS 1120

static unsigned long long seed = 7;
static float noise()
{
    float a = 0;
    for (int i = 0; i < 6; ++i) { seed = seed * 6364136223846793005ULL + 1; a += (float)(seed >> 41) / 4194304.0f - 1.0f; }
    return a * 0.7f;
}

__global__ void encode(const float *x, const float *we, float *z, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * DZ) return;
    float a = 0;
    for (int k = 0; k < DX; ++k) a += x[i / DZ * DX + k] * we[k * DZ + i % DZ];
    z[i] = a;
}

__global__ void nearest(const float *z, const float *book, int *id, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float best = 1e30f;
    for (int c = 0; c < CODES; ++c) {
        float d = 0;
        for (int k = 0; k < DZ; ++k) { float e = z[r * DZ + k] - book[c * DZ + k]; d += e * e; }
        if (d < best) { best = d; id[r] = c; }
    }
}

__global__ void decode(const float *book, const int *id, const float *wd, const float *x, float *err, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * DX) return;
    float a = 0;
    for (int k = 0; k < DZ; ++k) a += book[id[i / DX] * DZ + k] * wd[k * DX + i % DX];
    err[i] = a - x[i];
}

// straight-through: the decoder's input gradient goes to z, plus the commitment term
__global__ void latent_gradient(const float *err, const float *wd, const float *z, const float *book, const int *id,
                                float *dz, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * DZ) return;
    int r = i / DZ, k = i % DZ;
    float a = 0.25f * (z[i] - book[id[r] * DZ + k]);
    for (int j = 0; j < DX; ++j) a += err[r * DX + j] * wd[k * DX + j];
    dz[i] = a;
}

__global__ void encoder_weights(const float *x, const float *dz, float *g, int rows)
{
    int i = threadIdx.x;
    if (i >= DX * DZ) return;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += x[r * DX + i / DZ] * dz[r * DZ + i % DZ];
    g[i] = a / rows;
}

__global__ void decoder_weights(const float *book, const int *id, const float *err, float *g, int rows)
{
    int i = threadIdx.x;
    if (i >= DX * DZ) return;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += book[id[r] * DZ + i / DX] * err[r * DX + i % DX];
    g[i] = a / rows;
}

// usage[c] = { number of rows that chose code c, sum of their latents }
__global__ void count_usage(const float *z, const int *id, float *usage, int rows)
{
    int i = threadIdx.x;
    if (i >= CODES * (DZ + 1)) return;
    int c = i / (DZ + 1), k = i % (DZ + 1);
    float a = 0;
    for (int r = 0; r < rows; ++r)
        if (id[r] == c) a += k ? z[r * DZ + k - 1] : 1.0f;
    usage[i] = a;
}

__global__ void move_codes(float *ema, const float *usage, float *book)
{
    int i = threadIdx.x;
    if (i < CODES * (DZ + 1)) ema[i] = 0.9f * ema[i] + 0.1f * usage[i];
    __syncthreads();
    if (i < CODES * DZ) book[i] = ema[i / DZ * (DZ + 1) + 1 + i % DZ] / (ema[i / DZ * (DZ + 1)] + 1e-3f);
}

__global__ void sgd(float *w, const float *g, float rate)
{
    if (threadIdx.x < DX * DZ) w[threadIdx.x] -= rate * g[threadIdx.x];
}

static float *upload(const std::vector<float> &v)
{
    float *p;
    cudaMalloc(&p, v.size() * sizeof(float));
    cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> proto(8 * DX), x(ITEMS * DX), we(DX * DZ), wd(DX * DZ), book(CODES * DZ), ema(CODES * (DZ + 1));
    for (auto &e : proto) e = 1.2f * noise();
    for (int i = 0; i < ITEMS; ++i)
        for (int k = 0; k < DX; ++k) x[i * DX + k] = proto[(i * 5 + i / 7) % 8 * DX + k] + 0.5f * noise();
    for (auto &e : we) e = 0.3f * noise();
    for (auto &e : wd) e = 0.3f * noise();
    for (auto &e : book) e = 0.8f * noise();
    for (int c = 0; c < CODES; ++c) {
        ema[c * (DZ + 1)] = 4;
        for (int k = 0; k < DZ; ++k) ema[c * (DZ + 1) + 1 + k] = 4 * book[c * DZ + k];
    }
    float *d_x = upload(x), *d_we = upload(we), *d_wd = upload(wd), *d_book = upload(book), *d_ema = upload(ema);
    float *g_we, *g_wd, *z, *dz, *err, *usage;
    int *id;
    cudaMalloc(&g_we, DX * DZ * 4); cudaMalloc(&g_wd, DX * DZ * 4);
    cudaMalloc(&z, BATCH * DZ * 4); cudaMalloc(&dz, BATCH * DZ * 4);
    cudaMalloc(&err, BATCH * DX * 4); cudaMalloc(&usage, CODES * (DZ + 1) * 4); cudaMalloc(&id, BATCH * 4);

    DDP_PARAMETER(d_we, DX * DZ, DDP_FLOAT32);
    DDP_PARAMETER(d_wd, DX * DZ, DDP_FLOAT32);
    DDP_GRADIENT(g_we, DX * DZ, DDP_FLOAT32);
    DDP_GRADIENT(g_wd, DX * DZ, DDP_FLOAT32);
    DDP_BUFFER(d_book, CODES * DZ, DDP_FLOAT32);
    DDP_BUFFER(d_ema, CODES * (DZ + 1), DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int rows = (int)count;
        const float *b = d_x + (step * BATCH % ITEMS + first) * DX;
        encode<<<(rows * DZ + 63) / 64, 64>>>(b, d_we, z, rows);
        nearest<<<(rows + 63) / 64, 64>>>(z, d_book, id, rows);
        decode<<<(rows * DX + 63) / 64, 64>>>(d_book, id, d_wd, b, err, rows);
        latent_gradient<<<(rows * DZ + 63) / 64, 64>>>(err, d_wd, z, d_book, id, dz, rows);
        encoder_weights<<<1, 256>>>(b, dz, g_we, rows);
        decoder_weights<<<1, 256>>>(d_book, id, err, g_wd, rows);
        count_usage<<<1, 256>>>(z, id, usage, rows);
        move_codes<<<1, 256>>>(d_ema, usage, d_book);
        DDP_STEP(0);
        sgd<<<1, 256>>>(d_we, g_we, 0.01f);
        sgd<<<1, 256>>>(d_wd, g_wd, 0.01f);
        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> e(rows * DX);
            cudaMemcpy(e.data(), err, e.size() * 4, cudaMemcpyDeviceToHost);
            float mse = 0;
            for (float v : e) mse += v * v / e.size();
            DDP_MEAN(&mse);
            printf("%d %.4f\n", step, mse);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (float *w : {d_we, d_wd}) {
            cudaMemcpy(we.data(), w, DX * DZ * 4, cudaMemcpyDeviceToHost);
            for (float v : we) fprintf(f, "%.9g\n", v);
        }
        fclose(f);
    }
    return 0;
}
