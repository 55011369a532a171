// Logistic regression with mini-batch gradient descent. The whole data set stays on the GPU.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

const int NUM_SAMPLES = 4096;
const int NUM_FEATURES = 300;
const int BATCH = 128;
const int MAX_EPOCHS = 4;
const float LEARNING_RATE = 0.3f;

__global__ void predict(const float *X, const float *w, const float *y, float *err, float *loss, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float z = w[d]; // bias is the last weight
        for (int j = 0; j < d; j++)
            z += X[i * d + j] * w[j];
        float p = 1.0f / (1.0f + expf(-z));
        err[i] = p - y[i];
        loss[i] = -(y[i] * logf(p + 1e-7f) + (1.0f - y[i]) * logf(1.0f - p + 1e-7f));
    }
}

__global__ void gradient(const float *X, const float *err, float *grad, int n, int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j > d) return;
    float g = 0.0f;
    for (int i = 0; i < n; i++)
        g += err[i] * (j < d ? X[i * d + j] : 1.0f);
    grad[j] = g;
}

__global__ void update(float *w, const float *grad, float lr, int n, int d)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j <= d)
        w[j] -= lr * grad[j] / n;
}

static float uniform()
{
    return (float)rand() / RAND_MAX * 2.0f - 1.0f;
}

int main(void)
{
    srand(42);
    float *h_X = (float *)malloc(sizeof(float) * NUM_SAMPLES * NUM_FEATURES);
    float *h_y = (float *)malloc(sizeof(float) * NUM_SAMPLES);
    float *truth = (float *)malloc(sizeof(float) * NUM_FEATURES);
    for (int j = 0; j < NUM_FEATURES; j++)
        truth[j] = uniform();
    for (int i = 0; i < NUM_SAMPLES; i++) {
        float z = 0.0f;
        for (int j = 0; j < NUM_FEATURES; j++) {
            h_X[i * NUM_FEATURES + j] = uniform();
            z += h_X[i * NUM_FEATURES + j] * truth[j];
        }
        h_y[i] = z > 0.0f ? 1.0f : 0.0f;
    }

    float *d_X, *d_y, *d_w, *d_grad, *d_err, *d_loss;
    cudaMalloc((void **)&d_X, sizeof(float) * NUM_SAMPLES * NUM_FEATURES);
    cudaMalloc((void **)&d_y, sizeof(float) * NUM_SAMPLES);
    cudaMalloc((void **)&d_w, sizeof(float) * (NUM_FEATURES + 1));
    cudaMalloc((void **)&d_grad, sizeof(float) * (NUM_FEATURES + 1));
    cudaMalloc((void **)&d_err, sizeof(float) * BATCH);
    cudaMalloc((void **)&d_loss, sizeof(float) * BATCH);
    cudaMemcpy(d_X, h_X, sizeof(float) * NUM_SAMPLES * NUM_FEATURES, cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, h_y, sizeof(float) * NUM_SAMPLES, cudaMemcpyHostToDevice);
    cudaMemset(d_w, 0, sizeof(float) * (NUM_FEATURES + 1));

    float h_loss[BATCH];
    const int threads = 128;
    for (int epoch = 0; epoch < MAX_EPOCHS; epoch++) {
        float sum = 0.0f;
        for (int b = 0; b < NUM_SAMPLES / BATCH; b++) {
            const float *Xb = d_X + (size_t)b * BATCH * NUM_FEATURES;
            const float *yb = d_y + b * BATCH;
            predict<<<(BATCH + threads - 1) / threads, threads>>>(Xb, d_w, yb, d_err, d_loss, BATCH, NUM_FEATURES);
            gradient<<<(NUM_FEATURES + threads) / threads, threads>>>(Xb, d_err, d_grad, BATCH, NUM_FEATURES);
            update<<<(NUM_FEATURES + threads) / threads, threads>>>(d_w, d_grad, LEARNING_RATE, BATCH, NUM_FEATURES);
            cudaMemcpy(h_loss, d_loss, sizeof(h_loss), cudaMemcpyDeviceToHost);
            float bl = 0.0f;
            for (int i = 0; i < BATCH; i++)
                bl += h_loss[i];
            sum += bl / BATCH;
            if (b % 16 == 0)
                printf("epoch %d batch %d loss = %f\n", epoch, b, bl / BATCH);
        }
        printf("Epoch %d: average loss = %f\n", epoch, sum / (NUM_SAMPLES / BATCH));
    }

    cudaFree(d_X); cudaFree(d_y); cudaFree(d_w); cudaFree(d_grad); cudaFree(d_err); cudaFree(d_loss);
    free(h_X); free(h_y); free(truth);
    return 0;
}
