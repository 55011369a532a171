// Tiny neural network for the two moons data set: 2 -> 22 -> 2, plain gradient descent.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N_SAMPLES 480
#define BATCH 40
#define HIDDEN 22
#define EPOCHS 5
#define LR 0.5f

float *d_w1, *d_b1, *d_w2, *d_b2;
float *d_dw1, *d_db1, *d_dw2, *d_db2;
float *d_hidden, *d_dhidden, *d_prob, *d_dout, *d_loss;

__global__ void hidden_layer(const float *x, const float *w, const float *b, float *h, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n * HIDDEN) return;
    int i = idx / HIDDEN, j = idx % HIDDEN;
    h[idx] = tanhf(x[2 * i] * w[j] + x[2 * i + 1] * w[HIDDEN + j] + b[j]);
}

__global__ void output_layer(const float *h, const float *w, const float *b, const int *y, float *prob, float *dout,
                             float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z0 = b[0], z1 = b[1];
    for (int j = 0; j < HIDDEN; j++) {
        z0 += h[i * HIDDEN + j] * w[2 * j];
        z1 += h[i * HIDDEN + j] * w[2 * j + 1];
    }
    float p1 = 1.0f / (1.0f + expf(z0 - z1));
    prob[2 * i] = 1.0f - p1;
    prob[2 * i + 1] = p1;
    dout[2 * i] = (prob[2 * i] - (y[i] == 0)) / n;
    dout[2 * i + 1] = (prob[2 * i + 1] - (y[i] == 1)) / n;
    loss[i] = -logf(prob[2 * i + y[i]] + 1e-8f);
}

__global__ void backprop_hidden(const float *dout, const float *w, const float *h, float *dh, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n * HIDDEN) return;
    int i = idx / HIDDEN, j = idx % HIDDEN;
    float s = dout[2 * i] * w[2 * j] + dout[2 * i + 1] * w[2 * j + 1];
    dh[idx] = s * (1.0f - h[idx] * h[idx]);
}

// dw[in][out] = x^T * delta, db = column sums of delta
__global__ void weight_grad(const float *x, const float *delta, float *dw, float *db, int n, int in, int out) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < in * out) {
        int r = idx / out, c = idx % out;
        float s = 0.0f;
        for (int i = 0; i < n; i++) s += x[i * in + r] * delta[i * out + c];
        dw[idx] = s;
    }
    if (idx < out) {
        float s = 0.0f;
        for (int i = 0; i < n; i++) s += delta[i * out + idx];
        db[idx] = s;
    }
}

__global__ void gradient_descent(float *p, const float *g, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * g[i];
}

void random_init(float *d, int n, float scale) {
    float *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = scale * (2.0f * rand() / RAND_MAX - 1.0f);
    cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
}

int main() {
    srand(42);
    float *x = (float *)malloc(N_SAMPLES * 2 * sizeof(float));
    int *y = (int *)malloc(N_SAMPLES * sizeof(int));
    for (int i = 0; i < N_SAMPLES; i++) {
        float t = 3.14159f * rand() / RAND_MAX;
        y[i] = rand() % 2;
        x[2 * i] = (y[i] ? 1.0f - cosf(t) : cosf(t)) + 0.1f * rand() / RAND_MAX;
        x[2 * i + 1] = (y[i] ? 0.5f - sinf(t) : sinf(t)) + 0.1f * rand() / RAND_MAX;
    }

    float *d_x;
    int *d_y;
    cudaMalloc((void **)&d_x, BATCH * 2 * sizeof(float));
    cudaMalloc((void **)&d_y, BATCH * sizeof(int));
    cudaMalloc((void **)&d_w1, 2 * HIDDEN * sizeof(float));
    cudaMalloc((void **)&d_b1, HIDDEN * sizeof(float));
    cudaMalloc((void **)&d_w2, HIDDEN * 2 * sizeof(float));
    cudaMalloc((void **)&d_b2, 2 * sizeof(float));
    cudaMalloc((void **)&d_dw1, 2 * HIDDEN * sizeof(float));
    cudaMalloc((void **)&d_db1, HIDDEN * sizeof(float));
    cudaMalloc((void **)&d_dw2, HIDDEN * 2 * sizeof(float));
    cudaMalloc((void **)&d_db2, 2 * sizeof(float));
    cudaMalloc((void **)&d_hidden, BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&d_dhidden, BATCH * HIDDEN * sizeof(float));
    cudaMalloc((void **)&d_prob, BATCH * 2 * sizeof(float));
    cudaMalloc((void **)&d_dout, BATCH * 2 * sizeof(float));
    cudaMalloc((void **)&d_loss, BATCH * sizeof(float));
    random_init(d_w1, 2 * HIDDEN, 1.0f);
    random_init(d_w2, HIDDEN * 2, 0.4f);
    cudaMemset(d_b1, 0, HIDDEN * sizeof(float));
    cudaMemset(d_b2, 0, 2 * sizeof(float));

    float loss[BATCH];
    int blocks = (BATCH * HIDDEN + 127) / 128;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float total = 0.0f;
        for (int start = 0; start + BATCH <= N_SAMPLES; start += BATCH) {
            cudaMemcpy(d_x, x + 2 * start, BATCH * 2 * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(d_y, y + start, BATCH * sizeof(int), cudaMemcpyHostToDevice);

            hidden_layer<<<blocks, 128>>>(d_x, d_w1, d_b1, d_hidden, BATCH);
            output_layer<<<1, 64>>>(d_hidden, d_w2, d_b2, d_y, d_prob, d_dout, d_loss, BATCH);
            backprop_hidden<<<blocks, 128>>>(d_dout, d_w2, d_hidden, d_dhidden, BATCH);
            weight_grad<<<1, 64>>>(d_hidden, d_dout, d_dw2, d_db2, BATCH, HIDDEN, 2);
            weight_grad<<<1, 64>>>(d_x, d_dhidden, d_dw1, d_db1, BATCH, 2, HIDDEN);

            gradient_descent<<<1, 64>>>(d_w1, d_dw1, 2 * HIDDEN, LR);
            gradient_descent<<<1, 64>>>(d_b1, d_db1, HIDDEN, LR);
            gradient_descent<<<1, 64>>>(d_w2, d_dw2, HIDDEN * 2, LR);
            gradient_descent<<<1, 64>>>(d_b2, d_db2, 2, LR);

            cudaMemcpy(loss, d_loss, sizeof(loss), cudaMemcpyDeviceToHost);
            float sum = 0.0f;
            for (int i = 0; i < BATCH; i++) sum += loss[i];
            total += sum / BATCH;
        }
        printf("Epoch %d, loss: %f\n", epoch + 1, total / (N_SAMPLES / BATCH));
    }
    cudaDeviceReset();
    free(x);
    free(y);
    return 0;
}
