// Logistic regression on the GPU. The whole data set lives in device memory, each iteration uses one slice of it.
// usage: ./train [batch] [iterations] [learning rate]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

const int NUM_FEATURES = 300;
const int NUM_SAMPLES = 2048;

__device__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

// one thread per sample
__global__ void compute_error(const float *X, const float *y, const float *theta, float *error, float *loss, int offset,
                              int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    const float *row = X + (size_t)(offset + i) * NUM_FEATURES;
    float z = theta[NUM_FEATURES];
    for (int j = 0; j < NUM_FEATURES; ++j)
        z += row[j] * theta[j];
    float h = sigmoid(z);
    float t = y[offset + i];
    error[i] = h - t;
    loss[i] = -(t * logf(h + 1e-7f) + (1.0f - t) * logf(1.0f - h + 1e-7f));
}

// one thread per feature; the last one is the intercept
__global__ void compute_gradient(const float *X, const float *error, float *grad, int offset, int m)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j > NUM_FEATURES)
        return;
    float s = 0.0f;
    for (int i = 0; i < m; ++i)
        s += error[i] * (j < NUM_FEATURES ? X[(size_t)(offset + i) * NUM_FEATURES + j] : 1.0f);
    grad[j] = s;
}

__global__ void gradient_descent(float *theta, const float *grad, float alpha, int m)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j <= NUM_FEATURES)
        theta[j] -= alpha * grad[j] / m;
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 128;
    int iterations = argc > 2 ? atoi(argv[2]) : 120;
    float alpha = argc > 3 ? atof(argv[3]) : 0.4f;

    std::mt19937 gen(1234);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> X(NUM_SAMPLES * NUM_FEATURES), y(NUM_SAMPLES), truth(NUM_FEATURES);
    for (float &v : truth)
        v = normal(gen) * 0.3f;
    for (int i = 0; i < NUM_SAMPLES; ++i) {
        float z = 0.2f;
        for (int j = 0; j < NUM_FEATURES; ++j) {
            float v = normal(gen);
            X[i * NUM_FEATURES + j] = v;
            z += v * truth[j];
        }
        y[i] = z > 0.0f ? 1.0f : 0.0f;
    }

    float *d_X, *d_y, *d_theta, *d_grad, *d_error, *d_loss;
    cudaMalloc((void **)&d_X, X.size() * sizeof(float));
    cudaMalloc((void **)&d_y, y.size() * sizeof(float));
    cudaMalloc((void **)&d_theta, (NUM_FEATURES + 1) * sizeof(float));
    cudaMalloc((void **)&d_grad, (NUM_FEATURES + 1) * sizeof(float));
    cudaMalloc((void **)&d_error, batch * sizeof(float));
    cudaMalloc((void **)&d_loss, batch * sizeof(float));
    cudaMemcpy(d_X, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(d_theta, 0, (NUM_FEATURES + 1) * sizeof(float));

    std::vector<float> loss(batch);
    int threads = 128;
    for (int it = 0; it < iterations; ++it) {
        int offset = (it * batch) % (NUM_SAMPLES - batch + 1);
        compute_error<<<(batch + threads - 1) / threads, threads>>>(d_X, d_y, d_theta, d_error, d_loss, offset, batch);
        compute_gradient<<<(NUM_FEATURES + threads) / threads, threads>>>(d_X, d_error, d_grad, offset, batch);
        gradient_descent<<<(NUM_FEATURES + threads) / threads, threads>>>(d_theta, d_grad, alpha, batch);
        if (it % 10 == 0 || it == iterations - 1) {
            cudaMemcpy(loss.data(), d_loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
            float sum = 0.0f;
            for (int i = 0; i < batch; ++i)
                sum += loss[i];
            printf("iteration %d cost %f\n", it, sum / batch);
        }
    }

    std::vector<float> theta(NUM_FEATURES + 1);
    cudaMemcpy(theta.data(), d_theta, theta.size() * sizeof(float), cudaMemcpyDeviceToHost);
    int right = 0;
    for (int i = 0; i < NUM_SAMPLES; ++i) {
        float z = theta[NUM_FEATURES];
        for (int j = 0; j < NUM_FEATURES; ++j)
            z += X[i * NUM_FEATURES + j] * theta[j];
        right += (z > 0.0f) == (y[i] > 0.5f);
    }
    printf("training accuracy %.4f\n", (float)right / NUM_SAMPLES);
    cudaFree(d_X); cudaFree(d_y); cudaFree(d_theta); cudaFree(d_grad); cudaFree(d_error); cudaFree(d_loss);
    return 0;
}
