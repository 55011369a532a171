// Two-layer perceptron on 8x8 digits. Assignment 3.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_SIZE 64
#define HIDDEN_SIZE 48
#define OUTPUT_SIZE 10
#define BATCH_SIZE 64
#define TRAIN_SIZE 1024
#define EPOCHS 8
#define LEARNING_RATE 0.3f

#define CHECK(call)                                                                           \
    {                                                                                         \
        cudaError_t err = (call);                                                             \
        if (err != cudaSuccess) {                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err));      \
            exit(EXIT_FAILURE);                                                               \
        }                                                                                     \
    }

// C[M,N] = A[M,K] * B[K,N] + bias[N]
__global__ void matmul_bias(const float *A, const float *B, const float *bias, float *C, int M, int K, int N)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float sum = bias[col];
        for (int k = 0; k < K; k++)
            sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}

// C[K,N] = A[M,K]^T * B[M,N]
__global__ void matmul_at_b(const float *A, const float *B, float *C, int M, int K, int N)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < K && col < N) {
        float sum = 0.0f;
        for (int m = 0; m < M; m++)
            sum += A[m * K + row] * B[m * N + col];
        C[row * N + col] = sum;
    }
}

// C[M,K] = A[M,N] * B[K,N]^T
__global__ void matmul_a_bt(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < K) {
        float sum = 0.0f;
        for (int n = 0; n < N; n++)
            sum += A[row * N + n] * B[col * N + n];
        C[row * K + col] = sum;
    }
}

__global__ void relu(float *x, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        x[i] = fmaxf(0.0f, x[i]);
}

__global__ void relu_derivative(float *dx, const float *x, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size && x[i] <= 0.0f)
        dx[i] = 0.0f;
}

__global__ void softmax(float *x, int batch_size, int size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        float m = x[b * size];
        for (int i = 1; i < size; ++i)
            m = fmaxf(m, x[b * size + i]);
        float sum = 0.0f;
        for (int i = 0; i < size; ++i) {
            x[b * size + i] = expf(x[b * size + i] - m);
            sum += x[b * size + i];
        }
        for (int i = 0; i < size; ++i)
            x[b * size + i] /= sum;
    }
}

__global__ void output_gradient(float *grad, const float *prob, const int *labels, int batch_size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        for (int i = 0; i < OUTPUT_SIZE; ++i)
            grad[b * OUTPUT_SIZE + i] = (prob[b * OUTPUT_SIZE + i] - (i == labels[b] ? 1.0f : 0.0f)) / batch_size;
    }
}

__global__ void bias_gradient(float *db, const float *grad, int batch_size, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        db[i] = 0.0f;
        for (int b = 0; b < batch_size; b++)
            db[i] += grad[b * size + i];
    }
}

__global__ void update(float *w, const float *dw, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        w[i] -= LEARNING_RATE * dw[i];
}

typedef struct {
    float *weights1, *weights2, *bias1, *bias2;
    float *grad_weights1, *grad_weights2, *grad_bias1, *grad_bias2;
} NeuralNetwork;

static void he_init(float *w, int fan_in, int n)
{
    for (int i = 0; i < n; i++)
        w[i] = ((float)rand() / RAND_MAX * 2.0f - 1.0f) * sqrtf(6.0f / fan_in);
}

void init_network(NeuralNetwork *nn)
{
    CHECK(cudaMalloc(&nn->weights1, INPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->weights2, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->bias1, HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->bias2, OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->grad_weights1, INPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->grad_weights2, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->grad_bias1, HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&nn->grad_bias2, OUTPUT_SIZE * sizeof(float)));

    float *h = (float *)malloc(INPUT_SIZE * HIDDEN_SIZE * sizeof(float));
    he_init(h, INPUT_SIZE, INPUT_SIZE * HIDDEN_SIZE);
    CHECK(cudaMemcpy(nn->weights1, h, INPUT_SIZE * HIDDEN_SIZE * sizeof(float), cudaMemcpyHostToDevice));
    he_init(h, HIDDEN_SIZE, HIDDEN_SIZE * OUTPUT_SIZE);
    CHECK(cudaMemcpy(nn->weights2, h, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    CHECK(cudaMemset(nn->bias1, 0, HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMemset(nn->bias2, 0, OUTPUT_SIZE * sizeof(float)));
}

void make_digits(float *X, int *y, int n)
{
    float proto[OUTPUT_SIZE][INPUT_SIZE];
    for (int c = 0; c < OUTPUT_SIZE; c++)
        for (int j = 0; j < INPUT_SIZE; j++)
            proto[c][j] = rand() % 3 == 0 ? 1.0f : 0.0f;
    for (int i = 0; i < n; i++) {
        y[i] = rand() % OUTPUT_SIZE;
        for (int j = 0; j < INPUT_SIZE; j++)
            X[i * INPUT_SIZE + j] = proto[y[i]][j] + 0.8f * ((float)rand() / RAND_MAX - 0.5f);
    }
}

void train(NeuralNetwork *nn, const float *X_train, const int *y_train)
{
    float *d_input, *d_hidden, *d_output, *d_grad_output, *d_grad_hidden;
    int *d_labels;
    CHECK(cudaMalloc(&d_input, BATCH_SIZE * INPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&d_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&d_grad_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&d_grad_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc(&d_labels, BATCH_SIZE * sizeof(int)));
    float *h_output = (float *)malloc(BATCH_SIZE * OUTPUT_SIZE * sizeof(float));

    int num_batches = TRAIN_SIZE / BATCH_SIZE;
    dim3 block(16, 16);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float total_loss = 0.0f;
        int correct = 0;
        for (int batch = 0; batch < num_batches; batch++) {
            int start_idx = batch * BATCH_SIZE;
            CHECK(cudaMemcpy(d_input, &X_train[start_idx * INPUT_SIZE], BATCH_SIZE * INPUT_SIZE * sizeof(float),
                             cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(d_labels, &y_train[start_idx], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));

            // forward
            dim3 g1((HIDDEN_SIZE + 15) / 16, (BATCH_SIZE + 15) / 16);
            matmul_bias<<<g1, block>>>(d_input, nn->weights1, nn->bias1, d_hidden, BATCH_SIZE, INPUT_SIZE, HIDDEN_SIZE);
            relu<<<(BATCH_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, BATCH_SIZE * HIDDEN_SIZE);
            dim3 g2((OUTPUT_SIZE + 15) / 16, (BATCH_SIZE + 15) / 16);
            matmul_bias<<<g2, block>>>(d_hidden, nn->weights2, nn->bias2, d_output, BATCH_SIZE, HIDDEN_SIZE,
                                       OUTPUT_SIZE);
            softmax<<<(BATCH_SIZE + 63) / 64, 64>>>(d_output, BATCH_SIZE, OUTPUT_SIZE);

            CHECK(cudaMemcpy(h_output, d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < BATCH_SIZE; i++) {
                int label = y_train[start_idx + i], best = 0;
                total_loss -= logf(fmaxf(h_output[i * OUTPUT_SIZE + label], 1e-7f));
                for (int j = 1; j < OUTPUT_SIZE; j++)
                    if (h_output[i * OUTPUT_SIZE + j] > h_output[i * OUTPUT_SIZE + best])
                        best = j;
                correct += best == label;
            }

            // backward
            output_gradient<<<(BATCH_SIZE + 63) / 64, 64>>>(d_grad_output, d_output, d_labels, BATCH_SIZE);
            dim3 g3((OUTPUT_SIZE + 15) / 16, (HIDDEN_SIZE + 15) / 16);
            matmul_at_b<<<g3, block>>>(d_hidden, d_grad_output, nn->grad_weights2, BATCH_SIZE, HIDDEN_SIZE,
                                       OUTPUT_SIZE);
            bias_gradient<<<1, 64>>>(nn->grad_bias2, d_grad_output, BATCH_SIZE, OUTPUT_SIZE);
            matmul_a_bt<<<g1, block>>>(d_grad_output, nn->weights2, d_grad_hidden, BATCH_SIZE, OUTPUT_SIZE,
                                       HIDDEN_SIZE);
            relu_derivative<<<(BATCH_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(d_grad_hidden, d_hidden,
                                                                             BATCH_SIZE * HIDDEN_SIZE);
            dim3 g4((HIDDEN_SIZE + 15) / 16, (INPUT_SIZE + 15) / 16);
            matmul_at_b<<<g4, block>>>(d_input, d_grad_hidden, nn->grad_weights1, BATCH_SIZE, INPUT_SIZE, HIDDEN_SIZE);
            bias_gradient<<<1, 64>>>(nn->grad_bias1, d_grad_hidden, BATCH_SIZE, HIDDEN_SIZE);

            // update
            update<<<(INPUT_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(nn->weights1, nn->grad_weights1,
                                                                    INPUT_SIZE * HIDDEN_SIZE);
            update<<<1, 256>>>(nn->bias1, nn->grad_bias1, HIDDEN_SIZE);
            update<<<(HIDDEN_SIZE * OUTPUT_SIZE + 255) / 256, 256>>>(nn->weights2, nn->grad_weights2,
                                                                     HIDDEN_SIZE * OUTPUT_SIZE);
            update<<<1, 256>>>(nn->bias2, nn->grad_bias2, OUTPUT_SIZE);
        }
        printf("Epoch %d/%d, Loss: %.4f, Accuracy: %.2f%%\n", epoch + 1, EPOCHS, total_loss / TRAIN_SIZE,
               100.0f * correct / TRAIN_SIZE);
    }
    free(h_output);
    cudaFree(d_input);
    cudaFree(d_hidden);
    cudaFree(d_output);
    cudaFree(d_grad_output);
    cudaFree(d_grad_hidden);
    cudaFree(d_labels);
}

int main()
{
    srand(1234);
    float *X_train = (float *)malloc(TRAIN_SIZE * INPUT_SIZE * sizeof(float));
    int *y_train = (int *)malloc(TRAIN_SIZE * sizeof(int));
    make_digits(X_train, y_train, TRAIN_SIZE);

    NeuralNetwork nn;
    init_network(&nn);
    train(&nn, X_train, y_train);
    CHECK(cudaDeviceSynchronize());

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
    return 0;
}
