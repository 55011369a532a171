// Offline double DQN with prioritized replay.
//   * transitions of a cart on a line were recorded with a random policy
//   * the replay keeps a sum tree of priorities on the host; the TD errors of a batch change the
//     priorities, and the next batch is drawn from them (Schaul et al. 2016)
//   * TD errors live in managed memory, so that the host can read them directly
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define CUDA_CALL(x) do { cudaError_t s_ = (x); if (s_ != cudaSuccess) { \
    std::fprintf(stderr, "Error %s at %s:%d\n", cudaGetErrorString(s_), __FILE__, __LINE__); std::exit(EXIT_FAILURE); } } while (0)

const int STATE = 4, HIDDEN = 32, ACTIONS = 3;
const int CAPACITY = 2048, BATCH = 64, UPDATES = 240, TARGET_SYNC = 20;
const float GAMMA = 0.6f, PER_ALPHA = 0.6f, PER_EPS = 0.01f, LR = 2e-3f;

// one flat vector: W1 [STATE,HIDDEN] b1 W2 [HIDDEN,HIDDEN] b2 W3 [HIDDEN,ACTIONS] b3
const int W1 = 0, B1 = W1 + STATE * HIDDEN, W2 = B1 + HIDDEN, B2 = W2 + HIDDEN * HIDDEN, W3 = B2 + HIDDEN, B3 = W3 + HIDDEN * ACTIONS, NP = B3 + ACTIONS;

// ---------------------------------------------------------------- device

// one block a sample: the whole network in shared memory; hidden layers kept for the backward pass when asked
__global__ void qNetwork(const float* theta, const float* s, float* h1, float* h2, float* q)
{
    __shared__ float a[HIDDEN], b[HIDDEN];
    const int n = blockIdx.x, j = threadIdx.x;
    float z = theta[B1 + j];
    for (int i = 0; i < STATE; ++i) z += s[n * STATE + i] * theta[W1 + i * HIDDEN + j];
    a[j] = fmaxf(z, 0.f);
    __syncthreads();
    z = theta[B2 + j];
    for (int i = 0; i < HIDDEN; ++i) z += a[i] * theta[W2 + i * HIDDEN + j];
    b[j] = fmaxf(z, 0.f);
    __syncthreads();
    if (h1) { h1[n * HIDDEN + j] = a[j]; h2[n * HIDDEN + j] = b[j]; }
    if (j < ACTIONS) {
        z = theta[B3 + j];
        for (int i = 0; i < HIDDEN; ++i) z += b[i] * theta[W3 + i * ACTIONS + j];
        q[n * ACTIONS + j] = z;
    }
}

// double Q target, Huber loss weighted by importance
__global__ void tdError(const float* q, const float* qNext, const float* qTarget, const int* action, const float* reward, const float* isw,
                        float* dq, float* td, float* loss)
{
    __shared__ float part[BATCH];
    const int n = threadIdx.x;
    int best = 0;
    for (int k = 1; k < ACTIONS; ++k) if (qNext[n * ACTIONS + k] > qNext[n * ACTIONS + best]) best = k;
    float e = q[n * ACTIONS + action[n]] - (reward[n] + GAMMA * qTarget[n * ACTIONS + best]);
    for (int k = 0; k < ACTIONS; ++k) dq[n * ACTIONS + k] = k == action[n] ? isw[n] * fminf(fmaxf(e, -1.f), 1.f) / BATCH : 0.f;
    td[n] = fabsf(e);
    part[n] = isw[n] * (fabsf(e) < 1.f ? 0.5f * e * e : fabsf(e) - 0.5f) / BATCH;
    __syncthreads();
    if (n == 0) { float t = 0.f; for (int i = 0; i < BATCH; ++i) t += part[i]; *loss = t; }
}

__global__ void hiddenDelta(const float* theta, const float* h1, const float* h2, const float* dq, float* d1, float* d2)
{
    __shared__ float d[HIDDEN];
    const int n = blockIdx.x, j = threadIdx.x;
    float z = 0.f;
    for (int k = 0; k < ACTIONS; ++k) z += dq[n * ACTIONS + k] * theta[W3 + j * ACTIONS + k];
    d[j] = h2[n * HIDDEN + j] > 0.f ? z : 0.f;
    d2[n * HIDDEN + j] = d[j];
    __syncthreads();
    z = 0.f;
    for (int k = 0; k < HIDDEN; ++k) z += d[k] * theta[W2 + j * HIDDEN + k];
    d1[n * HIDDEN + j] = h1[n * HIDDEN + j] > 0.f ? z : 0.f;
}

// gradient of one layer; the row after the last holds the bias
__global__ void layerGrad(const float* x, const float* d, float* g, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int r = i / out, c = i % out;
    float s = 0.f;
    for (int n = 0; n < BATCH; ++n) s += (r < in ? x[n * in + r] : 1.f) * d[n * out + c];
    g[i] = s;                                   // weights and bias of a layer are neighbours
}

__global__ void adamStep(float* theta, const float* g, float* m, float* v, float alpha)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NP) return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.01f * (g[i] * g[i] - v[i]);
    theta[i] -= alpha * m[i] / (sqrtf(v[i]) + 1e-7f);
}

// ---------------------------------------------------------------- host

struct Transition { float s[STATE]; int a; float r; float s2[STATE]; };

class PrioritizedReplay {
public:
    std::vector<Transition> data;
    std::vector<float> tree;                    // tree[1] is the sum, leaves from CAPACITY on
    PrioritizedReplay() : tree(2 * CAPACITY, 0.f) {}
    void setPriority(int i, float p)
    {
        int k = i + CAPACITY;
        tree[k] = p;
        for (k /= 2; k >= 1; k /= 2) tree[k] = tree[2 * k] + tree[2 * k + 1];
    }
    int find(float u) const
    {
        int k = 1;
        while (k < CAPACITY) {
            k *= 2;
            if (u >= tree[k] && tree[k + 1] > 0.f) { u -= tree[k]; ++k; }
        }
        return k - CAPACITY;
    }
    void sample(std::mt19937& g, std::vector<int>& idx, std::vector<float>& w, float beta) const
    {
        std::uniform_real_distribution<float> u(0.f, 1.f);
        float top = 0.f;
        for (int b = 0; b < BATCH; ++b) {       // stratified
            idx[b] = find(tree[1] * (b + u(g)) / BATCH);
            w[b] = std::pow(CAPACITY * tree[idx[b] + CAPACITY] / tree[1], -beta);
            top = std::max(top, w[b]);
        }
        for (float& x : w) x /= top;
    }
};

static void record(PrioritizedReplay& replay, std::mt19937& g)
{
    std::uniform_real_distribution<float> u(-1.f, 1.f);
    float x = 0, v = 0, goal = 0;
    for (int i = 0; i < CAPACITY; ++i) {
        if (i % 32 == 0) { x = u(g); v = 0; goal = u(g); }
        Transition t;
        t.s[0] = x; t.s[1] = v; t.s[2] = goal; t.s[3] = x - goal;
        t.a = g() % ACTIONS;
        v = 0.8f * v + 0.15f * (t.a - 1);
        x += v;
        if (x > 1.5f || x < -1.5f) { x = x > 0 ? 1.5f : -1.5f; v = 0; }
        t.s2[0] = x; t.s2[1] = v; t.s2[2] = goal; t.s2[3] = x - goal;
        t.r = -std::fabs(x - goal) + (std::fabs(x - goal) < 0.1f ? 0.5f : 0.f);
        replay.data.push_back(t);
        replay.setPriority(i, 1.f);
    }
}

template <typename T> T* device(size_t n) { T* p; CUDA_CALL(cudaMalloc(&p, n * sizeof(T))); CUDA_CALL(cudaMemset(p, 0, n * sizeof(T))); return p; }

int main(int argc, char** argv)
{
    std::mt19937 gen(2024);
    PrioritizedReplay replay;
    record(replay, gen);

    float* theta = device<float>(NP), * target = device<float>(NP), * grad = device<float>(NP), * m = device<float>(NP), * v = device<float>(NP);
    std::vector<float> init(NP, 0.f);
    std::normal_distribution<float> nd(0.f, 1.f);
    for (int i = W1; i < B1; ++i) init[i] = nd(gen) * std::sqrt(2.f / STATE);
    for (int i = W2; i < B2; ++i) init[i] = nd(gen) * std::sqrt(2.f / HIDDEN);
    for (int i = W3; i < B3; ++i) init[i] = nd(gen) * 0.1f;
    CUDA_CALL(cudaMemcpy(theta, init.data(), NP * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemcpy(target, init.data(), NP * sizeof(float), cudaMemcpyHostToDevice));

    float* s = device<float>(BATCH * STATE), * s2 = device<float>(BATCH * STATE), * r = device<float>(BATCH), * isw = device<float>(BATCH);
    int* act = device<int>(BATCH);
    float* h1 = device<float>(BATCH * HIDDEN), * h2 = device<float>(BATCH * HIDDEN), * d1 = device<float>(BATCH * HIDDEN), * d2 = device<float>(BATCH * HIDDEN);
    float* q = device<float>(BATCH * ACTIONS), * qn = device<float>(BATCH * ACTIONS), * qt = device<float>(BATCH * ACTIONS), * dq = device<float>(BATCH * ACTIONS);
    float* td;                                  // managed: BATCH errors, then the loss
    CUDA_CALL(cudaMallocManaged(&td, (BATCH + 1) * sizeof(float)));
#ifdef ORACLE
    oracle::state(theta, NP); oracle::state(target, NP); oracle::state(m, NP); oracle::state(v, NP);
    oracle::grad(grad, NP);
    oracle::carried(replay.tree.data(), replay.tree.size(), oracle::HOSTF32);
#endif

    std::vector<int> idx(BATCH), ha(BATCH);
    std::vector<float> w(BATCH), hs(BATCH * STATE), hs2(BATCH * STATE), hr(BATCH);
    float window = 0.f;
    for (int t = 1; t <= UPDATES; ++t) {
#ifdef ORACLE
        oracle::begin();
#endif
        replay.sample(gen, idx, w, 0.4f + 0.6f * t / UPDATES);
        for (int b = 0; b < BATCH; ++b) {
            const Transition& x = replay.data[idx[b]];
            std::memcpy(&hs[b * STATE], x.s, sizeof x.s);
            std::memcpy(&hs2[b * STATE], x.s2, sizeof x.s2);
            ha[b] = x.a; hr[b] = x.r;
        }
        CUDA_CALL(cudaMemcpy(s, hs.data(), hs.size() * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(s2, hs2.data(), hs2.size() * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(act, ha.data(), BATCH * sizeof(int), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(r, hr.data(), BATCH * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CALL(cudaMemcpy(isw, w.data(), BATCH * sizeof(float), cudaMemcpyHostToDevice));

        qNetwork<<<BATCH, HIDDEN>>>(theta, s, h1, h2, q);
        qNetwork<<<BATCH, HIDDEN>>>(theta, s2, nullptr, nullptr, qn);
        qNetwork<<<BATCH, HIDDEN>>>(target, s2, nullptr, nullptr, qt);
        tdError<<<1, BATCH>>>(q, qn, qt, act, r, isw, dq, td, td + BATCH);
        hiddenDelta<<<BATCH, HIDDEN>>>(theta, h1, h2, dq, d1, d2);
        layerGrad<<<(HIDDEN + 1) * ACTIONS / 64 + 1, 64>>>(h2, dq, grad + W3, HIDDEN, ACTIONS);
        layerGrad<<<(HIDDEN + 1) * HIDDEN / 64 + 1, 64>>>(h1, d2, grad + W2, HIDDEN, HIDDEN);
        layerGrad<<<(STATE + 1) * HIDDEN / 64 + 1, 64>>>(s, d1, grad + W1, STATE, HIDDEN);
        int k = t;
#ifdef ORACLE
        k = oracle::step(t);
        if (oracle::ready())
#endif
        adamStep<<<(NP + 127) / 128, 128>>>(theta, grad, m, v, LR * std::sqrt(1.f - std::pow(0.99f, (float)k)) / (1.f - std::pow(0.9f, (float)k)));
        if (t % TARGET_SYNC == 0) CUDA_CALL(cudaMemcpy(target, theta, NP * sizeof(float), cudaMemcpyDeviceToDevice));
        CUDA_CALL(cudaDeviceSynchronize());
        for (int b = 0; b < BATCH; ++b) replay.setPriority(idx[b], std::pow(td[b] + PER_EPS, PER_ALPHA));
        window += td[BATCH];
#ifdef ORACLE
        oracle::end();
#endif
        if (t % 40 == 0) { std::printf("update %3d  weighted Huber loss %.5f  mean priority %.4f\n", t, window / 40, replay.tree[1] / CAPACITY); window = 0.f; }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    std::vector<float> out(NP);
    CUDA_CALL(cudaMemcpy(out.data(), theta, NP * sizeof(float), cudaMemcpyDeviceToHost));
    std::FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    std::fwrite(out.data(), sizeof(float), NP, f);
    std::fclose(f);
    return 0;
}
