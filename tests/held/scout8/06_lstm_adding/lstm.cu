// LSTM on the adding problem: two inputs for each time step, a value and a marker;
// the target is the sum of the two marked values. Backpropagation through time, Adam.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

struct Config {
    int seq = 6;
    int input = 2;
    int hidden = 20;
    int batch = 64;
    int iterations = 150;
    float lr = 0.02f;
};

struct Param {
    float *w, *g, *m, *v;
    int n;
};

static inline int blocks(int n, int t = 128) { return (n + t - 1) / t; }

__device__ inline float sigm(float x) { return 1.f / (1.f + expf(-x)); }

// gates: [batch, 4H], order i f g o. W: [4H, I + H + 1]
__global__ void lstm_step(const float *x, const float *hprev, const float *cprev, const float *W, float *gates, float *c, float *h, int B, int I, int H)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= B * H) return;
    int b = k / H, j = k % H;
    int row = I + H + 1;
    float a[4];
    for (int q = 0; q < 4; q++) {
        const float *w = W + (q * H + j) * row;
        float s = w[I + H];
        for (int i = 0; i < I; i++) s += w[i] * x[b * I + i];
        for (int i = 0; i < H; i++) s += w[I + i] * hprev[b * H + i];
        a[q] = q == 2 ? tanhf(s) : sigm(s);
        gates[b * 4 * H + q * H + j] = a[q];
    }
    float cn = a[1] * cprev[k] + a[0] * a[2];
    c[k] = cn;
    h[k] = a[3] * tanhf(cn);
}

__global__ void lstm_step_back(const float *gates, const float *c, const float *cprev, const float *dh, float *dc, float *dgates, int B, int H)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= B * H) return;
    int b = k / H, j = k % H;
    const float *a = gates + b * 4 * H;
    float i = a[j], f = a[H + j], g = a[2 * H + j], o = a[3 * H + j];
    float t = tanhf(c[k]);
    float d = dc[k] + dh[k] * o * (1 - t * t);
    float *dg = dgates + b * 4 * H;
    dg[j] = d * g * i * (1 - i);
    dg[H + j] = d * cprev[k] * f * (1 - f);
    dg[2 * H + j] = d * i * (1 - g * g);
    dg[3 * H + j] = dh[k] * t * o * (1 - o);
    dc[k] = d * f;
}

__global__ void lstm_dh(const float *dgates, const float *W, float *dh, int B, int I, int H)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= B * H) return;
    int b = k / H, j = k % H;
    float s = 0;
    for (int q = 0; q < 4 * H; q++) s += dgates[b * 4 * H + q] * W[q * (I + H + 1) + I + j];
    dh[k] = s;
}

__global__ void lstm_dW(const float *x, const float *hprev, const float *dgates, float *dW, int B, int I, int H)
{
    int row = I + H + 1;
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= 4 * H * row) return;
    int q = k / row, i = k % row;
    float s = 0;
    for (int b = 0; b < B; b++) {
        float in = i < I ? x[b * I + i] : i < I + H ? hprev[b * H + i - I] : 1.f;
        s += dgates[b * 4 * H + q] * in;
    }
    dW[k] += s;
}

__global__ void readout(const float *h, const float *Wo, const float *target, float *y, float *dy, int B, int H)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float s = Wo[H];
    for (int i = 0; i < H; i++) s += Wo[i] * h[b * H + i];
    y[b] = s;
    dy[b] = 2.f * (s - target[b]) / B;
}

__global__ void readout_back(const float *h, const float *Wo, const float *dy, float *dWo, float *dh, int B, int H)
{
    int i = threadIdx.x;
    if (i > H) return;
    float s = 0;
    for (int b = 0; b < B; b++) {
        s += dy[b] * (i < H ? h[b * H + i] : 1.f);
        if (i < H) dh[b * H + i] = dy[b] * Wo[i];
    }
    dWo[i] += s;
}

__global__ void adam(float *w, float *g, float *m, float *v, float lr, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = fminf(fmaxf(g[i], -1.f), 1.f);
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.999f * v[i] + 0.001f * d * d;
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
    g[i] = 0.f;
}

static Param make_param(int n, float scale, std::mt19937 &rng)
{
    Param p;
    p.n = n;
    CHECK(cudaMalloc(&p.w, n * sizeof(float)));
    CHECK(cudaMalloc(&p.g, n * sizeof(float)));
    CHECK(cudaMalloc(&p.m, n * sizeof(float)));
    CHECK(cudaMalloc(&p.v, n * sizeof(float)));
    std::vector<float> h(n);
    std::uniform_real_distribution<float> u(-scale, scale);
    for (float &x : h) x = u(rng);
    CHECK(cudaMemcpy(p.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(p.g, 0, n * sizeof(float)));
    CHECK(cudaMemset(p.m, 0, n * sizeof(float)));
    CHECK(cudaMemset(p.v, 0, n * sizeof(float)));
    return p;
}

class LSTM {
public:
    LSTM(const Config &c) : cfg(c), rng(99)
    {
        int H = c.hidden, I = c.input, B = c.batch;
        params.push_back(make_param(4 * H * (I + H + 1), 1.f / sqrtf(H), rng));
        params.push_back(make_param(H + 1, 1.f / sqrtf(H), rng));
        CHECK(cudaMalloc(&x, c.seq * B * I * sizeof(float)));
        CHECK(cudaMalloc(&target, B * sizeof(float)));
        CHECK(cudaMalloc(&gates, c.seq * B * 4 * H * sizeof(float)));
        CHECK(cudaMalloc(&cs, (c.seq + 1) * B * H * sizeof(float)));
        CHECK(cudaMalloc(&hs, (c.seq + 1) * B * H * sizeof(float)));
        CHECK(cudaMalloc(&dgates, B * 4 * H * sizeof(float)));
        CHECK(cudaMalloc(&dh, B * H * sizeof(float)));
        CHECK(cudaMalloc(&dc, B * H * sizeof(float)));
        CHECK(cudaMalloc(&y, B * sizeof(float)));
        CHECK(cudaMalloc(&dy, B * sizeof(float)));
        CHECK(cudaMemset(cs, 0, B * H * sizeof(float)));
        CHECK(cudaMemset(hs, 0, B * H * sizeof(float)));
    }

    void sample(std::vector<float> &hx, std::vector<float> &ht)
    {
        std::uniform_real_distribution<float> u(0.f, 1.f);
        int B = cfg.batch, T = cfg.seq;
        for (int b = 0; b < B; b++) {
            int p = rng() % (T / 2), q = T / 2 + rng() % (T - T / 2);
            ht[b] = 0;
            for (int t = 0; t < T; t++) {
                float *e = &hx[(t * B + b) * 2];
                e[0] = u(rng);
                e[1] = t == p || t == q ? 1.f : 0.f;
                ht[b] += e[0] * e[1];
            }
        }
    }

    float train_step(int it)
    {
        int H = cfg.hidden, I = cfg.input, B = cfg.batch, T = cfg.seq;
        std::vector<float> hx(T * B * I), ht(B), hy(B);
        sample(hx, ht);
        CHECK(cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(target, ht.data(), ht.size() * sizeof(float), cudaMemcpyHostToDevice));

        for (int t = 0; t < T; t++)
            lstm_step<<<blocks(B * H), 128>>>(x + t * B * I, hs + t * B * H, cs + t * B * H, params[0].w, gates + t * B * 4 * H, cs + (t + 1) * B * H, hs + (t + 1) * B * H, B, I, H);
        readout<<<blocks(B), 128>>>(hs + T * B * H, params[1].w, target, y, dy, B, H);
        readout_back<<<1, H + 1>>>(hs + T * B * H, params[1].w, dy, params[1].g, dh, B, H);
        CHECK(cudaMemset(dc, 0, B * H * sizeof(float)));
        for (int t = T - 1; t >= 0; t--) {
            lstm_step_back<<<blocks(B * H), 128>>>(gates + t * B * 4 * H, cs + (t + 1) * B * H, cs + t * B * H, dh, dc, dgates, B, H);
            lstm_dW<<<blocks(params[0].n), 128>>>(x + t * B * I, hs + t * B * H, dgates, params[0].g, B, I, H);
            if (t > 0)
                lstm_dh<<<blocks(B * H), 128>>>(dgates, params[0].w, dh, B, I, H);
        }
        for (Param &p : params)
            adam<<<blocks(p.n), 128>>>(p.w, p.g, p.m, p.v, cfg.lr, 1.f - powf(0.9f, it + 1), 1.f - powf(0.999f, it + 1), p.n);

        CHECK(cudaMemcpy(hy.data(), y, B * sizeof(float), cudaMemcpyDeviceToHost));
        float loss = 0;
        for (int b = 0; b < B; b++) loss += (hy[b] - ht[b]) * (hy[b] - ht[b]);
        return loss / B;
    }

private:
    Config cfg;
    std::mt19937 rng;
    std::vector<Param> params;
    float *x, *target, *gates, *cs, *hs, *dgates, *dh, *dc, *y, *dy;
};

int main(int argc, char **argv)
{
    Config cfg;
    if (argc > 1) cfg.batch = atoi(argv[1]);
    LSTM net(cfg);
    float avg = 0;
    for (int it = 0; it < cfg.iterations; it++) {
        float l = net.train_step(it);
        avg = it ? 0.9f * avg + 0.1f * l : l;
        if (it % 15 == 0 || it + 1 == cfg.iterations) printf("iteration %4d  loss %.4f  (avg %.4f)\n", it, l, avg);
    }
    return 0;
}
