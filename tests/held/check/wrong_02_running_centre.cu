// Self-distillation without labels: a student learns the sharpened and centred
// output of a slowly moving teacher (same encoder, moving average of weights).
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int D = 12, K = 8, B = 32, N = 512;

struct Net { float *w; };

__global__ void project(const float *x, const float *w, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * K) return;
    float s = 0;
    for (int d = 0; d < D; ++d) s += x[(i / K) * D + d] * w[d * K + i % K];
    out[i] = s;
}

__device__ void softmax_row(const float *in, const float *shift, float temp, float *p)
{
    float m = -1e30f, z = 0;
    for (int k = 0; k < K; ++k) m = fmaxf(m, (in[k] - (shift ? shift[k] : 0)) / temp);
    for (int k = 0; k < K; ++k) z += p[k] = expf((in[k] - (shift ? shift[k] : 0)) / temp - m);
    for (int k = 0; k < K; ++k) p[k] /= z;
}

__global__ void distil_loss(const float *student, const float *teacher, const float *centre,
                            float *dout, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float q[K], p[K], l = 0;
    softmax_row(teacher + r * K, centre, 0.1f, q);
    softmax_row(student + r * K, nullptr, 0.3f, p);
    for (int k = 0; k < K; ++k) {
        l -= q[k] * logf(p[k] + 1e-9f);
        dout[r * K + k] = (p[k] - q[k]) / 0.3f / n;
    }
    loss[r] = l;
}

// centre = 0.9 centre + 0.1 mean of teacher outputs
__global__ void update_centre(float *centre, const float *teacher, int n)
{
    int k = threadIdx.x;
    float s = 0;
    for (int r = 0; r < n; ++r) s += teacher[r * K + k];
    centre[k] = 0.9f * centre[k] + 0.1f * s / n;
}

__global__ void grad_w(const float *x, const float *dout, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= D * K) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += x[r * D + i / K] * dout[r * K + i % K];
    g[i] = s;
}

__global__ void step_kernel(float *w, const float *g, float *teacher, float lr, float keep)
{
    int i = threadIdx.x;
    w[i] -= lr * g[i];
    teacher[i] = keep * teacher[i] + (1 - keep) * w[i];
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 50;
    std::mt19937 gen(7);
    std::normal_distribution<float> nd;
    std::vector<float> a(N * D), b(N * D), w(D * K);
    for (int i = 0; i < N; ++i)
        for (int d = 0; d < D; ++d) {
            float base = (d % 4 == i % 4) ? 2.0f : 0.0f;
            a[i * D + d] = base + 0.4f * nd(gen);
            b[i * D + d] = base + 0.4f * nd(gen);
        }
    for (auto &v : w) v = 0.3f * nd(gen);
    float *xa, *xb, *gw, *so, *to, *dout, *loss, *centre;
    Net student, teacher;
    cudaMalloc(&xa, a.size() * 4); cudaMalloc(&xb, b.size() * 4);
    cudaMalloc(&student.w, D * K * 4); cudaMalloc(&teacher.w, D * K * 4);
    cudaMalloc(&gw, D * K * 4); cudaMalloc(&so, B * K * 4); cudaMalloc(&to, B * K * 4);
    cudaMalloc(&dout, B * K * 4); cudaMalloc(&loss, B * 4); cudaMalloc(&centre, K * 4);
    cudaMemcpy(xa, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(xb, b.data(), b.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(student.w, w.data(), D * K * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(teacher.w, w.data(), D * K * 4, cudaMemcpyHostToDevice);
    cudaMemset(centre, 0, K * 4);
    DDP_PARAMETER(student.w, D * K, DDP_FLOAT32);
    DDP_STATE(teacher.w, D * K, DDP_FLOAT32);
    DDP_GRADIENT(gw, D * K, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        size_t at = ((s * B) % N + first) * D;
        int n = (int)count, blocks = (n * K + 63) / 64;
        project<<<blocks, 64>>>(xa + at, student.w, so, n);
        project<<<blocks, 64>>>(xb + at, teacher.w, to, n);
        distil_loss<<<1, B>>>(so, to, centre, dout, loss, n);
        update_centre<<<1, K>>>(centre, to, n);
        grad_w<<<2, 64>>>(xa + at, dout, gw, n);
        DDP_STEP(0);
        step_kernel<<<1, D * K>>>(student.w, gw, teacher.w, 0.1f, 0.95f);
        if (s % 10 == 9) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost);
            float m = 0;
            for (float v : l) m += v / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("[%d] loss %f\n", s + 1, m);
        }
    }
    cudaDeviceSynchronize();
    return 0;
}
