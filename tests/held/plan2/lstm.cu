/* A tiny character LSTM: predicts the next symbol of a noisy cyclic text.
 * Backpropagation through time, gradient clipped by its global norm, SGD. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cuda_runtime.h>

enum { V = 6, H = 8, T = 6, B = 8, STEPS = 81, TEXT = 600 };
/* layout of the parameters (and of their gradient) */
enum { WX = 0, WH = WX + 4 * H * V, BG = WH + 4 * H * H, WY = BG + 4 * H, BY = WY + V * H, P = BY + V };

struct Cache {                 /* what backward needs, [T][B][...] */
    float gate[T][B][4 * H];   /* i, f, o, g after their non-linearity */
    float c[T + 1][B][H], h[T + 1][B][H];
    float dy[T][B][V];
    float dgate[T][B][4 * H], dc[B][H];
    float loss[B];
};

__device__ float sigm(float x) { return 1.f / (1.f + expf(-x)); }

__global__ void gates(const float *p, Cache *s, const int *tok, int t)
{
    int b = blockIdx.x, k = threadIdx.x;          /* k < 4H */
    float a = p[BG + k] + p[WX + k * V + tok[b * (T + 1) + t]];
    for (int j = 0; j < H; ++j) a += p[WH + k * H + j] * s->h[t][b][j];
    s->gate[t][b][k] = k < 3 * H ? sigm(a) : tanhf(a);
}

__global__ void cell(Cache *s, int t)
{
    int b = blockIdx.x, j = threadIdx.x;
    const float *g = s->gate[t][b];
    float c = g[H + j] * s->c[t][b][j] + g[j] * g[3 * H + j];
    s->c[t + 1][b][j] = c;
    s->h[t + 1][b][j] = g[2 * H + j] * tanhf(c);
}

__global__ void output(const float *p, Cache *s, const int *tok)
{
    int b = threadIdx.x;
    float loss = 0;
    for (int t = 0; t < T; ++t) {
        float z[V], top = -1e30f, sum = 0;
        for (int v = 0; v < V; ++v) {
            z[v] = p[BY + v];
            for (int j = 0; j < H; ++j) z[v] += p[WY + v * H + j] * s->h[t + 1][b][j];
            top = fmaxf(top, z[v]);
        }
        for (int v = 0; v < V; ++v) sum += z[v] = expf(z[v] - top);
        int want = tok[b * (T + 1) + t + 1];
        loss -= logf(z[want] / sum);
        for (int v = 0; v < V; ++v)
            s->dy[t][b][v] = (z[v] / sum - (v == want)) / (B * T);
    }
    s->loss[b] = loss / T;
}

__global__ void backward(const float *p, Cache *s, int t)
{
    int b = blockIdx.x, j = threadIdx.x;
    const float *g = s->gate[t][b];
    float dh = 0;
    for (int v = 0; v < V; ++v) dh += p[WY + v * H + j] * s->dy[t][b][v];
    if (t + 1 < T)
        for (int k = 0; k < 4 * H; ++k)
            dh += p[WH + k * H + j] * s->dgate[t + 1][b][k];
    float tc = tanhf(s->c[t + 1][b][j]);
    float dc = (t + 1 < T ? s->dc[b][j] : 0) + dh * g[2 * H + j] * (1 - tc * tc);
    float i = g[j], f = g[H + j], o = g[2 * H + j], c = g[3 * H + j];
    s->dgate[t][b][j] = dc * c * i * (1 - i);
    s->dgate[t][b][H + j] = dc * s->c[t][b][j] * f * (1 - f);
    s->dgate[t][b][2 * H + j] = dh * tc * o * (1 - o);
    s->dgate[t][b][3 * H + j] = dc * i * (1 - c * c);
    s->dc[b][j] = dc * f;
}

__global__ void weights_grad(const Cache *s, const int *tok, float *grad)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= P) return;
    float sum = 0;
    for (int t = 0; t < T; ++t)
        for (int b = 0; b < B; ++b) {
            if (q < WH)
                sum += tok[b * (T + 1) + t] == q % V ? s->dgate[t][b][q / V] : 0;
            else if (q < BG)
                sum += s->dgate[t][b][(q - WH) / H] * s->h[t][b][(q - WH) % H];
            else if (q < WY)
                sum += s->dgate[t][b][q - BG];
            else if (q < BY)
                sum += s->dy[t][b][(q - WY) / H] * s->h[t + 1][b][(q - WY) % H];
            else
                sum += s->dy[t][b][q - BY];
        }
    grad[q] = sum;
}

__global__ void norm(const float *grad, float *out)
{
    __shared__ float part[64];
    float s = 0;
    for (int q = threadIdx.x; q < P; q += 64) s += grad[q] * grad[q];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int w = 32; w > 0; w /= 2) {
        if (threadIdx.x < w) part[threadIdx.x] += part[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrtf(part[0]);
}

__global__ void update(float *p, const float *grad, const float *norm, float lr, float clip)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q < P) p[q] -= lr * grad[q] * (*norm > clip ? clip / *norm : 1.f);
}

__global__ void accumulate(float *sum, const float *grad)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q < P) sum[q] += grad[q];
}

__global__ void divide(float *grad, const float *sum, float r)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q < P) grad[q] = sum[q] / r;
}

int main(int argc, char **argv)
{
    const char *save = NULL;
    int R = 0, waiting = 0;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--save") == 0 && i + 1 < argc) save = argv[++i];
        else if (strcmp(argv[i], "--oracle") == 0 && i + 1 < argc) R = atoi(argv[++i]);
    }
    srand(7);
    int text[TEXT], tok[B][T + 1];
    for (int i = 0, v = 0; i < TEXT; ++i) {
        text[i] = v;
        v = rand() % 10 == 0 ? rand() % V : (v + (i > 0 && text[i - 1] % 2 ? 2 : 1)) % V;
    }
    const int blocks = (P + 63) / 64;
    float start[P], *p, *grad, *nrm, *sum = NULL;
    for (int q = 0; q < P; ++q)
        start[q] = q >= BG && q < WY ? (q >= BG + H && q < BG + 2 * H) : (rand() % 2001 - 1000) * 0.0003f;
    Cache *s;
    int *dtok;
    cudaMalloc((void **)&p, P * sizeof(float));
    cudaMalloc((void **)&grad, P * sizeof(float));
    cudaMalloc((void **)&nrm, sizeof(float));
    cudaMalloc((void **)&s, sizeof(Cache));
    cudaMalloc((void **)&dtok, sizeof tok);
    cudaMemset(s, 0, sizeof(Cache));          /* h and c of time 0 stay zero */
    cudaMemcpy(p, start, sizeof start, cudaMemcpyHostToDevice);
    if (R > 0) {
        cudaMalloc((void **)&sum, P * sizeof(float));
        cudaMemset(sum, 0, P * sizeof(float));
    }
    for (int step = 0; step < STEPS; ++step) {
        for (int b = 0; b < B; ++b)
            memcpy(tok[b], text + (step * 37 + b * 71) % (TEXT - T), sizeof tok[b]);
        cudaMemcpy(dtok, tok, sizeof tok, cudaMemcpyHostToDevice);
        for (int t = 0; t < T; ++t) {
            gates<<<B, 4 * H>>>(p, s, dtok, t);
            cell<<<B, H>>>(s, t);
        }
        output<<<1, B>>>(p, s, dtok);
        for (int t = T - 1; t >= 0; --t)
            backward<<<B, H>>>(p, s, t);
        weights_grad<<<blocks, 64>>>(s, dtok, grad);
        if (step % 16 == 0) {
            float l[B], mean = 0;
            cudaMemcpy(l, s->loss, sizeof l, cudaMemcpyDeviceToHost);
            for (int b = 0; b < B; ++b) mean += l[b] / B;
            printf("step %2d  loss %.4f\n", step, mean);
        }
        if (R > 0) {
            accumulate<<<blocks, 64>>>(sum, grad);
            if (++waiting < R) continue;
            waiting = 0;
            divide<<<blocks, 64>>>(grad, sum, R);
            cudaMemset(sum, 0, P * sizeof(float));
        }
        norm<<<1, 64>>>(grad, nrm);
        update<<<blocks, 64>>>(p, grad, nrm, 2.5f, 0.12f);
    }
    cudaMemcpy(start, p, sizeof start, cudaMemcpyDeviceToHost);
    if (cudaGetLastError() != cudaSuccess) { fprintf(stderr, "lstm: CUDA failed\n"); return 1; }
    if (save) {
        FILE *f = fopen(save, "w");
        for (int q = 0; q < P; ++q) fprintf(f, "%.9g\n", start[q]);
        fclose(f);
    }
    return 0;
}
