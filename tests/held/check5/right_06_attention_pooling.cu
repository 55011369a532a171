// Attention pooling over short sequences, then a softmax. Records are dealt out like cards; L2 counts once.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

static const int T = 7, D = 8, K = 4, BATCH = 40, RECORDS = 400, STEPS = 120;
static const int NQ = D, NV = D * K, NP = NQ + NV + K; // query, values, bias

__device__ inline unsigned mix(unsigned a)
{
    a ^= a >> 16, a *= 0x7feb352du, a ^= a >> 15, a *= 0x846ca68bu, a ^= a >> 16;
    return a;
}

// A thread for each record of this rank; its gradient in a row of `rows`.
__global__ void attend(const float *x, const int *label, const float *p, const int *ids, int count, int step,
                       float *rows, float *loss)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count)
        return;
    int id = ids[n];
    const float *s = x + id * T * D;
    float *row = rows + n * NP, a[T], c[D], q[K], z = 0, zq = 0, keep[D];
    for (int t = 0; t < T; ++t) {
        float dot = 0;
        for (int d = 0; d < D; ++d)
            dot += s[t * D + d] * p[d];
        z += a[t] = expf(dot);
    }
    for (int d = 0; d < D; ++d) {
        keep[d] = mix(id * 9781u + step * 271u + d) % 10 ? 1 / .9f : 0.f; // dropout, by the record's number
        c[d] = 0;
        for (int t = 0; t < T; ++t)
            c[d] += a[t] / z * s[t * D + d];
    }
    for (int k = 0; k < K; ++k) {
        float o = p[NQ + NV + k];
        for (int d = 0; d < D; ++d)
            o += keep[d] * c[d] * p[NQ + d * K + k];
        zq += q[k] = expf(o);
    }
    loss[n] = -logf(q[label[id]] / zq);
    float dc[D] = {0}, da[T], mean = 0;
    for (int k = 0; k < K; ++k) {
        float o = (q[k] / zq - (k == label[id])) / count;
        row[NQ + NV + k] = o;
        for (int d = 0; d < D; ++d) {
            row[NQ + d * K + k] = o * keep[d] * c[d];
            dc[d] += o * keep[d] * p[NQ + d * K + k];
        }
    }
    for (int t = 0; t < T; ++t) {
        da[t] = 0;
        for (int d = 0; d < D; ++d)
            da[t] += dc[d] * s[t * D + d];
        mean += a[t] / z * da[t];
    }
    for (int d = 0; d < D; ++d) {
        row[d] = 0;
        for (int t = 0; t < T; ++t)
            row[d] += a[t] / z * (da[t] - mean) * s[t * D + d];
    }
}

__global__ void collect(const float *rows, float *g, int count)
{
    float sum = 0;
    for (int n = 0; n < count; ++n)
        sum += rows[n * NP + threadIdx.x];
    g[threadIdx.x] = sum;
}

__global__ void decay(float *g, const float *w, float lambda)
{
    g[threadIdx.x] += lambda * w[threadIdx.x];
}

__global__ void adagrad(float *w, const float *g, float *h)
{
    int i = threadIdx.x;
    h[i] += g[i] * g[i];
    w[i] -= .1f * g[i] / (sqrtf(h[i]) + 1e-3f);
}

template <typename X> X *upload(const std::vector<X> &v)
{
    X *p;
    cudaMalloc(&p, v.size() * sizeof(X));
    cudaMemcpy(p, v.data(), v.size() * sizeof(X), cudaMemcpyHostToDevice);
    return p;
}

int main()
{
    std::mt19937 rng(99);
    std::normal_distribution<float> normal;
    std::vector<float> hx(RECORDS * T * D), hw(NP);
    std::vector<int> hy(RECORDS);
    for (int r = 0; r < RECORDS; ++r) {
        int where = rng() % T;
        hy[r] = rng() % K;
        for (int i = 0; i < T * D; ++i)
            hx[r * T * D + i] = .6f * normal(rng);
        hx[(r * T + where) * D] += 2;
        hx[(r * T + where) * D + 1 + hy[r]] += 2;
    }
    for (auto &v : hw)
        v = .2f * normal(rng);
    float *x = upload(hx), *w = upload(hw), *g = upload(std::vector<float>(NP)), *h = upload(std::vector<float>(NP));
    float *rows = upload(std::vector<float>(BATCH * NP)), *loss = upload(std::vector<float>(BATCH));
    int *y = upload(hy), *ids = upload(std::vector<int>(BATCH));
    DDP_PARAMETER(w, NP, DDP_FLOAT32);
    DDP_STATE(h, NP, DDP_FLOAT32);
    DDP_GRADIENT(g, NP, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        std::vector<int> mine;
        for (int i = DDP_RANK(); i < BATCH; i += DDP_WORLD_SIZE())
            mine.push_back(step % (RECORDS / BATCH) * BATCH + i);
        int count = (int)mine.size();
        cudaMemcpy(ids, mine.data(), count * sizeof(int), cudaMemcpyHostToDevice);
        attend<<<2, 32>>>(x, y, w, ids, count, step, rows, loss);
        collect<<<1, NP>>>(rows, g, count);
        if (DDP_RANK() == 0) // one rank adds the penalty for all
            decay<<<1, NP>>>(g, w, 2e-3f * DDP_WORLD_SIZE());
        DDP_STEP(0);
        adagrad<<<1, NP>>>(w, g, h);
        if (step % 20 == 0 || step == STEPS - 1) {
            std::vector<float> l(count);
            cudaMemcpy(l.data(), loss, count * 4, cudaMemcpyDeviceToHost);
            double mean = 0;
            for (float v : l)
                mean += v / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                std::printf("step %3d  loss %.7g\n", step, mean);
        }
    }
}
