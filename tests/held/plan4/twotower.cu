/*
 * twotower.cu - contrastive two-tower retrieval (symmetric InfoNCE, learnt temperature).
 *
 * Each tower has its own stream; the loss joins them with events.  The momentum buffers take the
 * gradient straight from the GEMM (beta = mu), so no gradient is ever stored on its own:
 *      V <- mu V + X^T D        W <- (1 - lr wd) W - lr V
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <vector>
#include <cuda_runtime.h>
#include <cublas_v2.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define CHECK(e) do { cudaError_t r = (e); if (r) { printf("cuda: %s (line %d)\n", cudaGetErrorString(r), __LINE__); exit(2); } } while (0)
#define BLAS(e)  do { if ((e) != CUBLAS_STATUS_SUCCESS) { printf("cublas: line %d\n", __LINE__); exit(2); } } while (0)

static const int DX = 20, DY = 28, HID = 32, EMB = 16, BS = 32;
static const int NTRAIN = 1280, NTEST = 64, EPOCHS = 5;
static const float MU = 0.9f, WD = 1e-3f, LR0 = 0.02f;

static unsigned long long lcg = 0x853c49e6748fea9bULL;
static float frand(void) { lcg = lcg * 6364136223846793005ULL + 1442695040888963407ULL; return (lcg >> 40) / 16777216.f; }
static float gauss(void) { float a = frand() + 1e-7f, b = frand(); return sqrtf(-2.f * logf(a)) * cosf(6.2831853f * b); }

__global__ void bias_tanh(float *h, const float *b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) h[i] = tanhf(h[i] + b[i % cols]);
}
__global__ void tanh_back(float *d, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= 1.f - h[i] * h[i];
}
__global__ void normalise(const float *u, float *e, float *len, int dim)     /* one thread a row */
{
    int r = threadIdx.x + blockIdx.x * blockDim.x;
    float s = 1e-8f;
    for (int j = 0; j < dim; j++) s += u[r * dim + j] * u[r * dim + j];
    s = sqrtf(s);
    len[r] = s;
    for (int j = 0; j < dim; j++) e[r * dim + j] = u[r * dim + j] / s;
}
__global__ void normalise_back(float *de, const float *e, const float *len, int dim)
{
    int r = threadIdx.x + blockIdx.x * blockDim.x;
    float s = 0.f;
    for (int j = 0; j < dim; j++) s += de[r * dim + j] * e[r * dim + j];
    for (int j = 0; j < dim; j++) de[r * dim + j] = (de[r * dim + j] - e[r * dim + j] * s) / len[r];
}
/* sim: raw cosines -> gradient of the loss with respect to them; also the temperature's gradient */
__global__ void infonce(float *sim, float *ltemp, float *ltemp_v, float mu, float lr, float *loss)
{
    __shared__ float rmax[BS], rsum[BS], cmax[BS], csum[BS], part[BS], lpart[BS];
    const int i = threadIdx.x;
    const float s = expf(*ltemp);
    float m = -1e30f, c = -1e30f, a = 0.f, b = 0.f;
    for (int j = 0; j < BS; j++) { m = fmaxf(m, s * sim[i * BS + j]); c = fmaxf(c, s * sim[j * BS + i]); }
    for (int j = 0; j < BS; j++) { a += expf(s * sim[i * BS + j] - m); b += expf(s * sim[j * BS + i] - c); }
    rmax[i] = m; rsum[i] = a; cmax[i] = c; csum[i] = b;
    lpart[i] = 0.5f * ((m + logf(a) - s * sim[i * BS + i]) + (c + logf(b) - s * sim[i * BS + i])) / BS;
    __syncthreads();
    float dt = 0.f;
    for (int j = 0; j < BS; j++) {
        float z = s * sim[i * BS + j];
        float g = 0.5f / BS * (expf(z - rmax[i]) / rsum[i] + expf(z - cmax[j]) / csum[j] - (i == j ? 2.f : 0.f));
        dt += g * z;
        sim[i * BS + j] = g * s;
    }
    part[i] = dt;
    __syncthreads();
    if (i == 0) {
        float l = 0.f; dt = 0.f;
        for (int j = 0; j < BS; j++) { l += lpart[j]; dt += part[j]; }
        *loss = l;
        *ltemp_v = mu * *ltemp_v + dt;
        *ltemp -= lr * *ltemp_v;
    }
}

/* row-major C[m,n] = op(A) op(B) + beta C */
static void mm(cublasHandle_t h, int ta, int tb, int m, int n, int k, const float *A, const float *B, float beta, float *C)
{
    float one = 1.f;
    BLAS(cublasSgemm(h, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, B, tb ? k : n, A, ta ? m : k, &beta, C, n));
}

struct Tower {
    int in;
    cudaStream_t st;
    cudaEvent_t fwd_done, bwd_done;
    cublasHandle_t blas;
    float *W1, *b1, *W2, *V1, *vb, *V2;         /* learnt, momentum */
    float *x, *h, *u, *e, *len, *de, *dh, *ones;

    static float *dev(int n) { float *p; CHECK(cudaMalloc((void **)&p, n * sizeof(float))); CHECK(cudaMemset(p, 0, n * sizeof(float))); return p; }
    static void randomise(float *p, int n, float sd)
    {
        std::vector<float> t(n);
        for (int i = 0; i < n; i++) t[i] = gauss() * sd;
        CHECK(cudaMemcpy(p, &t[0], n * sizeof(float), cudaMemcpyHostToDevice));
    }
    void init(int in_)
    {
        in = in_;
        CHECK(cudaStreamCreate(&st));
        CHECK(cudaEventCreateWithFlags(&fwd_done, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&bwd_done, cudaEventDisableTiming));
        BLAS(cublasCreate(&blas)); BLAS(cublasSetStream(blas, st));
        W1 = dev(in * HID); b1 = dev(HID); W2 = dev(HID * EMB);
        V1 = dev(in * HID); vb = dev(HID); V2 = dev(HID * EMB);
        x = dev(BS * in); h = dev(BS * HID); u = dev(BS * EMB); e = dev(BS * EMB); len = dev(BS);
        de = dev(BS * EMB); dh = dev(BS * HID); ones = dev(BS);
        randomise(W1, in * HID, 1.f / sqrtf(in)); randomise(W2, HID * EMB, 1.f / sqrtf(HID));
        std::vector<float> o(BS, 1.f);
        CHECK(cudaMemcpy(ones, &o[0], BS * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
        oracle::state(W1, in * HID); oracle::state(b1, HID); oracle::state(W2, HID * EMB);
        oracle::state(V1, in * HID); oracle::state(vb, HID); oracle::state(V2, HID * EMB);
#endif
    }
    void forward(const float *host)
    {
        CHECK(cudaMemcpyAsync(x, host, BS * in * sizeof(float), cudaMemcpyHostToDevice, st));
        mm(blas, 0, 0, BS, HID, in, x, W1, 0.f, h);
        bias_tanh<<<(BS * HID + 127) / 128, 128, 0, st>>>(h, b1, BS, HID);
        mm(blas, 0, 0, BS, EMB, HID, h, W2, 0.f, u);
        normalise<<<1, BS, 0, st>>>(u, e, len, EMB);
        CHECK(cudaEventRecord(fwd_done, st));
    }
    void backward_and_step(float lr)
    {
        const float one = 1.f, mu = MU, keep = 1.f - lr * WD, mlr = -lr;
        normalise_back<<<1, BS, 0, st>>>(de, e, len, EMB);
        mm(blas, 1, 0, HID, EMB, BS, h, de, MU, V2);
        mm(blas, 0, 1, BS, HID, EMB, de, W2, 0.f, dh);
        tanh_back<<<(BS * HID + 127) / 128, 128, 0, st>>>(dh, h, BS * HID);
        mm(blas, 1, 0, in, HID, BS, x, dh, MU, V1);
        BLAS(cublasSgemv(blas, CUBLAS_OP_N, HID, BS, &one, dh, HID, ones, 1, &mu, vb, 1));
        BLAS(cublasSscal(blas, in * HID, &keep, W1, 1));
        BLAS(cublasSscal(blas, HID * EMB, &keep, W2, 1));
        BLAS(cublasSaxpy(blas, in * HID, &mlr, V1, 1, W1, 1));
        BLAS(cublasSaxpy(blas, HID, &mlr, vb, 1, b1, 1));
        BLAS(cublasSaxpy(blas, HID * EMB, &mlr, V2, 1, W2, 1));
        CHECK(cudaEventRecord(bwd_done, st));
    }
    void save(FILE *f)
    {
        std::vector<float> t(in * HID + HID + HID * EMB);
        CHECK(cudaMemcpy(&t[0], W1, in * HID * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&t[in * HID], b1, HID * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&t[in * HID + HID], W2, HID * EMB * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(&t[0], sizeof(float), t.size(), f);
    }
};

int main(int argc, char **argv)
{
    const char *out = argc > 1 ? argv[1] : "model.bin";
    const int NALL = NTRAIN + NTEST, Z = 6;
    float *hx, *hy;
    CHECK(cudaHostAlloc((void **)&hx, NALL * DX * sizeof(float), cudaHostAllocDefault));
    CHECK(cudaHostAlloc((void **)&hy, NALL * DY * sizeof(float), cudaHostAllocDefault));
    std::vector<float> px(Z * DX), py(Z * DY);
    for (size_t i = 0; i < px.size(); i++) px[i] = gauss() * 0.6f;
    for (size_t i = 0; i < py.size(); i++) py[i] = gauss() * 0.6f;
    for (int i = 0; i < NALL; i++) {
        float z[Z];
        for (int k = 0; k < Z; k++) z[k] = gauss();
        for (int j = 0; j < DX; j++) { float s = 0; for (int k = 0; k < Z; k++) s += z[k] * px[k * DX + j]; hx[i * DX + j] = tanhf(s) + 0.1f * gauss(); }
        for (int j = 0; j < DY; j++) { float s = 0; for (int k = 0; k < Z; k++) s += z[k] * py[k * DY + j]; hy[i * DY + j] = sinf(s) + 0.1f * gauss(); }
    }
    Tower A, C;
    A.init(DX); C.init(DY);
    float *sim = Tower::dev(BS * BS), *lt = Tower::dev(2);              /* log temperature and its momentum */
    const int nb = NTRAIN / BS, total = nb * EPOCHS;
    float *dloss = Tower::dev(total), t0 = logf(5.f);
    CHECK(cudaMemcpy(lt, &t0, sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
#ifdef ORACLE
    oracle::state(lt, 2);
    oracle::fused();
#endif
    std::vector<float> hl(total), s(BS * BS);
    for (int it = 0; it < total; it++) {
#ifdef ORACLE
        oracle::begin();
#endif
        const int b = it % nb;
        const float lr = 0.5f * LR0 * (1.f + cosf(3.14159265f * it / total));
        A.forward(hx + b * BS * DX);
        C.forward(hy + b * BS * DY);
        CHECK(cudaStreamWaitEvent(A.st, C.fwd_done, 0));
        mm(A.blas, 0, 1, BS, BS, EMB, A.e, C.e, 0.f, sim);
        infonce<<<1, BS, 0, A.st>>>(sim, lt, lt + 1, MU, lr * 0.2f, dloss + it);
        CHECK(cudaEventRecord(A.fwd_done, A.st));
        CHECK(cudaStreamWaitEvent(C.st, A.fwd_done, 0));
        mm(A.blas, 0, 0, BS, EMB, BS, sim, C.e, 0.f, A.de);
        mm(C.blas, 1, 0, BS, EMB, BS, sim, A.e, 0.f, C.de);
        A.backward_and_step(lr);
        C.backward_and_step(lr);
        CHECK(cudaStreamWaitEvent(A.st, C.bwd_done, 0));
        CHECK(cudaStreamWaitEvent(C.st, A.bwd_done, 0));
#ifdef ORACLE
        oracle::end();
#endif
        if (b == nb - 1) {                                              /* end of epoch: retrieval on held-out pairs */
            CHECK(cudaDeviceSynchronize());
#ifdef ORACLE
            oracle::boundary();
#endif
            int hit = 0;
            for (int v = 0; v < NTEST / BS; v++) {
                A.forward(hx + (NTRAIN + v * BS) * DX);
                C.forward(hy + (NTRAIN + v * BS) * DY);
                CHECK(cudaStreamWaitEvent(A.st, C.fwd_done, 0));
                mm(A.blas, 0, 1, BS, BS, EMB, A.e, C.e, 0.f, sim);
                CHECK(cudaMemcpyAsync(&s[0], sim, BS * BS * sizeof(float), cudaMemcpyDeviceToHost, A.st));
                CHECK(cudaStreamSynchronize(A.st));
                for (int i = 0; i < BS; i++) {
                    int best = 0;
                    for (int j = 1; j < BS; j++) if (s[i * BS + j] > s[i * BS + best]) best = j;
                    hit += best == i;
                }
            }
            CHECK(cudaMemcpy(&hl[it + 1 - nb], dloss + it + 1 - nb, nb * sizeof(float), cudaMemcpyDeviceToHost));
            double l = 0;
            for (int i = 0; i < nb; i++) l += hl[it + 1 - nb + i];
            printf("epoch %d: loss %.4f  recall@1 %.3f\n", it / nb + 1, l / nb, hit / (float)NTEST);
        }
    }
    CHECK(cudaDeviceSynchronize());
#ifdef ORACLE
    oracle::boundary();
#endif
    FILE *f = fopen(out, "wb");
    A.save(f); C.save(f);
    float tau;
    CHECK(cudaMemcpy(&tau, lt, sizeof(float), cudaMemcpyDeviceToHost));
    fwrite(&tau, sizeof(float), 1, f);
    fclose(f);
    printf("temperature %.3f\n", expf(tau));
    return 0;
}
