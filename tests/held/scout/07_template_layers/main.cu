// Compile-time sized network: Sequential<Dense<...>, Dense<...>, ...>.
// AdamW, Huber loss, Friedman's regression function.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <algorithm>
#include <tuple>
#include <utility>
#include <cuda_runtime.h>

#define cuda_try(call)                                                        \
    if (cudaError_t rc = (call); rc != cudaSuccess) {                         \
        std::fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(rc)); \
        std::exit(2);                                                         \
    }

constexpr int kBatch = 50;
enum class Act { None, Relu, Tanh };

template <int N>
struct Buffer {
    float *ptr;
    Buffer() { cuda_try(cudaMalloc(&ptr, N * sizeof(float))); cuda_try(cudaMemset(ptr, 0, N * sizeof(float))); }
    ~Buffer() { cudaFree(ptr); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    operator float *() const { return ptr; }
    void put(const float *src) { cuda_try(cudaMemcpy(ptr, src, N * sizeof(float), cudaMemcpyHostToDevice)); }
    void get(float *dst) const { cuda_try(cudaMemcpy(dst, ptr, N * sizeof(float), cudaMemcpyDeviceToHost)); }
};

template <int IN, int OUT, Act A>
__global__ void dense_forward(const float *x, const float *w, const float *b, float *y)
{
    __shared__ float row[IN];
    for (int i = threadIdx.x; i < IN; i += blockDim.x) row[i] = x[blockIdx.x * IN + i];
    __syncthreads();
    const int o = threadIdx.x;
    float s = b[o];
#pragma unroll
    for (int i = 0; i < IN; ++i) s += row[i] * w[o * IN + i];
    if (A == Act::Relu) s = fmaxf(s, 0.f);
    if (A == Act::Tanh) s = tanhf(s);
    y[blockIdx.x * OUT + o] = s;
}

template <int OUT, Act A>
__global__ void act_backward(const float *y, float *dy)
{
    const int i = blockIdx.x * OUT + threadIdx.x;
    if (A == Act::Relu) dy[i] = y[i] > 0.f ? dy[i] : 0.f;
    if (A == Act::Tanh) dy[i] *= 1.f - y[i] * y[i];
}

template <int IN, int OUT>
__global__ void dense_param_grad(const float *x, const float *dy, float *dw, float *db)
{
    const int o = blockIdx.x, i = threadIdx.x;
    float s = 0.f, t = 0.f;
    for (int n = 0; n < kBatch; ++n) {
        s += dy[n * OUT + o] * x[n * IN + i];
        t += dy[n * OUT + o];
    }
    dw[o * IN + i] = s;
    if (i == 0) db[o] = t;
}

template <int IN, int OUT>
__global__ void dense_input_grad(const float *dy, const float *w, float *dx)
{
    float s = 0.f;
    for (int o = 0; o < OUT; ++o) s += dy[blockIdx.x * OUT + o] * w[o * IN + threadIdx.x];
    dx[blockIdx.x * IN + threadIdx.x] = s;
}

template <int N>
__global__ void adamw(float *w, const float *g, float *m, float *v, float lr, float wd, int t)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    const float mh = m[i] / (1.f - powf(0.9f, t)), vh = v[i] / (1.f - powf(0.99f, t));
    w[i] -= lr * (mh / (sqrtf(vh) + 1e-8f) + wd * w[i]);
}

template <int IN, int OUT, Act A>
class Dense {
    Buffer<IN * OUT> w, dw, mw, vw;
    Buffer<OUT> b, db, mb, vb;
    Buffer<kBatch * OUT> y;
    Buffer<kBatch * IN> dx;
    float *input = nullptr;

public:
    void init(std::mt19937 &gen)
    {
        std::normal_distribution<float> d(0.f, std::sqrt(2.f / IN));
        std::vector<float> h(IN * OUT);
        std::generate(h.begin(), h.end(), [&] { return d(gen); });
        w.put(h.data());
    }
    float *forward(float *x)
    {
        input = x;
        dense_forward<IN, OUT, A><<<kBatch, OUT>>>(x, w, b, y);
        return y;
    }
    float *backward(float *dy)
    {
        if (A != Act::None) act_backward<OUT, A><<<kBatch, OUT>>>(y, dy);
        dense_param_grad<IN, OUT><<<OUT, IN>>>(input, dy, dw, db);
        dense_input_grad<IN, OUT><<<kBatch, IN>>>(dy, w, dx);
        return dx;
    }
    void update(float lr, float wd, int t)
    {
        adamw<IN * OUT><<<(IN * OUT + 127) / 128, 128>>>(w, dw, mw, vw, lr, wd, t);
        adamw<OUT><<<1, OUT>>>(b, db, mb, vb, lr, 0.f, t);  // no decay on the bias
    }
};

template <typename... Ls>
class Sequential {
    std::tuple<Ls...> layers;

    template <std::size_t I>
    float *fwd(float *x)
    {
        if constexpr (I == sizeof...(Ls)) return x;
        else return fwd<I + 1>(std::get<I>(layers).forward(x));
    }
    template <std::size_t I>
    void bwd(float *d)
    {
        d = std::get<I>(layers).backward(d);
        if constexpr (I > 0) bwd<I - 1>(d);
    }

public:
    void init(std::mt19937 &gen) { std::apply([&](auto &...l) { (l.init(gen), ...); }, layers); }
    float *forward(float *x) { return fwd<0>(x); }
    void backward(float *d) { bwd<sizeof...(Ls) - 1>(d); }
    void update(float lr, float wd, int t) { std::apply([&](auto &...l) { (l.update(lr, wd, t), ...); }, layers); }
};

__global__ void huber(const float *y, const float *t, float *dy, float *loss)
{
    const int n = threadIdx.x;
    const float e = y[n] - t[n], a = fabsf(e);
    loss[n] = a < 1.f ? 0.5f * e * e : a - 0.5f;
    dy[n] = (a < 1.f ? e : copysignf(1.f, e)) / kBatch;
}

int main()
{
    constexpr int kFeatures = 10, kTrain = 1000, kTest = 200;
    std::mt19937 gen(31337);
    std::uniform_real_distribution<float> u(0.f, 1.f);
    std::vector<float> X((kTrain + kTest) * kFeatures), T(kTrain + kTest);
    for (auto &v : X) v = u(gen);
    for (int n = 0; n < kTrain + kTest; ++n) {
        const float *x = &X[n * kFeatures];
        T[n] = (10.f * std::sin(3.14159f * x[0] * x[1]) + 20.f * (x[2] - 0.5f) * (x[2] - 0.5f) + 10.f * x[3] + 5.f * x[4] - 14.f) / 5.f;
    }

    Sequential<Dense<kFeatures, 32, Act::Relu>, Dense<32, 16, Act::Tanh>, Dense<16, 1, Act::None>> net;
    net.init(gen);
    Buffer<kBatch * kFeatures> x;
    Buffer<kBatch> t, dy, loss;

    std::vector<int> perm(kTrain);
    for (int i = 0; i < kTrain; ++i) perm[i] = i;
    float bx[kBatch * kFeatures], bt[kBatch], bl[kBatch];
    int step = 0;
    for (int epoch = 1; epoch <= 20; ++epoch) {
        std::shuffle(perm.begin(), perm.end(), gen);
        double train_loss = 0, test_loss = 0;
        for (int off = 0; off < kTrain; off += kBatch) {
            for (int i = 0; i < kBatch; ++i) {
                std::copy_n(&X[perm[off + i] * kFeatures], kFeatures, bx + i * kFeatures);
                bt[i] = T[perm[off + i]];
            }
            x.put(bx);
            t.put(bt);
            float *y = net.forward(x);
            huber<<<1, kBatch>>>(y, t, dy, loss);
            net.backward(dy);
            net.update(0.005f, 0.01f, ++step);
            loss.get(bl);
            for (float l : bl) train_loss += l;
        }
        for (int off = kTrain; off < kTrain + kTest; off += kBatch) {
            x.put(&X[off * kFeatures]);
            t.put(&T[off]);
            huber<<<1, kBatch>>>(net.forward(x), t, dy, loss);
            loss.get(bl);
            for (float l : bl) test_loss += l;
        }
        std::printf("epoch %2d  train %.5f  test %.5f\n", epoch, train_loss / kTrain, test_loss / kTest);
    }
}
