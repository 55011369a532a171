// Siamese embedding with a contrastive loss; gradients are accumulated over a few micro batches.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>
#include <cuda_runtime.h>
#include <cublas_v2.h>

template <typename T>
struct GpuVector {
    T *d = nullptr;
    int n = 0;
    GpuVector() = default;
    explicit GpuVector(int n) : n(n)
    {
        cudaMalloc((void **)&d, n * sizeof(T));
        clear();
    }
    void clear() { cudaMemset(d, 0, n * sizeof(T)); }
    void set(const T *h) { cudaMemcpy(d, h, n * sizeof(T), cudaMemcpyHostToDevice); }
};

struct Tensor {
    GpuVector<float> value, grad, momentum;
};

constexpr int IN = 32, HID = 48, EMB = 8;
constexpr int MICRO = 32;  // pairs in a micro batch
constexpr int ACCUM = 4;   // micro batches in a step
constexpr float MARGIN = 1.5f;

static std::unordered_map<std::string, Tensor> weights;
static const std::vector<std::string> names = {"fc1.weight", "fc1.bias", "fc2.weight"};
static cublasHandle_t cublas;

static void add_weight(const std::string &name, int n, float scale)
{
    std::vector<float> h(n);
    for (auto &x : h) x = scale * (2.f * rand() / RAND_MAX - 1.f);
    Tensor t{GpuVector<float>(n), GpuVector<float>(n), GpuVector<float>(n)};
    t.value.set(h.data());
    weights[name] = t;
}

template <int WIDTH>
__global__ void bias_relu(float *a, const float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * WIDTH) {
        float v = a[i] + b[i % WIDTH];
        a[i] = v > 0 ? v : 0;
    }
}

template <int WIDTH>
__global__ void relu_back(float *da, const float *a, float *db, int n)
{
    int c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < n; r++) {
        float g = a[r * WIDTH + c] > 0 ? da[r * WIDTH + c] : 0;
        da[r * WIDTH + c] = g;
        s += g;
    }
    db[c] += s;
}

// rows 0..n-1 of e are the left members of the pairs, rows n..2n-1 the right ones
__global__ void contrastive(const float *e, const int *same, float *de, float *loss, int n, float scale)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    const float *l = e + p * EMB, *r = e + (n + p) * EMB;
    float d2 = 1e-6f;
    for (int k = 0; k < EMB; k++) d2 += (l[k] - r[k]) * (l[k] - r[k]);
    float d = sqrtf(d2), coef, v;
    if (same[p]) {
        v = 0.5f * d2;
        coef = 1.f;
    } else {
        float gap = fmaxf(MARGIN - d, 0.f);
        v = 0.5f * gap * gap;
        coef = -gap / d;
    }
    for (int k = 0; k < EMB; k++) {
        float g = scale * coef * (l[k] - r[k]);
        de[p * EMB + k] = g;
        de[(n + p) * EMB + k] = -g;
    }
    atomicAdd(loss, scale * v);
}

__global__ void sgd_momentum(float *w, const float *g, float *m, float lr, float mu, float wd, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = mu * m[i] + g[i] + wd * w[i];
        w[i] -= lr * m[i];
    }
}

struct Pairs {
    std::vector<float> left, right;
    std::vector<int> same;
};

static float prototypes[6][IN];

static Pairs draw_pairs(int n)
{
    Pairs p;
    for (int i = 0; i < n; i++) {
        int a = rand() % 6, b = rand() % 2 ? a : rand() % 6;
        for (int k = 0; k < IN; k++) {
            p.left.push_back(prototypes[a][k] + 0.8f * (2.f * rand() / RAND_MAX - 1.f));
            p.right.push_back(prototypes[b][k] + 0.8f * (2.f * rand() / RAND_MAX - 1.f));
        }
        p.same.push_back(a == b);
    }
    return p;
}

int main()
{
    srand(90);
    cublasCreate(&cublas);
    for (auto &row : prototypes)
        for (float &v : row) v = 2.f * rand() / RAND_MAX - 1.f;
    add_weight("fc1.weight", HID * IN, 0.25f);
    add_weight("fc1.bias", HID, 0.f);
    add_weight("fc2.weight", EMB * HID, 0.2f);

    GpuVector<float> x(2 * MICRO * IN), a(2 * MICRO * HID), e(2 * MICRO * EMB), de(2 * MICRO * EMB), da(2 * MICRO * HID), loss(1);
    GpuVector<int> same(MICRO);
    Tensor &w1 = weights["fc1.weight"], &b1 = weights["fc1.bias"], &w2 = weights["fc2.weight"];
    const float one = 1.f, zero = 0.f;
    const int rows = 2 * MICRO;

    for (int step = 0; step < 80; step++) {
        for (auto &n : names) weights[n].grad.clear();
        loss.clear();
        for (int micro = 0; micro < ACCUM; micro++) {
            Pairs p = draw_pairs(MICRO);
            cudaMemcpy(x.d, p.left.data(), MICRO * IN * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(x.d + MICRO * IN, p.right.data(), MICRO * IN * sizeof(float), cudaMemcpyHostToDevice);
            same.set(p.same.data());

            cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, HID, rows, IN, &one, w1.value.d, IN, x.d, IN, &zero, a.d, HID);
            bias_relu<HID><<<(rows * HID + 127) / 128, 128>>>(a.d, b1.value.d, rows);
            cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, EMB, rows, HID, &one, w2.value.d, HID, a.d, HID, &zero, e.d, EMB);

            contrastive<<<1, MICRO>>>(e.d, same.d, de.d, loss.d, MICRO, 1.f / (MICRO * ACCUM));

            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, HID, EMB, rows, &one, a.d, HID, de.d, EMB, &one, w2.grad.d, HID);
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, HID, rows, EMB, &one, w2.value.d, HID, de.d, EMB, &zero, da.d, HID);
            relu_back<HID><<<1, HID>>>(da.d, a.d, b1.grad.d, rows);
            cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, IN, HID, rows, &one, x.d, IN, da.d, HID, &one, w1.grad.d, IN);
        }
        for (auto &n : names) {
            Tensor &t = weights[n];
            sgd_momentum<<<(t.value.n + 127) / 128, 128>>>(t.value.d, t.grad.d, t.momentum.d, 0.05f, 0.9f, 1e-4f, t.value.n);
        }
        if (step % 10 == 0 || step == 79) {
            float l;
            cudaMemcpy(&l, loss.d, sizeof(l), cudaMemcpyDeviceToHost);
            printf("step %d contrastive loss %.5f\n", step, l);
        }
    }
    cublasDestroy(cublas);
    return 0;
}
