// gcn.cu - graph convolution (Kipf & Welling) on a stream of small random graphs: which kind of
// node is the most frequent in a node's neighbourhood?  Every batch is a block-diagonal graph of its
// own size, so its buffers live just as long as the batch.  Adam keeps its step on the device;
// the result is the average of the weights after all the updates (Polyak).
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <utility>
#include <vector>

namespace {

void require(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::cerr << "cuda: " << cudaGetErrorString(status) << '\n';
    std::exit(EXIT_FAILURE);
}

template <typename T>
class DeviceVector {
public:
    explicit DeviceVector(std::size_t n) : size_(n) {
        require(cudaMalloc(reinterpret_cast<void **>(&data_), n * sizeof(T)));
        require(cudaMemset(data_, 0, n * sizeof(T)));
    }
    DeviceVector(const std::vector<T> &host) : DeviceVector(host.size()) {
        require(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
    }
    DeviceVector(const DeviceVector &) = delete;
    DeviceVector &operator=(const DeviceVector &) = delete;
    ~DeviceVector() { cudaFree(data_); }
    auto host() const -> std::vector<T> {
        std::vector<T> out(size_);
        require(cudaMemcpy(out.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
        return out;
    }
    operator T *() { return data_; }
    auto size() const { return static_cast<int>(size_); }

private:
    T *data_ = nullptr;
    std::size_t size_;
};

constexpr int kTypes = 5, kIn = 8, kHidden = 16, kGraphs = 6;

template <typename... Par, typename... Arg>
void launch(int n, void (*kernel)(int, Par...), Arg &&...arg) {
    if (n > 0) kernel<<<(n + 95) / 96, 96>>>(n, static_cast<Par>(arg)...);
    require(cudaGetLastError());
}
__device__ int self() { return blockIdx.x * blockDim.x + threadIdx.x; }

// y = A x, A symmetric in CSR form; f columns
__global__ void propagate(int n, const int *row, const int *col, const float *val, const float *x, float *y, int f) {
    if (int i = self(); i < n) {
        float s = 0;
        for (int e = row[i / f]; e < row[i / f + 1]; ++e) s += val[e] * x[col[e] * f + i % f];
        y[i] = s;
    }
}
__global__ void affine(int n, const float *x, const float *w, const float *b, float *y, int in, int out, int relu) {
    if (int i = self(); i < n) {
        float s = b[i % out];
        for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[k * out + i % out];
        y[i] = relu ? fmaxf(s, 0.f) : s;
    }
}
__global__ void affineDelta(int n, const float *dy, const float *w, float *dx, int in, int out) {
    if (int i = self(); i < n) {
        float s = 0;
        for (int k = 0; k < out; ++k) s += dy[i / in * out + k] * w[i % in * out + k];
        dx[i] = s;
    }
}
__global__ void reluDelta(int n, const float *y, float *dy) {
    if (int i = self(); i < n && y[i] <= 0) dy[i] = 0;
}
// n = (in + 1) * out: the last row is the bias
__global__ void affineGradient(int n, const float *x, const float *dy, float *g, int nodes, int in, int out) {
    if (int i = self(); i < n) {
        float s = 0;
        for (int v = 0; v < nodes; ++v) s += (i / out < in ? x[v * in + i / out] : 1.f) * dy[v * out + i % out];
        g[i] = s;
    }
}
__global__ void crossEntropy(int n, float *logit, const int *label, float *loss, float *hit) {
    if (int i = self(); i < n) {
        float *l = logit + i * kTypes, m = l[0], s = 0;
        int best = 0;
        for (int k = 1; k < kTypes; ++k)
            if (l[k] > m) m = l[k], best = k;
        for (int k = 0; k < kTypes; ++k) s += expf(l[k] - m);
        loss[i] = logf(s) + m - l[label[i]];
        hit[i] = best == label[i];
        for (int k = 0; k < kTypes; ++k) l[k] = (expf(l[k] - m) / s - (k == label[i])) / n;
    }
}

struct Clock { int step; float b1t, b2t; };
__global__ void tick(int n, Clock *c) {
    if (self() >= n) return;
    if (c->step == 0) c->b1t = c->b2t = 1;
    ++c->step, c->b1t *= 0.9f, c->b2t *= 0.995f;
}
__global__ void adam(int n, float *w, const float *g, float *m, float *v, float *mean, const Clock *c, float rate) {
    if (int i = self(); i < n) {
        m[i] += 0.1f * (g[i] - m[i]);
        v[i] += 0.005f * (g[i] * g[i] - v[i]);
        w[i] -= rate * m[i] / (1 - c->b1t) / (sqrtf(v[i] / (1 - c->b2t)) + 1e-5f);
        mean[i] += (w[i] - mean[i]) / c->step;
    }
}
__global__ void oracleSum(int n, float *sum, const float *g) { if (int i = self(); i < n) sum[i] += g[i]; }
__global__ void oracleMean(int n, float *g, float *sum, int r) { if (int i = self(); i < n) g[i] = sum[i] / r, sum[i] = 0; }

struct Batch { std::vector<int> row{0}, col, label; std::vector<float> val, x; int nodes() const { return (int)label.size(); } };

Batch makeBatch(std::mt19937 &rng, int graphs) {
    Batch b;
    for (int g = 0; g < graphs; ++g) {
        const int base = b.nodes(), n = 5 + rng() % 9, ring = 1 + rng() % 2;
        std::vector<std::vector<int>> near(n);
        for (int i = 0; i < n; ++i) near[i].push_back(i);
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < i; ++j)
                if (i - j <= ring ? rng() % 4 != 0 : rng() % 7 == 0) near[i].push_back(j), near[j].push_back(i);
        std::vector<int> type(n);
        const int favourite = rng() % kTypes;
        for (auto &t : type) t = rng() % 3 ? rng() % kTypes : favourite;
        for (int i = 0; i < n; ++i) {
            int count[kTypes] = {}, best = 0;
            for (int j : near[i]) {
                b.col.push_back(base + j);
                b.val.push_back(1 / std::sqrt(float(near[i].size() * near[j].size())));
                ++count[type[j]];
            }
            b.row.push_back((int)b.col.size());
            for (int t = 1; t < kTypes; ++t) if (count[t] > count[best]) best = t;
            b.label.push_back(best);
            for (int k = 0; k < kIn; ++k)
                b.x.push_back(k < kTypes ? float(type[i] == k) : (int(rng() % 2001) - 1000) / 2000.f);
        }
    }
    return b;
}

class Gcn {
public:
    static constexpr int first = (kIn + 1) * kHidden, second = (kHidden + 1) * kTypes, total = first + second;
    DeviceVector<float> w, g{total};
    explicit Gcn(const std::vector<float> &init) : w(init) {}

    // loss and share of correct nodes; gradients only where asked
    std::pair<float, float> run(const Batch &b, bool gradients) {
        const int n = b.nodes();
        DeviceVector<int> row(b.row), col(b.col), label(b.label);
        DeviceVector<float> val(b.val), x(b.x), ax(n * kIn), h(n * kHidden), ah(n * kHidden), y(n * kTypes), loss(n), hit(n);
        float *w1 = w, *b1 = w + kIn * kHidden, *w2 = w + first, *b2 = w2 + kHidden * kTypes;
        launch(n * kIn, propagate, row, col, val, x, ax, kIn);
        launch(n * kHidden, affine, ax, w1, b1, h, kIn, kHidden, 1);
        launch(n * kHidden, propagate, row, col, val, h, ah, kHidden);
        launch(n * kTypes, affine, ah, w2, b2, y, kHidden, kTypes, 0);
        launch(n, crossEntropy, y, label, loss, hit);
        if (gradients) {
            DeviceVector<float> dah(n * kHidden), dh(n * kHidden);
            launch(second, affineGradient, ah, y, g + first, n, kHidden, kTypes);
            launch(n * kHidden, affineDelta, y, w2, dah, kHidden, kTypes);
            launch(n * kHidden, propagate, row, col, val, dah, dh, kHidden);
            launch(n * kHidden, reluDelta, h, dh);
            launch(first, affineGradient, ax, dh, g, n, kIn, kHidden);
        }
        float l = 0, c = 0;
        for (float v : loss.host()) l += v / n;
        for (float v : hit.host()) c += v / n;
        return {l, c};
    }
};

}  // namespace

int main(int argc, char **argv) {
    std::string save;
    int oracle = 0, batches = 150;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string key = argv[i];
        if (key == "--save") save = argv[i + 1];
        if (key == "--oracle") oracle = std::stoi(argv[i + 1]);
        if (key == "--batches") batches = std::stoi(argv[i + 1]);
    }
    std::mt19937 rng(5);
    std::vector<float> init(Gcn::total);
    for (int i = 0; i < Gcn::total; ++i) {
        const bool bias = (i >= kIn * kHidden && i < Gcn::first) || i >= Gcn::first + kHidden * kTypes;
        init[i] = bias ? 0 : (int(rng() % 2001) - 1000) / 1000.f * (i < Gcn::first ? 0.6f : 0.4f);
    }
    const Batch test = makeBatch(rng, 30);
    Gcn net(init);
    DeviceVector<float> m(Gcn::total), v(Gcn::total), mean(init), sum(Gcn::total);
    DeviceVector<Clock> clock(1);
    std::cout << std::fixed << std::setprecision(4);
    for (int b = 1; b <= batches; ++b) {
        const Batch batch = makeBatch(rng, kGraphs);
        const auto [loss, correct] = net.run(batch, true);
        if (b % 10 == 0) std::cout << "batch " << b << ": " << batch.nodes() << " nodes, loss " << loss << ", correct " << correct << '\n';
        if (oracle > 0) {
            launch(Gcn::total, oracleSum, sum, net.g);
            if (b % oracle != 0) continue;
            launch(Gcn::total, oracleMean, net.g, sum, oracle);
        }
        launch(1, tick, clock);
        launch(Gcn::total, adam, net.w, net.g, m, v, mean, clock, 0.02f);
    }
    require(cudaMemcpy(net.w, mean, Gcn::total * sizeof(float), cudaMemcpyDeviceToDevice));
    const auto [loss, correct] = net.run(test, false);
    std::cout << "averaged weights on the test graphs: loss " << loss << ", correct " << correct << '\n';
    if (!save.empty()) {
        std::ofstream out(save);
        out << std::setprecision(9);
        for (float f : net.w.host()) out << f << '\n';
    }
}
