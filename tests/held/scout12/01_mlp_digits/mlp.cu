// Two layer perceptron on synthetic "digit" images, plain CUDA.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define IN      64
#define HID     48
#define OUT     10
#define BATCH   64
#define NTRAIN  2048
#define EPOCHS  3

#define CHECK(call) do { cudaError_t e_ = (call); if (e_ != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

__global__ void linear_forward(const float *x, const float *w, const float *b, float *y, int n, int in, int out)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < out) {
        float s = b[col];
        for (int k = 0; k < in; k++) s += x[row * in + k] * w[k * out + col];
        y[row * out + col] = s;
    }
}

__global__ void relu_forward(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0) x[i] = 0;
}

__global__ void softmax_xent(const float *logits, const int *labels, float *dlogits, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *z = logits + i * OUT;
    float m = z[0];
    for (int j = 1; j < OUT; j++) m = fmaxf(m, z[j]);
    float s = 0;
    for (int j = 0; j < OUT; j++) s += expf(z[j] - m);
    for (int j = 0; j < OUT; j++) {
        float p = expf(z[j] - m) / s;
        dlogits[i * OUT + j] = (p - (j == labels[i])) / n;
        if (j == labels[i]) loss[i] = -logf(p + 1e-9f);
    }
}

__global__ void linear_backward_w(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int k = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < in && j < out) {
        float s = 0, t = 0;
        for (int i = 0; i < n; i++) {
            s += x[i * in + k] * dy[i * out + j];
            t += dy[i * out + j];
        }
        dw[k * out + j] = s;
        if (k == 0) db[j] = t;
    }
}

__global__ void linear_backward_x(const float *dy, const float *w, const float *act, float *dx, int n, int in, int out)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && k < in) {
        float s = 0;
        for (int j = 0; j < out; j++) s += dy[i * out + j] * w[k * out + j];
        dx[i * in + k] = act[i * in + k] > 0 ? s : 0.0f;
    }
}

__global__ void sgd(float *w, const float *dw, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * dw[i];
}

static float frand() { return rand() / (float)RAND_MAX; }

static void init_weights(float *d, int n, float scale)
{
    float *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = (frand() * 2 - 1) * scale;
    CHECK(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
}

int main()
{
    srand(1234);
    float *images = (float *)malloc(NTRAIN * IN * sizeof(float));
    int *labels = (int *)malloc(NTRAIN * sizeof(int));
    float proto[OUT][IN];
    for (int c = 0; c < OUT; c++)
        for (int k = 0; k < IN; k++) proto[c][k] = frand() > 0.5f;
    for (int i = 0; i < NTRAIN; i++) {
        labels[i] = rand() % OUT;
        for (int k = 0; k < IN; k++) images[i * IN + k] = proto[labels[i]][k] * 0.8f + frand() * 0.6f - 0.3f;
    }

    float *d_x, *d_w1, *d_b1, *d_w2, *d_b2, *d_h, *d_z, *d_dz, *d_dh, *d_dw1, *d_db1, *d_dw2, *d_db2, *d_loss;
    int *d_y;
    CHECK(cudaMalloc(&d_x, BATCH * IN * sizeof(float)));
    CHECK(cudaMalloc(&d_y, BATCH * sizeof(int)));
    CHECK(cudaMalloc(&d_w1, IN * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_b1, HID * sizeof(float)));
    CHECK(cudaMalloc(&d_w2, HID * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_b2, OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_h, BATCH * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_z, BATCH * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_dz, BATCH * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_dh, BATCH * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_dw1, IN * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_db1, HID * sizeof(float)));
    CHECK(cudaMalloc(&d_dw2, HID * OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_db2, OUT * sizeof(float)));
    CHECK(cudaMalloc(&d_loss, BATCH * sizeof(float)));
    init_weights(d_w1, IN * HID, sqrtf(3.0f / IN));
    init_weights(d_w2, HID * OUT, sqrtf(3.0f / HID));
    CHECK(cudaMemset(d_b1, 0, HID * sizeof(float)));
    CHECK(cudaMemset(d_b2, 0, OUT * sizeof(float)));

    dim3 t(16, 16);
    float lr = 0.1f;
    float hloss[BATCH];
    for (int e = 0; e < EPOCHS; e++) {
        float total = 0;
        for (int b = 0; b < NTRAIN / BATCH; b++) {
            CHECK(cudaMemcpy(d_x, images + b * BATCH * IN, BATCH * IN * sizeof(float), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(d_y, labels + b * BATCH, BATCH * sizeof(int), cudaMemcpyHostToDevice));

            linear_forward<<<dim3(HID / 16, BATCH / 16), t>>>(d_x, d_w1, d_b1, d_h, BATCH, IN, HID);
            relu_forward<<<(BATCH * HID + 255) / 256, 256>>>(d_h, BATCH * HID);
            linear_forward<<<dim3(1, BATCH / 16), t>>>(d_h, d_w2, d_b2, d_z, BATCH, HID, OUT);
            softmax_xent<<<(BATCH + 31) / 32, 32>>>(d_z, d_y, d_dz, d_loss, BATCH);

            linear_backward_w<<<dim3(1, HID / 16), t>>>(d_h, d_dz, d_dw2, d_db2, BATCH, HID, OUT);
            linear_backward_x<<<dim3(HID / 16, BATCH / 16), t>>>(d_dz, d_w2, d_h, d_dh, BATCH, HID, OUT);
            linear_backward_w<<<dim3(HID / 16, IN / 16), t>>>(d_x, d_dh, d_dw1, d_db1, BATCH, IN, HID);

            sgd<<<(IN * HID + 255) / 256, 256>>>(d_w1, d_dw1, lr, IN * HID);
            sgd<<<1, 256>>>(d_b1, d_db1, lr, HID);
            sgd<<<(HID * OUT + 255) / 256, 256>>>(d_w2, d_dw2, lr, HID * OUT);
            sgd<<<1, 256>>>(d_b2, d_db2, lr, OUT);

            CHECK(cudaMemcpy(hloss, d_loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
            float l = 0;
            for (int i = 0; i < BATCH; i++) l += hloss[i];
            total += l / BATCH;
            if (b % 16 == 0) printf("epoch %d batch %d loss %.5f\n", e, b, l / BATCH);
        }
        printf("epoch %d mean loss %.5f\n", e, total / (NTRAIN / BATCH));
    }
    return 0;
}
