// Sequence labelling with padding: sequences have different lengths, and the loss
// is the mean over the real tokens of the batch.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

const int L = 8, D = 6, C = 3, B = 16, N = 256;

__global__ void count_tokens(const int *len, int *total, int n)
{
    int s = 0;
    for (int r = 0; r < n; r++) s += len[r];
    *total = s;
}

__global__ void token_loss(const float *x, const int *tag, const int *len, const float *w, const int *total,
                           float *dl, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * L) return;
    loss[i] = 0;
    for (int c = 0; c < C; c++) dl[i * C + c] = 0;
    if (i % L >= len[i / L]) return;
    float p[C], z = 0;
    for (int c = 0; c < C; c++) {
        p[c] = 0;
        for (int d = 0; d < D; d++) p[c] += x[i * D + d] * w[d * C + c];
        z += p[c] = expf(p[c]);
    }
    loss[i] = -logf(p[tag[i]] / z) / *total;
    for (int c = 0; c < C; c++) dl[i * C + c] = (p[c] / z - (c == tag[i])) / *total;
}

__global__ void weight_gradient(const float *x, const float *dl, float *dw, int n)
{
    int t = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n * L; i++) s += x[i * D + t / C] * dl[i * C + t % C];
    dw[t] = s;
}

__global__ void sgd(float *w, const float *dw, float lr) { w[threadIdx.x] -= lr * dw[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 50;
    std::mt19937 rng(17);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * L * D);
    std::vector<int> tag(N * L), len(N);
    for (int i = 0; i < N; i++) len[i] = 1 + rng() % L;
    for (int i = 0; i < N * L; i++) {
        tag[i] = rng() % C;
        for (int d = 0; d < D; d++) x[i * D + d] = nd(rng) + (d % C == tag[i]);
    }
    float *dx, *w, *dw, *dl, *loss;
    int *dtag, *dlen, *total;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dtag, N * L * 4); cudaMalloc(&dlen, N * 4); cudaMalloc(&total, 4);
    cudaMalloc(&w, D * C * 4); cudaMalloc(&dw, D * C * 4); cudaMalloc(&dl, B * L * C * 4); cudaMalloc(&loss, B * L * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dtag, tag.data(), N * L * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dlen, len.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * C * 4);
    DDP_PARAMETER(w, D * C, DDP_FLOAT32);
    DDP_GRADIENT(dw, D * C, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        size_t at = s * B % N + first;
        count_tokens<<<1, 1>>>(dlen + at, total, n);
        token_loss<<<2, 64>>>(dx + at * L * D, dtag + at * L, dlen + at, w, total, dl, loss, n);
        weight_gradient<<<1, D * C>>>(dx + at * L * D, dl, dw, n);
        DDP_STEP(0);
        sgd<<<1, D * C>>>(w, dw, 0.5f);
        if (s % 10 == 0 || s == steps - 1) {
            std::vector<float> l(n * L);
            cudaMemcpy(l.data(), loss, l.size() * 4, cudaMemcpyDeviceToHost);
            float m = 0;
            for (float v : l) m += v;
            DDP_MEAN(&m);
            if (!DDP_RANK()) printf("step %d loss %.4f\n", s, m);
        }
    }
    return 0;
}
