// Mixture density network: three Gaussians over y for every x, on the inverse of a wave that has several answers.
#include <cuda_runtime.h>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

class Tensor {
public:
    explicit Tensor(std::size_t count) : count_(count)
    {
        if (cudaMalloc(&data_, count * sizeof(float)) != cudaSuccess) throw std::runtime_error("cudaMalloc");
        cudaMemset(data_, 0, count * sizeof(float));
    }
    ~Tensor() { cudaFree(data_); }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    float *data() { return data_; }
    int count() const { return static_cast<int>(count_); }
    void load(const std::vector<float> &h)
    {
        if (cudaMemcpy(data_, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice) != cudaSuccess) throw std::runtime_error("cudaMemcpy");
    }
    std::vector<float> save() const
    {
        std::vector<float> h(count_);
        if (cudaMemcpy(h.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) throw std::runtime_error("cudaMemcpy");
        return h;
    }

private:
    std::size_t count_;
    float *data_ = nullptr;
};
using TensorPtr = std::shared_ptr<Tensor>;

struct Parameter {
    TensorPtr value, grad, first, second;
    explicit Parameter(int n)
        : value(std::make_shared<Tensor>(n)), grad(std::make_shared<Tensor>(n)), first(std::make_shared<Tensor>(n)), second(std::make_shared<Tensor>(n))
    {
    }
};

static int blocks(int n) { return (n + 127) / 128; }

__global__ void affine(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float s = b[i % out];
    for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = act ? tanhf(s) : s;
}

__global__ void affineGradient(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float s = 0.f, t = 0.f;
    for (int r = 0; r < n; ++r) {
        s += x[r * in + i / out] * dy[r * out + i % out];
        t += dy[r * out + i % out];
    }
    dw[i] = s;
    if (i < out) db[i] = t;
}

__global__ void affineInput(const float *dy, const float *w, const float *x, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0.f;
    for (int o = 0; o < out; ++o) s += dy[i / in * out + o] * w[i % in * out + o];
    dx[i] = s * (1.f - x[i] * x[i]);
}

// z holds, for each of K components: log weight, mean, log deviation
template <int K> __global__ void mixture(const float *z, const float *y, float *dz, float *nll, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *a = z + i * 3 * K;
    float top = -1e30f, sum = 0.f, logp[K], soft[K], big = -1e30f, total = 0.f;
    for (int k = 0; k < K; ++k) top = fmaxf(top, a[k]);
    for (int k = 0; k < K; ++k) sum += soft[k] = expf(a[k] - top);
    for (int k = 0; k < K; ++k) {
        soft[k] /= sum;
        float u = (y[i] - a[K + k]) * expf(-a[2 * K + k]);
        logp[k] = logf(soft[k] + 1e-20f) - a[2 * K + k] - 0.5f * u * u - 0.918938533f;
        big = fmaxf(big, logp[k]);
    }
    for (int k = 0; k < K; ++k) total += expf(logp[k] - big);
    nll[i] = -(big + logf(total));
    for (int k = 0; k < K; ++k) {
        float post = expf(logp[k] - big) / total, inv = expf(-a[2 * K + k]), u = (y[i] - a[K + k]) * inv;
        dz[i * 3 * K + k] = soft[k] - post;
        dz[i * 3 * K + K + k] = -post * u * inv;
        dz[i * 3 * K + 2 * K + k] = post * (1.f - u * u);
    }
}

// the gradients are sums over the batch; scale makes means of them
__global__ void adam(float *w, const float *g, float *m, float *v, int n, float scale, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] * scale;
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.995f * v[i] + 0.005f * d * d;
    w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
}

class Layer {
public:
    Layer(int in, int out, bool act, int batch, std::mt19937 &rng)
        : weight(in * out), bias(out), output(std::make_shared<Tensor>(batch * out)), delta(std::make_shared<Tensor>(batch * out)), in_(in), out_(out), act_(act)
    {
        std::vector<float> h(in * out);
        std::normal_distribution<float> normal(0.f, 1.f / std::sqrt(float(in)));
        for (float &x : h) x = normal(rng);
        weight.value->load(h);
    }
    void forward(Tensor &x, int n)
    {
        affine<<<blocks(n * out_), 128>>>(x.data(), weight.value->data(), bias.value->data(), output->data(), n, in_, out_, act_);
    }
    // below: the layer whose output was the input, if there is one
    void backward(Tensor &x, Layer *below, int n)
    {
        affineGradient<<<blocks(in_ * out_), 128>>>(x.data(), delta->data(), weight.grad->data(), bias.grad->data(), n, in_, out_);
        if (below) affineInput<<<blocks(n * in_), 128>>>(delta->data(), weight.value->data(), x.data(), below->delta->data(), n, in_, out_);
    }
    Parameter weight, bias;
    TensorPtr output, delta;

private:
    int in_, out_;
    bool act_;
};

class Adam {
public:
    Adam(std::vector<Parameter> params, float peak, int warmup, int total) : params_(std::move(params)), peak_(peak), warmup_(warmup), total_(total) {}
    float step(float scale)
    {
        ++t_;
        float rate = t_ <= warmup_ ? peak_ * t_ / warmup_ : peak_ * 0.5f * (1.f + std::cos(3.14159265f * (t_ - warmup_) / (total_ - warmup_)));
        float c1 = 1.f - std::pow(0.9f, t_), c2 = 1.f - std::pow(0.995f, t_);
        for (auto &p : params_)
            adam<<<blocks(p.value->count()), 128>>>(p.value->data(), p.grad->data(), p.first->data(), p.second->data(), p.value->count(), scale, rate, c1, c2);
        return rate;
    }

private:
    std::vector<Parameter> params_; // share their tensors with the layers
    float peak_;
    int warmup_, total_, t_ = 0;
};

int main()
{
    constexpr int components = 3, samples = 1000, batch = 64, steps = 200;
    std::mt19937 rng(12);
    std::uniform_real_distribution<float> uniform(0.f, 1.f);
    std::vector<float> xs(samples), ys(samples);
    for (int i = 0; i < samples; ++i) {
        ys[i] = uniform(rng);
        xs[i] = ys[i] + 0.3f * std::sin(6.2831853f * ys[i]) + 0.1f * (uniform(rng) - 0.5f);
    }

    std::vector<std::unique_ptr<Layer>> net;
    net.push_back(std::make_unique<Layer>(1, 28, true, batch, rng));
    net.push_back(std::make_unique<Layer>(28, 16, true, batch, rng));
    net.push_back(std::make_unique<Layer>(16, 3 * components, false, batch, rng));
    std::vector<Parameter> params;
    for (auto &l : net) {
        params.push_back(l->weight);
        params.push_back(l->bias);
    }
    Adam optimizer(params, 0.03f, 10, steps);

    Tensor x(batch), y(batch), nll(batch);
    std::vector<float> bx(batch), by(batch);
    double shown = 0;
    for (int step = 1; step <= steps; ++step) {
        for (int i = 0; i < batch; ++i) {
            int k = rng() % samples;
            bx[i] = 2.f * xs[k] - 1.f;
            by[i] = 2.f * ys[k] - 1.f;
        }
        x.load(bx);
        y.load(by);

        net[0]->forward(x, batch);
        net[1]->forward(*net[0]->output, batch);
        net[2]->forward(*net[1]->output, batch);
        mixture<components><<<blocks(batch), 128>>>(net[2]->output->data(), y.data(), net[2]->delta->data(), nll.data(), batch);
        net[2]->backward(*net[1]->output, net[1].get(), batch);
        net[1]->backward(*net[0]->output, net[0].get(), batch);
        net[0]->backward(x, nullptr, batch);
        float rate = optimizer.step(1.f / batch);

        double sum = 0;
        for (float v : nll.save()) sum += v;
        shown += sum / batch;
        if (step % 20 == 0) {
            std::cout << "step " << std::setw(3) << step << "  nll " << std::fixed << std::setprecision(4) << shown / 20 << "  rate " << rate << "\n";
            shown = 0;
        }
    }
    return 0;
}
