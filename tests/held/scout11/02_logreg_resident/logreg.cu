/* Multinomial logistic regression; the whole training set lives on the GPU. */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>

const int NUM_TRAIN = 2048;
const int NUM_FEATURES = 100;
const int NUM_CLASSES = 10;
const int BLOCK = 128;

// One thread per (sample, class)
__global__ void scores_kernel(const float *data, const float *weights, const float *bias, float *scores, int batch)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= batch * NUM_CLASSES) return;
    int s = t / NUM_CLASSES, c = t % NUM_CLASSES;
    float acc = bias[c];
    for (int f = 0; f < NUM_FEATURES; ++f)
        acc += data[s * NUM_FEATURES + f] * weights[c * NUM_FEATURES + f];
    scores[t] = acc;
}

__global__ void softmax_kernel(float *scores, const unsigned char *labels, float *total_loss, int batch)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= batch) return;
    float *row = scores + s * NUM_CLASSES;
    float mx = row[0];
    for (int c = 1; c < NUM_CLASSES; ++c) mx = fmaxf(mx, row[c]);
    float z = 0.f;
    for (int c = 0; c < NUM_CLASSES; ++c) { row[c] = expf(row[c] - mx); z += row[c]; }
    for (int c = 0; c < NUM_CLASSES; ++c) row[c] /= z;
    atomicAdd(total_loss, -logf(row[labels[s]] + 1e-12f));
    row[labels[s]] -= 1.f;
}

// gradient is accumulated as a sum over the samples
__global__ void gradient_kernel(const float *data, const float *delta, float *grad_w, float *grad_b, int batch)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NUM_CLASSES * NUM_FEATURES) return;
    int c = t / NUM_FEATURES, f = t % NUM_FEATURES;
    float g = 0.f, gb = 0.f;
    for (int s = 0; s < batch; ++s) {
        float d = delta[s * NUM_CLASSES + c];
        g += d * data[s * NUM_FEATURES + f];
        gb += d;
    }
    grad_w[t] = g;
    if (f == 0) grad_b[c] = gb;
}

__global__ void update_kernel(float *w, const float *grad, float scale, float decay, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) w[t] -= scale * grad[t] + decay * w[t];
}

int main(int argc, char **argv)
{
    int batch_size = argc > 1 ? atoi(argv[1]) : 64;
    int epochs = argc > 2 ? atoi(argv[2]) : 4;
    float learning_rate = 0.2f;

    std::mt19937 rng(7);
    std::normal_distribution<float> normal(0.f, 1.f);
    std::vector<float> centers(NUM_CLASSES * NUM_FEATURES), train(NUM_TRAIN * NUM_FEATURES);
    std::vector<unsigned char> labels(NUM_TRAIN);
    for (float &c : centers) c = 0.3f * normal(rng);
    for (int i = 0; i < NUM_TRAIN; ++i) {
        labels[i] = rng() % NUM_CLASSES;
        for (int f = 0; f < NUM_FEATURES; ++f)
            train[i * NUM_FEATURES + f] = centers[labels[i] * NUM_FEATURES + f] + 0.8f * normal(rng);
    }

    float *d_train, *d_w, *d_b, *d_gw, *d_gb, *d_scores, *d_loss;
    unsigned char *d_labels;
    cudaMalloc((void **)&d_train, train.size() * sizeof(float));
    cudaMalloc((void **)&d_labels, labels.size());
    cudaMalloc((void **)&d_w, NUM_CLASSES * NUM_FEATURES * sizeof(float));
    cudaMalloc((void **)&d_b, NUM_CLASSES * sizeof(float));
    cudaMalloc((void **)&d_gw, NUM_CLASSES * NUM_FEATURES * sizeof(float));
    cudaMalloc((void **)&d_gb, NUM_CLASSES * sizeof(float));
    cudaMalloc((void **)&d_scores, batch_size * NUM_CLASSES * sizeof(float));
    cudaMalloc((void **)&d_loss, sizeof(float));

    cudaMemcpy(d_train, train.data(), train.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels.data(), labels.size(), cudaMemcpyHostToDevice);
    cudaMemset(d_w, 0, NUM_CLASSES * NUM_FEATURES * sizeof(float));
    cudaMemset(d_b, 0, NUM_CLASSES * sizeof(float));

    int num_batches = NUM_TRAIN / batch_size;
    for (int e = 0; e < epochs; ++e) {
        cudaMemset(d_loss, 0, sizeof(float));
        for (int b = 0; b < num_batches; ++b) {
            const float *x = d_train + (size_t)b * batch_size * NUM_FEATURES;
            const unsigned char *y = d_labels + b * batch_size;
            scores_kernel<<<(batch_size * NUM_CLASSES + BLOCK - 1) / BLOCK, BLOCK>>>(x, d_w, d_b, d_scores, batch_size);
            softmax_kernel<<<(batch_size + BLOCK - 1) / BLOCK, BLOCK>>>(d_scores, y, d_loss, batch_size);
            gradient_kernel<<<(NUM_CLASSES * NUM_FEATURES + BLOCK - 1) / BLOCK, BLOCK>>>(x, d_scores, d_gw, d_gb, batch_size);
            update_kernel<<<(NUM_CLASSES * NUM_FEATURES + BLOCK - 1) / BLOCK, BLOCK>>>(
                d_w, d_gw, learning_rate / batch_size, 1e-4f, NUM_CLASSES * NUM_FEATURES);
            update_kernel<<<1, BLOCK>>>(d_b, d_gb, learning_rate / batch_size, 0.f, NUM_CLASSES);
        }
        float loss;
        cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
        printf("epoch %2d  lr %.4f  loss %.5f\n", e + 1, learning_rate, loss / (num_batches * batch_size));
        learning_rate *= 0.8f;
    }

    cudaFree(d_train); cudaFree(d_labels); cudaFree(d_w); cudaFree(d_b);
    cudaFree(d_gw); cudaFree(d_gb); cudaFree(d_scores); cudaFree(d_loss);
    return 0;
}
