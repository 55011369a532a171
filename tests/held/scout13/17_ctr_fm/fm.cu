// Factorisation machine for click prediction on hashed categorical fields, Adagrad, managed memory throughout.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <new>
#include <random>

const int FIELDS = 5;
const int BUCKETS = 256;   // hash buckets, shared by all fields
const int FACTORS = 6;
const int BATCH = 128;
const int STEPS = 40;
const float RATE = 0.1f;

struct Impression {
    uint32_t feature[FIELDS];
    float click;
};

// Objects of derived classes live in managed memory
struct Managed {
    void *operator new(size_t n)
    {
        void *p;
        if (cudaMallocManaged(&p, n) != cudaSuccess) throw std::bad_alloc();
        cudaDeviceSynchronize();
        return p;
    }
    void operator delete(void *p)
    {
        cudaDeviceSynchronize();
        cudaFree(p);
    }
};

struct Table : Managed {
    float bias;
    float linear[BUCKETS];
    float factor[BUCKETS][FACTORS];
    Table() { clear(0.f); }
    void clear(float v)
    {
        bias = v;
        for (int b = 0; b < BUCKETS; ++b) {
            linear[b] = v;
            for (int f = 0; f < FACTORS; ++f) factor[b][f] = v;
        }
    }
    static constexpr int count() { return 1 + BUCKETS + BUCKETS * FACTORS; }
};

struct Minibatch : Managed {
    Impression row[BATCH];
    float loss[BATCH];
};

__host__ __device__ inline uint32_t bucket(uint32_t field, uint32_t value)
{
    uint32_t h = (field + 1) * 0x9e3779b1u ^ value * 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return (h ^ h >> 16) % BUCKETS;
}

__global__ void fm_train(const Table *w, Table *g, Minibatch *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Impression &r = b->row[i];
    float score = w->bias, sum[FACTORS];
    for (int f = 0; f < FACTORS; ++f) {
        float s = 0.f, sq = 0.f;
        for (int k = 0; k < FIELDS; ++k) {
            float v = w->factor[r.feature[k]][f];
            s += v;
            sq += v * v;
        }
        sum[f] = s;
        score += 0.5f * (s * s - sq);
    }
    for (int k = 0; k < FIELDS; ++k) score += w->linear[r.feature[k]];
    float p = 1.f / (1.f + expf(-score));
    b->loss[i] = -(r.click > 0.5f ? logf(p + 1e-7f) : logf(1.f - p + 1e-7f));
    float d = (p - r.click) / n;
    atomicAdd(&g->bias, d);
    for (int k = 0; k < FIELDS; ++k) {
        uint32_t j = r.feature[k];
        atomicAdd(&g->linear[j], d);
        for (int f = 0; f < FACTORS; ++f) atomicAdd(&g->factor[j][f], d * (sum[f] - w->factor[j][f]));
    }
}

__global__ void adagrad(float *w, float *g, float *h, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] += g[i] * g[i];
    w[i] -= rate * g[i] / (sqrtf(h[i]) + 1e-4f);
}

class ClickStream {
public:
    explicit ClickStream(unsigned seed) : rng_(seed), normal_(0.f, 1.f)
    {
        for (auto &t : taste_)
            for (float &v : t) v = normal_(rng_);
    }
    void next(Impression *r)
    {
        float s = -0.3f;
        uint32_t value[FIELDS];
        for (int k = 0; k < FIELDS; ++k) {
            value[k] = rng_() % CARDINALITY;
            r->feature[k] = bucket(k, value[k]);
        }
        for (int k = 0; k < FIELDS; ++k) s += 0.8f * taste_[k][value[k]];
        s += 1.2f * taste_[0][value[0]] * taste_[1][value[1]];
        r->click = s + 0.3f * normal_(rng_) > 0.f ? 1.f : 0.f;
    }

private:
    enum { CARDINALITY = 20 };
    std::mt19937 rng_;
    std::normal_distribution<float> normal_;
    float taste_[FIELDS][CARDINALITY];
};

int main()
{
    ClickStream stream(2718);
    Table *weights = new Table, *gradient = new Table, *history = new Table;
    Minibatch *batch = new Minibatch;
    std::mt19937 rng(1);
    std::normal_distribution<float> init(0.f, 0.1f);
    for (auto &row : weights->factor)
        for (float &v : row) v = init(rng);

    double average = 0;
    for (int step = 1; step <= STEPS; ++step) {
        for (int i = 0; i < BATCH; ++i) stream.next(&batch->row[i]);
        gradient->clear(0.f);
        fm_train<<<(BATCH + 31) / 32, 32>>>(weights, gradient, batch, BATCH);
        adagrad<<<(Table::count() + 127) / 128, 128>>>(&weights->bias, &gradient->bias, &history->bias, Table::count(), RATE);
        if (cudaDeviceSynchronize() != cudaSuccess) {
            fprintf(stderr, "kernel failed\n");
            return 1;
        }
        double loss = 0;
        for (int i = 0; i < BATCH; ++i) loss += batch->loss[i];
        average += loss / BATCH;
        if (step % 8 == 0) {
            printf("after %5d impressions: log loss %.4f\n", step * BATCH, average / 8);
            average = 0;
        }
    }
    delete batch;
    delete history;
    delete gradient;
    delete weights;
    return 0;
}
