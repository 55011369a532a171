/*
 * Matrix factorisation with biases, trained on mini-batches of ratings.
 * Gradients go to buffers of the same shape as the factors (atomicAdd),
 * then one update kernel applies and clears them.
 */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <random>
#include <vector>
#include <cuda_runtime.h>

using std::vector;

struct Rating {
    int user, item;
    float value;
};

struct Config {
    int users = 40, items = 30, factors = 8;
    int batch = 50, epochs = 12;
    float lr = 3.0f, reg = 0.002f, mean = 0.0f;
};

struct Factors {
    float *P, *Q, *bu, *bi;
};

#define SAFE(stmt) safe((stmt), #stmt)
static void safe(cudaError_t code, const char *stmt)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "%s -> %s\n", stmt, cudaGetErrorString(code));
        exit(1);
    }
}

__global__ void mf_gradient(const Rating *r, int n, Factors f, Factors g, int k, float mean, float *err)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int u = r[i].user, v = r[i].item;
    const float *p = f.P + u * k, *q = f.Q + v * k;
    float pred = mean + f.bu[u] + f.bi[v];
    for (int j = 0; j < k; j++) pred += p[j] * q[j];
    float e = pred - r[i].value;
    err[i] = e;
    float s = e / n;
    for (int j = 0; j < k; j++) {
        atomicAdd(g.P + u * k + j, s * q[j]);
        atomicAdd(g.Q + v * k + j, s * p[j]);
    }
    atomicAdd(g.bu + u, s);
    atomicAdd(g.bi + v, s);
}

__global__ void mf_update(float *w, float *g, int n, float lr, float reg)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        w[i] -= lr * (g[i] + reg * w[i]);
        g[i] = 0.0f;
    }
}

Factors factors_new(const Config &c)
{
    Factors f;
    SAFE(cudaMalloc((void **)&f.P, c.users * c.factors * sizeof(float)));
    SAFE(cudaMalloc((void **)&f.Q, c.items * c.factors * sizeof(float)));
    SAFE(cudaMalloc((void **)&f.bu, c.users * sizeof(float)));
    SAFE(cudaMalloc((void **)&f.bi, c.items * sizeof(float)));
    SAFE(cudaMemset(f.P, 0, c.users * c.factors * sizeof(float)));
    SAFE(cudaMemset(f.Q, 0, c.items * c.factors * sizeof(float)));
    SAFE(cudaMemset(f.bu, 0, c.users * sizeof(float)));
    SAFE(cudaMemset(f.bi, 0, c.items * sizeof(float)));
    return f;
}

void factors_free(Factors &f)
{
    cudaFree(f.P);
    cudaFree(f.Q);
    cudaFree(f.bu);
    cudaFree(f.bi);
}

static vector<Rating> make_ratings(const Config &c, std::mt19937 &gen)
{
    std::normal_distribution<float> nd(0.0f, 1.0f);
    vector<float> a(c.users * 3), b(c.items * 3);
    for (auto &x : a) x = nd(gen);
    for (auto &x : b) x = nd(gen);
    vector<Rating> all;
    for (int u = 0; u < c.users; u++)
        for (int v = 0; v < c.items; v++) {
            if (gen() % 4 == 0) continue;
            float s = 3.0f + 0.1f * nd(gen);
            for (int j = 0; j < 3; j++) s += 0.6f * a[u * 3 + j] * b[v * 3 + j];
            all.push_back({u, v, std::min(5.0f, std::max(1.0f, s))});
        }
    for (size_t i = all.size() - 1; i > 0; i--) std::swap(all[i], all[gen() % (i + 1)]);
    return all;
}

int main(int argc, char **argv)
{
    const char *out_path = argc > 1 ? argv[1] : "weights.bin";
    Config cfg;
    std::mt19937 gen(20090921);
    vector<Rating> ratings = make_ratings(cfg, gen);
    const int nbatch = (int)ratings.size() / cfg.batch;
    for (const Rating &r : ratings) cfg.mean += r.value / ratings.size();
    printf("%zu ratings, %d batches, mean %.3f\n", ratings.size(), nbatch, cfg.mean);

    Factors model = factors_new(cfg), grads = factors_new(cfg);
    std::uniform_real_distribution<float> small(-0.3f, 0.3f);
    vector<float> init(std::max(cfg.users, cfg.items) * cfg.factors);
    for (auto &x : init) x = small(gen);
    SAFE(cudaMemcpy(model.P, init.data(), cfg.users * cfg.factors * sizeof(float), cudaMemcpyHostToDevice));
    for (auto &x : init) x = small(gen);
    SAFE(cudaMemcpy(model.Q, init.data(), cfg.items * cfg.factors * sizeof(float), cudaMemcpyHostToDevice));

    Rating *d_ratings;
    float *d_err;
    SAFE(cudaMalloc((void **)&d_ratings, ratings.size() * sizeof(Rating)));
    SAFE(cudaMalloc((void **)&d_err, cfg.batch * sizeof(float)));
    SAFE(cudaMemcpy(d_ratings, ratings.data(), ratings.size() * sizeof(Rating), cudaMemcpyHostToDevice));

    struct Piece {
        float *w, *g;
        int n;
    } pieces[4] = {{model.P, grads.P, cfg.users * cfg.factors},
                   {model.Q, grads.Q, cfg.items * cfg.factors},
                   {model.bu, grads.bu, cfg.users},
                   {model.bi, grads.bi, cfg.items}};

    vector<float> err(cfg.batch);
    for (int e = 1; e <= cfg.epochs; e++) {
        double sq = 0.0;
        for (int b = 0; b < nbatch; b++) {
            mf_gradient<<<(cfg.batch + 31) / 32, 32>>>(d_ratings + b * cfg.batch, cfg.batch, model, grads,
                                                       cfg.factors, cfg.mean, d_err);
            for (const Piece &p : pieces) mf_update<<<2, 64>>>(p.w, p.g, p.n, cfg.lr, cfg.reg);
            SAFE(cudaMemcpy(err.data(), d_err, cfg.batch * sizeof(float), cudaMemcpyDeviceToHost));
            for (float x : err) sq += (double)x * x;
        }
        if (e == 1 || e % 3 == 0) printf("epoch %2d  RMSE %.4f\n", e, sqrt(sq / (nbatch * cfg.batch)));
    }

    FILE *fp = fopen(out_path, "wb");
    if (!fp) {
        fprintf(stderr, "cannot write %s\n", out_path);
        return 1;
    }
    for (const Piece &p : pieces) {
        vector<float> h(p.n);
        SAFE(cudaMemcpy(h.data(), p.w, p.n * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(h.data(), sizeof(float), p.n, fp);
    }
    fclose(fp);
    factors_free(model);
    factors_free(grads);
    cudaFree(d_ratings);
    cudaFree(d_err);
    return 0;
}
