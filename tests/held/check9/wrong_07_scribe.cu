// Next-character model (embedding of three characters, hidden layer, softmax) with a cosine schedule over examples.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>
#include "ddprun.h"

struct Config {
    int vocab = 27, context = 3, embed = 8, hidden = 32, batch = 60;
    double peak = 1.2;
    int epochs_of = 3600; // examples until the rate is zero
} cfg;

struct Layout { int emb, w1, b1, w2, b2, total; };

static Layout layout()
{
    Layout l;
    l.emb = 0;
    l.w1 = l.emb + cfg.vocab * cfg.embed;
    l.b1 = l.w1 + cfg.context * cfg.embed * cfg.hidden;
    l.w2 = l.b1 + cfg.hidden;
    l.b2 = l.w2 + cfg.hidden * cfg.vocab;
    l.total = l.b2 + cfg.vocab;
    return l;
}

__global__ void forward(const float *p, Layout l, Config c, const int *text, const int *pos, float *h, float *dz,
                        float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    for (int j = 0; j < c.hidden; ++j) {
        float a = p[l.b1 + j];
        for (int t = 0; t < c.context; ++t)
            for (int e = 0; e < c.embed; ++e)
                a += p[l.emb + text[pos[r] + t] * c.embed + e] * p[l.w1 + (t * c.embed + e) * c.hidden + j];
        h[r * c.hidden + j] = tanhf(a);
    }
    float top = -1e30f, sum = 0;
    float *z = dz + r * c.vocab;
    for (int v = 0; v < c.vocab; ++v) {
        float a = p[l.b2 + v];
        for (int j = 0; j < c.hidden; ++j) a += h[r * c.hidden + j] * p[l.w2 + j * c.vocab + v];
        z[v] = a;
        top = fmaxf(top, a);
    }
    for (int v = 0; v < c.vocab; ++v) sum += expf(z[v] - top);
    int target = text[pos[r] + c.context];
    loss[r] = logf(sum) + top - z[target];
    for (int v = 0; v < c.vocab; ++v) z[v] = (expf(z[v] - top) / sum - (v == target)) / rows;
}

__global__ void hidden_gradient(const float *p, Layout l, Config c, const float *dz, const float *h, float *dh, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * c.hidden) return;
    int r = i / c.hidden, j = i % c.hidden;
    float a = 0;
    for (int v = 0; v < c.vocab; ++v) a += dz[r * c.vocab + v] * p[l.w2 + j * c.vocab + v];
    dh[i] = a * (1 - h[i] * h[i]);
}

__global__ void weight_gradient(const float *p, Layout l, Config c, const int *text, const int *pos, const float *h,
                                const float *dz, const float *dh, float *g, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= l.total) return;
    float a = 0;
    for (int r = 0; r < rows; ++r) {
        if (i >= l.b2) a += dz[r * c.vocab + i - l.b2];
        else if (i >= l.w2) a += h[r * c.hidden + (i - l.w2) / c.vocab] * dz[r * c.vocab + (i - l.w2) % c.vocab];
        else if (i >= l.b1) a += dh[r * c.hidden + i - l.b1];
        else if (i >= l.w1) {
            int te = (i - l.w1) / c.hidden, j = (i - l.w1) % c.hidden;
            a += p[l.emb + text[pos[r] + te / c.embed] * c.embed + te % c.embed] * dh[r * c.hidden + j];
        } else {
            int word = i / c.embed, e = i % c.embed;
            for (int t = 0; t < c.context; ++t)
                if (text[pos[r] + t] == word)
                    for (int j = 0; j < c.hidden; ++j)
                        a += dh[r * c.hidden + j] * p[l.w1 + (t * c.embed + e) * c.hidden + j];
        }
    }
    g[i] = a;
}

__global__ void apply(float *p, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= rate * g[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    const char *words[] = {"the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "sleeps", "under", "trees"};
    unsigned s = 1234567u;
    auto next = [&s]() { s = s * 1103515245u + 12345u; return (s >> 16) & 0x7fff; };
    std::vector<int> text;
    while (text.size() < 4000) {
        const char *w = words[next() % 13];
        for (const char *q = w; *q; ++q) text.push_back(*q - 'a' + 1);
        text.push_back(0);
    }
    const Layout l = layout();
    std::vector<float> init(l.total, 0.0f);
    for (int i = 0; i < l.total; ++i)
        if (i < l.b1 || (i >= l.w2 && i < l.b2)) init[i] = (next() / 16384.0f - 1.0f) * (i < l.w1 ? 1.0f : 0.3f);

    float *p, *g, *h, *dz, *dh, *loss;
    int *dtext, *dpos;
    cudaMalloc(&p, l.total * 4); cudaMalloc(&g, l.total * 4);
    cudaMalloc(&h, cfg.batch * cfg.hidden * 4); cudaMalloc(&dh, cfg.batch * cfg.hidden * 4);
    cudaMalloc(&dz, cfg.batch * cfg.vocab * 4); cudaMalloc(&loss, cfg.batch * 4);
    cudaMalloc(&dtext, text.size() * 4); cudaMalloc(&dpos, cfg.batch * 4);
    cudaMemcpy(p, init.data(), l.total * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dtext, text.data(), text.size() * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(p, l.total, DDP_TYPE_OF(p));
    DDP_GRADIENT(g, l.total, DDP_TYPE_OF(g));

    long seen = 0;
    std::vector<int> pos(cfg.batch);
    std::vector<float> hl(cfg.batch);
    for (int step = 0; step < steps; ++step) {
        for (int &q : pos) q = (int)(next() % (text.size() - 8));
        size_t first, count;
        DDP_SHARD(cfg.batch, &first, &count);
        int rows = (int)count;
        cudaMemcpy(dpos, pos.data() + first, count * sizeof(int), cudaMemcpyHostToDevice);
        forward<<<(rows + 15) / 16, 16>>>(p, l, cfg, dtext, dpos, h, dz, loss, rows);
        hidden_gradient<<<(rows * cfg.hidden + 63) / 64, 64>>>(p, l, cfg, dz, h, dh, rows);
        weight_gradient<<<(l.total + 63) / 64, 64>>>(p, l, cfg, dtext, dpos, h, dz, dh, g, rows);
        seen += count;
        double progress = (double)seen / cfg.epochs_of;
        float rate = (float)(0.5 * cfg.peak * (1 + cos(M_PI * (progress < 1 ? progress : 1))));
        DDP_STEP(0);
        apply<<<(l.total + 63) / 64, 64>>>(p, g, l.total, rate);
        cudaMemcpy(hl.data(), loss, count * 4, cudaMemcpyDeviceToHost);
        float mean = 0;
        for (size_t i = 0; i < count; ++i) mean += hl[i] / count;
        DDP_MEAN_AS("loss", &mean);
        if (DDP_RANK() == 0 && step % 10 == 9) printf("%3d %.4f\n", step + 1, mean);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(init.data(), p, l.total * 4, cudaMemcpyDeviceToHost);
        for (float e : init) fprintf(f, "%.9g\n", e);
        fclose(f);
    }
    return 0;
}
