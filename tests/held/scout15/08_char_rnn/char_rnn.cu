// A character level recurrent network after the well known minimal script: one-hot input, tanh,
// softmax at every position, elementwise clipping, Adagrad. Text windows are cut on the host.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

static const char *kText =
    "the quick brown fox jumps over the lazy dog while the five boxing wizards jump quickly and pack my box with "
    "five dozen liquor jugs before the dog wakes and the fox runs over the hill to the river where the water is cold ";

const int kHidden = 20;
const int kLength = 7;

__global__ void rnn_step(const int *chars, const float *wxh, const float *bh, const float *whh_h, float *h, int t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * kHidden) return;
    int r = i / kHidden, k = i % kHidden;
    h[i] = tanhf(whh_h[i] + wxh[chars[r * (kLength + 1) + t] * kHidden + k] + bh[k]);
}

__global__ void softmax_step(float *p, const float *by, const int *chars, float *loss, int t, int n, int vocab) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float *row = p + r * vocab, s = 0.f;
    int target = chars[r * (kLength + 1) + t + 1];
    for (int v = 0; v < vocab; ++v) s += row[v] = expf(row[v] + by[v]);
    for (int v = 0; v < vocab; ++v) row[v] /= s;
    loss[r] -= logf(row[target]);
    row[target] -= 1.f;
    for (int v = 0; v < vocab; ++v) row[v] /= n * kLength;
}

__global__ void tanh_grad(const float *h, float *dh, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dh[i] *= 1.f - h[i] * h[i];
}

__global__ void input_grad(const int *chars, const float *draw, float *dwxh, float *dbh, int t, int n) {
    int k = threadIdx.x;
    for (int r = 0; r < n; ++r) {
        dwxh[chars[r * (kLength + 1) + t] * kHidden + k] += draw[r * kHidden + k];
        dbh[k] += draw[r * kHidden + k];
    }
}

__global__ void column_sum(const float *a, float *sum, int n, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    for (int r = 0; r < n; ++r) sum[c] += a[r * cols + c];
}

__global__ void adagrad(float *w, const float *dw, float *mem, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = fminf(fmaxf(dw[i], -5.f), 5.f);
    mem[i] += g * g;
    w[i] -= lr * g / sqrtf(mem[i] + 1e-6f);
}

int main() {
    std::map<char, int> index;
    for (const char *c = kText; *c; ++c) index.emplace(*c, 0);
    int vocab = 0;
    for (auto &e : index) e.second = vocab++;
    const int length = (int)strlen(kText), batch = 12, iterations = 48;

    enum { WXH, WHH, WHY, BH, BY, COUNT };
    const int size[COUNT] = {vocab * kHidden, kHidden * kHidden, kHidden * vocab, kHidden, vocab};
    float *w[COUNT], *dw[COUNT], *mem[COUNT];
    std::mt19937 rng(1234);
    std::normal_distribution<float> normal(0.f, 0.1f);
    for (int k = 0; k < COUNT; ++k) {
        std::vector<float> init(size[k]);
        for (auto &v : init) v = k < BH ? normal(rng) : 0.f;
        size_t bytes = size[k] * sizeof(float);
        cudaMalloc(&w[k], bytes);
        cudaMalloc(&dw[k], bytes);
        cudaMalloc(&mem[k], bytes);
        cudaMemcpy(w[k], init.data(), bytes, cudaMemcpyHostToDevice);
        cudaMemset(mem[k], 0, bytes);
    }

    int *chars;
    float *h, *p, *tmp, *dh, *loss;
    const int nh = batch * kHidden;
    cudaMalloc(&chars, batch * (kLength + 1) * sizeof(int));
    cudaMalloc(&h, (kLength + 1) * nh * sizeof(float));
    cudaMalloc(&p, kLength * batch * vocab * sizeof(float));
    cudaMalloc(&tmp, nh * sizeof(float));
    cudaMalloc(&dh, nh * sizeof(float));
    cudaMalloc(&loss, batch * sizeof(float));
    cudaMemset(h, 0, nh * sizeof(float));

    cublasHandle_t cublas;
    cublasCreate(&cublas);
    const float one = 1.f, zero = 0.f;
    std::vector<int> window(batch * (kLength + 1));
    std::vector<float> host_loss(batch);
    float smooth = 0.f;

    for (int it = 0; it < iterations; ++it) {
        for (int r = 0; r < batch; ++r) {
            int at = rng() % (length - kLength - 1);
            for (int t = 0; t <= kLength; ++t) window[r * (kLength + 1) + t] = index[kText[at + t]];
        }
        cudaMemcpy(chars, window.data(), window.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, batch * sizeof(float));
        for (int k = 0; k < COUNT; ++k) cudaMemset(dw[k], 0, size[k] * sizeof(float));

        for (int t = 0; t < kLength; ++t) {
            float *hp = h + t * nh, *ht = hp + nh, *pt = p + t * batch * vocab;
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kHidden, batch, kHidden, &one, w[WHH], kHidden, hp, kHidden, &zero, tmp, kHidden);
            rnn_step<<<(nh + 63) / 64, 64>>>(chars, w[WXH], w[BH], tmp, ht, t, batch);
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, vocab, batch, kHidden, &one, w[WHY], vocab, ht, kHidden, &zero, pt, vocab);
            softmax_step<<<1, 32>>>(pt, w[BY], chars, loss, t, batch, vocab);
        }
        cudaMemset(tmp, 0, nh * sizeof(float));
        for (int t = kLength - 1; t >= 0; --t) {
            float *hp = h + t * nh, *ht = hp + nh, *pt = p + t * batch * vocab;
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, vocab, kHidden, batch, &one, pt, vocab, ht, kHidden, &one, dw[WHY], vocab);
            column_sum<<<1, 64>>>(pt, dw[BY], batch, vocab);
            // dh = p * Why^T + gradient from the step after
            cudaMemcpy(dh, tmp, nh * sizeof(float), cudaMemcpyDeviceToDevice);
            cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, kHidden, batch, vocab, &one, w[WHY], vocab, pt, vocab, &one, dh, kHidden);
            tanh_grad<<<(nh + 63) / 64, 64>>>(ht, dh, nh);
            input_grad<<<1, kHidden>>>(chars, dh, dw[WXH], dw[BH], t, batch);
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, kHidden, kHidden, batch, &one, dh, kHidden, hp, kHidden, &one, dw[WHH], kHidden);
            cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, kHidden, batch, kHidden, &one, w[WHH], kHidden, dh, kHidden, &zero, tmp, kHidden);
        }
        for (int k = 0; k < COUNT; ++k) adagrad<<<(size[k] + 127) / 128, 128>>>(w[k], dw[k], mem[k], size[k], 0.1f);

        cudaMemcpy(host_loss.data(), loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
        float mean = 0.f;
        for (float v : host_loss) mean += v / (batch * kLength);
        smooth = it == 0 ? mean : 0.9f * smooth + 0.1f * mean;
        if (it % 8 == 0) printf("iter %d, loss: %f, smooth: %f\n", it, mean, smooth);
    }
    for (int k = 0; k < COUNT; ++k) cudaFree(w[k]), cudaFree(dw[k]), cudaFree(mem[k]);
    cublasDestroy(cublas);
}
