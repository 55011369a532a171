// Two-hidden-layer perceptron on the spiral data set (CS231n), plain CUDA.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t e = (call);                                                         \
        if (e != cudaSuccess) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));  \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#define BATCH_SIZE 64
#define IN 2
#define HID 48
#define OUT 3
#define POINTS 256 // per class
#define EPOCHS 15

// y = x W + b,  x: [n,in]  W: [in,out]
__global__ void linear_forward(const float *x, const float *W, const float *b, float *y, int n, int in, int out)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || col >= out) return;
    float s = b[col];
    for (int k = 0; k < in; k++) s += x[row * in + k] * W[k * out + col];
    y[row * out + col] = s;
}

__global__ void relu_forward(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = fmaxf(x[i], 0.f);
}

__global__ void relu_backward(const float *a, float *da, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] <= 0.f) da[i] = 0.f;
}

__global__ void softmax_xent(const float *logits, const int *labels, float *dlogits, float *loss, int n, int c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *l = logits + i * c;
    float m = l[0];
    for (int j = 1; j < c; j++) m = fmaxf(m, l[j]);
    float z = 0.f;
    for (int j = 0; j < c; j++) z += expf(l[j] - m);
    for (int j = 0; j < c; j++) {
        float p = expf(l[j] - m) / z;
        dlogits[i * c + j] = (p - (j == labels[i] ? 1.f : 0.f)) / n;
    }
    loss[i] = -(l[labels[i]] - m - logf(z));
}

__global__ void linear_backward_weight(const float *x, const float *dy, float *dW, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int k = i / out, j = i % out;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += x[r * in + k] * dy[r * out + j];
    dW[i] = s;
}

__global__ void linear_backward_bias(const float *dy, float *db, int n, int out)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= out) return;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += dy[r * out + j];
    db[j] = s;
}

__global__ void linear_backward_input(const float *dy, const float *W, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = 0.f;
    for (int j = 0; j < out; j++) s += dy[r * out + j] * W[k * out + j];
    dx[i] = s;
}

__global__ void sgd_update(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

static inline int div_up(int a, int b) { return (a + b - 1) / b; }

static float *make_weights(int in, int out, std::mt19937 &rng)
{
    std::normal_distribution<float> d(0.f, sqrtf(2.f / in));
    std::vector<float> h(in * out);
    for (auto &v : h) v = d(rng);
    float *p;
    CHECK(cudaMalloc(&p, h.size() * sizeof(float)));
    CHECK(cudaMemcpy(p, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

int main()
{
    std::mt19937 rng(1234);
    const int N = POINTS * OUT;
    std::vector<float> X(N * IN);
    std::vector<int> Y(N);
    std::normal_distribution<float> noise(0.f, 0.15f);
    for (int c = 0; c < OUT; c++)
        for (int i = 0; i < POINTS; i++) {
            float r = (float)i / POINTS, t = c * 4.f + r * 4.f + noise(rng);
            int id = c * POINTS + i;
            X[id * 2] = r * sinf(t);
            X[id * 2 + 1] = r * cosf(t);
            Y[id] = c;
        }

    float *W1 = make_weights(IN, HID, rng), *W2 = make_weights(HID, HID, rng), *W3 = make_weights(HID, OUT, rng);
    float *b1, *b2, *b3;
    CHECK(cudaMalloc(&b1, HID * sizeof(float)));
    CHECK(cudaMalloc(&b2, HID * sizeof(float)));
    CHECK(cudaMalloc(&b3, OUT * sizeof(float)));
    CHECK(cudaMemset(b1, 0, HID * sizeof(float)));
    CHECK(cudaMemset(b2, 0, HID * sizeof(float)));
    CHECK(cudaMemset(b3, 0, OUT * sizeof(float)));
    float *dW1, *dW2, *dW3, *db1, *db2, *db3;
    CHECK(cudaMalloc(&dW1, IN * HID * sizeof(float)));
    CHECK(cudaMalloc(&dW2, HID * HID * sizeof(float)));
    CHECK(cudaMalloc(&dW3, HID * OUT * sizeof(float)));
    CHECK(cudaMalloc(&db1, HID * sizeof(float)));
    CHECK(cudaMalloc(&db2, HID * sizeof(float)));
    CHECK(cudaMalloc(&db3, OUT * sizeof(float)));

    float *d_x, *h1, *h2, *logits, *dlogits, *dh1, *dh2, *d_loss;
    int *d_y;
    CHECK(cudaMalloc(&d_x, BATCH_SIZE * IN * sizeof(float)));
    CHECK(cudaMalloc(&d_y, BATCH_SIZE * sizeof(int)));
    CHECK(cudaMalloc(&h1, BATCH_SIZE * HID * sizeof(float)));
    CHECK(cudaMalloc(&h2, BATCH_SIZE * HID * sizeof(float)));
    CHECK(cudaMalloc(&logits, BATCH_SIZE * OUT * sizeof(float)));
    CHECK(cudaMalloc(&dlogits, BATCH_SIZE * OUT * sizeof(float)));
    CHECK(cudaMalloc(&dh1, BATCH_SIZE * HID * sizeof(float)));
    CHECK(cudaMalloc(&dh2, BATCH_SIZE * HID * sizeof(float)));
    CHECK(cudaMalloc(&d_loss, BATCH_SIZE * sizeof(float)));

    std::vector<int> order(N);
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> bx(BATCH_SIZE * IN), losses(BATCH_SIZE);
    std::vector<int> by(BATCH_SIZE);
    const float lr = 0.5f;
    const int B = BATCH_SIZE;
    dim3 blk(16, 16);

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        std::shuffle(order.begin(), order.end(), rng);
        double total = 0;
        for (int s = 0; s + B <= N; s += B) {
            for (int i = 0; i < B; i++) {
                bx[i * 2] = X[order[s + i] * 2];
                bx[i * 2 + 1] = X[order[s + i] * 2 + 1];
                by[i] = Y[order[s + i]];
            }
            CHECK(cudaMemcpy(d_x, bx.data(), bx.size() * sizeof(float), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(d_y, by.data(), by.size() * sizeof(int), cudaMemcpyHostToDevice));

            // forward
            linear_forward<<<dim3(div_up(HID, 16), div_up(B, 16)), blk>>>(d_x, W1, b1, h1, B, IN, HID);
            relu_forward<<<div_up(B * HID, 256), 256>>>(h1, B * HID);
            linear_forward<<<dim3(div_up(HID, 16), div_up(B, 16)), blk>>>(h1, W2, b2, h2, B, HID, HID);
            relu_forward<<<div_up(B * HID, 256), 256>>>(h2, B * HID);
            linear_forward<<<dim3(div_up(OUT, 16), div_up(B, 16)), blk>>>(h2, W3, b3, logits, B, HID, OUT);
            softmax_xent<<<div_up(B, 64), 64>>>(logits, d_y, dlogits, d_loss, B, OUT);

            // backward
            linear_backward_weight<<<div_up(HID * OUT, 256), 256>>>(h2, dlogits, dW3, B, HID, OUT);
            linear_backward_bias<<<1, 32>>>(dlogits, db3, B, OUT);
            linear_backward_input<<<div_up(B * HID, 256), 256>>>(dlogits, W3, dh2, B, HID, OUT);
            relu_backward<<<div_up(B * HID, 256), 256>>>(h2, dh2, B * HID);
            linear_backward_weight<<<div_up(HID * HID, 256), 256>>>(h1, dh2, dW2, B, HID, HID);
            linear_backward_bias<<<1, 64>>>(dh2, db2, B, HID);
            linear_backward_input<<<div_up(B * HID, 256), 256>>>(dh2, W2, dh1, B, HID, HID);
            relu_backward<<<div_up(B * HID, 256), 256>>>(h1, dh1, B * HID);
            linear_backward_weight<<<div_up(IN * HID, 256), 256>>>(d_x, dh1, dW1, B, IN, HID);
            linear_backward_bias<<<1, 64>>>(dh1, db1, B, HID);

            // update
            sgd_update<<<div_up(IN * HID, 256), 256>>>(W1, dW1, lr, IN * HID);
            sgd_update<<<1, 64>>>(b1, db1, lr, HID);
            sgd_update<<<div_up(HID * HID, 256), 256>>>(W2, dW2, lr, HID * HID);
            sgd_update<<<1, 64>>>(b2, db2, lr, HID);
            sgd_update<<<div_up(HID * OUT, 256), 256>>>(W3, dW3, lr, HID * OUT);
            sgd_update<<<1, 32>>>(b3, db3, lr, OUT);

            CHECK(cudaMemcpy(losses.data(), d_loss, B * sizeof(float), cudaMemcpyDeviceToHost));
            total += std::accumulate(losses.begin(), losses.end(), 0.0) / B;
        }
        printf("epoch %2d  loss %.4f\n", epoch, total / (N / B));
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
