// LSTM that reads a sequence of (value, marker) pairs and gives the sum of the two
// marked values (the "adding problem"), trained with Adam, backprop through time.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define HIP 20           // hidden units
#define NIN 2
#define T 8
#define NB 24
#define ROW (NIN + HIP + 1)          // inputs, previous h, bias
#define G4 (4 * HIP)

#define CK(call)                                                        \
    {                                                                   \
        cudaError_t err = call;                                         \
        if (err != cudaSuccess) {                                       \
            fprintf(stderr, "CUDA error %s line %d\n", cudaGetErrorString(err), __LINE__); \
            exit(EXIT_FAILURE);                                         \
        }                                                               \
    }

// device memory, global as in old C
float *W, *Wo, *gW, *gWo, *mW, *mWo, *vW, *vWo;      // W [ROW][4H], Wo [H+1]
float *X, *Yt;                                        // [T][NB][NIN], [NB]
float *act;                                           // [T][NB][4H] gate values
float *cc, *hh;                                       // [(T+1)][NB][H]
float *dgate, *dh, *dc, *dout, *lossv;

__global__ void lstm_step(const float *W, const float *x, const float *hp, const float *cp, float *act, float *h, float *c)
{
    int b = blockIdx.x, j = threadIdx.x;
    float z[4];
    for (int g = 0; g < 4; g++) {
        int col = g * HIP + j;
        float s = W[(ROW - 1) * G4 + col];
        for (int i = 0; i < NIN; i++) s += x[b * NIN + i] * W[i * G4 + col];
        for (int i = 0; i < HIP; i++) s += hp[b * HIP + i] * W[(NIN + i) * G4 + col];
        z[g] = s;
    }
    float in = 1.f / (1.f + expf(-z[0])), fg = 1.f / (1.f + expf(-z[1])), og = 1.f / (1.f + expf(-z[2])), u = tanhf(z[3]);
    float cn = fg * cp[b * HIP + j] + in * u;
    c[b * HIP + j] = cn;
    h[b * HIP + j] = og * tanhf(cn);
    act[b * G4 + j] = in; act[b * G4 + HIP + j] = fg; act[b * G4 + 2 * HIP + j] = og; act[b * G4 + 3 * HIP + j] = u;
}

__global__ void readout(const float *Wo, const float *h, const float *y, float *dout, float *lossv, float *dh)
{
    int b = threadIdx.x;
    float s = Wo[HIP];
    for (int i = 0; i < HIP; i++) s += h[b * HIP + i] * Wo[i];
    float e = s - y[b];
    lossv[b] = e * e;
    dout[b] = 2.f * e / NB;
    for (int i = 0; i < HIP; i++) dh[b * HIP + i] = dout[b] * Wo[i];
}

__global__ void readout_grad(const float *h, const float *dout, float *gWo)
{
    int i = threadIdx.x;
    float s = 0;
    for (int b = 0; b < NB; b++) s += dout[b] * (i < HIP ? h[b * HIP + i] : 1.f);
    gWo[i] += s;
}

__global__ void lstm_back(const float *act, const float *c, const float *cp, const float *dh, float *dc, float *dgate)
{
    int b = blockIdx.x, j = threadIdx.x, o = b * G4;
    float in = act[o + j], fg = act[o + HIP + j], og = act[o + 2 * HIP + j], u = act[o + 3 * HIP + j];
    float tc = tanhf(c[b * HIP + j]);
    float d = dh[b * HIP + j], dcell = dc[b * HIP + j] + d * og * (1 - tc * tc);
    dgate[o + j] = dcell * u * in * (1 - in);
    dgate[o + HIP + j] = dcell * cp[b * HIP + j] * fg * (1 - fg);
    dgate[o + 2 * HIP + j] = d * tc * og * (1 - og);
    dgate[o + 3 * HIP + j] = dcell * in * (1 - u * u);
    dc[b * HIP + j] = dcell * fg;
}

__global__ void back_h(const float *W, const float *dgate, float *dh)
{
    int b = blockIdx.x, i = threadIdx.x;
    float s = 0;
    for (int k = 0; k < G4; k++) s += dgate[b * G4 + k] * W[(NIN + i) * G4 + k];
    dh[b * HIP + i] = s;
}

__global__ void grad_w(const float *x, const float *hp, const float *dgate, float *gW)
{
    int r = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int b = 0; b < NB; b++) {
        float in = r < NIN ? x[b * NIN + r] : r < NIN + HIP ? hp[b * HIP + r - NIN] : 1.f;
        s += in * dgate[b * G4 + k];
    }
    gW[r * G4 + k] += s;
}

__global__ void adam(float *w, float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

static float *dev(size_t n) { float *p; CK(cudaMalloc(&p, n * sizeof(float))); CK(cudaMemset(p, 0, n * sizeof(float))); return p; }
static float rnd() { return rand() / (float)RAND_MAX; }

int main(int argc, char **argv)
{
    srand(11);
    W = dev(ROW * G4); gW = dev(ROW * G4); mW = dev(ROW * G4); vW = dev(ROW * G4);
    Wo = dev(HIP + 1); gWo = dev(HIP + 1); mWo = dev(HIP + 1); vWo = dev(HIP + 1);
    X = dev(T * NB * NIN); Yt = dev(NB); act = dev(T * NB * G4);
    cc = dev((T + 1) * NB * HIP); hh = dev((T + 1) * NB * HIP);
    dgate = dev(NB * G4); dh = dev(NB * HIP); dc = dev(NB * HIP); dout = dev(NB); lossv = dev(NB);

    static float hW[ROW * G4], hWo[HIP + 1], hx[T * NB * NIN], hy[NB], hl[NB];
    for (int i = 0; i < ROW * G4; i++) hW[i] = (rnd() - 0.5f) * 0.5f;
    for (int j = 0; j < HIP; j++) hW[(ROW - 1) * G4 + HIP + j] = 1.f;      // forget bias
    for (int i = 0; i < HIP; i++) hWo[i] = (rnd() - 0.5f) * 0.5f;
    CK(cudaMemcpy(W, hW, sizeof hW, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(Wo, hWo, sizeof hWo, cudaMemcpyHostToDevice));
#ifdef ORACLE
    for (float *p : {W, mW, vW}) oracle::state(p, ROW * G4);
    for (float *p : {Wo, mWo, vWo}) oracle::state(p, HIP + 1);
    oracle::grad(gW, ROW * G4); oracle::grad(gWo, HIP + 1);
#endif
    float run = 0;
    for (int step = 1; step <= 240; step++) {
        for (int b = 0; b < NB; b++) {
            int p = rand() % (T / 2), q = T / 2 + rand() % (T / 2);
            hy[b] = 0;
            for (int t = 0; t < T; t++) {
                float v = rnd();
                int mark = t == p || t == q;
                hx[(t * NB + b) * NIN] = v; hx[(t * NB + b) * NIN + 1] = mark;
                if (mark) hy[b] += v;
            }
        }
        CK(cudaMemcpy(X, hx, sizeof hx, cudaMemcpyHostToDevice));
        CK(cudaMemcpy(Yt, hy, sizeof hy, cudaMemcpyHostToDevice));
#ifdef ORACLE
        oracle::begin();
#endif
        for (int t = 0; t < T; t++)
            lstm_step<<<NB, HIP>>>(W, X + t * NB * NIN, hh + t * NB * HIP, cc + t * NB * HIP, act + t * NB * G4,
                                   hh + (t + 1) * NB * HIP, cc + (t + 1) * NB * HIP);
        CK(cudaMemset(gW, 0, ROW * G4 * sizeof(float)));
        CK(cudaMemset(gWo, 0, (HIP + 1) * sizeof(float)));
        CK(cudaMemset(dc, 0, NB * HIP * sizeof(float)));
        readout<<<1, NB>>>(Wo, hh + T * NB * HIP, Yt, dout, lossv, dh);
        readout_grad<<<1, HIP + 1>>>(hh + T * NB * HIP, dout, gWo);
        for (int t = T - 1; t >= 0; t--) {
            lstm_back<<<NB, HIP>>>(act + t * NB * G4, cc + (t + 1) * NB * HIP, cc + t * NB * HIP, dh, dc, dgate);
            grad_w<<<ROW, G4>>>(X + t * NB * NIN, hh + t * NB * HIP, dgate, gW);
            back_h<<<NB, HIP>>>(W, dgate, dh);
        }
        int k = step;
#ifdef ORACLE
        k = oracle::step(step);
        if (oracle::ready())
#endif
        {
            float c1 = 1.f - powf(0.9f, k), c2 = 1.f - powf(0.999f, k);
            adam<<<(ROW * G4 + 255) / 256, 256>>>(W, gW, mW, vW, ROW * G4, 0.02f, c1, c2);
            adam<<<1, 32>>>(Wo, gWo, mWo, vWo, HIP + 1, 0.02f, c1, c2);
        }
#ifdef ORACLE
        oracle::end();
#endif
        CK(cudaMemcpy(hl, lossv, sizeof hl, cudaMemcpyDeviceToHost));
        float l = 0;
        for (int b = 0; b < NB; b++) l += hl[b] / NB;
        run += l;
        if (step % 20 == 0) { printf("step %d: loss %f (mean of 20: %f)\n", step, l, run / 20); run = 0; }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    CK(cudaMemcpy(hW, W, sizeof hW, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(hWo, Wo, sizeof hWo, cudaMemcpyDeviceToHost));
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { perror("fopen"); return 1; }
    fwrite(hW, 1, sizeof hW, f);
    fwrite(hWo, 1, sizeof hWo, f);
    fclose(f);
    return 0;
}
