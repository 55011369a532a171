#pragma once

#include <cub/cub.cuh>

struct MaxOp {
  template <typename T>
  __host__ __device__ __forceinline__ T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};

struct AbsMaxOp {
  __host__ __device__ __forceinline__ float operator()(float a, float b) const {
    return fmaxf(fabsf(a), fabsf(b));
  }
};

constexpr int kRowLanes = 16;  // lanes for each row of logits
constexpr int kRowThreads = 128;
constexpr int kReduceThreads = 64;

__global__ void iota_kernel(int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = i;
}

// One block for each (class, feature): mean over the class's members, which lie together
// in `sorted_ids` from offsets[c] on.
__global__ void class_means(const float* __restrict__ x, const int* __restrict__ sorted_ids,
                            const int* __restrict__ offsets, const int* __restrict__ counts,
                            float* __restrict__ means, int features) {
  using BlockReduce = cub::BlockReduce<float, kReduceThreads>;
  __shared__ typename BlockReduce::TempStorage temp;
  const int c = blockIdx.x, f = blockIdx.y;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < counts[c]; k += blockDim.x)
    sum += x[sorted_ids[offsets[c] + k] * features + f];
  sum = BlockReduce(temp).Sum(sum);
  if (threadIdx.x == 0) means[c * features + f] = sum / max(counts[c], 1);
}

// w = scale * mean, b = -scale * |mean|^2 / 2; one warp for each class.
__global__ void init_from_means(const float* __restrict__ means, float* __restrict__ w,
                                float* __restrict__ b, float scale, int features) {
  using WarpReduce = cub::WarpReduce<float>;
  __shared__ typename WarpReduce::TempStorage temp;
  const int c = blockIdx.x;
  float norm2 = 0.0f;
  for (int f = threadIdx.x; f < features; f += 32) {
    float m = means[c * features + f];
    w[c * features + f] = scale * m;
    norm2 += m * m;
  }
  norm2 = WarpReduce(temp).Sum(norm2);
  if (threadIdx.x == 0) b[c] = -0.5f * scale * norm2;
}

// Turns each row of logits into p - onehot(label) and writes the row's loss.
// A logical warp of 16 lanes works on a row; classes <= 16.
__global__ void __launch_bounds__(kRowThreads)
    softmax_rows(float* __restrict__ logits, const float* __restrict__ bias,
                 const int* __restrict__ labels, float* __restrict__ loss,
                 int* __restrict__ correct, int rows, int classes) {
  using WarpReduce = cub::WarpReduce<float, kRowLanes>;
  constexpr int rows_per_block = kRowThreads / kRowLanes;
  __shared__ typename WarpReduce::TempStorage temp[rows_per_block];

  const int lane = threadIdx.x % kRowLanes;
  const int slot = threadIdx.x / kRowLanes;
  const int row = blockIdx.x * rows_per_block + slot;
  const bool active = row < rows && lane < classes;
  const float z = active ? logits[row * classes + lane] + bias[lane] : -1e30f;

  float top = WarpReduce(temp[slot]).Reduce(z, MaxOp());
  top = __shfl_sync(0xffffffffu, top, 0, kRowLanes);
  const float e = active ? expf(z - top) : 0.0f;
  __syncwarp();
  float sum = WarpReduce(temp[slot]).Sum(e);
  sum = __shfl_sync(0xffffffffu, sum, 0, kRowLanes);
  if (active) {
    const bool mine = lane == labels[row];
    logits[row * classes + lane] = e / sum - (mine ? 1.0f : 0.0f);
    if (mine) {
      loss[row] = logf(sum) + top - z;
      correct[row] = z == top ? 1 : 0;
    }
  }
}

__global__ void mark_top(const int* __restrict__ sorted_ids, unsigned char* __restrict__ flags,
                         int keep, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) flags[sorted_ids[i]] = i < keep;
}

// One block for each gradient entry; f == features is the bias.
__global__ void gradient(const float* __restrict__ x, const float* __restrict__ dz,
                         const int* __restrict__ selected, const int* __restrict__ num_selected,
                         float* __restrict__ grad, int features, int classes) {
  using BlockReduce = cub::BlockReduce<float, kReduceThreads>;
  __shared__ typename BlockReduce::TempStorage temp;
  const int c = blockIdx.x, f = blockIdx.y;
  const int n = *num_selected;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < n; k += kReduceThreads) {
    const int i = selected[k];
    sum += dz[i * classes + c] * (f < features ? x[i * features + f] : 1.0f);
  }
  sum = BlockReduce(temp).Sum(sum);
  if (threadIdx.x == 0)
    grad[f < features ? c * features + f : classes * features + c] = sum / n;
}

__global__ void sgd_update(float* __restrict__ w, float* __restrict__ velocity,
                           const float* __restrict__ grad, float lr, float momentum, float l2,
                           int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = momentum * velocity[i] + grad[i] + l2 * w[i];
  velocity[i] = v;
  w[i] -= lr * v;
}
