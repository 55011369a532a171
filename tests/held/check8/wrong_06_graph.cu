// Semi-supervised node classification with a two-layer graph convolutional network (full-batch, cuBLAS).
// Every rank propagates through the whole graph; the loss is taken on this rank's part of the nodes.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddprun.h"

using std::vector;

static void cu(cudaError_t e)
{
    if (e != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}

const int NODES = 120, FEAT = 12, HIDDEN = 16, CLASSES = 4, STEPS = 60;

template <typename T> class Device {
  public:
    explicit Device(size_t n) : n_(n)
    {
        cu(cudaMalloc(&p_, n * sizeof(T)));
        cu(cudaMemset(p_, 0, n * sizeof(T)));
    }
    explicit Device(const vector<T> &v) : Device(v.size())
    {
        cu(cudaMemcpy(p_, v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Device() { cudaFree(p_); }
    Device(const Device &) = delete;
    T *get() const { return p_; }
    size_t size() const { return n_; }
    vector<T> host() const
    {
        vector<T> v(n_);
        cu(cudaMemcpy(v.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }

  private:
    T *p_;
    size_t n_;
};

class Lcg {
  public:
    explicit Lcg(unsigned seed) : s_(seed) {}
    float next()
    {
        s_ = s_ * 22695477u + 1u;
        return float(s_ >> 8) / float(1 << 24);
    }
    int below(int n) { return int(next() * n) % n; }

  private:
    unsigned s_;
};

class Blas {
  public:
    Blas() { cublasCreate(&h_); }
    ~Blas() { cublasDestroy(h_); }
    // row-major C = A(m x k) B(k x n); either may be stored transposed
    void mm(const float *a, const float *b, float *c, int m, int n, int k, bool ta = false, bool tb = false)
    {
        float one = 1, zero = 0;
        cublasSgemm(h_, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, tb ? k : n, a,
                    ta ? m : k, &zero, c, n);
    }

  private:
    cublasHandle_t h_;
};

__global__ void relu(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = fmaxf(x[i], 0.0f);
}

__global__ void relu_gate(float *d, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] <= 0.0f)
        d[i] = 0.0f;
}

// label -1: the node has none
__global__ void node_loss(const float *logit, const int *label, float *dlogit, float *loss, int from, int to, int labelled)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= NODES)
        return;
    bool mine = v >= from && v < to && label[v] >= 0;
    float top = -1e30f, sum = 0;
    for (int c = 0; c < CLASSES; ++c)
        top = fmaxf(top, logit[v * CLASSES + c]);
    for (int c = 0; c < CLASSES; ++c)
        sum += expf(logit[v * CLASSES + c] - top);
    for (int c = 0; c < CLASSES; ++c) {
        float p = expf(logit[v * CLASSES + c] - top) / sum;
        dlogit[v * CLASSES + c] = mine ? (p - (c == label[v] ? 1.0f : 0.0f)) / labelled : 0.0f;
    }
    loss[v] = mine ? (top + logf(sum) - logit[v * CLASSES + label[v]]) / labelled : 0.0f;
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float d = g[i] + decay * w[i];
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.99f * v[i] + 0.01f * d * d;
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
}

struct Layer {
    Device<float> w, g, m, v;
    Layer(const vector<float> &init) : w(init), g(init.size()), m(init.size()), v(init.size())
    {
        int n = (int)init.size();
        DDP_PARAMETER(w.get(), n, DDP_FLOAT32);
        DDP_GRADIENT(g.get(), n, DDP_FLOAT32);
        DDP_STATE(m.get(), n, DDP_FLOAT32);
        DDP_STATE(v.get(), n, DDP_FLOAT32);
    }
    void update(int t, float lr)
    {
        int n = (int)w.size();
        adam<<<(n + 63) / 64, 64>>>(w.get(), g.get(), m.get(), v.get(), n, lr, 1 - powf(0.9f, t), 1 - powf(0.99f, t),
                                    1e-3f);
    }
};

int main(int argc, char **argv)
{
    Lcg rng(31337);
    // Four communities; edges mostly inside one.
    vector<int> community(NODES), label(NODES, -1);
    vector<float> adj(NODES * NODES, 0.0f), feat(NODES * FEAT);
    for (int v = 0; v < NODES; ++v) {
        community[v] = v * 7 % CLASSES;
        if (rng.next() < (v < 70 ? 0.6f : 0.25f))
            label[v] = community[v];
        for (int f = 0; f < FEAT; ++f)
            feat[v * FEAT + f] = rng.next() - 0.5f + (f % CLASSES == community[v] ? 0.25f : 0.0f);
        adj[v * NODES + v] = 1;
    }
    for (int e = 0; e < 500; ++e) {
        int a = rng.below(NODES), b = rng.below(NODES);
        if (community[a] == community[b] || rng.next() < 0.08f)
            adj[a * NODES + b] = adj[b * NODES + a] = 1;
    }
    vector<float> deg(NODES, 0.0f);
    for (int a = 0; a < NODES; ++a)
        for (int b = 0; b < NODES; ++b)
            deg[a] += adj[a * NODES + b];
    for (int a = 0; a < NODES; ++a)
        for (int b = 0; b < NODES; ++b)
            adj[a * NODES + b] /= std::sqrt(deg[a] * deg[b]);
    vector<float> i1(FEAT * HIDDEN), i2(HIDDEN * CLASSES);
    for (float &x : i1)
        x = rng.next() - 0.5f;
    for (float &x : i2)
        x = rng.next() - 0.5f;

    Device<float> a(adj), x(feat), ax(NODES * FEAT), h(NODES * HIDDEN), hw(NODES * CLASSES), logit(NODES * CLASSES);
    Device<float> dlogit(NODES * CLASSES), dhw(NODES * CLASSES), dh(NODES * HIDDEN), loss(NODES);
    Device<int> y(label);
    Layer first_layer(i1), second_layer(i2);
    Blas blas;
    blas.mm(a.get(), x.get(), ax.get(), NODES, FEAT, NODES);

    size_t begin, share;
    DDP_SHARD(NODES, &begin, &share);
    int n_labelled = 0;
    for (size_t v = begin; v < begin + share; ++v)
        n_labelled += label[v] >= 0;

    for (int step = 1; step <= STEPS; ++step) {
        blas.mm(ax.get(), first_layer.w.get(), h.get(), NODES, HIDDEN, FEAT);
        relu<<<(NODES * HIDDEN + 127) / 128, 128>>>(h.get(), NODES * HIDDEN);
        blas.mm(h.get(), second_layer.w.get(), hw.get(), NODES, CLASSES, HIDDEN);
        blas.mm(a.get(), hw.get(), logit.get(), NODES, CLASSES, NODES);
        node_loss<<<(NODES + 31) / 32, 32>>>(logit.get(), y.get(), dlogit.get(), loss.get(), (int)begin,
                                             (int)(begin + share), n_labelled);
        blas.mm(a.get(), dlogit.get(), dhw.get(), NODES, CLASSES, NODES, true);
        blas.mm(h.get(), dhw.get(), second_layer.g.get(), HIDDEN, CLASSES, NODES, true);
        blas.mm(dhw.get(), second_layer.w.get(), dh.get(), NODES, HIDDEN, CLASSES, false, true);
        relu_gate<<<(NODES * HIDDEN + 127) / 128, 128>>>(dh.get(), h.get(), NODES * HIDDEN);
        blas.mm(ax.get(), dh.get(), first_layer.g.get(), FEAT, HIDDEN, NODES, true);
        DDP_STEP(0);
        first_layer.update(step, 0.02f);
        second_layer.update(step, 0.02f);
        if (step % 12 == 0 || step == 1) {
            float sum = 0;
            for (float l : loss.host())
                sum += l;
            DDP_MEAN(&sum);
            if (DDP_RANK() == 0)
                std::printf("epoch %2d  loss %.4f\n", step, sum);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Layer *l : {&first_layer, &second_layer}) {
            vector<float> v = l->w.host();
            std::fwrite(v.data(), sizeof(float), v.size(), f);
        }
        std::fclose(f);
    }
    return 0;
}
