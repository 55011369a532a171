#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>
#include <cuda_runtime.h>

static void check(cudaError_t e)
{
    if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

constexpr int kThreads = 128;
static int gridFor(int n) { return (n + kThreads - 1) / kThreads; }

__global__ void kAffine(const float *x, const float *w, const float *b, float *y, int n, int in, int out)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= out || r >= n) return;
    float s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + c];
    y[r * out + c] = s;
}
__global__ void kAffineGradW(const float *x, const float *dy, float *dw, int n, int in, int out)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    if (c >= out || k >= in) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += x[r * in + k] * dy[r * out + c];
    dw[k * out + c] = s;
}
__global__ void kAffineGradB(const float *dy, float *db, int n, int out)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= out) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += dy[r * out + c];
    db[c] = s;
}
__global__ void kAffineGradX(const float *dy, const float *w, float *dx, int n, int in, int out)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (k >= in || r >= n) return;
    float s = 0;
    for (int c = 0; c < out; ++c) s += dy[r * out + c] * w[k * out + c];
    dx[r * in + k] = s;
}
__global__ void kRelu(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}
__global__ void kReluGrad(const float *y, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = y[i] > 0 ? dy[i] : 0;
}
__global__ void kBce(const float *logit, const float *t, float *d, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = logit[i], p = 1.f / (1.f + expf(-z));
    d[i] = (p - t[i]) / n;
    loss[i] = fmaxf(z, 0.f) - z * t[i] + log1pf(expf(-fabsf(z)));
}
__global__ void kMomentum(float *p, float *vel, const float *g, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    vel[i] = mu * vel[i] - lr * g[i];
    p[i] += vel[i];
}

class DeviceBuffer {
public:
    explicit DeviceBuffer(size_t n) : size_(n)
    {
        check(cudaMalloc(&ptr_, n * sizeof(float)));
        check(cudaMemset(ptr_, 0, n * sizeof(float)));
    }
    ~DeviceBuffer() { cudaFree(ptr_); }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;
    void upload(const std::vector<float> &h) { check(cudaMemcpy(ptr_, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice)); }
    float *get() { return ptr_; }
    size_t size() const { return size_; }

private:
    float *ptr_ = nullptr;
    size_t size_;
};

class Layer {
public:
    virtual ~Layer() = default;
    virtual float *forward(float *x, int n) = 0;
    virtual float *backward(float *dy, int n) = 0;
    virtual void update(float, float) {}
};

class Linear : public Layer {
public:
    Linear(int in, int out, int maxBatch, std::mt19937 &rng)
        : in_(in), out_(out), weight_(in * out), bias_(out), gradWeight_(in * out), gradBias_(out),
          velWeight_(in * out), velBias_(out), output_(maxBatch * out), gradInput_(maxBatch * in)
    {
        std::normal_distribution<float> dist(0.f, std::sqrt(2.f / in));
        std::vector<float> h(in * out);
        for (float &v : h) v = dist(rng);
        weight_.upload(h);
    }
    float *forward(float *x, int n) override
    {
        input_ = x;
        kAffine<<<dim3(gridFor(out_), n), kThreads>>>(x, weight_.get(), bias_.get(), output_.get(), n, in_, out_);
        return output_.get();
    }
    float *backward(float *dy, int n) override
    {
        kAffineGradW<<<dim3(gridFor(out_), in_), kThreads>>>(input_, dy, gradWeight_.get(), n, in_, out_);
        kAffineGradB<<<gridFor(out_), kThreads>>>(dy, gradBias_.get(), n, out_);
        kAffineGradX<<<dim3(gridFor(in_), n), kThreads>>>(dy, weight_.get(), gradInput_.get(), n, in_, out_);
        return gradInput_.get();
    }
    void update(float lr, float mu) override
    {
        kMomentum<<<gridFor(in_ * out_), kThreads>>>(weight_.get(), velWeight_.get(), gradWeight_.get(), lr, mu, in_ * out_);
        kMomentum<<<gridFor(out_), kThreads>>>(bias_.get(), velBias_.get(), gradBias_.get(), lr, mu, out_);
    }

private:
    int in_, out_;
    DeviceBuffer weight_, bias_, gradWeight_, gradBias_, velWeight_, velBias_, output_, gradInput_;
    float *input_ = nullptr;
};

class ReLU : public Layer {
public:
    ReLU(int width, int maxBatch) : width_(width), output_(maxBatch * width), gradInput_(maxBatch * width) {}
    float *forward(float *x, int n) override
    {
        kRelu<<<gridFor(n * width_), kThreads>>>(x, output_.get(), n * width_);
        return output_.get();
    }
    float *backward(float *dy, int n) override
    {
        kReluGrad<<<gridFor(n * width_), kThreads>>>(output_.get(), dy, gradInput_.get(), n * width_);
        return gradInput_.get();
    }

private:
    int width_;
    DeviceBuffer output_, gradInput_;
};

int main()
{
    const int samples = 1024, batchSize = 128, epochs = 20;
    std::mt19937 rng(42);
    std::uniform_real_distribution<float> u(0.f, 3.14159f);
    std::normal_distribution<float> noise(0.f, 0.12f);
    std::vector<float> hx(samples * 2), hy(samples);
    for (int i = 0; i < samples; ++i) {
        float t = u(rng);
        int side = i & 1;
        hx[2 * i] = (side ? 1.f - std::cos(t) : std::cos(t)) + noise(rng);
        hx[2 * i + 1] = (side ? 0.5f - std::sin(t) : std::sin(t)) + noise(rng);
        hy[i] = (float)side;
    }
    DeviceBuffer x(samples * 2), y(samples), dLogit(batchSize), loss(batchSize);
    x.upload(hx);
    y.upload(hy);

    std::vector<std::unique_ptr<Layer>> net;
    net.push_back(std::make_unique<Linear>(2, 32, batchSize, rng));
    net.push_back(std::make_unique<ReLU>(32, batchSize));
    net.push_back(std::make_unique<Linear>(32, 16, batchSize, rng));
    net.push_back(std::make_unique<ReLU>(16, batchSize));
    net.push_back(std::make_unique<Linear>(16, 1, batchSize, rng));

    std::vector<float> hl(batchSize);
    for (int epoch = 0; epoch < epochs; ++epoch) {
        float total = 0;
        for (int b = 0; b < samples / batchSize; ++b) {
            float *a = x.get() + b * batchSize * 2;
            for (auto &l : net) a = l->forward(a, batchSize);
            kBce<<<gridFor(batchSize), kThreads>>>(a, y.get() + b * batchSize, dLogit.get(), loss.get(), batchSize);
            float *d = dLogit.get();
            for (auto it = net.rbegin(); it != net.rend(); ++it) d = (*it)->backward(d, batchSize);
            for (auto &l : net) l->update(0.05f, 0.9f);
            check(cudaMemcpy(hl.data(), loss.get(), batchSize * sizeof(float), cudaMemcpyDeviceToHost));
            for (float v : hl) total += v;
        }
        printf("epoch %2d  loss %.5f\n", epoch, total / samples);
    }
}
