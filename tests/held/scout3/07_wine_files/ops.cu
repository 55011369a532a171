#include <cuda_runtime.h>
#include "network.h"

#define TILE 8

__global__ static void dense(const float *x, const float *w, const float *b, float *y, int m, int k, int n)
{
    __shared__ float xs[TILE][TILE], ws[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.f;
    for (int t = 0; t < k; t += TILE) {
        int kx = t + threadIdx.x, ky = t + threadIdx.y;
        xs[threadIdx.y][threadIdx.x] = (row < m && kx < k) ? x[row * k + kx] : 0.f;
        ws[threadIdx.y][threadIdx.x] = (ky < k && col < n) ? w[ky * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) acc += xs[threadIdx.y][i] * ws[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) y[row * n + col] = acc + b[col];
}

__global__ static void dense_grad(const float *x, const float *dy, float *dw, float *db, int m, int k, int n)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (col >= n) return;
    float acc = 0.f, accb = 0.f;
    for (int r = 0; r < m; r++) {
        acc += x[r * k + i] * dy[r * n + col];
        accb += dy[r * n + col];
    }
    dw[i * n + col] = acc;
    if (i == 0) db[col] = accb;
}

__global__ static void dense_input_grad(const float *dy, const float *w, float *dx, int m, int k, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (i >= k || row >= m) return;
    float acc = 0.f;
    for (int c = 0; c < n; c++) acc += dy[row * n + c] * w[i * n + c];
    dx[row * k + i] = acc;
}

__global__ static void elu(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] < 0.f) a[i] = expf(a[i]) - 1.f;
}

__global__ static void elu_grad(const float *a, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] < 0.f) d[i] *= a[i] + 1.f;
}

// stats[0] += loss, stats[1] += hits; dz may be null when only scoring
__global__ static void loss_kernel(const float *z, const int *y, float *dz, float *stats, int m, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= m) return;
    float mx = -1e30f, s = 0.f;
    int best = 0;
    for (int c = 0; c < n; c++)
        if (z[r * n + c] > mx) { mx = z[r * n + c]; best = c; }
    for (int c = 0; c < n; c++) s += expf(z[r * n + c] - mx);
    if (dz) {
        float inv = 1.f / m;
        for (int c = 0; c < n; c++)
            dz[r * n + c] = inv * (expf(z[r * n + c] - mx) / s - (c == y[r] ? 1.f : 0.f));
    } else {
        atomicAdd(&stats[0], logf(s) + mx - z[r * n + y[r]]);
        if (best == y[r]) atomicAdd(&stats[1], 1.f);
    }
}

__global__ static void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

void launch_dense(const float *x, const float *w, const float *b, float *y, int m, int k, int n)
{
    dense<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(x, w, b, y, m, k, n);
}
void launch_dense_grad(const float *x, const float *dy, float *dw, float *db, int m, int k, int n)
{
    dense_grad<<<dim3((n + 31) / 32, k), 32>>>(x, dy, dw, db, m, k, n);
}
void launch_dense_input_grad(const float *dy, const float *w, float *dx, int m, int k, int n)
{
    dense_input_grad<<<dim3((k + 31) / 32, m), 32>>>(dy, w, dx, m, k, n);
}
void launch_elu(float *a, int n) { elu<<<(n + 127) / 128, 128>>>(a, n); }
void launch_elu_grad(const float *a, float *d, int n) { elu_grad<<<(n + 127) / 128, 128>>>(a, d, n); }
void launch_loss(const float *z, const int *y, float *dz, float *stats, int m, int n)
{
    loss_kernel<<<(m + 63) / 64, 64>>>(z, y, dz, stats, m, n);
}
void launch_sgd(float *w, const float *g, float lr, int n) { sgd<<<(n + 127) / 128, 128>>>(w, g, lr, n); }
