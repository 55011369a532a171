// Sentiment of short token sequences: Embedding -> Linear -> Relu -> Linear behind one interface,
// device memory in smart pointers, RMSProp.
#include <cuda_runtime.h>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

struct DeviceDelete { void operator()(void *p) const { cudaFree(p); } };
template <class T> using DevicePtr = std::unique_ptr<T[], DeviceDelete>;

template <class T> DevicePtr<T> make_device(size_t n)
{
    void *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
    cudaMemset(p, 0, n * sizeof(T));
    return DevicePtr<T>(static_cast<T *>(p));
}

struct Variable {                           // a weight, its gradient and the state of RMSProp
    size_t n;
    DevicePtr<float> data, grad, mean_square;
    Variable(size_t count, float scale, std::mt19937 &rng)
        : n(count), data(make_device<float>(n)), grad(make_device<float>(n)), mean_square(make_device<float>(n))
    {
        std::vector<float> h(n);
        for (float &x : h) x = scale * (rng() % 2001 / 1000.0f - 1);
        cudaMemcpy(data.get(), h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    }
};
using VariablePtr = std::shared_ptr<Variable>;

__global__ void embed(const int *tok, const float *table, float *y, int length)
{
    float s = 0;
    for (int t = 0; t < length; ++t) s += table[tok[blockIdx.x * length + t] * blockDim.x + threadIdx.x];
    y[blockIdx.x * blockDim.x + threadIdx.x] = s / length;
}
__global__ void embed_back(const int *tok, const float *dy, float *g, int length)
{
    for (int t = 0; t < length; ++t)
        atomicAdd(&g[tok[blockIdx.x * length + t] * blockDim.x + threadIdx.x], dy[blockIdx.x * blockDim.x + threadIdx.x] / length);
}
__global__ void linear(const float *x, const float *w, float *y, int in)
{
    float s = 0;
    for (int k = 0; k < in; ++k) s += w[threadIdx.x * in + k] * x[blockIdx.x * in + k];
    y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void linear_back_w(const float *x, const float *dy, float *g, int rows, int out)
{
    float s = 0;
    for (int i = 0; i < rows; ++i) s += dy[i * out + blockIdx.x] * x[i * blockDim.x + threadIdx.x];
    g[blockIdx.x * blockDim.x + threadIdx.x] += s;
}
__global__ void linear_back_x(const float *dy, const float *w, float *dx, int out)
{
    float s = 0;
    for (int o = 0; o < out; ++o) s += dy[blockIdx.x * out + o] * w[o * blockDim.x + threadIdx.x];
    dx[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void relu(const float *x, float *y) { int q = blockIdx.x * blockDim.x + threadIdx.x; y[q] = x[q] > 0 ? x[q] : 0; }
__global__ void relu_back(const float *y, const float *dy, float *dx) { int q = blockIdx.x * blockDim.x + threadIdx.x; dx[q] = y[q] > 0 ? dy[q] : 0; }
__global__ void logistic(const float *z, const float *label, float *dz, float *loss)
{
    int i = threadIdx.x;
    float p = 1 / (1 + expf(-z[i]));
    dz[i] = (p - label[i]) / blockDim.x;
    loss[i] = -logf(label[i] > 0 ? p : 1 - p);
}
__global__ void rmsprop(float *w, const float *g, float *ms, float lr, int n)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= n) return;
    ms[q] = 0.9f * ms[q] + 0.1f * g[q] * g[q];
    w[q] -= lr * g[q] / (sqrtf(ms[q]) + 1e-3f);
}

class Module {
protected:
    DevicePtr<float> y, dx;
public:
    virtual ~Module() = default;
    virtual const float *forward(const float *x, int rows) = 0;
    virtual const float *backward(const float *dy, int rows) = 0;
    virtual std::vector<VariablePtr> variables() { return {}; }
};

class Embedding : public Module {
    int length, width;
    VariablePtr table;
    const int *tokens = nullptr;
public:
    Embedding(int vocabulary, int length_, int width_, int rows, std::mt19937 &rng)
        : length(length_), width(width_), table(std::make_shared<Variable>(vocabulary * width_, 0.5f, rng)) { y = make_device<float>(rows * width); }
    const float *forward(const float *x, int rows) override
    {
        tokens = reinterpret_cast<const int *>(x);
        embed<<<rows, width>>>(tokens, table->data.get(), y.get(), length);
        return y.get();
    }
    const float *backward(const float *dy, int rows) override { embed_back<<<rows, width>>>(tokens, dy, table->grad.get(), length); return nullptr; }
    std::vector<VariablePtr> variables() override { return {table}; }
};

class Linear : public Module {
    int in, out;
    VariablePtr w;
    const float *x = nullptr;
public:
    Linear(int in_, int out_, int rows, std::mt19937 &rng) : in(in_), out(out_), w(std::make_shared<Variable>(in_ * out_, 0.6f, rng))
    {
        y = make_device<float>(rows * out);
        dx = make_device<float>(rows * in);
    }
    const float *forward(const float *x_, int rows) override { linear<<<rows, out>>>(x = x_, w->data.get(), y.get(), in); return y.get(); }
    const float *backward(const float *dy, int rows) override
    {
        linear_back_w<<<out, in>>>(x, dy, w->grad.get(), rows, out);
        linear_back_x<<<rows, in>>>(dy, w->data.get(), dx.get(), out);
        return dx.get();
    }
    std::vector<VariablePtr> variables() override { return {w}; }
};

class Relu : public Module {
    int width;
public:
    Relu(int width_, int rows) : width(width_) { y = make_device<float>(rows * width); dx = make_device<float>(rows * width); }
    const float *forward(const float *x, int rows) override { relu<<<rows, width>>>(x, y.get()); return y.get(); }
    const float *backward(const float *dy, int rows) override { relu_back<<<rows, width>>>(y.get(), dy, dx.get()); return dx.get(); }
};

int main()
{
    const int vocabulary = 30, length = 6, texts = 256;
    const int minibatch = 16;
    std::mt19937 rng(2024);
    std::vector<int> words(texts * length);
    std::vector<float> labels(texts);
    for (int i = 0; i < texts; ++i) {
        int score = 0;
        for (int t = 0; t < length; ++t) score += (words[i * length + t] = rng() % vocabulary) % 3 - 1;
        labels[i] = score > 0;
    }
    std::vector<std::unique_ptr<Module>> net;
    net.push_back(std::make_unique<Embedding>(vocabulary, length, 8, minibatch, rng));
    net.push_back(std::make_unique<Linear>(8, 8, minibatch, rng));
    net.push_back(std::make_unique<Relu>(8, minibatch));
    net.push_back(std::make_unique<Linear>(8, 1, minibatch, rng));
    auto tokens = make_device<int>(minibatch * length);
    auto label = make_device<float>(minibatch), dz = make_device<float>(minibatch), loss = make_device<float>(minibatch);

    for (int step = 0; step < 20; ++step) {
        int at = step * minibatch % texts;
        cudaMemcpy(tokens.get(), &words[at * length], minibatch * length * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(label.get(), &labels[at], minibatch * sizeof(float), cudaMemcpyHostToDevice);
        for (auto &m : net)
            for (auto &v : m->variables()) cudaMemset(v->grad.get(), 0, v->n * sizeof(float));
        const float *x = reinterpret_cast<const float *>(tokens.get());
        for (auto &m : net) x = m->forward(x, minibatch);
        logistic<<<1, minibatch>>>(x, label.get(), dz.get(), loss.get());
        const float *d = dz.get();
        for (auto m = net.rbegin(); m != net.rend(); ++m) d = (*m)->backward(d, minibatch);
        for (auto &m : net)
            for (auto &v : m->variables()) rmsprop<<<(v->n + 31) / 32, 32>>>(v->data.get(), v->grad.get(), v->mean_square.get(), 0.03f, v->n);
        std::vector<float> l(minibatch);
        if (cudaMemcpy(l.data(), loss.get(), minibatch * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
        float sum = 0;
        for (float v : l) sum += v;
        if (step % 5 == 0 || step == 19) printf("step %d loss %.4f\n", step, sum / minibatch);
    }
}
