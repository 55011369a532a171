/* Character level RNN after Karpathy's min-char-rnn, batched, Adagrad, on cuBLAS. */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

static const char *corpus =
    "it was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of "
    "darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing "
    "before us, we were all going direct to heaven, we were all going direct the other way. ";

#define H 64      // hidden
#define T 12      // steps of truncated BPTT
#define NB 32     // parallel sequences
#define MAXV 40   // at most so many characters

int V;
cublasHandle_t cublas;

struct Param {
    float *w, *dw, *mem;
    int rows, cols;
    Param(int r, int c, float scale) : rows(r), cols(c)
    {
        size_t n = (size_t)r * c;
        std::vector<float> h(n);
        for (auto &v : h)
            v = scale * (2.f * rand() / RAND_MAX - 1.f);
        cudaMalloc(&w, n * 4);
        cudaMalloc(&dw, n * 4);
        cudaMalloc(&mem, n * 4);
        cudaMemcpy(w, h.data(), n * 4, cudaMemcpyHostToDevice);
        cudaMemset(mem, 0, n * 4);
    }
    int size() const { return rows * cols; }
    void zero() { cudaMemset(dw, 0, (size_t)rows * cols * 4); }
};

// column-major: a column is one sequence
__global__ void embed_tanh(float *h, const float *Wxh, const float *bh, const int *x)
{
    int i = threadIdx.x, b = blockIdx.x;
    h[b * H + i] = tanhf(h[b * H + i] + Wxh[x[b] * H + i] + bh[i]);
}

__global__ void softmax_loss(float *p, const float *by, const int *target, float *loss, int V)
{
    int b = threadIdx.x;
    float *q = p + b * V, m = -1e30f, s = 0;
    for (int i = 0; i < V; i++) {
        q[i] += by[i];
        m = fmaxf(m, q[i]);
    }
    for (int i = 0; i < V; i++)
        s += expf(q[i] - m);
    for (int i = 0; i < V; i++)
        q[i] = expf(q[i] - m) / s;
    loss[b] += -logf(q[target[b]] + 1e-9f);
    q[target[b]] -= 1.f;   // now the gradient of the logits
}

__global__ void row_sum(float *out, const float *m, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        float s = 0;
        for (int c = 0; c < cols; c++)
            s += m[c * rows + i];
        out[i] += s;
    }
}

__global__ void dtanh(float *dh, const float *h)
{
    int i = blockIdx.x * H + threadIdx.x;
    dh[i] *= 1 - h[i] * h[i];
}

__global__ void embed_grad(float *dWxh, const float *draw, const int *x)
{
    atomicAdd(&dWxh[x[blockIdx.x] * H + threadIdx.x], draw[blockIdx.x * H + threadIdx.x]);
}

__global__ void adagrad(float *w, const float *dw, float *mem, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float g = dw[i] / NB;
        g = fminf(fmaxf(g, -5.f), 5.f);
        mem[i] += g * g;
        w[i] -= lr * g / sqrtf(mem[i] + 1e-8f);
    }
}

int main()
{
    srand(1);
    std::map<char, int> index;
    int len = strlen(corpus);
    std::vector<int> text(len);
    for (int i = 0; i < len; i++)
        index.emplace(corpus[i], 0);
    for (auto &kv : index)
        kv.second = V++;
    for (int i = 0; i < len; i++)
        text[i] = index[corpus[i]];
    printf("data has %d characters, %d unique\n", len, V);
    if (V > MAXV)
        return 1;
    cublasCreate(&cublas);

    Param Wxh(H, V, 0.1f), Whh(H, H, 0.1f), Why(V, H, 0.1f), bh(H, 1, 0.f), by(V, 1, 0.f);
    Param *params[] = {&Wxh, &Whh, &Why, &bh, &by};

    float *h, *y, *dh, *dhn, *loss;
    int *x;
    cudaMalloc(&h, (T + 1) * NB * H * 4);
    cudaMalloc(&y, T * NB * V * 4);
    cudaMalloc(&dh, NB * H * 4);
    cudaMalloc(&dhn, NB * H * 4);
    cudaMalloc(&loss, NB * 4);
    cudaMalloc(&x, (T + 1) * NB * 4);
    cudaMemset(h, 0, NB * H * 4);

    std::vector<int> hx((T + 1) * NB), pos(NB);
    for (int b = 0; b < NB; b++)
        pos[b] = b * len / NB;
    float hl[NB];
    float smooth = logf(V);
    const float one = 1, zero = 0;

    for (int n = 0; n <= 150; n++) {
        // each of the sequences goes on where it was, around the end of the text
        for (int t = 0; t <= T; t++)
            for (int b = 0; b < NB; b++)
                hx[t * NB + b] = text[(pos[b] + t) % len];
        for (int b = 0; b < NB; b++)
            pos[b] = (pos[b] + T) % len;
        cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, NB * 4);

        for (int t = 0; t < T; t++) {
            float *h0 = h + t * NB * H, *h1 = h0 + NB * H, *p = y + t * NB * V;
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, H, NB, H, &one, Whh.w, H, h0, H, &zero, h1, H);
            embed_tanh<<<NB, H>>>(h1, Wxh.w, bh.w, x + t * NB);
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, V, NB, H, &one, Why.w, V, h1, H, &zero, p, V);
            softmax_loss<<<1, NB>>>(p, by.w, x + (t + 1) * NB, loss, V);
        }

        for (Param *p : params)
            p->zero();
        cudaMemset(dhn, 0, NB * H * 4);
        for (int t = T - 1; t >= 0; t--) {
            float *h0 = h + t * NB * H, *h1 = h0 + NB * H, *dy = y + t * NB * V;
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, V, H, NB, &one, dy, V, h1, H, &one, Why.dw, V);
            row_sum<<<1, MAXV>>>(by.dw, dy, V, NB);
            cudaMemcpy(dh, dhn, NB * H * 4, cudaMemcpyDeviceToDevice);
            cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, H, NB, V, &one, Why.w, V, dy, V, &one, dh, H);
            dtanh<<<NB, H>>>(dh, h1);
            row_sum<<<1, H>>>(bh.dw, dh, H, NB);
            embed_grad<<<NB, H>>>(Wxh.dw, dh, x + t * NB);
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, H, H, NB, &one, dh, H, h0, H, &one, Whh.dw, H);
            cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, H, NB, H, &one, Whh.w, H, dh, H, &zero, dhn, H);
        }

        for (Param *p : params)
            adagrad<<<(p->size() + 255) / 256, 256>>>(p->w, p->dw, p->mem, p->size(), 0.08f);

        // the last hidden state is the first of the next iteration
        cudaMemcpy(h, h + T * NB * H, NB * H * 4, cudaMemcpyDeviceToDevice);

        cudaMemcpy(hl, loss, sizeof(hl), cudaMemcpyDeviceToHost);
        float l = 0;
        for (int b = 0; b < NB; b++)
            l += hl[b];
        l /= NB * T;
        smooth = 0.9f * smooth + 0.1f * l;
        if (n % 25 == 0)
            printf("iter %d, loss: %f\n", n, smooth);
    }
    cublasDestroy(cublas);
    return 0;
}
