// Character level vanilla RNN, many streams of text in parallel, truncated BPTT. After Karpathy's min-char-rnn.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <string>
#include <vector>
#include <cuda_runtime.h>

static const int V = 28;        // a..z, space, dot
static const int H = 40;
static const int T = 12;        // unrolled steps
static const int B = 32;        // streams
static const int ITERS = 100;

__global__ void rnn_step(const int *x, const float *hprev, const float *Wxh, const float *Whh, const float *bh, float *h)
{
    int b = blockIdx.x, j = threadIdx.x;
    float a = bh[j] + Wxh[x[b] * H + j];
    for (int k = 0; k < H; k++) a += hprev[b * H + k] * Whh[k * H + j];
    h[b * H + j] = tanhf(a);
}

__global__ void output_step(const float *h, const int *y, const float *Why, const float *by, float *dz, float *loss)
{
    __shared__ float z[V];
    int b = blockIdx.x, j = threadIdx.x;
    float a = by[j];
    for (int k = 0; k < H; k++) a += h[b * H + k] * Why[k * V + j];
    z[j] = a;
    __syncthreads();
    float m = z[0], s = 0;
    for (int q = 1; q < V; q++) m = fmaxf(m, z[q]);
    for (int q = 0; q < V; q++) s += expf(z[q] - m);
    float p = expf(a - m) / s;
    dz[b * V + j] = p - (j == y[b]);
    if (j == y[b]) loss[b] += -logf(p);
}

// dh = dz Why^T + dhnext; da = dh (1-h^2)
__global__ void back_hidden(const float *dz, const float *Why, const float *dhnext, const float *h, float *da)
{
    int b = blockIdx.x, k = threadIdx.x;
    float s = dhnext[b * H + k];
    for (int j = 0; j < V; j++) s += dz[b * V + j] * Why[k * V + j];
    float v = h[b * H + k];
    da[b * H + k] = s * (1 - v * v);
}

__global__ void back_prev(const float *da, const float *Whh, float *dhnext)
{
    int b = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int j = 0; j < H; j++) s += da[b * H + j] * Whh[k * H + j];
    dhnext[b * H + k] = s;
}

// C[k][j] += sum_b A[b][k] D[b][j]
__global__ void accum_outer(const float *A, const float *D, float *C, int K, int J)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= K * J) return;
    int k = i / J, j = i % J;
    float s = 0;
    for (int b = 0; b < B; b++) s += A[b * K + k] * D[b * J + j];
    C[i] += s;
}

__global__ void accum_bias(const float *D, float *c, int J)
{
    int j = threadIdx.x;
    if (j >= J) return;
    float s = 0;
    for (int b = 0; b < B; b++) s += D[b * J + j];
    c[j] += s;
}

__global__ void accum_embed(const int *x, const float *da, float *dWxh)
{
    int j = threadIdx.x;
    for (int b = 0; b < B; b++) dWxh[x[b] * H + j] += da[b * H + j];
}

__global__ void adagrad(float *w, float *g, float *mem, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] / B;
    d = fminf(fmaxf(d, -5.0f), 5.0f);
    mem[i] += d * d;
    w[i] -= lr * d / sqrtf(mem[i] + 1e-8f);
    g[i] = 0;
}

struct Tensor {
    float *w, *g, *mem;
    int n;
};

static Tensor tensor(int n, float scale)
{
    Tensor t;
    t.n = n;
    cudaMalloc(&t.w, n * sizeof(float));
    cudaMalloc(&t.g, n * sizeof(float));
    cudaMalloc(&t.mem, n * sizeof(float));
    std::vector<float> h(n);
    for (auto &x : h) x = scale * (2.0f * rand() / RAND_MAX - 1);
    cudaMemcpy(t.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(t.g, 0, n * sizeof(float));
    cudaMemset(t.mem, 0, n * sizeof(float));
    return t;
}

static int code(char c) { return c == ' ' ? 26 : c == '.' ? 27 : c - 'a'; }

int main()
{
    srand(5);
    const char *lines[] = { "the quick brown fox jumps over the lazy dog. ", "a stitch in time saves nine. ",
                            "all that glitters is not gold. ", "the early bird catches the worm. " };
    std::string text;
    while (text.size() < 20000) text += lines[rand() % 4];

    Tensor Wxh = tensor(V * H, 0.1f), Whh = tensor(H * H, 0.1f), Why = tensor(H * V, 0.1f), bh = tensor(H, 0), by = tensor(V, 0);
    Tensor *all[] = { &Wxh, &Whh, &Why, &bh, &by };

    int *dx, *dy;                                           // [T][B]
    float *h, *dz, *da, *dhnext, *dloss;
    cudaMalloc(&dx, T * B * sizeof(int));
    cudaMalloc(&dy, T * B * sizeof(int));
    cudaMalloc(&h, (T + 1) * B * H * sizeof(float));
    cudaMalloc(&dz, T * B * V * sizeof(float));
    cudaMalloc(&da, B * H * sizeof(float));
    cudaMalloc(&dhnext, B * H * sizeof(float));
    cudaMalloc(&dloss, B * sizeof(float));
    cudaMemset(h, 0, (T + 1) * B * H * sizeof(float));

    std::vector<int> x(T * B), y(T * B);
    std::vector<float> loss(B);
    const size_t stream = text.size() / B;
    size_t p = 0;
    float smooth = logf((float)V);
    for (int it = 0; it < ITERS; it++) {
        if (p + T + 1 >= stream) {
            p = 0;
            cudaMemset(h, 0, B * H * sizeof(float));
        }
        for (int t = 0; t < T; t++)
            for (int b = 0; b < B; b++) {
                x[t * B + b] = code(text[b * stream + p + t]);
                y[t * B + b] = code(text[b * stream + p + t + 1]);
            }
        cudaMemcpy(dx, x.data(), x.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(dy, y.data(), y.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemset(dloss, 0, B * sizeof(float));

        for (int t = 0; t < T; t++) {
            rnn_step<<<B, H>>>(dx + t * B, h + t * B * H, Wxh.w, Whh.w, bh.w, h + (t + 1) * B * H);
            output_step<<<B, V>>>(h + (t + 1) * B * H, dy + t * B, Why.w, by.w, dz + t * B * V, dloss);
        }
        cudaMemset(dhnext, 0, B * H * sizeof(float));
        for (int t = T - 1; t >= 0; t--) {
            float *ht = h + (t + 1) * B * H;
            accum_outer<<<(H * V + 127) / 128, 128>>>(ht, dz + t * B * V, Why.g, H, V);
            accum_bias<<<1, V>>>(dz + t * B * V, by.g, V);
            back_hidden<<<B, H>>>(dz + t * B * V, Why.w, dhnext, ht, da);
            accum_outer<<<(H * H + 127) / 128, 128>>>(h + t * B * H, da, Whh.g, H, H);
            accum_bias<<<1, H>>>(da, bh.g, H);
            accum_embed<<<1, H>>>(dx + t * B, da, Wxh.g);
            back_prev<<<B, H>>>(da, Whh.w, dhnext);
        }
        for (Tensor *q : all) adagrad<<<(q->n + 127) / 128, 128>>>(q->w, q->g, q->mem, q->n, 0.1f);

        // the last state is the next chunk's first
        cudaMemcpy(h, h + T * B * H, B * H * sizeof(float), cudaMemcpyDeviceToDevice);
        cudaMemcpy(loss.data(), dloss, B * sizeof(float), cudaMemcpyDeviceToHost);
        float l = 0;
        for (float v : loss) l += v;
        l /= B * T;
        smooth = 0.9f * smooth + 0.1f * l;
        if (it % 20 == 0 || it == ITERS - 1) printf("iter %d loss %f (smooth %f)\n", it, l, smooth);
        p += T;
    }
    return 0;
}
