// Vector-quantised autoencoder. Encoder and decoder are linear and learn by SGD, the codebook follows moving averages.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

static const int X = 16, Z = 4, CODES = 12, B = 64, N = 512;

template <class T> static T *gpu(size_t n)
{
    T *p;
    if (cudaMalloc(&p, n * sizeof(T))) exit(3);
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}
template <class T> static void put(T *d, const std::vector<T> &h) { cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice); }

__global__ void encode(const float *x, const float *we, const float *code, float *z, int *pick, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < Z; ++k) {
        float s = 0;
        for (int j = 0; j < X; ++j) s += x[i * X + j] * we[j * Z + k];
        z[i * Z + k] = s;
    }
    float best = 1e30f;
    for (int c = 0; c < CODES; ++c) {
        float d = 0;
        for (int k = 0; k < Z; ++k) d += (z[i * Z + k] - code[c * Z + k]) * (z[i * Z + k] - code[c * Z + k]);
        if (d < best) { best = d; pick[i] = c; }
    }
}
__global__ void decode(const float *x, const float *wd, const float *code, const int *pick, float *err, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float l = 0;
    for (int j = 0; j < X; ++j) {
        float s = 0;
        for (int k = 0; k < Z; ++k) s += code[pick[i] * Z + k] * wd[k * X + j];
        float e = s - x[i * X + j];
        err[i * X + j] = e / n;
        l += 0.5f * e * e;
    }
    loss[i] = l;
}
__global__ void grad_decoder(const float *err, const float *code, const int *pick, float *gd, int n)
{
    int k = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += code[pick[i] * Z + k] * err[i * X + j];
    gd[k * X + j] = s;
}
__global__ void grad_latent(const float *err, const float *wd, const float *z, const float *code, const int *pick, float *dz,
                            float commit, int n)
{
    int i = threadIdx.x, k = blockIdx.x;
    if (i >= n) return;
    float s = commit * (z[i * Z + k] - code[pick[i] * Z + k]) / n;
    for (int j = 0; j < X; ++j) s += err[i * X + j] * wd[k * X + j];
    dz[i * Z + k] = s;
}
__global__ void grad_encoder(const float *x, const float *dz, float *ge, int n)
{
    int j = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += x[i * X + j] * dz[i * Z + k];
    ge[j * Z + k] = s;
}
__global__ void assign_stats(const float *z, const int *pick, float *cnt, float *sum, int n)
{
    int c = threadIdx.x;
    float m = 0, v[Z] = {0, 0, 0, 0};
    for (int i = 0; i < n; ++i)
        if (pick[i] == c) {
            m += 1;
            for (int k = 0; k < Z; ++k) v[k] += z[i * Z + k];
        }
    cnt[c] = m;
    for (int k = 0; k < Z; ++k) sum[c * Z + k] = v[k];
}
__global__ void move_codes(float *ema_cnt, float *ema_sum, float *code, const float *cnt, const float *sum, float keep)
{
    int c = threadIdx.x;
    ema_cnt[c] = keep * ema_cnt[c] + (1 - keep) * cnt[c];
    for (int k = 0; k < Z; ++k) {
        ema_sum[c * Z + k] = keep * ema_sum[c * Z + k] + (1 - keep) * sum[c * Z + k];
        code[c * Z + k] = ema_sum[c * Z + k] / (ema_cnt[c] + 1e-4f);
    }
}
__global__ void sgd(float *w, const float *g, float lr) { int i = blockIdx.x * blockDim.x + threadIdx.x; w[i] -= lr * g[i]; }

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    unsigned s = 99991;
    auto r = [&s]() { s = s * 69069u + 1u; return (s >> 8) / 8388608.0f - 1.0f; };
    std::vector<float> centre(8 * X), x(N * X), we(X * Z), wd(Z * X), code(CODES * Z), ecnt(CODES, 2.0f), esum(CODES * Z);
    for (float &v : centre) v = 1.5f * r();
    for (int i = 0; i < N; ++i) {
        int c = (int)(4 * (r() + 1)) & 7;
        for (int j = 0; j < X; ++j) x[i * X + j] = centre[c * X + j] + 0.4f * r();
    }
    for (float &v : we) v = 0.4f * r();
    for (float &v : wd) v = 0.4f * r();
    for (int i = 0; i < CODES * Z; ++i) { code[i] = r(); esum[i] = 2.0f * code[i]; }

    float *dx = gpu<float>(N * X), *dwe = gpu<float>(X * Z), *dwd = gpu<float>(Z * X), *ge = gpu<float>(X * Z),
          *gd = gpu<float>(Z * X), *dcode = gpu<float>(CODES * Z), *ema_cnt = gpu<float>(CODES),
          *ema_sum = gpu<float>(CODES * Z), *cnt = gpu<float>(CODES), *sum = gpu<float>(CODES * Z), *z = gpu<float>(B * Z),
          *dz = gpu<float>(B * Z), *err = gpu<float>(B * X), *loss = gpu<float>(B);
    int *pick = gpu<int>(B);
    put(dx, x); put(dwe, we); put(dwd, wd); put(dcode, code); put(ema_cnt, ecnt); put(ema_sum, esum);
    DDP_PARAMETER(dwe, X * Z, DDP_FLOAT32);
    DDP_PARAMETER(dwd, Z * X, DDP_FLOAT32);
    DDP_GRADIENT(ge, X * Z, DDP_FLOAT32);
    DDP_GRADIENT(gd, Z * X, DDP_FLOAT32);
    DDP_STATE(dcode, CODES * Z, DDP_FLOAT32);
    DDP_STATE(ema_cnt, CODES, DDP_FLOAT32);
    DDP_STATE(ema_sum, CODES * Z, DDP_FLOAT32);

    for (int t = 0; t < steps; ++t) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        const float *xb = dx + ((t % (N / B)) * B + first) * X;
        encode<<<1, B>>>(xb, dwe, dcode, z, pick, n);
        decode<<<1, B>>>(xb, dwd, dcode, pick, err, loss, n);
        grad_decoder<<<Z, X>>>(err, dcode, pick, gd, n);
        grad_latent<<<Z, B>>>(err, dwd, z, dcode, pick, dz, 0.25f, n);
        grad_encoder<<<X, Z>>>(xb, dz, ge, n);
        assign_stats<<<1, CODES>>>(z, pick, cnt, sum, n);
        DDP_REDUCE(cnt, CODES, DDP_FLOAT32, DDP_OP_SUM, 0);
        DDP_REDUCE(sum, CODES * Z, DDP_FLOAT32, DDP_OP_MEAN, 0);
        move_codes<<<1, CODES>>>(ema_cnt, ema_sum, dcode, cnt, sum, 0.9f);
        DDP_STEP(0);
        sgd<<<X, Z>>>(dwe, ge, 0.03f);
        sgd<<<Z, X>>>(dwd, gd, 0.1f);
        if (t == 0 || t % 20 == 19) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            double m = 0;
            for (float v : l) m += v / n;
            DDP_MEAN(&m);
            printf("t=%d reconstruction %.4f\n", t, m);
        }
    }
    std::vector<float> out(2 * X * Z + CODES * Z);
    cudaMemcpy(&out[0], dwe, X * Z * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(&out[X * Z], dwd, X * Z * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(&out[2 * X * Z], dcode, CODES * Z * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(out.data(), 4, out.size(), f);
        fclose(f);
    }
    return 0;
}
