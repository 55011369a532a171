/*
 * Mini-batch logistic regression on a HIGGS-like table of physics events. All events live on the GPU;
 * one block handles one feature of the gradient.
 *
 * Usage: ./train [batch] [epochs] [lr]
 */
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

constexpr int kFeatures = 300;
constexpr int kEvents = 4096;
constexpr int kThreads = 128;

#define CHECK(x) check((x), #x, __LINE__)
static void check(cudaError_t e, const char *what, int line)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "line %d: %s: %s\n", line, what, cudaGetErrorString(e));
        std::exit(EXIT_FAILURE);
    }
}

// p[i] = sigmoid(x[i] . w + w[kFeatures]), err[i] = p[i] - y[i]
__global__ void predict(const float *x, const float *y, const float *w, float *err, float *loss, int batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch)
        return;
    float z = w[kFeatures];
    for (int f = 0; f < kFeatures; ++f)
        z += x[i * kFeatures + f] * w[f];
    float p = 1.0f / (1.0f + expf(-z));
    err[i] = p - y[i];
    float q = y[i] > 0.5f ? p : 1.0f - p;
    atomicAdd(loss, -logf(fmaxf(q, 1e-7f)));
}

__global__ void gradient(const float *x, const float *err, float *grad, int batch)
{
    __shared__ float partial[kThreads];
    int f = blockIdx.x;
    float s = 0.0f;
    for (int i = threadIdx.x; i < batch; i += blockDim.x)
        s += err[i] * (f < kFeatures ? x[i * kFeatures + f] : 1.0f);
    partial[threadIdx.x] = s;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        grad[f] = partial[0];
}

__global__ void update(float *w, const float *grad, float lr, float l2, int batch)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f <= kFeatures)
        w[f] -= lr * (grad[f] / batch + l2 * w[f]);
}

int main(int argc, char **argv)
{
    const int batch = argc > 1 ? std::atoi(argv[1]) : 128;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 3;
    float lr = argc > 3 ? std::atof(argv[3]) : 0.3f;

    std::mt19937 rng(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> truth(kFeatures), x(static_cast<size_t>(kEvents) * kFeatures), y(kEvents);
    for (float &t : truth)
        t = normal(rng) * 0.3f;
    for (int i = 0; i < kEvents; ++i) {
        float z = 0.0f;
        for (int f = 0; f < kFeatures; ++f) {
            float v = normal(rng);
            x[i * kFeatures + f] = v;
            z += v * truth[f];
        }
        y[i] = z + 0.5f * normal(rng) > 0.0f ? 1.0f : 0.0f;
    }

    float *d_x, *d_y, *d_w, *d_grad, *d_err, *d_loss;
    CHECK(cudaMalloc(&d_x, x.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_y, y.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_w, (kFeatures + 1) * sizeof(float)));
    CHECK(cudaMalloc(&d_grad, (kFeatures + 1) * sizeof(float)));
    CHECK(cudaMalloc(&d_err, batch * sizeof(float)));
    CHECK(cudaMalloc(&d_loss, sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_w, 0, (kFeatures + 1) * sizeof(float)));

    for (int epoch = 0; epoch < epochs; ++epoch) {
        CHECK(cudaMemset(d_loss, 0, sizeof(float)));
        int seen = 0;
        for (int first = 0; first + batch <= kEvents; first += batch) {
            const float *bx = d_x + static_cast<size_t>(first) * kFeatures;
            const float *by = d_y + first;
            predict<<<(batch + kThreads - 1) / kThreads, kThreads>>>(bx, by, d_w, d_err, d_loss, batch);
            gradient<<<kFeatures + 1, kThreads>>>(bx, d_err, d_grad, batch);
            update<<<(kFeatures + kThreads) / kThreads, kThreads>>>(d_w, d_grad, lr, 1e-4f, batch);
            seen += batch;
        }
        CHECK(cudaGetLastError());
        float loss;
        CHECK(cudaMemcpy(&loss, d_loss, sizeof(loss), cudaMemcpyDeviceToHost));
        std::printf("epoch %d: mean log loss = %.5f (lr %.3f)\n", epoch + 1, loss / seen, lr);
        lr *= 0.8f;
    }

    cudaFree(d_x);
    cudaFree(d_y);
    cudaFree(d_w);
    cudaFree(d_grad);
    cudaFree(d_err);
    cudaFree(d_loss);
    return 0;
}
