// Two-layer perceptron on the three-armed spiral data set.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        cudaError_t err = call;                                                                       \
        if (err != cudaSuccess) {                                                                     \
            fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(err), __FILE__, __LINE__); \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

#define N_SAMPLES  1536
#define IN         2
#define HID        64
#define OUT        3
#define BATCH_SIZE 128
#define EPOCHS     12
#define LR         0.5f

static float rand_uniform() { return rand() / (float)RAND_MAX; }

static void make_spiral(float *X, int *y)
{
    for (int i = 0; i < N_SAMPLES; i++) {
        int c = i % OUT;
        float r = (i / OUT) / (float)(N_SAMPLES / OUT);
        float t = c * 2.1f + r * 2.5f + 0.1f * (rand_uniform() - 0.5f);
        X[i * IN] = r * sinf(t) * 2.f;
        X[i * IN + 1] = r * cosf(t) * 2.f;
        y[i] = c;
    }
}

static void shuffle(float *X, int *y)
{
    for (int i = N_SAMPLES - 1; i > 0; i--) {
        int j = rand() % (i + 1);
        for (int k = 0; k < IN; k++) {
            float t = X[i * IN + k];
            X[i * IN + k] = X[j * IN + k];
            X[j * IN + k] = t;
        }
        int t = y[i];
        y[i] = y[j];
        y[j] = t;
    }
}

__global__ void linear_forward(const float *x, const float *W, const float *b, float *out, int n, int in, int o, int relu)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n * o)
        return;
    int r = idx / o, c = idx % o;
    float s = b[c];
    for (int k = 0; k < in; k++)
        s += x[r * in + k] * W[k * o + c];
    out[idx] = relu && s < 0 ? 0.f : s;
}

__global__ void softmax_xent(const float *logits, const int *labels, float *dlogits, float *loss, int n, int classes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float *z = logits + i * classes;
    float m = z[0], sum = 0;
    for (int c = 1; c < classes; c++)
        m = fmaxf(m, z[c]);
    for (int c = 0; c < classes; c++)
        sum += expf(z[c] - m);
    for (int c = 0; c < classes; c++) {
        float p = expf(z[c] - m) / sum;
        dlogits[i * classes + c] = (p - (c == labels[i] ? 1.f : 0.f)) / n;
    }
    loss[i] = -(z[labels[i]] - m - logf(sum));
}

__global__ void linear_backward_weights(const float *x, const float *dout, float *dW, float *db, int n, int in, int o)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < in * o) {
        int k = idx / o, c = idx % o;
        float s = 0;
        for (int r = 0; r < n; r++)
            s += x[r * in + k] * dout[r * o + c];
        dW[idx] = s;
    }
    if (idx < o) {
        float s = 0;
        for (int r = 0; r < n; r++)
            s += dout[r * o + idx];
        db[idx] = s;
    }
}

__global__ void linear_backward_input(const float *dout, const float *W, const float *act, float *dx, int n, int in, int o)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n * in)
        return;
    int r = idx / in, k = idx % in;
    float s = 0;
    for (int c = 0; c < o; c++)
        s += dout[r * o + c] * W[k * o + c];
    dx[idx] = act[idx] > 0 ? s : 0.f;
}

__global__ void sgd(float *w, const float *dw, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * dw[i];
}

#define GRID(n) (((n) + 127) / 128)

int main(void)
{
    srand(42);
    float *h_X = (float *)malloc(N_SAMPLES * IN * sizeof(float));
    int *h_y = (int *)malloc(N_SAMPLES * sizeof(int));
    make_spiral(h_X, h_y);

    float h_W1[IN * HID], h_W2[HID * OUT];
    for (int i = 0; i < IN * HID; i++)
        h_W1[i] = (rand_uniform() - 0.5f) * 2.f;
    for (int i = 0; i < HID * OUT; i++)
        h_W2[i] = (rand_uniform() - 0.5f) * 0.5f;

    float *d_X, *d_W1, *d_b1, *d_W2, *d_b2, *d_dW1, *d_db1, *d_dW2, *d_db2, *d_a1, *d_z2, *d_da1, *d_dz2, *d_loss;
    int *d_y;
    CHECK(cudaMalloc(&d_X, BATCH_SIZE * IN * sizeof(float)));
    CHECK(cudaMalloc(&d_y, BATCH_SIZE * sizeof(int)));
    CHECK(cudaMalloc(&d_W1, IN * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_b1, HID * sizeof(float)));
    CHECK(cudaMalloc(&d_W2, HID * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_b2, OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_dW1, IN * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_db1, HID * sizeof(float)));
    CHECK(cudaMalloc(&d_dW2, HID * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_db2, OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_a1, BATCH_SIZE * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_da1, BATCH_SIZE * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_z2, BATCH_SIZE * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_dz2, BATCH_SIZE * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_loss, BATCH_SIZE * sizeof(float)));

    CHECK(cudaMemcpy(d_W1, h_W1, sizeof(h_W1), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_W2, h_W2, sizeof(h_W2), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_b1, 0, HID * sizeof(float)));
    CHECK(cudaMemset(d_b2, 0, OUT * sizeof(float)));

    float h_loss[BATCH_SIZE];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        shuffle(h_X, h_y);
        float epoch_loss = 0;
        for (int start = 0; start < N_SAMPLES; start += BATCH_SIZE) {
            CHECK(cudaMemcpy(d_X, h_X + start * IN, BATCH_SIZE * IN * sizeof(float), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(d_y, h_y + start, BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));

            linear_forward<<<GRID(BATCH_SIZE * HID), 128>>>(d_X, d_W1, d_b1, d_a1, BATCH_SIZE, IN, HID, 1);
            linear_forward<<<GRID(BATCH_SIZE * OUT), 128>>>(d_a1, d_W2, d_b2, d_z2, BATCH_SIZE, HID, OUT, 0);
            softmax_xent<<<GRID(BATCH_SIZE), 128>>>(d_z2, d_y, d_dz2, d_loss, BATCH_SIZE, OUT);

            linear_backward_weights<<<GRID(HID * OUT), 128>>>(d_a1, d_dz2, d_dW2, d_db2, BATCH_SIZE, HID, OUT);
            linear_backward_input<<<GRID(BATCH_SIZE * HID), 128>>>(d_dz2, d_W2, d_a1, d_da1, BATCH_SIZE, HID, OUT);
            linear_backward_weights<<<GRID(IN * HID), 128>>>(d_X, d_da1, d_dW1, d_db1, BATCH_SIZE, IN, HID);

            sgd<<<GRID(IN * HID), 128>>>(d_W1, d_dW1, LR, IN * HID);
            sgd<<<GRID(HID), 128>>>(d_b1, d_db1, LR, HID);
            sgd<<<GRID(HID * OUT), 128>>>(d_W2, d_dW2, LR, HID * OUT);
            sgd<<<GRID(OUT), 128>>>(d_b2, d_db2, LR, OUT);

            CHECK(cudaMemcpy(h_loss, d_loss, sizeof(h_loss), cudaMemcpyDeviceToHost));
            float loss = 0;
            for (int i = 0; i < BATCH_SIZE; i++)
                loss += h_loss[i];
            epoch_loss += loss / BATCH_SIZE;
        }
        printf("Epoch %d loss: %.5f\n", epoch, epoch_loss / (N_SAMPLES / BATCH_SIZE));
    }

    cudaFree(d_X); cudaFree(d_y); cudaFree(d_W1); cudaFree(d_b1); cudaFree(d_W2); cudaFree(d_b2);
    cudaFree(d_dW1); cudaFree(d_db1); cudaFree(d_dW2); cudaFree(d_db2);
    cudaFree(d_a1); cudaFree(d_da1); cudaFree(d_z2); cudaFree(d_dz2); cudaFree(d_loss);
    free(h_X);
    free(h_y);
    return 0;
}
