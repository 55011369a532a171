// Three-arm spiral, one hidden layer, plain SGD.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define N_SAMPLES 960
#define BATCH 64
#define IN 2
#define HID 48
#define OUT 3
#define STEPS 300
#define LR 0.5f
#define TPB 128
#define BLOCKS(n) (((n) + TPB - 1) / TPB)
#define CK(call)                                                              \
    do {                                                                      \
        cudaError_t e_ = (call);                                              \
        if (e_ != cudaSuccess) {                                              \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__,                 \
                    cudaGetErrorString(e_));                                  \
            exit(1);                                                          \
        }                                                                     \
    } while (0)
#define ALLOC(p, n) CK(cudaMalloc((void **)&(p), (n) * sizeof(*(p))))
#define TO_DEV(d, h, n) CK(cudaMemcpy(d, h, (n) * sizeof(*(d)), cudaMemcpyHostToDevice))

__global__ void fc_forward(const float *x, const float *w, const float *b, float *y,
                           int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * w[k * out + c];
    y[i] = s;
}

__global__ void tanh_forward(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = tanhf(a[i]);
}

__global__ void softmax_xent(const float *z, const int *label, float *dz, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = z[r * OUT], s = 0.f, p[OUT];
    for (int c = 1; c < OUT; c++) m = fmaxf(m, z[r * OUT + c]);
    for (int c = 0; c < OUT; c++) { p[c] = expf(z[r * OUT + c] - m); s += p[c]; }
    for (int c = 0; c < OUT; c++)
        dz[r * OUT + c] = (p[c] / s - (c == label[r] ? 1.f : 0.f)) / rows;
    loss[r] = logf(s) + m - z[r * OUT + label[r]];
}

__global__ void fc_grad_w(const float *x, const float *dy, float *dw, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int k = i / out, c = i % out;
    float s = 0.f;
    for (int r = 0; r < rows; r++) s += x[r * in + k] * dy[r * out + c];
    dw[i] = s;
}

__global__ void fc_grad_b(const float *dy, float *db, int rows, int out)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= out) return;
    float s = 0.f;
    for (int r = 0; r < rows; r++) s += dy[r * out + c];
    db[c] = s;
}

__global__ void hidden_grad(const float *dz, const float *w, const float *h, float *dh, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * HID) return;
    int r = i / HID, k = i % HID;
    float s = 0.f;
    for (int c = 0; c < OUT; c++) s += dz[r * OUT + c] * w[k * OUT + c];
    dh[i] = s * (1.f - h[i] * h[i]);
}

__global__ void sgd(float *p, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * g[i];
}

static float frand(void) { return rand() / (float)RAND_MAX; }

int main(void)
{
    static float hx[N_SAMPLES * IN];
    static int hy[N_SAMPLES];
    srand(7);
    for (int i = 0; i < N_SAMPLES; i++) {
        int c = i % OUT;
        float t = frand(), a = c * 2.0943951f + 4.f * t + 0.15f * (frand() - 0.5f);
        hx[2 * i] = t * cosf(a);
        hx[2 * i + 1] = t * sinf(a);
        hy[i] = c;
    }

    float *x, *w1, *b1, *w2, *b2, *dw1, *db1, *dw2, *db2, *h, *z, *dz, *dh, *loss;
    int *y;
    ALLOC(x, N_SAMPLES * IN); ALLOC(y, N_SAMPLES);
    ALLOC(w1, IN * HID);  ALLOC(b1, HID);  ALLOC(dw1, IN * HID);  ALLOC(db1, HID);
    ALLOC(w2, HID * OUT); ALLOC(b2, OUT);  ALLOC(dw2, HID * OUT); ALLOC(db2, OUT);
    ALLOC(h, BATCH * HID); ALLOC(dh, BATCH * HID);
    ALLOC(z, BATCH * OUT); ALLOC(dz, BATCH * OUT); ALLOC(loss, BATCH);
    TO_DEV(x, hx, N_SAMPLES * IN);
    TO_DEV(y, hy, N_SAMPLES);

    float init[HID * OUT + IN * HID];
    for (int i = 0; i < IN * HID; i++) init[i] = 2.f * (frand() - 0.5f) * 1.5f;
    TO_DEV(w1, init, IN * HID);
    for (int i = 0; i < HID * OUT; i++) init[i] = 2.f * (frand() - 0.5f) * 0.2f;
    TO_DEV(w2, init, HID * OUT);
    CK(cudaMemset(b1, 0, HID * sizeof(float)));
    CK(cudaMemset(b2, 0, OUT * sizeof(float)));

    float hl[BATCH];
    for (int step = 0; step < STEPS; step++) {
        int off = (step * BATCH) % N_SAMPLES;
        const float *xb = x + off * IN;
        const int *yb = y + off;
        fc_forward<<<BLOCKS(BATCH * HID), TPB>>>(xb, w1, b1, h, BATCH, IN, HID);
        tanh_forward<<<BLOCKS(BATCH * HID), TPB>>>(h, BATCH * HID);
        fc_forward<<<BLOCKS(BATCH * OUT), TPB>>>(h, w2, b2, z, BATCH, HID, OUT);
        softmax_xent<<<BLOCKS(BATCH), TPB>>>(z, yb, dz, loss, BATCH);
        hidden_grad<<<BLOCKS(BATCH * HID), TPB>>>(dz, w2, h, dh, BATCH);
        fc_grad_w<<<BLOCKS(HID * OUT), TPB>>>(h, dz, dw2, BATCH, HID, OUT);
        fc_grad_b<<<BLOCKS(OUT), TPB>>>(dz, db2, BATCH, OUT);
        fc_grad_w<<<BLOCKS(IN * HID), TPB>>>(xb, dh, dw1, BATCH, IN, HID);
        fc_grad_b<<<BLOCKS(HID), TPB>>>(dh, db1, BATCH, HID);
        sgd<<<BLOCKS(IN * HID), TPB>>>(w1, dw1, LR, IN * HID);
        sgd<<<BLOCKS(HID), TPB>>>(b1, db1, LR, HID);
        sgd<<<BLOCKS(HID * OUT), TPB>>>(w2, dw2, LR, HID * OUT);
        sgd<<<BLOCKS(OUT), TPB>>>(b2, db2, LR, OUT);
        CK(cudaGetLastError());
        if (step % 50 == 0 || step == STEPS - 1) {
            CK(cudaMemcpy(hl, loss, sizeof(hl), cudaMemcpyDeviceToHost));
            float s = 0.f;
            for (int i = 0; i < BATCH; i++) s += hl[i];
            printf("step %3d  loss %.5f\n", step, s / BATCH);
        }
    }
    cudaFree(x); cudaFree(y); cudaFree(w1); cudaFree(b1); cudaFree(w2); cudaFree(b2);
    cudaFree(dw1); cudaFree(db1); cudaFree(dw2); cudaFree(db2);
    cudaFree(h); cudaFree(dh); cudaFree(z); cudaFree(dz); cudaFree(loss);
    return 0;
}
