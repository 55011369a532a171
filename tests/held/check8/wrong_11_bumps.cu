// Random Fourier features with a linear head: an approximate Gaussian-kernel regression of a bumpy function in 3-D.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

struct Config {
    int dims = 3;
    int pairs = 64; // cosine and sine of each frequency
    int batch = 64;
    int rows = 640;
    int outputs = 2;
    float bandwidth = 1.3f;
    float rate = 0.35f;
    float momentum = 0.8f;
    uint64_t seed = 2718;
};
static const int STEPS = 60;

class Random {
  public:
    explicit Random(uint64_t seed) : x_(seed * 0x9E3779B97F4A7C15ull + 1) {}
    float uniform()
    {
        x_ ^= x_ >> 12;
        x_ ^= x_ << 25;
        x_ ^= x_ >> 27;
        return (float)((x_ * 0x2545F4914F6CDD1Dull >> 40) / 16777216.0);
    }
    float gauss()
    {
        float u = uniform() + 1e-7f;
        return std::sqrt(-2.0f * std::log(u)) * std::cos(6.2831853f * uniform());
    }

  private:
    uint64_t x_;
};

inline void ensure(bool good, const char *message)
{
    if (!good) {
        std::fprintf(stderr, "%s\n", message);
        std::exit(1);
    }
}

__global__ void fourier(const float *proj, float *phi, int rows, int pairs, float norm)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * pairs)
        return;
    int r = i / pairs, k = i % pairs;
    phi[r * 2 * pairs + k] = norm * cosf(proj[i]);
    phi[r * 2 * pairs + pairs + k] = norm * sinf(proj[i]);
}

__global__ void squared_error(float *out, const float *bias, const float *target, float *row_loss, int rows, int outputs)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float s = 0.0f;
    for (int o = 0; o < outputs; ++o) {
        float d = out[r * outputs + o] + bias[o] - target[r * outputs + o];
        s += 0.5f * d * d;
        out[r * outputs + o] = d / rows;
    }
    row_loss[r] = s;
}

__global__ void bias_grad(const float *d, float *g, int rows, int outputs)
{
    int o = threadIdx.x;
    if (o >= outputs)
        return;
    float s = 0.0f;
    for (int r = 0; r < rows; ++r)
        s += d[r * outputs + o];
    g[o] = s;
}

__global__ void momentum_step(float *w, float *m, const float *g, int n, float rate, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = mu * m[i] + g[i];
        w[i] -= rate * m[i];
    }
}

class FourierRegression {
  public:
    FourierRegression(const Config &c, Random &init) : c_(c), features_(2 * c.pairs)
    {
        cublasCreate(&blas_);
        int head_n = features_ * c.outputs;
        std::vector<float> freq(c.dims * c.pairs), head(head_n);
        for (float &f : freq)
            f = c.bandwidth * init.gauss();
        for (float &h : head)
            h = 0.05f * init.gauss();
        omega_ = upload(freq);
        head_ = upload(head);
        bias_ = upload(std::vector<float>(c.outputs, 0.0f));
        head_m_ = upload(std::vector<float>(head_n, 0.0f));
        bias_m_ = upload(std::vector<float>(c.outputs, 0.0f));
        head_g_ = upload(std::vector<float>(head_n, 0.0f));
        bias_g_ = upload(std::vector<float>(c.outputs, 0.0f));
        proj_ = upload(std::vector<float>(c.batch * c.pairs));
        phi_ = upload(std::vector<float>(c.batch * features_));
        out_ = upload(std::vector<float>(c.batch * c.outputs));
        loss_ = upload(std::vector<float>(c.batch));

        DDP_PARAMETER(head_, head_n, DDP_FLOAT32);
        DDP_PARAMETER(bias_, c.outputs, DDP_FLOAT32);
        DDP_STATE(head_m_, head_n, DDP_FLOAT32);
        DDP_STATE(bias_m_, c.outputs, DDP_FLOAT32);
        DDP_GRADIENT(head_g_, head_n, DDP_FLOAT32);
        DDP_GRADIENT(bias_g_, c.outputs, DDP_FLOAT32);
    }

    static float *upload(const std::vector<float> &v)
    {
        float *p = nullptr;
        ensure(cudaMalloc(&p, v.size() * sizeof(float)) == cudaSuccess, "out of memory");
        ensure(cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess, "copy");
        return p;
    }

    void train_step(const float *x, const float *y, int n)
    {
        gemm(false, false, n, c_.pairs, c_.dims, x, omega_, proj_);
        fourier<<<(n * c_.pairs + 127) / 128, 128>>>(proj_, phi_, n, c_.pairs, std::sqrt(2.0f / c_.pairs) * 2.0f);
        gemm(false, false, n, c_.outputs, features_, phi_, head_, out_);
        squared_error<<<(n + 31) / 32, 32>>>(out_, bias_, y, loss_, n, c_.outputs);
        gemm(true, false, features_, c_.outputs, n, phi_, out_, head_g_);
        bias_grad<<<1, 32>>>(out_, bias_g_, n, c_.outputs);
        DDP_STEP(0);
        int m = features_ * c_.outputs;
        momentum_step<<<(m + 127) / 128, 128>>>(head_, head_m_, head_g_, m, c_.rate, c_.momentum);
        momentum_step<<<1, 32>>>(bias_, bias_m_, bias_g_, c_.outputs, c_.rate, c_.momentum);
    }

    float loss(int n) const
    {
        std::vector<float> l(n);
        ensure(cudaMemcpy(l.data(), loss_, n * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess, "loss");
        double s = 0;
        for (float v : l)
            s += v;
        return (float)(s / n);
    }

    void save(FILE *f) const
    {
        std::vector<float> v(features_ * c_.outputs);
        cudaMemcpy(v.data(), head_, v.size() * sizeof(float), cudaMemcpyDeviceToHost);
        std::fwrite(v.data(), sizeof(float), v.size(), f);
        cudaMemcpy(v.data(), bias_, c_.outputs * sizeof(float), cudaMemcpyDeviceToHost);
        std::fwrite(v.data(), sizeof(float), c_.outputs, f);
    }

  private:
    void gemm(bool ta, bool tb, int m, int n, int k, const float *a, const float *b, float *c)
    {
        const float one = 1.0f, zero = 0.0f;
        ensure(cublasSgemm(blas_, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
                           tb ? k : n, a, ta ? m : k, &zero, c, n) == CUBLAS_STATUS_SUCCESS,
               "gemm");
    }

    Config c_;
    int features_;
    cublasHandle_t blas_;
    float *omega_, *head_, *bias_, *head_m_, *bias_m_, *head_g_, *bias_g_, *proj_, *phi_, *out_, *loss_;
};

int main(int argc, char **argv)
{
    Config config;
    Random data_rng(config.seed), model_rng(config.seed + 100 + DDP_RANK());

    std::vector<float> x(config.rows * config.dims), y(config.rows * config.outputs);
    for (int r = 0; r < config.rows; ++r) {
        float *p = &x[r * config.dims];
        for (int d = 0; d < config.dims; ++d)
            p[d] = 2.0f * data_rng.uniform() - 1.0f;
        y[r * 2] = std::sin(3.0f * p[0]) * p[1] + 0.5f;
        y[r * 2 + 1] = std::exp(-4.0f * (p[1] * p[1] + p[2] * p[2])) + 0.05f * data_rng.gauss();
    }
    float *dx = FourierRegression::upload(x), *dy = FourierRegression::upload(y);
    FourierRegression model(config, model_rng);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(config.batch, &first, &count);
        size_t at = (size_t)step * config.batch % config.rows + first;
        model.train_step(dx + at * config.dims, dy + at * config.outputs, (int)count);
        if (step % 20 == 0 || step == STEPS - 1) {
            float l = model.loss((int)count);
            DDP_MEAN_AS("loss", &l);
            if (DDP_RANK() == 0)
                std::printf("step %2d loss %.5f\n", step, l);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        ensure(f != nullptr, "cannot write");
        model.save(f);
        std::fclose(f);
    }
    return 0;
}
