// Variational autoencoder, 32-dimensional data, 4 latent variables.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define X_DIM 32
#define H_DIM 32
#define Z_DIM 4
#define BATCH 100
#define NUM 2000
#define EPOCHS 5

#define CUDA_CHECK(x) do { if ((x) != cudaSuccess) { fprintf(stderr, "CUDA failure in line %d\n", __LINE__); exit(1); } } while (0)
#define LAUNCH(n) (((n) + 127) / 128), 128
#define IDX(n) int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= (n)) return;

__global__ void linear(const float *x, const float *W, const float *b, float *y, int m, int in, int out, int act)
{
    IDX(m * out)
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * W[k * out + c];
    y[i] = act == 1 ? tanhf(s) : act == 2 ? 1.f / (1.f + expf(-s)) : s;
}
__global__ void linear_dW(const float *x, const float *dy, float *dW, float *db, int m, int in, int out)
{
    IDX((in + 1) * out)
    int k = i / out, c = i % out;
    float s = 0;
    for (int r = 0; r < m; r++) s += (k < in ? x[r * in + k] : 1.f) * dy[r * out + c];
    if (k < in) dW[i] = s; else db[c] = s;
}
__global__ void linear_dx(const float *dy, const float *W, float *dx, int m, int in, int out, int add)
{
    IDX(m * in)
    int r = i / in, k = i % in;
    float s = add ? dx[i] : 0.f;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * W[k * out + c];
    dx[i] = s;
}
__global__ void dtanh(float *dy, const float *y, int n) { IDX(n) dy[i] *= 1.f - y[i] * y[i]; }
__global__ void reparam(const float *mu, const float *logvar, const float *eps, float *z, int n)
{
    IDX(n) z[i] = mu[i] + expf(0.5f * logvar[i]) * eps[i];
}
// binary cross entropy, its gradient at the logits, as a mean over the batch
__global__ void bce(const float *p, const float *x, float *d, float *loss, int n, int m)
{
    IDX(n)
    d[i] = (p[i] - x[i]) / m;
    atomicAdd(loss, -(x[i] * logf(p[i] + 1e-6f) + (1.f - x[i]) * logf(1.f - p[i] + 1e-6f)) / m);
}
__global__ void kl_back(const float *mu, const float *logvar, const float *eps, const float *dz, float *dmu, float *dlv,
                        float *loss, int n, int m)
{
    IDX(n)
    float v = expf(logvar[i]);
    dmu[i] = dz[i] + mu[i] / m;
    dlv[i] = dz[i] * 0.5f * expf(0.5f * logvar[i]) * eps[i] + 0.5f * (v - 1.f) / m;
    atomicAdd(loss, -0.5f * (1.f + logvar[i] - mu[i] * mu[i] - v) / m);
}
__global__ void adam(float *w, const float *g, float *m, float *v, float lr, float b1t, float b2t, int n)
{
    IDX(n)
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * m[i] / (1.f - b1t) / (sqrtf(v[i] / (1.f - b2t)) + 1e-8f);
}

static std::mt19937 rng(31);

struct Linear {
    int in, out;
    float *W, *b, *dW, *db, *mW, *vW, *mb, *vb;
    Linear(int in_, int out_) : in(in_), out(out_)
    {
        float **ws[] = {&W, &dW, &mW, &vW}, **bs[] = {&b, &db, &mb, &vb};
        for (float **p : ws) { CUDA_CHECK(cudaMalloc(p, in * out * 4)); CUDA_CHECK(cudaMemset(*p, 0, in * out * 4)); }
        for (float **p : bs) { CUDA_CHECK(cudaMalloc(p, out * 4)); CUDA_CHECK(cudaMemset(*p, 0, out * 4)); }
        std::vector<float> h(in * out);
        std::normal_distribution<float> nd(0, 1.f / std::sqrt((float)in));
        for (float &x : h) x = nd(rng);
        CUDA_CHECK(cudaMemcpy(W, h.data(), in * out * 4, cudaMemcpyHostToDevice));
    }
    void forward(const float *x, float *y, int m, int act = 0) { linear<<<LAUNCH(m * out)>>>(x, W, b, y, m, in, out, act); }
    void grad(const float *x, const float *dy, int m) { linear_dW<<<LAUNCH((in + 1) * out)>>>(x, dy, dW, db, m, in, out); }
    void gradInput(const float *dy, float *dx, int m, int add = 0) { linear_dx<<<LAUNCH(m * in)>>>(dy, W, dx, m, in, out, add); }
    void update(float lr, int t)
    {
        float b1 = powf(0.9f, t), b2 = powf(0.999f, t);
        adam<<<LAUNCH(in * out)>>>(W, dW, mW, vW, lr, b1, b2, in * out);
        adam<<<LAUNCH(out)>>>(b, db, mb, vb, lr, b1, b2, out);
    }
};

static float *dev(int n) { float *p; CUDA_CHECK(cudaMalloc(&p, n * sizeof(float))); return p; }

int main()
{
    std::uniform_real_distribution<float> u(0, 1);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> data(NUM * X_DIM);
    for (int n = 0; n < NUM; n++) {  // two blobs on a line of pixels
        float a = u(rng) * X_DIM, b = u(rng) * X_DIM;
        for (int j = 0; j < X_DIM; j++)
            data[n * X_DIM + j] = fminf(1.f, expf(-(j - a) * (j - a) / 8.f) + expf(-(j - b) * (j - b) / 8.f));
    }
    Linear enc(X_DIM, H_DIM), fmu(H_DIM, Z_DIM), flv(H_DIM, Z_DIM), dec(Z_DIM, H_DIM), outp(H_DIM, X_DIM);
    Linear *layers[] = {&enc, &fmu, &flv, &dec, &outp};
    float *x = dev(BATCH * X_DIM), *h = dev(BATCH * H_DIM), *mu = dev(BATCH * Z_DIM), *lv = dev(BATCH * Z_DIM);
    float *eps = dev(BATCH * Z_DIM), *z = dev(BATCH * Z_DIM), *h2 = dev(BATCH * H_DIM), *y = dev(BATCH * X_DIM);
    float *dy = dev(BATCH * X_DIM), *dh2 = dev(BATCH * H_DIM), *dz = dev(BATCH * Z_DIM), *dmu = dev(BATCH * Z_DIM);
    float *dlv = dev(BATCH * Z_DIM), *dh = dev(BATCH * H_DIM), *loss = dev(1);
    std::vector<float> noise(BATCH * Z_DIM);
    int t = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        CUDA_CHECK(cudaMemset(loss, 0, sizeof(float)));
        for (int b = 0; b < NUM / BATCH; b++) {
            CUDA_CHECK(cudaMemcpy(x, data.data() + b * BATCH * X_DIM, BATCH * X_DIM * sizeof(float), cudaMemcpyHostToDevice));
            for (float &e : noise) e = normal(rng);
            CUDA_CHECK(cudaMemcpy(eps, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice));

            enc.forward(x, h, BATCH, 1);
            fmu.forward(h, mu, BATCH);
            flv.forward(h, lv, BATCH);
            reparam<<<LAUNCH(BATCH * Z_DIM)>>>(mu, lv, eps, z, BATCH * Z_DIM);
            dec.forward(z, h2, BATCH, 1);
            outp.forward(h2, y, BATCH, 2);

            bce<<<LAUNCH(BATCH * X_DIM)>>>(y, x, dy, loss, BATCH * X_DIM, BATCH);
            outp.grad(h2, dy, BATCH);
            outp.gradInput(dy, dh2, BATCH);
            dtanh<<<LAUNCH(BATCH * H_DIM)>>>(dh2, h2, BATCH * H_DIM);
            dec.grad(z, dh2, BATCH);
            dec.gradInput(dh2, dz, BATCH);
            kl_back<<<LAUNCH(BATCH * Z_DIM)>>>(mu, lv, eps, dz, dmu, dlv, loss, BATCH * Z_DIM, BATCH);
            fmu.grad(h, dmu, BATCH);
            flv.grad(h, dlv, BATCH);
            fmu.gradInput(dmu, dh, BATCH);
            flv.gradInput(dlv, dh, BATCH, 1);
            dtanh<<<LAUNCH(BATCH * H_DIM)>>>(dh, h, BATCH * H_DIM);
            enc.grad(x, dh, BATCH);
            t++;
            for (Linear *l : layers) l->update(0.01f, t);
        }
        float hl;
        CUDA_CHECK(cudaMemcpy(&hl, loss, sizeof(float), cudaMemcpyDeviceToHost));
        printf("epoch %d  ELBO loss %.4f\n", epoch + 1, hl / (NUM / BATCH));
    }
    return 0;
}
