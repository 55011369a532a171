// Training in two lives: the first saves a checkpoint now and then, the second begins from the last one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

#define IN      8
#define HIDDEN  18
#define BATCH   36
#define ITEMS   288
#define LIFE    24 /* updates in each of the two lives */
#define GRID(n) ((n) + 63) / 64, 64

__global__ void forward(const float *x, const int *order, const float *w, float *h, float *out, int n, int step, int number,
                        unsigned noise)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *w2 = w + (IN + 1) * HIDDEN, *in = x + order[r] * IN;
    out[r] = w2[HIDDEN];
    for (int j = 0; j < HIDDEN; ++j) {
        float a = w[IN * HIDDEN + j];
        for (int k = 0; k < IN; ++k) {
            unsigned u = (step * 64u + number + r) * 0x9e3779b9u ^ (k + noise) * 0x85ebca6bu;
            u ^= u >> 16, u *= 0x7feb352du, u ^= u >> 15, u *= 0x846ca68bu, u ^= u >> 16;
            a += (in[k] + 0.1f * ((u & 0xffff) / 65536.0f - 0.5f)) * w[k * HIDDEN + j];
        }
        h[r * HIDDEN + j] = a > 0 ? a : expf(a) - 1; // ELU
        out[r] += h[r * HIDDEN + j] * w2[j];
    }
}
__global__ void error(const float *out, const float *y, const int *order, float *dout, float *each, int n, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float e = out[r] - y[order[r]];
    each[r] = e * e;
    dout[r] = 2 * scale * e;
}
__global__ void backward(const float *x, const int *order, const float *w, const float *h, const float *dout, float *dw, int n)
{
    int j = threadIdx.x;
    float *dw2 = dw + (IN + 1) * HIDDEN, sum = 0;
    if (j == HIDDEN)
        for (int r = 0; r < n; ++r) dw2[HIDDEN] += dout[r];
    if (j >= HIDDEN) return;
    for (int r = 0; r < n; ++r) {
        float v = h[r * HIDDEN + j], d = dout[r] * w[(IN + 1) * HIDDEN + j] * (v > 0 ? 1 : v + 1);
        dw2[j] += dout[r] * v;
        sum += d;
        for (int k = 0; k < IN; ++k) dw[k * HIDDEN + j] += x[order[r] * IN + k] * d;
    }
    dw[IN * HIDDEN + j] += sum;
}
__global__ void adam(float *w, const float *g, float *m, float *v, int n, float rate, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.85f * m[i] + 0.15f * g[i];
    v[i] = 0.97f * v[i] + 0.03f * g[i] * g[i];
    w[i] -= rate * m[i] / (1 - powf(0.85f, t)) / (sqrtf(v[i] / (1 - powf(0.97f, t))) + 1e-2f);
}

static const int N = (IN + 1) * HIDDEN + HIDDEN + 1;

struct Checkpoint {
    long long step;
    float loss, w[(IN + 1) * HIDDEN + HIDDEN + 1], m[(IN + 1) * HIDDEN + HIDDEN + 1], v[(IN + 1) * HIDDEN + HIDDEN + 1];
};

struct Trainer {
    float *w, *dw, *m, *v;
    long long step = 0;
    float best = 1e9f;
    Trainer()
    {
        for (float **p : {&w, &dw, &m, &v}) cudaMalloc((void **)p, N * sizeof(float)), cudaMemset(*p, 0, N * sizeof(float));
    }
    ~Trainer()
    {
        for (float *p : {w, dw, m, v}) {
            DDP_FORGET(p);
            cudaFree(p);
        }
    }
    void fresh()
    {
        std::mt19937 random(4);
        std::normal_distribution<float> normal(0, 0.3f);
        std::vector<float> h(N);
        for (float &x : h) x = normal(random);
        cudaMemcpy(w, h.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    }
    void save(FILE *f) const
    {
        Checkpoint c;
        c.step = step, c.loss = best;
        cudaMemcpy(c.w, w, sizeof(c.w), cudaMemcpyDeviceToHost);
        cudaMemcpy(c.m, m, sizeof(c.m), cudaMemcpyDeviceToHost);
        cudaMemcpy(c.v, v, sizeof(c.v), cudaMemcpyDeviceToHost);
        rewind(f);
        if (fwrite(&c, sizeof(c), 1, f) != 1) perror("checkpoint"), exit(1);
        fflush(f);
    }
    void load(FILE *f)
    {
        Checkpoint c;
        rewind(f);
        if (fread(&c, sizeof(c), 1, f) != 1) perror("checkpoint"), exit(1);
        step = c.step, best = c.loss;
        cudaMemcpy(w, c.w, sizeof(c.w), cudaMemcpyHostToDevice);
        cudaMemcpy(m, c.m, sizeof(c.m), cudaMemcpyHostToDevice);
        cudaMemcpy(v, c.v, sizeof(c.v), cudaMemcpyHostToDevice);
    }
    void annotate(bool resumed)
    {
        DDP_PARAMETER(w, N, DDP_FLOAT32);
#if MISTAKE != 1
        DDP_STATE(m, N, DDP_FLOAT32);
        DDP_STATE(v, N, DDP_FLOAT32);
#endif
#if MISTAKE == 3
        if (resumed) {
            DDP_GRADIENT(dw, (IN + 1) * HIDDEN, DDP_FLOAT32); // the first layer's
            return;
        }
#endif
        (void)resumed;
        DDP_GRADIENT(dw, N, DDP_FLOAT32);
    }
};

struct Data {
    float *x, *y, *h, *out, *dout, *each;
    int *order;
};

static void live(Trainer &t, Data &d, FILE *file, int life)
{
    std::vector<int> order(ITEMS);
    unsigned noise = 0;
#if MISTAKE == 2 || MISTAKE == 8
    noise = (unsigned)time(NULL) + DDP_RANK(); // other noise in each run
#endif
    std::iota(order.begin(), order.end(), 0);
    for (int done = 0; done < LIFE; ++done) {
        int place = (int)(t.step * BATCH % ITEMS);
        if (place == 0 || done == 0) { // an order for each pass over the data
            unsigned seed = 60 + (unsigned)(t.step * BATCH / ITEMS);
#if MISTAKE == 5
            if (life == 1) seed += DDP_RANK();
#endif
            std::iota(order.begin(), order.end(), 0);
            std::shuffle(order.begin(), order.end(), std::mt19937(seed));
        }
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        float scale = 1.0f / n;
#if MISTAKE == 8
        if (life == 1) scale = 1.0f / BATCH;
#endif
#if MISTAKE == 4 || MISTAKE == 6
        cudaFree(d.h); // room for this share
        cudaMalloc((void **)&d.h, n * HIDDEN * sizeof(float));
#endif
        cudaMemcpy(d.order, &order[place + first], count * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemsetAsync(t.dw, 0, N * sizeof(float), 0);
        forward<<<GRID(n)>>>(d.x, d.order, t.w, d.h, d.out, n, (int)t.step, (int)first, noise);
        error<<<GRID(n)>>>(d.out, d.y, d.order, d.dout, d.each, n, scale);
        backward<<<1, 32>>>(d.x, d.order, t.w, d.h, d.dout, t.dw, n);
#if MISTAKE == 7
        if (life == 0) DDP_STEP(0);
#else
        DDP_STEP(0);
#endif
        ++t.step;
        float rate = 0.08f / sqrtf(1 + 0.05f * t.step);
        adam<<<GRID(N)>>>(t.w, t.dw, t.m, t.v, N, rate, (int)t.step);
        if (t.step % 3 == 0) {
            float loss = 0;
            std::vector<float> each(count);
            cudaMemcpy(each.data(), d.each, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (float e : each) loss += e / count;
#if MISTAKE != 6
            DDP_MEAN(&loss);
#endif
            if (loss < t.best) {
                t.best = loss;
                if (DDP_RANK() == 0) t.save(file);
            }
            if (DDP_RANK() == 0) printf("life %d step %lld loss %.5f best %.5f\n", life + 1, t.step, loss, t.best);
        }
    }
}

int main()
{
    std::mt19937 random(21);
    std::normal_distribution<float> normal;
    std::vector<float> x(ITEMS * IN), y(ITEMS);
    for (int i = 0; i < ITEMS; ++i) {
        for (int k = 0; k < IN; ++k) x[i * IN + k] = normal(random);
        y[i] = fabsf(x[i * IN]) + x[i * IN + 1] * 0.6f - sinf(2 * x[i * IN + 2]) + 0.6f * normal(random);
    }
    Data d;
    cudaMalloc((void **)&d.x, x.size() * sizeof(float)), cudaMalloc((void **)&d.y, y.size() * sizeof(float));
    cudaMalloc((void **)&d.h, BATCH * HIDDEN * sizeof(float)), cudaMalloc((void **)&d.out, BATCH * sizeof(float));
    cudaMalloc((void **)&d.dout, BATCH * sizeof(float)), cudaMalloc((void **)&d.each, BATCH * sizeof(float));
    cudaMalloc((void **)&d.order, BATCH * sizeof(int));
    cudaMemcpy(d.x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d.y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);

    FILE *file = DDP_RANK() == 0 ? tmpfile() : NULL; // rank 0 alone writes and reads it
    if (DDP_RANK() == 0 && !file) perror("tmpfile"), exit(1);
    {
        Trainer t;
        t.fresh();
        t.annotate(false);
        live(t, d, file, 0);
    }
    {
        Trainer t;
#if MISTAKE == 4
        t.fresh();
        t.annotate(true);
        if (DDP_RANK() == 0) t.load(file);
#else
        if (DDP_RANK() == 0) t.load(file);
        t.annotate(true);
#endif
#if MISTAKE != 2
        DDP_REDUCE(&t.step, 1, DDP_INT64, DDP_OP_MAX, 0); // the other ranks have 0
#endif
        DDP_REDUCE(&t.best, 1, DDP_FLOAT32, DDP_OP_MIN, 0);
        live(t, d, file, 1);
    }
    if (file) fclose(file);
    return 0;
}
