// Mini-batch k-means: sums and counts per cluster on the GPU, then a centroid update
// with a learning rate of 1 / (points the centroid has seen).
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int K = 12;
constexpr int DIM = 8;
constexpr int BATCH = 64;
constexpr int POINTS = 1024;
constexpr int EPOCHS = 5;

#define CHECK(op)                                                              \
  if ((op) != cudaSuccess) {                                                   \
    fprintf(stderr, "CUDA error, line %d: %s\n", __LINE__,                     \
            cudaGetErrorString(cudaGetLastError()));                           \
    return EXIT_FAILURE;                                                       \
  }

__constant__ float c_centroids[K * DIM];

__global__ void assign(const float *points, int *cluster, float *dist) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= BATCH) return;
  float p[DIM];
  for (int d = 0; d < DIM; ++d) p[d] = points[i * DIM + d];
  float best = FLT_MAX;
  int arg = 0;
  for (int k = 0; k < K; ++k) {
    float s = 0.0f;
    for (int d = 0; d < DIM; ++d) {
      float t = p[d] - c_centroids[k * DIM + d];
      s += t * t;
    }
    if (s < best) {
      best = s;
      arg = k;
    }
  }
  cluster[i] = arg;
  dist[i] = best;
}

// Block = cluster, thread = coordinate. Points are visited in order.
__global__ void accumulate(const float *points, const int *cluster, float *sums, int *counts) {
  int k = blockIdx.x, d = threadIdx.x, n = 0;
  float s = 0.0f;
  for (int i = 0; i < BATCH; ++i)
    if (cluster[i] == k) {
      s += points[i * DIM + d];
      ++n;
    }
  sums[k * DIM + d] = s;
  if (d == 0) counts[k] = n;
}

__global__ void update(float *centroids, const float *sums, const int *counts, int *seen) {
  int k = blockIdx.x, d = threadIdx.x;
  int n = counts[k];
  if (n == 0) return;
  float eta = float(n) / float(seen[k] + n);
  float mean = sums[k * DIM + d] / n;
  centroids[k * DIM + d] += eta * (mean - centroids[k * DIM + d]);
  __syncthreads();
  if (d == 0) seen[k] += n;
}

class Random {
 public:
  explicit Random(uint32_t seed) : s_(seed) {}
  float uniform() {
    s_ ^= s_ << 13;
    s_ ^= s_ >> 17;
    s_ ^= s_ << 5;
    return s_ / 4294967296.0f;
  }
  float gauss() {  // sum of uniforms
    float g = -6.0f;
    for (int i = 0; i < 12; ++i) g += uniform();
    return g;
  }

 private:
  uint32_t s_;
};

int main(int argc, char **argv) {
  Random rnd(20060613u);
  std::vector<float> centers(K * DIM), points(POINTS * DIM);
  for (float &c : centers) c = 10.0f * rnd.uniform();
  for (int i = 0; i < POINTS; ++i) {
    int k = int(rnd.uniform() * K);
    if (k == K) k = 0;
    for (int d = 0; d < DIM; ++d) points[i * DIM + d] = centers[k * DIM + d] + 0.7f * rnd.gauss();
  }
  // Starts from random points of the box, not from samples.
  std::vector<float> start(K * DIM);
  for (float &c : start) c = 3.0f + 4.0f * rnd.uniform();

  float *d_points, *d_centroids, *d_sums, *d_dist;
  int *d_cluster, *d_counts, *d_seen;
  CHECK(cudaMalloc(&d_points, points.size() * sizeof(float)));
  CHECK(cudaMalloc(&d_centroids, K * DIM * sizeof(float)));
  CHECK(cudaMalloc(&d_sums, K * DIM * sizeof(float)));
  CHECK(cudaMalloc(&d_dist, BATCH * sizeof(float)));
  CHECK(cudaMalloc(&d_cluster, BATCH * sizeof(int)));
  CHECK(cudaMalloc(&d_counts, K * sizeof(int)));
  CHECK(cudaMalloc(&d_seen, K * sizeof(int)));
  CHECK(cudaMemcpy(d_points, points.data(), points.size() * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_centroids, start.data(), K * DIM * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_seen, 0, K * sizeof(int)));

  std::vector<float> dist(BATCH);
  for (int e = 0; e < EPOCHS; ++e) {
    double inertia = 0.0;
    for (int b = 0; b < POINTS / BATCH; ++b) {
      const float *batch = d_points + b * BATCH * DIM;
      CHECK(cudaMemcpyToSymbol(c_centroids, d_centroids, K * DIM * sizeof(float), 0, cudaMemcpyDeviceToDevice));
      assign<<<BATCH / 32, 32>>>(batch, d_cluster, d_dist);
      accumulate<<<K, DIM>>>(batch, d_cluster, d_sums, d_counts);
      update<<<K, DIM>>>(d_centroids, d_sums, d_counts, d_seen);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(dist.data(), d_dist, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
      for (float v : dist) inertia += v;
    }
    std::printf("pass %d  mean squared distance %.4f\n", e + 1, inertia / POINTS);
  }
  std::vector<int> seen(K);
  CHECK(cudaMemcpy(seen.data(), d_seen, K * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("points per centroid:");
  for (int n : seen) std::printf(" %d", n);
  std::printf("\n");

  CHECK(cudaMemcpy(start.data(), d_centroids, K * DIM * sizeof(float), cudaMemcpyDeviceToHost));
  FILE *f = std::fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
  if (!f) return EXIT_FAILURE;
  std::fwrite(start.data(), sizeof(float), start.size(), f);
  std::fclose(f);
  cudaFree(d_points);
  cudaFree(d_centroids);
  cudaFree(d_sums);
  cudaFree(d_dist);
  cudaFree(d_cluster);
  cudaFree(d_counts);
  cudaFree(d_seen);
  return EXIT_SUCCESS;
}
