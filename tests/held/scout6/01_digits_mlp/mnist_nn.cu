// A two layer neural network for digit recognition, trained with plain SGD on the GPU.
// The digits are drawn from 5x7 glyphs onto a 12x12 canvas with jitter and noise.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <cuda_runtime.h>

#define IMG 12
#define INPUT_SIZE (IMG * IMG)
#define HIDDEN_SIZE 40
#define OUTPUT_SIZE 10
#define TRAIN_SIZE 1920
#define TEST_SIZE 320
#define BATCH_SIZE 64
#define EPOCHS 4
#define LEARNING_RATE 0.5f

#define CUDA_CHECK(call)                                                                     \
    do {                                                                                     \
        cudaError_t error = call;                                                            \
        if (error != cudaSuccess) {                                                          \
            fprintf(stderr, "CUDA error at %s:%d: %s\n", __FILE__, __LINE__,                 \
                    cudaGetErrorString(error));                                              \
            exit(EXIT_FAILURE);                                                              \
        }                                                                                    \
    } while (0)

typedef struct {
    float *weights1;
    float *bias1;
    float *weights2;
    float *bias2;
    float *grad_weights1;
    float *grad_bias1;
    float *grad_weights2;
    float *grad_bias2;
} NeuralNetwork;

static const unsigned char glyphs[10][7] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},      {14, 17, 1, 2, 4, 8, 31},
    {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14},
    {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},       {14, 17, 17, 14, 17, 17, 14},
    {14, 17, 17, 15, 1, 2, 12},
};

void make_digits(float *images, int *labels, int n)
{
    for (int i = 0; i < n; i++) {
        int digit = rand() % 10;
        int ox = 2 + rand() % 5, oy = 1 + rand() % 4;
        float *img = images + (size_t)i * INPUT_SIZE;
        for (int p = 0; p < INPUT_SIZE; p++)
            img[p] = 0.15f * (rand() % 100) / 100.0f;
        for (int r = 0; r < 7; r++)
            for (int c = 0; c < 5; c++)
                if (glyphs[digit][r] >> (4 - c) & 1)
                    img[(r + oy) * IMG + c + ox] += 0.7f + 0.15f * (rand() % 100) / 100.0f;
        labels[i] = digit;
    }
}

// C = A * B with A (m x n), B (n x k)
__global__ void matmul_a_b_kernel(float *A, float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < k) {
        float sum = 0.0f;
        for (int i = 0; i < n; ++i)
            sum += A[row * n + i] * B[i * k + col];
        C[row * k + col] = sum;
    }
}

// C = A * B^T with A (m x n), B (k x n)
__global__ void matmul_a_bt_kernel(float *A, float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < k) {
        float sum = 0.0f;
        for (int i = 0; i < n; ++i)
            sum += A[row * n + i] * B[col * n + i];
        C[row * k + col] = sum;
    }
}

// C = A^T * B with A (m x n), B (m x k), C (n x k)
__global__ void matmul_at_b_kernel(float *A, float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < k) {
        float sum = 0.0f;
        for (int i = 0; i < m; ++i)
            sum += A[i * n + row] * B[i * k + col];
        C[row * k + col] = sum;
    }
}

__global__ void relu_kernel(float *x, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < size)
        x[idx] = fmaxf(0.0f, x[idx]);
}

__global__ void bias_add_kernel(float *x, float *bias, int batch_size, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < batch_size * size)
        x[idx] += bias[idx % size];
}

__global__ void softmax_kernel(float *x, int batch_size, int size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        float max = x[b * size];
        for (int i = 1; i < size; ++i)
            max = fmaxf(max, x[b * size + i]);
        float sum = 0.0f;
        for (int i = 0; i < size; ++i) {
            x[b * size + i] = expf(x[b * size + i] - max);
            sum += x[b * size + i];
        }
        for (int i = 0; i < size; ++i)
            x[b * size + i] = fmaxf(x[b * size + i] / sum, 1e-7f);
    }
}

__global__ void output_gradients_kernel(float *grad_output, float *output, int *labels, int batch_size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        for (int i = 0; i < OUTPUT_SIZE; ++i)
            grad_output[b * OUTPUT_SIZE + i] = output[b * OUTPUT_SIZE + i];
        grad_output[b * OUTPUT_SIZE + labels[b]] -= 1.0f;
        for (int i = 0; i < OUTPUT_SIZE; ++i)
            grad_output[b * OUTPUT_SIZE + i] /= batch_size;
    }
}

__global__ void drelu_kernel(float *x, float *d, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < size)
        d[idx] *= x[idx] > 0 ? 1.0f : 0.0f;
}

__global__ void bias_gradient_kernel(float *grad_output, float *grad_bias, int batch_size, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        float sum = 0.0f;
        for (int b = 0; b < batch_size; ++b)
            sum += grad_output[b * size + i];
        grad_bias[i] = sum;
    }
}

__global__ void update_kernel(float *weights, float *grad, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < size)
        weights[idx] -= LEARNING_RATE * grad[idx];
}

static dim3 grid2(int cols, int rows) { return dim3((cols + 15) / 16, (rows + 15) / 16); }

void forward(NeuralNetwork *nn, float *d_input, float *d_hidden, float *d_output, int batch_size)
{
    dim3 block(16, 16);
    matmul_a_b_kernel<<<grid2(HIDDEN_SIZE, batch_size), block>>>(d_input, nn->weights1, d_hidden, batch_size,
                                                                 INPUT_SIZE, HIDDEN_SIZE);
    bias_add_kernel<<<(batch_size * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, nn->bias1, batch_size, HIDDEN_SIZE);
    relu_kernel<<<(batch_size * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, batch_size * HIDDEN_SIZE);
    matmul_a_b_kernel<<<grid2(OUTPUT_SIZE, batch_size), block>>>(d_hidden, nn->weights2, d_output, batch_size,
                                                                 HIDDEN_SIZE, OUTPUT_SIZE);
    bias_add_kernel<<<(batch_size * OUTPUT_SIZE + 255) / 256, 256>>>(d_output, nn->bias2, batch_size, OUTPUT_SIZE);
    softmax_kernel<<<(batch_size + 63) / 64, 64>>>(d_output, batch_size, OUTPUT_SIZE);
}

void backward(NeuralNetwork *nn, float *d_input, float *d_hidden, float *d_output, int *d_labels,
              float *d_grad_output, float *d_dhidden, int batch_size)
{
    dim3 block(16, 16);
    output_gradients_kernel<<<(batch_size + 63) / 64, 64>>>(d_grad_output, d_output, d_labels, batch_size);
    matmul_at_b_kernel<<<grid2(OUTPUT_SIZE, HIDDEN_SIZE), block>>>(d_hidden, d_grad_output, nn->grad_weights2,
                                                                   batch_size, HIDDEN_SIZE, OUTPUT_SIZE);
    bias_gradient_kernel<<<1, OUTPUT_SIZE>>>(d_grad_output, nn->grad_bias2, batch_size, OUTPUT_SIZE);
    matmul_a_bt_kernel<<<grid2(HIDDEN_SIZE, batch_size), block>>>(d_grad_output, nn->weights2, d_dhidden, batch_size,
                                                                  OUTPUT_SIZE, HIDDEN_SIZE);
    drelu_kernel<<<(batch_size * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, d_dhidden, batch_size * HIDDEN_SIZE);
    matmul_at_b_kernel<<<grid2(HIDDEN_SIZE, INPUT_SIZE), block>>>(d_input, d_dhidden, nn->grad_weights1, batch_size,
                                                                  INPUT_SIZE, HIDDEN_SIZE);
    bias_gradient_kernel<<<1, HIDDEN_SIZE>>>(d_dhidden, nn->grad_bias1, batch_size, HIDDEN_SIZE);
}

void update_weights(NeuralNetwork *nn)
{
    update_kernel<<<(HIDDEN_SIZE * INPUT_SIZE + 255) / 256, 256>>>(nn->weights1, nn->grad_weights1,
                                                                   HIDDEN_SIZE * INPUT_SIZE);
    update_kernel<<<1, 256>>>(nn->bias1, nn->grad_bias1, HIDDEN_SIZE);
    update_kernel<<<(OUTPUT_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(nn->weights2, nn->grad_weights2,
                                                                    OUTPUT_SIZE * HIDDEN_SIZE);
    update_kernel<<<1, 256>>>(nn->bias2, nn->grad_bias2, OUTPUT_SIZE);
}

float cross_entropy_loss(float *output, int *labels, int batch_size)
{
    float total_loss = 0.0f;
    for (int b = 0; b < batch_size; b++)
        total_loss -= logf(fmaxf(output[b * OUTPUT_SIZE + labels[b]], 1e-7f));
    return total_loss / batch_size;
}

float evaluate_accuracy(NeuralNetwork *nn, float *d_input, float *d_hidden, float *d_output, float *X, int *y, int n)
{
    int correct = 0;
    float *output = (float *)malloc(BATCH_SIZE * OUTPUT_SIZE * sizeof(float));
    for (int batch = 0; batch < n / BATCH_SIZE; batch++) {
        int start = batch * BATCH_SIZE;
        CUDA_CHECK(cudaMemcpy(d_input, &X[start * INPUT_SIZE], BATCH_SIZE * INPUT_SIZE * sizeof(float),
                              cudaMemcpyHostToDevice));
        forward(nn, d_input, d_hidden, d_output, BATCH_SIZE);
        CUDA_CHECK(cudaMemcpy(output, d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < BATCH_SIZE; i++) {
            int best = 0;
            for (int j = 1; j < OUTPUT_SIZE; j++)
                if (output[i * OUTPUT_SIZE + j] > output[i * OUTPUT_SIZE + best])
                    best = j;
            correct += best == y[start + i];
        }
    }
    free(output);
    return 100.0f * correct / (n / BATCH_SIZE * BATCH_SIZE);
}

void train(NeuralNetwork *nn, float *X_train, int *y_train, float *X_test, int *y_test)
{
    float *d_X, *d_hidden, *d_output, *d_grad_output, *d_dhidden;
    int *d_labels;
    CUDA_CHECK(cudaMalloc(&d_X, BATCH_SIZE * INPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_grad_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dhidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_labels, BATCH_SIZE * sizeof(int)));
    float *h_output = (float *)malloc(BATCH_SIZE * OUTPUT_SIZE * sizeof(float));

    int num_batches = TRAIN_SIZE / BATCH_SIZE;
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        float total_loss = 0.0f;
        for (int batch = 0; batch < num_batches; ++batch) {
            int start_idx = batch * BATCH_SIZE;
            CUDA_CHECK(cudaMemcpy(d_X, &X_train[start_idx * INPUT_SIZE], BATCH_SIZE * INPUT_SIZE * sizeof(float),
                                  cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(d_labels, &y_train[start_idx], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));

            forward(nn, d_X, d_hidden, d_output, BATCH_SIZE);
            CUDA_CHECK(cudaMemcpy(h_output, d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float),
                                  cudaMemcpyDeviceToHost));
            total_loss += cross_entropy_loss(h_output, &y_train[start_idx], BATCH_SIZE);

            backward(nn, d_X, d_hidden, d_output, d_labels, d_grad_output, d_dhidden, BATCH_SIZE);
            update_weights(nn);
        }
        printf("Epoch %d/%d, Loss: %.4f, Test accuracy: %.2f%%\n", epoch + 1, EPOCHS, total_loss / num_batches,
               evaluate_accuracy(nn, d_X, d_hidden, d_output, X_test, y_test, TEST_SIZE));
    }

    free(h_output);
    cudaFree(d_X);
    cudaFree(d_hidden);
    cudaFree(d_output);
    cudaFree(d_grad_output);
    cudaFree(d_dhidden);
    cudaFree(d_labels);
}

void initialize_weights(float *weights, int fan_in, int size)
{
    float scale = sqrtf(2.0f / fan_in);
    for (int i = 0; i < size; i++)
        weights[i] = ((float)rand() / RAND_MAX) * 2.0f * scale - scale;
}

void initialize_neural_network(NeuralNetwork *nn)
{
    CUDA_CHECK(cudaMalloc(&nn->weights1, HIDDEN_SIZE * INPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->weights2, OUTPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->bias1, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->bias2, OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_weights1, HIDDEN_SIZE * INPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_weights2, OUTPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_bias1, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_bias2, OUTPUT_SIZE * sizeof(float)));

    float *h_weights1 = (float *)malloc(HIDDEN_SIZE * INPUT_SIZE * sizeof(float));
    float *h_weights2 = (float *)malloc(OUTPUT_SIZE * HIDDEN_SIZE * sizeof(float));
    initialize_weights(h_weights1, INPUT_SIZE, HIDDEN_SIZE * INPUT_SIZE);
    initialize_weights(h_weights2, HIDDEN_SIZE, OUTPUT_SIZE * HIDDEN_SIZE);
    CUDA_CHECK(cudaMemcpy(nn->weights1, h_weights1, HIDDEN_SIZE * INPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(nn->weights2, h_weights2, OUTPUT_SIZE * HIDDEN_SIZE * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(nn->bias1, 0, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMemset(nn->bias2, 0, OUTPUT_SIZE * sizeof(float)));
    free(h_weights1);
    free(h_weights2);
}

int main(void)
{
    srand(1234);
    NeuralNetwork nn;
    initialize_neural_network(&nn);

    float *X_train = (float *)malloc(TRAIN_SIZE * INPUT_SIZE * sizeof(float));
    int *y_train = (int *)malloc(TRAIN_SIZE * sizeof(int));
    float *X_test = (float *)malloc(TEST_SIZE * INPUT_SIZE * sizeof(float));
    int *y_test = (int *)malloc(TEST_SIZE * sizeof(int));
    make_digits(X_train, y_train, TRAIN_SIZE);
    make_digits(X_test, y_test, TEST_SIZE);

    train(&nn, X_train, y_train, X_test, y_test);

    cudaFree(nn.weights1);
    cudaFree(nn.weights2);
    cudaFree(nn.bias1);
    cudaFree(nn.bias2);
    cudaFree(nn.grad_weights1);
    cudaFree(nn.grad_weights2);
    cudaFree(nn.grad_bias1);
    cudaFree(nn.grad_bias2);
    free(X_train);
    free(y_train);
    free(X_test);
    free(y_test);
    return 0;
}
