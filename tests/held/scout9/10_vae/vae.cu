/*
 * Variational autoencoder (Kingma & Welling 2013) on 6x6 "bars" images.
 * 36 - 40 - (4 mu, 4 logvar) - 40 - 36, RMSprop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define IMG 36
#define HID 40
#define LAT 4
#define MB 128            /* minibatch */
#define NTRAIN 2560
#define EPOCHS 7
#define LR 0.004f
#define DECAY 0.9f

#define DIVUP(a, b) (((a) + (b) - 1) / (b))
#define FOR_I(n) int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < (n))
#define RUN(kernel, n, ...) kernel<<<DIVUP(n, 128), 128>>>(__VA_ARGS__, n)

/* all weights: name, rows, columns */
#define WEIGHTS(X)          \
    X(enc_w, IMG, HID)      \
    X(enc_b, 1, HID)        \
    X(mu_w, HID, LAT)       \
    X(mu_b, 1, LAT)         \
    X(lv_w, HID, LAT)       \
    X(lv_b, 1, LAT)         \
    X(dec_w, LAT, HID)      \
    X(dec_b, 1, HID)        \
    X(out_w, HID, IMG)      \
    X(out_b, 1, IMG)

#define DECLARE(name, r, c) float *name, *g_##name, *s_##name;
struct { WEIGHTS(DECLARE) } net;

static cublasHandle_t cb;
static float *x, *eps, *h1, *mu, *lv, *z, *h2, *xr;
static float *d_xr, *d_h2, *d_z, *d_mu, *d_lv, *d_h1, *ones, *cost;

__global__ void k_bias_tanh(float *y, const float *b, int cols, int n) { FOR_I(n) y[i] = tanhf(y[i] + b[i % cols]); }
__global__ void k_bias(float *y, const float *b, int cols, int n) { FOR_I(n) y[i] += b[i % cols]; }
__global__ void k_bias_sigmoid(float *y, const float *b, int cols, int n)
{
    FOR_I(n) y[i] = 1.0f / (1.0f + expf(-(y[i] + b[i % cols])));
}
__global__ void k_sample(float *z, const float *mu, const float *lv, const float *eps, int n)
{
    FOR_I(n) z[i] = mu[i] + expf(0.5f * lv[i]) * eps[i];
}
__global__ void k_recon(float *d, float *cost, const float *xr, const float *x, int n)
{
    FOR_I(n)
    {
        float p = fminf(fmaxf(xr[i], 1e-6f), 1 - 1e-6f);
        atomicAdd(cost, -(x[i] * logf(p) + (1 - x[i]) * logf(1 - p)));
        d[i] = xr[i] - x[i];
    }
}
__global__ void k_latent(float *d_mu, float *d_lv, float *cost, const float *d_z, const float *mu, const float *lv,
                         const float *eps, int n)
{
    FOR_I(n)
    {
        atomicAdd(cost, -0.5f * (1 + lv[i] - mu[i] * mu[i] - expf(lv[i])));
        d_mu[i] = d_z[i] + mu[i];
        d_lv[i] = d_z[i] * eps[i] * 0.5f * expf(0.5f * lv[i]) + 0.5f * (expf(lv[i]) - 1);
    }
}
__global__ void k_dtanh(float *d, const float *y, int n) { FOR_I(n) d[i] *= 1 - y[i] * y[i]; }
__global__ void k_one(float *p, float v, int n) { FOR_I(n) p[i] = v; }
__global__ void k_rmsprop(float *w, const float *g, float *s, int n)
{
    FOR_I(n)
    {
        float gi = g[i] / MB;
        s[i] = DECAY * s[i] + (1 - DECAY) * gi * gi;
        w[i] -= LR * gi / (sqrtf(s[i]) + 1e-6f);
    }
}

/* y[n x c] = x[n x r] w[r x c] + beta y, row major */
static void mm(const float *a, const float *w, float *y, int n, int r, int c)
{
    const float one = 1, zero = 0;
    cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, c, n, r, &one, w, c, a, r, &zero, y, c);
}
/* dx = dy w^T + beta dx */
static void mm_dx(const float *dy, const float *w, float *dx, int n, int r, int c, float beta)
{
    const float one = 1;
    cublasSgemm(cb, CUBLAS_OP_T, CUBLAS_OP_N, r, n, c, &one, w, c, dy, c, &beta, dx, r);
}
/* gw = x^T dy, gb = 1^T dy: sums over the minibatch */
static void mm_dw(const float *a, const float *dy, float *gw, float *gb, int n, int r, int c)
{
    const float one = 1, zero = 0;
    cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, c, r, n, &one, dy, c, a, r, &zero, gw, c);
    cublasSgemv(cb, CUBLAS_OP_N, c, n, &one, dy, c, ones, 1, &zero, gb, 1);
}

static unsigned long long rng_state = 88172645463325252ULL;
static float uniform(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return ((rng_state >> 40) + 0.5f) / 16777216.0f;
}
static float gauss(void) { return sqrtf(-2 * logf(uniform())) * cosf(6.2831853f * uniform()); }

static float *dev(int n) { float *p; cudaMalloc((void **)&p, n * sizeof(float)); return p; }

static void init(float *w, int r, int c)
{
    float *h = (float *)malloc(r * c * sizeof(float));
    for (int i = 0; i < r * c; i++)
        h[i] = r == 1 ? 0.0f : gauss() / sqrtf(r);
    cudaMemcpy(w, h, r * c * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
}

int main(void)
{
    static float data[NTRAIN][IMG], batch[MB * IMG], noise[MB * LAT];
    static int perm[NTRAIN];

    cublasCreate(&cb);
#define CREATE(name, r, c)              \
    net.name = dev((r) * (c));          \
    net.g_##name = dev((r) * (c));      \
    net.s_##name = dev((r) * (c));      \
    cudaMemset(net.s_##name, 0, (r) * (c) * sizeof(float)); \
    init(net.name, r, c);
    WEIGHTS(CREATE)

    x = dev(MB * IMG); eps = dev(MB * LAT); h1 = dev(MB * HID); mu = dev(MB * LAT); lv = dev(MB * LAT); z = dev(MB * LAT);
    h2 = dev(MB * HID); xr = dev(MB * IMG); d_xr = dev(MB * IMG); d_h2 = dev(MB * HID); d_z = dev(MB * LAT);
    d_mu = dev(MB * LAT); d_lv = dev(MB * LAT); d_h1 = dev(MB * HID); ones = dev(MB); cost = dev(1);
    RUN(k_one, MB, ones, 1.0f);

    /* one or two bars, horizontal or vertical */
    for (int n = 0; n < NTRAIN; n++) {
        int bars = 1 + (uniform() < 0.4f);
        perm[n] = n;
        while (bars--) {
            int at = (int)(uniform() * 6), vertical = uniform() < 0.5f;
            for (int k = 0; k < 6; k++)
                data[n][vertical ? k * 6 + at : at * 6 + k] = 1;
        }
    }

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        float total = 0;
        for (int i = NTRAIN - 1; i > 0; i--) {
            int j = (int)(uniform() * (i + 1)), t = perm[i];
            perm[i] = perm[j];
            perm[j] = t;
        }
        for (int start = 0; start < NTRAIN; start += MB) {
            for (int b = 0; b < MB; b++)
                memcpy(batch + b * IMG, data[perm[start + b]], IMG * sizeof(float));
            for (int i = 0; i < MB * LAT; i++)
                noise[i] = gauss();
            cudaMemcpy(x, batch, sizeof(batch), cudaMemcpyHostToDevice);
            cudaMemcpy(eps, noise, sizeof(noise), cudaMemcpyHostToDevice);
            cudaMemset(cost, 0, sizeof(float));

            mm(x, net.enc_w, h1, MB, IMG, HID);
            RUN(k_bias_tanh, MB * HID, h1, net.enc_b, HID);
            mm(h1, net.mu_w, mu, MB, HID, LAT);
            RUN(k_bias, MB * LAT, mu, net.mu_b, LAT);
            mm(h1, net.lv_w, lv, MB, HID, LAT);
            RUN(k_bias, MB * LAT, lv, net.lv_b, LAT);
            RUN(k_sample, MB * LAT, z, mu, lv, eps);
            mm(z, net.dec_w, h2, MB, LAT, HID);
            RUN(k_bias_tanh, MB * HID, h2, net.dec_b, HID);
            mm(h2, net.out_w, xr, MB, HID, IMG);
            RUN(k_bias_sigmoid, MB * IMG, xr, net.out_b, IMG);

            RUN(k_recon, MB * IMG, d_xr, cost, xr, x);
            mm_dw(h2, d_xr, net.g_out_w, net.g_out_b, MB, HID, IMG);
            mm_dx(d_xr, net.out_w, d_h2, MB, HID, IMG, 0);
            RUN(k_dtanh, MB * HID, d_h2, h2);
            mm_dw(z, d_h2, net.g_dec_w, net.g_dec_b, MB, LAT, HID);
            mm_dx(d_h2, net.dec_w, d_z, MB, LAT, HID, 0);
            RUN(k_latent, MB * LAT, d_mu, d_lv, cost, d_z, mu, lv, eps);
            mm_dw(h1, d_mu, net.g_mu_w, net.g_mu_b, MB, HID, LAT);
            mm_dw(h1, d_lv, net.g_lv_w, net.g_lv_b, MB, HID, LAT);
            mm_dx(d_mu, net.mu_w, d_h1, MB, HID, LAT, 0);
            mm_dx(d_lv, net.lv_w, d_h1, MB, HID, LAT, 1);
            RUN(k_dtanh, MB * HID, d_h1, h1);
            mm_dw(x, d_h1, net.g_enc_w, net.g_enc_b, MB, IMG, HID);

#define UPDATE(name, r, c) RUN(k_rmsprop, (r) * (c), net.name, net.g_##name, net.s_##name);
            WEIGHTS(UPDATE)

            float c;
            cudaMemcpy(&c, cost, sizeof(float), cudaMemcpyDeviceToHost);
            total += c;
        }
        printf("epoch %d: negative ELBO %.4f\n", epoch, total / NTRAIN);
    }
    cublasDestroy(cb);
    return 0;
}
