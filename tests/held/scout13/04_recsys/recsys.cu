// Matrix factorisation with biases. All ratings live on the GPU in three arrays (structure of arrays); every epoch a
// new permutation is uploaded and each step works on the next slice of it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int kUsers = 120, kItems = 80, kDim = 8;
constexpr int kRatings = 1536, kValid = 256;
constexpr int kBatch = 128;
constexpr int kThreads = 64;

struct Ratings {
    int *user;
    int *item;
    float *value;
};

struct Model {
    float *userVec, *itemVec;   // [users x dim], [items x dim]
    float *userBias, *itemBias;
    float *global;              // one float
};

__device__ inline float predict(const Model &m, int u, int i)
{
    float s = *m.global + m.userBias[u] + m.itemBias[i];
    for (int k = 0; k < kDim; ++k)
        s += m.userVec[u * kDim + k] * m.itemVec[i * kDim + k];
    return s;
}

__global__ void accumulate(Ratings r, const int *order, int n, Model m, Model g, float *loss, float lambda)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    int id = order[t];
    int u = r.user[id], i = r.item[id];
    float err = predict(m, u, i) - r.value[id];
    float scale = 1.0f / n;
    atomicAdd(loss, err * err * scale);
    for (int k = 0; k < kDim; ++k) {
        float p = m.userVec[u * kDim + k], q = m.itemVec[i * kDim + k];
        atomicAdd(&g.userVec[u * kDim + k], scale * (err * q + lambda * p));
        atomicAdd(&g.itemVec[i * kDim + k], scale * (err * p + lambda * q));
    }
    atomicAdd(&g.userBias[u], scale * err);
    atomicAdd(&g.itemBias[i], scale * err);
    atomicAdd(g.global, scale * err);
}

__global__ void apply(float *w, float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        w[i] -= lr * g[i];
        g[i] = 0.0f;  // ready for the next step
    }
}

__global__ void evaluate(Ratings r, int first, int n, Model m, float *sq)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        float e = predict(m, r.user[first + t], r.item[first + t]) - r.value[first + t];
        atomicAdd(sq, e * e);
    }
}

static Model allocateModel()
{
    Model m;
    cudaMalloc(&m.userVec, kUsers * kDim * sizeof(float));
    cudaMalloc(&m.itemVec, kItems * kDim * sizeof(float));
    cudaMalloc(&m.userBias, kUsers * sizeof(float));
    cudaMalloc(&m.itemBias, kItems * sizeof(float));
    cudaMalloc(&m.global, sizeof(float));
    cudaMemset(m.userVec, 0, kUsers * kDim * sizeof(float));
    cudaMemset(m.itemVec, 0, kItems * kDim * sizeof(float));
    cudaMemset(m.userBias, 0, kUsers * sizeof(float));
    cudaMemset(m.itemBias, 0, kItems * sizeof(float));
    cudaMemset(m.global, 0, sizeof(float));
    return m;
}

template <typename T>
static T *toDevice(const std::vector<T> &v)
{
    T *p;
    cudaMalloc(&p, v.size() * sizeof(T));
    cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

static inline int grid(int n) { return (n + kThreads - 1) / kThreads; }

int main()
{
    std::mt19937 rng(7);
    std::normal_distribution<float> gauss(0.0f, 1.0f);

    std::vector<float> pu(kUsers * 2), qi(kItems * 2);
    for (auto &v : pu) v = gauss(rng);
    for (auto &v : qi) v = gauss(rng);
    std::vector<int> user(kRatings + kValid), item(kRatings + kValid);
    std::vector<float> value(kRatings + kValid);
    for (size_t r = 0; r < value.size(); ++r) {
        user[r] = rng() % kUsers;
        item[r] = rng() % kItems;
        value[r] = 3.0f + 0.6f * (pu[user[r] * 2] * qi[item[r] * 2] + pu[user[r] * 2 + 1] * qi[item[r] * 2 + 1])
                 + 0.1f * gauss(rng);
    }
    Ratings ratings{toDevice(user), toDevice(item), toDevice(value)};

    Model model = allocateModel(), grads = allocateModel();
    std::vector<float> init(kUsers * kDim);
    for (auto &v : init) v = 0.3f * gauss(rng);
    cudaMemcpy(model.userVec, init.data(), kUsers * kDim * sizeof(float), cudaMemcpyHostToDevice);
    for (auto &v : init) v = 0.3f * gauss(rng);
    cudaMemcpy(model.itemVec, init.data(), kItems * kDim * sizeof(float), cudaMemcpyHostToDevice);

    std::vector<int> perm(kRatings);
    std::iota(perm.begin(), perm.end(), 0);
    int *d_perm;
    float *d_loss, loss;
    cudaMalloc(&d_perm, kRatings * sizeof(int));
    cudaMalloc(&d_loss, sizeof(float));

    float lr = 2.0f;
    for (int epoch = 0; epoch < 4; ++epoch) {
        std::shuffle(perm.begin(), perm.end(), rng);
        cudaMemcpy(d_perm, perm.data(), kRatings * sizeof(int), cudaMemcpyHostToDevice);
        float sum = 0.0f;
        for (int pos = 0; pos < kRatings; pos += kBatch) {
            cudaMemset(d_loss, 0, sizeof(float));
            accumulate<<<grid(kBatch), kThreads>>>(ratings, d_perm + pos, kBatch, model, grads, d_loss, 0.02f);
            apply<<<grid(kUsers * kDim), kThreads>>>(model.userVec, grads.userVec, kUsers * kDim, lr);
            apply<<<grid(kItems * kDim), kThreads>>>(model.itemVec, grads.itemVec, kItems * kDim, lr);
            apply<<<grid(kUsers), kThreads>>>(model.userBias, grads.userBias, kUsers, lr);
            apply<<<grid(kItems), kThreads>>>(model.itemBias, grads.itemBias, kItems, lr);
            apply<<<1, 1>>>(model.global, grads.global, 1, 0.2f * lr);
            cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
            sum += loss;
        }
        float sq;
        cudaMemset(d_loss, 0, sizeof(float));
        evaluate<<<grid(kValid), kThreads>>>(ratings, kRatings, kValid, model, d_loss);
        cudaMemcpy(&sq, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
        printf("epoch %d  train mse %.4f  valid rmse %.4f\n", epoch + 1, sum / (kRatings / kBatch), std::sqrt(sq / kValid));
        lr *= 0.9f;
    }
    return 0;
}
