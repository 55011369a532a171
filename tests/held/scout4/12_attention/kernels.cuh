#pragma once
#include <cuda_runtime.h>

// One block per sequence in the attention kernels; rows are (sequence, position).

__global__ void embed(const int *tokens, const float *tok_emb, const float *pos_emb, float *x, int rows, int L, int D) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * D) return;
  int r = i / D, d = i % D;
  x[i] = tok_emb[tokens[r] * D + d] + pos_emb[(r % L) * D + d];
}

__global__ void embed_backward(const int *tokens, const float *dx, float *dtok, float *dpos, int rows, int L, int D) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * D) return;
  int r = i / D, d = i % D;
  atomicAdd(&dtok[tokens[r] * D + d], dx[i]);
  atomicAdd(&dpos[(r % L) * D + d], dx[i]);
}

// c (m x n) = a (m x k) * b (k x n)
__global__ void mm(const float *a, const float *b, float *c, int m, int k, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m * n) return;
  int r = i / n, q = i % n;
  float s = 0;
  for (int j = 0; j < k; j++) s += a[r * k + j] * b[j * n + q];
  c[i] = s;
}

// c (k x n) = a^T (k x m) * b (m x n)
__global__ void mm_tn(const float *a, const float *b, float *c, int m, int k, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= k * n) return;
  int r = i / n, q = i % n;
  float s = 0;
  for (int j = 0; j < m; j++) s += a[j * k + r] * b[j * n + q];
  c[i] = s;
}

// c (m x k) (+)= a (m x n) * b^T (n x k)
__global__ void mm_nt(const float *a, const float *b, float *c, int m, int n, int k, bool add) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m * k) return;
  int r = i / k, q = i % k;
  float s = add ? c[i] : 0;
  for (int j = 0; j < n; j++) s += a[r * n + j] * b[q * n + j];
  c[i] = s;
}

// one thread per query
__global__ void attention(const float *q, const float *k, const float *v, float *att, float *o, int L, int D) {
  int s = blockIdx.x, i = threadIdx.x;
  const float *qi = q + (s * L + i) * D;
  float *a = att + (s * L + i) * L;
  float m = -1e30f, sum = 0, scale = rsqrtf((float)D);
  for (int j = 0; j < L; j++) {
    float e = 0;
    for (int d = 0; d < D; d++) e += qi[d] * k[(s * L + j) * D + d];
    a[j] = e * scale;
    m = fmaxf(m, a[j]);
  }
  for (int j = 0; j < L; j++) {
    a[j] = expf(a[j] - m);
    sum += a[j];
  }
  for (int j = 0; j < L; j++) a[j] /= sum;
  for (int d = 0; d < D; d++) {
    float t = 0;
    for (int j = 0; j < L; j++) t += a[j] * v[(s * L + j) * D + d];
    o[(s * L + i) * D + d] = t;
  }
}

__global__ void attention_backward(const float *q, const float *k, const float *v, const float *att, const float *dout,
                                   float *ds, float *dq, float *dk, float *dv, int L, int D) {
  int s = blockIdx.x, i = threadIdx.x;
  float scale = rsqrtf((float)D);
  const float *a = att + (s * L + i) * L;
  float *dsi = ds + (s * L + i) * L;
  const float *doi = dout + (s * L + i) * D;
  float dot = 0;
  for (int j = 0; j < L; j++) {
    float t = 0;
    for (int d = 0; d < D; d++) t += doi[d] * v[(s * L + j) * D + d];
    dsi[j] = t;
    dot += t * a[j];
  }
  for (int j = 0; j < L; j++) dsi[j] = a[j] * (dsi[j] - dot) * scale;
  for (int d = 0; d < D; d++) {
    float t = 0;
    for (int j = 0; j < L; j++) t += dsi[j] * k[(s * L + j) * D + d];
    dq[(s * L + i) * D + d] = t;
  }
  __syncthreads();
  // now as a key
  for (int d = 0; d < D; d++) {
    float tk = 0, tv = 0;
    for (int j = 0; j < L; j++) {
      tk += ds[(s * L + j) * L + i] * q[(s * L + j) * D + d];
      tv += att[(s * L + j) * L + i] * dout[(s * L + j) * D + d];
    }
    dk[(s * L + i) * D + d] = tk;
    dv[(s * L + i) * D + d] = tv;
  }
}

__global__ void pool_mean(const float *x, float *p, int B, int L, int D) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= B * D) return;
  int s = i / D, d = i % D;
  float t = 0;
  for (int l = 0; l < L; l++) t += x[(s * L + l) * D + d];
  p[i] = t / L;
}

__global__ void pool_mean_backward(const float *dp, float *dx, int B, int L, int D) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= B * L * D) return;
  dx[i] = dp[i / (L * D) * D + i % D] / L;
}

__global__ void classify(const float *p, const float *w, const float *b, const int *y, float *dlogit, float *loss,
                         int *correct, int B, int D, int C) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= B) return;
  float *z = dlogit + s * C;
  int best = 0;
  for (int c = 0; c < C; c++) {
    z[c] = b[c];
    for (int d = 0; d < D; d++) z[c] += p[s * D + d] * w[d * C + c];
    if (z[c] > z[best]) best = c;
  }
  float m = z[best], sum = 0;
  for (int c = 0; c < C; c++) sum += expf(z[c] - m);
  atomicAdd(loss, (logf(sum) + m - z[y[s]]) / B);
  if (best == y[s]) atomicAdd(correct, 1);
  for (int c = 0; c < C; c++) z[c] = (expf(z[c] - m) / sum - (c == y[s] ? 1.f : 0.f)) / B;
}

__global__ void col_sum(const float *a, float *s, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float t = 0;
  for (int r = 0; r < rows; r++) t += a[r * cols + c];
  s[c] = t;
}

__global__ void adam_update(float *w, const float *g, float *m, float *v, float lr, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
  w[i] -= lr * m[i] / (sqrtf(v[i]) + 1e-8f);
}
