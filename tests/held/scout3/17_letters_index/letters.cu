// 26-class letter features.  The data set stays on the device; each epoch has a
// fresh permutation of row numbers and every batch is gathered through it.
// Cosine schedule, AdamW, validation runs through the same code as training.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int FEATURES = 16;
constexpr int LETTERS = 26;

__global__ void gatherRows(const float *all_x, const int *all_y, const int *index, float *x, int *y, int count)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count * FEATURES) return;
    int r = t / FEATURES, f = t % FEATURES, src = index[r];
    x[t] = all_x[src * FEATURES + f];
    if (f == 0) y[r] = all_y[src];
}

__global__ void denseFwd(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, bool act)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * out) return;
    int r = t / out, o = t % out;
    float s = b[o];
    for (int i = 0; i < in; ++i) s = fmaf(x[r * in + i], w[i * out + o], s);
    y[t] = act ? s / (1.f + expf(-s)) : s;          // SiLU
}

__global__ void siluBwd(const float *x, const float *w, const float *b, float *d, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * out) return;
    int r = t / out, o = t % out;
    float s = b[o];
    for (int i = 0; i < in; ++i) s = fmaf(x[r * in + i], w[i * out + o], s);
    float q = 1.f / (1.f + expf(-s));
    d[t] *= q * (1.f + s * (1.f - q));
}

__global__ void denseBwdW(const float *x, const float *d, float *gw, float *gb, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (in + 1) * out) return;
    int i = t / out, o = t % out;
    float s = 0.f;
    for (int r = 0; r < rows; ++r) s += d[r * out + o] * (i < in ? x[r * in + i] : 1.f);
    if (i < in) gw[t] = s;
    else gb[o] = s;
}

__global__ void denseBwdX(const float *d, const float *w, float *dx, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * in) return;
    int r = t / in, i = t % in;
    float s = 0.f;
    for (int o = 0; o < out; ++o) s += d[r * out + o] * w[i * out + o];
    dx[t] = s;
}

__global__ void evaluate(const float *z, const int *y, float *d, float *loss, int *hits, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float *zr = z + r * LETTERS;
    int best = 0;
    for (int c = 1; c < LETTERS; ++c) if (zr[c] > zr[best]) best = c;
    float sum = 0.f, top = zr[best];
    for (int c = 0; c < LETTERS; ++c) sum += expf(zr[c] - top);
    for (int c = 0; c < LETTERS; ++c) d[r * LETTERS + c] = (expf(zr[c] - top) / sum - (c == y[r])) / rows;
    atomicAdd(loss, logf(sum) + top - zr[y[r]]);
    atomicAdd(hits, best == y[r]);
}

__global__ void adamw(float *p, const float *g, float *m, float *v, int n, float lr, float wd, float k1, float k2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    p[i] -= lr * (m[i] * k1 / (sqrtf(v[i] * k2) + 1e-8f) + wd * p[i]);
}

template <typename T>
static T *device(size_t n)
{
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}
static int cdiv(int a, int b) { return (a + b - 1) / b; }

struct Dense {
    int in, out;
    float *w, *b, *gw, *gb, *mw, *mb, *vw, *vb, *act, *delta;
    Dense(int i, int o, int rows, std::mt19937 &rng) : in(i), out(o)
    {
        for (float **p : {&w, &gw, &mw, &vw}) *p = device<float>(in * out);
        for (float **p : {&b, &gb, &mb, &vb}) *p = device<float>(out);
        act = device<float>(rows * out);
        delta = device<float>(rows * out);
        std::normal_distribution<float> nd(0.f, std::sqrt(1.6f / in));
        std::vector<float> h(in * out);
        std::generate(h.begin(), h.end(), [&] { return nd(rng); });
        cudaMemcpy(w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
};

class Trainer {
public:
    Trainer(int batch, int total_steps) : batch_(batch), total_(total_steps), rng_(404)
    {
        layers_.emplace_back(FEATURES, 48, batch, rng_);
        layers_.emplace_back(48, LETTERS, batch, rng_);
        x_ = device<float>(batch * FEATURES);
        y_ = device<int>(batch);
        loss_ = device<float>(1);
        hits_ = device<int>(1);
    }

    void load(const std::vector<float> &x, const std::vector<int> &y)
    {
        all_x_ = device<float>(x.size());
        all_y_ = device<int>(y.size());
        index_ = device<int>(y.size());
        cudaMemcpy(all_x_, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(all_y_, y.data(), y.size() * sizeof(int), cudaMemcpyHostToDevice);
    }

    void run(std::vector<int> rows, bool train)
    {
        if (train) std::shuffle(rows.begin(), rows.end(), rng_);
        cudaMemcpy(index_, rows.data(), rows.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemset(loss_, 0, sizeof(float));
        cudaMemset(hits_, 0, sizeof(int));
        const int n = (int)rows.size();
        for (int at = 0; at < n; at += batch_) {
            int count = std::min(batch_, n - at);
            forward(index_ + at, count);
            if (train) { backward(count); update(); }
        }
        float l;
        int h;
        cudaMemcpy(&l, loss_, sizeof(l), cudaMemcpyDeviceToHost);
        cudaMemcpy(&h, hits_, sizeof(h), cudaMemcpyDeviceToHost);
        std::printf(" %s loss %.5f acc %.4f", train ? "train" : "valid", l / n, h / (float)n);
    }

private:
    void forward(const int *index, int count)
    {
        gatherRows<<<cdiv(count * FEATURES, 128), 128>>>(all_x_, all_y_, index, x_, y_, count);
        const float *in = x_;
        for (auto &l : layers_) {
            denseFwd<<<cdiv(count * l.out, 128), 128>>>(in, l.w, l.b, l.act, count, l.in, l.out, &l != &layers_.back());
            in = l.act;
        }
        evaluate<<<cdiv(count, 64), 64>>>(in, y_, layers_.back().delta, loss_, hits_, count);
    }
    void backward(int count)
    {
        Dense &a = layers_[0], &b = layers_[1];
        denseBwdW<<<cdiv((b.in + 1) * b.out, 128), 128>>>(a.act, b.delta, b.gw, b.gb, count, b.in, b.out);
        denseBwdX<<<cdiv(count * b.in, 128), 128>>>(b.delta, b.w, a.delta, count, b.in, b.out);
        siluBwd<<<cdiv(count * a.out, 128), 128>>>(x_, a.w, a.b, a.delta, count, a.in, a.out);
        denseBwdW<<<cdiv((a.in + 1) * a.out, 128), 128>>>(x_, a.delta, a.gw, a.gb, count, a.in, a.out);
    }
    void update()
    {
        float lr = 0.5f * 0.02f * (1.f + std::cos(3.14159265f * step_ / total_));
        ++step_;
        float k1 = 1.f / (1.f - std::pow(0.9f, step_)), k2 = 1.f / (1.f - std::pow(0.98f, step_));
        for (auto &l : layers_) {
            adamw<<<cdiv(l.in * l.out, 128), 128>>>(l.w, l.gw, l.mw, l.vw, l.in * l.out, lr, 0.01f, k1, k2);
            adamw<<<cdiv(l.out, 128), 128>>>(l.b, l.gb, l.mb, l.vb, l.out, lr, 0.f, k1, k2);
        }
    }

    int batch_, total_, step_ = 0;
    std::mt19937 rng_;
    std::vector<Dense> layers_;
    float *all_x_, *x_, *loss_;
    int *all_y_, *index_, *y_, *hits_;
};

int main()
{
    const int rows = 2000, train_rows = 1600, batch = 120, epochs = 8;
    std::mt19937 rng(1);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> centre(LETTERS * FEATURES), x(rows * FEATURES);
    std::vector<int> y(rows), all(rows);
    for (auto &c : centre) c = nd(rng);
    for (int i = 0; i < rows; ++i) {
        y[i] = rng() % LETTERS;
        for (int f = 0; f < FEATURES; ++f) x[i * FEATURES + f] = centre[y[i] * FEATURES + f] + 0.55f * nd(rng);
    }
    std::iota(all.begin(), all.end(), 0);
    std::vector<int> train(all.begin(), all.begin() + train_rows), valid(all.begin() + train_rows, all.end());

    Trainer trainer(batch, epochs * cdiv(train_rows, batch));
    trainer.load(x, y);
    for (int e = 0; e < epochs; ++e) {
        std::printf("epoch %d:", e);
        trainer.run(train, true);
        trainer.run(valid, false);
        std::printf("\n");
    }
    return 0;
}
