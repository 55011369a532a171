// Variational autoencoder 32-24-(2x4)-24-32 on binary patterns. The noise of the reparametrisation comes from the host.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
using std::vector;

const int X = 32, H = 24, Z = 4, N = 2000, BATCH = 100;

struct Linear { float *w, *b, *dw, *db, *mw, *vw, *mb, *vb; int in, out; };
std::mt19937 gen(11);

float *dev(int n) { float *p; cudaMalloc(&p, n * sizeof(float)); cudaMemset(p, 0, n * sizeof(float)); return p; }

Linear make_linear(int in, int out)
{
    Linear l;
    l.in = in; l.out = out;
    l.w = dev(in * out); l.b = dev(out); l.dw = dev(in * out); l.db = dev(out);
    l.mw = dev(in * out); l.vw = dev(in * out); l.mb = dev(out); l.vb = dev(out);
    std::normal_distribution<float> d(0, std::sqrt(1.0f / in));
    vector<float> h(in * out);
    for (float &x : h) x = d(gen);
    cudaMemcpy(l.w, &h[0], h.size() * 4, cudaMemcpyHostToDevice);
    return l;
}

__global__ void fwd(Linear l, const float *x, float *y, int n, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * l.out) return;
    int r = i / l.out, c = i % l.out;
    float s = l.b[c];
    for (int k = 0; k < l.in; k++) s += x[r * l.in + k] * l.w[k * l.out + c];
    y[i] = act ? tanhf(s) : s;
}
__global__ void bwd_w(Linear l, const float *x, const float *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= l.in * l.out) return;
    int k = i / l.out, c = i % l.out;
    float s = 0, t = 0;
    for (int r = 0; r < n; r++) { s += x[r * l.in + k] * dy[r * l.out + c]; t += dy[r * l.out + c]; }
    l.dw[i] = s / n;
    if (k == 0) l.db[c] = t / n;
}
// act: x came from tanh
__global__ void bwd_x(Linear l, const float *x, const float *dy, float *dx, int n, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * l.in) return;
    int r = i / l.in, k = i % l.in;
    float s = 0;
    for (int c = 0; c < l.out; c++) s += dy[r * l.out + c] * l.w[k * l.out + c];
    dx[i] = act ? s * (1 - x[i] * x[i]) : s;
}
__global__ void sample(const float *stat, const float *eps, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * Z) return;
    int r = i / Z, k = i % Z;
    z[i] = stat[r * 2 * Z + k] + expf(0.5f * stat[r * 2 * Z + Z + k]) * eps[i];
}
__global__ void recon_loss(const float *logit, const float *x, const float *stat, float *d, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0;
    for (int k = 0; k < X; k++) {
        float l = logit[r * X + k], t = x[r * X + k];
        d[r * X + k] = 1 / (1 + expf(-l)) - t;
        s += fmaxf(l, 0.f) - l * t + log1pf(expf(-fabsf(l)));
    }
    for (int k = 0; k < Z; k++) {
        float mu = stat[r * 2 * Z + k], lv = stat[r * 2 * Z + Z + k];
        s += 0.5f * (expf(lv) + mu * mu - 1 - lv);
    }
    loss[r] = s;
}
__global__ void stat_grad(const float *dz, const float *stat, const float *eps, float *ds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * Z) return;
    int r = i / Z, k = i % Z;
    float mu = stat[r * 2 * Z + k], lv = stat[r * 2 * Z + Z + k];
    ds[r * 2 * Z + k] = dz[i] + mu;
    ds[r * 2 * Z + Z + k] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv) + 0.5f * (expf(lv) - 1);
}
__global__ void adam(float *w, float *g, float *m, float *v, int n, int t, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / (1 - powf(0.9f, t))) / (sqrtf(v[i] / (1 - powf(0.999f, t))) + 1e-8f);
}
#define G(n) ((n) + 127) / 128, 128

int main()
{
    vector<vector<float>> proto(6, vector<float>(X));
    for (auto &p : proto) for (float &v : p) v = gen() % 2;
    vector<float> data(N * X);
    for (int i = 0; i < N; i++) {
        auto &p = proto[gen() % 6];
        for (int k = 0; k < X; k++) data[i * X + k] = gen() % 20 ? p[k] : 1 - p[k];
    }
    Linear e1 = make_linear(X, H), e2 = make_linear(H, 2 * Z), d1 = make_linear(Z, H), d2 = make_linear(H, X);
    Linear *layers[4] = { &e1, &e2, &d1, &d2 };
    float *x = dev(BATCH * X), *h1 = dev(BATCH * H), *st = dev(BATCH * 2 * Z), *eps = dev(BATCH * Z), *z = dev(BATCH * Z);
    float *h2 = dev(BATCH * H), *y = dev(BATCH * X), *dy = dev(BATCH * X), *dh2 = dev(BATCH * H), *dz = dev(BATCH * Z);
    float *ds = dev(BATCH * 2 * Z), *dh1 = dev(BATCH * H), *loss = dev(BATCH);
    vector<float> noise(BATCH * Z), hl(BATCH);
    std::normal_distribution<float> normal(0, 1);

    int t = 0;
    for (int epoch = 0; epoch < 6; epoch++) {
        double elbo = 0;
        for (int i = 0; i < N; i += BATCH) {
            for (float &v : noise) v = normal(gen);
            cudaMemcpy(x, data.data() + i * X, BATCH * X * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(eps, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice);
            // encode, sample, decode
            fwd<<<G(BATCH * H)>>>(e1, x, h1, BATCH, 1);
            fwd<<<G(BATCH * 2 * Z)>>>(e2, h1, st, BATCH, 0);
            sample<<<G(BATCH * Z)>>>(st, eps, z, BATCH);
            fwd<<<G(BATCH * H)>>>(d1, z, h2, BATCH, 1);
            fwd<<<G(BATCH * X)>>>(d2, h2, y, BATCH, 0);
            recon_loss<<<G(BATCH)>>>(y, x, st, dy, loss, BATCH);
            // and back
            bwd_w<<<G(H * X)>>>(d2, h2, dy, BATCH);
            bwd_x<<<G(BATCH * H)>>>(d2, h2, dy, dh2, BATCH, 1);
            bwd_w<<<G(Z * H)>>>(d1, z, dh2, BATCH);
            bwd_x<<<G(BATCH * Z)>>>(d1, z, dh2, dz, BATCH, 0);
            stat_grad<<<G(BATCH * Z)>>>(dz, st, eps, ds, BATCH);
            bwd_w<<<G(H * 2 * Z)>>>(e2, h1, ds, BATCH);
            bwd_x<<<G(BATCH * H)>>>(e2, h1, ds, dh1, BATCH, 1);
            bwd_w<<<G(X * H)>>>(e1, x, dh1, BATCH);
            t++;
            for (Linear *l : layers) {
                adam<<<G(l->in * l->out)>>>(l->w, l->dw, l->mw, l->vw, l->in * l->out, t, 0.01f);
                adam<<<G(l->out)>>>(l->b, l->db, l->mb, l->vb, l->out, t, 0.01f);
            }
            cudaMemcpy(hl.data(), loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost);
            for (float v : hl) elbo += v;
        }
        printf("epoch %d  -elbo %.4f\n", epoch, elbo / N);
    }
}
