// Q-learning with a small network on a 4x4 grid. Replay buffer on the host,
// target network on the device.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <fstream>
#include <random>
#include <utility>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                                \
  {                                                                                     \
    const cudaError_t error = call;                                                     \
    if (error != cudaSuccess) {                                                         \
      std::printf("Error: %s:%d, %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(1);                                                                     \
    }                                                                                   \
  }

constexpr int STATES = 16, ACTIONS = 4, HIDDEN = 24, BATCH = 32;
constexpr int O_W1 = 0, O_B1 = O_W1 + STATES * HIDDEN, O_W2 = O_B1 + HIDDEN, O_B2 = O_W2 + HIDDEN * ACTIONS;
constexpr int PARAMS = O_B2 + ACTIONS;
constexpr float GAMMA = 0.9f;
constexpr int SYNC_EVERY = 20;

// The state is one-hot, so the first layer is a row look-up.
__global__ void q_forward(const float *net, const int *state, float *hidden, float *q) {
  __shared__ float h[HIDDEN];
  int n = blockIdx.x, j = threadIdx.x;
  h[j] = fmaxf(net[O_W1 + state[n] * HIDDEN + j] + net[O_B1 + j], 0.f);
  hidden[n * HIDDEN + j] = h[j];
  __syncthreads();
  if (j < ACTIONS) {
    float s = net[O_B2 + j];
    for (int k = 0; k < HIDDEN; ++k) s += h[k] * net[O_W2 + k * ACTIONS + j];
    q[n * ACTIONS + j] = s;
  }
}

// Huber loss on r + gamma * max Q_target(s') - Q(s, a).
__global__ void td_error(const float *q, const float *q_next, const int *action, const float *reward, const int *done,
                         float *dq, float *loss) {
  int n = threadIdx.x;
  float best = q_next[n * ACTIONS];
  for (int a = 1; a < ACTIONS; ++a) best = fmaxf(best, q_next[n * ACTIONS + a]);
  float goal = reward[n] + (done[n] ? 0.f : GAMMA * best);
  float d = q[n * ACTIONS + action[n]] - goal;
  loss[n] = fabsf(d) < 1.f ? 0.5f * d * d : fabsf(d) - 0.5f;
  for (int a = 0; a < ACTIONS; ++a)
    dq[n * ACTIONS + a] = a == action[n] ? fminf(fmaxf(d, -1.f), 1.f) / BATCH : 0.f;
}

__global__ void q_backward(const float *net, const int *state, const float *hidden, const float *dq, float *grad) {
  int j = threadIdx.x;
  for (int s = 0; s < STATES; ++s) grad[O_W1 + s * HIDDEN + j] = 0.f;
  float gb = 0.f, gw[ACTIONS] = {0.f, 0.f, 0.f, 0.f};
  for (int n = 0; n < BATCH; ++n) {
    float h = hidden[n * HIDDEN + j], dh = 0.f;
    for (int a = 0; a < ACTIONS; ++a) {
      gw[a] += h * dq[n * ACTIONS + a];
      dh += dq[n * ACTIONS + a] * net[O_W2 + j * ACTIONS + a];
    }
    if (h > 0.f) {
      gb += dh;
      grad[O_W1 + state[n] * HIDDEN + j] += dh;
    }
  }
  grad[O_B1 + j] = gb;
  for (int a = 0; a < ACTIONS; ++a) grad[O_W2 + j * ACTIONS + a] = gw[a];
  if (j < ACTIONS) {
    float s = 0.f;
    for (int n = 0; n < BATCH; ++n) s += dq[n * ACTIONS + j];
    grad[O_B2 + j] = s;
  }
}

__global__ void rmsprop(float *net, const float *grad, float *cache, float lr) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= PARAMS) return;
  cache[i] = 0.95f * cache[i] + 0.05f * grad[i] * grad[i];
  net[i] -= lr * grad[i] / (sqrtf(cache[i]) + 1e-3f);
}

class GridWorld {
 public:
  int reset(std::mt19937 &rng) {
    pos_ = static_cast<int>(rng() % (STATES - 1));
    steps_ = 0;
    return pos_;
  }
  // Goal in the last cell, a pit in cell 6, walls at the border.
  float step(int action, bool &done) {
    int r = pos_ / 4, c = pos_ % 4;
    if (action == 0 && r > 0) --r;
    if (action == 1 && r < 3) ++r;
    if (action == 2 && c > 0) --c;
    if (action == 3 && c < 3) ++c;
    pos_ = r * 4 + c;
    done = pos_ == STATES - 1 || ++steps_ >= 30;
    return pos_ == STATES - 1 ? 1.f : pos_ == 6 ? -1.f : -0.05f;
  }
  int pos() const { return pos_; }

 private:
  int pos_ = 0, steps_ = 0;
};

struct Transition {
  int s, a, s2, done;
  float r;
};

class Replay {
 public:
  explicit Replay(size_t cap) : cap_(cap) {}
  void push(const Transition &t) {
    if (items_.size() < cap_) items_.push_back(t);
    else items_[head_++ % cap_] = t;
  }
  const Transition &pick(std::mt19937 &rng) const { return items_[rng() % items_.size()]; }
  size_t size() const { return items_.size(); }

 private:
  size_t cap_, head_ = 0;
  std::vector<Transition> items_;
};

template <typename T>
T *alloc(int n) {
  T *p;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void **>(&p), n * sizeof(T)));
  CUDA_CHECK(cudaMemset(p, 0, n * sizeof(T)));
  return p;
}

int main(int argc, char **argv) {
  std::mt19937 rng(5);
  std::vector<float> host(PARAMS, 0.f);
  for (int i = 0; i < O_B2; ++i)
    if (i < O_B1 || i >= O_W2) host[i] = 1.2f * (rng() / 4294967296.f - 0.5f);
  float *online = alloc<float>(PARAMS), *target = alloc<float>(PARAMS), *grad = alloc<float>(PARAMS);
  float *cache = alloc<float>(PARAMS), *hidden = alloc<float>(BATCH * HIDDEN), *scratch = alloc<float>(BATCH * HIDDEN);
  float *q = alloc<float>(BATCH * ACTIONS), *q_next = alloc<float>(BATCH * ACTIONS), *dq = alloc<float>(BATCH * ACTIONS);
  float *reward = alloc<float>(BATCH), *loss = alloc<float>(BATCH);
  int *s = alloc<int>(BATCH), *a = alloc<int>(BATCH), *s2 = alloc<int>(BATCH), *done = alloc<int>(BATCH);
  const size_t bytes = PARAMS * sizeof(float);
  CUDA_CHECK(cudaMemcpy(online, host.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(target, online, bytes, cudaMemcpyDeviceToDevice));

  auto greedy = [&](int state) {
    float v[ACTIONS];
    CUDA_CHECK(cudaMemcpy(s, &state, sizeof(int), cudaMemcpyHostToDevice));
    q_forward<<<1, HIDDEN>>>(online, s, scratch, q);
    CUDA_CHECK(cudaMemcpy(v, q, sizeof(v), cudaMemcpyDeviceToHost));
    int best = 0;
    for (int i = 1; i < ACTIONS; ++i)
      if (v[i] > v[best]) best = i;
    return best;
  };

  GridWorld env;
  Replay replay(600);
  int state = env.reset(rng), updates = 0;
  float recent = 0.f;
  std::vector<int> hs(BATCH), ha(BATCH), hs2(BATCH), hd(BATCH);
  std::vector<float> hr(BATCH), hl(BATCH);
  for (int frame = 0; updates < 240; ++frame) {
    float eps = std::fmax(0.1f, 1.f - frame / 600.f);
    bool random = rng() / 4294967296.f < eps, end = false;
    int action = random ? static_cast<int>(rng() % ACTIONS) : greedy(state);
    float r = env.step(action, end);
    replay.push({state, action, env.pos(), end ? 1 : 0, r});
    state = end ? env.reset(rng) : env.pos();
    if (replay.size() < 200 || frame % 4 != 0) continue;

    for (int i = 0; i < BATCH; ++i) {
      const Transition &t = replay.pick(rng);
      hs[i] = t.s, ha[i] = t.a, hs2[i] = t.s2, hd[i] = t.done, hr[i] = t.r;
    }
    for (auto p : {std::make_pair(s, &hs), std::make_pair(a, &ha), std::make_pair(s2, &hs2), std::make_pair(done, &hd)})
      CUDA_CHECK(cudaMemcpy(p.first, p.second->data(), BATCH * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(reward, hr.data(), BATCH * sizeof(float), cudaMemcpyHostToDevice));
    q_forward<<<BATCH, HIDDEN>>>(target, s2, scratch, q_next);
    q_forward<<<BATCH, HIDDEN>>>(online, s, hidden, q);
    td_error<<<1, BATCH>>>(q, q_next, a, reward, done, dq, loss);
    q_backward<<<1, HIDDEN>>>(online, s, hidden, dq, grad);
    rmsprop<<<(PARAMS + 127) / 128, 128>>>(online, grad, cache, 0.01f);
    CUDA_CHECK(cudaMemcpy(hl.data(), loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
    for (float l : hl) recent += l / BATCH;
    if (++updates % SYNC_EVERY == 0) {
      CUDA_CHECK(cudaMemcpy(target, online, bytes, cudaMemcpyDeviceToDevice));
      std::printf("update %3d  loss %.5f  epsilon %.2f  (target copied)\n", updates, recent / SYNC_EVERY, eps);
      recent = 0.f;
    }
  }
  CUDA_CHECK(cudaMemcpy(host.data(), online, bytes, cudaMemcpyDeviceToHost));
  std::ofstream out(argc > 1 ? argv[1] : "weights.bin", std::ios::binary);
  out.write(reinterpret_cast<char *>(host.data()), bytes);
  return out ? 0 : 1;
}
