// A stack of layers behind a common interface. cuBLAS for the products, SGD with momentum.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

static cublasHandle_t blas;
static std::mt19937 rng(11);

__global__ void k_add_bias(float *y, const float *b, int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) y[i] += b[i % cols];
}
__global__ void k_sum_rows(const float *dy, float *db, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float s = 0.f;
    for (int r = 0; r < rows; ++r) s += dy[r * cols + c];
    db[c] = s;
}
__global__ void k_relu(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.f;
}
__global__ void k_relu_back(const float *x, const float *dy, float *dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = x[i] > 0.f ? dy[i] : 0.f;
}
__global__ void k_momentum(float *p, const float *g, float *v, int n, float lr, float mu) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] + g[i];
        p[i] -= lr * v[i];
    }
}
__global__ void k_cross_entropy(const float *z, const int *t, float *dz, float *loss, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = -1e30f, s = 0.f;
    for (int c = 0; c < k; ++c) m = fmaxf(m, z[i * k + c]);
    for (int c = 0; c < k; ++c) s += expf(z[i * k + c] - m);
    for (int c = 0; c < k; ++c) dz[i * k + c] = (expf(z[i * k + c] - m) / s - (c == t[i] ? 1.f : 0.f)) / n;
    loss[i] = (logf(s) + m - z[i * k + t[i]]) / n;
}
static int grid(int n) { return (n + 127) / 128; }

struct Layer {
    virtual ~Layer() {}
    virtual float *forward(float *x, int n) = 0;
    virtual float *backward(float *dy, int n) = 0;
    virtual void update(float, float) {}
};

class Linear : public Layer {
    int in, out;
    float *W, *b, *dW, *db, *vW, *vb, *y, *dx, *x = nullptr;

public:
    Linear(int in, int out, int max_batch) : in(in), out(out) {
        cudaMalloc(&W, in * out * sizeof(float));
        cudaMalloc(&b, out * sizeof(float));
        cudaMalloc(&dW, in * out * sizeof(float));
        cudaMalloc(&db, out * sizeof(float));
        cudaMalloc(&vW, in * out * sizeof(float));
        cudaMalloc(&vb, out * sizeof(float));
        cudaMalloc(&y, max_batch * out * sizeof(float));
        cudaMalloc(&dx, max_batch * in * sizeof(float));
        std::normal_distribution<float> he(0.f, std::sqrt(2.f / in));
        std::vector<float> h(in * out);
        for (float &v : h) v = he(rng);
        cudaMemcpy(W, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(b, 0, out * sizeof(float));
        cudaMemset(vW, 0, in * out * sizeof(float));
        cudaMemset(vb, 0, out * sizeof(float));
    }
    ~Linear() override {
        for (float *p : {W, b, dW, db, vW, vb, y, dx}) cudaFree(p);
    }
    float *forward(float *input, int n) override {
        const float one = 1.f, zero = 0.f;
        x = input;
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, out, n, in, &one, W, out, x, in, &zero, y, out);
        k_add_bias<<<grid(n * out), 128>>>(y, b, n, out);
        return y;
    }
    float *backward(float *dy, int n) override {
        const float one = 1.f, zero = 0.f;
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, n, &one, dy, out, x, in, &zero, dW, out);
        k_sum_rows<<<grid(out), 128>>>(dy, db, n, out);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, in, n, out, &one, W, out, dy, out, &zero, dx, in);
        return dx;
    }
    void update(float lr, float mu) override {
        k_momentum<<<grid(in * out), 128>>>(W, dW, vW, in * out, lr, mu);
        k_momentum<<<grid(out), 128>>>(b, db, vb, out, lr, mu);
    }
};

class ReLU : public Layer {
    int width;
    float *y, *dx, *x = nullptr;

public:
    ReLU(int width, int max_batch) : width(width) {
        cudaMalloc(&y, max_batch * width * sizeof(float));
        cudaMalloc(&dx, max_batch * width * sizeof(float));
    }
    ~ReLU() override { cudaFree(y), cudaFree(dx); }
    float *forward(float *input, int n) override {
        x = input;
        k_relu<<<grid(n * width), 128>>>(x, y, n * width);
        return y;
    }
    float *backward(float *dy, int n) override {
        k_relu_back<<<grid(n * width), 128>>>(x, dy, dx, n * width);
        return dx;
    }
};

int main() {
    const int samples = 512, features = 20, classes = 3, batch = 32, epochs = 3;
    std::uniform_real_distribution<float> uni(-1.f, 1.f);
    std::vector<float> data(samples * features);
    std::vector<int> target(samples);
    for (int i = 0; i < samples; ++i) {
        float s = 0.f;
        for (int j = 0; j < features; ++j) {
            float v = data[i * features + j] = uni(rng);
            s += (j % 2 ? v : v * v * 2.f - 0.66f);
        }
        target[i] = s < -0.8f ? 0 : s < 0.8f ? 1 : 2;
    }

    cublasCreate(&blas);
    {
        std::vector<std::unique_ptr<Layer>> net;
        net.emplace_back(new Linear(features, 18, batch));
        net.emplace_back(new ReLU(18, batch));
        net.emplace_back(new Linear(18, 14, batch));
        net.emplace_back(new ReLU(14, batch));
        net.emplace_back(new Linear(14, classes, batch));

        float *x, *dz, *loss;
        int *t;
        cudaMalloc(&x, batch * features * sizeof(float));
        cudaMalloc(&dz, batch * classes * sizeof(float));
        cudaMalloc(&loss, batch * sizeof(float));
        cudaMalloc(&t, batch * sizeof(int));
        std::vector<float> host_loss(batch);

        for (int epoch = 0; epoch < epochs; ++epoch) {
            float sum = 0.f;
            for (int i = 0; i < samples; i += batch) {
                cudaMemcpy(x, data.data() + i * features, batch * features * sizeof(float), cudaMemcpyHostToDevice);
                cudaMemcpy(t, target.data() + i, batch * sizeof(int), cudaMemcpyHostToDevice);
                float *a = x;
                for (auto &layer : net) a = layer->forward(a, batch);
                k_cross_entropy<<<1, 64>>>(a, t, dz, loss, batch, classes);
                float *d = dz;
                for (auto it = net.rbegin(); it != net.rend(); ++it) d = (*it)->backward(d, batch);
                for (auto &layer : net) layer->update(0.05f, 0.9f);
                cudaMemcpy(host_loss.data(), loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
                for (float l : host_loss) sum += l;
            }
            std::cout << "epoch " << epoch << " loss " << sum / (samples / batch) << "\n";
        }
        cudaFree(x), cudaFree(dz), cudaFree(loss), cudaFree(t);
    }
    cublasDestroy(blas);
}
