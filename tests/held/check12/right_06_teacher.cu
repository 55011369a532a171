// Mean teacher: a student fits noisy labels and a slowly following copy of itself on jittered inputs; the batch grows.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

#define IN 5
#define HID 20
#define NP (HID * IN + 2 * HID + 1)
#define POOL 500
#define MAXB 80
#define STEPS 60

class Noise {
    unsigned s;
public:
    explicit Noise(unsigned seed) : s(seed) {}
    float operator()()
    {
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        return (s >> 8) / 8388608.0f - 1.0f;
    }
    int index(int n) { float f = (*this)() * 0.5f + 0.5f; int i = (int)(f * n); return i < n ? i : n - 1; }
};

__global__ void mlp(const float *p, const float *x, float *h, float *o, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *b = p + HID * IN, *v = b + HID;
    float s = v[HID];
    for (int j = 0; j < HID; ++j) {
        float a = b[j];
        for (int k = 0; k < IN; ++k) a += p[j * IN + k] * x[i * IN + k];
        a = tanhf(a);
        h[i * HID + j] = a;
        s += v[j] * a;
    }
    o[i] = s;
}

__global__ void errors(const float *student, const float *teacher, const float *y, float *d, int n, float trust)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = (student[i] - y[i]) + trust * (student[i] - teacher[i]);
}

__global__ void gradient(const float *p, const float *x, const float *h, const float *d, float *g, int n)
{
    int j = threadIdx.x;
    if (j > HID) return;
    const float *v = p + HID * IN + HID;
    float gv = 0, gb = 0, gw[IN] = {0};
    for (int i = 0; i < n; ++i) {
        float a = j < HID ? h[i * HID + j] : 1.0f;
        gv += d[i] * a;
        if (j == HID) continue;
        float e = d[i] * v[j] * (1 - a * a);
        gb += e;
        for (int k = 0; k < IN; ++k) gw[k] += e * x[i * IN + k];
    }
    g[HID * IN + HID + j] = gv / n;
    if (j == HID) return;
    g[HID * IN + j] = gb / n;
    for (int k = 0; k < IN; ++k) g[j * IN + k] = gw[k] / n;
}

__global__ void follow(float *student, float *teacher, const float *g, float rate, float keep)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= NP) return;
    student[t] -= rate * g[t];
    teacher[t] = keep * teacher[t] + (1 - keep) * student[t];
}

struct Batch {
    std::vector<float> clean, jitter, y;
    void fill(Noise &r, const std::vector<float> &x, const std::vector<float> &labels, int n)
    {
        clean.clear(); jitter.clear(); y.clear();
        for (int i = 0; i < n; ++i) {
            int at = r.index((int)labels.size());
            y.push_back(labels[at] + 0.3f * r());
            for (int k = 0; k < IN; ++k) {
                clean.push_back(x[at * IN + k]);
                jitter.push_back(x[at * IN + k] + 0.1f * r());
            }
        }
    }
};

static float *alloc(size_t n)
{
    float *p = nullptr;
    cudaMalloc(&p, n * sizeof(float));
    return p;
}
static void upload(float *d, const float *h, size_t n) { cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice); }

int main(int argc, char **argv)
{
    Noise r(90210);
    std::vector<float> x(POOL * IN), labels(POOL), p(NP);
    for (int i = 0; i < POOL; ++i) {
        for (int k = 0; k < IN; ++k) x[i * IN + k] = 1.5f * r();
        labels[i] = cosf(2 * x[i * IN]) + x[i * IN + 1] * x[i * IN + 2];
    }
    for (float &f : p) f = 0.5f * r();
    float *student = alloc(NP), *teacher = alloc(NP), *g = alloc(NP);
    float *clean = alloc(MAXB * IN), *jitter = alloc(MAXB * IN), *y = alloc(MAXB);
    float *h = alloc(MAXB * HID), *th = alloc(MAXB * HID), *so = alloc(MAXB), *to = alloc(MAXB), *d = alloc(MAXB);
    upload(student, p.data(), NP);
    upload(teacher, p.data(), NP);
    DDP_PARAMETER(student, NP, DDP_FLOAT32);
    DDP_GRADIENT(g, NP, DDP_FLOAT32);

    Batch batch;
    for (int step = 0; step < STEPS; ++step) {
        const int total = 17 + step;
        batch.fill(r, x, labels, total);
        size_t first, count;
        DDP_SHARD(total, &first, &count);
        DDP_WEIGHT(count, total);
        const int n = (int)count;
        upload(clean, &batch.clean[first * IN], n * IN);
        upload(jitter, &batch.jitter[first * IN], n * IN);
        upload(y, &batch.y[first], n);
        mlp<<<(n + 31) / 32, 32>>>(teacher, clean, th, to, n);
        mlp<<<(n + 31) / 32, 32>>>(student, jitter, h, so, n);
        errors<<<(n + 31) / 32, 32>>>(so, to, y, d, n, 0.5f * step / STEPS);
        gradient<<<1, 32>>>(student, jitter, h, d, g, n);
        DDP_STEP(0);
        follow<<<(NP + 63) / 64, 64>>>(student, teacher, g, 0.15f, 0.9f);
        if (step % 10 == 0 || step == STEPS - 1) {
            std::vector<float> o(n);
            cudaMemcpy(o.data(), so, n * sizeof(float), cudaMemcpyDeviceToHost);
            float sum = 0;
            for (int i = 0; i < n; ++i) {
                float e = o[i] - batch.y[first + i];
                sum += e * e;
            }
            DDP_REDUCE(&sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
            if (DDP_RANK() == 0) std::printf("step %d batch %d mse %.4f\n", step, total, sum / total);
        }
    }
    cudaMemcpy(p.data(), student, NP * sizeof(float), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(p.data(), sizeof(float), NP, f);
        std::fclose(f);
    }
    return 0;
}
