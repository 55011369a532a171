// Two-tower retrieval: query tower 10-8 and item tower 12-8 (tanh), softmax over the items of the batch as negatives;
// SGD, warm-up and cosine rate. Truth: gradients (truth_step over the gradients of both towers). Batches: 60 (batches
// of 32 pairs, pitched rows, the next batch is copied while this one runs).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define TRY(expr)                                                           \
    if (cudaError_t e__ = (expr)) {                                         \
        std::fprintf(stderr, "%s -> %s\n", #expr, cudaGetErrorString(e__)); \
        std::exit(EXIT_FAILURE);                                            \
    }

namespace tt
{

const int B = 32, EMB = 8, LATENT = 5;
const float SCALE = 2.0f;

// a tower: fan-in, weights [in][EMB] and bias in one buffer, gradient in another
struct Tower {
    int in;
    size_t n;
    float *w, *g, *out, *dout;
    float *x[2];
    size_t pitch; // two pitched buffers for the batches
    explicit Tower(int in_) : in(in_), n((in_ + 1) * EMB)
    {
        TRY(cudaMalloc(&w, n * sizeof(float)));
        TRY(cudaMalloc(&g, n * sizeof(float)));
        TRY(cudaMalloc(&out, B * EMB * sizeof(float)));
        TRY(cudaMalloc(&dout, B * EMB * sizeof(float)));
        for (auto &p : x)
            TRY(cudaMallocPitch((void **)&p, &pitch, in * sizeof(float), B));
    }
};

__global__ void
tower_forward(const float *w, const char *x, size_t pitch, int in, float *out)
{
    const float *row = (const float *)(x + blockIdx.x * pitch);
    int k = threadIdx.x;
    float s = w[in * EMB + k];
    for (int i = 0; i < in; ++i)
        s += row[i] * w[i * EMB + k];
    out[blockIdx.x * EMB + k] = tanhf(s);
}

__global__ void
scores(const float *q, const float *it, float *logits)
{
    int r = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int k = 0; k < EMB; ++k)
        s += q[r * EMB + k] * it[c * EMB + k];
    logits[r * B + c] = SCALE * s;
}

// turns logits into their gradients; rank of the right item for the recall
__global__ void
softmax_rows(float *logits, float *loss, int *rank)
{
    __shared__ float red[B];
    int r = blockIdx.x, c = threadIdx.x;
    float z = logits[r * B + c], right = logits[r * B + r];
    int above = __syncthreads_count(z > right);
    red[c] = z;
    __syncthreads();
    for (int o = B / 2; o; o >>= 1) {
        if (c < o)
            red[c] = fmaxf(red[c], red[c + o]);
        __syncthreads();
    }
    float mx = red[0];
    __syncthreads();
    float e = expf(z - mx);
    red[c] = e;
    __syncthreads();
    for (int o = B / 2; o; o >>= 1) {
        if (c < o)
            red[c] += red[c + o];
        __syncthreads();
    }
    float p = e / red[0];
    logits[r * B + c] = (p - (r == c)) / B;
    if (r == c) {
        loss[r] = -logf(p + 1e-20f);
        rank[r] = above;
    }
}

// derivative at the inputs of the tanh; transposed for the item tower
__global__ void
back_embedding(const float *dl, const float *other, const float *out, float *dout, bool transposed)
{
    int r = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int c = 0; c < B; ++c)
        s += (transposed ? dl[c * B + r] : dl[r * B + c]) * other[c * EMB + k];
    float y = out[r * EMB + k];
    dout[r * EMB + k] = SCALE * s * (1 - y * y);
}

__global__ void
back_tower(const char *x, size_t pitch, int in, const float *dout, float *g)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int r = 0; r < B; ++r)
        s += dout[r * EMB + k] * (i < in ? ((const float *)(x + r * pitch))[i] : 1.0f);
    g[i * EMB + k] = s;
}

__global__ void
sgd(float *w, const float *g, size_t n, float lr)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * g[i];
}

struct Source {
    unsigned s = 1234567u;
    float A[LATENT * 10], C[LATENT * 12];
    float u()
    {
        s = s * 1664525u + 1013904223u;
        return (s >> 8) / 8388608.0f - 1.0f;
    }
    Source()
    {
        for (float &a : A)
            a = u();
        for (float &c : C)
            c = u();
    }
    void pair(float *q, float *it)
    {
        float z[LATENT];
        for (float &v : z)
            v = 1.5f * u();
        for (int i = 0; i < 10; ++i) {
            q[i] = 0.1f * u();
            for (int l = 0; l < LATENT; ++l)
                q[i] += A[l * 10 + i] * z[l];
        }
        for (int i = 0; i < 12; ++i) {
            it[i] = 0.1f * u();
            for (int l = 0; l < LATENT; ++l)
                it[i] += C[l * 12 + i] * z[l];
        }
    }
};

} // namespace tt

int
main()
{
    using namespace tt;
    const int STEPS = 60, WARM = 6;
    Source src;
    Tower qt(10), it(12);
    for (Tower *t : {&qt, &it}) {
        std::vector<float> h(t->n, 0.f);
        for (int i = 0; i < t->in * EMB; ++i)
            h[i] = 0.3f * src.u();
        TRY(cudaMemcpy(t->w, h.data(), t->n * sizeof(float), cudaMemcpyHostToDevice));
    }
    float *logits, *loss, *hq[2], *hi[2];
    int *rank;
    TRY(cudaMalloc(&logits, B * B * sizeof(float)));
    TRY(cudaMalloc(&loss, B * sizeof(float)));
    TRY(cudaMalloc(&rank, B * sizeof(int)));
    for (int k = 0; k < 2; ++k) {
        TRY(cudaMallocHost(&hq[k], B * 10 * sizeof(float)));
        TRY(cudaMallocHost(&hi[k], B * 12 * sizeof(float)));
    }
    cudaStream_t up;
    TRY(cudaStreamCreate(&up));

    auto load = [&](int n) {
        int k = n % 2;
        for (int r = 0; r < B; ++r)
            src.pair(hq[k] + r * 10, hi[k] + r * 12);
        TRY(cudaMemcpy2DAsync(qt.x[k], qt.pitch, hq[k], 40, 40, B, cudaMemcpyHostToDevice, up));
        TRY(cudaMemcpy2DAsync(it.x[k], it.pitch, hi[k], 48, 48, B, cudaMemcpyHostToDevice, up));
    };
    auto forward = [&](int k) {
        tower_forward<<<B, EMB>>>(qt.w, (char *)qt.x[k], qt.pitch, qt.in, qt.out);
        tower_forward<<<B, EMB>>>(it.w, (char *)it.x[k], it.pitch, it.in, it.out);
        scores<<<B, B>>>(qt.out, it.out, logits);
        softmax_rows<<<B, B>>>(logits, loss, rank);
    };
    std::vector<float> l(B);
    std::vector<int> rk(B);
    auto fetch = [&]() {
        TRY(cudaMemcpy(l.data(), loss, B * sizeof(float), cudaMemcpyDeviceToHost));
        TRY(cudaMemcpy(rk.data(), rank, B * sizeof(int), cudaMemcpyDeviceToHost));
        float s = 0;
        int first = 0;
        for (int r = 0; r < B; ++r) {
            s += l[r] / B;
            first += rk[r] == 0;
        }
        return std::make_pair(s, first);
    };
    load(0);
    for (int step = 0; step < STEPS; ++step) {
        const int k = step % 2;
        TRY(cudaStreamSynchronize(up));
        forward(k);
        back_embedding<<<B, EMB>>>(logits, it.out, qt.out, qt.dout, false);
        back_embedding<<<B, EMB>>>(logits, qt.out, it.out, it.dout, true);
        back_tower<<<qt.in + 1, EMB>>>((char *)qt.x[k], qt.pitch, qt.in, qt.dout, qt.g);
        back_tower<<<it.in + 1, EMB>>>((char *)it.x[k], it.pitch, it.in, it.dout, it.g);
        load(step + 1); // the one after the last is the test batch
        float lr = 1.2f * (step < WARM ? (step + 1.f) / WARM
                                       : 0.5f + 0.5f * cosf(3.14159265f * (step - WARM) / (STEPS - WARM)));
        if (truth_step({{qt.g, qt.n}, {it.g, it.n}}))
            for (Tower *t : {&qt, &it})
                sgd<<<2, 64>>>(t->w, t->g, t->n, lr);
        auto r = fetch();
        if (step % 10 == 0 || step == STEPS - 1)
            std::printf("step %2d lr %.4f loss %.5f first %d/%d\n", step, lr, r.first, r.second, B);
    }
    TRY(cudaStreamSynchronize(up));
    forward(STEPS % 2);
    auto r = fetch();
    std::printf("held-out loss %.5f recall@1 %.3f\n", r.first, r.second / (float)B);
    truth_dump({{qt.w, qt.n}, {it.w, it.n}});
    TRY(cudaStreamDestroy(up));
    TRY(cudaDeviceReset());
}
