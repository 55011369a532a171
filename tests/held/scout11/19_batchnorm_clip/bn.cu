// MLP with batch normalisation, gradient clipping by global norm, weight decay, and a validation set.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CK(x) do { auto e_ = (x); if (e_ != 0) { std::fprintf(stderr, "%s failed (%d) at line %d\n", #x, (int)e_, __LINE__); std::exit(1); } } while (0)

namespace {

const int D = 24, H = 64, C = 6;

// all parameters in one vector, in this order
enum Offset { W1 = 0, GAMMA = W1 + D * H, BETA = GAMMA + H, W2 = BETA + H, B2 = W2 + H * C, TOTAL = B2 + C };

template <typename T>
T *device_alloc(size_t n)
{
    T *p;
    CK(cudaMalloc(&p, n * sizeof(T)));
    CK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}

__global__ void bn_forward(const float *z, const float *gamma, const float *beta, float *running_mean, float *running_var, float *xhat, float *istd, float *a,
                           int n, bool training)
{
    int j = threadIdx.x;
    float mean, var;
    if (training) {
        mean = var = 0;
        for (int i = 0; i < n; ++i) mean += z[i * H + j];
        mean /= n;
        for (int i = 0; i < n; ++i) var += (z[i * H + j] - mean) * (z[i * H + j] - mean);
        var /= n;
        running_mean[j] = 0.9f * running_mean[j] + 0.1f * mean;
        running_var[j] = 0.9f * running_var[j] + 0.1f * var;
    } else {
        mean = running_mean[j];
        var = running_var[j];
    }
    istd[j] = rsqrtf(var + 1e-5f);
    for (int i = 0; i < n; ++i) {
        float x = (z[i * H + j] - mean) * istd[j];
        xhat[i * H + j] = x;
        a[i * H + j] = fmaxf(gamma[j] * x + beta[j], 0.f);
    }
}

__global__ void bn_backward(const float *da, const float *a, const float *xhat, const float *istd, const float *gamma, float *dgamma, float *dbeta, float *dz, int n)
{
    int j = threadIdx.x;
    float sg = 0, sb = 0;
    for (int i = 0; i < n; ++i) {
        float g = a[i * H + j] > 0 ? da[i * H + j] : 0;
        sg += g * xhat[i * H + j];
        sb += g;
    }
    dgamma[j] = sg;
    dbeta[j] = sb;
    for (int i = 0; i < n; ++i) {
        float g = a[i * H + j] > 0 ? da[i * H + j] : 0;
        dz[i * H + j] = gamma[j] * istd[j] * (g - sb / n - xhat[i * H + j] * sg / n);
    }
}

__global__ void head(const float *a, const float *W, const float *b, const int *labels, float *dl, float *loss, int *correct, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[C], m = -1e30f, s = 0;
    int best = 0;
    for (int c = 0; c < C; ++c) {
        z[c] = b[c];
        for (int k = 0; k < H; ++k) z[c] += a[i * H + k] * W[k * C + c];
        if (z[c] > m) { m = z[c]; best = c; }
    }
    for (int c = 0; c < C; ++c) s += expf(z[c] - m);
    for (int c = 0; c < C; ++c) dl[i * C + c] = (expf(z[c] - m) / s - (labels[i] == c)) / n;
    atomicAdd(loss, (m + logf(s) - z[labels[i]]) / n);
    if (best == labels[i]) atomicAdd(correct, 1);
}

__global__ void column_sum(const float *dl, float *db, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += dl[i * C + threadIdx.x];
    db[threadIdx.x] = s;
}

__global__ void decay_kernel(float *w, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] *= factor;
}

class Classifier {
public:
    explicit Classifier(int max_batch)
    {
        CK(cublasCreate(&blas));
        w = device_alloc<float>(TOTAL);
        g = device_alloc<float>(TOTAL);
        vel = device_alloc<float>(TOTAL);
        rmean = device_alloc<float>(H);
        rvar = device_alloc<float>(H);
        x = device_alloc<float>(max_batch * D);
        y = device_alloc<int>(max_batch);
        z = device_alloc<float>(max_batch * H);
        xhat = device_alloc<float>(max_batch * H);
        a = device_alloc<float>(max_batch * H);
        da = device_alloc<float>(max_batch * H);
        dz = device_alloc<float>(max_batch * H);
        dl = device_alloc<float>(max_batch * C);
        istd = device_alloc<float>(H);
        loss = device_alloc<float>(1);
        correct = device_alloc<int>(1);

        std::mt19937 rng(2);
        std::normal_distribution<float> nd;
        std::vector<float> h(TOTAL, 0.f), ones(H, 1.f);
        for (int i = 0; i < D * H; ++i) h[W1 + i] = nd(rng) * std::sqrt(2.f / D);
        for (int i = 0; i < H; ++i) h[GAMMA + i] = 1.f;
        for (int i = 0; i < H * C; ++i) h[W2 + i] = nd(rng) * std::sqrt(1.f / H);
        CK(cudaMemcpy(w, h.data(), TOTAL * sizeof(float), cudaMemcpyHostToDevice));
        CK(cudaMemcpy(rvar, ones.data(), H * sizeof(float), cudaMemcpyHostToDevice));
    }

    // rows are gathered on the host
    void load(const std::vector<float> &X, const std::vector<int> &Y, const int *index, int n)
    {
        host_x.resize(n * D);
        host_y.resize(n);
        for (int i = 0; i < n; ++i) {
            std::memcpy(&host_x[i * D], &X[index[i] * D], D * sizeof(float));
            host_y[i] = Y[index[i]];
        }
        CK(cudaMemcpy(x, host_x.data(), n * D * sizeof(float), cudaMemcpyHostToDevice));
        CK(cudaMemcpy(y, host_y.data(), n * sizeof(int), cudaMemcpyHostToDevice));
        batch = n;
    }

    void forward(bool training)
    {
        const float one = 1, zero = 0;
        CK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, batch, D, &one, w + W1, H, x, D, &zero, z, H));
        bn_forward<<<1, H>>>(z, w + GAMMA, w + BETA, rmean, rvar, xhat, istd, a, batch, training);
        CK(cudaMemset(loss, 0, sizeof(float)));
        CK(cudaMemset(correct, 0, sizeof(int)));
        head<<<(batch + 31) / 32, 32>>>(a, w + W2, w + B2, y, dl, loss, correct, batch);
    }

    void backward()
    {
        const float one = 1, zero = 0;
        CK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, C, H, batch, &one, dl, C, a, H, &zero, g + W2, C));
        column_sum<<<1, C>>>(dl, g + B2, batch);
        CK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, batch, C, &one, w + W2, C, dl, C, &zero, da, H));
        bn_backward<<<1, H>>>(da, a, xhat, istd, w + GAMMA, g + GAMMA, g + BETA, dz, batch);
        CK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, H, D, batch, &one, dz, H, x, D, &zero, g + W1, H));
    }

    float clip(float max_norm)
    {
        float norm;
        CK(cublasSnrm2(blas, TOTAL, g, 1, &norm));
        if (norm > max_norm) {
            float s = max_norm / norm;
            CK(cublasSscal(blas, TOTAL, &s, g, 1));
        }
        return norm;
    }

    // v = mu v + g; w = w - lr v, with BLAS
    void update(float lr, float mu, float decay)
    {
        const float one = 1, minus_lr = -lr;
        CK(cublasSscal(blas, TOTAL, &mu, vel, 1));
        CK(cublasSaxpy(blas, TOTAL, &one, g, 1, vel, 1));
        decay_kernel<<<(D * H + 127) / 128, 128>>>(w + W1, 1.f - lr * decay, D * H);
        CK(cublasSaxpy(blas, TOTAL, &minus_lr, vel, 1, w, 1));
    }

    void result(float &l, int &c)
    {
        CK(cudaMemcpy(&l, loss, sizeof(float), cudaMemcpyDeviceToHost));
        CK(cudaMemcpy(&c, correct, sizeof(int), cudaMemcpyDeviceToHost));
    }

private:
    cublasHandle_t blas;
    float *w, *g, *vel, *rmean, *rvar, *x, *z, *xhat, *a, *da, *dz, *dl, *istd, *loss;
    int *y, *correct, batch = 0;
    std::vector<float> host_x;
    std::vector<int> host_y;
};

void make_data(int n, std::vector<float> &X, std::vector<int> &Y, std::mt19937 &rng)
{
    std::normal_distribution<float> nd;
    X.resize(n * D);
    Y.resize(n);
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < D; ++k) X[i * D + k] = 3.f + 2.f * nd(rng);
        float best = -1e9f;
        for (int c = 0; c < C; ++c) {
            float s = std::fabs(X[i * D + 2 * c] - 3.f) + 0.5f * (X[i * D + 2 * c + 1] - 3.f);
            if (s > best) { best = s; Y[i] = c; }
        }
    }
}

} // namespace

int main()
{
    std::mt19937 rng(44);
    std::vector<float> X, VX;
    std::vector<int> Y, VY;
    make_data(1600, X, Y, rng);
    make_data(320, VX, VY, rng);

    const int batch = 80;
    Classifier net(320);
    std::vector<int> index(Y.size()), vindex(VY.size());
    std::iota(index.begin(), index.end(), 0);
    std::iota(vindex.begin(), vindex.end(), 0);

    int step = 0;
    for (int epoch = 0; epoch < 8; ++epoch) {
        std::shuffle(index.begin(), index.end(), rng);
        for (size_t i = 0; i + batch <= index.size(); i += batch, ++step) {
            net.load(X, Y, &index[i], batch);
            net.forward(true);
            net.backward();
            float norm = net.clip(0.5f);
            float lr = 0.1f / (1.f + step / 60);
            net.update(lr, 0.9f, 1e-3f);
            if (step % 20 == 0) {
                float l;
                int c;
                net.result(l, c);
                std::printf("step %4d  loss %.4f  gradient norm %.3f\n", step, l, norm);
            }
            if (step % 50 == 49) {
                float l;
                int c;
                net.load(VX, VY, vindex.data(), (int)VY.size());
                net.forward(false);
                net.result(l, c);
                std::printf("  validation  loss %.4f  accuracy %.1f%%\n", l, 100.0 * c / VY.size());
            }
        }
    }
    return 0;
}
