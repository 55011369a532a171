// Two layer perceptron for 12x12 digit-like images, trained with minibatch SGD.
// Images are synthesised so that the program runs without the MNIST files.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define INPUT_SIZE 144
#define HIDDEN_SIZE 64
#define OUTPUT_SIZE 10
#define TRAIN_SIZE 1024
#define TEST_SIZE 256
#define BATCH_SIZE 64
#define EPOCHS 5
#define LEARNING_RATE 0.2f

#define CUDA_CHECK(call)                                                                        \
    do {                                                                                        \
        cudaError_t err = call;                                                                 \
        if (err != cudaSuccess) {                                                               \
            fprintf(stderr, "CUDA error in %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(EXIT_FAILURE);                                                                 \
        }                                                                                       \
    } while (0)

typedef struct {
    float *weights1;
    float *weights2;
    float *bias1;
    float *bias2;
    float *grad_weights1;
    float *grad_weights2;
    float *grad_bias1;
    float *grad_bias2;
} NeuralNetwork;

__global__ void matmul_a_b_kernel(const float *A, const float *B, float *C, int m, int n, int k)
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

// C = A @ B^T
__global__ void matmul_a_bt_kernel(const float *A, const float *B, float *C, int m, int n, int k)
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

// C = A^T @ B
__global__ void matmul_at_b_kernel(const float *A, const float *B, float *C, int m, int n, int k)
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

__global__ void bias_add_kernel(float *x, const float *bias, int batch_size, int size)
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
            x[b * size + i] /= sum;
    }
}

__global__ void compute_output_gradients_kernel(float *grad_output, const float *output, const int *labels, int batch_size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        for (int i = 0; i < OUTPUT_SIZE; ++i)
            grad_output[b * OUTPUT_SIZE + i] =
                (output[b * OUTPUT_SIZE + i] - (i == labels[b] ? 1.0f : 0.0f)) / batch_size;
    }
}

__global__ void drelu_kernel(const float *x, float *d, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < size)
        d[idx] = x[idx] > 0.0f ? d[idx] : 0.0f;
}

__global__ void bias_backward_kernel(float *grad_bias, const float *grad_output, int batch_size, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        grad_bias[i] = 0.0f;
        for (int b = 0; b < batch_size; b++)
            grad_bias[i] += grad_output[b * size + i];
    }
}

__global__ void update_gradients_kernel(float *weights, const float *grad, float lr, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < size)
        weights[idx] -= lr * grad[idx];
}

static void initialize_weights(float *weights, int size, float scale)
{
    for (int i = 0; i < size; i++)
        weights[i] = ((float)rand() / RAND_MAX * 2.0f - 1.0f) * scale;
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
    initialize_weights(h_weights1, HIDDEN_SIZE * INPUT_SIZE, sqrtf(2.0f / INPUT_SIZE));
    initialize_weights(h_weights2, OUTPUT_SIZE * HIDDEN_SIZE, sqrtf(2.0f / HIDDEN_SIZE));
    CUDA_CHECK(cudaMemcpy(nn->weights1, h_weights1, HIDDEN_SIZE * INPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(nn->weights2, h_weights2, OUTPUT_SIZE * HIDDEN_SIZE * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(nn->bias1, 0, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMemset(nn->bias2, 0, OUTPUT_SIZE * sizeof(float)));
    free(h_weights1);
    free(h_weights2);
}

static void make_digits(float *x, int *y, int n)
{
    static float proto[OUTPUT_SIZE][INPUT_SIZE];
    static int have = 0;
    if (!have) {
        for (int c = 0; c < OUTPUT_SIZE; c++)
            for (int i = 0; i < INPUT_SIZE; i++)
                proto[c][i] = rand() % 4 == 0 ? 1.0f : 0.0f;
        have = 1;
    }
    for (int s = 0; s < n; s++) {
        y[s] = rand() % OUTPUT_SIZE;
        for (int i = 0; i < INPUT_SIZE; i++)
            x[s * INPUT_SIZE + i] = 0.6f * proto[y[s]][i] + 0.5f * ((float)rand() / RAND_MAX);
    }
}

void forward_pass(NeuralNetwork *nn, float *d_input, float *d_hidden, float *d_output, int batch_size)
{
    dim3 block(16, 16);
    dim3 grid1((HIDDEN_SIZE + 15) / 16, (batch_size + 15) / 16);
    matmul_a_b_kernel<<<grid1, block>>>(d_input, nn->weights1, d_hidden, batch_size, INPUT_SIZE, HIDDEN_SIZE);
    bias_add_kernel<<<(batch_size * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, nn->bias1, batch_size, HIDDEN_SIZE);
    relu_kernel<<<(batch_size * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, batch_size * HIDDEN_SIZE);

    dim3 grid2((OUTPUT_SIZE + 15) / 16, (batch_size + 15) / 16);
    matmul_a_b_kernel<<<grid2, block>>>(d_hidden, nn->weights2, d_output, batch_size, HIDDEN_SIZE, OUTPUT_SIZE);
    bias_add_kernel<<<(batch_size * OUTPUT_SIZE + 255) / 256, 256>>>(d_output, nn->bias2, batch_size, OUTPUT_SIZE);
    softmax_kernel<<<(batch_size + 63) / 64, 64>>>(d_output, batch_size, OUTPUT_SIZE);
    CUDA_CHECK(cudaGetLastError());
}

float cross_entropy_loss(const float *output, const int *labels, int batch_size)
{
    float total = 0.0f;
    for (int b = 0; b < batch_size; b++)
        total -= logf(fmaxf(output[b * OUTPUT_SIZE + labels[b]], 1e-7f));
    return total / batch_size;
}

void backward_pass(NeuralNetwork *nn, float *d_input, float *d_hidden, float *d_output, int *d_labels, float *d_grad_output,
                   float *d_dhidden, int batch_size)
{
    dim3 block(16, 16);
    compute_output_gradients_kernel<<<(batch_size + 63) / 64, 64>>>(d_grad_output, d_output, d_labels, batch_size);

    dim3 g2((OUTPUT_SIZE + 15) / 16, (HIDDEN_SIZE + 15) / 16);
    matmul_at_b_kernel<<<g2, block>>>(d_hidden, d_grad_output, nn->grad_weights2, batch_size, HIDDEN_SIZE, OUTPUT_SIZE);
    bias_backward_kernel<<<1, 64>>>(nn->grad_bias2, d_grad_output, batch_size, OUTPUT_SIZE);

    dim3 gh((HIDDEN_SIZE + 15) / 16, (batch_size + 15) / 16);
    matmul_a_bt_kernel<<<gh, block>>>(d_grad_output, nn->weights2, d_dhidden, batch_size, OUTPUT_SIZE, HIDDEN_SIZE);
    drelu_kernel<<<(batch_size * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, d_dhidden, batch_size * HIDDEN_SIZE);

    dim3 g1((HIDDEN_SIZE + 15) / 16, (INPUT_SIZE + 15) / 16);
    matmul_at_b_kernel<<<g1, block>>>(d_input, d_dhidden, nn->grad_weights1, batch_size, INPUT_SIZE, HIDDEN_SIZE);
    bias_backward_kernel<<<1, 64>>>(nn->grad_bias1, d_dhidden, batch_size, HIDDEN_SIZE);
    CUDA_CHECK(cudaGetLastError());
}

void update_weights(NeuralNetwork *nn)
{
    int block = 256;
    update_gradients_kernel<<<(HIDDEN_SIZE * INPUT_SIZE + block - 1) / block, block>>>(nn->weights1, nn->grad_weights1, LEARNING_RATE, HIDDEN_SIZE * INPUT_SIZE);
    update_gradients_kernel<<<(OUTPUT_SIZE * HIDDEN_SIZE + block - 1) / block, block>>>(nn->weights2, nn->grad_weights2, LEARNING_RATE, OUTPUT_SIZE * HIDDEN_SIZE);
    update_gradients_kernel<<<1, block>>>(nn->bias1, nn->grad_bias1, LEARNING_RATE, HIDDEN_SIZE);
    update_gradients_kernel<<<1, block>>>(nn->bias2, nn->grad_bias2, LEARNING_RATE, OUTPUT_SIZE);
    CUDA_CHECK(cudaGetLastError());
}

void evaluate(NeuralNetwork *nn, float *X, int *y, int n, float *d_input, float *d_hidden, float *d_output)
{
    static float h_out[BATCH_SIZE * OUTPUT_SIZE];
    int correct = 0;
    for (int i = 0; i + BATCH_SIZE <= n; i += BATCH_SIZE) {
        CUDA_CHECK(cudaMemcpy(d_input, &X[i * INPUT_SIZE], BATCH_SIZE * INPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
        forward_pass(nn, d_input, d_hidden, d_output, BATCH_SIZE);
        CUDA_CHECK(cudaMemcpy(h_out, d_output, sizeof(h_out), cudaMemcpyDeviceToHost));
        for (int b = 0; b < BATCH_SIZE; b++) {
            int best = 0;
            for (int c = 1; c < OUTPUT_SIZE; c++)
                if (h_out[b * OUTPUT_SIZE + c] > h_out[b * OUTPUT_SIZE + best])
                    best = c;
            correct += best == y[i + b];
        }
    }
    printf("  test accuracy %.2f%%\n", 100.0f * correct / n);
}

void train(NeuralNetwork *nn, float *X_train, int *y_train, float *X_test, int *y_test)
{
    float *d_input, *d_hidden, *d_output, *d_grad_output, *d_dhidden;
    int *d_labels;
    CUDA_CHECK(cudaMalloc(&d_input, BATCH_SIZE * INPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_grad_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dhidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_labels, BATCH_SIZE * sizeof(int)));
    float *h_output = (float *)malloc(BATCH_SIZE * OUTPUT_SIZE * sizeof(float));

    int num_batches = TRAIN_SIZE / BATCH_SIZE;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float total_loss = 0.0f;
        for (int batch = 0; batch < num_batches; batch++) {
            int start_idx = batch * BATCH_SIZE;
            CUDA_CHECK(cudaMemcpy(d_input, &X_train[start_idx * INPUT_SIZE], BATCH_SIZE * INPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(d_labels, &y_train[start_idx], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));
            forward_pass(nn, d_input, d_hidden, d_output, BATCH_SIZE);
            CUDA_CHECK(cudaMemcpy(h_output, d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = cross_entropy_loss(h_output, &y_train[start_idx], BATCH_SIZE);
            total_loss += loss;
            backward_pass(nn, d_input, d_hidden, d_output, d_labels, d_grad_output, d_dhidden, BATCH_SIZE);
            update_weights(nn);
        }
        printf("Epoch %d/%d, loss %.4f\n", epoch + 1, EPOCHS, total_loss / num_batches);
        evaluate(nn, X_test, y_test, TEST_SIZE, d_input, d_hidden, d_output);
    }
    free(h_output);
    cudaFree(d_input); cudaFree(d_hidden); cudaFree(d_output);
    cudaFree(d_grad_output); cudaFree(d_dhidden); cudaFree(d_labels);
}

int main(void)
{
    srand(42);
    NeuralNetwork nn;
    initialize_neural_network(&nn);
    float *X_train = (float *)malloc(TRAIN_SIZE * INPUT_SIZE * sizeof(float));
    int *y_train = (int *)malloc(TRAIN_SIZE * sizeof(int));
    float *X_test = (float *)malloc(TEST_SIZE * INPUT_SIZE * sizeof(float));
    int *y_test = (int *)malloc(TEST_SIZE * sizeof(int));
    make_digits(X_train, y_train, TRAIN_SIZE);
    make_digits(X_test, y_test, TEST_SIZE);
    train(&nn, X_train, y_train, X_test, y_test);
    free(X_train); free(y_train); free(X_test); free(y_test);
    return 0;
}
