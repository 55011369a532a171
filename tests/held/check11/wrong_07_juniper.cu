// A one-step control task: in state s the best action is an unknown function of s. A critic learns the return of
// (state, action) from explored actions; an actor climbs the critic's gradient in the action.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

constexpr int kState = 3, kHidden = 24, kBatch = 32, kStates = 512;

static void must(cudaError_t e)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        std::exit(1);
    }
}

static unsigned hash(unsigned a, unsigned b)
{
    unsigned x = a * 0x9e3779b1u ^ (b + 0x85ebca6bu) * 0xc2b2ae35u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    x *= 0x297a2d39u;
    return x ^ x >> 15;
}
static float unit(unsigned a, unsigned b) { return (hash(a, b) >> 8) * (2.0f / 16777216.0f) - 1.0f; }

// y = v . tanh(W x + b) + c, scalar output
struct View {
    float *w, *b, *v, *c;
};

class Net {
public:
    View value, grad;
    int in;
    Net(int inputs, unsigned seed) : in(inputs)
    {
        int sizes[4] = {in * kHidden, kHidden, kHidden, 1};
        float scale[4] = {1.6f, 0.3f, 0.25f, 0.0f};
        float **pv[4] = {&value.w, &value.b, &value.v, &value.c}, **pg[4] = {&grad.w, &grad.b, &grad.v, &grad.c};
        for (int k = 0; k < 4; ++k) {
            std::vector<float> h(sizes[k]);
            for (int i = 0; i < sizes[k]; ++i)
                h[i] = scale[k] * unit(seed + k, i);
            must(cudaMalloc(pv[k], sizes[k] * sizeof(float)));
            must(cudaMalloc(pg[k], sizes[k] * sizeof(float)));
            must(cudaMemset(*pg[k], 0, sizes[k] * sizeof(float)));
            must(cudaMemcpy(*pv[k], h.data(), sizes[k] * sizeof(float), cudaMemcpyHostToDevice));
        }
        DDP_PARAMETER(value.w, in * kHidden, DDP_FLOAT32);
        DDP_PARAMETER(value.b, kHidden, DDP_FLOAT32);
        DDP_PARAMETER(value.v, kHidden, DDP_FLOAT32);
        DDP_PARAMETER(value.c, 1, DDP_FLOAT32);
    }
    void annotateHidden()
    {
        DDP_GRADIENT(grad.w, in * kHidden, DDP_FLOAT32);
        DDP_GRADIENT(grad.b, kHidden, DDP_FLOAT32);
    }
    void annotateHead()
    {
        DDP_GRADIENT(grad.v, kHidden, DDP_FLOAT32);
        DDP_GRADIENT(grad.c, 1, DDP_FLOAT32);
    }
    void save(FILE *f) const
    {
        std::vector<float> h(in * kHidden);
        must(cudaMemcpy(h.data(), value.w, h.size() * sizeof(float), cudaMemcpyDeviceToHost));
        std::fwrite(h.data(), sizeof(float), h.size(), f);
        for (const float *p : {value.b, value.v}) {
            must(cudaMemcpy(h.data(), p, kHidden * sizeof(float), cudaMemcpyDeviceToHost));
            std::fwrite(h.data(), sizeof(float), kHidden, f);
        }
        must(cudaMemcpy(h.data(), value.c, sizeof(float), cudaMemcpyDeviceToHost));
        std::fwrite(h.data(), sizeof(float), 1, f);
    }
};

__global__ void forward(View p, const float *x, float *h, float *y, int n, int in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float out = p.c[0];
    for (int j = 0; j < kHidden; ++j) {
        float s = p.b[j];
        for (int k = 0; k < in; ++k)
            s += x[i * in + k] * p.w[k * kHidden + j];
        h[i * kHidden + j] = tanhf(s);
        out += h[i * kHidden + j] * p.v[j];
    }
    y[i] = out;
}

// dL/dy per row in; one thread a hidden unit
__global__ void backward(View p, View g, const float *x, const float *h, const float *dy, int n, int in)
{
    int j = threadIdx.x;
    float gv = 0, gb = 0, gc = 0;
    for (int k = 0; k < in; ++k)
        g.w[k * kHidden + j] = 0;
    for (int i = 0; i < n; ++i) {
        float a = h[i * kHidden + j], d = dy[i] * p.v[j] * (1 - a * a);
        gv += dy[i] * a;
        gb += d;
        gc += dy[i];
        for (int k = 0; k < in; ++k)
            g.w[k * kHidden + j] += d * x[i * in + k];
    }
    g.v[j] = gv;
    g.b[j] = gb;
    if (j == 0)
        g.c[0] = gc;
}

__global__ void criticError(const float *q, const float *ret, float *dq, float *err, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        float e = q[i] - ret[i];
        err[i] = e * e;
        dq[i] = 2 * e / n;
    }
}

// Puts the actor's action beside the state, for the critic.
__global__ void join(const float *s, const float *a, float *sa, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    for (int k = 0; k < kState; ++k)
        sa[i * (kState + 1) + k] = s[i * kState + k];
    sa[i * (kState + 1) + kState] = a[i];
}

// d(-Q)/d action
__global__ void actionGradient(View p, const float *h, float *da, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    float s = 0;
    for (int j = 0; j < kHidden; ++j)
        s += p.v[j] * (1 - h[i * kHidden + j] * h[i * kHidden + j]) * p.w[kState * kHidden + j];
    da[i] = -s / n;
}

__global__ void apply(View p, View g, int in, float lr)
{
    int j = threadIdx.x;
    for (int k = 0; k < in; ++k)
        p.w[k * kHidden + j] -= lr * g.w[k * kHidden + j];
    p.b[j] -= lr * g.b[j];
    p.v[j] -= lr * g.v[j];
    if (j == 0)
        p.c[0] -= lr * g.c[0];
}

static float best(const float *s) { return 0.7f * std::sin(2 * s[0]) + 0.4f * s[1] - 0.3f * s[2] * s[0]; }

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Net critic(kState + 1, 10), actor(kState, 20);
    critic.annotateHidden();
    critic.annotateHead();
    actor.annotateHidden();
    DDP_GRADIENT_GROUP(1);
    actor.annotateHead();

    float *s, *sa, *ret, *hid, *y, *dy, *err, *ahid, *act;
    must(cudaMalloc(&s, kBatch * kState * sizeof(float)));
    must(cudaMalloc(&sa, kBatch * (kState + 1) * sizeof(float)));
    must(cudaMalloc(&ret, kBatch * sizeof(float)));
    must(cudaMalloc(&hid, kBatch * kHidden * sizeof(float)));
    must(cudaMalloc(&ahid, kBatch * kHidden * sizeof(float)));
    for (float **p : {&y, &dy, &err, &act})
        must(cudaMalloc(p, kBatch * sizeof(float)));

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int n = (int)count;
        std::vector<float> hs(n * kState), hsa(n * (kState + 1)), hret(n);
        for (int i = 0; i < n; ++i) {
            unsigned id = (unsigned)((step * kBatch + first + i) % kStates);
            for (int k = 0; k < kState; ++k)
                hsa[i * (kState + 1) + k] = hs[i * kState + k] = unit(1000 + k, id);
            float a = 1.2f * unit(2000 + step, (unsigned)(first + i)), d = a - best(&hs[i * kState]);
            hsa[i * (kState + 1) + kState] = a;
            hret[i] = 0.5f - d * d;
        }
        must(cudaMemcpy(s, hs.data(), hs.size() * sizeof(float), cudaMemcpyHostToDevice));
        must(cudaMemcpy(sa, hsa.data(), hsa.size() * sizeof(float), cudaMemcpyHostToDevice));
        must(cudaMemcpy(ret, hret.data(), n * sizeof(float), cudaMemcpyHostToDevice));

        forward<<<1, kBatch>>>(critic.value, sa, hid, y, n, kState + 1);
        criticError<<<1, kBatch>>>(y, ret, dy, err, n);
        backward<<<1, kHidden>>>(critic.value, critic.grad, sa, hid, dy, n, kState + 1);
        DDP_STEP_GROUP(0, 0);
        apply<<<1, kHidden>>>(critic.value, critic.grad, kState + 1, 0.16f);

        forward<<<1, kBatch>>>(actor.value, s, ahid, act, n, kState);
        join<<<1, kBatch>>>(s, act, sa, n);
        forward<<<1, kBatch>>>(critic.value, sa, hid, y, n, kState + 1);
        actionGradient<<<1, kBatch>>>(critic.value, hid, dy, n);
        backward<<<1, kHidden>>>(actor.value, actor.grad, s, ahid, dy, n, kState);
        DDP_STEP_GROUP(1, 0);
        apply<<<1, kHidden>>>(actor.value, actor.grad, kState, 0.1f);

        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> e(n), a(n);
            must(cudaMemcpy(e.data(), err, n * sizeof(float), cudaMemcpyDeviceToHost));
            must(cudaMemcpy(a.data(), act, n * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0, cost = 0;
            for (int i = 0; i < n; ++i) {
                float d = a[i] - best(&hs[i * kState]);
                loss += e[i] / n;
                cost += d * d / n;
            }
            DDP_MEAN_AS("loss", &loss);
            DDP_MEAN_AS("cost", &cost);
            if (DDP_RANK() == 0)
                std::printf("%2d critic loss %.4f, cost of the actor %.4f\n", step, loss, cost);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        critic.save(f);
        actor.save(f);
        std::fclose(f);
    }
    return 0;
}
