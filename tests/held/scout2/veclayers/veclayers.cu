// Regression by a deep net whose layer sizes come from the command line: ./veclayers 4 10 8 1
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>
using std::vector;

struct Layer {
    int in, out;
    float *params;      // out rows of `in` weights and a bias
    float *grads;       // of the same shape: the SUM over the batch
    float *act, *delta; // outputs of the batch and the slope of the loss by them
};

__global__ void forward(const float *x, Layer l, bool last)
{
    int i = blockIdx.x, o = threadIdx.x;
    const float *row = l.params + o * (l.in + 1);
    float s = row[l.in];
    for (int k = 0; k < l.in; ++k) s += row[k] * x[i * l.in + k];
    l.act[i * l.out + o] = last ? s : tanhf(s);
}

__global__ void residual(Layer l, const float *target, float *sq)
{
    int i = threadIdx.x;
    float e = l.act[i] - target[i];
    l.delta[i] = e;
    sq[i] = e * e;
}

__global__ void sum_grads(const float *x, Layer l, int count)
{
    int o = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < count; ++i) s += l.delta[i * l.out + o] * (k < l.in ? x[i * l.in + k] : 1.0f);
    l.grads[o * (l.in + 1) + k] = s;
}

__global__ void back(Layer below, Layer l)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0, a = below.act[i * l.in + k];
    for (int o = 0; o < l.out; ++o) s += l.delta[i * l.out + o] * l.params[o * (l.in + 1) + k];
    below.delta[i * l.in + k] = s * (1 - a * a);
}

__global__ void descend(float *p, const float *g, float rate, int n)
{
    for (int q = threadIdx.x; q < n; q += blockDim.x) p[q] -= rate * g[q];
}

struct Net {
    vector<Layer> layers;
    int batch;
    Net(const vector<int> &sizes, int batch_) : batch(batch_)
    {
        for (size_t i = 0; i + 1 < sizes.size(); ++i) {
            Layer l{sizes[i], sizes[i + 1], nullptr, nullptr, nullptr, nullptr};
            const size_t n = (l.in + 1) * l.out;
            vector<float> init(n);
            for (auto &v : init) v = (rand() / (float)RAND_MAX - 0.5f) * 2.0f / std::sqrt((float)l.in);
            cudaMalloc(&l.params, n * sizeof(float));
            cudaMalloc(&l.grads, n * sizeof(float));
            cudaMalloc(&l.act, batch * l.out * sizeof(float));
            cudaMalloc(&l.delta, batch * l.out * sizeof(float));
            cudaMemcpy(l.params, init.data(), n * sizeof(float), cudaMemcpyHostToDevice);
            layers.push_back(l);
        }
    }
    float train(const float *x, const float *target, float *sq, float rate)
    {
        const float *in = x;
        for (auto &l : layers) {
            forward<<<batch, l.out>>>(in, l, &l == &layers.back());
            in = l.act;
        }
        residual<<<1, batch>>>(layers.back(), target, sq);
        for (size_t i = layers.size(); i-- > 0;) {
            sum_grads<<<layers[i].out, layers[i].in + 1>>>(i ? layers[i - 1].act : x, layers[i], batch);
            if (i) back<<<batch, layers[i].in>>>(layers[i - 1], layers[i]);
        }
        for (auto &l : layers) descend<<<1, 64>>>(l.params, l.grads, rate / batch, (l.in + 1) * l.out);
        vector<float> h(batch);
        cudaMemcpy(h.data(), sq, batch * sizeof(float), cudaMemcpyDeviceToHost);
        return std::accumulate(h.begin(), h.end(), 0.0f) / batch;
    }
    ~Net()
    {
        for (auto &l : layers)
            for (float *p : {l.params, l.grads, l.act, l.delta}) cudaFree(p);
    }
};

int main(int argc, char **argv)
{
    vector<int> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::stoi(argv[i]));
    if (sizes.empty()) sizes = {4, 10, 8, 1};
    if (sizes.size() < 2 || sizes.back() != 1) {
        fprintf(stderr, "usage: veclayers INPUTS [HIDDEN...] 1\n");
        return 2;
    }
    srand(11);
    const int samples = 300, dims = sizes.front(), per_step = 20;
    vector<float> x(samples * dims), y(samples, 0.0f);
    for (int i = 0; i < samples; ++i)
        for (int k = 0; k < dims; ++k) {
            x[i * dims + k] = rand() / (float)RAND_MAX * 2 - 1;
            y[i] += std::sin(2 * x[i * dims + k]) / (k + 1);
        }
    float *dx, *dt, *sq;
    cudaMalloc(&dx, per_step * dims * sizeof(float));
    cudaMalloc(&dt, per_step * sizeof(float));
    cudaMalloc(&sq, per_step * sizeof(float));
    Net net(sizes, per_step);
    for (int step = 0; step < 20; ++step) {
        const size_t at = (size_t)step * per_step % samples;
        cudaMemcpy(dx, x.data() + at * dims, per_step * dims * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dt, y.data() + at, per_step * sizeof(float), cudaMemcpyHostToDevice);
        float loss = net.train(dx, dt, sq, 0.15f);
        if (step % 4 == 0 || step == 19) printf("step %d, mean squared error %.4f\n", step, loss);
    }
    for (float *p : {dx, dt, sq}) cudaFree(p);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
