#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define cudaCheck(ans) gpuAssert((ans), __FILE__, __LINE__)
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}

const int NUM_SAMPLES = 4096;
const int NUM_FEATURES = 300;
const int BATCH_SIZE = 256;
const int EPOCHS = 6;

__global__ void predictKernel(const float *X, const float *weights, const float *bias, float *pred, int n, int d)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        float z = *bias;
        for (int j = 0; j < d; ++j)
            z += X[row * d + j] * weights[j];
        pred[row] = 1.0f / (1.0f + __expf(-z));
    }
}

// gradient summed over the rows
__global__ void gradientKernel(const float *X, const float *y, const float *pred, float *grad, float *gradBias, int n,
                               int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d) {
        float acc = 0;
        for (int i = 0; i < n; ++i)
            acc += (pred[i] - y[i]) * X[i * d + j];
        grad[j] = acc;
    } else if (j == d) {
        float acc = 0;
        for (int i = 0; i < n; ++i)
            acc += pred[i] - y[i];
        *gradBias = acc;
    }
}

__global__ void updateKernel(float *weights, const float *grad, float *velocity, float lr, float momentum, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n) {
        velocity[j] = momentum * velocity[j] - lr * grad[j];
        weights[j] += velocity[j];
    }
}

__global__ void lossKernel(const float *y, const float *pred, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float p = fminf(fmaxf(pred[i], 1e-6f), 1.0f - 1e-6f);
        atomicAdd(loss, -(y[i] * logf(p) + (1.0f - y[i]) * logf(1.0f - p)));
    }
}

class LogisticRegression
{
public:
    LogisticRegression(int features, float learningRate, float momentum)
        : d(features), lr(learningRate), mu(momentum)
    {
        cudaCheck(cudaMalloc(&weights, d * sizeof(float)));
        cudaCheck(cudaMalloc(&bias, sizeof(float)));
        cudaCheck(cudaMalloc(&gradWeights, d * sizeof(float)));
        cudaCheck(cudaMalloc(&gradBias, sizeof(float)));
        cudaCheck(cudaMalloc(&velWeights, d * sizeof(float)));
        cudaCheck(cudaMalloc(&velBias, sizeof(float)));
        cudaCheck(cudaMalloc(&pred, BATCH_SIZE * sizeof(float)));
        cudaCheck(cudaMalloc(&lossDev, sizeof(float)));
        cudaCheck(cudaMemset(weights, 0, d * sizeof(float)));
        cudaCheck(cudaMemset(bias, 0, sizeof(float)));
        cudaCheck(cudaMemset(velWeights, 0, d * sizeof(float)));
        cudaCheck(cudaMemset(velBias, 0, sizeof(float)));
    }

    ~LogisticRegression()
    {
        cudaFree(weights);
        cudaFree(bias);
        cudaFree(gradWeights);
        cudaFree(gradBias);
        cudaFree(velWeights);
        cudaFree(velBias);
        cudaFree(pred);
        cudaFree(lossDev);
    }

    float trainBatch(const float *X, const float *y, int n)
    {
        const int threads = 128;
        predictKernel<<<(n + threads - 1) / threads, threads>>>(X, weights, bias, pred, n, d);
        gradientKernel<<<(d + threads) / threads, threads>>>(X, y, pred, gradWeights, gradBias, n, d);
        updateKernel<<<(d + threads - 1) / threads, threads>>>(weights, gradWeights, velWeights, lr / n, mu, d);
        updateKernel<<<1, 1>>>(bias, gradBias, velBias, lr / n, mu, 1);

        cudaCheck(cudaMemset(lossDev, 0, sizeof(float)));
        lossKernel<<<(n + threads - 1) / threads, threads>>>(y, pred, lossDev, n);
        float loss;
        cudaCheck(cudaMemcpy(&loss, lossDev, sizeof(float), cudaMemcpyDeviceToHost));
        return loss / n;
    }

private:
    int d;
    float lr, mu;
    float *weights, *bias;
    float *gradWeights, *gradBias;
    float *velWeights, *velBias;
    float *pred, *lossDev;
};

int main()
{
    std::mt19937 gen(42);
    std::normal_distribution<float> normal(0.0f, 1.0f);

    std::vector<float> truth(NUM_FEATURES);
    for (auto &t : truth)
        t = normal(gen) * 0.4f;
    std::vector<float> hX(NUM_SAMPLES * NUM_FEATURES), hy(NUM_SAMPLES);
    for (int i = 0; i < NUM_SAMPLES; ++i) {
        float z = 0;
        for (int j = 0; j < NUM_FEATURES; ++j) {
            hX[i * NUM_FEATURES + j] = normal(gen);
            z += truth[j] * hX[i * NUM_FEATURES + j];
        }
        hy[i] = z + normal(gen) > 0 ? 1.0f : 0.0f;
    }

    float *dX, *dy;
    cudaCheck(cudaMalloc(&dX, hX.size() * sizeof(float)));
    cudaCheck(cudaMalloc(&dy, hy.size() * sizeof(float)));
    cudaCheck(cudaMemcpy(dX, hX.data(), hX.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(dy, hy.data(), hy.size() * sizeof(float), cudaMemcpyHostToDevice));

    LogisticRegression model(NUM_FEATURES, 0.05f, 0.9f);
    const int numBatches = NUM_SAMPLES / BATCH_SIZE;
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        float total = 0;
        for (int b = 0; b < numBatches; ++b) {
            int offset = b * BATCH_SIZE;
            total += model.trainBatch(dX + offset * NUM_FEATURES, dy + offset, BATCH_SIZE);
        }
        printf("Epoch %d, Loss: %f\n", epoch + 1, total / numBatches);
    }

    cudaFree(dX);
    cudaFree(dy);
    return 0;
}
