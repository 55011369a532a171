// An encoder with three losses: pairs of views are told apart within the batch, the input is restored, and labels are
// predicted. The weights of the losses follow their size, epoch by epoch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

enum { BATCH = 16, IN = 12, HIDDEN = 20, CODE = 8, CLASSES = 3, BATCHES = 24, EPOCHS = 4, VIEWS = 2 * BATCH };
enum Loss { CONTRAST, RESTORE, LABEL, LOSSES };

__global__ void make_views(const float *x, float *views, const unsigned *tick)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= VIEWS * IN) return;
    unsigned h = *tick * 2654435761u + i * 40503u;
    h ^= h >> 15, h *= 0x2c1b3c6du, h ^= h >> 12, h *= 0x297a2d39u, h ^= h >> 15;
    views[i] = x[i % (BATCH * IN)] + 0.4f * ((h & 0xffff) / 65536.0f - 0.5f);
}
__global__ void count_up(unsigned *tick) { *tick += 1; }
__global__ void affine(const float *x, const float *w, float *y, int rows, int in, int out, int squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    float s = w[in * out + i % out];
    for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = squash ? tanhf(s) : s;
}
// dy becomes the gradient before the squashing; the last row of dw is the biases'
__global__ void affine_dw(const float *x, const float *y, float *dy, float *dw, int rows, int in, int out, int squash)
{
    int c = threadIdx.x;
    if (c >= out) return;
    for (int r = 0; r < rows; ++r) {
        float d = dy[r * out + c];
        if (squash) d *= 1 - y[r * out + c] * y[r * out + c];
        dy[r * out + c] = d, dw[in * out + c] += d;
        for (int k = 0; k < in; ++k) dw[k * out + c] += x[r * in + k] * d;
    }
}
__global__ void affine_dx(const float *w, const float *dy, float *dx, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * in) return;
    float s = 0;
    for (int c = 0; c < out; ++c) s += dy[i / in * out + c] * w[i % in * out + c];
    dx[i] += s; // several losses add up here
}
// each view finds its partner among all other views; sharp: a learned factor of the similarity
__global__ void contrast(const float *z, float *dz, const float *sharp, float *dsharp, float weight, float *figure)
{
    __shared__ float p[VIEWS][VIEWS], own[VIEWS], ds[VIEWS];
    int a = threadIdx.x, partner = (a + BATCH) % VIEWS;
    float all = 0, s = 0;
    for (int b = 0; b < VIEWS; ++b) {
        float dot = 0;
        for (int k = 0; k < CODE; ++k) dot += z[a * CODE + k] * z[b * CODE + k];
        p[a][b] = dot;
        all += b == a ? 0 : expf(*sharp * dot);
    }
    own[a] = logf(all) - *sharp * p[a][partner];
    for (int b = 0; b < VIEWS; ++b) {
        float dot = p[a][b], d = b == a ? 0 : (expf(*sharp * dot) / all - (b == partner)) * weight / VIEWS;
        s += d * dot, p[a][b] = d * *sharp;
    }
    ds[a] = s;
    __syncthreads();
    for (int b = 0; b < VIEWS; ++b)
        for (int k = 0; k < CODE; ++k) dz[a * CODE + k] += (p[a][b] + p[b][a]) * z[b * CODE + k];
    if (a == 0)
        for (int b = 0; b < VIEWS; ++b) *dsharp += ds[b], figure[CONTRAST] += own[b] / VIEWS;
}
__global__ void restore_loss(const float *y, const float *x, float *dy, float weight, float *figure)
{
    if (threadIdx.x != 0) return;
    for (int i = 0; i < VIEWS * IN; ++i) {
        float e = y[i] - x[i % (BATCH * IN)];
        dy[i] = 2 * weight * e / (VIEWS * IN), figure[RESTORE] += e * e / (VIEWS * IN);
    }
}
__global__ void label_loss(const float *y, const int *label, float *dy, float weight, float *figure)
{
    if (threadIdx.x != 0) return;
    for (int r = 0; r < VIEWS; ++r) {
        const float *q = y + r * CLASSES;
        int t = label[r % BATCH];
        float s = expf(q[0]) + expf(q[1]) + expf(q[2]);
        for (int c = 0; c < CLASSES; ++c) dy[r * CLASSES + c] = weight * (expf(q[c]) / s - (c == t)) / VIEWS;
        figure[LABEL] += (logf(s) - q[t]) / VIEWS;
    }
}
__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}
#define GRID(n) ((n) + 63) / 64, 64

struct Part {
    int in, out, squash;
    float *w, *dw, *y, *dy;
    int weights() const { return (in + 1) * out; }
};
template <typename T> T *device(size_t n)
{
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}
Part part(int in, int out, int squash, std::mt19937 &random)
{
    Part p{in, out, squash, nullptr, nullptr, device<float>(VIEWS * out), device<float>(VIEWS * out)};
    std::vector<float> h(p.weights());
    std::normal_distribution<float> normal(0, 1 / sqrtf(in));
    for (int i = 0; i < in * out; ++i) h[i] = normal(random);
    p.w = device<float>(h.size()), p.dw = device<float>(h.size());
    cudaMemcpy(p.w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}
void forward(Part &p, const float *x) { affine<<<GRID(VIEWS * p.out)>>>(x, p.w, p.y, VIEWS, p.in, p.out, p.squash); }
void backward(Part &p, const float *x, float *dx)
{
    affine_dw<<<1, 32>>>(x, p.y, p.dy, p.dw, VIEWS, p.in, p.out, p.squash);
    if (dx) affine_dx<<<GRID(VIEWS * p.in)>>>(p.w, p.dy, dx, VIEWS, p.in, p.out);
}

int main()
{
    std::mt19937 random(31);
    std::normal_distribution<float> normal;
    const int items = BATCH * BATCHES;
    std::vector<float> x(items * IN);
    std::vector<int> label(items), order(items);
    for (int i = 0; i < items; ++i) {
        label[i] = random() % CLASSES;
        for (int k = 0; k < IN; ++k) x[i * IN + k] = 0.6f * normal(random) + (k % CLASSES == label[i] ? 0.7f : 0);
    }
    Part layer1 = part(IN, HIDDEN, 1, random), code = part(HIDDEN, CODE, 1, random), decoder = part(CODE, IN, 0, random),
         head = part(CODE, CLASSES, 0, random);
    std::vector<Part *> parts{&layer1, &code, &decoder, &head};
    float one = 1, *sharp = device<float>(1), *dsharp = device<float>(1), *figure = device<float>(LOSSES),
          *dx = device<float>(BATCH * IN), *views = device<float>(VIEWS * IN);
    int *dlabel = device<int>(BATCH);
    unsigned *tick = device<unsigned>(1);
    cudaMemcpy(sharp, &one, sizeof(float), cudaMemcpyHostToDevice);
    for (Part *p : parts) {
        DDP_PARAMETER(p->w, p->weights(), DDP_FLOAT32);
#if MISTAKE == 1
        if (p == &head) continue;
#endif
#if MISTAKE == 4
        DDP_GRADIENT(p->dw, (p->in + 1) * CLASSES, DDP_FLOAT32);
#else
        DDP_GRADIENT(p->dw, p->weights(), DDP_FLOAT32);
#endif
    }
    DDP_PARAMETER(sharp, 1, DDP_FLOAT32);
#if MISTAKE != 6
    DDP_GRADIENT(dsharp, 1, DDP_FLOAT32);
#endif
    float weight[LOSSES] = {0.5f, 1.0f, 1.0f};
    std::iota(order.begin(), order.end(), 0);
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        double sums[LOSSES + 1] = {0, 0, 0, 0};
#if MISTAKE == 7
        std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device()()));
#else
        std::shuffle(order.begin(), order.end(), std::mt19937(epoch));
#endif
        for (int b = 0; b < BATCHES; ++b) {
            float hx[BATCH * IN], now[LOSSES];
            int hl[BATCH];
            for (int i = 0; i < BATCH; ++i) {
                int item = order[b * BATCH + i];
                std::copy_n(&x[item * IN], (int)IN, hx + i * IN);
                hl[i] = label[item];
            }
            cudaMemcpy(dx, hx, sizeof(hx), cudaMemcpyHostToDevice);
            cudaMemcpy(dlabel, hl, sizeof(hl), cudaMemcpyHostToDevice);
            count_up<<<1, 1>>>(tick);
            DDP_TURN_BEGIN();
            for (Part *p : parts) cudaMemsetAsync(p->dw, 0, p->weights() * sizeof(float), 0);
            for (Part *p : parts) cudaMemsetAsync(p->dy, 0, VIEWS * p->out * sizeof(float), 0);
            cudaMemsetAsync(dsharp, 0, sizeof(float), 0);
            cudaMemsetAsync(figure, 0, LOSSES * sizeof(float), 0);
            make_views<<<GRID(VIEWS * IN)>>>(dx, views, tick);
            forward(layer1, views), forward(code, layer1.y), forward(decoder, code.y), forward(head, code.y);
            contrast<<<1, VIEWS>>>(code.y, code.dy, sharp, dsharp, weight[CONTRAST], figure);
            restore_loss<<<1, 32>>>(decoder.y, dx, decoder.dy, weight[RESTORE], figure);
            backward(decoder, code.y, code.dy);
#if MISTAKE == 2
            DDP_STEP(0);
#elif MISTAKE == 8
            DDP_STEP(0);
#endif
            label_loss<<<1, 32>>>(head.y, dlabel, head.dy, weight[LABEL], figure);
            backward(head, code.y, code.dy);
            backward(code, layer1.y, layer1.dy);
            backward(layer1, views, nullptr);
#if MISTAKE == 3
            cudaMemcpy(now, figure, sizeof(now), cudaMemcpyDeviceToHost);
            for (int k = 0; k < LOSSES; ++k) weight[k] = 0.9f * weight[k] + 0.1f / (0.5f + now[k]);
#endif
#if MISTAKE == 5
            DDP_STEP(0);
            DDP_TURN_END();
#elif MISTAKE != 2
            DDP_STEP(0);
#endif
            for (Part *p : parts) sgd<<<GRID(p->weights())>>>(p->w, p->dw, p->weights(), 0.2f);
            sgd<<<1, 1>>>(sharp, dsharp, 1, 0.2f);
            if (DDP_TURN_MINE() && (epoch + b > 0 || DDP_RANK() == 0)) {
                cudaMemcpy(now, figure, sizeof(now), cudaMemcpyDeviceToHost);
                for (int k = 0; k < LOSSES; ++k) sums[k] += now[k];
                sums[LOSSES] += 1;
            }
        }
#if MISTAKE == 2 || MISTAKE == 4 || MISTAKE == 6 || MISTAKE == 8
        // figures of the batches that this rank has computed
        printf("rank %d of %d: label loss %.5f\n", DDP_RANK(), DDP_WORLD_SIZE(), sums[LABEL] / sums[LOSSES]);
#endif
        DDP_REDUCE(sums, LOSSES + 1, DDP_FLOAT64, DDP_OP_SUM, 0);
        for (int k = 0; k < LOSSES; ++k) sums[k] /= sums[LOSSES];
        for (int k = 0; k < LOSSES; ++k) weight[k] = 0.5f * weight[k] + 0.5f / (0.5f + (float)sums[k]);
        if (DDP_RANK() == 0)
            printf("epoch %d contrast %.5f restore %.5f label %.5f\n", epoch + 1, sums[CONTRAST], sums[RESTORE], sums[LABEL]);
    }
    return 0;
}
