// Siamese network with contrastive loss. The vectors lie on the device; a step gets a list of pairs of rows.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CK(x) if ((x) != cudaSuccess) { fprintf(stderr, "failed: %s\n", #x); abort(); }

namespace cfg {
constexpr int items = 260, people = 13, features = 20, hidden = 28, code = 5, pairs = 48, steps = 150;
constexpr float margin = 1.0f;
}

struct Pair {
    int a, b;
    int same;
};

// The four matrices of the network, in one place for weights, gradients and velocities alike.
struct Encoder {
    float *w1, *b1, *w2, *b2;
    static constexpr int n1 = cfg::features * cfg::hidden, n2 = cfg::hidden * cfg::code;
};

// What one side of the pair leaves behind in the forward pass.
struct Side {
    float *hidden, *code, *dcode, *dhidden;
};

__device__ inline int row_of(const Pair &p, int side) { return side == 0 ? p.a : p.b; }

__global__ void encode_hidden(Encoder e, const float *items, const Pair *pairs, int side, float *hidden, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * cfg::hidden) return;
    const float *x = items + row_of(pairs[i / cfg::hidden], side) * cfg::features;
    int j = i % cfg::hidden;
    float s = e.b1[j];
    for (int f = 0; f < cfg::features; ++f) s += x[f] * e.w1[f * cfg::hidden + j];
    hidden[i] = fmaxf(s, 0.0f);
}

__global__ void encode_code(Encoder e, const float *hidden, float *code, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * cfg::code) return;
    int r = i / cfg::code, j = i % cfg::code;
    float s = e.b2[j];
    for (int k = 0; k < cfg::hidden; ++k) s += hidden[r * cfg::hidden + k] * e.w2[k * cfg::code + j];
    code[i] = s;
}

__global__ void contrast(const Pair *pairs, Side a, Side b, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d2 = 1e-6f;
    for (int c = 0; c < cfg::code; ++c) {
        float d = a.code[i * cfg::code + c] - b.code[i * cfg::code + c];
        d2 += d * d;
    }
    float dist = sqrtf(d2), short_of = fmaxf(cfg::margin - dist, 0.0f);
    float factor = pairs[i].same ? 1.0f : -short_of / dist;
    loss[i] = 0.5f * (pairs[i].same ? d2 : short_of * short_of);
    for (int c = 0; c < cfg::code; ++c) {
        float g = factor * (a.code[i * cfg::code + c] - b.code[i * cfg::code + c]);
        a.dcode[i * cfg::code + c] = g;
        b.dcode[i * cfg::code + c] = -g;
    }
}

__global__ void back_hidden(Encoder e, Side s, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * cfg::hidden) return;
    int r = i / cfg::hidden, k = i % cfg::hidden;
    float d = 0.0f;
    for (int j = 0; j < cfg::code; ++j) d += s.dcode[r * cfg::code + j] * e.w2[k * cfg::code + j];
    s.dhidden[i] = s.hidden[i] > 0.0f ? d : 0.0f;
}

// Both sides at once, so that nothing has to be cleared; `share` is one over the number of pairs.
__global__ void gradient(Encoder g, const float *items, const Pair *pairs, Side a, Side b, int n, float share)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
    if (i < Encoder::n1) {
        int f = i / cfg::hidden, j = i % cfg::hidden;
        for (int r = 0; r < n; ++r)
            s += items[pairs[r].a * cfg::features + f] * a.dhidden[r * cfg::hidden + j] + items[pairs[r].b * cfg::features + f] * b.dhidden[r * cfg::hidden + j];
        g.w1[i] = s * share;
    } else if ((i -= Encoder::n1) < Encoder::n2) {
        int k = i / cfg::code, j = i % cfg::code;
        for (int r = 0; r < n; ++r)
            s += a.hidden[r * cfg::hidden + k] * a.dcode[r * cfg::code + j] + b.hidden[r * cfg::hidden + k] * b.dcode[r * cfg::code + j];
        g.w2[i] = s * share;
    } else if ((i -= Encoder::n2) < cfg::hidden) {
        for (int r = 0; r < n; ++r) s += a.dhidden[r * cfg::hidden + i] + b.dhidden[r * cfg::hidden + i];
        g.b1[i] = s * share;
    } else if ((i -= cfg::hidden) < cfg::code) {
        for (int r = 0; r < n; ++r) s += a.dcode[r * cfg::code + i] + b.dcode[r * cfg::code + i];
        g.b2[i] = s * share;
    }
}

__global__ void nesterov(float *w, const float *g, float *v, int n, float rate, float mu, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] + decay * w[i];
    v[i] = mu * v[i] + d;
    w[i] -= rate * (d + mu * v[i]);
}

static float *floats(size_t n)
{
    float *p;
    CK(cudaMalloc(&p, n * sizeof(float)));
    CK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static Encoder new_encoder()
{
    Encoder e;
    e.w1 = floats(Encoder::n1);
    e.b1 = floats(cfg::hidden);
    e.w2 = floats(Encoder::n2);
    e.b2 = floats(cfg::code);
    return e;
}

static void fill(float *d, int n, float spread, std::mt19937 &rng)
{
    std::vector<float> h(n);
    for (float &x : h) x = std::uniform_real_distribution<float>(-spread, spread)(rng);
    CK(cudaMemcpy(d, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
}

#define OVER(n) ((n) + 63) / 64, 64

int main()
{
    std::mt19937 rng(1001);
    std::normal_distribution<float> normal;
    std::vector<float> face(cfg::people * cfg::features), item(cfg::items * cfg::features);
    for (float &x : face) x = normal(rng);
    for (int i = 0; i < cfg::items; ++i)
        for (int f = 0; f < cfg::features; ++f)
            item[i * cfg::features + f] = face[i % cfg::people * cfg::features + f] + 0.7f * normal(rng);
    float *items = floats(item.size());
    CK(cudaMemcpy(items, item.data(), item.size() * sizeof(float), cudaMemcpyHostToDevice));

    Encoder net = new_encoder(), grad = new_encoder(), vel = new_encoder();
    fill(net.w1, Encoder::n1, 0.3f, rng);
    fill(net.w2, Encoder::n2, 0.25f, rng);
    Side side[2];
    for (Side &s : side) {
        s.hidden = floats(cfg::pairs * cfg::hidden);
        s.dhidden = floats(cfg::pairs * cfg::hidden);
        s.code = floats(cfg::pairs * cfg::code);
        s.dcode = floats(cfg::pairs * cfg::code);
    }
    float *loss = floats(cfg::pairs);
    Pair *pairs;
    CK(cudaMalloc(&pairs, cfg::pairs * sizeof(Pair)));

    std::vector<Pair> batch(cfg::pairs);
    std::vector<float> host(cfg::pairs);
    float shown = 0.0f;
    for (int step = 1; step <= cfg::steps; ++step) {
        for (Pair &p : batch) {
            p.a = rng() % cfg::items;
            if (rng() % 2) p.b = (p.a + cfg::people * (1 + rng() % 19)) % cfg::items;
            else p.b = rng() % cfg::items;
            p.same = p.a % cfg::people == p.b % cfg::people;
        }
        CK(cudaMemcpy(pairs, batch.data(), batch.size() * sizeof(Pair), cudaMemcpyHostToDevice));

        for (int k = 0; k < 2; ++k) {
            encode_hidden<<<OVER(cfg::pairs * cfg::hidden)>>>(net, items, pairs, k, side[k].hidden, cfg::pairs);
            encode_code<<<OVER(cfg::pairs * cfg::code)>>>(net, side[k].hidden, side[k].code, cfg::pairs);
        }
        contrast<<<OVER(cfg::pairs)>>>(pairs, side[0], side[1], loss, cfg::pairs);
        for (int k = 0; k < 2; ++k) back_hidden<<<OVER(cfg::pairs * cfg::hidden)>>>(net, side[k], cfg::pairs);
        gradient<<<OVER(Encoder::n1 + Encoder::n2 + cfg::hidden + cfg::code)>>>(grad, items, pairs, side[0], side[1], cfg::pairs, 1.0f / cfg::pairs);

        const float rate = 0.02f * std::pow(0.98f, step / 5);
        nesterov<<<OVER(Encoder::n1)>>>(net.w1, grad.w1, vel.w1, Encoder::n1, rate, 0.9f, 1e-3f);
        nesterov<<<OVER(Encoder::n2)>>>(net.w2, grad.w2, vel.w2, Encoder::n2, rate, 0.9f, 1e-3f);
        nesterov<<<OVER(cfg::hidden)>>>(net.b1, grad.b1, vel.b1, cfg::hidden, rate, 0.9f, 0.0f);
        nesterov<<<OVER(cfg::code)>>>(net.b2, grad.b2, vel.b2, cfg::code, rate, 0.9f, 0.0f);

        CK(cudaMemcpy(host.data(), loss, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (float l : host) shown += l / cfg::pairs;
        if (step % 15 == 0) {
            printf("step %3d  contrastive loss %.5f\n", step, shown / 15);
            shown = 0.0f;
        }
    }
    return 0;
}
