/*
 * Physics informed network for the relaxation u' = cos(2 t) - k u with u(0) = 1, on 0 <= t <= 3.
 * Trial solution u(t) = 1 + t N(t), where N is one hidden layer of tanh units; the loss is the mean squared residual at
 * the collocation points. Derivatives are written out by hand, in double precision.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

static const double kRate = 1.5;
static const int kUnits = 40, kPoints = 600, kBatch = 60, kSteps = 240;

static void verify(cudaError_t code, int line)
{
    if (code == cudaSuccess) return;
    std::fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(code));
    std::exit(1);
}
#define VERIFY(x) verify((x), __LINE__)

using DoublePtr = std::unique_ptr<double[], std::function<void(double *)>>;

static DoublePtr make_doubles(int n)
{
    double *p;
    VERIFY(cudaMalloc(&p, n * sizeof(double)));
    VERIFY(cudaMemset(p, 0, n * sizeof(double)));
    return DoublePtr(p, [](double *q) { cudaFree(q); });
}

__global__ void residuals(const double *t, const double *w, const double *b, const double *v, const double *c, double *res, double k, int n, int units)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double N = c[0], dN = 0;
    for (int j = 0; j < units; ++j) {
        double h = tanh(w[j] * t[i] + b[j]);
        N += v[j] * h;
        dN += v[j] * (1 - h * h) * w[j];
    }
    double u = 1 + t[i] * N, du = N + t[i] * dN;
    res[i] = du + k * u - cos(2 * t[i]);
}

// block j: the gradient of unit j; the last block: of c
__global__ void gradients(const double *t, const double *res, const double *w, const double *b, const double *v,
                          double *gw, double *gb, double *gv, double *gc, double k, int n, int units, double scale)
{
    __shared__ double sw[32], sb[32], sv[32];
    const int j = blockIdx.x, l = threadIdx.x;
    double aw = 0, ab = 0, av = 0;
    for (int i = l; i < n; i += blockDim.x) {
        const double x = t[i], r = 2 * res[i] * scale;
        if (j == units) {
            av += r * (1 + k * x);
            continue;
        }
        const double h = tanh(w[j] * x + b[j]), s = 1 - h * h;
        av += r * (h + x * s * w[j] + k * x * h);
        ab += r * v[j] * (s - 2 * x * w[j] * h * s + k * x * s);
        aw += r * v[j] * (s * x + x * (s - 2 * w[j] * h * s * x) + k * x * s * x);
    }
    sw[l] = aw, sb[l] = ab, sv[l] = av;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (l < half) sw[l] += sw[l + half], sb[l] += sb[l + half], sv[l] += sv[l + half];
        __syncthreads();
    }
    if (l == 0) {
        if (j == units) {
            gc[0] = sv[0];
        } else {
            gw[j] = sw[0];
            gb[j] = sb[0];
            gv[j] = sv[0];
        }
    }
}

__global__ void adam(double *p, const double *g, double *m, double *v, int n, double rate, double c1, double c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9 * m[i] + 0.1 * g[i];
    v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
    p[i] -= rate * (m[i] / c1) / (sqrt(v[i] / c2) + 1e-10);
}

struct Param {
    int n;
    DoublePtr value, grad, m, v;
    explicit Param(int count) : n(count), value(make_doubles(n)), grad(make_doubles(n)), m(make_doubles(n)), v(make_doubles(n)) {}
    void randomize(std::mt19937_64 &rng, double lo, double hi)
    {
        std::uniform_real_distribution<double> d(lo, hi);
        std::vector<double> h(n);
        for (double &x : h) x = d(rng);
        VERIFY(cudaMemcpy(value.get(), h.data(), n * sizeof(double), cudaMemcpyHostToDevice));
    }
};

int main()
{
    std::mt19937_64 rng(3);
    std::vector<double> points(kPoints);
    for (int i = 0; i < kPoints; ++i) points[i] = 3.0 * (i + 0.5) / kPoints;
    std::shuffle(points.begin(), points.end(), rng);
    DoublePtr t = make_doubles(kPoints), res = make_doubles(kBatch);
    VERIFY(cudaMemcpy(t.get(), points.data(), kPoints * sizeof(double), cudaMemcpyHostToDevice));

    Param w(kUnits), b(kUnits), v(kUnits), c(1);
    w.randomize(rng, -2.5, 2.5);
    b.randomize(rng, -2.5, 2.5);
    v.randomize(rng, -0.3, 0.3);

    std::vector<double> h(kBatch);
    for (int step = 1; step <= kSteps; ++step) {
        const double *batch = t.get() + (step - 1) * kBatch % kPoints;
        residuals<<<(kBatch + 31) / 32, 32>>>(batch, w.value.get(), b.value.get(), v.value.get(), c.value.get(), res.get(), kRate, kBatch, kUnits);
        gradients<<<kUnits + 1, 32>>>(batch, res.get(), w.value.get(), b.value.get(), v.value.get(), w.grad.get(), b.grad.get(), v.grad.get(),
                                      c.grad.get(), kRate, kBatch, kUnits, 1.0 / kBatch);

        const double rate = 0.02 * std::pow(0.5, step / 80.0);
        const double c1 = 1 - std::pow(0.9, step), c2 = 1 - std::pow(0.999, step);
        for (Param *p : {&w, &b, &v, &c})
            adam<<<(p->n + 63) / 64, 64>>>(p->value.get(), p->grad.get(), p->m.get(), p->v.get(), p->n, rate, c1, c2);

        if (step % 20 == 0) {
            VERIFY(cudaMemcpy(h.data(), res.get(), kBatch * sizeof(double), cudaMemcpyDeviceToHost));
            double sum = 0;
            for (double r : h) sum += r * r;
            std::printf("step %3d  residual %.6e\n", step, sum / kBatch);
        }
    }
    return 0;
}
