// conv_half.cu : small mixed-precision CNN for bar orientation (4 classes)
//   conv3x3 (8 maps) -> batch norm -> relu -> maxpool 2x2 -> fc
// Activations and working weights are __half, master weights float, fixed loss scale.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define S 12          // image side
#define O 10          // conv output side
#define P 5           // pooled side
#define C 8           // maps
#define K 4           // classes
#define BATCH 32
#define F (C * P * P)
#define NTRAIN 512
#define NVAL 128
#define SCALE 256.0f
#define MOM 0.9f
#define DECAY 5e-4f
#define cuda(x) gpu_ok((x), __LINE__)
#define ALLOC(p, n) cuda(cudaMalloc(&p, (n) * sizeof *p))
#define GRID(n) (((n) + 255) / 256), 256

static void gpu_ok(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}

typedef struct { float *w, *g, *v; int n; float decay; } Param;

static __half *d_img, *d_y, *d_pool, *d_dpool, *d_dy, *d_wc, *d_wf, *d_dlogit;
static unsigned char *d_arg;
static int *d_label, *d_perm;
static float *d_mean, *d_inv, *d_rmean, *d_rvar, *d_logit, *d_epoch;   // d_epoch: [0] loss sum, [1] hits of this epoch
static Param wc, gam, bet, wf, bf;

__global__ void k_half(const float *w, __half *h, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) h[i] = __float2half(w[i]);
}
__global__ void k_conv(const __half *img, const int *perm, const __half *w, __half *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n * C * O * O) return;
    int x = i % O, r = i / O % O, c = i / (O * O) % C, b = i / (O * O * C);
    const __half *im = img + perm[b] * S * S;
    float s = 0;
    for (int p = 0; p < 3; p++)
        for (int q = 0; q < 3; q++)
            s += __half2float(im[(r + p) * S + x + q]) * __half2float(w[c * 9 + p * 3 + q]);
    y[i] = __float2half(s);
}
// block sum of two values, 128 threads
__device__ void sum2(float &a, float &b) {
    __shared__ float sa[128], sb[128];
    int t = threadIdx.x;
    __syncthreads(); sa[t] = a; sb[t] = b;
    __syncthreads();
    for (int w = 64; w; w >>= 1) {
        if (t < w) { sa[t] += sa[t + w]; sb[t] += sb[t + w]; }
        __syncthreads();
    }
    a = sa[0]; b = sb[0];
}
__global__ void k_bnstat(const __half *y, float *mean, float *inv, float *rmean, float *rvar, int n) {
    int c = blockIdx.x;
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < n * O * O; i += 128) {
        float v = __half2float(y[(i / (O * O) * C + c) * O * O + i % (O * O)]);
        s += v; q += v * v;
    }
    sum2(s, q);
    if (threadIdx.x == 0) {
        float m = s / (n * O * O), var = q / (n * O * O) - m * m;
        mean[c] = m;
        inv[c] = rsqrtf(var + 1e-5f);
        rmean[c] += 0.1f * (m - rmean[c]); rvar[c] += 0.1f * (var - rvar[c]);
    }
}
__global__ void k_bnrunning(const float *rmean, const float *rvar, float *mean, float *inv) {
    int c = threadIdx.x;
    mean[c] = rmean[c]; inv[c] = rsqrtf(rvar[c] + 1e-5f);
}
__global__ void k_bnpool(const __half *y, const float *mean, const float *inv, const float *gam, const float *bet, __half *pool, unsigned char *arg, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n * F) return;
    int x = i % P, r = i / P % P, c = i / (P * P) % C, b = i / F;
    float best = 0;
    int which = 4;                                    // 4: relu is shut
    for (int k = 0; k < 4; k++) {
        float v = __half2float(y[((b * C + c) * O + 2 * r + k / 2) * O + 2 * x + k % 2]);
        v = gam[c] * (v - mean[c]) * inv[c] + bet[c];
        if (v > best) { best = v; which = k; }
    }
    pool[i] = __float2half(best);
    arg[i] = which;
}
__global__ void k_fc(const __half *pool, const __half *w, const float *b, float *logit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n * K) return;
    float s = b[i % K];
    for (int j = 0; j < F; j++) s += __half2float(pool[i / K * F + j]) * __half2float(w[j * K + i % K]);
    logit[i] = s;
}
__global__ void k_softmax(const float *logit, const int *label, const int *perm, __half *d, float *epoch, int n) {
    float l = 0, hit = 0;
    for (int b = threadIdx.x; b < n; b += 128) {
        const float *z = logit + b * K;
        int t = label[perm[b]], best = 0;
        float m = z[0], s = 0;
        for (int k = 1; k < K; k++) if (z[k] > m) { m = z[k]; best = k; }
        for (int k = 0; k < K; k++) s += expf(z[k] - m);
        l += m + logf(s) - z[t];
        hit += best == t;
        for (int k = 0; k < K; k++) d[b * K + k] = __float2half(SCALE * (expf(z[k] - m) / s - (k == t)) / n);
    }
    sum2(l, hit);
    if (threadIdx.x == 0) { epoch[0] += l / n; epoch[1] += hit; }
}
__global__ void k_fcgrad(const __half *pool, const __half *d, float *gw, float *gb, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= (F + 1) * K) return;
    int j = i / K, k = i % K;
    float s = 0;
    for (int b = 0; b < n; b++) s += (j < F ? __half2float(pool[b * F + j]) : 1.0f) * __half2float(d[b * K + k]);
    if (j < F) gw[i] = s; else gb[k] = s;
}
__global__ void k_fcback(const __half *d, const __half *w, __half *dpool, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n * F) return;
    float s = 0;
    for (int k = 0; k < K; k++) s += __half2float(d[i / F * K + k]) * __half2float(w[i % F * K + k]);
    dpool[i] = __float2half(s);
}
// unpool, relu and batch norm backward; one block a map
__global__ void k_bnback(const __half *dpool, const unsigned char *arg, const __half *y, const float *mean, const float *inv,
                         const float *gam, __half *dy, float *ggam, float *gbet, int n) {
    int c = blockIdx.x, m = n * O * O;
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < m; i += 128) {
        int b = i / (O * O), r = i / O % O, x = i % O, p = (b * C + c) * P * P + r / 2 * P + x / 2;
        if (arg[p] != (r & 1) * 2 + (x & 1)) continue;
        float d = __half2float(dpool[p]);
        s += d;
        q += d * (__half2float(y[(b * C + c) * O * O + r * O + x]) - mean[c]) * inv[c];
    }
    sum2(s, q);
    if (threadIdx.x == 0) { gbet[c] = s; ggam[c] = q; }
    for (int i = threadIdx.x; i < m; i += 128) {
        int b = i / (O * O), r = i / O % O, x = i % O, p = (b * C + c) * P * P + r / 2 * P + x / 2, o = (b * C + c) * O * O + r * O + x;
        float d = arg[p] == (r & 1) * 2 + (x & 1) ? __half2float(dpool[p]) : 0;
        float h = (__half2float(y[o]) - mean[c]) * inv[c];
        dy[o] = __float2half(gam[c] * inv[c] * (d - s / m - h * q / m));
    }
}
__global__ void k_convgrad(const __half *img, const int *perm, const __half *dy, float *g, int n) {
    int c = blockIdx.x / 9, p = blockIdx.x % 9 / 3, q = blockIdx.x % 3;
    float s = 0, unused = 0;
    for (int i = threadIdx.x; i < n * O * O; i += 128) {
        int b = i / (O * O), r = i / O % O, x = i % O;
        s += __half2float(img[perm[b] * S * S + (r + p) * S + x + q]) * __half2float(dy[(b * C + c) * O * O + r * O + x]);
    }
    sum2(s, unused);
    if (threadIdx.x == 0) g[blockIdx.x] = s;
}
__global__ void k_nesterov(float *w, const float *g, float *v, int n, float lr, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float d = g[i] / SCALE + decay * w[i];
    v[i] = MOM * v[i] + d;
    w[i] -= lr * (d + MOM * v[i]);
}

static float frand(void) { return rand() / (float)RAND_MAX; }

static Param param(int n, float sd, float base, float decay) {
    Param p = { 0, 0, 0, n, decay };
    float *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = base + sd * (2 * frand() - 1);
    ALLOC(p.w, n); ALLOC(p.g, n); ALLOC(p.v, n);
    cuda(cudaMemset(p.v, 0, n * sizeof(float)));
    cuda(cudaMemcpy(p.w, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
#ifdef ORACLE
    oracle::state(p.w, n); oracle::state(p.v, n); oracle::grad(p.g, n);
#endif
    return p;
}
static void forward(const int *perm, int train) {
    k_half<<<GRID(wc.n)>>>(wc.w, d_wc, wc.n);
    k_half<<<GRID(wf.n)>>>(wf.w, d_wf, wf.n);
    k_conv<<<GRID(BATCH * C * O * O)>>>(d_img, perm, d_wc, d_y, BATCH);
    if (train) k_bnstat<<<C, 128>>>(d_y, d_mean, d_inv, d_rmean, d_rvar, BATCH);
    else k_bnrunning<<<1, C>>>(d_rmean, d_rvar, d_mean, d_inv);
    k_bnpool<<<GRID(BATCH * F)>>>(d_y, d_mean, d_inv, gam.w, bet.w, d_pool, d_arg, BATCH);
    k_fc<<<GRID(BATCH * K)>>>(d_pool, d_wf, bf.w, d_logit, BATCH);
    k_softmax<<<1, 128>>>(d_logit, d_label, perm, d_dlogit, d_epoch, BATCH);
}

int main(int argc, char **argv) {
    const int n = NTRAIN + NVAL, epochs = 5;
    static __half img[(NTRAIN + NVAL) * S * S];
    static int label[NTRAIN + NVAL], perm[NTRAIN + NVAL];
    srand(5);
    for (int i = 0; i < n; i++) {
        label[i] = rand() % K;
        perm[i] = i;
        float cx = 4 + 4 * frand(), cy = 4 + 4 * frand(), a = label[i] * 0.785398f, w = 0.8f + frand();
        for (int r = 0; r < S; r++)
            for (int c = 0; c < S; c++) {
                float d = (c - cx) * sinf(a) - (r - cy) * cosf(a);
                img[(i * S + r) * S + c] = __float2half(expf(-d * d / w) + 0.7f * (frand() - 0.5f));
            }
    }
    wc = param(C * 9, 0.5f, 0, DECAY); gam = param(C, 0, 1, 0); bet = param(C, 0, 0, 0);
    wf = param(F * K, 0.1f, 0, DECAY); bf = param(K, 0, 0, 0);
    ALLOC(d_img, n * S * S);           ALLOC(d_label, n);             ALLOC(d_perm, n);
    ALLOC(d_y, BATCH * C * O * O);     ALLOC(d_dy, BATCH * C * O * O); ALLOC(d_arg, BATCH * F);
    ALLOC(d_pool, BATCH * F);          ALLOC(d_dpool, BATCH * F);     ALLOC(d_wc, wc.n);
    ALLOC(d_logit, BATCH * K);         ALLOC(d_dlogit, BATCH * K);    ALLOC(d_wf, wf.n);
    ALLOC(d_mean, C); ALLOC(d_inv, C); ALLOC(d_rmean, C); ALLOC(d_rvar, C); ALLOC(d_epoch, 2);
    cuda(cudaMemset(d_rmean, 0, C * sizeof(float)));
    float one[C] = { 1, 1, 1, 1, 1, 1, 1, 1 }, acc[2];
    cuda(cudaMemcpy(d_rvar, one, sizeof one, cudaMemcpyHostToDevice));
    cuda(cudaMemcpy(d_img, img, sizeof img, cudaMemcpyHostToDevice));
    cuda(cudaMemcpy(d_label, label, sizeof label, cudaMemcpyHostToDevice));
#ifdef ORACLE
    oracle::carried(d_rmean, C); oracle::carried(d_rvar, C);
#endif
    Param *all[] = { &wc, &gam, &bet, &wf, &bf };
    for (int e = 0; e < epochs; e++) {
        float lr = e < 3 ? 0.02f : 0.005f;
        for (int i = NTRAIN - 1; i > 0; i--) { int j = rand() % (i + 1), t = perm[i]; perm[i] = perm[j]; perm[j] = t; }
        cuda(cudaMemcpy(d_perm, perm, sizeof perm, cudaMemcpyHostToDevice));
        cuda(cudaMemset(d_epoch, 0, 2 * sizeof(float)));
        for (int b = 0; b < NTRAIN; b += BATCH) {
#ifdef ORACLE
            oracle::begin();
#endif
            const int *sel = d_perm + b;
            forward(sel, 1);
            k_fcgrad<<<GRID((F + 1) * K)>>>(d_pool, d_dlogit, wf.g, bf.g, BATCH);
            k_fcback<<<GRID(BATCH * F)>>>(d_dlogit, d_wf, d_dpool, BATCH);
            k_bnback<<<C, 128>>>(d_dpool, d_arg, d_y, d_mean, d_inv, gam.w, d_dy, gam.g, bet.g, BATCH);
            k_convgrad<<<C * 9, 128>>>(d_img, sel, d_dy, wc.g, BATCH);
#ifdef ORACLE
            if (oracle::ready())
#endif
            for (int p = 0; p < 5; p++) k_nesterov<<<GRID(all[p]->n)>>>(all[p]->w, all[p]->g, all[p]->v, all[p]->n, lr, all[p]->decay);
#ifdef ORACLE
            oracle::end();
#endif
        }
        cuda(cudaMemcpy(acc, d_epoch, sizeof acc, cudaMemcpyDeviceToHost));
        printf("epoch %d loss %.4f acc %.3f", e, acc[0] / (NTRAIN / BATCH), acc[1] / NTRAIN);
#ifdef ORACLE
        oracle::boundary();
#endif
        cuda(cudaMemset(d_epoch, 0, 2 * sizeof(float)));
        for (int b = NTRAIN; b < n; b += BATCH) forward(d_perm + b, 0);
        cuda(cudaMemcpy(acc, d_epoch, sizeof acc, cudaMemcpyDeviceToHost));
        printf("   val loss %.4f acc %.3f\n", acc[0] / (NVAL / BATCH), acc[1] / NVAL);
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    float *h = (float *)malloc(wf.n * sizeof(float));
    for (int p = 0; p < 5; p++) {
        cuda(cudaMemcpy(h, all[p]->w, all[p]->n * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(h, sizeof(float), all[p]->n, f);
    }
    cuda(cudaMemcpy(h, d_rmean, C * sizeof(float), cudaMemcpyDeviceToHost)); fwrite(h, sizeof(float), C, f);
    cuda(cudaMemcpy(h, d_rvar, C * sizeof(float), cudaMemcpyDeviceToHost)); fwrite(h, sizeof(float), C, f);
    fclose(f);
    return 0;
}
