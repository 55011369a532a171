// Neural network whose layers apply their SGD step inside backward: one gemm with alpha = -lr goes straight into the
// weights, so that no memory for gradients is needed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CHECK_CUDA(x)   do { if ((x) != cudaSuccess) { fprintf(stderr, "CUDA failure, line %d\n", __LINE__); exit(1); } } while (0)
#define CHECK_CUBLAS(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cuBLAS failure, line %d\n", __LINE__); exit(1); } } while (0)

cublasHandle_t cublas;

__global__ void bias_tanh(float *y, const float *b, int out, int n, bool activate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < out * n) {
        float v = y[i] + b[i % out];
        y[i] = activate ? tanhf(v) : v;
    }
}

__global__ void tanh_grad(float *dy, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] *= 1.0f - y[i] * y[i];
}

// logits -> logits - one_hot after the softmax; columns are samples
__global__ void softmax_minus_labels(float *z, const unsigned char *labels, float *loss, int classes, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float *c = z + s * classes;
    float m = c[0], sum = 0;
    for (int k = 1; k < classes; k++) m = fmaxf(m, c[k]);
    for (int k = 0; k < classes; k++) sum += c[k] = expf(c[k] - m);
    for (int k = 0; k < classes; k++) c[k] /= sum;
    loss[s] = -logf(c[labels[s]] + 1e-8f);
    c[labels[s]] -= 1.0f;
}

class FusedLayer {
public:
    FusedLayer(int in, int out, int batch, bool activate, std::mt19937 &rng) : in_(in), out_(out), activate_(activate)
    {
        CHECK_CUDA(cudaMalloc(&W_, in * out * sizeof(float)));
        CHECK_CUDA(cudaMalloc(&b_, out * sizeof(float)));
        CHECK_CUDA(cudaMalloc(&y_, batch * out * sizeof(float)));
        CHECK_CUDA(cudaMalloc(&dx_, batch * in * sizeof(float)));
        CHECK_CUDA(cudaMalloc(&ones_, batch * sizeof(float)));
        std::uniform_real_distribution<float> u(-std::sqrt(3.0f / in), std::sqrt(3.0f / in));
        std::vector<float> w(in * out), one(batch, 1.0f);
        for (float &x : w) x = u(rng);
        CHECK_CUDA(cudaMemcpy(W_, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK_CUDA(cudaMemcpy(ones_, one.data(), batch * sizeof(float), cudaMemcpyHostToDevice));
        CHECK_CUDA(cudaMemset(b_, 0, out * sizeof(float)));
    }

    float *forward(const float *x, int n)
    {
        const float one = 1, zero = 0;
        x_ = x;
        CHECK_CUBLAS(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, out_, n, in_, &one, W_, out_, x, in_, &zero, y_, out_));
        bias_tanh<<<(n * out_ + 127) / 128, 128>>>(y_, b_, out_, n, activate_);
        return y_;
    }

    float *backward_and_learn(float *dy, int n, float lr)
    {
        const float one = 1, zero = 0, rate = -lr / n;
        if (activate_)
            tanh_grad<<<(n * out_ + 127) / 128, 128>>>(dy, y_, n * out_);
        // dx before the weights change
        CHECK_CUBLAS(cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, in_, n, out_, &one, W_, out_, dy, out_, &zero, dx_, in_));
        CHECK_CUBLAS(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, out_, in_, n, &rate, dy, out_, x_, in_, &one, W_, out_));
        CHECK_CUBLAS(cublasSgemv(cublas, CUBLAS_OP_N, out_, n, &rate, dy, out_, ones_, 1, &one, b_, 1));
        return dx_;
    }

private:
    int in_, out_;
    bool activate_;
    const float *x_;
    float *W_, *b_, *y_, *dx_, *ones_;
};

struct Sample {
    float feature[13];
    unsigned char cultivar;
};

int main()
{
    const int N = 1600, B = 160, F = 13, K = 5;
    std::mt19937 rng(1978);
    std::normal_distribution<float> g;
    std::vector<Sample> wines(N);
    std::vector<float> mean(K * F), mix(F * F);
    for (float &x : mean) x = 0.9f * g(rng);
    for (Sample &s : wines) {
        s.cultivar = rng() % K;
        for (int f = 0; f < F; f++) s.feature[f] = mean[s.cultivar * F + f] + 1.1f * g(rng);
        s.feature[0] = s.feature[0] * s.feature[1];      // not linearly separable
    }

    CHECK_CUBLAS(cublasCreate(&cublas));
    FusedLayer l1(F, 48, B, true, rng), l2(48, 24, B, true, rng), l3(24, K, B, false, rng);
    float *d_x, *d_loss;
    unsigned char *d_labels;
    CHECK_CUDA(cudaMalloc(&d_x, B * F * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&d_labels, B));
    CHECK_CUDA(cudaMalloc(&d_loss, B * sizeof(float)));

    std::vector<float> x(B * F), loss(B);
    std::vector<unsigned char> labels(B);
    float lr = 0.25f;
    for (int epoch = 0; epoch < 10; epoch++) {
        std::shuffle(wines.begin(), wines.end(), rng);
        float total = 0;
        for (int i = 0; i < N; i += B) {
            for (int j = 0; j < B; j++) {
                memcpy(&x[j * F], wines[i + j].feature, F * sizeof(float));
                labels[j] = wines[i + j].cultivar;
            }
            CHECK_CUDA(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
            CHECK_CUDA(cudaMemcpy(d_labels, labels.data(), labels.size(), cudaMemcpyHostToDevice));

            float *z = l3.forward(l2.forward(l1.forward(d_x, B), B), B);
            softmax_minus_labels<<<(B + 31) / 32, 32>>>(z, d_labels, d_loss, K, B);
            float *d = l3.backward_and_learn(z, B, lr);
            d = l2.backward_and_learn(d, B, lr);
            l1.backward_and_learn(d, B, lr);

            CHECK_CUDA(cudaMemcpy(loss.data(), d_loss, B * sizeof(float), cudaMemcpyDeviceToHost));
            for (float l : loss) total += l;
        }
        printf("epoch %d loss %.4f\n", epoch + 1, total / N);
        lr *= 0.9f;
    }
    cublasDestroy(cublas);
    return 0;
}
