// Learns an image as a function of the coordinates (SIREN). Every step draws random pixels on
// the device; one thread does forward and backward of one pixel.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "siren.cuh"

#define BATCH (1 << 8)
#define STEPS 150
#define IMG 48

struct AdamState {
    float *m;
    float *v;
    float beta1 = 0.9f, beta2 = 0.99f, eps = 1e-10f, lr = 4e-3f;
    int t = 0;
};

__global__ void sample_pixels(uint32_t seed, int n, const float *image, float2 *xy, float *target)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t r = pcg_hash(seed * 0x9E3779B9u + i);
    int p = r % (IMG * IMG);
    xy[i] = make_float2((p % IMG) * 2.0f / (IMG - 1) - 1.0f, (p / IMG) * 2.0f / (IMG - 1) - 1.0f);
    target[i] = image[p];
}

__global__ void train_pixels(const float *__restrict__ th, float *__restrict__ grad, const float2 *xy, const float *target, int n, float *loss)
{
    __shared__ float sg[NPARAM];
    for (int k = threadIdx.x; k < NPARAM; k += blockDim.x) sg[k] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = xy[i].x, y = xy[i].y;
        float a1[H], h1[H], a2[H];
        for (int j = 0; j < H; ++j) {
            a1[j] = hidden1(th, x, y, j);
            h1[j] = sinf(a1[j]);
        }
        float out = th[B3];
        for (int j = 0; j < H; ++j) {
            float s = th[B2 + j];
            for (int k = 0; k < H; ++k) s += th[W2 + j * H + k] * h1[k];
            a2[j] = s;
            out += th[W3 + j] * sinf(s);
        }
        float e = out - target[i];
        atomicAdd(loss, e * e);
        float d = 2.0f * e;
        float dh1[H] = {0};
        atomicAdd(&sg[B3], d);
        for (int j = 0; j < H; ++j) {
            atomicAdd(&sg[W3 + j], d * sinf(a2[j]));
            float da = d * th[W3 + j] * cosf(a2[j]);
            atomicAdd(&sg[B2 + j], da);
            for (int k = 0; k < H; ++k) {
                atomicAdd(&sg[W2 + j * H + k], da * h1[k]);
                dh1[k] += da * th[W2 + j * H + k];
            }
        }
        for (int k = 0; k < H; ++k) {
            float da = dh1[k] * cosf(a1[k]) * OMEGA;
            atomicAdd(&sg[W1 + 2 * k], da * x);
            atomicAdd(&sg[W1 + 2 * k + 1], da * y);
            atomicAdd(&sg[B1 + k], da);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < NPARAM; k += blockDim.x) atomicAdd(&grad[k], sg[k]);
}

__global__ void adam_step(float *th, float *grad, AdamState s, float inv_batch)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NPARAM) return;
    float g = grad[k] * inv_batch;
    grad[k] = 0.0f;
    float m = s.m[k] = s.beta1 * s.m[k] + (1 - s.beta1) * g;
    float v = s.v[k] = s.beta2 * s.v[k] + (1 - s.beta2) * g * g;
    m /= 1 - powf(s.beta1, s.t);
    v /= 1 - powf(s.beta2, s.t);
    th[k] -= s.lr * m / (sqrtf(v) + s.eps);
}

int main()
{
    std::vector<float> image(IMG * IMG), h(NPARAM);
    for (int y = 0; y < IMG; ++y)
        for (int x = 0; x < IMG; ++x) {
            float u = x / (float)IMG - 0.5f, v = y / (float)IMG - 0.5f;
            image[y * IMG + x] = 0.5f * sinf(12 * u) * cosf(9 * v) + (u * u + v * v < 0.06f ? 0.5f : 0.0f);
        }
    srand(21);
    auto uni = [](float a) { return a * (2.0f * rand() / RAND_MAX - 1); };
    for (int k = 0; k < NPARAM; ++k) h[k] = k < W2 ? uni(0.5f) : uni(sqrtf(6.0f / H));

    float *theta, *grad, *d_image, *d_target, *d_loss;
    float2 *d_xy;
    AdamState adam;
    cudaMalloc(&theta, NPARAM * 4 * sizeof(float));        // theta | grad | m | v
    grad = theta + NPARAM;
    adam.m = grad + NPARAM;
    adam.v = adam.m + NPARAM;
    cudaMemset(theta, 0, NPARAM * 4 * sizeof(float));
    cudaMemcpy(theta, h.data(), NPARAM * sizeof(float), cudaMemcpyHostToDevice);
    cudaMalloc(&d_image, IMG * IMG * sizeof(float));
    cudaMemcpy(d_image, image.data(), IMG * IMG * sizeof(float), cudaMemcpyHostToDevice);
    cudaMalloc(&d_xy, BATCH * sizeof(float2));
    cudaMalloc(&d_target, BATCH * sizeof(float));
    cudaMalloc(&d_loss, sizeof(float));
    cudaMemset(d_loss, 0, sizeof(float));

    for (int step = 1; step <= STEPS; ++step) {
        sample_pixels<<<BATCH / 64, 64>>>(step, BATCH, d_image, d_xy, d_target);
        train_pixels<<<BATCH / 64, 64>>>(theta, grad, d_xy, d_target, BATCH, d_loss);
        adam.t = step;
        adam_step<<<(NPARAM + 63) / 64, 64>>>(theta, grad, adam, 1.0f / BATCH);
        if (step % 15 == 0) {
            float loss;
            cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemset(d_loss, 0, sizeof(float));
            loss /= 15 * BATCH;
            printf("step %d  mse %.5f  psnr %.2f dB\n", step, loss, -10 * log10f(loss));
            adam.lr *= 0.93f;
        }
    }
    cudaFree(theta); cudaFree(d_image); cudaFree(d_xy); cudaFree(d_target); cudaFree(d_loss);
    return 0;
}
