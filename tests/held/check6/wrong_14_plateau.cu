// Two-layer classifier (spirals) with SGD and momentum; the rate is halved when the loss of the held-out points stops
// falling. cuBLAS for the products.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#include "ddprun.h"

namespace spiral {

const int kIn = 2, kHidden = 40, kClasses = 3, kBatch = 48, kTrain = 480, kHeldOut = 96;

#define TRY(x) do { if (int e_ = (int)(x)) { fprintf(stderr, "%s: error %d, line %d\n", #x, e_, __LINE__); exit(1); } } while (0)

struct Point { float x, y; int label; };

class Points {
  public:
    std::vector<Point> all;
    Points(int n, unsigned seed) : s(seed)
    {
        for (int i = 0; i < n; ++i) {
            Point p;
            p.label = i % kClasses;
            float r = 0.1f + 0.9f * next(), a = 2.1f * p.label + 3.f * r + 0.35f * (next() - 0.5f);
            p.x = 2 * r * cosf(a), p.y = 2 * r * sinf(a);
            all.push_back(p);
        }
    }
  private:
    unsigned s;
    float next() { s = s * 69069u + 1u; return (s >> 8) / 16777216.f; }
};

struct DeviceDeleter { void operator()(void *p) const { cudaFree(p); } };
template <class T> using Device = std::unique_ptr<T[], DeviceDeleter>;
template <class T> Device<T> device(size_t n)
{
    void *p = nullptr;
    TRY(cudaMalloc(&p, n * sizeof(T)));
    TRY(cudaMemset(p, 0, n * sizeof(T)));
    return Device<T>(static_cast<T *>(p));
}

// Column-major, a point for each column; weights [out][in + 1], the last column is the bias (input 1).
__global__ void squash(float *h, int units, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (units + 1) * n) return;
    h[i] = i % (units + 1) == units ? 1.f : tanhf(h[i]);
}
__global__ void cross_entropy(float *z, const int *label, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *q = z + i * kClasses, s = 0.f;
    float own = q[label[i]];
    for (int c = 0; c < kClasses; ++c) s += expf(q[c]);
    for (int c = 0; c < kClasses; ++c) q[c] = (expf(q[c]) / s - (float)(c == label[i])) / n;
    loss[i] = logf(s) - own;
}
__global__ void squash_back(float *d, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= 1.f - h[i] * h[i];
}
__global__ void sgd(float *w, float *v, const float *g, float rate, float decay, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.9f * v[i] + g[i] + decay * w[i];
    w[i] -= rate * v[i];
}

class ReduceOnPlateau {
  public:
    explicit ReduceOnPlateau(float r) : rate(r) {}
    void observe(float loss)
    {
        if (loss < 0.97f * best) best = loss;
        else rate *= 0.5f;
    }
    float rate;
  private:
    float best = 1e30f;
};

class Trainer {
  public:
    Trainer()
    {
        TRY(cublasCreate(&blas));
        std::vector<float> a(n1), b(n2);
        unsigned s = 4711;
        auto next = [&s] { s = s * 69069u + 1u; return (s >> 8) / 8388608.f - 1.f; };
        std::generate(a.begin(), a.end(), next);
        std::generate(b.begin(), b.end(), [&] { return 0.3f * next(); });
        TRY(cudaMemcpy(w1.get(), a.data(), n1 * 4, cudaMemcpyHostToDevice));
        TRY(cudaMemcpy(w2.get(), b.data(), n2 * 4, cudaMemcpyHostToDevice));
        DDP_PARAMETER(w1.get(), n1, DDP_FLOAT32);
        DDP_PARAMETER(w2.get(), n2, DDP_FLOAT32);
        DDP_GRADIENT(g1.get(), n1, DDP_FLOAT32);
        DDP_GRADIENT(g2.get(), n2, DDP_FLOAT32);
        DDP_STATE(v1.get(), n1, DDP_FLOAT32);
        DDP_STATE(v2.get(), n2, DDP_FLOAT32);
    }
    ~Trainer() { cublasDestroy(blas); }

    // mean loss of n points; leaves activations and the gradient at the logits
    float forward(const Point *p, int n)
    {
        std::vector<float> xs(n * (kIn + 1)), l(n);
        std::vector<int> labels(n);
        for (int i = 0; i < n; ++i) {
            xs[i * 3] = p[i].x, xs[i * 3 + 1] = p[i].y, xs[i * 3 + 2] = 1.f;
            labels[i] = p[i].label;
        }
        TRY(cudaMemcpy(x.get(), xs.data(), xs.size() * 4, cudaMemcpyHostToDevice));
        TRY(cudaMemcpy(y.get(), labels.data(), n * 4, cudaMemcpyHostToDevice));
        TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kHidden, n, kIn + 1, &one, w1.get(), kHidden, x.get(), kIn + 1, &zero, h.get(), kHidden + 1));
        squash<<<((kHidden + 1) * n + 127) / 128, 128>>>(h.get(), kHidden, n);
        TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kClasses, n, kHidden + 1, &one, w2.get(), kClasses, h.get(), kHidden + 1, &zero, z.get(), kClasses));
        cross_entropy<<<(n + 31) / 32, 32>>>(z.get(), y.get(), loss.get(), n);
        TRY(cudaMemcpy(l.data(), loss.get(), n * 4, cudaMemcpyDeviceToHost));
        float sum = 0.f;
        for (float v : l) sum += v;
        return sum / n;
    }
    void backward(int n)
    {
        TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kClasses, kHidden + 1, n, &one, z.get(), kClasses, h.get(), kHidden + 1, &zero, g2.get(), kClasses));
        TRY(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, kHidden + 1, n, kClasses, &one, w2.get(), kClasses, z.get(), kClasses, &zero, d.get(), kHidden + 1));
        squash_back<<<((kHidden + 1) * n + 127) / 128, 128>>>(d.get(), h.get(), (kHidden + 1) * n);
        TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kHidden, kIn + 1, n, &one, d.get(), kHidden + 1, x.get(), kIn + 1, &zero, g1.get(), kHidden));
    }
    void update(float rate)
    {
        sgd<<<(n1 + 63) / 64, 64>>>(w1.get(), v1.get(), g1.get(), rate, 1e-4f, n1);
        sgd<<<(n2 + 63) / 64, 64>>>(w2.get(), v2.get(), g2.get(), rate, 1e-4f, n2);
    }
    void save(const char *name)
    {
        std::vector<float> all(n1 + n2);
        TRY(cudaMemcpy(all.data(), w1.get(), n1 * 4, cudaMemcpyDeviceToHost));
        TRY(cudaMemcpy(all.data() + n1, w2.get(), n2 * 4, cudaMemcpyDeviceToHost));
        FILE *f = fopen(name, "wb");
        fwrite(all.data(), 4, all.size(), f);
        fclose(f);
    }

  private:
    static const int n1 = kHidden * (kIn + 1), n2 = kClasses * (kHidden + 1);
    const float one = 1.f, zero = 0.f;
    cublasHandle_t blas;
    Device<float> w1 = device<float>(n1), g1 = device<float>(n1), v1 = device<float>(n1);
    Device<float> w2 = device<float>(n2), g2 = device<float>(n2), v2 = device<float>(n2);
    Device<float> x = device<float>(kHeldOut * 3), h = device<float>(kHeldOut * (kHidden + 1)), d = device<float>(kHeldOut * (kHidden + 1));
    Device<float> z = device<float>(kHeldOut * kClasses), loss = device<float>(kHeldOut);
    Device<int> y = device<int>(kHeldOut);
};

} // namespace spiral

int main(int argc, char **argv)
{
    using namespace spiral;
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    Points train(kTrain, 1), held_out(kHeldOut, 2);
    Trainer trainer;
    ReduceOnPlateau schedule(0.5f);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        float loss = trainer.forward(&train.all[s * kBatch % kTrain + first], (int)count);
        trainer.backward((int)count);
        DDP_STEP(0);
        trainer.update(schedule.rate);
        DDP_MEAN_AS("loss", &loss);
        if (s % 3 == 2) {
            DDP_SHARD(kHeldOut, &first, &count);
            float val_loss = trainer.forward(&held_out.all[first], (int)count);
            schedule.observe(val_loss);
            if (DDP_RANK() == 0) printf("step %d loss %.4f held out %.4f next rate %g\n", s, loss, val_loss, schedule.rate);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) trainer.save(argv[1]);
    return 0;
}
