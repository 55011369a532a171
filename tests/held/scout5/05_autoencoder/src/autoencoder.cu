// Denoising autoencoder on small synthetic patterns, trained by Adam.
#include "tensor.cuh"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

constexpr int kTile = 16;

// C = op(A) * op(B), optional bias (a row)
template <bool TA, bool TB>
__global__ void matmul(const float *a, const float *b, const float *bias, float *c, int m, int n, int k)
{
    int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
    if (row >= m || col >= n)
        return;
    float acc = bias ? bias[col] : 0.0f;
    for (int i = 0; i < k; ++i)
        acc += (TA ? a[i * m + row] : a[row * k + i]) * (TB ? b[col * k + i] : b[i * n + col]);
    c[row * n + col] = acc;
}

template <bool TA, bool TB>
void gemm(const Tensor<float> &a, const Tensor<float> &b, const float *bias, Tensor<float> &c)
{
    dim3 grid((c.cols() + kTile - 1) / kTile, (c.rows() + kTile - 1) / kTile);
    matmul<TA, TB><<<grid, dim3(kTile, kTile)>>>(a.data(), b.data(), bias, c.data(), c.rows(), c.cols(), TA ? a.rows() : a.cols());
}

template <typename F>
__global__ void map_kernel(F f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        f(i);
}
template <typename F>
void for_each(size_t n, F f)
{
    map_kernel<<<(n + 127) / 128, 128>>>(f, static_cast<int>(n));
}

struct Sigmoid {
    float *x;
    __device__ void operator()(int i) const { x[i] = 1.0f / (1.0f + expf(-x[i])); }
};
struct SigmoidGrad {
    const float *y;
    float *d;
    __device__ void operator()(int i) const { d[i] *= y[i] * (1.0f - y[i]); }
};
struct Reconstruction { // mean squared error over all elements of the batch
    const float *y, *target;
    float *d, *loss;
    int n;
    __device__ void operator()(int i) const
    {
        float e = y[i] - target[i];
        d[i] = 2.0f * e / n;
        loss[i] = e * e;
    }
};
struct ColumnSum {
    const float *d;
    float *out;
    int rows, cols;
    __device__ void operator()(int c) const
    {
        float s = 0.0f;
        for (int r = 0; r < rows; ++r)
            s += d[r * cols + c];
        out[c] = s;
    }
};
struct Adam {
    float *w, *m, *v;
    const float *g;
    float lr, c1, c2;
    __device__ void operator()(int i) const
    {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
    }
};

struct Dense {
    Param w, b;
    Tensor<float> out, delta;
    Dense(int in, int o, int batch, std::mt19937 &rng) : w(in, o), b(1, o), out(batch, o), delta(batch, o)
    {
        std::uniform_real_distribution<float> u(-1.0f, 1.0f);
        std::vector<float> init(w.value.size());
        float s = std::sqrt(6.0f / (in + o));
        for (auto &x : init)
            x = s * u(rng);
        w.value.upload(init);
    }
    void forward(const Tensor<float> &x)
    {
        gemm<false, false>(x, w.value, b.value.data(), out);
        for_each(out.size(), Sigmoid{out.data()});
    }
    void backward(const Tensor<float> &x, Tensor<float> *dx)
    {
        for_each(delta.size(), SigmoidGrad{out.data(), delta.data()});
        gemm<true, false>(x, delta, nullptr, w.grad);
        for_each(delta.cols(), ColumnSum{delta.data(), b.grad.data(), delta.rows(), delta.cols()});
        if (dx)
            gemm<false, true>(delta, w.value, nullptr, *dx);
    }
};

class Optimizer {
public:
    explicit Optimizer(float lr) : lr_(lr) {}
    void add(Param &p) { params_.push_back(&p); }
    void step()
    {
        ++t_;
        float c1 = 1.0f - std::pow(0.9f, t_), c2 = 1.0f - std::pow(0.999f, t_);
        for (Param *p : params_)
            for_each(p->value.size(), Adam{p->value.data(), p->m.data(), p->v.data(), p->grad.data(), lr_, c1, c2});
    }

private:
    float lr_;
    int t_ = 0;
    std::vector<Param *> params_;
};

} // namespace

int main(int argc, char **argv)
{
    int batch_size = 64;
    int steps = 120;
    if (argc > 1)
        batch_size = std::atoi(argv[1]);
    if (argc > 2)
        steps = std::atoi(argv[2]);
    const int dim = 64, code = 12;

    std::mt19937 rng(2021);
    std::uniform_real_distribution<float> uni(0.0f, 1.0f);
    const int n = 1024;
    std::vector<float> clean(n * dim);
    for (int i = 0; i < n; ++i) {
        float fx = 0.5f + 3.0f * uni(rng), fy = 0.5f + 3.0f * uni(rng), ph = 6.28f * uni(rng);
        for (int p = 0; p < dim; ++p)
            clean[i * dim + p] = 0.5f + 0.45f * std::sin(fx * (p % 8) * 0.4f + fy * (p / 8) * 0.4f + ph);
    }

    Dense encoder(dim, code, batch_size, rng), decoder(code, dim, batch_size, rng);
    Optimizer opt(0.02f);
    for (Dense *l : {&encoder, &decoder}) {
        opt.add(l->w);
        opt.add(l->b);
    }

    Tensor<float> x(batch_size, dim), target(batch_size, dim), loss(batch_size, dim);
    std::vector<float> hx(batch_size * dim), ht(batch_size * dim);
    std::normal_distribution<float> noise(0.0f, 0.1f);
    for (int step = 0; step < steps; ++step) {
        for (int b = 0; b < batch_size; ++b) {
            int pick = static_cast<int>(uni(rng) * n) % n;
            for (int p = 0; p < dim; ++p) {
                ht[b * dim + p] = clean[pick * dim + p];
                hx[b * dim + p] = ht[b * dim + p] + noise(rng);
            }
        }
        x.upload(hx);
        target.upload(ht);

        encoder.forward(x);
        decoder.forward(encoder.out);
        for_each(decoder.out.size(), Reconstruction{decoder.out.data(), target.data(), decoder.delta.data(), loss.data(), static_cast<int>(loss.size())});
        decoder.backward(encoder.out, &encoder.delta);
        encoder.backward(x, nullptr);
        opt.step();

        if (step % 20 == 0 || step == steps - 1) {
            float sum = 0.0f;
            for (float l : loss.download())
                sum += l;
            std::printf("step %4d  loss %.5f\n", step, sum / loss.size());
        }
    }
    return 0;
}
