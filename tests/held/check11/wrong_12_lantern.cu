// Logistic regression with squared features on unbalanced data. Examples with a large loss are drawn more often: the
// host keeps a priority for each example, and draws each batch in proportion to them.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define RAW 12
#define FEAT (RAW * (RAW + 1) / 2 + RAW + 1)
#define EXAMPLES 300
#define BATCH 30

static void ck(cudaError_t e, const char *where)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", where, cudaGetErrorString(e));
        exit(1);
    }
}

struct Lehmer {
    unsigned long long s;
    float get()
    {
        s = s * 48271 % 2147483647;
        return (float)(s / 2147483647.0);
    }
};

// 1, the raw features, and their products
static void expand(const float *raw, float *out)
{
    int k = 0;
    out[k++] = 1;
    for (int i = 0; i < RAW; ++i)
        out[k++] = raw[i];
    for (int i = 0; i < RAW; ++i)
        for (int j = 0; j <= i; ++j)
            out[k++] = raw[i] * raw[j];
}

class Sampler {
public:
    explicit Sampler(int n) : priority_(n, 1.0f), random_{12345} {}
    std::vector<int> draw(int howMany)
    {
        double total = 0;
        for (float p : priority_)
            total += p;
        std::vector<int> picked(howMany);
        for (int &i : picked) {
            double at = random_.get() * total;
            for (i = 0; i + 1 < (int)priority_.size() && at >= priority_[i]; ++i)
                at -= priority_[i];
        }
        return picked;
    }
    void report(int example, float loss) { priority_[example] = 0.1f + loss; }

private:
    std::vector<float> priority_;
    Lehmer random_;
};

__global__ void score(const float *x, const int *pick, const float *label, const float *w, float *d, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z = 0, y = label[pick[i]];
    for (int k = 0; k < FEAT; ++k)
        z += x[pick[i] * FEAT + k] * w[k];
    loss[i] = fmaxf(z, 0.0f) - z * y + log1pf(expf(-fabsf(z)));
    d[i] = 1 / (1 + expf(-z)) - y;
}

__global__ void collect(const float *x, const int *pick, const float *d, float *g, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= FEAT)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += x[pick[i] * FEAT + k] * d[i];
    g[k] = s / n;
}

__global__ void move(float *w, float *velocity, const float *g, float rate)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < FEAT) {
        velocity[k] = 0.7f * velocity[k] - rate * g[k];
        w[k] += velocity[k];
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Lehmer r = {2024};
    std::vector<float> x(EXAMPLES * FEAT), y(EXAMPLES);
    for (int i = 0; i < EXAMPLES; ++i) {
        float raw[RAW], sum = 0;
        for (int k = 0; k < RAW; ++k)
            raw[k] = 2 * r.get() - 1;
        for (int k = 0; k + 1 < RAW; k += 2)
            sum += raw[k] * raw[k + 1] + 0.3f * raw[k];
        y[i] = sum > 0.5f;
        expand(raw, &x[i * FEAT]);
    }
    float *dx, *dy, *w, *g, *velocity, *d, *loss;
    int *pick;
    ck(cudaMalloc(&dx, x.size() * sizeof(float)), "x");
    ck(cudaMalloc(&dy, y.size() * sizeof(float)), "y");
    ck(cudaMalloc(&w, FEAT * sizeof(float)), "w");
    ck(cudaMalloc(&g, FEAT * sizeof(float)), "g");
    ck(cudaMalloc(&velocity, FEAT * sizeof(float)), "velocity");
    ck(cudaMalloc(&d, BATCH * sizeof(float)), "d");
    ck(cudaMalloc(&loss, BATCH * sizeof(float)), "loss");
    ck(cudaMalloc(&pick, BATCH * sizeof(int)), "pick");
    ck(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice), "x");
    ck(cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice), "y");
    ck(cudaMemset(w, 0, FEAT * sizeof(float)), "w");
    ck(cudaMemset(velocity, 0, FEAT * sizeof(float)), "velocity");
    DDP_PARAMETER(w, FEAT, DDP_FLOAT32);
    DDP_STATE(velocity, FEAT, DDP_FLOAT32);
    DDP_GRADIENT(g, FEAT, DDP_FLOAT32);

    Sampler sampler(EXAMPLES);
    for (int step = 0; step < steps; ++step) {
        std::vector<int> batch = sampler.draw(BATCH);
        size_t first, count;
        DDP_SHARD(batch.size(), &first, &count);
        int n = (int)count;
        ck(cudaMemcpy(pick, &batch[first], n * sizeof(int), cudaMemcpyHostToDevice), "pick");

        score<<<1, 32>>>(dx, pick, dy, w, d, loss, n);
        collect<<<(FEAT + 31) / 32, 32>>>(dx, pick, d, g, n);
        DDP_STEP(0);
        move<<<(FEAT + 31) / 32, 32>>>(w, velocity, g, 0.3f);

        float each[BATCH], mean = 0;
        ck(cudaMemcpy(each, loss, n * sizeof(float), cudaMemcpyDeviceToHost), "loss");
        for (int i = 0; i < n; ++i) {
            sampler.report(batch[first + i], each[i]);
            mean += each[i] / n;
        }
        if (step % 10 == 0 || step == steps - 1) {
            // On all examples, not on the drawn ones only.
            std::vector<float> hw(FEAT);
            ck(cudaMemcpy(hw.data(), w, FEAT * sizeof(float), cudaMemcpyDeviceToHost), "w");
            double all = 0;
            for (int i = 0; i < EXAMPLES; ++i) {
                double z = 0;
                for (int k = 0; k < FEAT; ++k)
                    z += x[i * FEAT + k] * hw[k];
                all += log1p(exp(y[i] > 0.5f ? -z : z)) / EXAMPLES;
            }
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d batch %.4f, loss of all examples %.4f\n", step, mean, all);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        std::vector<float> out(FEAT);
        ck(cudaMemcpy(out.data(), w, FEAT * sizeof(float), cudaMemcpyDeviceToHost), "save");
        FILE *f = fopen(argv[1], "wb");
        fwrite(out.data(), sizeof(float), FEAT, f);
        fclose(f);
    }
    return 0;
}
