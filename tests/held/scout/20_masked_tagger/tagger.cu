// Sequence tagger. Sentences are padded to the same length, a mask of weights
// says which positions count. The corpus is on the device, a batch is a list
// of sentence numbers. Nesterov momentum.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

constexpr int MAXLEN = 12, WORDS = 20, TAGS = 4, EMB = 8, HID = 24;
constexpr int SENTENCES = 512, BATCH = 16;

#define GPU_CHECK(e) \
  if ((e) != cudaSuccess) { std::fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(cudaGetLastError())); std::exit(1); }

struct Corpus {
  std::vector<int> word, tag;
  std::vector<float> mask;
};

// hidden = tanh(E[prev] U + E[cur] W + b), one block per position
__global__ void forwardHidden(const int* word, const int* list, const float* emb, const float* U, const float* W, const float* b, float* hid) {
  int p = blockIdx.x, j = threadIdx.x;
  int s = list[p / MAXLEN], t = p % MAXLEN;
  int cur = word[s * MAXLEN + t], prev = t ? word[s * MAXLEN + t - 1] : 0;
  float z = b[j];
  for (int e = 0; e < EMB; ++e) z += emb[prev * EMB + e] * U[e * HID + j] + emb[cur * EMB + e] * W[e * HID + j];
  hid[p * HID + j] = tanhf(z);
}

// the loss of a position is weighted by mask * norm, with norm = 1 / (sum of the mask)
__global__ void tagLoss(const int* tag, const float* mask, const int* list, const float* V, const float* c, const float* hid,
                        float* dz, float* loss, float norm, int positions) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= positions) return;
  int at = list[p / MAXLEN] * MAXLEN + p % MAXLEN;
  float z[TAGS], mx = -1e30f, sum = 0;
  for (int k = 0; k < TAGS; ++k) {
    z[k] = c[k];
    for (int j = 0; j < HID; ++j) z[k] += hid[p * HID + j] * V[j * TAGS + k];
    mx = fmaxf(mx, z[k]);
  }
  for (int k = 0; k < TAGS; ++k) sum += expf(z[k] - mx);
  float w = mask[at] * norm;
  for (int k = 0; k < TAGS; ++k) dz[p * TAGS + k] = w * (expf(z[k] - mx) / sum - (k == tag[at]));
  if (w > 0) atomicAdd(loss, w * (mx + logf(sum) - z[tag[at]]));
}

__global__ void backHidden(const float* dz, const float* V, const float* hid, float* dh) {
  int p = blockIdx.x, j = threadIdx.x;
  float s = 0;
  for (int k = 0; k < TAGS; ++k) s += dz[p * TAGS + k] * V[j * TAGS + k];
  dh[p * HID + j] = s * (1 - hid[p * HID + j] * hid[p * HID + j]);
}

// everything below adds into zeroed gradients
__global__ void gradOut(const float* dz, const float* hid, float* gV, float* gc, int positions) {
  int j = blockIdx.x, k = threadIdx.x;
  float s = 0, t = 0;
  for (int p = 0; p < positions; ++p) {
    s += hid[p * HID + j] * dz[p * TAGS + k];
    t += dz[p * TAGS + k];
  }
  gV[j * TAGS + k] += s;
  if (j == 0) gc[k] += t;
}
__global__ void gradIn(const int* word, const int* list, const float* emb, const float* U, const float* W, const float* dh,
                       float* gEmb, float* gU, float* gW, float* gb) {
  int p = blockIdx.x, e = threadIdx.x;
  int s = list[p / MAXLEN], t = p % MAXLEN;
  int cur = word[s * MAXLEN + t], prev = t ? word[s * MAXLEN + t - 1] : 0;
  float dc = 0, dp = 0;
  for (int j = 0; j < HID; ++j) {
    float d = dh[p * HID + j];
    atomicAdd(&gU[e * HID + j], emb[prev * EMB + e] * d);
    atomicAdd(&gW[e * HID + j], emb[cur * EMB + e] * d);
    if (e == 0) atomicAdd(&gb[j], d);
    dp += d * U[e * HID + j];
    dc += d * W[e * HID + j];
  }
  atomicAdd(&gEmb[prev * EMB + e], dp);
  atomicAdd(&gEmb[cur * EMB + e], dc);
}
__global__ void nesterov(float* w, const float* g, float* v, int n, float lr, float mu) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  v[i] = mu * v[i] + g[i];
  w[i] -= lr * (g[i] + mu * v[i]);
}

class Tagger {
 public:
  Tagger(const Corpus& c, std::mt19937& rng) {
    allocate({{&emb, WORDS * EMB}, {&U, EMB * HID}, {&W, EMB * HID}, {&b, HID}, {&V, HID * TAGS}, {&c_, TAGS}});
    allocate({{&gEmb, WORDS * EMB}, {&gU, EMB * HID}, {&gW, EMB * HID}, {&gb, HID}, {&gV, HID * TAGS}, {&gc, TAGS}});
    allocate({{&vEmb, WORDS * EMB}, {&vU, EMB * HID}, {&vW, EMB * HID}, {&vb, HID}, {&vV, HID * TAGS}, {&vc, TAGS}});
    allocate({{&hid, BATCH * MAXLEN * HID}, {&dh, BATCH * MAXLEN * HID}, {&dz, BATCH * MAXLEN * TAGS}, {&loss, 1}, {&mask, SENTENCES * MAXLEN}});
    GPU_CHECK(cudaMalloc(&word, c.word.size() * sizeof(int)));
    GPU_CHECK(cudaMalloc(&tag, c.tag.size() * sizeof(int)));
    GPU_CHECK(cudaMalloc(&list, BATCH * sizeof(int)));
    GPU_CHECK(cudaMemcpy(word, c.word.data(), c.word.size() * sizeof(int), cudaMemcpyHostToDevice));
    GPU_CHECK(cudaMemcpy(tag, c.tag.data(), c.tag.size() * sizeof(int), cudaMemcpyHostToDevice));
    GPU_CHECK(cudaMemcpy(mask, c.mask.data(), c.mask.size() * sizeof(float), cudaMemcpyHostToDevice));
    randomize(emb, WORDS * EMB, 0.5f, rng);
    randomize(U, EMB * HID, 0.3f, rng);
    randomize(W, EMB * HID, 0.3f, rng);
    randomize(V, HID * TAGS, 0.2f, rng);
  }
  float train(const int* chosen, int n, float norm, float lr) {
    GPU_CHECK(cudaMemcpy(list, chosen, n * sizeof(int), cudaMemcpyHostToDevice));
    zero({{&gEmb, WORDS * EMB}, {&gU, EMB * HID}, {&gW, EMB * HID}, {&gb, HID}, {&gV, HID * TAGS}, {&gc, TAGS}, {&loss, 1}});
    int positions = n * MAXLEN;
    forwardHidden<<<positions, HID>>>(word, list, emb, U, W, b, hid);
    tagLoss<<<(positions + 63) / 64, 64>>>(tag, mask, list, V, c_, hid, dz, loss, norm, positions);
    backHidden<<<positions, HID>>>(dz, V, hid, dh);
    gradOut<<<HID, TAGS>>>(dz, hid, gV, gc, positions);
    gradIn<<<positions, EMB>>>(word, list, emb, U, W, dh, gEmb, gU, gW, gb);
    step(emb, gEmb, vEmb, WORDS * EMB, lr);
    step(U, gU, vU, EMB * HID, lr);
    step(W, gW, vW, EMB * HID, lr);
    step(b, gb, vb, HID, lr);
    step(V, gV, vV, HID * TAGS, lr);
    step(c_, gc, vc, TAGS, lr);
    float h;
    GPU_CHECK(cudaMemcpy(&h, loss, sizeof(float), cudaMemcpyDeviceToHost));
    return h;
  }

 private:
  using Sizes = std::initializer_list<std::pair<float**, int>>;
  static void allocate(Sizes list) {
    for (auto& [p, n] : list) {
      GPU_CHECK(cudaMalloc(p, n * sizeof(float)));
      GPU_CHECK(cudaMemset(*p, 0, n * sizeof(float)));
    }
  }
  static void zero(Sizes list) {
    for (auto& [p, n] : list) GPU_CHECK(cudaMemset(*p, 0, n * sizeof(float)));
  }
  static void randomize(float* d, int n, float sd, std::mt19937& rng) {
    std::normal_distribution<float> g(0.f, sd);
    std::vector<float> h(n);
    for (auto& v : h) v = g(rng);
    GPU_CHECK(cudaMemcpy(d, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  }
  void step(float* w, const float* g, float* v, int n, float lr) { nesterov<<<(n + 63) / 64, 64>>>(w, g, v, n, lr, 0.8f); }

  float *emb, *U, *W, *b, *V, *c_, *gEmb, *gU, *gW, *gb, *gV, *gc, *vEmb, *vU, *vW, *vb, *vV, *vc;
  float *hid, *dh, *dz, *loss, *mask;
  int *word, *tag, *list;
};

int main() {
  std::mt19937 rng(12);
  Corpus c{std::vector<int>(SENTENCES * MAXLEN, 0), std::vector<int>(SENTENCES * MAXLEN, 0), std::vector<float>(SENTENCES * MAXLEN, 0.f)};
  std::vector<float> weight(SENTENCES, 0.f);
  for (int s = 0; s < SENTENCES; ++s) {
    int len = 3 + rng() % (MAXLEN - 2), prev = 0;
    for (int t = 0; t < len; ++t) {
      int w = 1 + rng() % (WORDS - 1);
      c.word[s * MAXLEN + t] = w;
      c.tag[s * MAXLEN + t] = (w % 2 ? 0 : 1) + (prev % 3 == 0 ? 2 : 0);
      c.mask[s * MAXLEN + t] = 1.f;
      weight[s] += 1.f;
      prev = w;
    }
  }

  Tagger model(c, rng);
  std::vector<int> order(SENTENCES);
  std::iota(order.begin(), order.end(), 0);
  int step = 0;
  for (int epoch = 0; epoch < 8; ++epoch) {
    std::shuffle(order.begin(), order.end(), rng);
    for (int i = 0; i + BATCH <= SENTENCES; i += BATCH) {
      float tokens = 0;
      for (int k = 0; k < BATCH; ++k) tokens += weight[order[i + k]];
      float loss = model.train(&order[i], BATCH, 1.f / tokens, 0.3f);
      if (step++ % 10 == 0) std::printf("step %d, loss per token %.5f\n", step - 1, loss);
    }
  }
  return 0;
}
