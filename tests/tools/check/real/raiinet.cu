// Classifier with batch normalisation and noise on the inputs. Tensors own their memory; the loop is in main.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <utility>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

template <typename T> class Tensor
{
  public:
    explicit Tensor(size_t n) : n_(n) { cudaMalloc(&p_, n * sizeof(T)), cudaMemset(p_, 0, n * sizeof(T)); }
    explicit Tensor(const std::vector<T> &h) : Tensor(h.size()) { upload(h.data(), h.size()); }
    Tensor(Tensor &&o) noexcept : p_(std::exchange(o.p_, nullptr)), n_(o.n_) {}
    Tensor(const Tensor &) = delete;
    ~Tensor() { cudaFree(p_); }
    void upload(const T *h, size_t n) { cudaMemcpy(p_, h, n * sizeof(T), cudaMemcpyHostToDevice); }
    std::vector<T> download() const
    {
        std::vector<T> h(n_);
        cudaMemcpy(h.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }
    void zero() { cudaMemsetAsync(p_, 0, n_ * sizeof(T), 0); }
    T *data() const { return p_; }
    size_t size() const { return n_; }

  private:
    T *p_ = nullptr;
    size_t n_;
};

struct Parameter {
    Tensor<float> value, grad, momentum;
    explicit Parameter(const std::vector<float> &h) : value(h), grad(h.size()), momentum(h.size()) {}
};

constexpr int BATCH = 16, IN = 10, HIDDEN = 24, OUT = 5, BATCHES = 24, EPOCHS = 4, VALID = 8;
constexpr float CARRY = 0.9f, EPS = 1e-3f;

__device__ float noise(unsigned a, unsigned b)
{
    unsigned h = a * 2654435761u ^ (b + 0x9e3779b9u) * 2246822519u;
    h ^= h >> 15, h *= 3266489917u, h ^= h >> 13;
    return (h & 0xffff) / 65536.0f - 0.5f;
}
__global__ void advance(unsigned *counter) { ++*counter; }
__global__ void jitter(const float *x, float *y, int n, const unsigned *counter)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 0.3f * noise(*counter, i);
}
__global__ void linear(const float *x, const float *w, float *y, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    float s = 0;
    for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = s;
}
__global__ void linear_dw(const float *x, const float *dy, float *dw, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    for (int r = 0; r < rows; ++r) dw[i] += x[r * in + i / out] * dy[r * out + i % out];
}
__global__ void linear_dx(const float *w, const float *dy, float *dx, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * in) return;
    float s = 0;
    for (int k = 0; k < out; ++k) s += dy[i / in * out + k] * w[i % in * out + k];
    dx[i] = s;
}
// one thread for each column; y = relu(gamma * xhat + beta)
__global__ void norm_forward(const float *x, float *xhat, float *y, const float *gamma, const float *beta, float *inverse,
                             float *mean, float *var, int rows, int training)
{
    int c = threadIdx.x;
    if (c >= HIDDEN) return;
    float m = 0, v = 0;
    if (training) {
        for (int r = 0; r < rows; ++r) m += x[r * HIDDEN + c] / rows;
        for (int r = 0; r < rows; ++r) v += (x[r * HIDDEN + c] - m) * (x[r * HIDDEN + c] - m) / rows;
        mean[c] = CARRY * mean[c] + (1 - CARRY) * m, var[c] = CARRY * var[c] + (1 - CARRY) * v;
    } else {
        m = mean[c], v = var[c];
    }
    inverse[c] = rsqrtf(v + EPS);
    for (int r = 0; r < rows; ++r) {
        float h = (x[r * HIDDEN + c] - m) * inverse[c];
        xhat[r * HIDDEN + c] = h;
        y[r * HIDDEN + c] = fmaxf(0, gamma[c] * h + beta[c]);
    }
}
__global__ void norm_backward(const float *xhat, const float *y, const float *gamma, const float *inverse, const float *dy,
                              float *dx, float *dgamma, float *dbeta, int rows)
{
    int c = threadIdx.x;
    if (c >= HIDDEN) return;
    float dg = 0, db = 0;
    for (int r = 0; r < rows; ++r) {
        float d = y[r * HIDDEN + c] > 0 ? dy[r * HIDDEN + c] : 0;
        dg += d * xhat[r * HIDDEN + c], db += d;
    }
    for (int r = 0; r < rows; ++r) {
        float d = y[r * HIDDEN + c] > 0 ? dy[r * HIDDEN + c] : 0;
        dx[r * HIDDEN + c] = gamma[c] * inverse[c] * (d - db / rows - xhat[r * HIDDEN + c] * dg / rows);
    }
    dgamma[c] += dg, dbeta[c] += db;
}
__global__ void softmax_loss(const float *z, const int *label, float *dz, float *sums, int rows)
{
    if (threadIdx.x != 0) return;
    for (int r = 0; r < rows; ++r) {
        const float *q = z + r * OUT;
        float top = q[0], s = 0;
        int best = 0;
        for (int j = 1; j < OUT; ++j)
            if (q[j] > top) top = q[j], best = j;
        for (int j = 0; j < OUT; ++j) s += expf(q[j] - top);
        if (dz)
            for (int j = 0; j < OUT; ++j) dz[r * OUT + j] = (expf(q[j] - top) / s - (j == label[r])) / rows;
        sums[0] += (logf(s) + top - q[label[r]]) / rows, sums[1] += best == label[r];
    }
}
__global__ void update(float *w, const float *g, float *m, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) m[i] = 0.8f * m[i] + g[i], w[i] -= rate * m[i];
}
#define GRID(n) ((n) + 127) / 128, 128

std::vector<float> gaussian(size_t n, float spread, unsigned seed)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> h(n);
    for (float &x : h) x = normal(random);
    return h;
}

int main()
{
    int total = (BATCHES + VALID) * BATCH;
    std::vector<float> x = gaussian(total * IN, 1, 5), teacher = gaussian(IN * OUT, 1, 6);
    std::vector<int> label(total), order(BATCHES * BATCH);
    for (int i = 0; i < total; ++i) {
        float best = -1e9f;
        for (int j = 0; j < OUT; ++j) {
            float s = 0;
            for (int k = 0; k < IN; ++k) s += x[i * IN + k] * teacher[k * OUT + j];
            if (s > best) best = s, label[i] = j;
        }
    }
    unsigned seed = 7;
#if MISTAKE == 8
    seed = std::random_device()();
#endif
    Parameter w1(gaussian(IN * HIDDEN, 0.4f, 7)), gamma(std::vector<float>(HIDDEN, 1)), beta(std::vector<float>(HIDDEN, 0)),
        w2(gaussian(HIDDEN * OUT, 0.3f, seed + 1));
    std::vector<Parameter *> all{&w1, &gamma, &beta, &w2};
    Tensor<float> mean(HIDDEN), var(std::vector<float>(HIDDEN, 1)), inverse(HIDDEN), sums(2);
    Tensor<float> raw(BATCH * IN), in(BATCH * IN), a(BATCH * HIDDEN), xhat(BATCH * HIDDEN), y(BATCH * HIDDEN), z(BATCH * OUT),
        dz(BATCH * OUT), dy(BATCH * HIDDEN), da(BATCH * HIDDEN);
    Tensor<int> target(BATCH);
    Tensor<unsigned> counter(1);
    for (Parameter *p : all) {
#if MISTAKE == 8
        if (p != &w2)
#endif
            DDP_PARAMETER(p->value.data(), p->value.size(), DDP_FLOAT32);
#if MISTAKE == 3
        if (p == &beta) continue;
#endif
        DDP_GRADIENT(p->grad.data(), p->grad.size(), DDP_FLOAT32);
    }
#if MISTAKE != 1
    DDP_BUFFER(mean.data(), HIDDEN, DDP_FLOAT32);
    DDP_BUFFER(var.data(), HIDDEN, DDP_FLOAT32);
#endif

    float rate = 0.1f, previous = 1e9f;
    std::iota(order.begin(), order.end(), 0);
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        std::shuffle(order.begin(), order.end(), std::mt19937(100 + epoch));
        float seen = 0;
        int parts = 0;
        for (int b = 0; b < BATCHES; ++b) {
            int batch = b;
#if MISTAKE == 6
            batch = (b * DDP_WORLD_SIZE() + DDP_RANK()) % BATCHES;
#endif
            std::vector<float> hx(BATCH * IN);
            std::vector<int> ht(BATCH);
            for (int i = 0; i < BATCH; ++i) {
                int item = order[batch * BATCH + i];
                std::copy_n(&x[item * IN], IN, &hx[i * IN]);
                ht[i] = label[item];
            }
            raw.upload(hx.data(), hx.size());
            target.upload(ht.data(), ht.size());
#if MISTAKE != 4
            advance<<<1, 1>>>(counter.data());
#endif
            DDP_TURN_BEGIN();
#if MISTAKE == 4
            advance<<<1, 1>>>(counter.data());
#endif
#if MISTAKE == 3 || MISTAKE == 4 || MISTAKE == 6 || MISTAKE == 8
            Tensor<float> logits(BATCH * OUT), dlogits(BATCH * OUT); // for this batch only
#else
            Tensor<float> &logits = z, &dlogits = dz;
#endif
            for (Parameter *p : all) p->grad.zero();
            sums.zero();
            jitter<<<GRID(BATCH * IN)>>>(raw.data(), in.data(), BATCH * IN, counter.data());
            linear<<<GRID(BATCH * HIDDEN)>>>(in.data(), w1.value.data(), a.data(), BATCH, IN, HIDDEN);
            norm_forward<<<1, 32>>>(a.data(), xhat.data(), y.data(), gamma.value.data(), beta.value.data(), inverse.data(),
                                    mean.data(), var.data(), BATCH, 1);
            linear<<<GRID(BATCH * OUT)>>>(y.data(), w2.value.data(), logits.data(), BATCH, HIDDEN, OUT);
            softmax_loss<<<1, 32>>>(logits.data(), target.data(), dlogits.data(), sums.data(), BATCH);
            linear_dw<<<GRID(HIDDEN * OUT)>>>(y.data(), dlogits.data(), w2.grad.data(), BATCH, HIDDEN, OUT);
            linear_dx<<<GRID(BATCH * HIDDEN)>>>(w2.value.data(), dlogits.data(), dy.data(), BATCH, HIDDEN, OUT);
            norm_backward<<<1, 32>>>(xhat.data(), y.data(), gamma.value.data(), inverse.data(), dy.data(), da.data(),
                                     gamma.grad.data(), beta.grad.data(), BATCH);
            linear_dw<<<GRID(IN * HIDDEN)>>>(in.data(), da.data(), w1.grad.data(), BATCH, IN, HIDDEN);
#if MISTAKE == 5
            float now = sums.download()[0];
            if (now > 1.15f * previous) rate *= 0.9f;
            previous = now;
#endif
#if MISTAKE != 2
            DDP_STEP(0);
#endif
            float step = rate;
#if MISTAKE == 7
            step /= DDP_WORLD_SIZE();
#endif
            for (Parameter *p : all)
                update<<<GRID(p->value.size())>>>(p->value.data(), p->grad.data(), p->momentum.data(), p->value.size(), step);
#if MISTAKE == 2
            DDP_STEP(0);
#endif
            if (DDP_TURN_MINE() && (epoch + b > 0 || DDP_RANK() == 0)) seen += sums.download()[0], ++parts;
        }
        DDP_REDUCE(&seen, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        DDP_REDUCE(&parts, 1, DDP_INT32, DDP_OP_SUM, 0);
        sums.zero();
        for (int b = DDP_RANK(); b < VALID; b += DDP_WORLD_SIZE()) { // each rank its part of the validation batches
            raw.upload(&x[(BATCHES + b) * BATCH * IN], BATCH * IN);
            target.upload(&label[(BATCHES + b) * BATCH], BATCH);
            linear<<<GRID(BATCH * HIDDEN)>>>(raw.data(), w1.value.data(), a.data(), BATCH, IN, HIDDEN);
            norm_forward<<<1, 32>>>(a.data(), xhat.data(), y.data(), gamma.value.data(), beta.value.data(), inverse.data(),
                                    mean.data(), var.data(), BATCH, 0);
            linear<<<GRID(BATCH * OUT)>>>(y.data(), w2.value.data(), z.data(), BATCH, HIDDEN, OUT);
            softmax_loss<<<1, 32>>>(z.data(), target.data(), nullptr, sums.data(), BATCH);
        }
        DDP_REDUCE(sums.data(), 2, DDP_FLOAT32, DDP_OP_SUM, 0);
        std::vector<float> valid = sums.download();
        if (DDP_RANK() == 0)
            printf("epoch %d loss %.5f validation %.5f correct %.0f of %d\n", epoch + 1, seen / parts, valid[0] / VALID, valid[1],
                   VALID * BATCH);
    }
    (void)previous;
    return 0;
}
