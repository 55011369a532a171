// Fully connected network with cuBLAS, momentum SGD. Column-major like cuBLAS wants it:
// activations are (features x batch).
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#define cudaSafe(x)                                                     \
    {                                                                   \
        cudaError_t e = (x);                                            \
        if (e != cudaSuccess) {                                         \
            std::cerr << "CUDA: " << cudaGetErrorString(e) << " line " << __LINE__ << std::endl; \
            exit(1);                                                    \
        }                                                               \
    }
#define cublasSafe(x)                                                   \
    {                                                                   \
        cublasStatus_t s = (x);                                         \
        if (s != CUBLAS_STATUS_SUCCESS) {                               \
            std::cerr << "cuBLAS: " << (int)s << " line " << __LINE__ << std::endl; \
            exit(1);                                                    \
        }                                                               \
    }

__global__ void addBias(float *z, const float *b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        z[i] += b[i % rows];
}
__global__ void tanhForward(const float *z, float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = tanhf(z[i]);
}
__global__ void tanhBackward(const float *a, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        d[i] *= 1.0f - a[i] * a[i];
}
__global__ void mseGrad(const float *out, const float *target, float *d, float *sq, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e = out[i] - target[i];
        d[i] = 2.0f * e;
        sq[i] = e * e;
    }
}
__global__ void momentumStep(float *p, float *v, const float *g, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] - lr * g[i];
        p[i] += v[i];
    }
}

static inline int blocks(int n) { return (n + 255) / 256; }

static float *deviceArray(int n, float fill = 0.0f)
{
    float *p;
    cudaSafe(cudaMalloc((void **)&p, n * sizeof(float)));
    std::vector<float> host(n, fill);
    cudaSafe(cudaMemcpy(p, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

class DenseLayer {
public:
    DenseLayer(cublasHandle_t handle, int in, int out, int batch, bool activation)
        : handle_(handle), in_(in), out_(out), batch_(batch), act_(activation)
    {
        std::vector<float> w(in * out);
        float bound = sqrtf(6.0f / (in + out));
        for (float &v : w)
            v = bound * (2.0f * rand() / RAND_MAX - 1.0f);
        W_ = deviceArray(in * out);
        cudaSafe(cudaMemcpy(W_, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
        b_ = deviceArray(out);
        dW_ = deviceArray(in * out);
        db_ = deviceArray(out);
        vW_ = deviceArray(in * out);
        vb_ = deviceArray(out);
        z_ = deviceArray(out * batch);
        a_ = deviceArray(out * batch);
        dx_ = deviceArray(in * batch);
        ones_ = deviceArray(batch, 1.0f);
    }
    ~DenseLayer()
    {
        for (float *p : {W_, b_, dW_, db_, vW_, vb_, z_, a_, dx_, ones_})
            cudaFree(p);
    }

    const float *forward(const float *x)
    {
        x_ = x;
        const float one = 1.0f, zero = 0.0f;
        cublasSafe(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, out_, batch_, in_, &one, W_, out_, x, in_, &zero, z_, out_));
        addBias<<<blocks(out_ * batch_), 256>>>(z_, b_, out_, batch_);
        if (!act_)
            return z_;
        tanhForward<<<blocks(out_ * batch_), 256>>>(z_, a_, out_ * batch_);
        return a_;
    }

    float *backward(float *dout)
    {
        const float one = 1.0f, zero = 0.0f, inv = 1.0f / batch_;
        if (act_)
            tanhBackward<<<blocks(out_ * batch_), 256>>>(a_, dout, out_ * batch_);
        cublasSafe(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_T, out_, in_, batch_, &inv, dout, out_, x_, in_, &zero, dW_, out_));
        cublasSafe(cublasSgemv(handle_, CUBLAS_OP_N, out_, batch_, &inv, dout, out_, ones_, 1, &zero, db_, 1));
        cublasSafe(cublasSgemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, in_, batch_, out_, &one, W_, out_, dout, out_, &zero, dx_, in_));
        return dx_;
    }

    void step(float lr, float mu)
    {
        momentumStep<<<blocks(in_ * out_), 256>>>(W_, vW_, dW_, lr, mu, in_ * out_);
        momentumStep<<<blocks(out_), 256>>>(b_, vb_, db_, lr, mu, out_);
    }

private:
    cublasHandle_t handle_;
    int in_, out_, batch_;
    bool act_;
    const float *x_;
    float *W_, *b_, *dW_, *db_, *vW_, *vb_, *z_, *a_, *dx_, *ones_;
};

int main()
{
    const int nSamples = 2048, inDim = 16, outDim = 4, batchSize = 128, nEpochs = 8;
    srand(1234);

    // target: a smooth random function of the inputs
    std::vector<float> X(nSamples * inDim), Y(nSamples * outDim), A(inDim * outDim);
    for (float &v : A)
        v = 2.0f * rand() / RAND_MAX - 1.0f;
    for (int s = 0; s < nSamples; s++) {
        for (int i = 0; i < inDim; i++)
            X[s * inDim + i] = 2.0f * rand() / RAND_MAX - 1.0f;
        for (int o = 0; o < outDim; o++) {
            float t = 0;
            for (int i = 0; i < inDim; i++)
                t += A[o * inDim + i] * X[s * inDim + i];
            Y[s * outDim + o] = sinf(t) + 0.3f * t;
        }
    }

    cublasHandle_t handle;
    cublasSafe(cublasCreate(&handle));

    float *dX, *dY;
    cudaSafe(cudaMalloc((void **)&dX, X.size() * sizeof(float)));
    cudaSafe(cudaMalloc((void **)&dY, Y.size() * sizeof(float)));
    cudaSafe(cudaMemcpy(dX, &X[0], X.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaSafe(cudaMemcpy(dY, &Y[0], Y.size() * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<DenseLayer *> net;
    net.push_back(new DenseLayer(handle, inDim, 48, batchSize, true));
    net.push_back(new DenseLayer(handle, 48, 32, batchSize, true));
    net.push_back(new DenseLayer(handle, 32, outDim, batchSize, false));

    float *dOut = deviceArray(outDim * batchSize), *dSq = deviceArray(outDim * batchSize);
    for (int epoch = 0; epoch < nEpochs; epoch++) {
        float total = 0.0f;
        for (int start = 0; start < nSamples; start += batchSize) {
            const float *cur = dX + start * inDim;
            for (size_t l = 0; l < net.size(); l++)
                cur = net[l]->forward(cur);

            mseGrad<<<blocks(outDim * batchSize), 256>>>(cur, dY + start * outDim, dOut, dSq, outDim * batchSize);
            float batchLoss;
            cublasSafe(cublasSasum(handle, outDim * batchSize, dSq, 1, &batchLoss));
            total += batchLoss;

            float *grad = dOut;
            for (int l = (int)net.size() - 1; l >= 0; l--)
                grad = net[l]->backward(grad);
            for (DenseLayer *layer : net)
                layer->step(0.02f, 0.9f);
        }
        std::cout << "Epoch " << epoch << " loss: " << total / (nSamples * outDim) << std::endl;
    }

    for (DenseLayer *layer : net)
        delete layer;
    cudaFree(dX);
    cudaFree(dY);
    cudaFree(dOut);
    cudaFree(dSq);
    cublasDestroy(handle);
    return 0;
}
