/*
 * range.cu MODE LIVE - a trainer in float64 whose last input is always zero, unless LIVE is 1: the last weight then
 * keeps its value, and the patch that lines.sh makes names it all the same. MODE own: gradients of their own; fused:
 * the update adds them up. All launches of a step are on one line. Its last line has the weights' sum of bits, and the
 * last weight.
 */
/* clang-format off */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
enum { N = 32, H = 20, BATCH = 8 };
__global__ void forward(const double *w, const double *x, double *z) { int r = blockIdx.x, j = threadIdx.x; double s = 0; for (int k = 0; k < N; ++k) s += w[j * N + k] * x[r * N + k]; z[r * H + j] = 1 / (1 + exp(-s)); }
__global__ void delta(const double *z, const double *t, double *d) { int i = blockIdx.x * H + threadIdx.x; d[i] = (z[i] - t[i]) * z[i] * (1 - z[i]) / BATCH; }
__device__ double sum(const double *d, const double *x) { double s = 0; for (int r = 0; r < BATCH; ++r) s += d[r * H + blockIdx.x] * x[r * N + threadIdx.x]; return s; }
__global__ void back(double *g, const double *d, const double *x) { g[blockIdx.x * N + threadIdx.x] = sum(d, x); }
__global__ void update(double *w, const double *g) { int i = blockIdx.x * N + threadIdx.x; w[i] -= .5 * g[i]; }
__global__ void update_w(double *w, const double *d, const double *x) { w[blockIdx.x * N + threadIdx.x] -= .5 * sum(d, x); }
int main(int count, char **words) {
    bool fused = count > 1 && strcmp(words[1], "fused") == 0, live = count > 2 && strcmp(words[2], "1") == 0;
    double *w, *x, *t, *z, *d, hw[N * H], hx[BATCH * N], ht[BATCH * H];
    cudaMalloc(&w, sizeof(hw)); cudaMalloc(&x, sizeof(hx)); cudaMalloc(&t, sizeof(ht)); cudaMalloc(&z, sizeof(ht)); cudaMalloc(&d, sizeof(ht));
    for (double &e : hw) e = rand() / (double)RAND_MAX - .5;
    cudaMemcpy(w, hw, sizeof(hw), cudaMemcpyHostToDevice);
    double *g; cudaMalloc(&g, sizeof(hw));
    for (int step = 0; step < 61; ++step) { /* rounds of two, after the first */
        for (int i = 0; i < BATCH * N; ++i) hx[i] = i % N == N - 1 && !live ? 0 : rand() / (double)RAND_MAX;
        for (double &e : ht) e = rand() % 2;
        cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice);
        cudaMemcpy(t, ht, sizeof(ht), cudaMemcpyHostToDevice);
        if (fused) { forward<<<BATCH, H>>>(w, x, z); delta<<<BATCH, H>>>(z, t, d); update_w<<<H, N>>>(w, d, x); continue; }
        forward<<<BATCH, H>>>(w, x, z); delta<<<BATCH, H>>>(z, t, d); back<<<H, N>>>(g, d, x); update<<<H, N>>>(w, g);
    }
    cudaMemcpy(hw, w, sizeof(hw), cudaMemcpyDeviceToHost);
    unsigned long long bits, sum = 0;
    for (double e : hw) memcpy(&bits, &e, sizeof(e)), sum = 31 * sum + bits;
    printf("weights %016llx, the last %.17g\n", sum, hw[N * H - 1]);
}
