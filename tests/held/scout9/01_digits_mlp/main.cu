// Two-layer perceptron for 8x8 digits, trained with plain mini-batch SGD.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_SIZE 64
#define HIDDEN_SIZE 48
#define OUTPUT_SIZE 10
#define BATCH_SIZE 64
#define TRAIN_SIZE 1280
#define EPOCHS 5
#define LEARNING_RATE 0.5f

#define CUDA_CHECK(call)                                                                       \
    do {                                                                                       \
        cudaError_t err = (call);                                                              \
        if (err != cudaSuccess) {                                                              \
            fprintf(stderr, "CUDA error at %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(EXIT_FAILURE);                                                                \
        }                                                                                      \
    } while (0)

typedef struct {
    float *weights1, *bias1, *weights2, *bias2;
    float *grad_weights1, *grad_bias1, *grad_weights2, *grad_bias2;
} NeuralNetwork;

// C[m x n] = A[m x k] * B[k x n]
__global__ void matmul_a_b(const float *A, const float *B, float *C, int m, int k, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++)
            sum += A[row * k + i] * B[i * n + col];
        C[row * n + col] = sum;
    }
}

// C[m x n] = A[m x k] * B[n x k]^T
__global__ void matmul_a_bt(const float *A, const float *B, float *C, int m, int k, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; i++)
            sum += A[row * k + i] * B[col * k + i];
        C[row * n + col] = sum;
    }
}

// C[k x n] = A[m x k]^T * B[m x n]
__global__ void matmul_at_b(const float *A, const float *B, float *C, int m, int k, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < k && col < n) {
        float sum = 0.0f;
        for (int i = 0; i < m; i++)
            sum += A[i * k + row] * B[i * n + col];
        C[row * n + col] = sum;
    }
}

__global__ void bias_forward(float *x, const float *bias, int batch_size, int size)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < batch_size * size)
        x[idx] += bias[idx % size];
}

__global__ void relu_forward(float *x, int n)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n)
        x[idx] = fmaxf(0.0f, x[idx]);
}

__global__ void relu_backward(float *grad, const float *x, int n)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n)
        grad[idx] *= x[idx] > 0.0f ? 1.0f : 0.0f;
}

__global__ void softmax_kernel(float *x, int batch_size, int size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        float mx = x[b * size];
        for (int i = 1; i < size; ++i)
            mx = fmaxf(mx, x[b * size + i]);
        float sum = 0.0f;
        for (int i = 0; i < size; ++i) {
            x[b * size + i] = expf(x[b * size + i] - mx);
            sum += x[b * size + i];
        }
        for (int i = 0; i < size; ++i)
            x[b * size + i] = fmaxf(x[b * size + i] / sum, 1e-7f);
    }
}

__global__ void output_gradient(float *grad, const float *probs, const int *labels, int batch_size)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch_size) {
        for (int i = 0; i < OUTPUT_SIZE; ++i) {
            float y = labels[b] == i ? 1.0f : 0.0f;
            grad[b * OUTPUT_SIZE + i] = (probs[b * OUTPUT_SIZE + i] - y) / batch_size;
        }
    }
}

__global__ void bias_gradient(float *grad_bias, const float *grad, int batch_size, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        float s = 0.0f;
        for (int b = 0; b < batch_size; b++)
            s += grad[b * size + i];
        grad_bias[i] = s;
    }
}

__global__ void update_kernel(float *w, const float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= LEARNING_RATE * g[i];
}

static float frand(void) { return (float)rand() / RAND_MAX; }

// ten noisy prototypes
void load_data(float *X, int *y)
{
    static float proto[OUTPUT_SIZE][INPUT_SIZE];
    for (int c = 0; c < OUTPUT_SIZE; c++)
        for (int j = 0; j < INPUT_SIZE; j++)
            proto[c][j] = frand() < 0.35f ? 1.0f : 0.0f;
    for (int i = 0; i < TRAIN_SIZE; i++) {
        y[i] = rand() % OUTPUT_SIZE;
        for (int j = 0; j < INPUT_SIZE; j++)
            X[i * INPUT_SIZE + j] = proto[y[i]][j] * 0.8f + 0.6f * (frand() - 0.3f);
    }
}

void initialize_weights(float *d_w, int size, int fan_in)
{
    float *w = (float *)malloc(size * sizeof(float));
    float scale = sqrtf(2.0f / fan_in);
    for (int i = 0; i < size; i++)
        w[i] = (frand() * 2.0f - 1.0f) * scale;
    CUDA_CHECK(cudaMemcpy(d_w, w, size * sizeof(float), cudaMemcpyHostToDevice));
    free(w);
}

void initialize_network(NeuralNetwork *nn)
{
    CUDA_CHECK(cudaMalloc(&nn->weights1, INPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->weights2, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->bias1, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->bias2, OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_weights1, INPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_weights2, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_bias1, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&nn->grad_bias2, OUTPUT_SIZE * sizeof(float)));
    initialize_weights(nn->weights1, INPUT_SIZE * HIDDEN_SIZE, INPUT_SIZE);
    initialize_weights(nn->weights2, HIDDEN_SIZE * OUTPUT_SIZE, HIDDEN_SIZE);
    CUDA_CHECK(cudaMemset(nn->bias1, 0, HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMemset(nn->bias2, 0, OUTPUT_SIZE * sizeof(float)));
}

float cross_entropy(const float *probs, const int *labels, int batch_size)
{
    float total = 0.0f;
    for (int b = 0; b < batch_size; b++)
        total -= logf(probs[b * OUTPUT_SIZE + labels[b]]);
    return total / batch_size;
}

void train(NeuralNetwork *nn, float *X_train, int *y_train)
{
    float *d_X, *d_hidden, *d_output, *d_grad_output, *d_grad_hidden;
    int *d_labels;
    CUDA_CHECK(cudaMalloc(&d_X, BATCH_SIZE * INPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_grad_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_grad_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_labels, BATCH_SIZE * sizeof(int)));
    float *h_output = (float *)malloc(BATCH_SIZE * OUTPUT_SIZE * sizeof(float));

    int num_batches = TRAIN_SIZE / BATCH_SIZE;
    dim3 block(16, 16);
    dim3 grid_h((HIDDEN_SIZE + 15) / 16, (BATCH_SIZE + 15) / 16);
    dim3 grid_o((OUTPUT_SIZE + 15) / 16, (BATCH_SIZE + 15) / 16);
    dim3 grid_w1((HIDDEN_SIZE + 15) / 16, (INPUT_SIZE + 15) / 16);
    dim3 grid_w2((OUTPUT_SIZE + 15) / 16, (HIDDEN_SIZE + 15) / 16);

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float total_loss = 0.0f;
        int correct = 0;
        for (int batch = 0; batch < num_batches; batch++) {
            int start_idx = batch * BATCH_SIZE;
            CUDA_CHECK(cudaMemcpy(d_X, &X_train[start_idx * INPUT_SIZE], BATCH_SIZE * INPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(d_labels, &y_train[start_idx], BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));

            // forward
            matmul_a_b<<<grid_h, block>>>(d_X, nn->weights1, d_hidden, BATCH_SIZE, INPUT_SIZE, HIDDEN_SIZE);
            bias_forward<<<(BATCH_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, nn->bias1, BATCH_SIZE, HIDDEN_SIZE);
            relu_forward<<<(BATCH_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(d_hidden, BATCH_SIZE * HIDDEN_SIZE);
            matmul_a_b<<<grid_o, block>>>(d_hidden, nn->weights2, d_output, BATCH_SIZE, HIDDEN_SIZE, OUTPUT_SIZE);
            bias_forward<<<(BATCH_SIZE * OUTPUT_SIZE + 255) / 256, 256>>>(d_output, nn->bias2, BATCH_SIZE, OUTPUT_SIZE);
            softmax_kernel<<<(BATCH_SIZE + 63) / 64, 64>>>(d_output, BATCH_SIZE, OUTPUT_SIZE);
            CUDA_CHECK(cudaMemcpy(h_output, d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float), cudaMemcpyDeviceToHost));

            total_loss += cross_entropy(h_output, &y_train[start_idx], BATCH_SIZE);
            for (int i = 0; i < BATCH_SIZE; i++) {
                int predicted = 0;
                for (int j = 1; j < OUTPUT_SIZE; j++)
                    if (h_output[i * OUTPUT_SIZE + j] > h_output[i * OUTPUT_SIZE + predicted])
                        predicted = j;
                if (predicted == y_train[start_idx + i])
                    correct++;
            }

            // backward
            output_gradient<<<(BATCH_SIZE + 63) / 64, 64>>>(d_grad_output, d_output, d_labels, BATCH_SIZE);
            matmul_at_b<<<grid_w2, block>>>(d_hidden, d_grad_output, nn->grad_weights2, BATCH_SIZE, HIDDEN_SIZE, OUTPUT_SIZE);
            bias_gradient<<<1, 64>>>(nn->grad_bias2, d_grad_output, BATCH_SIZE, OUTPUT_SIZE);
            matmul_a_bt<<<grid_h, block>>>(d_grad_output, nn->weights2, d_grad_hidden, BATCH_SIZE, OUTPUT_SIZE, HIDDEN_SIZE);
            relu_backward<<<(BATCH_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(d_grad_hidden, d_hidden, BATCH_SIZE * HIDDEN_SIZE);
            matmul_at_b<<<grid_w1, block>>>(d_X, d_grad_hidden, nn->grad_weights1, BATCH_SIZE, INPUT_SIZE, HIDDEN_SIZE);
            bias_gradient<<<1, 64>>>(nn->grad_bias1, d_grad_hidden, BATCH_SIZE, HIDDEN_SIZE);

            // update
            update_kernel<<<(INPUT_SIZE * HIDDEN_SIZE + 255) / 256, 256>>>(nn->weights1, nn->grad_weights1, INPUT_SIZE * HIDDEN_SIZE);
            update_kernel<<<1, 256>>>(nn->bias1, nn->grad_bias1, HIDDEN_SIZE);
            update_kernel<<<(HIDDEN_SIZE * OUTPUT_SIZE + 255) / 256, 256>>>(nn->weights2, nn->grad_weights2, HIDDEN_SIZE * OUTPUT_SIZE);
            update_kernel<<<1, 256>>>(nn->bias2, nn->grad_bias2, OUTPUT_SIZE);
        }
        printf("Epoch %d/%d - Loss: %.4f, Accuracy: %.2f%%\n", epoch + 1, EPOCHS, total_loss / num_batches,
               100.0f * correct / (num_batches * BATCH_SIZE));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    cudaFree(d_X); cudaFree(d_hidden); cudaFree(d_output); cudaFree(d_grad_output); cudaFree(d_grad_hidden); cudaFree(d_labels);
    free(h_output);
}

int main(void)
{
    srand(42);
    NeuralNetwork nn;
    float *X_train = (float *)malloc(TRAIN_SIZE * INPUT_SIZE * sizeof(float));
    int *y_train = (int *)malloc(TRAIN_SIZE * sizeof(int));
    load_data(X_train, y_train);
    initialize_network(&nn);
    train(&nn, X_train, y_train);
    cudaFree(nn.weights1); cudaFree(nn.weights2); cudaFree(nn.bias1); cudaFree(nn.bias2);
    cudaFree(nn.grad_weights1); cudaFree(nn.grad_weights2); cudaFree(nn.grad_bias1); cudaFree(nn.grad_bias2);
    free(X_train);
    free(y_train);
    return 0;
}
