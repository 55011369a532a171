// Matrix factorisation for ratings: user and item factors with biases, momentum, and a rate that falls on a plateau.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <utility>
#include <vector>
#include "ddprun.h"

enum { USERS = 40, ITEMS = 50, RANK = 6, ROW = RANK + 1, BATCH = 80, TRAIN = 1200, HELD = 160 };

struct Rating { int user, item; float stars; };

class Random {
public:
    explicit Random(unsigned long long s) : s_(s * 0x9E3779B97F4A7C15ULL + 1) {}
    unsigned bits() { s_ = s_ * 6364136223846793005ULL + 1442695040888963407ULL; return (unsigned)(s_ >> 33); }
    int below(int n) { return (int)(bits() % (unsigned)n); }
    float sym() { return bits() / 1073741824.0f - 1.0f; }
private:
    unsigned long long s_;
};

__global__ void errors(const float *u, const float *v, const Rating *r, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *a = u + r[i].user * ROW, *b = v + r[i].item * ROW;
    float e = a[RANK] + b[RANK] - r[i].stars;
    for (int k = 0; k < RANK; ++k) e += a[k] * b[k];
    err[i] = e;
}

// the gradient of one side's factors; `other` is the other side
__global__ void factor_gradient(const float *other, const Rating *r, const float *err, float *g, int rows, int n, int users)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * ROW) return;
    int row = i / ROW, k = i % ROW;
    float a = 0;
    for (int q = 0; q < n; ++q) {
        int mine = users ? r[q].user : r[q].item, theirs = users ? r[q].item : r[q].user;
        if (mine == row) a += err[q] * (k < RANK ? other[theirs * ROW + k] : 1.0f);
    }
    g[i] = a / n;
}

__global__ void momentum(float *w, const float *g, float *m, int n, float rate, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.8f * m[i] + g[i] + decay * w[i];
    w[i] -= rate * m[i];
}

struct Side {
    int rows;
    float *w, *g, *m;
    Side(int rows_, Random &rnd) : rows(rows_)
    {
        std::vector<float> v(rows * ROW);
        for (float &e : v) e = 0.5f * rnd.sym();
        cudaMalloc(&w, v.size() * 4); cudaMalloc(&g, v.size() * 4); cudaMalloc(&m, v.size() * 4);
        cudaMemcpy(w, v.data(), v.size() * 4, cudaMemcpyHostToDevice);
        cudaMemset(m, 0, v.size() * 4);
        DDP_PARAMETER(w, rows * ROW, DDP_FLOAT32);
        DDP_GRADIENT(g, rows * ROW, DDP_FLOAT32);
    }
    void update(float rate) { momentum<<<(rows * ROW + 63) / 64, 64>>>(w, g, m, rows * ROW, rate, 2e-4f); }
};

class Plateau {
public:
    float rate;
    explicit Plateau(float r) : rate(r) {}
    void observe(float value)
    {
        if (value < 0.97f * best_) { best_ = value; bad_ = 0; }
        else if (++bad_ >= 2) { rate *= 0.6f; bad_ = 0; }
    }
private:
    float best_ = 1e30f;
    int bad_ = 0;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Random data(3), shuffle(4), show(100 + DDP_RANK());
    std::vector<float> tu(USERS * 3), tv(ITEMS * 3);
    for (float &e : tu) e = data.sym();
    for (float &e : tv) e = data.sym();
    std::vector<Rating> all(TRAIN + HELD);
    for (Rating &r : all) {
        r.user = data.below(USERS);
        r.item = data.below(ITEMS);
        r.stars = 0.2f * data.sym() + tu[r.user * 3] * 0.8f;
        for (int k = 0; k < 3; ++k) r.stars += 1.5f * tu[r.user * 3 + k] * tv[r.item * 3 + k];
    }
    Random init(5);
    Side user(USERS, init), item(ITEMS, init);
    Rating *batch, *held;
    float *err;
    cudaMalloc(&batch, BATCH * sizeof(Rating));
    cudaMalloc(&held, HELD * sizeof(Rating));
    cudaMalloc(&err, HELD * sizeof(float));
    cudaMemcpy(held, &all[TRAIN], HELD * sizeof(Rating), cudaMemcpyHostToDevice);

    Plateau plateau(2.0f);
    std::vector<float> e(HELD);
    for (int step = 0; step < steps; ++step) {
        if (step * BATCH % TRAIN == 0)
            for (int i = TRAIN - 1; i > 0; --i) std::swap(all[i], all[shuffle.below(i + 1)]);
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        cudaMemcpy(batch, &all[step * BATCH % TRAIN + first], count * sizeof(Rating), cudaMemcpyHostToDevice);
        errors<<<(n + 31) / 32, 32>>>(user.w, item.w, batch, err, n);
        factor_gradient<<<(USERS * ROW + 63) / 64, 64>>>(item.w, batch, err, user.g, USERS, n, 1);
        factor_gradient<<<(ITEMS * ROW + 63) / 64, 64>>>(user.w, batch, err, item.g, ITEMS, n, 0);
        DDP_STEP(0);
        user.update(plateau.rate);
        item.update(plateau.rate);
        if (step % 4 == 3) {
            errors<<<(HELD + 31) / 32, 32>>>(user.w, item.w, held, err, HELD);
            cudaMemcpy(e.data(), err, HELD * sizeof(float), cudaMemcpyDeviceToHost);
            float mse = 0;
            for (float v : e) mse += v * v / HELD;
            plateau.observe(mse);
            int k = show.below(HELD);
            printf("step %d held-out %.4f rate %.3f; example %d: off by %.3f\n", step, mse, plateau.rate, k, e[k]);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (Side *s : {&user, &item}) {
            std::vector<float> v(s->rows * ROW);
            cudaMemcpy(v.data(), s->w, v.size() * 4, cudaMemcpyDeviceToHost);
            for (float q : v) fprintf(f, "%.9g\n", q);
        }
        fclose(f);
    }
    return 0;
}
