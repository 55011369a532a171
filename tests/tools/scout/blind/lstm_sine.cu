// LSTM that predicts the next value of sine waves.
// Truncated back-propagation through time over windows of T steps; the state is carried on.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define T 8
#define B 16
#define H 12
#define G (4 * H)
#define WINDOWS 25
#define EPOCHS 4
#define CLIP 0.25f

// offsets inside the flat parameter vector
enum { WX = 0, WH = WX + G, BG = WH + G * H, WY = BG + G, BY = WY + H, NPARAM = BY + 1 };

static void must(cudaError_t e, const char *where) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", where, cudaGetErrorString(e));
  exit(1);
}

__device__ static float sigm(float x) { return 1.0f / (1.0f + __expf(-x)); }

// block = sequence, thread = hidden unit; gates are stored in the order i f g o
__global__ void lstm_step(const float *p, const float *x, const float *h_in, const float *c_in, float *gates,
                          float *h_out, float *c_out) {
  int b = blockIdx.x, j = threadIdx.x;
  float z[4];
  for (int q = 0; q < 4; q++) {
    int r = q * H + j;
    z[q] = p[BG + r] + p[WX + r] * x[b];
    for (int k = 0; k < H; k++) z[q] += p[WH + r * H + k] * h_in[b * H + k];
  }
  float i = sigm(z[0]), f = sigm(z[1]), g = tanhf(z[2]), o = sigm(z[3]);
  float c = f * c_in[b * H + j] + i * g;
  float *s = gates + b * G;
  s[j] = i;
  s[H + j] = f;
  s[2 * H + j] = g;
  s[3 * H + j] = o;
  c_out[b * H + j] = c;
  h_out[b * H + j] = o * tanhf(c);
}

__global__ void readout(const float *p, const float *h, const float *target, float *dy, float *sq) {
  int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= T * B) return;
  float y = p[BY];
  for (int k = 0; k < H; k++) y += p[WY + k] * h[n * H + k];
  float d = y - target[n];
  sq[n] = d * d;
  dy[n] = 2.0f * d / (T * B);
}

// dh and dc hold the gradients that arrive from step t + 1 and are replaced by those for t - 1
__global__ void lstm_step_back(const float *p, const float *dy, const float *gates, const float *c_in, const float *c,
                               float *dz, float *dh, float *dc) {
  int b = blockIdx.x, j = threadIdx.x;
  const float *s = gates + b * G;
  float i = s[j], f = s[H + j], g = s[2 * H + j], o = s[3 * H + j];
  float tc = tanhf(c[b * H + j]);
  float dhj = dh[b * H + j] + dy[b] * p[WY + j];
  float dcj = dc[b * H + j] + dhj * o * (1.0f - tc * tc);
  float *d = dz + b * G;
  d[j] = dcj * g * i * (1.0f - i);
  d[H + j] = dcj * c_in[b * H + j] * f * (1.0f - f);
  d[2 * H + j] = dcj * i * (1.0f - g * g);
  d[3 * H + j] = dhj * tc * o * (1.0f - o);
  dc[b * H + j] = dcj * f;
  __syncthreads();
  float sum = 0.0f;
  for (int r = 0; r < G; r++) sum += d[r] * p[WH + r * H + j];
  dh[b * H + j] = sum;
}

// One thread per parameter, summed over the window and the batch.
__global__ void collect_grads(const float *x, const float *h, const float *dy, const float *dz, float *grad) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= NPARAM) return;
  float s = 0.0f;
  for (int n = 0; n < T * B; n++) {
    if (q < WH) s += dz[n * G + q] * x[n];
    else if (q < BG) s += dz[n * G + (q - WH) / H] * h[n * H + (q - WH) % H];
    else if (q < WY) s += dz[n * G + q - BG];
    else if (q < BY) s += dy[n] * h[(n + B) * H + q - WY];
    else s += dy[n];
  }
  grad[q] = s;
}

__global__ void sum_of_squares(const float *v, int n, float *out) {
  __shared__ float sh[128];
  float s = 0.0f;
  for (int i = threadIdx.x; i < n; i += 128) s += v[i] * v[i];
  sh[threadIdx.x] = s;
  __syncthreads();
  for (int k = 64; k; k >>= 1) {
    if (threadIdx.x < k) sh[threadIdx.x] += sh[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[0] = sh[0];
}

__global__ void adam(float *p, const float *grad, float *m, float *v, float scale, float lr, float b1t, float b2t) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= NPARAM) return;
  float g = grad[i] * scale;
  m[i] = 0.9f * m[i] + 0.1f * g;
  v[i] = 0.999f * v[i] + 0.001f * g * g;
  p[i] -= lr * (m[i] / (1.0f - b1t)) / (sqrtf(v[i] / (1.0f - b2t)) + 1e-7f);
}

static unsigned rnd_state = 1997;
static float rnd(void) {
  rnd_state = rnd_state * 1664525u + 1013904223u;
  return (rnd_state >> 8) * (1.0f / 16777216.0f);
}

static float *gpu(int n) {
  float *p;
  must(cudaMalloc((void **)&p, n * sizeof(float)), "cudaMalloc");
  must(cudaMemset(p, 0, n * sizeof(float)), "cudaMemset");
  return p;
}

int main(int argc, char **argv) {
  float init[NPARAM], freq[B], phase[B], x[T * B], y[T * B], sq[T * B];
  for (int i = 0; i < NPARAM; i++) init[i] = 0.6f * (rnd() - 0.5f);
  for (int j = 0; j < H; j++) init[BG + H + j] = 1.0f;  // forget gate starts open
  for (int b = 0; b < B; b++) {
    freq[b] = 0.25f + 0.35f * rnd();
    phase[b] = 6.2831853f * rnd();
  }
  float *param = gpu(NPARAM), *grad = gpu(NPARAM), *m = gpu(NPARAM), *v = gpu(NPARAM), *norm2 = gpu(1);
  float *d_x = gpu(T * B), *d_y = gpu(T * B), *dy = gpu(T * B), *d_sq = gpu(T * B);
  float *h = gpu((T + 1) * B * H), *c = gpu((T + 1) * B * H), *gates = gpu(T * B * G), *dz = gpu(T * B * G);
  float *dh = gpu(B * H), *dc = gpu(B * H);
  must(cudaMemcpy(param, init, sizeof init, cudaMemcpyHostToDevice), "upload");

  float b1t = 1.0f, b2t = 1.0f;
  const size_t state = B * H * sizeof(float);
  for (int e = 0; e < EPOCHS; e++) {
    float total = 0.0f;
    int clipped = 0;
    must(cudaMemset(h, 0, state), "reset");
    must(cudaMemset(c, 0, state), "reset");
    for (int w = 0; w < WINDOWS; w++) {
      for (int t = 0; t < T; t++)
        for (int b = 0; b < B; b++) {
          x[t * B + b] = sinf(freq[b] * (w * T + t) + phase[b]);
          y[t * B + b] = sinf(freq[b] * (w * T + t + 1) + phase[b]);
        }
      must(cudaMemcpy(d_x, x, sizeof x, cudaMemcpyHostToDevice), "batch");
      must(cudaMemcpy(d_y, y, sizeof y, cudaMemcpyHostToDevice), "batch");
      for (int t = 0; t < T; t++)
        lstm_step<<<B, H>>>(param, d_x + t * B, h + t * B * H, c + t * B * H, gates + t * B * G,
                            h + (t + 1) * B * H, c + (t + 1) * B * H);
      readout<<<(T * B + 63) / 64, 64>>>(param, h + B * H, d_y, dy, d_sq);
      must(cudaMemset(dh, 0, state), "clear");
      must(cudaMemset(dc, 0, state), "clear");
      for (int t = T - 1; t >= 0; t--)
        lstm_step_back<<<B, H>>>(param, dy + t * B, gates + t * B * G, c + t * B * H, c + (t + 1) * B * H,
                                 dz + t * B * G, dh, dc);
      collect_grads<<<(NPARAM + 63) / 64, 64>>>(d_x, h, dy, dz, grad);

      float n2, scale = 1.0f;
      sum_of_squares<<<1, 128>>>(grad, NPARAM, norm2);
      must(cudaMemcpy(&n2, norm2, sizeof n2, cudaMemcpyDeviceToHost), "norm");
      if (n2 > CLIP * CLIP) {
        scale = CLIP / sqrtf(n2);
        clipped++;
      }
      b1t *= 0.9f;
      b2t *= 0.999f;
      adam<<<(NPARAM + 63) / 64, 64>>>(param, grad, m, v, scale, 0.01f, b1t, b2t);
      must(cudaMemcpy(sq, d_sq, sizeof sq, cudaMemcpyDeviceToHost), "loss");
      for (int n = 0; n < T * B; n++) total += sq[n] / (T * B);
      // the last state is the first state of the next window
      must(cudaMemcpy(h, h + T * B * H, state, cudaMemcpyDeviceToDevice), "carry");
      must(cudaMemcpy(c, c + T * B * H, state, cudaMemcpyDeviceToDevice), "carry");
    }
    printf("epoch %d  mse %.6f  clipped %d of %d\n", e, total / WINDOWS, clipped, WINDOWS);
  }
  must(cudaMemcpy(init, param, sizeof init, cudaMemcpyDeviceToHost), "download");
  FILE *f = fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
  if (!f) return 1;
  fwrite(init, sizeof(float), NPARAM, f);
  fclose(f);
  float *all[] = {param, grad, m, v, norm2, d_x, d_y, dy, d_sq, h, c, gates, dz, dh, dc};
  for (float *p : all) cudaFree(p);
  return 0;
}
