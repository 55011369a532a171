// Variational autoencoder on small binary images. The noise of the reparametrisation
// is drawn on the host and copied with the batch.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>

#define BATCH_SIZE 64
#define X_DIM 100
#define H_DIM 32
#define Z_DIM 4
#define N_TRAIN 1024
#define N_ITER 120
#define TPB 128
#define GRID(n) (((n) + TPB - 1) / TPB), TPB

inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }

// y = x W + b, W: in x out
__global__ void linear(const float *x, const float *W, const float *b, float *y, int B, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * out) return;
    int r = t / out, c = t % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * W[k * out + c];
    y[t] = s;
}
__global__ void linear_dw(const float *x, const float *dy, float *dW, float *db, int B, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (in + 1) * out) return;
    int k = t / out, c = t % out;
    float s = 0;
    for (int r = 0; r < B; r++) s += dy[r * out + c] * (k < in ? x[r * in + k] : 1.f);
    if (k < in) dW[t] = s;
    else db[c] = s;
}
__global__ void linear_dx(const float *dy, const float *W, float *dx, int B, int in, int out, int accumulate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * in) return;
    int r = t / in, k = t % in;
    float s = accumulate ? dx[t] : 0;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * W[k * out + c];
    dx[t] = s;
}
__global__ void tanh_fwd(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = tanhf(x[i]); }
__global__ void tanh_bwd(const float *y, float *d, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) d[i] *= 1 - y[i] * y[i]; }
__global__ void sample_z(const float *mu, const float *logvar, const float *eps, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = mu[i] + expf(0.5f * logvar[i]) * eps[i];
}
__global__ void bce(const float *logit, const float *x, float *d, float *loss, int B, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = 1 / (1 + expf(-logit[i]));
    d[i] = (p - x[i]) / B;
    atomicAdd(loss, (fmaxf(logit[i], 0.f) - logit[i] * x[i] + log1pf(expf(-fabsf(logit[i])))) / B);
}
__global__ void kl_grad(const float *mu, const float *logvar, const float *eps, const float *dz, float *dmu, float *dlv, float *loss, int B, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = expf(logvar[i]);
    dmu[i] = dz[i] + mu[i] / B;
    dlv[i] = dz[i] * eps[i] * 0.5f * sqrtf(e) + 0.5f * (e - 1) / B;
    atomicAdd(loss, 0.5f * (mu[i] * mu[i] + e - logvar[i] - 1) / B);
}
__global__ void adam_step(float *p, const float *g, float *m, float *v, int n, float lr, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float b1 = 0.9f, b2 = 0.999f;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    p[i] -= lr * (m[i] / (1 - powf(b1, t))) / (sqrtf(v[i] / (1 - powf(b2, t))) + 1e-8f);
}

struct Buffer {
    float *data, *grad, *m, *v;
    int size;
};

std::map<std::string, Buffer> net;     // parameters by name
std::mt19937 rng(123);

float *dev(int n)
{
    float *p;
    gpuErrchk(cudaMalloc(&p, n * sizeof(float)));
    gpuErrchk(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

void add(const std::string &name, int in, int out)
{
    std::vector<float> h(in * out);
    std::normal_distribution<float> nd(0, 1.0f / sqrtf(in));
    for (auto &x : h) x = nd(rng);
    net[name + ".W"] = {dev(in * out), dev(in * out), dev(in * out), dev(in * out), in * out};
    net[name + ".b"] = {dev(out), dev(out), dev(out), dev(out), out};
    gpuErrchk(cudaMemcpy(net[name + ".W"].data, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
}

void fc(const std::string &name, const float *x, float *y, int in, int out)
{
    linear<<<GRID(BATCH_SIZE * out)>>>(x, net[name + ".W"].data, net[name + ".b"].data, y, BATCH_SIZE, in, out);
}
void fc_back(const std::string &name, const float *x, const float *dy, float *dx, int in, int out, int acc = 0)
{
    linear_dw<<<GRID((in + 1) * out)>>>(x, dy, net[name + ".W"].grad, net[name + ".b"].grad, BATCH_SIZE, in, out);
    if (dx) linear_dx<<<GRID(BATCH_SIZE * in)>>>(dy, net[name + ".W"].data, dx, BATCH_SIZE, in, out, acc);
}

int main()
{
    // blobs: a filled rectangle at a random place
    std::vector<float> images(N_TRAIN * X_DIM, 0.f);
    for (int n = 0; n < N_TRAIN; n++) {
        int y0 = rng() % 6, x0 = rng() % 6, h = 2 + rng() % 3, w = 2 + rng() % 3;
        for (int y = y0; y < y0 + h; y++)
            for (int x = x0; x < x0 + w; x++) images[n * X_DIM + y * 10 + x] = 1.f;
    }

    add("enc", X_DIM, H_DIM);
    add("mu", H_DIM, Z_DIM);
    add("logvar", H_DIM, Z_DIM);
    add("dec1", Z_DIM, H_DIM);
    add("dec2", H_DIM, X_DIM);

    float *x = dev(BATCH_SIZE * X_DIM), *h1 = dev(BATCH_SIZE * H_DIM), *mu = dev(BATCH_SIZE * Z_DIM), *lv = dev(BATCH_SIZE * Z_DIM);
    float *eps = dev(BATCH_SIZE * Z_DIM), *z = dev(BATCH_SIZE * Z_DIM), *h2 = dev(BATCH_SIZE * H_DIM), *out = dev(BATCH_SIZE * X_DIM);
    float *dout = dev(BATCH_SIZE * X_DIM), *dh2 = dev(BATCH_SIZE * H_DIM), *dz = dev(BATCH_SIZE * Z_DIM), *dmu = dev(BATCH_SIZE * Z_DIM);
    float *dlv = dev(BATCH_SIZE * Z_DIM), *dh1 = dev(BATCH_SIZE * H_DIM), *loss = dev(2);

    std::normal_distribution<float> gauss(0, 1);
    std::vector<float> batch(BATCH_SIZE * X_DIM), noise(BATCH_SIZE * Z_DIM);
    for (int it = 1; it <= N_ITER; it++) {
        for (int b = 0; b < BATCH_SIZE; b++) {
            int n = rng() % N_TRAIN;
            std::copy(&images[n * X_DIM], &images[n * X_DIM] + X_DIM, &batch[b * X_DIM]);
        }
        for (auto &e : noise) e = gauss(rng);
        gpuErrchk(cudaMemcpy(x, batch.data(), batch.size() * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemcpy(eps, noise.data(), noise.size() * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemset(loss, 0, 2 * sizeof(float)));

        // forward
        fc("enc", x, h1, X_DIM, H_DIM);
        tanh_fwd<<<GRID(BATCH_SIZE * H_DIM)>>>(h1, BATCH_SIZE * H_DIM);
        fc("mu", h1, mu, H_DIM, Z_DIM);
        fc("logvar", h1, lv, H_DIM, Z_DIM);
        sample_z<<<GRID(BATCH_SIZE * Z_DIM)>>>(mu, lv, eps, z, BATCH_SIZE * Z_DIM);
        fc("dec1", z, h2, Z_DIM, H_DIM);
        tanh_fwd<<<GRID(BATCH_SIZE * H_DIM)>>>(h2, BATCH_SIZE * H_DIM);
        fc("dec2", h2, out, H_DIM, X_DIM);
        bce<<<GRID(BATCH_SIZE * X_DIM)>>>(out, x, dout, loss, BATCH_SIZE, BATCH_SIZE * X_DIM);

        // backward
        fc_back("dec2", h2, dout, dh2, H_DIM, X_DIM);
        tanh_bwd<<<GRID(BATCH_SIZE * H_DIM)>>>(h2, dh2, BATCH_SIZE * H_DIM);
        fc_back("dec1", z, dh2, dz, Z_DIM, H_DIM);
        kl_grad<<<GRID(BATCH_SIZE * Z_DIM)>>>(mu, lv, eps, dz, dmu, dlv, loss + 1, BATCH_SIZE, BATCH_SIZE * Z_DIM);
        fc_back("mu", h1, dmu, dh1, H_DIM, Z_DIM);
        fc_back("logvar", h1, dlv, dh1, H_DIM, Z_DIM, 1);
        tanh_bwd<<<GRID(BATCH_SIZE * H_DIM)>>>(h1, dh1, BATCH_SIZE * H_DIM);
        fc_back("enc", x, dh1, nullptr, X_DIM, H_DIM);

        for (auto &kv : net)
            adam_step<<<GRID(kv.second.size)>>>(kv.second.data, kv.second.grad, kv.second.m, kv.second.v, kv.second.size, 5e-3f, it);

        if (it % 12 == 0 || it == 1) {
            float l[2];
            gpuErrchk(cudaMemcpy(l, loss, sizeof(l), cudaMemcpyDeviceToHost));
            printf("iter %d  elbo %.3f  (bce %.3f, kl %.3f)\n", it, l[0] + l[1], l[0], l[1]);
        }
    }
    return 0;
}
