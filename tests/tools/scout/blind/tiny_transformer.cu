// One pre-norm transformer block (single causal head, layer norm, MLP) with a
// hand-written backward pass. Next-token prediction of periodic sequences.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CUDA(x) do { cudaError_t err = (x); if (err != cudaSuccess) { \
  printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); exit(1); } } while (0)

const int B = 16, T = 8, C = 12, V = 10, F = 24, R = B * T;

enum Id { WTE, WPE, LN1G, LN1B, QKVW, QKVB, PROJW, PROJB, LN2G, LN2B, FC1W, FC1B, FC2W, FC2B, HEADW, HEADB, COUNT };
static const int sizes[COUNT] = {V * C, T * C, C, C, C * 3 * C, 3 * C, C * C, C, C, C, C * F, F, F * C, C, C * V, V};
static float *param[COUNT], *grad[COUNT], *mom1[COUNT], *mom2[COUNT];

__global__ void embed(const int *tok, const float *wte, const float *wpe, float *out) {
  int r = blockIdx.x, c = threadIdx.x;
  out[r * C + c] = wte[tok[r] * C + c] + wpe[(r % T) * C + c];
}

__global__ void embed_back(const int *tok, const float *dout, float *dwte, float *dwpe) {
  int row = blockIdx.x, c = threadIdx.x;  // rows 0..V-1 of wte, then T rows of wpe
  float s = 0.f;
  for (int r = 0; r < R; r++)
    if (row < V ? tok[r] == row : r % T == row - V) s += dout[r * C + c];
  if (row < V) dwte[row * C + c] = s;
  else dwpe[(row - V) * C + c] = s;
}

__global__ void layernorm(const float *x, const float *g, const float *b, float *y, float *mean, float *rstd) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= R) return;
  float m = 0.f, v = 0.f;
  for (int c = 0; c < C; c++) m += x[r * C + c];
  m /= C;
  for (int c = 0; c < C; c++) v += (x[r * C + c] - m) * (x[r * C + c] - m);
  float s = rsqrtf(v / C + 1e-5f);
  for (int c = 0; c < C; c++) y[r * C + c] = (x[r * C + c] - m) * s * g[c] + b[c];
  mean[r] = m;
  rstd[r] = s;
}

// dx is added to, because the residual branch also arrives there.
__global__ void layernorm_back_x(const float *x, const float *g, const float *mean, const float *rstd, const float *dy,
                                 float *dx) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= R) return;
  float a = 0.f, b = 0.f;
  for (int c = 0; c < C; c++) {
    float n = (x[r * C + c] - mean[r]) * rstd[r], d = dy[r * C + c] * g[c];
    a += d;
    b += d * n;
  }
  for (int c = 0; c < C; c++) {
    float n = (x[r * C + c] - mean[r]) * rstd[r];
    dx[r * C + c] += rstd[r] * (dy[r * C + c] * g[c] - a / C - n * b / C);
  }
}

__global__ void layernorm_back_p(const float *x, const float *mean, const float *rstd, const float *dy, float *dg,
                                 float *db) {
  int c = threadIdx.x;
  float a = 0.f, b = 0.f;
  for (int r = 0; r < R; r++) {
    a += dy[r * C + c] * (x[r * C + c] - mean[r]) * rstd[r];
    b += dy[r * C + c];
  }
  dg[c] = a;
  db[c] = b;
}

// y = x w + b (+ res), optional ReLU
__global__ void linear(const float *x, const float *w, const float *b, const float *res, float *y, int in, bool relu) {
  int r = blockIdx.x, o = threadIdx.x, out = blockDim.x;
  float s = b[o];
  for (int i = 0; i < in; i++) s += x[r * in + i] * w[i * out + o];
  if (res) s += res[r * out + o];
  y[r * out + o] = relu ? fmaxf(s, 0.f) : s;
}

// dx = dy w^T, masked where mask (if given) is zero
__global__ void linear_back_x(const float *dy, const float *w, const float *mask, float *dx, int out) {
  int r = blockIdx.x, i = threadIdx.x, in = blockDim.x;
  float s = 0.f;
  for (int o = 0; o < out; o++) s += dy[r * out + o] * w[i * out + o];
  dx[r * in + i] = mask && mask[r * in + i] <= 0.f ? 0.f : s;
}

// Block i < in: row i of dw; the last block: db.
__global__ void linear_back_w(const float *x, const float *dy, float *dw, float *db, int in) {
  int i = blockIdx.x, o = threadIdx.x, out = blockDim.x;
  float s = 0.f;
  for (int r = 0; r < R; r++) s += dy[r * out + o] * (i < in ? x[r * in + i] : 1.f);
  if (i < in) dw[i * out + o] = s;
  else db[o] = s;
}

__global__ void attention(const float *qkv, float *att, float *out) {
  int b = blockIdx.x, t = threadIdx.x;
  const float *base = qkv + b * T * 3 * C, *q = base + t * 3 * C;
  float *a = att + (b * T + t) * T, m = -1e30f, sum = 0.f;
  for (int s = 0; s <= t; s++) {
    float d = 0.f;
    for (int c = 0; c < C; c++) d += q[c] * base[s * 3 * C + C + c];
    a[s] = d * rsqrtf((float)C);
    m = fmaxf(m, a[s]);
  }
  for (int s = 0; s <= t; s++) sum += a[s] = expf(a[s] - m);
  for (int s = 0; s < T; s++) a[s] = s <= t ? a[s] / sum : 0.f;
  for (int c = 0; c < C; c++) {
    float o = 0.f;
    for (int s = 0; s <= t; s++) o += a[s] * base[s * 3 * C + 2 * C + c];
    out[(b * T + t) * C + c] = o;
  }
}

__global__ void attention_back(const float *qkv, const float *att, const float *dout, float *datt, float *dqkv) {
  int b = blockIdx.x, t = threadIdx.x;
  const float *base = qkv + b * T * 3 * C, *a = att + b * T * T, *dob = dout + b * T * C;
  float *da = datt + b * T * T, *dbase = dqkv + b * T * 3 * C, dot = 0.f;
  for (int s = 0; s <= t; s++) {
    float d = 0.f;
    for (int c = 0; c < C; c++) d += dob[t * C + c] * base[s * 3 * C + 2 * C + c];
    da[t * T + s] = d;
    dot += d * a[t * T + s];
  }
  for (int s = 0; s <= t; s++) da[t * T + s] = a[t * T + s] * (da[t * T + s] - dot) * rsqrtf((float)C);
  __syncthreads();
  for (int c = 0; c < C; c++) {
    float dq = 0.f, dk = 0.f, dv = 0.f;
    for (int s = 0; s <= t; s++) dq += da[t * T + s] * base[s * 3 * C + C + c];
    for (int s = t; s < T; s++) {
      dk += da[s * T + t] * base[s * 3 * C + c];
      dv += a[s * T + t] * dob[s * C + c];
    }
    dbase[t * 3 * C + c] = dq;
    dbase[t * 3 * C + C + c] = dk;
    dbase[t * 3 * C + 2 * C + c] = dv;
  }
}

__global__ void cross_entropy(float *logits, const int *target, float *loss) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= R) return;
  float *z = logits + r * V, m = -1e30f, sum = 0.f;
  for (int v = 0; v < V; v++) m = fmaxf(m, z[v]);
  for (int v = 0; v < V; v++) sum += expf(z[v] - m);
  loss[r] = logf(sum) + m - z[target[r]];
  for (int v = 0; v < V; v++) z[v] = (expf(z[v] - m) / sum - (v == target[r] ? 1.f : 0.f)) / R;
}

__global__ void adamw(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2, float wd) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
  w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f) + wd * w[i]);
}

static float *floats(int n) {
  float *p;
  CUDA(cudaMalloc(&p, n * sizeof(float)));
  CUDA(cudaMemset(p, 0, n * sizeof(float)));
  return p;
}

int main(int argc, char **argv) {
  std::mt19937 rng(2017);
  std::normal_distribution<float> nd(0.f, 1.f);
  for (int k = 0; k < COUNT; k++) {
    param[k] = floats(sizes[k]), grad[k] = floats(sizes[k]), mom1[k] = floats(sizes[k]), mom2[k] = floats(sizes[k]);
    bool bias = k == LN1B || k == QKVB || k == PROJB || k == LN2B || k == FC1B || k == FC2B || k == HEADB;
    std::vector<float> h(sizes[k], k == LN1G || k == LN2G ? 1.f : 0.f);
    if (!bias && k != LN1G && k != LN2G)
      for (float &x : h) x = 0.25f * nd(rng);
    CUDA(cudaMemcpy(param[k], h.data(), sizes[k] * sizeof(float), cudaMemcpyHostToDevice));
  }
  // Sequences with period 3.
  const int batches = 12, epochs = 12, warmup = 20, total = batches * epochs;
  std::vector<int> in(batches * R), tgt(batches * R);
  for (int s = 0; s < batches * B; s++) {
    int p[3] = {int(rng() % V), int(rng() % V), int(rng() % V)};
    for (int t = 0; t < T; t++) in[s * T + t] = p[t % 3], tgt[s * T + t] = p[(t + 1) % 3];
  }
  float *x0 = floats(R * C), *n1 = floats(R * C), *m1 = floats(R), *s1 = floats(R), *qkv = floats(R * 3 * C),
        *att = floats(R * T), *ao = floats(R * C), *x1 = floats(R * C), *n2 = floats(R * C), *m2 = floats(R),
        *s2 = floats(R), *f1 = floats(R * F), *x2 = floats(R * C), *logits = floats(R * V), *loss = floats(R),
        *dx = floats(R * C), *dn = floats(R * C), *df = floats(R * F), *dqkv = floats(R * 3 * C), *datt = floats(R * T);
  int *tok, *target;
  CUDA(cudaMalloc(&tok, R * sizeof(int)));
  CUDA(cudaMalloc(&target, R * sizeof(int)));
  std::vector<float> hl(R);
  float **p = param, **g = grad;
  for (int step = 1; step <= total; step++) {
    int at = (step - 1) % batches * R;
    CUDA(cudaMemcpy(tok, &in[at], R * sizeof(int), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(target, &tgt[at], R * sizeof(int), cudaMemcpyHostToDevice));
    embed<<<R, C>>>(tok, p[WTE], p[WPE], x0);
    layernorm<<<R / 32, 32>>>(x0, p[LN1G], p[LN1B], n1, m1, s1);
    linear<<<R, 3 * C>>>(n1, p[QKVW], p[QKVB], nullptr, qkv, C, false);
    attention<<<B, T>>>(qkv, att, ao);
    linear<<<R, C>>>(ao, p[PROJW], p[PROJB], x0, x1, C, false);
    layernorm<<<R / 32, 32>>>(x1, p[LN2G], p[LN2B], n2, m2, s2);
    linear<<<R, F>>>(n2, p[FC1W], p[FC1B], nullptr, f1, C, true);
    linear<<<R, C>>>(f1, p[FC2W], p[FC2B], x1, x2, F, false);
    linear<<<R, V>>>(x2, p[HEADW], p[HEADB], nullptr, logits, C, false);
    cross_entropy<<<R / 32, 32>>>(logits, target, loss);
    // backward; dx follows the residual stream
    linear_back_w<<<C + 1, V>>>(x2, logits, g[HEADW], g[HEADB], C);
    linear_back_x<<<R, C>>>(logits, p[HEADW], nullptr, dx, V);
    linear_back_w<<<F + 1, C>>>(f1, dx, g[FC2W], g[FC2B], F);
    linear_back_x<<<R, F>>>(dx, p[FC2W], f1, df, C);
    linear_back_w<<<C + 1, F>>>(n2, df, g[FC1W], g[FC1B], C);
    linear_back_x<<<R, C>>>(df, p[FC1W], nullptr, dn, F);
    layernorm_back_p<<<1, C>>>(x1, m2, s2, dn, g[LN2G], g[LN2B]);
    layernorm_back_x<<<R / 32, 32>>>(x1, p[LN2G], m2, s2, dn, dx);
    linear_back_w<<<C + 1, C>>>(ao, dx, g[PROJW], g[PROJB], C);
    linear_back_x<<<R, C>>>(dx, p[PROJW], nullptr, dn, C);
    attention_back<<<B, T>>>(qkv, att, dn, datt, dqkv);
    linear_back_w<<<C + 1, 3 * C>>>(n1, dqkv, g[QKVW], g[QKVB], C);
    linear_back_x<<<R, C>>>(dqkv, p[QKVW], nullptr, dn, 3 * C);
    layernorm_back_p<<<1, C>>>(x0, m1, s1, dn, g[LN1G], g[LN1B]);
    layernorm_back_x<<<R / 32, 32>>>(x0, p[LN1G], m1, s1, dn, dx);
    embed_back<<<V + T, C>>>(tok, dx, g[WTE], g[WPE]);
    float lr = 0.01f * (step < warmup ? (float)step / warmup : 1.f);
    for (int k = 0; k < COUNT; k++) {
      bool matrix = k == QKVW || k == PROJW || k == FC1W || k == FC2W || k == HEADW;
      adamw<<<(sizes[k] + 63) / 64, 64>>>(p[k], g[k], mom1[k], mom2[k], sizes[k], lr, 1.f - powf(0.9f, step),
                                          1.f - powf(0.98f, step), matrix ? 0.01f : 0.f);
    }
    CUDA(cudaMemcpy(hl.data(), loss, R * sizeof(float), cudaMemcpyDeviceToHost));
    float mean = 0.f;
    for (float l : hl) mean += l / R;
    if (step == 1 || step % 12 == 0) printf("step %3d  lr %.5f  loss %.4f\n", step, lr, mean);
  }
  FILE *f = fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
  if (!f) return 1;
  for (int k = 0; k < COUNT; k++) {
    std::vector<float> h(sizes[k]);
    CUDA(cudaMemcpy(h.data(), param[k], sizes[k] * sizeof(float), cudaMemcpyDeviceToHost));
    fwrite(h.data(), sizeof(float), h.size(), f);
  }
  fclose(f);
  return 0;
}
