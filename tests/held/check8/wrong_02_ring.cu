// A small GAN that learns a ring of eight Gaussian blobs. Two optimizers: one for the critic, one for the generator.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

namespace {

constexpr int LATENT = 4, WIDE = 24, POINT = 2, BATCH = 64, STEPS = 60;
constexpr float RATE_D = 0.25f, RATE_G = 0.15f;

void must(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        std::exit(2);
    }
}

// Counter based generator: the same on host and device.
__host__ __device__ inline unsigned mix(unsigned a, unsigned b)
{
    unsigned x = a * 0x9E3779B1u ^ (b + 0x7F4A7C15u) * 0x85EBCA6Bu;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    x *= 0x297A2D39u;
    return x ^ (x >> 15);
}
__host__ __device__ inline float unit(unsigned a, unsigned b) { return (mix(a, b) >> 8) * (1.0f / 16777216.0f); }
__host__ __device__ inline float bell(unsigned a, unsigned b)
{
    return unit(a, 3 * b) + unit(a, 3 * b + 1) + unit(a, 3 * b + 2) - 1.5f;
}

float *device_floats(size_t n)
{
    float *p;
    must(cudaMalloc(&p, n * sizeof(float)), "cudaMalloc");
    must(cudaMemset(p, 0, n * sizeof(float)), "cudaMemset");
    return p;
}

// A learnable array with its gradient.
struct Learnable {
    float *v, *g;
    int n;
    Learnable(int count, float scale, unsigned seed) : v(device_floats(count)), g(device_floats(count)), n(count)
    {
        std::vector<float> init(n);
        for (int i = 0; i < n; ++i)
            init[i] = scale * bell(seed, i);
        must(cudaMemcpy(v, init.data(), n * sizeof(float), cudaMemcpyHostToDevice), "upload");
        DDP_PARAMETER(v, n, DDP_FLOAT32);
        DDP_GRADIENT(g, n, DDP_FLOAT32);
    }
};

__global__ void draw_latent(float *z, unsigned step, int first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * LATENT)
        z[i] = 2.0f * bell(1000 + step, first * LATENT + i);
}

__global__ void draw_real(float *x, unsigned step, int first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float a = 0.78539816f * (mix(500000 + step, first + i) & 7);
    x[2 * i] = 1.5f * cosf(a) + 0.1f * bell(600000 + step, 2 * (first + i)) + 0.8f;
    x[2 * i + 1] = 1.5f * sinf(a) + 0.1f * bell(600000 + step, 2 * (first + i) + 1) - 0.5f;
}

// out[r, o] = act(sum_k in[r, k] w[k, o] + b[o]); act: 0 none, 1 tanh
__global__ void dense(const float *in, const float *w, const float *b, float *out, int rows, int ni, int no, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * no)
        return;
    int r = i / no, o = i % no;
    float s = b ? b[o] : 0.0f;
    for (int k = 0; k < ni; ++k)
        s += in[r * ni + k] * w[k * no + o];
    out[i] = act ? tanhf(s) : s;
}

__global__ void dense_grad(const float *in, const float *dout, float *dw, float *db, int rows, int ni, int no, int add)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ni * no) {
        int k = i / no, o = i % no;
        float s = add ? dw[i] : 0.0f;
        for (int r = 0; r < rows; ++r)
            s += in[r * ni + k] * dout[r * no + o];
        dw[i] = s;
    }
    if (db && i < no) {
        float s = add ? db[i] : 0.0f;
        for (int r = 0; r < rows; ++r)
            s += dout[r * no + i];
        db[i] = s;
    }
}

// din = (dout w^T) * (1 - in^2) where `in` came out of tanh
__global__ void dense_input(const float *dout, const float *w, const float *in, float *din, int rows, int ni, int no,
                            int through_tanh)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * ni)
        return;
    int r = i / ni, k = i % ni;
    float s = 0.0f;
    for (int o = 0; o < no; ++o)
        s += dout[r * no + o] * w[k * no + o];
    din[i] = through_tanh ? s * (1.0f - in[i] * in[i]) : s;
}

// loss softplus(-logit) for target 1 and softplus(logit) for target 0
__global__ void logistic(const float *logit, float *dlogit, float *loss, int rows, float target)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float p = 1.0f / (1.0f + expf(-logit[r]));
    dlogit[r] = (p - target) / rows;
    loss[r] = -(target * logf(p + 1e-7f) + (1.0f - target) * logf(1.0f - p + 1e-7f));
}

__global__ void descend(float *w, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

inline dim3 grid(int n) { return dim3((n + 63) / 64); }

struct Critic {
    Learnable w1{POINT * WIDE, 1.0f, 11}, b1{WIDE, 0.2f, 12}, w2{WIDE, 0.5f, 13}, b2{1, 0.0f, 14};
    float *h = device_floats(BATCH * WIDE), *logit = device_floats(BATCH), *dlogit = device_floats(BATCH),
          *dh = device_floats(BATCH * WIDE), *dx = device_floats(BATCH * POINT), *loss = device_floats(BATCH);

    void forward(const float *x, int n, float target)
    {
        dense<<<grid(n * WIDE), 64>>>(x, w1.v, b1.v, h, n, POINT, WIDE, 1);
        dense<<<grid(n), 64>>>(h, w2.v, b2.v, logit, n, WIDE, 1, 0);
        logistic<<<grid(n), 64>>>(logit, dlogit, loss, n, target);
        dense_input<<<grid(n * WIDE), 64>>>(dlogit, w2.v, h, dh, n, WIDE, 1, 1);
    }
    void weights_grad(const float *x, int n, int add)
    {
        dense_grad<<<grid(WIDE), 64>>>(h, dlogit, w2.g, b2.g, n, WIDE, 1, add);
        dense_grad<<<grid(POINT * WIDE), 64>>>(x, dh, w1.g, b1.g, n, POINT, WIDE, add);
    }
};

struct Generator {
    Learnable &w2, &shift; // the output layer
    Learnable w1{LATENT * WIDE, 0.8f, 21}, b1{WIDE, 0.1f, 22};
    float *z = device_floats(BATCH * LATENT), *h = device_floats(BATCH * WIDE), *x = device_floats(BATCH * POINT),
          *dh = device_floats(BATCH * WIDE);

    Generator(Learnable &output_weight, Learnable &output_shift) : w2(output_weight), shift(output_shift) {}
    void forward(unsigned step, int first, int n)
    {
        draw_latent<<<grid(n * LATENT), 64>>>(z, step, first, n);
        dense<<<grid(n * WIDE), 64>>>(z, w1.v, b1.v, h, n, LATENT, WIDE, 1);
        dense<<<grid(n * POINT), 64>>>(h, w2.v, shift.v, x, n, WIDE, POINT, 0);
    }
    void backward(const float *dx, int n)
    {
        dense_grad<<<grid(WIDE * POINT), 64>>>(h, dx, w2.g, shift.g, n, WIDE, POINT, 0);
        dense_input<<<grid(n * WIDE), 64>>>(dx, w2.v, h, dh, n, WIDE, POINT, 1);
        dense_grad<<<grid(LATENT * WIDE), 64>>>(z, dh, w1.g, b1.g, n, LATENT, WIDE, 0);
    }
};

float average(const float *d, int n)
{
    std::vector<float> v(n);
    must(cudaMemcpy(v.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost), "download");
    float s = 0.0f;
    for (float x : v)
        s += x;
    return s / n;
}

} // namespace

int main(int argc, char **argv)
{
    Critic critic;
    Learnable out_weight(WIDE * POINT, 0.3f, 23), out_shift(POINT, 0.0f, 20);
    DDP_GRADIENT_GROUP(1);
    Generator gen(out_weight, out_shift);
    float *real = device_floats(BATCH * POINT);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int at = (int)first, n = (int)count;

        draw_real<<<grid(n), 64>>>(real, step, at, n);
        critic.forward(real, n, 1.0f);
        critic.weights_grad(real, n, 0);
        gen.forward(2 * step, at, n);
        critic.forward(gen.x, n, 0.0f);
        critic.weights_grad(gen.x, n, 1);
        float fake_loss = average(critic.loss, n);
        DDP_STEP_GROUP(0, 0);
        for (Learnable *p : {&critic.w1, &critic.b1, &critic.w2, &critic.b2})
            descend<<<grid(p->n), 64>>>(p->v, p->g, RATE_D, p->n);

        gen.forward(2 * step + 1, at, n);
        critic.forward(gen.x, n, 1.0f);
        dense_input<<<grid(n * POINT), 64>>>(critic.dh, critic.w1.v, nullptr, critic.dx, n, POINT, WIDE, 0);
        gen.backward(critic.dx, n);
        DDP_STEP_GROUP(1, 0);
        for (Learnable *p : {&gen.w1, &gen.b1, &out_weight, &out_shift})
            descend<<<grid(p->n), 64>>>(p->v, p->g, RATE_G, p->n);

        if (step % 12 == 0 || step + 1 == STEPS) {
            float g_loss = average(critic.loss, n);
            DDP_MEAN(&fake_loss);
            DDP_MEAN(&g_loss);
            if (DDP_RANK() == 0)
                std::printf("step %2d critic %.4f generator %.4f\n", step, fake_loss, g_loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        std::FILE *f = std::fopen(argv[1], "wb");
        for (Learnable *p : {&critic.w1, &critic.b1, &critic.w2, &critic.b2, &gen.w1, &gen.b1, &out_weight, &out_shift}) {
            std::vector<float> v(p->n);
            must(cudaMemcpy(v.data(), p->v, p->n * sizeof(float), cudaMemcpyDeviceToHost), "save");
            std::fwrite(v.data(), sizeof(float), v.size(), f);
        }
        std::fclose(f);
    }
    return 0;
}
