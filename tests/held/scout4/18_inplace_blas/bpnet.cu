// Backpropagation network with cuBLAS; the weights are updated as soon as the deltas are known.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define SAFE(call)                                              \
    if ((int)(call) != 0) {                                     \
        std::fprintf(stderr, "failed: %s\n", #call);            \
        std::exit(EXIT_FAILURE);                                \
    }

namespace {
cublasHandle_t handle;
unsigned seed = 987654321u;

float frand(float lo, float hi)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return lo + (hi - lo) * (seed / 4294967296.0f);
}
}

__global__ void set_all(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

__global__ void sigmoid_bias(float *a, const float *bias, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 1.0f / (1.0f + expf(-(a[i] + bias[i % rows])));
}

// delta = (a - t) a (1 - a)
__global__ void output_delta(const float *a, const float *t, float *delta, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] = (a[i] - t[i]) * a[i] * (1.0f - a[i]);
}

__global__ void hidden_delta(const float *a, float *delta, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] *= a[i] * (1.0f - a[i]);
}

__global__ void squared_error(const float *a, const float *t, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, (a[i] - t[i]) * (a[i] - t[i]));
}

class BPNet {
public:
    BPNet(const std::vector<int> &topology, int batch) : batch_(batch)
    {
        for (size_t l = 1; l < topology.size(); ++l) {
            L layer;
            layer.in = topology[l - 1];
            layer.out = topology[l];
            SAFE(cudaMalloc(&layer.weights, layer.in * layer.out * sizeof(float)));
            SAFE(cudaMalloc(&layer.bias, layer.out * sizeof(float)));
            SAFE(cudaMalloc(&layer.act, layer.out * batch * sizeof(float)));
            SAFE(cudaMalloc(&layer.delta, layer.out * batch * sizeof(float)));
            std::vector<float> w(layer.in * layer.out);
            float range = 2.0f * std::sqrt(6.0f / (layer.in + layer.out));
            for (float &x : w) x = frand(-range, range);
            SAFE(cudaMemcpy(layer.weights, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
            SAFE(cudaMemset(layer.bias, 0, layer.out * sizeof(float)));
            layers_.push_back(layer);
        }
        SAFE(cudaMalloc(&ones_, batch * sizeof(float)));
        SAFE(cudaMalloc(&err_, sizeof(float)));
        set_all<<<(batch + 127) / 128, 128>>>(ones_, 1.0f, batch);
    }

    ~BPNet()
    {
        for (L &l : layers_) {
            cudaFree(l.weights);
            cudaFree(l.bias);
            cudaFree(l.act);
            cudaFree(l.delta);
        }
        cudaFree(ones_);
        cudaFree(err_);
    }

    // x: in x batch, t: out x batch, column-major. Returns the mean squared error of the batch before the update.
    float train(const float *x, const float *t, float eta)
    {
        const float one = 1.0f, zero = 0.0f;
        const float *in = x;
        for (L &l : layers_) {
            SAFE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, l.out, batch_, l.in, &one, l.weights, l.out, in, l.in,
                             &zero, l.act, l.out));
            sigmoid_bias<<<(l.out * batch_ + 127) / 128, 128>>>(l.act, l.bias, l.out, l.out * batch_);
            in = l.act;
        }

        L &last = layers_.back();
        int n = last.out * batch_;
        SAFE(cudaMemset(err_, 0, sizeof(float)));
        squared_error<<<(n + 127) / 128, 128>>>(last.act, t, err_, n);
        output_delta<<<(n + 127) / 128, 128>>>(last.act, t, last.delta, n);

        const float rate = -eta / batch_;
        for (int i = (int)layers_.size() - 1; i >= 0; --i) {
            L &l = layers_[i];
            if (i > 0) {
                L &below = layers_[i - 1];
                SAFE(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, l.in, batch_, l.out, &one, l.weights, l.out,
                                 l.delta, l.out, &zero, below.delta, l.in));
                hidden_delta<<<(l.in * batch_ + 127) / 128, 128>>>(below.act, below.delta, l.in * batch_);
            }
            const float *below = i > 0 ? layers_[i - 1].act : x;
            SAFE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, l.out, l.in, batch_, &rate, l.delta, l.out, below, l.in,
                             &one, l.weights, l.out));
            SAFE(cublasSgemv(handle, CUBLAS_OP_N, l.out, batch_, &rate, l.delta, l.out, ones_, 1, &one, l.bias, 1));
        }
        float e;
        SAFE(cudaMemcpy(&e, err_, sizeof(float), cudaMemcpyDeviceToHost));
        return e / n;
    }

private:
    struct L {
        int in, out;
        float *weights, *bias, *act, *delta;
    };
    int batch_;
    std::vector<L> layers_;
    float *ones_, *err_;
};

int main(int argc, char **argv)
{
    const int samples = 3200, in = 20, out = 5;
    int batch = 64, epochs = 4;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::string(argv[i]) == "-b") batch = std::atoi(argv[i + 1]);
        if (std::string(argv[i]) == "-e") epochs = std::atoi(argv[i + 1]);
    }
    SAFE(cublasCreate(&handle));

    // five smooth functions of twenty inputs
    std::vector<float> x(samples * in), t(samples * out);
    for (int s = 0; s < samples; ++s) {
        for (int i = 0; i < in; ++i) x[s * in + i] = frand(-1, 1);
        for (int o = 0; o < out; ++o) {
            float z = 0;
            for (int i = 0; i < in; ++i) z += x[s * in + i] * std::sin(1.0f + o * 3 + i * 2);
            t[s * out + o] = 0.5f + 0.4f * std::tanh(z);
        }
    }
    float *dx, *dt;
    SAFE(cudaMalloc(&dx, x.size() * sizeof(float)));
    SAFE(cudaMalloc(&dt, t.size() * sizeof(float)));
    SAFE(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    SAFE(cudaMemcpy(dt, t.data(), t.size() * sizeof(float), cudaMemcpyHostToDevice));

    BPNet net({in, 64, 32, out}, batch);
    for (int e = 0; e < epochs; ++e) {
        float mse = 0;
        int n = 0;
        for (int s = 0; s + batch <= samples; s += batch, ++n)
            mse += net.train(dx + s * in, dt + s * out, 3.0f);
        std::printf("epoch %d mse %.6f\n", e, mse / n);
    }
    cudaFree(dx);
    cudaFree(dt);
    cublasDestroy(handle);
    return 0;
}
