// A small GAN: points on a ring. Two networks, two optimizers (RMSprop).
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define BATCH 48
#define ZDIM 4
#define HID 24
#define LRELU 0.2f
#define CK(call) do { if ((call) != cudaSuccess) { fprintf(stderr, "failed: %s (line %d)\n", #call, __LINE__); exit(2); } } while (0)

struct Tensor {
    float *value, *grad, *square;
    int n;
};

struct Net { // in -> HID -> out
    int in, out;
    Tensor w1, b1, w2, b2;
    float *x, *h, *y, *dy, *dh, *dx;
};

static unsigned seed = 12345u;
static float uniform() { seed = seed * 1103515245u + 12345u; return (seed >> 9) / 8388608.0f; }
static float hashed(unsigned a)
{
    a ^= a >> 16; a *= 0x7feb352du; a ^= a >> 15; a *= 0x846ca68bu; a ^= a >> 16;
    return (a >> 8) / 16777216.0f;
}

static Tensor make_tensor(int n, float scale)
{
    Tensor t;
    t.n = n;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i)
        host[i] = scale * (2 * uniform() - 1);
    CK(cudaMalloc(&t.value, n * 4));
    CK(cudaMalloc(&t.grad, n * 4));
    CK(cudaMalloc(&t.square, n * 4));
    CK(cudaMemset(t.square, 0, n * 4));
    CK(cudaMemset(t.grad, 0, n * 4));
    CK(cudaMemcpy(t.value, host.data(), n * 4, cudaMemcpyHostToDevice));
    return t;
}

static Net make_net(int in, int out)
{
    Net m;
    m.in = in; m.out = out;
    m.w1 = make_tensor(in * HID, 0.7f); m.b1 = make_tensor(HID, 0.1f);
    m.w2 = make_tensor(HID * out, 0.5f); m.b2 = make_tensor(out, 0.0f);
    CK(cudaMalloc(&m.x, 2 * BATCH * in * 4)); CK(cudaMalloc(&m.dx, 2 * BATCH * in * 4));
    CK(cudaMalloc(&m.h, 2 * BATCH * HID * 4)); CK(cudaMalloc(&m.dh, 2 * BATCH * HID * 4));
    CK(cudaMalloc(&m.y, 2 * BATCH * out * 4)); CK(cudaMalloc(&m.dy, 2 * BATCH * out * 4));
    return m;
}

__global__ void linear(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, int act)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * out) return;
    int r = id / out, c = id % out;
    float s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + c];
    y[id] = act && s < 0 ? LRELU * s : s;
}

__global__ void linear_dw(const float *x, const float *dy, float *dw, float *db, int rows, int in, int out)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= (in + 1) * out) return;
    int k = id / out, c = id % out;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += (k < in ? x[r * in + k] : 1.0f) * dy[r * out + c];
    if (k < in) dw[k * out + c] = s; else db[c] = s;
}

__global__ void linear_dx(const float *dy, const float *w, const float *h, float *dx, int rows, int in, int out)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * in) return;
    int r = id / in, k = id % in;
    float s = 0;
    for (int c = 0; c < out; ++c) s += dy[r * out + c] * w[k * out + c];
    dx[id] = h && h[id] < 0 ? LRELU * s : s;
}

// binary cross entropy; the first `ones` rows have label 1
__global__ void bce(const float *y, float *dy, int rows, int ones, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) dy[r] = scale * (1.0f / (1.0f + expf(-y[r])) - (r < ones ? 1.0f : 0.0f));
}

__global__ void rmsprop(float *w, const float *g, float *sq, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    sq[i] = 0.9f * sq[i] + 0.1f * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(sq[i]) + 0.03f);
}

static void forward(Net &m, int rows)
{
    linear<<<(rows * HID + 127) / 128, 128>>>(m.x, m.w1.value, m.b1.value, m.h, rows, m.in, HID, 1);
    linear<<<(rows * m.out + 127) / 128, 128>>>(m.h, m.w2.value, m.b2.value, m.y, rows, HID, m.out, 0);
}

static void backward(Net &m, int rows, bool weights)
{
    linear_dx<<<(rows * HID + 127) / 128, 128>>>(m.dy, m.w2.value, m.h, m.dh, rows, HID, m.out);
    linear_dx<<<(rows * m.in + 127) / 128, 128>>>(m.dh, m.w1.value, nullptr, m.dx, rows, m.in, HID);
    if (!weights) return;
    linear_dw<<<((HID + 1) * m.out + 127) / 128, 128>>>(m.h, m.dy, m.w2.grad, m.b2.grad, rows, HID, m.out);
    linear_dw<<<((m.in + 1) * HID + 127) / 128, 128>>>(m.x, m.dh, m.w1.grad, m.b1.grad, rows, m.in, HID);
}

static void update(Net &m, float lr)
{
    Tensor *all[] = {&m.w1, &m.b1, &m.w2, &m.b2};
    for (Tensor *t : all) rmsprop<<<(t->n + 127) / 128, 128>>>(t->value, t->grad, t->square, t->n, lr);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 80;
    Net gen = make_net(ZDIM, 2), dis = make_net(2, 1);
    Tensor *params[] = {&gen.w1, &gen.b1, &gen.w2, &gen.b2, &dis.w1, &dis.b1, &dis.w2, &dis.b2};
    for (Tensor *t : params) DDP_PARAMETER(t->value, t->n, DDP_FLOAT32);
    DDP_GRADIENT(gen.w1.grad, gen.w1.n, DDP_FLOAT32);
    DDP_GRADIENT(gen.w2.grad, gen.w2.n, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_GRADIENT(dis.w1.grad, dis.w1.n, DDP_FLOAT32);
    DDP_GRADIENT(dis.w2.grad, dis.w2.n, DDP_FLOAT32);
    DDP_GRADIENT(dis.b1.grad, dis.b1.n, DDP_FLOAT32);
    DDP_GRADIENT(dis.b2.grad, dis.b2.n, DDP_FLOAT32);
    DDP_GRADIENT(gen.b1.grad, gen.b1.n, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(0);
    DDP_GRADIENT(gen.b2.grad, gen.b2.n, DDP_FLOAT32);

    std::vector<float> z(BATCH * ZDIM), real(BATCH * 2), fake(BATCH * 2);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        for (int i = 0; i < n; ++i) {
            unsigned item = (unsigned)(step * BATCH + first + i) * 16u;
            for (int k = 0; k < ZDIM; ++k) z[i * ZDIM + k] = 2 * hashed(item + k) - 1;
            float angle = 6.2831853f * hashed(item + 8), radius = 1.5f + 0.1f * hashed(item + 9);
            real[2 * i] = 1 + radius * cosf(angle);
            real[2 * i + 1] = radius * sinf(angle) - 1;
        }
        CK(cudaMemcpy(gen.x, z.data(), n * ZDIM * 4, cudaMemcpyHostToDevice));
        forward(gen, n);
        // critic: real rows first, then generated rows
        CK(cudaMemcpy(dis.x, real.data(), n * 8, cudaMemcpyHostToDevice));
        CK(cudaMemcpy(dis.x + 2 * n, gen.y, n * 8, cudaMemcpyDeviceToDevice));
        forward(dis, 2 * n);
        bce<<<2, BATCH>>>(dis.y, dis.dy, 2 * n, n, 0.5f / n);
        backward(dis, 2 * n, true);
        DDP_STEP_GROUP(1, 0);
        update(dis, 0.02f);
        // generator
        CK(cudaMemcpy(dis.x, gen.y, n * 8, cudaMemcpyDeviceToDevice));
        forward(dis, n);
        bce<<<1, BATCH>>>(dis.y, dis.dy, n, n, 1.0f / n);
        backward(dis, n, false);
        CK(cudaMemcpy(gen.dy, dis.dx, n * 8, cudaMemcpyDeviceToDevice));
        backward(gen, n, true);
        DDP_STEP_GROUP(0, 0);
        update(gen, 0.02f);
        if (step % 10 == 0 || step == steps - 1) {
            float mx = 0, my = 0;
            CK(cudaMemcpy(fake.data(), gen.y, n * 8, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i) mx += fake[2 * i] / n, my += fake[2 * i + 1] / n;
            DDP_MEAN(&mx);
            DDP_MEAN(&my);
            if (DDP_RANK() == 0) printf("step %d: distance of the means %.4f\n", step, hypotf(mx - 1, my + 1));
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (Tensor *t : params) {
            std::vector<float> host(t->n);
            CK(cudaMemcpy(host.data(), t->value, t->n * 4, cudaMemcpyDeviceToHost));
            fwrite(host.data(), 4, t->n, f);
        }
        fclose(f);
    }
    return 0;
}
