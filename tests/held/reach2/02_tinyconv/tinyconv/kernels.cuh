#pragma once

#include "tinyconv/element.cuh"

namespace tinyconv {

// NCHW "valid" convolution; all shapes are compile-time constants.
template <int C, int H, int W, int OC, int KS>
struct ConvShape {
  static constexpr int c = C, h = H, w = W, oc = OC, ks = KS;
  static constexpr int oh = H - KS + 1, ow = W - KS + 1;
  static constexpr int in_size = C * H * W;
  static constexpr int out_size = OC * oh * ow;
  static constexpr int weight_size = OC * C * KS * KS;
  static_assert(oh > 0 && ow > 0, "kernel larger than the image");
};

template <typename T, typename S>
__global__ void conv_forward(const T* __restrict__ x, const T* __restrict__ w,
                             const T* __restrict__ b, T* __restrict__ y, int batch) {
  using E = Element<T>;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * S::out_size) return;
  int ox = i % S::ow, oy = i / S::ow % S::oh, oc = i / (S::ow * S::oh) % S::oc;
  int n = i / S::out_size;
  float acc = E::load(b[oc]);
#pragma unroll
  for (int c = 0; c < S::c; ++c)
#pragma unroll
    for (int ky = 0; ky < S::ks; ++ky)
#pragma unroll
      for (int kx = 0; kx < S::ks; ++kx)
        acc += E::load(x[((n * S::c + c) * S::h + oy + ky) * S::w + ox + kx]) *
               E::load(w[((oc * S::c + c) * S::ks + ky) * S::ks + kx]);
  y[i] = E::store(acc);
}

template <typename T, typename S>
__global__ void conv_backward_data(const T* __restrict__ dy, const T* __restrict__ w,
                                   T* __restrict__ dx, int batch) {
  using E = Element<T>;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * S::in_size) return;
  int px = i % S::w, py = i / S::w % S::h, c = i / (S::w * S::h) % S::c;
  int n = i / S::in_size;
  float acc = 0.0f;
  for (int oc = 0; oc < S::oc; ++oc)
    for (int ky = 0; ky < S::ks; ++ky)
      for (int kx = 0; kx < S::ks; ++kx) {
        int oy = py - ky, ox = px - kx;
        if (oy < 0 || oy >= S::oh || ox < 0 || ox >= S::ow) continue;
        acc += E::load(dy[((n * S::oc + oc) * S::oh + oy) * S::ow + ox]) *
               E::load(w[((oc * S::c + c) * S::ks + ky) * S::ks + kx]);
      }
  dx[i] = E::store(acc);
}

template <int Threads>
__device__ float block_sum(float v) {
  static_assert((Threads & (Threads - 1)) == 0, "power of two");
  __shared__ float s[Threads];
  s[threadIdx.x] = v;
  __syncthreads();
#pragma unroll
  for (int half_size = Threads / 2; half_size > 0; half_size /= 2) {
    if (threadIdx.x < half_size) s[threadIdx.x] += s[threadIdx.x + half_size];
    __syncthreads();
  }
  return s[0];
}

// One block for each weight, and one for each bias behind them. Gradients stay float.
template <typename T, typename S, int Threads>
__global__ void conv_backward_params(const T* __restrict__ x, const T* __restrict__ dy,
                                     float* __restrict__ dw, float* __restrict__ db, int batch) {
  using E = Element<T>;
  constexpr int plane = S::oh * S::ow;
  int j = blockIdx.x;
  bool is_bias = j >= S::weight_size;
  int kx = j % S::ks, ky = j / S::ks % S::ks, c = j / (S::ks * S::ks) % S::c;
  int oc = is_bias ? j - S::weight_size : j / (S::ks * S::ks * S::c);
  float acc = 0.0f;
  for (int i = threadIdx.x; i < batch * plane; i += Threads) {
    int n = i / plane, oy = i % plane / S::ow, ox = i % S::ow;
    float g = E::load(dy[(n * S::oc + oc) * plane + oy * S::ow + ox]);
    acc += is_bias ? g
                   : g * E::load(x[((n * S::c + c) * S::h + oy + ky) * S::w + ox + kx]);
  }
  acc = block_sum<Threads>(acc);
  if (threadIdx.x == 0) (is_bias ? db[oc] : dw[j]) = acc;
}

// Leaky ReLU; `ref` is the input of the forward pass.
template <typename T>
__global__ void leaky_relu(const T* ref, const T* in, T* out, float slope, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float f = Element<T>::load(ref[i]) > 0.0f ? 1.0f : slope;
    out[i] = Element<T>::store(f * Element<T>::load(in[i]));
  }
}

// 2x2 average pooling, stride 2.
template <typename T, int C, int H, int W>
__global__ void avg_pool_forward(const T* __restrict__ x, T* __restrict__ y, int batch) {
  constexpr int oh = H / 2, ow = W / 2;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * C * oh * ow) return;
  int ox = i % ow, oy = i / ow % oh, nc = i / (ow * oh);
  const T* p = x + (nc * H + 2 * oy) * W + 2 * ox;
  float sum = Element<T>::load(p[0]) + Element<T>::load(p[1]) + Element<T>::load(p[W]) +
              Element<T>::load(p[W + 1]);
  y[i] = Element<T>::store(0.25f * sum);
}

template <typename T, int C, int H, int W>
__global__ void avg_pool_backward(const T* __restrict__ dy, T* __restrict__ dx, int batch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * C * H * W) return;
  int px = i % W, py = i / W % H, nc = i / (W * H);
  float g = Element<T>::load(dy[(nc * (H / 2) + py / 2) * (W / 2) + px / 2]);
  dx[i] = Element<T>::store(0.25f * g);
}

template <typename T, int Classes>
__global__ void softmax_loss(const T* __restrict__ logits, const int* __restrict__ labels,
                             T* __restrict__ grad, float* __restrict__ loss, float scale,
                             int batch) {
  int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= batch) return;
  float z[Classes];
  float top = -1e30f, sum = 0.0f;
#pragma unroll
  for (int k = 0; k < Classes; ++k) {
    z[k] = Element<T>::load(logits[n * Classes + k]);
    top = fmaxf(top, z[k]);
  }
  float at_label = 0.0f;
  for (int k = 0; k < Classes; ++k) {
    if (k == labels[n]) at_label = z[k];
    z[k] = __expf(z[k] - top);
    sum += z[k];
  }
  for (int k = 0; k < Classes; ++k)
    grad[n * Classes + k] =
        Element<T>::store((z[k] / sum - (k == labels[n] ? 1.0f : 0.0f)) * scale / batch);
  atomicAdd(loss, (logf(sum) + top - at_label) / batch);
}

// SGD with momentum on float master weights; writes the copy the layers use.
template <typename T>
__global__ void sgd_momentum(float* __restrict__ master, T* __restrict__ copy,
                             float* __restrict__ velocity, const float* __restrict__ grad,
                             float lr, float momentum, float inv_scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  velocity[i] = momentum * velocity[i] + grad[i] * inv_scale;
  master[i] -= lr * velocity[i];
  copy[i] = Element<T>::store(master[i]);
}

}  // namespace tinyconv
