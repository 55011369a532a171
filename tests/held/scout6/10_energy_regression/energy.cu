// Multi-layer perceptron for regression (heating load of buildings from 8 features), cuBLAS + RMSprop.
// usage: ./train [batch size] [epochs]
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <cuda_runtime.h>
#include <cublas_v2.h>

using std::vector;

#define GRID(n) (((n) + 255) / 256), 256

__global__ void addBias(float *a, const float *b, int rows, int n)       // column-major, rows = units
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += b[i % rows];
}
__global__ void sigmoid(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 1.0f / (1.0f + expf(-a[i]));
}
__global__ void sigmoidPrime(float *delta, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] *= a[i] * (1.0f - a[i]);
}
__global__ void outputDelta(float *delta, const float *a, const float *t, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] = a[i] - t[i];
}
__global__ void rmsprop(float *w, const float *g, float *cache, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        cache[i] = 0.9f * cache[i] + 0.1f * g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(cache[i]) + 1e-6f);
    }
}
__global__ void fill(float *a, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = v;
}

struct Net {
    vector<int> sizes;
    vector<float *> W, b, gW, gb, sW, sb;     // one per layer
    vector<float *> act, delta;               // per layer, units x batch
    float *ones;
    cublasHandle_t cublas;
};

Net buildNet(const vector<int> &sizes, int batch)
{
    Net net;
    net.sizes = sizes;
    cublasCreate(&net.cublas);
    std::mt19937 gen(17);
    int L = sizes.size() - 1;
    net.W.resize(L); net.b.resize(L); net.gW.resize(L); net.gb.resize(L); net.sW.resize(L); net.sb.resize(L);
    net.act.resize(L + 1); net.delta.resize(L + 1);
    for (int l = 0; l < L; l++) {
        int in = sizes[l], out = sizes[l + 1];
        cudaMalloc(&net.W[l], in * out * sizeof(float));
        cudaMalloc(&net.gW[l], in * out * sizeof(float));
        cudaMalloc(&net.sW[l], in * out * sizeof(float));
        cudaMalloc(&net.b[l], out * sizeof(float));
        cudaMalloc(&net.gb[l], out * sizeof(float));
        cudaMalloc(&net.sb[l], out * sizeof(float));
        cudaMemset(net.sW[l], 0, in * out * sizeof(float));
        cudaMemset(net.sb[l], 0, out * sizeof(float));
        cudaMemset(net.b[l], 0, out * sizeof(float));
        std::normal_distribution<float> d(0, 3.0f / sqrtf(in));
        vector<float> h(in * out);
        for (auto &x : h) x = d(gen);
        cudaMemcpy(net.W[l], h.data(), in * out * sizeof(float), cudaMemcpyHostToDevice);
    }
    for (int l = 0; l <= L; l++) {
        cudaMalloc(&net.act[l], sizes[l] * batch * sizeof(float));
        cudaMalloc(&net.delta[l], sizes[l] * batch * sizeof(float));
    }
    cudaMalloc(&net.ones, batch * sizeof(float));
    fill<<<GRID(batch)>>>(net.ones, 1.0f, batch);
    return net;
}

void forward(Net &net, int batch)
{
    float one = 1, zero = 0;
    int L = net.W.size();
    for (int l = 0; l < L; l++) {
        int in = net.sizes[l], out = net.sizes[l + 1];
        cublasSgemm(net.cublas, CUBLAS_OP_N, CUBLAS_OP_N, out, batch, in, &one, net.W[l], out, net.act[l], in, &zero,
                    net.act[l + 1], out);
        addBias<<<GRID(out * batch)>>>(net.act[l + 1], net.b[l], out, out * batch);
        if (l + 1 < L)
            sigmoid<<<GRID(out * batch)>>>(net.act[l + 1], out * batch);
    }
}

void backward(Net &net, const float *target, int batch)
{
    float one = 1, zero = 0, mean = 1.0f / batch;
    int L = net.W.size();
    outputDelta<<<GRID(net.sizes[L] * batch)>>>(net.delta[L], net.act[L], target, net.sizes[L] * batch);
    for (int l = L - 1; l >= 0; l--) {
        int in = net.sizes[l], out = net.sizes[l + 1];
        cublasSgemm(net.cublas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, batch, &mean, net.delta[l + 1], out, net.act[l], in,
                    &zero, net.gW[l], out);
        cublasSgemv(net.cublas, CUBLAS_OP_N, out, batch, &mean, net.delta[l + 1], out, net.ones, 1, &zero, net.gb[l], 1);
        if (l > 0) {
            cublasSgemm(net.cublas, CUBLAS_OP_T, CUBLAS_OP_N, in, batch, out, &one, net.W[l], out, net.delta[l + 1], out,
                        &zero, net.delta[l], in);
            sigmoidPrime<<<GRID(in * batch)>>>(net.delta[l], net.act[l], in * batch);
        }
    }
}

void update(Net &net, float lr)
{
    for (size_t l = 0; l < net.W.size(); l++) {
        int in = net.sizes[l], out = net.sizes[l + 1];
        rmsprop<<<GRID(in * out)>>>(net.W[l], net.gW[l], net.sW[l], lr, in * out);
        rmsprop<<<GRID(out)>>>(net.b[l], net.gb[l], net.sb[l], lr, out);
    }
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 128;
    int epochs = argc > 2 ? atoi(argv[2]) : 12;
    const int n = 1536;

    vector<float> X(n * 8), Y(n);
    std::mt19937 gen(11);
    std::uniform_real_distribution<float> u(-1, 1);
    for (int i = 0; i < n; i++) {
        float *x = &X[i * 8];
        for (int j = 0; j < 8; j++) x[j] = u(gen);
        Y[i] = x[0] * x[1] + 0.8f * sinf(3 * x[2]) - x[3] * x[3] + 0.5f * x[4] - 0.3f * fabsf(x[5]) + 0.02f * u(gen);
    }

    vector<int> sizes = {8, 64, 32, 1};
    Net net = buildNet(sizes, batch);
    float *d_target;
    cudaMalloc(&d_target, batch * sizeof(float));
    vector<float> pred(batch);

    float lr = 0.01f;
    for (int e = 0; e < epochs; e++) {
        double mse = 0;
        for (int i = 0; i + batch <= n; i += batch) {
            cudaMemcpy(net.act[0], &X[i * 8], 8 * batch * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(d_target, &Y[i], batch * sizeof(float), cudaMemcpyHostToDevice);
            forward(net, batch);
            backward(net, d_target, batch);
            update(net, lr);
            cudaMemcpy(pred.data(), net.act.back(), batch * sizeof(float), cudaMemcpyDeviceToHost);
            for (int j = 0; j < batch; j++) mse += (pred[j] - Y[i + j]) * (pred[j] - Y[i + j]);
        }
        if (e % 4 == 3) lr *= 0.5f;
        printf("epoch %2d  mse %.5f  lr %g\n", e + 1, mse / (n / batch * batch), lr);
    }
    cublasDestroy(net.cublas);
    return 0;
}
