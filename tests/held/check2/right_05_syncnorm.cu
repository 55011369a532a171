// A layer, batch normalisation, ReLU, a linear output. The normalisation's statistics are those of the whole batch,
// whatever the number of ranks: the sums of values and squares are added up over the ranks before they are used, and in
// backward the two sums of the normalisation's gradient, too.
//
// Why it equals one process: mean and variance have the same value everywhere. A rank's slopes are those of its own mean
// loss, `ranks` times one process's, and so are the two sums of backward; the gradient of the first layer is linear in
// slopes and sums, the rows of all ranks together are the batch, and DDP_STEP's mean divides by `ranks` again.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

constexpr int X = 7, F = 10, BATCH = 32, SETS = 4, STEPS = 16;

struct Model { // also its gradient
    float w[X][F], gamma[F], beta[F], out[F], offset;
};
struct Sums { float a[F], b[F]; };
struct Row { float x[X], y; };

__global__ void linear(const Model *m, const Row *rows, float (*h)[F])
{
    float s = 0.0f;
    for (int i = 0; i < X; ++i)
        s += rows[blockIdx.x].x[i] * m->w[i][threadIdx.x];
    h[blockIdx.x][threadIdx.x] = s;
}

__global__ void statistics(Sums *sums, const float (*h)[F], int n)
{
    int f = threadIdx.x;
    float s = 0.0f, q = 0.0f;
    for (int r = 0; r < n; ++r)
        s += h[r][f], q += h[r][f] * h[r][f];
    sums->a[f] = s;
    sums->b[f] = q;
}

// Turns h into normalised values; writes 1 / deviation.
__global__ void normalise(float (*h)[F], float *inv, const Sums *sums, float total)
{
    int f = threadIdx.x;
    float mean = sums->a[f] / total, is = rsqrtf(sums->b[f] / total - mean * mean + 1e-3f);
    h[blockIdx.x][f] = (h[blockIdx.x][f] - mean) * is;
    if (blockIdx.x == 0) inv[f] = is;
}

__global__ void head(const Model *m, const Row *rows, const float (*h)[F], float *slope, float *loss, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float p = m->offset;
    for (int f = 0; f < F; ++f)
        p += m->out[f] * fmaxf(m->gamma[f] * h[r][f] + m->beta[f], 0.0f);
    float e = p - rows[r].y;
    loss[r] = e * e;
    slope[r] = 2.0f * e / n;
}

// Gradients of everything after the normalisation, and the sums that the normalisation's own backward needs.
__global__ void head_backward(Model *g, Sums *sums, const Model *m, const float (*h)[F], const float *slope, float (*dh)[F], int n)
{
    int f = threadIdx.x;
    float dgamma = 0.0f, dbeta = 0.0f, dout = 0.0f, doffset = 0.0f;
    for (int r = 0; r < n; ++r) {
        float z = m->gamma[f] * h[r][f] + m->beta[f], dz = z > 0.0f ? slope[r] * m->out[f] : 0.0f;
        dout += slope[r] * fmaxf(z, 0.0f);
        dgamma += dz * h[r][f];
        dbeta += dz;
        doffset += slope[r];
        dh[r][f] = dz * m->gamma[f];
    }
    g->gamma[f] = dgamma;
    g->beta[f] = dbeta;
    g->out[f] = dout;
    if (f == 0) g->offset = doffset;
    sums->a[f] = dbeta * m->gamma[f];
    sums->b[f] = dgamma * m->gamma[f];
}

__global__ void norm_backward(Model *g, const Row *rows, const Sums *sums, const float *inv, const float (*h)[F],
                              const float (*dh)[F], int n, float total)
{
    int f = threadIdx.x;
    for (int i = 0; i < X; ++i) {
        float s = 0.0f;
        for (int r = 0; r < n; ++r)
            s += (dh[r][f] - sums->a[f] / total - h[r][f] * sums->b[f] / total) * inv[f] * rows[r].x[i];
        g->w[i][f] = s;
    }
}

__global__ void sgd(float *w, const float *g, float rate) { w[threadIdx.x] -= rate * g[threadIdx.x]; }
template <class T> T *device(int n, const T *from = nullptr)
{
    T *p = nullptr;
    cudaError_t e = cudaMalloc(&p, n * sizeof(T));
    if (e == cudaSuccess)
        e = from ? cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice) : cudaMemset(p, 0, n * sizeof(T));
    if (e != cudaSuccess)
        std::exit((std::perror("syncnorm"), 1));
    return p;
}

int main()
{
    static Row data[BATCH * SETS];
    Model init;
    unsigned s = 11;
    auto rnd = [&s] { return ((s = s * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f; };
    for (Row &r : data) {
        for (float &x : r.x) x = rnd() + 0.5f;
        r.y = std::fabs(r.x[0] + r.x[1]) - r.x[2];
    }
    float *flat = &init.w[0][0];
    constexpr int P = sizeof(Model) / sizeof(float);
    for (int i = 0; i < P; ++i) flat[i] = 0.5f * rnd();
    std::fill(init.gamma, init.gamma + F, 1.0f);

    Model *m = device(1, &init), *g = device<Model>(1);
    Sums *sums = device<Sums>(1), *back = device<Sums>(1);
    Row *rows = device<Row>(BATCH);
    auto *h = device<float[F]>(BATCH), *dh = device<float[F]>(BATCH);
    float *inv = device<float>(F), *slope = device<float>(BATCH), *loss = device<float>(BATCH), host[BATCH];
    DDP_PARAMETER(m, P, DDP_FLOAT32);
    DDP_GRADIENT(g, P, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0, n = int(count); step < STEPS; ++step) {
        cudaMemcpy(rows, data + step % SETS * BATCH + first, n * sizeof(Row), cudaMemcpyHostToDevice);
        linear<<<n, F>>>(m, rows, h);
        statistics<<<1, F>>>(sums, h, n);
        DDP_REDUCE(sums, 2 * F, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<n, F>>>(h, inv, sums, BATCH);
        head<<<1, BATCH>>>(m, rows, h, slope, loss, n);
        head_backward<<<1, F>>>(g, back, m, h, slope, dh, n);
        DDP_REDUCE(back, 2 * F, DDP_FLOAT32, DDP_OP_SUM, 0);
        norm_backward<<<1, F>>>(g, rows, back, inv, h, dh, n, BATCH);
        DDP_STEP(0);
        sgd<<<1, P>>>(&m->w[0][0], &g->w[0][0], 0.08f);
        cudaMemcpy(host, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
        float mean = 0.0f;
        for (int r = 0; r < n; ++r) mean += host[r] / n;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0) std::printf("step %d: %.5f\n", step, mean);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
