// Skip-gram word vectors with negative sampling.
// The gradients of both embedding tables are dense buffers filled with atomicAdd.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <cuda_runtime.h>

static const int VOCAB = 48;
static const int DIM = 16;
static const int NEG = 4;
static const int WINDOW = 2;
static const int BATCH = 64;
static const int EPOCHS = 3;
static const int CORPUS = 600;

inline void cu(cudaError_t e, int line) {
  if (e != cudaSuccess) {
    std::fprintf(stderr, "cuda error at line %d: %s\n", line, cudaGetErrorString(e));
    std::exit(EXIT_FAILURE);
  }
}
#define CU(x) cu((x), __LINE__)

struct Lcg {
  unsigned long long s;
  unsigned next() {
    s = s * 6364136223846793005ULL + 1442695040888963407ULL;
    return unsigned(s >> 33);
  }
  unsigned below(unsigned n) { return next() % n; }
  float unit() { return next() / 2147483648.0f; }
};

// One block per (center, context) pair; DIM threads.
// samples[0] is the context word, the others are negatives.
__global__ void sgns_kernel(const float* in_emb, const float* out_emb, float* in_grad, float* out_grad,
                            const int* centers, const int* samples, float* loss, float inv_batch) {
  __shared__ float prod[DIM];
  __shared__ float coef;
  int pair = blockIdx.x, k = threadIdx.x;
  int c = centers[pair];
  float v = in_emb[c * DIM + k], gv = 0.f, pair_loss = 0.f;
  for (int s = 0; s <= NEG; ++s) {
    int w = samples[pair * (NEG + 1) + s];
    float u = out_emb[w * DIM + k];
    prod[k] = u * v;
    __syncthreads();
    for (int h = DIM / 2; h > 0; h >>= 1) {
      if (k < h) prod[k] += prod[k + h];
      __syncthreads();
    }
    if (k == 0) {
      float z = prod[0], label = s == 0 ? 1.f : 0.f;
      coef = (1.f / (1.f + expf(-z)) - label) * inv_batch;
      pair_loss += log1pf(expf(-fabsf(z))) + fmaxf(s == 0 ? -z : z, 0.f);
    }
    __syncthreads();
    gv += coef * u;
    atomicAdd(&out_grad[w * DIM + k], coef * v);
    __syncthreads();
  }
  atomicAdd(&in_grad[c * DIM + k], gv);
  if (k == 0) loss[pair] = pair_loss;
}

__global__ void sgd_kernel(float* emb, float* grad, float lr, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    emb[i] -= lr * grad[i];
    grad[i] = 0.f;
  }
}

class Sampler {
 public:
  Sampler(const std::vector<int>& text, unsigned long long seed) : rng_{seed} {
    std::vector<int> freq(VOCAB, 0);
    for (int w : text) ++freq[w];
    for (int w = 0; w < VOCAB; ++w) {
      int slots = 1 + int(10.f * std::pow(float(freq[w]), 0.75f));
      table_.insert(table_.end(), slots, w);
    }
  }
  int negative(int avoid) {
    int w;
    do w = table_[rng_.below(unsigned(table_.size()))];
    while (w == avoid);
    return w;
  }

 private:
  Lcg rng_;
  std::vector<int> table_;
};

int main(int argc, char** argv) {
  std::string path = argc > 1 ? argv[1] : "weights.bin";
  Lcg rng{2013};
  // Text made of topics: words of one topic appear together.
  std::vector<int> text(CORPUS);
  int topic = 0;
  for (int& w : text) {
    if (rng.below(8) == 0) topic = rng.below(6);
    w = topic * (VOCAB / 6) + rng.below(VOCAB / 6);
  }
  std::vector<int> center, context;
  for (int i = 0; i < CORPUS; ++i)
    for (int o = -WINDOW; o <= WINDOW; ++o)
      if (o != 0 && i + o >= 0 && i + o < CORPUS) {
        center.push_back(text[i]);
        context.push_back(text[i + o]);
      }

  const int n = VOCAB * DIM;
  std::vector<float> init(n);
  for (float& f : init) f = (rng.unit() - 0.5f) / 2.f;
  float *syn0, *syn1, *grad0, *grad1, *loss_dev;
  int *centers_dev, *samples_dev;
  CU(cudaMalloc(&syn0, n * sizeof(float)));
  CU(cudaMalloc(&syn1, n * sizeof(float)));
  CU(cudaMalloc(&grad0, n * sizeof(float)));
  CU(cudaMalloc(&grad1, n * sizeof(float)));
  CU(cudaMalloc(&loss_dev, BATCH * sizeof(float)));
  CU(cudaMalloc(&centers_dev, BATCH * sizeof(int)));
  CU(cudaMalloc(&samples_dev, BATCH * (NEG + 1) * sizeof(int)));
  CU(cudaMemcpy(syn0, init.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CU(cudaMemset(syn1, 0, n * sizeof(float)));
  CU(cudaMemset(grad0, 0, n * sizeof(float)));
  CU(cudaMemset(grad1, 0, n * sizeof(float)));

  Sampler sampler(text, 77);
  std::vector<int> samples(BATCH * (NEG + 1));
  std::vector<float> loss(BATCH);
  const int batches = int(center.size()) / BATCH;
  float lr0 = 6.0f;
  for (int e = 0; e < EPOCHS; ++e) {
    double sum = 0.0;
    for (int b = 0; b < batches; ++b) {
      for (int i = 0; i < BATCH; ++i) {
        samples[i * (NEG + 1)] = context[b * BATCH + i];
        for (int s = 1; s <= NEG; ++s) samples[i * (NEG + 1) + s] = sampler.negative(context[b * BATCH + i]);
      }
      CU(cudaMemcpy(centers_dev, &center[b * BATCH], BATCH * sizeof(int), cudaMemcpyHostToDevice));
      CU(cudaMemcpy(samples_dev, samples.data(), samples.size() * sizeof(int), cudaMemcpyHostToDevice));
      sgns_kernel<<<BATCH, DIM>>>(syn0, syn1, grad0, grad1, centers_dev, samples_dev, loss_dev, 1.f / BATCH);
      float lr = lr0 * (1.f - float(e * batches + b) / (EPOCHS * batches));
      sgd_kernel<<<(n + 127) / 128, 128>>>(syn0, grad0, lr, n);
      sgd_kernel<<<(n + 127) / 128, 128>>>(syn1, grad1, lr, n);
      CU(cudaGetLastError());
      CU(cudaMemcpy(loss.data(), loss_dev, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
      for (float l : loss) sum += l;
    }
    std::printf("epoch %d: %d pairs, loss %.4f\n", e + 1, batches * BATCH, sum / (batches * BATCH));
  }

  std::vector<float> out(n);
  CU(cudaMemcpy(out.data(), syn0, n * sizeof(float), cudaMemcpyDeviceToHost));
  std::FILE* f = std::fopen(path.c_str(), "wb");
  if (!f) return 1;
  std::fwrite(out.data(), sizeof(float), n, f);
  std::fclose(f);
  float* all[] = {syn0, syn1, grad0, grad1, loss_dev};
  for (float* p : all) CU(cudaFree(p));
  CU(cudaFree(centers_dev));
  CU(cudaFree(samples_dev));
  return 0;
}
