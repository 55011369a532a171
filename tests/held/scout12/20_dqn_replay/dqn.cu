// DQN on a 6x6 grid world: replay memory on the host, target network, random behaviour policy.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int kGrid = 6, kState = kGrid * 2, kActions = 4, kHidden = 32;
constexpr int kBatch = 64;
constexpr float kGamma = 0.9f;

struct Transition {
    std::array<float, kState> s, s2;
    int action;
    float reward, done;
};

struct CudaFree { void operator()(void *p) const { cudaFree(p); } };
template <class T> using DevPtr = std::unique_ptr<T[], CudaFree>;
template <class T> DevPtr<T> dev(size_t n)
{
    void *p = nullptr;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return DevPtr<T>(static_cast<T *>(p));
}

constexpr int oW1 = 0, oB1 = oW1 + kState * kHidden, oW2 = oB1 + kHidden, oB2 = oW2 + kHidden * kActions, kWeights = oB2 + kActions;

__device__ void qnet(const float *w, const float *s, float *h, float *q)
{
    for (int j = 0; j < kHidden; ++j) {
        float a = w[oB1 + j];
        for (int k = 0; k < kState; ++k) a += s[k] * w[oW1 + k * kHidden + j];
        h[j] = fmaxf(a, 0.f);
    }
    for (int c = 0; c < kActions; ++c) {
        float a = w[oB2 + c];
        for (int j = 0; j < kHidden; ++j) a += h[j] * w[oW2 + j * kActions + c];
        q[c] = a;
    }
}

// one thread a transition: TD error (Huber), and its gradient added to grad
__global__ void td_kernel(const Transition *batch, const float *online, const float *target, float *grad, float *td, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Transition &t = batch[i];
    float h[kHidden], q[kActions], h2[kHidden], q2[kActions];
    qnet(target, t.s2.data(), h2, q2);
    float best = fmaxf(fmaxf(q2[0], q2[1]), fmaxf(q2[2], q2[3]));
    qnet(online, t.s.data(), h, q);
    float e = q[t.action] - (t.reward + (1 - t.done) * kGamma * best);
    td[i] = fabsf(e) < 1 ? 0.5f * e * e : fabsf(e) - 0.5f;
    float d = fminf(fmaxf(e, -1.f), 1.f) / n;
    atomicAdd(&grad[oB2 + t.action], d);
    for (int j = 0; j < kHidden; ++j) {
        if (h[j] <= 0) continue;
        atomicAdd(&grad[oW2 + j * kActions + t.action], d * h[j]);
        float dh = d * online[oW2 + j * kActions + t.action];
        atomicAdd(&grad[oB1 + j], dh);
        for (int k = 0; k < kState; ++k)
            if (t.s[k] != 0) atomicAdd(&grad[oW1 + k * kHidden + j], dh * t.s[k]);
    }
}

__global__ void rmsprop(float *w, float *g, float *sq, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    sq[i] = 0.95f * sq[i] + 0.05f * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(sq[i]) + 1e-3f);
    g[i] = 0;
}

class ReplayMemory {
public:
    explicit ReplayMemory(size_t capacity) : capacity_(capacity) {}
    void push(const Transition &t)
    {
        if (store_.size() < capacity_) store_.push_back(t); else store_[next_] = t;
        next_ = (next_ + 1) % capacity_;
    }
    std::vector<Transition> sample(int n, std::mt19937 &rng) const
    {
        std::vector<Transition> out;
        out.reserve(n);
        for (int i = 0; i < n; ++i) out.push_back(store_[rng() % store_.size()]);
        return out;
    }
    size_t size() const { return store_.size(); }
private:
    size_t capacity_, next_ = 0;
    std::vector<Transition> store_;
};

class World {
public:
    explicit World(std::mt19937 &rng) : rng_(rng) { reset(); }
    void reset() { do { x_ = rng_() % kGrid; y_ = rng_() % kGrid; } while (goal()); steps_ = 0; }
    Transition act(int a)
    {
        Transition t;
        t.s = encode();
        t.action = a;
        x_ = std::min(std::max(x_ + (a == 0) - (a == 1), 0), kGrid - 1);
        y_ = std::min(std::max(y_ + (a == 2) - (a == 3), 0), kGrid - 1);
        t.s2 = encode();
        t.reward = goal() ? 1.f : -0.02f;
        t.done = goal();
        if (goal() || ++steps_ > 40) reset();
        return t;
    }
private:
    bool goal() const { return x_ == 4 && y_ == 1; }
    std::array<float, kState> encode() const
    {
        std::array<float, kState> s{};
        s[x_] = 1;
        s[kGrid + y_] = 1;
        return s;
    }
    std::mt19937 &rng_;
    int x_, y_, steps_;
};

int main()
{
    std::mt19937 rng(15);
    auto online = dev<float>(kWeights), target = dev<float>(kWeights), grad = dev<float>(kWeights), sq = dev<float>(kWeights);
    auto batch = dev<Transition>(kBatch);
    auto td = dev<float>(kBatch);
    std::vector<float> w(kWeights, 0.f);
    std::uniform_real_distribution<float> u(-1.f, 1.f);
    for (int i = oW1; i < oB1; ++i) w[i] = 0.8f * u(rng);
    for (int i = oW2; i < oB2; ++i) w[i] = 0.8f * u(rng);
    cudaMemcpy(online.get(), w.data(), kWeights * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(target.get(), online.get(), kWeights * sizeof(float), cudaMemcpyDeviceToDevice);

    ReplayMemory memory(1500);
    World world(rng);
    for (int i = 0; i < 500; ++i) memory.push(world.act(rng() % kActions));

    float running = 0;
    for (int step = 1; step <= 200; ++step) {
        for (int i = 0; i < 8; ++i) memory.push(world.act(rng() % kActions));
        auto mini = memory.sample(kBatch, rng);
        cudaMemcpy(batch.get(), mini.data(), mini.size() * sizeof(Transition), cudaMemcpyHostToDevice);
        td_kernel<<<(kBatch + 31) / 32, 32>>>(batch.get(), online.get(), target.get(), grad.get(), td.get(), (int)mini.size());
        rmsprop<<<(kWeights + 127) / 128, 128>>>(online.get(), grad.get(), sq.get(), kWeights, 0.005f);
        if (step % 25 == 0)
            cudaMemcpy(target.get(), online.get(), kWeights * sizeof(float), cudaMemcpyDeviceToDevice);
        std::array<float, kBatch> h;
        cudaMemcpy(h.data(), td.get(), sizeof(h), cudaMemcpyDeviceToHost);
        float l = 0;
        for (float x : h) l += x / kBatch;
        running = step == 1 ? l : 0.9f * running + 0.1f * l;
        if (step == 1 || step % 20 == 0) std::printf("step %3d  memory %zu  loss %.5f  (%.5f)\n", step, memory.size(), l, running);
    }
    return 0;
}
