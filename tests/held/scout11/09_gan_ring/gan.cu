// A small GAN that learns points on a ring. Two networks, two Adam optimizers.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_CHECK(e) do { cudaError_t r_ = (e); if (r_ != cudaSuccess) { printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(r_)); std::exit(1); } } while (0)

const int BATCH = 64, ZDIM = 4, HID = 32, XDIM = 2;
const int ITER = 200;

__global__ void fwd(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int act)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out) return;
    float s = b[t % out];
    for (int k = 0; k < in; k++) s += x[t / out * in + k] * w[k * out + t % out];
    y[t] = act && s < 0 ? 0.2f * s : s;
}

__global__ void bwd_w(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out) return;
    for (int i = 0; i < n; i++) {
        dw[t] += x[i * in + t / out] * dy[i * out + t % out];
        if (t < out) db[t] += dy[i * out + t];
    }
}

__global__ void bwd_x(const float *dy, const float *w, const float *x, float *dx, int n, int in, int out, int act)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in) return;
    float s = 0;
    for (int c = 0; c < out; c++) s += dy[t / in * out + c] * w[t % in * out + c];
    dx[t] = act && x[t] < 0 ? 0.2f * s : s;
}

__global__ void bce_logit(const float *d, float target, float *dd, float *loss, int n)
{
    int t = threadIdx.x;
    if (t >= n) return;
    float p = 1.f / (1.f + expf(-d[t]));
    dd[t] = (p - target) / n;
    atomicAdd(loss, -(target * logf(p + 1e-7f) + (1 - target) * logf(1 - p + 1e-7f)) / n);
}

__global__ void adam(float *w, float *g, float *m, float *v, int n, float lr, float corr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    m[t] = 0.5f * m[t] + 0.5f * g[t];
    v[t] = 0.99f * v[t] + 0.01f * g[t] * g[t];
    w[t] -= lr * corr * m[t] / (sqrtf(v[t]) + 1e-8f);
}

static int G(int n) { return (n + 63) / 64; }

struct Net {
    int dims[4];
    float *w[3], *b[3], *dw[3], *db[3], *mw[3], *vw[3], *mb[3], *vb[3];
    float *a[4], *da[4];
    int t = 0;

    Net(int i, int h, int o, std::mt19937 &rng) : dims{i, h, h, o}
    {
        std::normal_distribution<float> nd;
        for (int l = 0; l < 3; l++) {
            int n = dims[l] * dims[l + 1];
            std::vector<float> init(n);
            for (auto &x : init) x = nd(rng) * std::sqrt(2.f / dims[l]);
            float **bufs[] = {&w[l], &dw[l], &mw[l], &vw[l]};
            for (auto p : bufs) { CUDA_CHECK(cudaMalloc(p, n * 4)); CUDA_CHECK(cudaMemset(*p, 0, n * 4)); }
            float **bb[] = {&b[l], &db[l], &mb[l], &vb[l]};
            for (auto p : bb) { CUDA_CHECK(cudaMalloc(p, dims[l + 1] * 4)); CUDA_CHECK(cudaMemset(*p, 0, dims[l + 1] * 4)); }
            CUDA_CHECK(cudaMemcpy(w[l], init.data(), n * 4, cudaMemcpyHostToDevice));
        }
        for (int l = 0; l < 4; l++) {
            CUDA_CHECK(cudaMalloc(&a[l], BATCH * dims[l] * 4));
            CUDA_CHECK(cudaMalloc(&da[l], BATCH * dims[l] * 4));
        }
    }
    float *forward(const float *x)
    {
        CUDA_CHECK(cudaMemcpy(a[0], x, BATCH * dims[0] * 4, cudaMemcpyDefault));
        for (int l = 0; l < 3; l++) fwd<<<G(BATCH * dims[l + 1]), 64>>>(a[l], w[l], b[l], a[l + 1], BATCH, dims[l], dims[l + 1], l < 2);
        return a[3];
    }
    void zero_grad()
    {
        for (int l = 0; l < 3; l++) {
            cudaMemset(dw[l], 0, dims[l] * dims[l + 1] * 4);
            cudaMemset(db[l], 0, dims[l + 1] * 4);
        }
    }
    void backward()
    {
        for (int l = 2; l >= 0; l--) {
            bwd_w<<<G(dims[l] * dims[l + 1]), 64>>>(a[l], da[l + 1], dw[l], db[l], BATCH, dims[l], dims[l + 1]);
            bwd_x<<<G(BATCH * dims[l]), 64>>>(da[l + 1], w[l], a[l], da[l], BATCH, dims[l], dims[l + 1], l > 0);
        }
    }
    void step(float lr)
    {
        t++;
        float corr = std::sqrt(1 - std::pow(0.99f, t)) / (1 - std::pow(0.5f, t));
        for (int l = 0; l < 3; l++) {
            adam<<<G(dims[l] * dims[l + 1]), 64>>>(w[l], dw[l], mw[l], vw[l], dims[l] * dims[l + 1], lr, corr);
            adam<<<G(dims[l + 1]), 64>>>(b[l], db[l], mb[l], vb[l], dims[l + 1], lr, corr);
        }
    }
};

int main()
{
    std::mt19937 rng(17);
    std::normal_distribution<float> nd;
    std::uniform_real_distribution<float> ud(0.f, 6.2831853f);
    Net gen(ZDIM, HID, XDIM, rng), disc(XDIM, HID, 1, rng);
    float *d_loss;
    CUDA_CHECK(cudaMalloc(&d_loss, 2 * sizeof(float)));

    std::vector<float> real(BATCH * XDIM), z(BATCH * ZDIM), fake(BATCH * XDIM);
    for (int it = 0; it < ITER; it++) {
        for (int i = 0; i < BATCH; i++) {
            float phi = ud(rng);
            real[2 * i] = 2.f * std::cos(phi) + 0.05f * nd(rng);
            real[2 * i + 1] = 2.f * std::sin(phi) + 0.05f * nd(rng);
        }
        for (auto &v : z) v = nd(rng);
        cudaMemset(d_loss, 0, 2 * sizeof(float));

        // discriminator: real batch, then fake batch
        disc.zero_grad();
        bce_logit<<<1, BATCH>>>(disc.forward(real.data()), 1.f, disc.da[3], d_loss, BATCH);
        disc.backward();
        float *x_fake = gen.forward(z.data());
        bce_logit<<<1, BATCH>>>(disc.forward(x_fake), 0.f, disc.da[3], d_loss, BATCH);
        disc.backward();
        disc.step(2e-3f);

        // generator
        gen.zero_grad();
        disc.zero_grad();
        bce_logit<<<1, BATCH>>>(disc.forward(x_fake), 1.f, disc.da[3], d_loss + 1, BATCH);
        disc.backward();
        CUDA_CHECK(cudaMemcpy(gen.da[3], disc.da[0], BATCH * XDIM * sizeof(float), cudaMemcpyDeviceToDevice));
        gen.backward();
        gen.step(2e-3f);

        if (it % 20 == 0 || it == ITER - 1) {
            float l[2];
            cudaMemcpy(l, d_loss, sizeof(l), cudaMemcpyDeviceToHost);
            cudaMemcpy(fake.data(), x_fake, fake.size() * sizeof(float), cudaMemcpyDeviceToHost);
            double off = 0;
            for (int i = 0; i < BATCH; i++) off += std::fabs(std::hypot(fake[2 * i], fake[2 * i + 1]) - 2.0) / BATCH;
            printf("iter %3d  D loss %.4f  G loss %.4f  distance from ring %.4f\n", it, l[0], l[1], off);
        }
    }
    return 0;
}
