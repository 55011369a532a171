// One transformer block (single head, no normalisation) that learns to sort short digit strings:
// embedding + position -> self attention + residual -> two layer MLP + residual -> logits.
// All weights live in one allocation, as do all their gradients.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define S 6    // tokens in a sequence
#define C 8    // channels
#define F 20   // hidden units of the MLP
#define V 10   // vocabulary
#define B 18   // sequences in a batch
#define ROWS (B * S)

struct Params {
    float *wte, *wpe, *wq, *wk, *wv, *w1, *w2, *head;
};
const int kSizes[8] = {V * C, S * C, C * C, C * C, C * C, C * F, F * C, C * V};

int assign(Params *p, float *base) {
    float **at[8] = {&p->wte, &p->wpe, &p->wq, &p->wk, &p->wv, &p->w1, &p->w2, &p->head};
    int used = 0;
    for (int i = 0; i < 8; i++) {
        *at[i] = base + used;
        used += kSizes[i];
    }
    return used;
}

cublasHandle_t cublas;
const float one = 1.f, zero = 0.f;

// row major: y[n,out] (+)= x[n,in] * w[in,out]
void matmul(float *y, const float *x, const float *w, int in, int out, bool add = false) {
    cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, out, ROWS, in, &one, w, out, x, in, add ? &one : &zero, y, out);
}
void matmul_dw(float *dw, const float *x, const float *dy, int in, int out) {
    cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, ROWS, &one, dy, out, x, in, &one, dw, out);
}
void matmul_dx(float *dx, const float *dy, const float *w, int in, int out, bool add) {
    cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, in, ROWS, out, &one, w, out, dy, out, add ? &one : &zero, dx, in);
}

__global__ void encode(float *x, const int *tok, const float *wte, const float *wpe) {
    int r = blockIdx.x, c = threadIdx.x;
    x[r * C + c] = wte[tok[r] * C + c] + wpe[r % S * C + c];
}
__global__ void encode_back(float *dwte, float *dwpe, const int *tok, const float *dx) {
    int r = blockIdx.x, c = threadIdx.x;
    atomicAdd(&dwte[tok[r] * C + c], dx[r * C + c]);
    atomicAdd(&dwpe[r % S * C + c], dx[r * C + c]);
}
// one block a sequence, one thread a query
__global__ void attention(float *x1, float *att, const float *x, const float *q, const float *k, const float *v) {
    int r = blockIdx.x * S + threadIdx.x, base = blockIdx.x * S;
    float *a = att + r * S, sum = 0.f;
    for (int j = 0; j < S; j++) {
        float s = 0.f;
        for (int c = 0; c < C; c++) s += q[r * C + c] * k[(base + j) * C + c];
        sum += a[j] = expf(s * rsqrtf((float)C));
    }
    for (int j = 0; j < S; j++) a[j] /= sum;
    for (int c = 0; c < C; c++) {
        float s = x[r * C + c];
        for (int j = 0; j < S; j++) s += a[j] * v[(base + j) * C + c];
        x1[r * C + c] = s;
    }
}
__global__ void attention_back(float *dq, float *dk, float *dv, const float *dy, const float *att, const float *q, const float *k,
                               const float *v) {
    __shared__ float ds[S][S];
    int i = threadIdx.x, base = blockIdx.x * S, r = base + i;
    const float *a = att + r * S;
    float dot = 0.f;
    for (int j = 0; j < S; j++) {
        float g = 0.f;
        for (int c = 0; c < C; c++) g += dy[r * C + c] * v[(base + j) * C + c];
        ds[i][j] = g;
        dot += g * a[j];
    }
    for (int j = 0; j < S; j++) ds[i][j] = a[j] * (ds[i][j] - dot) * rsqrtf((float)C);
    __syncthreads();
    for (int c = 0; c < C; c++) {
        float sq = 0.f, sk = 0.f, sv = 0.f;
        for (int j = 0; j < S; j++) {
            sq += ds[i][j] * k[(base + j) * C + c];
            sk += ds[j][i] * q[(base + j) * C + c];
            sv += att[(base + j) * S + i] * dy[(base + j) * C + c];
        }
        dq[r * C + c] = sq;
        dk[r * C + c] = sk;
        dv[r * C + c] = sv;
    }
}
__global__ void relu(float *h, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] < 0.f) h[i] = 0.f;
}
__global__ void relu_back(float *dh, const float *h, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] <= 0.f) dh[i] = 0.f;
}
__global__ void crossentropy(float *logits, float *loss, const int *target, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float *z = logits + r * V, sum = 0.f;
    for (int v = 0; v < V; v++) sum += expf(z[v]);
    loss[r] = logf(sum) - z[target[r]];
    for (int v = 0; v < V; v++) z[v] = (expf(z[v]) / sum - (v == target[r])) / rows;
}
__global__ void adamw(float *w, const float *g, float *m, float *v, int n, float lr, int t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
    float mh = m[i] / (1.f - powf(0.9f, t)), vh = v[i] / (1.f - powf(0.95f, t));
    w[i] -= lr * (mh / (sqrtf(vh) + 1e-6f) + 0.01f * w[i]);
}

static float *floats(int n) {
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

int main() {
    int total = 0;
    for (int n : kSizes) total += n;
    float *weights = floats(total), *grads = floats(total), *m = floats(total), *v = floats(total);
    Params w, g;
    assign(&w, weights);
    assign(&g, grads);
    std::mt19937 rng(4);
    std::normal_distribution<float> normal(0.f, 0.3f);
    std::vector<float> init(total);
    for (float &e : init) e = normal(rng);
    cudaMemcpy(weights, init.data(), total * sizeof(float), cudaMemcpyHostToDevice);

    float *x = floats(ROWS * C), *q = floats(ROWS * C), *k = floats(ROWS * C), *val = floats(ROWS * C), *x1 = floats(ROWS * C);
    float *att = floats(ROWS * S), *h = floats(ROWS * F), *x2 = floats(ROWS * C), *logits = floats(ROWS * V), *loss = floats(ROWS);
    float *dx = floats(ROWS * C), *dq = floats(ROWS * C), *dk = floats(ROWS * C), *dv = floats(ROWS * C), *dh = floats(ROWS * F);
    int *tok, *tgt;
    cudaMalloc(&tok, ROWS * sizeof(int));
    cudaMalloc(&tgt, ROWS * sizeof(int));
    cublasCreate(&cublas);
    std::vector<int> in(ROWS), out(ROWS);
    std::vector<float> hl(ROWS);

    for (int step = 1; step <= 50; step++) {
        for (int &t : in) t = rng() % V;
        out = in;
        for (int b = 0; b < B; b++) std::sort(&out[b * S], &out[b * S] + S);
        cudaMemcpy(tok, in.data(), ROWS * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(tgt, out.data(), ROWS * sizeof(int), cudaMemcpyHostToDevice);

        encode<<<ROWS, C>>>(x, tok, w.wte, w.wpe);
        matmul(q, x, w.wq, C, C);
        matmul(k, x, w.wk, C, C);
        matmul(val, x, w.wv, C, C);
        attention<<<B, S>>>(x1, att, x, q, k, val);
        matmul(h, x1, w.w1, C, F);
        relu<<<(ROWS * F + 127) / 128, 128>>>(h, ROWS * F);
        cudaMemcpy(x2, x1, ROWS * C * sizeof(float), cudaMemcpyDeviceToDevice);
        matmul(x2, h, w.w2, F, C, true);
        matmul(logits, x2, w.head, C, V);
        crossentropy<<<(ROWS + 63) / 64, 64>>>(logits, loss, tgt, ROWS);

        cudaMemset(grads, 0, total * sizeof(float));
        matmul_dw(g.head, x2, logits, C, V);
        matmul_dx(dx, logits, w.head, C, V, false);
        matmul_dw(g.w2, h, dx, F, C);
        matmul_dx(dh, dx, w.w2, F, C, false);
        relu_back<<<(ROWS * F + 127) / 128, 128>>>(dh, h, ROWS * F);
        matmul_dw(g.w1, x1, dh, C, F);
        matmul_dx(dx, dh, w.w1, C, F, true);
        attention_back<<<B, S>>>(dq, dk, dv, dx, att, q, k, val);
        matmul_dw(g.wq, x, dq, C, C);
        matmul_dw(g.wk, x, dk, C, C);
        matmul_dw(g.wv, x, dv, C, C);
        matmul_dx(dx, dq, w.wq, C, C, true);
        matmul_dx(dx, dk, w.wk, C, C, true);
        matmul_dx(dx, dv, w.wv, C, C, true);
        encode_back<<<ROWS, C>>>(g.wte, g.wpe, tok, dx);

        adamw<<<(total + 255) / 256, 256>>>(weights, grads, m, v, total, 0.02f, step);

        cudaMemcpy(hl.data(), loss, ROWS * sizeof(float), cudaMemcpyDeviceToHost);
        float mean = 0.f;
        for (float l : hl) mean += l / ROWS;
        if (step % 5 == 0) printf("step %d loss %.4f\n", step, mean);
    }
    cublasDestroy(cublas);
    return 0;
}
