// rbm_pcd.cu
// Binary restricted Boltzmann machine on noisy bars-and-stripes, trained by persistent contrastive
// divergence (Tieleman 2008): the negative phase goes on from the fantasy particles of the last update.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>
#include <iostream>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

// counter-based generator: no state to keep
__host__ __device__ inline uint32_t mix(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9E3779B1u ^ b * 0x85EBCA77u ^ c * 0xC2B2AE3Du;
    h ^= h >> 15; h *= 0x2C1B3C6Du;
    h ^= h >> 12; h *= 0x297A2D39u;
    h ^= h >> 15;
    return h;
}
__host__ __device__ inline float uniform(uint32_t a, uint32_t b, uint32_t c) { return (mix(a, b, c) >> 8) * (1.0f / 16777216.0f); }

// p(h=1|v) for each row; bernoulli sample when Sample
template <int V, int H, bool Sample>
__global__ void up(const float *v, const float *W, const float *c, float *h, int rows, uint32_t seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * H) return;
    int r = i / H, j = i % H;
    float s = c[j];
    for (int k = 0; k < V; ++k) s += v[r * V + k] * W[k * H + j];
    float p = 1.0f / (1.0f + expf(-s));
    h[i] = Sample ? (uniform(seed, i, 1) < p ? 1.0f : 0.0f) : p;
}
template <int V, int H, bool Sample>
__global__ void down(const float *h, const float *W, const float *b, float *v, int rows, uint32_t seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * V) return;
    int r = i / V, k = i % V;
    float s = b[k];
    for (int j = 0; j < H; ++j) s += h[r * H + j] * W[k * H + j];
    float p = 1.0f / (1.0f + expf(-s));
    v[i] = Sample ? (uniform(seed, i, 2) < p ? 1.0f : 0.0f) : p;
}
// log-likelihood gradient: <v h>_data - <v h>_chain; row V is the hidden bias, column H the visible bias
template <int V, int H>
__global__ void statistics(const float *v0, const float *h0, int n0, const float *v1, const float *h1, int n1, float *gW, float *gb, float *gc)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (V + 1) * (H + 1)) return;
    int k = i / (H + 1), j = i % (H + 1);
    float pos = 0.0f, neg = 0.0f;
    for (int r = 0; r < n0; ++r) pos += (k < V ? v0[r * V + k] : 1.0f) * (j < H ? h0[r * H + j] : 1.0f);
    for (int r = 0; r < n1; ++r) neg += (k < V ? v1[r * V + k] : 1.0f) * (j < H ? h1[r * H + j] : 1.0f);
    float g = pos / n0 - neg / n1;
    if (k < V && j < H) gW[k * H + j] = g;
    else if (k < V) gb[k] = g;
    else if (j < H) gc[j] = g;
}
__global__ void ascend(float *p, float *vel, const float *g, int n, float lr, float momentum, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    vel[i] = momentum * vel[i] + lr * (g[i] - decay * p[i]);
    p[i] += vel[i];
}
__global__ void squared_error(const float *a, const float *b, float *out, int n)
{
    __shared__ float s[128];
    float t = 0.0f;
    for (int i = threadIdx.x; i < n; i += 128) t += (a[i] - b[i]) * (a[i] - b[i]);
    s[threadIdx.x] = t;
    __syncthreads();
    for (int w = 64; w > 0; w /= 2) {
        if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = s[0] / n;
}

template <int V, int H>
class RBM {
    static int blocks(int n) { return (n + 127) / 128; }
    static float *alloc(size_t n)
    {
        float *p;
        gpuErrchk(cudaMalloc(&p, n * sizeof(float)));
        gpuErrchk(cudaMemset(p, 0, n * sizeof(float)));
        return p;
    }

public:
    RBM(int batch, int particles) : batch_(batch), particles_(particles)
    {
        W = alloc(V * H);  b = alloc(V);  c = alloc(H);
        mW = alloc(V * H); mb = alloc(V); mc = alloc(H);
        gW = alloc(V * H); gb = alloc(V); gc = alloc(H);
        h0 = alloc(batch * H); recon = alloc(batch * V); err = alloc(1);
        chain_v = alloc(particles * V); chain_h = alloc(particles * H);
        std::vector<float> w(V * H), p(particles * V);
        for (int i = 0; i < V * H; ++i) w[i] = 0.1f * (uniform(11, i, 0) + uniform(12, i, 0) + uniform(13, i, 0) - 1.5f);
        for (int i = 0; i < particles * V; ++i) p[i] = uniform(14, i, 0) < 0.5f;
        gpuErrchk(cudaMemcpy(W, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemcpy(chain_v, p.data(), p.size() * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
        oracle::state(W, V * H); oracle::state(b, V); oracle::state(c, H);
        oracle::state(mW, V * H); oracle::state(mb, V); oracle::state(mc, H);
        oracle::grad(gW, V * H); oracle::grad(gb, V); oracle::grad(gc, H);
        oracle::carried(chain_v, particles * V);      // the mean of particles means nothing: refuse
#endif
    }
    ~RBM()
    {
        for (float *p : {W, b, c, mW, mb, mc, gW, gb, gc, h0, recon, err, chain_v, chain_h}) cudaFree(p);
    }

    void step(const float *v0, uint32_t t, float lr, float momentum)
    {
        // positive phase
        up<V, H, false><<<blocks(batch_ * H), 128>>>(v0, W, c, h0, batch_, 0);
        // negative phase: one Gibbs sweep of the persistent particles
        up<V, H, true><<<blocks(particles_ * H), 128>>>(chain_v, W, c, chain_h, particles_, 2 * t + 100);
        down<V, H, true><<<blocks(particles_ * V), 128>>>(chain_h, W, b, chain_v, particles_, 2 * t + 101);
        up<V, H, false><<<blocks(particles_ * H), 128>>>(chain_v, W, c, chain_h, particles_, 0);
        statistics<V, H><<<blocks((V + 1) * (H + 1)), 128>>>(v0, h0, batch_, chain_v, chain_h, particles_, gW, gb, gc);
#ifdef ORACLE
        if (!oracle::ready()) return;
#endif
        ascend<<<blocks(V * H), 128>>>(W, mW, gW, V * H, lr, momentum, 2e-4f);
        ascend<<<1, V>>>(b, mb, gb, V, lr, momentum, 0.0f);
        ascend<<<1, H>>>(c, mc, gc, H, lr, momentum, 0.0f);
    }

    // mean-field reconstruction of the batch, for watching only
    float reconstruction_error(const float *v0)
    {
        float e;
        up<V, H, false><<<blocks(batch_ * H), 128>>>(v0, W, c, h0, batch_, 0);
        down<V, H, false><<<blocks(batch_ * V), 128>>>(h0, W, b, recon, batch_, 0);
        squared_error<<<1, 128>>>(v0, recon, err, batch_ * V);
        gpuErrchk(cudaMemcpy(&e, err, sizeof(float), cudaMemcpyDeviceToHost));
        return e;
    }

    void save(const char *name) const
    {
        std::vector<float> all(V * H + V + H);
        gpuErrchk(cudaMemcpy(&all[0], W, V * H * sizeof(float), cudaMemcpyDeviceToHost));
        gpuErrchk(cudaMemcpy(&all[V * H], b, V * sizeof(float), cudaMemcpyDeviceToHost));
        gpuErrchk(cudaMemcpy(&all[V * H + V], c, H * sizeof(float), cudaMemcpyDeviceToHost));
        FILE *f = fopen(name, "wb");
        fwrite(all.data(), sizeof(float), all.size(), f);
        fclose(f);
    }

private:
    int batch_, particles_;
    float *W, *b, *c, *mW, *mb, *mc, *gW, *gb, *gc, *h0, *recon, *err, *chain_v, *chain_h;
};

int main(int argc, char **argv)
{
    constexpr int side = 7, V = side * side, H = 32, batch = 32, n = 640, epochs = 10;
    std::vector<float> data(n * V);
    for (int s = 0; s < n; ++s) {
        bool rows = uniform(1, s, 0) < 0.5f;
        float on[side];
        for (int k = 0; k < side; ++k) on[k] = uniform(2, s, k) < 0.4f;
        for (int i = 0; i < V; ++i) {
            float v = rows ? on[i / side] : on[i % side];
            data[s * V + i] = uniform(3, s, i) < 0.02f ? 1.0f - v : v;
        }
    }
    float *d_data;
    gpuErrchk(cudaMalloc(&d_data, data.size() * sizeof(float)));
    gpuErrchk(cudaMemcpy(d_data, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));

    RBM<V, H> rbm(batch, 32);
    uint32_t t = 0;
    for (int e = 0; e < epochs; ++e) {
        float momentum = e < 3 ? 0.5f : 0.8f, lr = e < 7 ? 0.08f : 0.03f, sum = 0.0f;
        for (int k = 0; k < n / batch; ++k, ++t) {
            const float *v0 = d_data + k * batch * V;
#ifdef ORACLE
            oracle::begin();
#endif
            rbm.step(v0, t, lr, momentum);
#ifdef ORACLE
            oracle::end();
#endif
            sum += rbm.reconstruction_error(v0);
        }
        std::cout << "epoch " << e << "  reconstruction error " << sum / (n / batch) << std::endl;
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    rbm.save(argc > 1 ? argv[1] : "model.bin");
    cudaFree(d_data);
    return 0;
}
