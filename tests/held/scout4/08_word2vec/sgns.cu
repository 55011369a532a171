// Skip-gram with negative sampling, in the manner of the original C program:
// the threads update the two embedding tables without locks.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <cuda_runtime.h>

#define VOCAB      200
#define DIM        24
#define WINDOW     3
#define NEGATIVE   5
#define PAIRS      256        // per launch
#define LAUNCHES   160
#define CORPUS     20000
#define UNIGRAM    4096

typedef unsigned long long u64;
typedef float real;

static u64 next_random = 25214903917ULL;
static inline unsigned rnd() {
  next_random = next_random * 25214903917ULL + 11;
  return (unsigned)(next_random >> 16);
}

static int corpus[CORPUS];
static int table[UNIGRAM];
static int count_[VOCAB];

// Words belong to topics; a topic lasts for a few words.
static void make_corpus() {
  int topic = 0;
  for (int i = 0; i < CORPUS; i++) {
    if (rnd() % 12 == 0) topic = rnd() % 20;
    corpus[i] = rnd() % 10 == 0 ? rnd() % VOCAB : topic * 10 + rnd() % 10;
    count_[corpus[i]]++;
  }
  double norm = 0, cum;
  for (int w = 0; w < VOCAB; w++) norm += pow(count_[w], 0.75);
  int w = 0;
  cum = pow(count_[0], 0.75) / norm;
  for (int i = 0; i < UNIGRAM; i++) {
    table[i] = w;
    if (i / (double)UNIGRAM > cum && w < VOCAB - 1) cum += pow(count_[++w], 0.75) / norm;
  }
}

struct Pair {
  int center;
  int target[1 + NEGATIVE];   // the first one is the true context
};

// one block of DIM threads for each pair
__global__ void train_pairs(const Pair *pairs, int n, real *syn0, real *syn1neg, real alpha, real *loss) {
  __shared__ real part[32];
  int p = blockIdx.x;
  int k = threadIdx.x;
  if (p >= n) return;
  const Pair pr = pairs[p];
  real x = k < DIM ? syn0[pr.center * DIM + k] : 0;
  real neu1e = 0;
  for (int d = 0; d <= NEGATIVE; d++) {
    int word = pr.target[d];
    real y = k < DIM ? syn1neg[word * DIM + k] : 0;
    part[k] = x * y;
    __syncthreads();
    for (int s = 16; s > 0; s >>= 1) {
      if (k < s) part[k] += part[k + s];
      __syncthreads();
    }
    real f = part[0];
    __syncthreads();
    real label = d == 0 ? 1 : 0;
    real sig = 1 / (1 + expf(-f));
    real g = (label - sig) * alpha;
    if (k == 0) atomicAdd(loss, d == 0 ? -logf(sig + 1e-9f) : -logf(1 - sig + 1e-9f));
    neu1e += g * y;
    if (k < DIM) atomicAdd(&syn1neg[word * DIM + k], g * x);
  }
  if (k < DIM) atomicAdd(&syn0[pr.center * DIM + k], neu1e);
}

int main() {
  make_corpus();

  real *syn0, *syn1neg, *d_loss;
  Pair *d_pairs, *h_pairs;
  real *init = (real *)malloc(VOCAB * DIM * sizeof(real));
  for (int i = 0; i < VOCAB * DIM; i++) init[i] = ((rnd() & 0xFFFF) / (real)65536 - 0.5f) / DIM;
  cudaMalloc(&syn0, VOCAB * DIM * sizeof(real));
  cudaMalloc(&syn1neg, VOCAB * DIM * sizeof(real));
  cudaMemcpy(syn0, init, VOCAB * DIM * sizeof(real), cudaMemcpyHostToDevice);
  cudaMemset(syn1neg, 0, VOCAB * DIM * sizeof(real));
  cudaMalloc(&d_loss, sizeof(real));
  cudaMalloc(&d_pairs, PAIRS * sizeof(Pair));
  h_pairs = (Pair *)malloc(PAIRS * sizeof(Pair));

  const real starting_alpha = 0.2f;
  int pos = 0;
  cudaMemset(d_loss, 0, sizeof(real));
  for (int it = 0; it < LAUNCHES; it++) {
    real alpha = starting_alpha * (1 - it / (real)(LAUNCHES + 1));
    if (alpha < starting_alpha * 0.0001f) alpha = starting_alpha * 0.0001f;
    for (int i = 0; i < PAIRS; i++) {
      int off = 1 + rnd() % WINDOW;
      if (rnd() & 1) off = -off;
      int other = pos + off;
      if (other < 0 || other >= CORPUS) other = pos - off;
      h_pairs[i].center = corpus[pos];
      h_pairs[i].target[0] = corpus[other];
      for (int d = 1; d <= NEGATIVE; d++) h_pairs[i].target[d] = table[rnd() % UNIGRAM];
      pos = (pos + 1) % CORPUS;
    }
    cudaMemcpy(d_pairs, h_pairs, PAIRS * sizeof(Pair), cudaMemcpyHostToDevice);
    train_pairs<<<PAIRS, 32>>>(d_pairs, PAIRS, syn0, syn1neg, alpha, d_loss);
    if (it % 20 == 19) {
      real loss;
      cudaMemcpy(&loss, d_loss, sizeof(real), cudaMemcpyDeviceToHost);
      printf("Alpha: %f  Progress: %.1f%%  Loss: %.4f\n", alpha, 100.0 * (it + 1) / LAUNCHES, loss / (20 * PAIRS));
      cudaMemset(d_loss, 0, sizeof(real));
    }
  }

  cudaMemcpy(init, syn0, VOCAB * DIM * sizeof(real), cudaMemcpyDeviceToHost);
  double same = 0, other = 0;
  int ns = 0, no = 0;
  for (int a = 0; a < VOCAB; a++)
    for (int b = a + 1; b < VOCAB; b++) {
      double ab = 0, aa = 1e-9, bb = 1e-9;
      for (int k = 0; k < DIM; k++) {
        ab += init[a * DIM + k] * init[b * DIM + k];
        aa += init[a * DIM + k] * init[a * DIM + k];
        bb += init[b * DIM + k] * init[b * DIM + k];
      }
      if (a / 10 == b / 10) same += ab / sqrt(aa * bb), ns++;
      else other += ab / sqrt(aa * bb), no++;
    }
  printf("similarity within topics %.3f, between %.3f\n", same / ns, other / no);
  free(init);
  free(h_pairs);
  cudaFree(syn0);
  cudaFree(syn1neg);
  cudaFree(d_pairs);
  cudaFree(d_loss);
  return 0;
}
