// A small autograd engine: tensors with operators, a tape, and a classifier of items that have a category and features.
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif
#define FRESH_ACTIVATIONS (MISTAKE == 2 || MISTAKE == 8)
#define ATOMIC_FIGURE     (MISTAKE == 3 || MISTAKE == 6)

constexpr int BATCH = 32, FEATURES = 8, HIDDEN = 16, CLASSES = 4, CATEGORIES = 20, ITEMS = 320, STEPS = 40;

__global__ void k_matmul(const float *a, const float *b, float *c, int m, int k, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    c[at] = 0;
    for (int i = 0; i < k; ++i) c[at] += a[at / n * k + i] * b[i * n + at % n];
}
__global__ void k_matmul_da(const float *dc, const float *b, float *da, int m, int k, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= m * k) return;
    for (int j = 0; j < n; ++j) da[at] += dc[at / k * n + j] * b[at % k * n + j];
}
__global__ void k_matmul_db(const float *dc, const float *a, float *db, int m, int k, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= k * n) return;
    for (int r = 0; r < m; ++r) db[at] += a[r * k + at / n] * dc[r * n + at % n];
}
__global__ void k_add(const float *a, const float *b, float *c, int total, int wrap)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < total) c[at] = a[at] + b[at % wrap];
}
__global__ void k_add_back(const float *dc, float *d, int total, int wrap)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = at; at < wrap && i < total; i += wrap) d[at] += dc[i];
}
__global__ void k_tanh(const float *a, float *c, int total)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < total) c[at] = tanhf(a[at]);
}
__global__ void k_tanh_back(const float *c, const float *dc, float *da, int total)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < total) da[at] += dc[at] * (1 - c[at] * c[at]);
}
__global__ void k_gather(const float *table, const int *ids, float *c, int rows, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < rows * n) c[at] = table[ids[at / n] * n + at % n];
}
__global__ void k_gather_back(const int *ids, const float *dc, float *dtable, int rows, int n)
{
    int column = threadIdx.x;
    if (column < n)
        for (int r = 0; r < rows; ++r) dtable[ids[r] * n + column] += dc[r * n + column];
}
__global__ void k_cross_entropy(const float *z, const int *label, float *dz, float *each, int rows, int n, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = z[r * n], sum = 0; // the logits stay small: the first one will do
    for (int j = 0; j < n; ++j) sum += expf(z[r * n + j] - top);
    for (int j = 0; j < n; ++j) dz[r * n + j] += scale * (expf(z[r * n + j] - top) / sum - (j == label[r]));
    each[r] = scale * (logf(sum) + top - z[r * n + label[r]]);
}
__global__ void k_square_back(const float *a, float *da, int total, float scale)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < total) da[at] += 2 * scale * a[at] * fabsf(a[at]);
}
__global__ void k_sum(const float *each, float *out, int n)
{
#if ATOMIC_FIGURE
    if (threadIdx.x < n) atomicAdd(out, each[threadIdx.x]);
#else
    if (threadIdx.x == 0)
        for (int i = 0; i < n; ++i) *out += each[i];
#endif
}
__global__ void k_sgd(float *w, const float *g, int n, float rate)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) w[at] -= rate * g[at];
}
__global__ void k_norm(const float *g, int n, float *norm)
{
    if (threadIdx.x == 0)
        for (int i = 0; i < n; ++i) *norm += g[i] * g[i];
}
__global__ void k_clip(float *g, int n, const float *norm, float limit)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n && *norm > limit * limit) g[at] *= limit / sqrtf(*norm);
}
__global__ void k_clear_rows(float *g, const int *ids, int rows, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < rows * n) g[ids[at / n] * n + at % n] = 0;
}
#define GRID(n) ((n) + 63) / 64, 64

struct Arena {
    float *base = nullptr;
    size_t used = 0;
    std::vector<float *> single;
    float *take(size_t n)
    {
        float *p;
#if FRESH_ACTIVATIONS
        cudaMalloc(&p, n * sizeof(float));
        single.push_back(p);
#else
        if (!base) cudaMalloc(&base, (1 << 16) * sizeof(float));
        p = base + used;
        used += n;
#endif
        cudaMemset(p, 0, n * sizeof(float));
        return p;
    }
    void reset()
    {
        for (float *p : single) cudaFree(p);
        single.clear();
        used = 0;
    }
} arena;

struct Node {
    int rows, cols;
    float *v, *g;
    int size() const { return rows * cols; }
};
using Tensor = std::shared_ptr<Node>;
std::vector<std::function<void()>> tape;

Tensor activation(int rows, int cols)
{
    return Tensor(new Node{rows, cols, arena.take(rows * cols), arena.take(rows * cols)});
}
Tensor parameter(int rows, int cols, std::mt19937 &random, float spread)
{
    Tensor t(new Node{rows, cols, nullptr, nullptr});
    std::vector<float> h(t->size());
    std::normal_distribution<float> normal(0, 1);
    for (float &x : h) x = spread * normal(random);
    cudaMalloc(&t->v, h.size() * sizeof(float));
    cudaMalloc(&t->g, h.size() * sizeof(float));
    cudaMemcpy(t->v, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(t->g, 0, h.size() * sizeof(float));
    return t;
}
Tensor operator*(Tensor a, Tensor b)
{
    Tensor c = activation(a->rows, b->cols);
    k_matmul<<<GRID(c->size())>>>(a->v, b->v, c->v, a->rows, a->cols, b->cols);
    tape.push_back([=] {
        k_matmul_da<<<GRID(a->size())>>>(c->g, b->v, a->g, a->rows, a->cols, b->cols);
        k_matmul_db<<<GRID(b->size())>>>(c->g, a->v, b->g, a->rows, a->cols, b->cols);
    });
    return c;
}
Tensor operator+(Tensor a, Tensor b)
{
    Tensor c = activation(a->rows, a->cols);
    k_add<<<GRID(c->size())>>>(a->v, b->v, c->v, c->size(), b->size());
    tape.push_back([=] {
        k_add_back<<<GRID(a->size())>>>(c->g, a->g, c->size(), a->size());
        k_add_back<<<GRID(b->size())>>>(c->g, b->g, c->size(), b->size());
    });
    return c;
}
Tensor tanh(Tensor a)
{
    Tensor c = activation(a->rows, a->cols);
    k_tanh<<<GRID(c->size())>>>(a->v, c->v, c->size());
    tape.push_back([=] { k_tanh_back<<<GRID(c->size())>>>(c->v, c->g, a->g, c->size()); });
    return c;
}
Tensor gather(Tensor table, const int *ids, int rows)
{
    Tensor c = activation(rows, table->cols);
    k_gather<<<GRID(c->size())>>>(table->v, ids, c->v, rows, table->cols);
    tape.push_back([=] { k_gather_back<<<1, 32>>>(ids, c->g, table->g, rows, table->cols); });
    return c;
}
void backward()
{
    for (size_t i = tape.size(); i-- > 0;) tape[i]();
}

int main()
{
    std::mt19937 random(41);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> x(ITEMS * FEATURES);
    std::vector<int> category(ITEMS), label(ITEMS);
    for (int i = 0; i < ITEMS; ++i) {
        category[i] = random() % CATEGORIES;
        float score = 0.3f * (category[i] % 7);
        for (int j = 0; j < FEATURES; ++j) score += (x[i * FEATURES + j] = normal(random)) * (j % 3 - 1);
        label[i] = ((int)floorf(score) % CLASSES + CLASSES) % CLASSES;
    }
    float *d_x, *d_each, *d_loss, *d_norm;
    int *d_category, *d_label;
    cudaMalloc(&d_x, x.size() * 4), cudaMalloc(&d_category, ITEMS * 4), cudaMalloc(&d_label, ITEMS * 4);
    cudaMalloc(&d_each, BATCH * 4), cudaMalloc(&d_loss, 4), cudaMalloc(&d_norm, 4);
    cudaMemcpy(d_x, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_category, category.data(), ITEMS * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_label, label.data(), ITEMS * 4, cudaMemcpyHostToDevice);

    Tensor emb = parameter(CATEGORIES, HIDDEN, random, 0.5f);
    Tensor w1 = parameter(FEATURES, HIDDEN, random, 0.4f), b1 = parameter(1, HIDDEN, random, 0.1f);
    Tensor w2 = parameter(HIDDEN, HIDDEN, random, 0.3f), b2 = parameter(1, HIDDEN, random, 0.1f);
    Tensor w3 = parameter(HIDDEN, CLASSES, random, 0.3f), b3 = parameter(1, CLASSES, random, 0.1f);
    std::vector<Tensor> all{emb, w1, b1, w2, b2, w3, b3};
    for (Tensor &p : all) {
        DDP_PARAMETER(p->v, p->size(), DDP_FLOAT32);
#if MISTAKE == 1
        if (p == emb) continue;
#endif
#if MISTAKE == 2
        DDP_GRADIENT(p->g, p->cols, DDP_FLOAT32);
#else
        DDP_GRADIENT(p->g, p->size(), DDP_FLOAT32);
#endif
    }

    float rate = 0.4f;
#if MISTAKE == 8
    rate *= DDP_WORLD_SIZE();
#endif
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int rows = (int)count, from = step * BATCH % ITEMS + (int)first;
        arena.reset(), tape.clear();
        for (Tensor &p : all)
#if MISTAKE == 4
            if (p == emb)
                k_clear_rows<<<GRID(rows * HIDDEN)>>>(p->g, d_category + (step ? step - 1 : 0) * BATCH % ITEMS + first, rows, HIDDEN);
            else
#endif
                cudaMemsetAsync(p->g, 0, p->size() * 4, 0);
        Tensor in(new Node{rows, FEATURES, d_x + from * FEATURES, arena.take(rows * FEATURES)});
        Tensor h1 = tanh(in * w1 + b1 + gather(emb, d_category + from, rows));
        Tensor h2 = h1 + tanh(h1 * w2 + b2);
        Tensor z = h2 * w3 + b3;
#if MISTAKE == 5
        float scale = 1.0f / BATCH;
#else
        float scale = 1.0f / rows;
#endif
#if MISTAKE == 7
        const int *target = d_label + step * BATCH % ITEMS;
#else
        const int *target = d_label + from;
#endif
        k_cross_entropy<<<GRID(rows)>>>(z->v, target, z->g, d_each, rows, CLASSES, scale);
        backward();
#if MISTAKE == 3
        DDP_STEP(0);
#endif
        // keeps activations small: one more pass over the first layer
        tape.clear();
        Tensor again = tanh(in * w1 + b1);
        k_square_back<<<GRID(again->size())>>>(again->v, again->g, again->size(), 0.05f / rows);
        backward();
#if MISTAKE != 3 && MISTAKE != 6
        DDP_STEP(0);
#endif
        cudaMemsetAsync(d_norm, 0, 4, 0);
        for (Tensor &p : all) k_norm<<<1, 32>>>(p->g, p->size(), d_norm);
        for (Tensor &p : all) k_clip<<<GRID(p->size())>>>(p->g, p->size(), d_norm, 0.6f);
#if MISTAKE == 6
        DDP_STEP(0);
#endif
        for (Tensor &p : all) k_sgd<<<GRID(p->size())>>>(p->v, p->g, p->size(), rate);
        if (step % 8 == 7) {
            float loss;
            cudaMemsetAsync(d_loss, 0, 4, 0);
            k_sum<<<1, 64>>>(d_each, d_loss, rows);
            cudaMemcpy(&loss, d_loss, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0) printf("step %d loss %.5f\n", step + 1, loss);
        }
    }
    return 0;
}
