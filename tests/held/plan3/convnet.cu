// convnet.cu - a small convolutional classifier built from layer templates.
// Three streams: batches are copied one ahead of the computation, and the weights' gradients run
// beside the back-propagation of the deltas.  Nesterov momentum; a validation set every 20 batches.
#include <cuda_runtime.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

inline void ok(cudaError_t e) { if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e)); }

template <int C_, int H_, int W_> struct Shape { enum { C = C_, H = H_, W = W_, size = C_ * H_ * W_ }; };

template <class In, int OUT, int K> struct Conv {
    using Input = In;
    using Output = Shape<OUT, In::H - K + 1, In::W - K + 1>;
    enum { weights = OUT * In::C * K * K, params = weights + OUT, fan = In::C * K * K };
    __device__ static void forward(const float *p, const float *x, float *y, int o) {
        int c = o / (Output::H * Output::W), r = o / Output::W % Output::H, q = o % Output::W;
        float s = p[weights + c];
        for (int i = 0; i < In::C; ++i)
            for (int a = 0; a < K; ++a)
                for (int b = 0; b < K; ++b) s += p[((c * In::C + i) * K + a) * K + b] * x[(i * In::H + r + a) * In::W + q + b];
        y[o] = s;
    }
    __device__ static float delta(const float *p, const float *dy, int e) {
        int i = e / (In::H * In::W), r = e / In::W % In::H, q = e % In::W;
        float s = 0;
        for (int c = 0; c < OUT; ++c)
            for (int a = 0; a < K; ++a)
                for (int b = 0; b < K; ++b) {
                    int y = r - a, x = q - b;
                    if (y >= 0 && y < Output::H && x >= 0 && x < Output::W)
                        s += p[((c * In::C + i) * K + a) * K + b] * dy[(c * Output::H + y) * Output::W + x];
                }
        return s;
    }
    __device__ static float gradient(const float *x, const float *dy, int w) {
        float s = 0;
        if (w >= weights) {
            for (int j = 0; j < Output::H * Output::W; ++j) s += dy[(w - weights) * Output::H * Output::W + j];
            return s;
        }
        int c = w / (In::C * K * K), i = w / (K * K) % In::C, a = w / K % K, b = w % K;
        for (int r = 0; r < Output::H; ++r)
            for (int q = 0; q < Output::W; ++q) s += dy[(c * Output::H + r) * Output::W + q] * x[(i * In::H + r + a) * In::W + q + b];
        return s;
    }
};

template <class In, int OUT> struct Dense {
    using Input = In;
    using Output = Shape<OUT, 1, 1>;
    enum { weights = OUT * In::size, params = weights + OUT, fan = In::size };
    __device__ static void forward(const float *p, const float *x, float *y, int o) {
        float s = p[weights + o];
        for (int i = 0; i < In::size; ++i) s += p[o * In::size + i] * x[i];
        y[o] = s;
    }
    __device__ static float delta(const float *p, const float *dy, int e) {
        float s = 0;
        for (int o = 0; o < OUT; ++o) s += p[o * In::size + e] * dy[o];
        return s;
    }
    __device__ static float gradient(const float *x, const float *dy, int w) {
        return w >= weights ? dy[w - weights] : dy[w / In::size] * x[w % In::size];
    }
};

// ReLU and 2x2 max-pooling in one; no parameters
template <class In> struct ReluPool {
    using Input = In;
    using Output = Shape<In::C, In::H / 2, In::W / 2>;
    enum { params = 0, weights = 0, fan = 1 };
    __device__ static int best(const float *x, int o) {
        int c = o / (Output::H * Output::W), r = o / Output::W % Output::H, q = o % Output::W;
        int at = (c * In::H + 2 * r) * In::W + 2 * q, m = at;
        for (int j : {1, (int)In::W, (int)In::W + 1}) if (x[at + j] > x[m]) m = at + j;
        return m;
    }
    __device__ static void forward(const float *, const float *x, float *y, int o) { y[o] = fmaxf(x[best(x, o)], 0.f); }
};

template <class L> __global__ void fwd(const float *p, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = i / L::Output::size;
    if (s < n) L::forward(p, x + s * L::Input::size, y + s * L::Output::size, i % L::Output::size);
}
template <class L> __global__ void bwd(const float *p, const float *dy, float *dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = i / L::Input::size;
    if (s < n) dx[i] = L::delta(p, dy + s * L::Output::size, i % L::Input::size);
}
template <class L> __global__ void unpool(const float *x, const float *dy, float *dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = i / L::Output::size;
    if (s >= n) return;
    const float *xs = x + s * L::Input::size;
    int m = L::best(xs, i % L::Output::size);
    dx[s * L::Input::size + m] = xs[m] > 0 ? dy[i] : 0.f;            // the rest was set to zero before
}
template <class L> __global__ void grad(const float *x, const float *dy, float *g) {   // grid.y: samples
    int w = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.y;
    if (w < L::params) atomicAdd(g + w, L::gradient(x + s * L::Input::size, dy + s * L::Output::size, w));
}
template <int CLASSES> __global__ void xent(float *y, const int *label, float *stat, int n) {   // y becomes dy
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float *l = y + s * CLASSES, m = l[0], z = 0;
    int arg = 0;
    for (int c = 1; c < CLASSES; ++c) if (l[c] > m) { m = l[c]; arg = c; }
    for (int c = 0; c < CLASSES; ++c) z += expf(l[c] - m);
    atomicAdd(stat, (logf(z) + m - l[label[s]]) / n);
    atomicAdd(stat + 1, arg == label[s] ? 1.f / n : 0.f);
    for (int c = 0; c < CLASSES; ++c) l[c] = (expf(l[c] - m) / z - (c == label[s])) / n;
}
__global__ void nesterov(float *p, const float *g, float *v, int n, float lr, float mom, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] + decay * p[i];
    v[i] = mom * v[i] + d;
    p[i] -= lr * (d + mom * v[i]);
}
__global__ void addScaled(float *to, const float *from, float f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] += f * from[i];
}

using Image = Shape<1, 12, 12>;
using C1 = Conv<Image, 6, 3>;
using P1 = ReluPool<C1::Output>;
using C2 = Conv<P1::Output, 8, 2>;
using P2 = ReluPool<C2::Output>;
using FC = Dense<P2::Output, 4>;
constexpr int BATCH = 8, VALID = 64, NPAR = C1::params + C2::params + FC::params;

template <class T> T *onDevice(size_t n) { T *p; ok(cudaMalloc(&p, n * sizeof(T))); ok(cudaMemset(p, 0, n * sizeof(T))); return p; }
template <class L> dim3 cover(int n) { return dim3((L::Output::size * n + 63) / 64); }

struct Net {
    float *p = onDevice<float>(NPAR), *g = onDevice<float>(NPAR), *v = onDevice<float>(NPAR), *stat = onDevice<float>(2);
    float *a[5], *d[5];
    cudaStream_t main, side;
    cudaEvent_t ready[3], sideDone;
    Net() {
        const int sizes[5] = {C1::Output::size, P1::Output::size, C2::Output::size, P2::Output::size, 4};
        for (int i = 0; i < 5; ++i) { a[i] = onDevice<float>(sizes[i] * VALID); d[i] = onDevice<float>(sizes[i] * BATCH); }
        ok(cudaStreamCreate(&main)); ok(cudaStreamCreate(&side));
        for (auto &e : ready) ok(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        ok(cudaEventCreateWithFlags(&sideDone, cudaEventDisableTiming));
    }
    float *p2() const { return p + C1::params; }
    float *p3() const { return p2() + C2::params; }
    void forward(const float *x, const int *label, int n) {
        ok(cudaMemsetAsync(stat, 0, 2 * sizeof(float), main));
        fwd<C1><<<cover<C1>(n), 64, 0, main>>>(p, x, a[0], n);
        fwd<P1><<<cover<P1>(n), 64, 0, main>>>(nullptr, a[0], a[1], n);
        fwd<C2><<<cover<C2>(n), 64, 0, main>>>(p2(), a[1], a[2], n);
        fwd<P2><<<cover<P2>(n), 64, 0, main>>>(nullptr, a[2], a[3], n);
        fwd<FC><<<cover<FC>(n), 64, 0, main>>>(p3(), a[3], a[4], n);
        xent<4><<<(n + 63) / 64, 64, 0, main>>>(a[4], label, stat, n);
    }
    template <class L> void side_grad(int which, const float *x, const float *dy, float *to) {
        ok(cudaEventRecord(ready[which], main));
        ok(cudaStreamWaitEvent(side, ready[which], 0));
        grad<L><<<dim3((L::params + 63) / 64, BATCH), 64, 0, side>>>(x, dy, to);
    }
    void backward(const float *x) {
        ok(cudaMemsetAsync(g, 0, NPAR * sizeof(float), main));
        side_grad<FC>(2, a[3], a[4], g + C1::params + C2::params);
        bwd<FC><<<(P2::Output::size * BATCH + 63) / 64, 64, 0, main>>>(p3(), a[4], d[3], BATCH);
        ok(cudaMemsetAsync(d[2], 0, C2::Output::size * BATCH * sizeof(float), main));
        unpool<P2><<<cover<P2>(BATCH), 64, 0, main>>>(a[2], d[3], d[2], BATCH);
        side_grad<C2>(1, a[1], d[2], g + C1::params);
        bwd<C2><<<(P1::Output::size * BATCH + 63) / 64, 64, 0, main>>>(p2(), d[2], d[1], BATCH);
        ok(cudaMemsetAsync(d[0], 0, C1::Output::size * BATCH * sizeof(float), main));
        unpool<P1><<<cover<P1>(BATCH), 64, 0, main>>>(a[0], d[1], d[0], BATCH);
        side_grad<C1>(0, x, d[0], g);
        ok(cudaEventRecord(sideDone, side));
        ok(cudaStreamWaitEvent(main, sideDone, 0));
    }
    void update() { nesterov<<<(NPAR + 63) / 64, 64, 0, main>>>(p, g, v, NPAR, 0.03f, 0.8f, 1e-4f); }
    std::array<float, 2> result() {
        std::array<float, 2> r;
        ok(cudaMemcpyAsync(r.data(), stat, sizeof r, cudaMemcpyDeviceToHost, main)); ok(cudaStreamSynchronize(main));
        return r;
    }
};

// four classes of noisy pictures: a bar, a bar across, a square's edge, a diagonal
void paint(float *img, int cls, std::mt19937 &r) {
    std::normal_distribution<float> noise(0, 0.3f);
    int y = 2 + r() % 6, x = 2 + r() % 6;
    for (int i = 0; i < Image::size; ++i) img[i] = noise(r);
    for (int j = 0; j < 4; ++j) {
        if (cls == 0) img[y * 12 + x + j] += 1.5f;
        if (cls == 1) img[(y + j) * 12 + x] += 1.5f;
        if (cls == 2) { img[y * 12 + x + j] += 1; img[(y + 3) * 12 + x + j] += 1; img[(y + j) * 12 + x] += 1; img[(y + j) * 12 + x + 3] += 1; }
        if (cls == 3) img[(y + j) * 12 + x + j] += 1.5f;
    }
}

int main(int argc, char **argv) try {
    std::string save; int R = 0, batches = 130;
    for (int i = 1; i + 1 < argc; ++i) {
        std::string o = argv[i];
        if (o == "--save") save = argv[++i]; else if (o == "--oracle") R = std::stoi(argv[++i]); else if (o == "--batches") batches = std::stoi(argv[++i]);
    }
    Net net;
    std::mt19937 rng(31);
    std::vector<float> w(NPAR);
    auto init = [&](int from, int weights, int fan) { std::normal_distribution<float> d(0, std::sqrt(1.5f / fan)); for (int i = 0; i < weights; ++i) w[from + i] = d(rng); };
    init(0, C1::weights, C1::fan); init(C1::params, C2::weights, C2::fan); init(C1::params + C2::params, FC::weights, FC::fan);
    ok(cudaMemcpy(net.p, w.data(), NPAR * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<float> vx(VALID * Image::size); std::vector<int> vl(VALID);
    for (int i = 0; i < VALID; ++i) paint(&vx[i * Image::size], vl[i] = i % 4, rng);
    float *dvx = onDevice<float>(vx.size()); int *dvl = onDevice<int>(VALID);
    ok(cudaMemcpy(dvx, vx.data(), vx.size() * sizeof(float), cudaMemcpyHostToDevice));
    ok(cudaMemcpy(dvl, vl.data(), VALID * sizeof(int), cudaMemcpyHostToDevice));

    cudaStream_t copy; ok(cudaStreamCreate(&copy));
    struct Slot { float *hx, *dx; int *hl, *dl; cudaEvent_t there, used; } slot[2];
    for (Slot &s : slot) {
        ok(cudaMallocHost((void **)&s.hx, BATCH * Image::size * sizeof(float))); ok(cudaMallocHost((void **)&s.hl, BATCH * sizeof(int)));
        s.dx = onDevice<float>(BATCH * Image::size); s.dl = onDevice<int>(BATCH);
        ok(cudaEventCreate(&s.there)); ok(cudaEventCreate(&s.used));
    }
    auto fetch = [&](Slot &s) {
        ok(cudaEventSynchronize(s.used));                       // the batch before last has left this slot
        for (int i = 0; i < BATCH; ++i) paint(s.hx + i * Image::size, s.hl[i] = rng() % 4, rng);
        ok(cudaMemcpyAsync(s.dx, s.hx, BATCH * Image::size * sizeof(float), cudaMemcpyHostToDevice, copy));
        ok(cudaMemcpyAsync(s.dl, s.hl, BATCH * sizeof(int), cudaMemcpyHostToDevice, copy));
        ok(cudaEventRecord(s.there, copy));
    };
    float *sum = onDevice<float>(NPAR); int held = 0;           // for --oracle
    fetch(slot[0]);
    for (int b = 0; b < batches; ++b) {
        Slot &s = slot[b & 1];
        if (b + 1 < batches) fetch(slot[(b + 1) & 1]);
        ok(cudaStreamWaitEvent(net.main, s.there, 0));
        net.forward(s.dx, s.dl, BATCH);
        net.backward(s.dx);
        ok(cudaEventRecord(s.used, net.main));
        if (b % 10 == 9) { auto r = net.result(); std::printf("batch %3d  loss %.4f  correct %.3f\n", b + 1, r[0], r[1]); }
        bool update = true;
        if (R) {
            addScaled<<<(NPAR + 63) / 64, 64, 0, net.main>>>(sum, net.g, 1.f / R, NPAR);
            update = ++held % R == 0;
            if (update) { ok(cudaMemcpyAsync(net.g, sum, NPAR * sizeof(float), cudaMemcpyDeviceToDevice, net.main)); ok(cudaMemsetAsync(sum, 0, NPAR * sizeof(float), net.main)); }
        }
        if (update) net.update();
        if (b % 20 == 19) {
            net.forward(dvx, dvl, VALID);
            auto r = net.result();
            std::printf("          validation: loss %.4f  correct %.3f\n", r[0], r[1]);
        }
    }
    ok(cudaStreamSynchronize(net.main));
    ok(cudaMemcpy(w.data(), net.p, NPAR * sizeof(float), cudaMemcpyDeviceToHost));
    if (!save.empty()) {
        FILE *f = std::fopen(save.c_str(), "w");
        for (float x : w) std::fprintf(f, "%.9g\n", x);
        std::fclose(f);
    }
} catch (std::exception &e) { std::fprintf(stderr, "%s\n", e.what()); return 1; }
