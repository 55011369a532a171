// Two layer neural network on the three-arm spiral, everything in plain CUDA.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_POINTS 768
#define BATCH_SIZE 64
#define IN_DIM 2
#define HIDDEN 64
#define CLASSES 3
#define EPOCHS 14
#define LR 0.5f

#define CUDA_CHECK(call)                                                                      \
    do {                                                                                      \
        cudaError_t err_ = (call);                                                            \
        if (err_ != cudaSuccess) {                                                            \
            fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(err_), __FILE__, __LINE__); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

__global__ void linear_forward(const float *x, const float *w, const float *b, float *out, int n, int in, int out_dim)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < out_dim) {
        float s = b[col];
        for (int k = 0; k < in; k++)
            s += x[row * in + k] * w[k * out_dim + col];
        out[row * out_dim + col] = s;
    }
}

__global__ void relu_forward(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = fmaxf(x[i], 0.f);
}

__global__ void softmax_ce(const float *logits, const int *labels, float *dlogits, float *losses, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float m = -1e30f, sum = 0.f;
    for (int c = 0; c < CLASSES; c++)
        m = fmaxf(m, logits[i * CLASSES + c]);
    for (int c = 0; c < CLASSES; c++)
        sum += expf(logits[i * CLASSES + c] - m);
    for (int c = 0; c < CLASSES; c++) {
        float p = expf(logits[i * CLASSES + c] - m) / sum;
        dlogits[i * CLASSES + c] = (p - (labels[i] == c ? 1.f : 0.f)) / n;
        if (labels[i] == c)
            losses[i] = -logf(p + 1e-9f);
    }
}

__global__ void weight_grad(const float *x, const float *dout, float *dw, int n, int in, int out_dim)
{
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < in && c < out_dim) {
        float s = 0.f;
        for (int i = 0; i < n; i++)
            s += x[i * in + r] * dout[i * out_dim + c];
        dw[r * out_dim + c] = s;
    }
}

__global__ void bias_grad(const float *dout, float *db, int n, int out_dim)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < out_dim) {
        float s = 0.f;
        for (int i = 0; i < n; i++)
            s += dout[i * out_dim + c];
        db[c] = s;
    }
}

__global__ void hidden_grad(const float *dout, const float *w, const float *act, float *dx, int n, int in, int out_dim)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && k < in) {
        float s = 0.f;
        for (int c = 0; c < out_dim; c++)
            s += dout[row * out_dim + c] * w[k * out_dim + c];
        dx[row * in + k] = act[row * in + k] > 0.f ? s : 0.f;
    }
}

__global__ void sgd_update(float *w, const float *dw, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * dw[i];
}

static dim3 grid2d(int cols, int rows)
{
    return dim3((cols + 15) / 16, (rows + 15) / 16);
}

static void make_spiral(float *x, int *y)
{
    int per_class = NUM_POINTS / CLASSES;
    for (int c = 0; c < CLASSES; c++)
        for (int i = 0; i < per_class; i++) {
            float r = (float)i / per_class;
            float t = c * 4.f + r * 4.f + 0.15f * ((float)rand() / RAND_MAX - 0.5f);
            int k = i * CLASSES + c;
            x[k * 2] = r * sinf(t);
            x[k * 2 + 1] = r * cosf(t);
            y[k] = c;
        }
}

static void shuffle_data(float *x, int *y)
{
    for (int i = NUM_POINTS - 1; i > 0; i--) {
        int j = rand() % (i + 1);
        float a = x[2 * i], b = x[2 * i + 1];
        int t = y[i];
        x[2 * i] = x[2 * j];
        x[2 * i + 1] = x[2 * j + 1];
        y[i] = y[j];
        x[2 * j] = a;
        x[2 * j + 1] = b;
        y[j] = t;
    }
}

int main(void)
{
    srand(42);
    float *h_x = (float *)malloc(NUM_POINTS * IN_DIM * sizeof(float));
    int *h_y = (int *)malloc(NUM_POINTS * sizeof(int));
    make_spiral(h_x, h_y);

    float *h_w1 = (float *)malloc(IN_DIM * HIDDEN * sizeof(float));
    float *h_w2 = (float *)malloc(HIDDEN * CLASSES * sizeof(float));
    for (int i = 0; i < IN_DIM * HIDDEN; i++)
        h_w1[i] = 2.f * ((float)rand() / RAND_MAX - 0.5f);
    for (int i = 0; i < HIDDEN * CLASSES; i++)
        h_w2[i] = 0.4f * ((float)rand() / RAND_MAX - 0.5f);

    float *d_x, *d_w1, *d_b1, *d_w2, *d_b2, *d_h, *d_logits, *d_loss;
    float *d_dw1, *d_db1, *d_dw2, *d_db2, *d_dh, *d_dlogits;
    int *d_y;
    CUDA_CHECK(cudaMalloc(&d_x, BATCH_SIZE * IN_DIM * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_y, BATCH_SIZE * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_w1, IN_DIM * HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_b1, HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_w2, HIDDEN * CLASSES * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_b2, CLASSES * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_h, BATCH_SIZE * HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_logits, BATCH_SIZE * CLASSES * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_loss, BATCH_SIZE * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dw1, IN_DIM * HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_db1, HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dw2, HIDDEN * CLASSES * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_db2, CLASSES * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dh, BATCH_SIZE * HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dlogits, BATCH_SIZE * CLASSES * sizeof(float)));

    CUDA_CHECK(cudaMemcpy(d_w1, h_w1, IN_DIM * HIDDEN * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_w2, h_w2, HIDDEN * CLASSES * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_b1, 0, HIDDEN * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_b2, 0, CLASSES * sizeof(float)));

    float h_loss[BATCH_SIZE];
    dim3 block(16, 16);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        shuffle_data(h_x, h_y);
        float epoch_loss = 0.f;
        int batches = NUM_POINTS / BATCH_SIZE;
        for (int b = 0; b < batches; b++) {
            CUDA_CHECK(cudaMemcpy(d_x, h_x + b * BATCH_SIZE * IN_DIM, BATCH_SIZE * IN_DIM * sizeof(float), cudaMemcpyHostToDevice));
            CUDA_CHECK(cudaMemcpy(d_y, h_y + b * BATCH_SIZE, BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));

            // forward
            linear_forward<<<grid2d(HIDDEN, BATCH_SIZE), block>>>(d_x, d_w1, d_b1, d_h, BATCH_SIZE, IN_DIM, HIDDEN);
            relu_forward<<<(BATCH_SIZE * HIDDEN + 255) / 256, 256>>>(d_h, BATCH_SIZE * HIDDEN);
            linear_forward<<<grid2d(CLASSES, BATCH_SIZE), block>>>(d_h, d_w2, d_b2, d_logits, BATCH_SIZE, HIDDEN, CLASSES);
            softmax_ce<<<1, BATCH_SIZE>>>(d_logits, d_y, d_dlogits, d_loss, BATCH_SIZE);

            // backward
            weight_grad<<<grid2d(CLASSES, HIDDEN), block>>>(d_h, d_dlogits, d_dw2, BATCH_SIZE, HIDDEN, CLASSES);
            bias_grad<<<1, CLASSES>>>(d_dlogits, d_db2, BATCH_SIZE, CLASSES);
            hidden_grad<<<grid2d(HIDDEN, BATCH_SIZE), block>>>(d_dlogits, d_w2, d_h, d_dh, BATCH_SIZE, HIDDEN, CLASSES);
            weight_grad<<<grid2d(HIDDEN, IN_DIM), block>>>(d_x, d_dh, d_dw1, BATCH_SIZE, IN_DIM, HIDDEN);
            bias_grad<<<1, HIDDEN>>>(d_dh, d_db1, BATCH_SIZE, HIDDEN);

            // update
            sgd_update<<<1, 256>>>(d_w1, d_dw1, LR, IN_DIM * HIDDEN);
            sgd_update<<<1, 256>>>(d_b1, d_db1, LR, HIDDEN);
            sgd_update<<<1, 256>>>(d_w2, d_dw2, LR, HIDDEN * CLASSES);
            sgd_update<<<1, 256>>>(d_b2, d_db2, LR, CLASSES);

            CUDA_CHECK(cudaMemcpy(h_loss, d_loss, BATCH_SIZE * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < BATCH_SIZE; i++)
                epoch_loss += h_loss[i];
        }
        printf("epoch %2d loss %.4f\n", epoch, epoch_loss / (batches * BATCH_SIZE));
    }

    cudaFree(d_x); cudaFree(d_y); cudaFree(d_w1); cudaFree(d_b1); cudaFree(d_w2); cudaFree(d_b2);
    cudaFree(d_h); cudaFree(d_logits); cudaFree(d_loss); cudaFree(d_dw1); cudaFree(d_db1);
    cudaFree(d_dw2); cudaFree(d_db2); cudaFree(d_dh); cudaFree(d_dlogits);
    free(h_x); free(h_y); free(h_w1); free(h_w2);
    return 0;
}
