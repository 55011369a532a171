// Siamese network with the margin contrastive loss of Hadsell et al.: two towers share
// one encoder (12 -> 8 -> 3). Pairs are index triples into a data set that stays on the device.
#include <cuda_runtime.h>
#include <iostream>
#include <fstream>
#include <iomanip>
#include <stdexcept>
#include <string>
#include <vector>

constexpr int IN = 12, HID = 8, OUT = 3, POINTS = 90, PAIRS = 24, ITERATIONS = 100;
constexpr float MARGIN = 1.0f;

inline void cu(cudaError_t e) { if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e)); }

class Random {
    unsigned long long s;
public:
    explicit Random(unsigned long long seed) : s(seed) {}
    unsigned bits() { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return (unsigned)(s >> 32); }
    int below(int n) { return bits() % n; }
    float symmetric() { return bits() * (2.0f / 4294967296.0f) - 1.0f; }
};

template <typename T> class Buffer {
    T *p = nullptr;
    size_t n;
public:
    explicit Buffer(size_t count) : n(count) { cu(cudaMalloc(&p, n * sizeof(T))); cu(cudaMemset(p, 0, n * sizeof(T))); }
    Buffer(const Buffer &) = delete;
    ~Buffer() { cudaFree(p); }
    operator T *() { return p; }
    size_t size() const { return n; }
    void upload(const std::vector<T> &h) { cu(cudaMemcpy(p, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> download() const
    {
        std::vector<T> h(n);
        cu(cudaMemcpy(h.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return h;
    }
};

__global__ void encode(const float *x, const int3 *pairs, int side, const float *w1, const float *w2, float *h, float *z)
{
    int k = threadIdx.x;
    const float *row = x + IN * (side ? pairs[k].y : pairs[k].x);
    for (int j = 0; j < HID; ++j) {
        float s = 0;
        for (int i = 0; i < IN; ++i)
            s += w1[j * IN + i] * row[i];
        h[k * HID + j] = s > 0 ? s : 0.1f * s;                 // leaky ReLU
    }
    for (int o = 0; o < OUT; ++o) {
        float s = 0;
        for (int j = 0; j < HID; ++j)
            s += w2[o * HID + j] * h[k * HID + j];
        z[k * OUT + o] = s;
    }
}

// same: d^2; different: max(0, margin - d)^2; mean over the pairs
__global__ void contrast(const float *za, const float *zb, const int3 *pairs, float *da, float *db, float *loss)
{
    int k = threadIdx.x;
    float d2 = 1e-8f;
    for (int o = 0; o < OUT; ++o)
        d2 += (za[k * OUT + o] - zb[k * OUT + o]) * (za[k * OUT + o] - zb[k * OUT + o]);
    float d = sqrtf(d2), gap = fmaxf(0.0f, MARGIN - d);
    bool same = pairs[k].z;
    loss[k] = same ? d2 : gap * gap;
    float scale = (same ? 2.0f : -2.0f * gap / d) / PAIRS;
    for (int o = 0; o < OUT; ++o) {
        float diff = za[k * OUT + o] - zb[k * OUT + o];
        da[k * OUT + o] = scale * diff;
        db[k * OUT + o] = -scale * diff;
    }
}

__global__ void back_w2(const float *dz, const float *h, float *g2, bool add)
{
    int q = threadIdx.x, o = q / HID, j = q % HID;
    float s = add ? g2[q] : 0.0f;
    for (int k = 0; k < PAIRS; ++k)
        s += dz[k * OUT + o] * h[k * HID + j];
    g2[q] = s;
}

__global__ void back_w1(const float *x, const int3 *pairs, int side, const float *dz, const float *h, const float *w2, float *g1, bool add)
{
    int j = blockIdx.x, i = threadIdx.x;
    float s = add ? g1[j * IN + i] : 0.0f;
    for (int k = 0; k < PAIRS; ++k) {
        float dh = 0;
        for (int o = 0; o < OUT; ++o)
            dh += dz[k * OUT + o] * w2[o * HID + j];
        s += dh * (h[k * HID + j] > 0 ? 1.0f : 0.1f) * x[IN * (side ? pairs[k].y : pairs[k].x) + i];
    }
    g1[j * IN + i] = s;
}

__global__ void rmsprop(float *w, const float *g, float *cache, float rate)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    cache[q] = 0.9f * cache[q] + 0.1f * g[q] * g[q];
    w[q] -= rate * g[q] / (sqrtf(cache[q]) + 1e-4f);
}

__global__ void plus(float *sum, const float *g) { int q = blockIdx.x * blockDim.x + threadIdx.x; sum[q] += g[q]; }
__global__ void over(float *g, float *sum, float r) { int q = blockIdx.x * blockDim.x + threadIdx.x; g[q] = sum[q] / r; sum[q] = 0; }

int main(int argc, char **argv) try {
    std::string save;
    int oracle = 0, seen = 0;
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::string(argv[i]) == "--save") save = argv[i + 1];
        if (std::string(argv[i]) == "--oracle") oracle = std::stoi(argv[i + 1]);
    }
    Random random(88172645463325252ull);
    std::vector<float> centre(3 * IN), points(POINTS * IN), i1(HID * IN), i2(OUT * HID);
    for (float &v : centre) v = random.symmetric();
    for (int p = 0; p < POINTS; ++p)                            // class of point p: p % 3
        for (int i = 0; i < IN; ++i) points[p * IN + i] = 0.6f * centre[p % 3 * IN + i] + 0.7f * random.symmetric();
    for (float &v : i1) v = 0.5f * random.symmetric();
    for (float &v : i2) v = 0.5f * random.symmetric();

    Buffer<float> x(points.size()), w1(HID * IN), w2(OUT * HID), g1(HID * IN), g2(OUT * HID), c1(HID * IN), c2(OUT * HID);
    Buffer<float> ha(PAIRS * HID), hb(PAIRS * HID), za(PAIRS * OUT), zb(PAIRS * OUT), da(PAIRS * OUT), db(PAIRS * OUT), loss(PAIRS);
    Buffer<int3> pairs(PAIRS);
    x.upload(points);
    w1.upload(i1);
    w2.upload(i2);
    Buffer<float> s1(oracle ? HID * IN : 1), s2(oracle ? OUT * HID : 1);

    std::vector<int3> batch(PAIRS);
    for (int it = 1; it <= ITERATIONS; ++it) {
        for (int k = 0; k < PAIRS; ++k) {                       // half of the pairs are of one class
            int a = random.below(POINTS), b = random.below(POINTS / 3) * 3 + (a + (k % 2 ? 0 : 1 + random.below(2))) % 3;
            batch[k] = {a, b, a % 3 == b % 3};
        }
        pairs.upload(batch);
        encode<<<1, PAIRS>>>(x, pairs, 0, w1, w2, ha, za);
        encode<<<1, PAIRS>>>(x, pairs, 1, w1, w2, hb, zb);
        contrast<<<1, PAIRS>>>(za, zb, pairs, da, db, loss);
        back_w2<<<1, OUT * HID>>>(da, ha, g2, false);
        back_w2<<<1, OUT * HID>>>(db, hb, g2, true);
        back_w1<<<HID, IN>>>(x, pairs, 0, da, ha, w2, g1, false);
        back_w1<<<HID, IN>>>(x, pairs, 1, db, hb, w2, g1, true);
        if (it % 20 == 0 || it == 1) {
            float mean = 0;
            for (float l : loss.download()) mean += l / PAIRS;
            std::cout << "iteration " << it << ": contrastive loss " << mean << std::endl;
        }
        if (oracle) {
            plus<<<HID, IN>>>(s1, g1);
            plus<<<OUT, HID>>>(s2, g2);
            if (++seen % oracle) continue;
            over<<<HID, IN>>>(g1, s1, oracle);
            over<<<OUT, HID>>>(g2, s2, oracle);
        }
        rmsprop<<<HID, IN>>>(w1, g1, c1, 0.01f);
        rmsprop<<<OUT, HID>>>(w2, g2, c2, 0.01f);
    }
    cu(cudaDeviceSynchronize());
    if (!save.empty()) {
        std::ofstream out(save);
        out << std::setprecision(9);
        for (float v : w1.download()) out << v << '\n';
        for (float v : w2.download()) out << v << '\n';
    }
    return 0;
} catch (const std::exception &e) {
    std::cerr << "siamese: " << e.what() << '\n';
    return 1;
}
