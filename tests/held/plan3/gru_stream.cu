/* gru_stream.cu - character GRU over long parallel text streams, truncated
 * back-propagation through time: the hidden state after one window is the
 * start of the next one.  Adam, gradients clipped by their global norm.     */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)
#define NV 12            /* alphabet            */
#define NH 20            /* hidden units        */
#define NB 8             /* parallel streams    */
#define NT 8             /* window length       */
#define WINDOWS 120
#define LEN (WINDOWS * NT + 1)
#define CLIP 0.25f
#define LR 0.01f

/* the parameters, one after the other */
#define P_WX 0
#define P_U  (P_WX + NV * 3 * NH)
#define P_B  (P_U + NH * 3 * NH)
#define P_WO (P_B + 3 * NH)
#define P_BO (P_WO + NH * NV)
#define NP   (P_BO + NV)

#define BLK 64
#define LAUNCH(k, n, ...) do { k<<<((n) + BLK - 1) / BLK, BLK>>>(__VA_ARGS__); CK(cudaGetLastError()); } while (0)
#define TID(n) int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= (n)) return
#define SIG(x) (1.0f / (1.0f + expf(-(x))))
#define H(t, b) (h + ((t) * NB + (b)) * NH)          /* h[0] is the state before the window */
#define G(t, b) (gate + ((t) * NB + (b)) * 4 * NH)   /* r z n u, u = U_n h                  */
#define D(t, b) (dg + ((t) * NB + (b)) * 4 * NH)     /* da_r da_z da_n du                   */
#define TOK(t, b) (tok[(b) * (NT + 1) + (t)])

__global__ void gru_step(const float *p, const int *tok, float *h, float *gate, int t) {
    TID(NB * NH);
    int b = i / NH, j = i % NH;
    const float *x = p + P_WX + TOK(t, b) * 3 * NH, *u = p + P_U, *bias = p + P_B, *hp = H(t, b);
    float ar = 0, az = 0, an = 0;
    for (int k = 0; k < NH; k++) {
        ar += hp[k] * u[k * 3 * NH + j];
        az += hp[k] * u[k * 3 * NH + NH + j];
        an += hp[k] * u[k * 3 * NH + 2 * NH + j];
    }
    float r = SIG(x[j] + ar + bias[j]), z = SIG(x[NH + j] + az + bias[NH + j]);
    float n = tanhf(x[2 * NH + j] + bias[2 * NH + j] + r * an);
    float *g = G(t, b);
    g[j] = r; g[NH + j] = z; g[2 * NH + j] = n; g[3 * NH + j] = an;
    H(t + 1, b)[j] = (1 - z) * n + z * hp[j];
}

__global__ void softmax_loss(const float *p, const int *tok, const float *h, float *dlog, float *loss) {
    TID(NT * NB);
    int t = i / NB, b = i % NB, y = TOK(t + 1, b);
    float o[NV], m = -1e30f, s = 0;
    for (int v = 0; v < NV; v++) {
        o[v] = p[P_BO + v];
        for (int k = 0; k < NH; k++) o[v] += H(t + 1, b)[k] * p[P_WO + k * NV + v];
        m = fmaxf(m, o[v]);
    }
    for (int v = 0; v < NV; v++) s += expf(o[v] - m);
    for (int v = 0; v < NV; v++) dlog[i * NV + v] = (expf(o[v] - m) / s - (v == y)) / (NT * NB);
    loss[i] = (logf(s) + m - o[y]) / (NT * NB);
}

/* dh arrives from step t+1 in dcar; first the gates' deltas ... */
__global__ void back_gates(const float *p, const float *dlog, const float *h, const float *gate,
                           float *dg, const float *dcar, float *dz_h, int t) {
    TID(NB * NH);
    int b = i / NH, j = i % NH;
    float dh = dcar[i];
    for (int v = 0; v < NV; v++) dh += dlog[(t * NB + b) * NV + v] * p[P_WO + j * NV + v];
    const float *g = G(t, b);
    float r = g[j], z = g[NH + j], n = g[2 * NH + j], u = g[3 * NH + j];
    float dan = dh * (1 - z) * (1 - n * n);
    float *d = D(t, b);
    d[j] = dan * u * r * (1 - r);
    d[NH + j] = dh * (H(t, b)[j] - n) * z * (1 - z);
    d[2 * NH + j] = dan;
    d[3 * NH + j] = dan * r;
    dz_h[i] = dh * z;
}
/* ... then through U to the state before */
__global__ void back_state(const float *p, const float *dg, const float *dz_h, float *dcar, int t) {
    TID(NB * NH);
    int b = i / NH, k = i % NH;
    const float *d = D(t, b), *u = p + P_U + k * 3 * NH;
    float s = dz_h[i];
    for (int j = 0; j < NH; j++) s += u[j] * d[j] + u[NH + j] * d[NH + j] + u[2 * NH + j] * d[3 * NH + j];
    dcar[i] = s;
}

__global__ void weight_grads(const int *tok, const float *h, const float *dg, const float *dlog, float *g) {
    TID(NP);
    float s = 0;
    for (int t = 0; t < NT; t++) for (int b = 0; b < NB; b++) {
        if (i < P_U) { int v = i / (3 * NH), c = i % (3 * NH); if (TOK(t, b) == v) s += D(t, b)[c]; }
        else if (i < P_B) { int q = i - P_U, k = q / (3 * NH), c = q % (3 * NH);
                            s += H(t, b)[k] * D(t, b)[c < 2 * NH ? c : c + NH]; }
        else if (i < P_WO) s += D(t, b)[i - P_B];
        else if (i < P_BO) { int q = i - P_WO; s += H(t + 1, b)[q / NV] * dlog[(t * NB + b) * NV + q % NV]; }
        else s += dlog[(t * NB + b) * NV + i - P_BO];
    }
    g[i] = s;
}

__global__ void norm2(const float *g, float *out) {      /* one block */
    __shared__ float s[BLK];
    float a = 0;
    for (int i = threadIdx.x; i < NP; i += BLK) a += g[i] * g[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int o = BLK / 2; o; o >>= 1) { if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o]; __syncthreads(); }
    if (threadIdx.x == 0) *out = sqrtf(s[0]);
}
__global__ void adam(float *p, const float *g, float *m, float *v, const float *norm, float c1, float c2) {
    TID(NP);
    float x = g[i] * (*norm > CLIP ? CLIP / *norm : 1.0f);
    m[i] = 0.9f * m[i] + 0.1f * x;
    v[i] = 0.99f * v[i] + 0.01f * x * x;
    p[i] -= LR * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
}
/* only for --oracle: sum of several windows' gradients, and its mean */
__global__ void orc_add(float *a, const float *g) { TID(NP); a[i] += g[i]; }
__global__ void orc_mean(float *g, float *a, float f) { TID(NP); g[i] = a[i] * f; a[i] = 0; }

static unsigned rs = 12345u;
static unsigned rnd(void) { rs = rs * 1664525u + 1013904223u; return rs >> 8; }
static float rndf(void) { return rnd() / 16777216.0f * 2 - 1; }

#define DEV(name, n) float *name; CK(cudaMalloc((void **)&name, (n) * sizeof(float))); CK(cudaMemset(name, 0, (n) * sizeof(float)))

int main(int argc, char **argv) {
    const char *save = NULL;
    int R = 0, windows = WINDOWS;
    for (int a = 1; a + 1 < argc; a += 2) {
        if (!strcmp(argv[a], "--save")) save = argv[a + 1];
        else if (!strcmp(argv[a], "--oracle")) R = atoi(argv[a + 1]);
        else if (!strcmp(argv[a], "--windows")) windows = atoi(argv[a + 1]);
    }
    static unsigned char text[NB][LEN];
    for (int b = 0; b < NB; b++) {                 /* each stream counts with its own stride */
        int stride = 1 + b % 4, c = rnd() % NV;
        for (int t = 0; t < LEN; t++) { text[b][t] = c; c = rnd() % 10 ? (c + stride) % NV : rnd() % NV; }
    }
    static float hp[NP];
    for (int i = 0; i < NP; i++) hp[i] = 0.25f * rndf();

    DEV(p, NP); DEV(g, NP); DEV(m, NP); DEV(v, NP); DEV(acc, NP);
    DEV(h, (NT + 1) * NB * NH); DEV(gate, NT * NB * 4 * NH); DEV(dg, NT * NB * 4 * NH);
    DEV(dlog, NT * NB * NV); DEV(dcar, NB * NH); DEV(dzh, NB * NH); DEV(loss, NT * NB); DEV(norm, 1);
    int *tok, htok[NB * (NT + 1)];
    CK(cudaMalloc((void **)&tok, sizeof htok));
    CK(cudaMemcpy(p, hp, sizeof hp, cudaMemcpyHostToDevice));

    int step = 0, have = 0;
    for (int w = 0; w < windows; w++) {
        for (int b = 0; b < NB; b++) for (int t = 0; t <= NT; t++) htok[b * (NT + 1) + t] = text[b][w * NT + t];
        CK(cudaMemcpy(tok, htok, sizeof htok, cudaMemcpyHostToDevice));
        for (int t = 0; t < NT; t++) LAUNCH(gru_step, NB * NH, p, tok, h, gate, t);
        LAUNCH(softmax_loss, NT * NB, p, tok, h, dlog, loss);
        CK(cudaMemset(dcar, 0, NB * NH * sizeof(float)));
        for (int t = NT - 1; t >= 0; t--) {
            LAUNCH(back_gates, NB * NH, p, dlog, h, gate, dg, dcar, dzh, t);
            LAUNCH(back_state, NB * NH, p, dg, dzh, dcar, t);
        }
        LAUNCH(weight_grads, NP, tok, h, dg, dlog, g);
        /* the last state of this window begins the next */
        CK(cudaMemcpy(h, h + NT * NB * NH, NB * NH * sizeof(float), cudaMemcpyDeviceToDevice));
        if (w % 10 == 9) {
            float l[NT * NB], s = 0;
            CK(cudaMemcpy(l, loss, sizeof l, cudaMemcpyDeviceToHost));
            for (int i = 0; i < NT * NB; i++) s += l[i];
            printf("window %3d  loss %.4f  perplexity %.2f\n", w + 1, s, exp(s));
        }
        if (R) {
            LAUNCH(orc_add, NP, acc, g);
            if (++have < R) continue;
            LAUNCH(orc_mean, NP, g, acc, 1.0f / R);
            have = 0;
        }
        step++;
        norm2<<<1, BLK>>>(g, norm);
        LAUNCH(adam, NP, p, g, m, v, norm, 1 - powf(0.9f, step), 1 - powf(0.99f, step));
    }
    CK(cudaMemcpy(hp, p, sizeof hp, cudaMemcpyDeviceToHost));
    if (save) {
        FILE *f = fopen(save, "w");
        if (!f) { perror(save); return 1; }
        for (int i = 0; i < NP; i++) fprintf(f, "%.9g\n", hp[i]);
        fclose(f);
    }
    return 0;
}
