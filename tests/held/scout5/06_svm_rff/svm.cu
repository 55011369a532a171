// Linear SVM (hinge loss, L2) on random Fourier features: the Pegasos way, with minibatches.
// Two moons data set. Homework 4.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define N 2000          // training points
#define D 384           // random features
#define B 100           // mini batch
#define ITERS 120
#define LAMBDA 0.01f
#define NT 128

static void die(const char *msg) { fprintf(stderr, "%s: %s\n", msg, cudaGetErrorString(cudaGetLastError())); exit(1); }

// phi_j(x) = sqrt(2/D) cos(omega_j . x + phase_j)
__global__ void features(const float2 *pts, const float *omega, const float *phase, float *phi, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n * D) {
        int i = t / D, j = t % D;
        phi[t] = sqrtf(2.0f / D) * cosf(omega[2 * j] * pts[i].x + omega[2 * j + 1] * pts[i].y + phase[j]) * 8.0f;
    }
}

__global__ void hinge(const float *phi, const float *label, const int *index, const float *w, float *g, float *obj, int n)
{
    __shared__ float s[NT];
    int i = index[blockIdx.x];
    float dot = 0;
    for (int j = threadIdx.x; j < D; j += NT)
        dot += w[j] * phi[i * D + j];
    s[threadIdx.x] = dot;
    __syncthreads();
    for (int h = NT / 2; h > 0; h >>= 1) {
        if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
        __syncthreads();
    }
    float margin = label[i] * s[0];
    if (margin < 1.0f) {
        for (int j = threadIdx.x; j < D; j += NT)
            atomicAdd(&g[j], -label[i] * phi[i * D + j]);
        if (threadIdx.x == 0) atomicAdd(obj, 1.0f - margin);
    }
}

__global__ void step(float *w, const float *g, float eta)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < D) w[j] = (1.0f - eta * LAMBDA) * w[j] - eta * g[j];
}

__global__ void classify(const float *phi, const float *label, const float *w, int *right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float dot = 0;
    for (int j = 0; j < D; j++) dot += w[j] * phi[i * D + j];
    if (dot * label[i] > 0) atomicAdd(right, 1);
}

static float gauss(void)
{
    float u = (rand() + 1.0f) / (RAND_MAX + 2.0f), v = (rand() + 1.0f) / (RAND_MAX + 2.0f);
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

int main()
{
    srand(17);
    static float2 h_pts[N];
    static float h_label[N], h_omega[2 * D], h_phase[D];
    int perm[N];
    for (int i = 0; i < N; i++) {
        float t = 3.14159265f * rand() / RAND_MAX;
        int up = rand() % 2;
        h_pts[i].x = (up ? cosf(t) : 1 - cosf(t)) + 0.15f * gauss();
        h_pts[i].y = (up ? sinf(t) : 0.5f - sinf(t)) + 0.15f * gauss();
        h_label[i] = up ? 1 : -1;
        perm[i] = i;
    }
    for (int j = 0; j < D; j++) {
        h_omega[2 * j] = 2 * gauss();
        h_omega[2 * j + 1] = 2 * gauss();
        h_phase[j] = 6.2831853f * rand() / RAND_MAX;
    }

    float2 *pts;
    float *label, *omega, *phase, *phi, *w, *g, *obj;
    int *index, *right;
    if (cudaMalloc(&pts, sizeof(h_pts)) || cudaMalloc(&label, sizeof(h_label)) || cudaMalloc(&omega, sizeof(h_omega)) ||
        cudaMalloc(&phase, sizeof(h_phase)) || cudaMalloc(&phi, N * D * sizeof(float)) || cudaMalloc(&w, D * sizeof(float)) ||
        cudaMalloc(&g, D * sizeof(float)) || cudaMalloc(&obj, sizeof(float)) || cudaMalloc(&index, B * sizeof(int)) ||
        cudaMalloc(&right, sizeof(int)))
        die("cudaMalloc");
    cudaMemcpy(pts, h_pts, sizeof(h_pts), cudaMemcpyHostToDevice);
    cudaMemcpy(label, h_label, sizeof(h_label), cudaMemcpyHostToDevice);
    cudaMemcpy(omega, h_omega, sizeof(h_omega), cudaMemcpyHostToDevice);
    cudaMemcpy(phase, h_phase, sizeof(h_phase), cudaMemcpyHostToDevice);
    features<<<(N * D + 255) / 256, 256>>>(pts, omega, phase, phi, N);
    cudaMemset(w, 0, D * sizeof(float));

    int pos = N;
    for (int t = 1; t <= ITERS; t++) {
        if (pos + B > N) { // next epoch
            for (int i = N - 1; i > 0; i--) {
                int j = rand() % (i + 1), x = perm[i];
                perm[i] = perm[j];
                perm[j] = x;
            }
            pos = 0;
        }
        cudaMemcpy(index, perm + pos, B * sizeof(int), cudaMemcpyHostToDevice);
        pos += B;
        cudaMemset(g, 0, D * sizeof(float));
        cudaMemset(obj, 0, sizeof(float));
        hinge<<<B, NT>>>(phi, label, index, w, g, obj, B);
        float eta = 0.01f / (1.0f + 0.02f * t);
        step<<<(D + NT - 1) / NT, NT>>>(w, g, eta);
        if (t == 1 || t % 20 == 0) {
            float h;
            int r = 0;
            cudaMemcpy(&h, obj, sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemset(right, 0, sizeof(int));
            classify<<<(N + 127) / 128, 128>>>(phi, label, w, right);
            cudaMemcpy(&r, right, sizeof(int), cudaMemcpyDeviceToHost);
            printf("iter %d hinge loss %f accuracy %.3f\n", t, h / B, (float)r / N);
        }
    }
    if (cudaDeviceSynchronize()) die("training");
    cudaFree(pts); cudaFree(label); cudaFree(omega); cudaFree(phase); cudaFree(phi);
    cudaFree(w); cudaFree(g); cudaFree(obj); cudaFree(index); cudaFree(right);
    return 0;
}
