// Least squares on shuffled mini-batches, gathered by an index array.
#include <algorithm>
#include <iostream>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

template <typename T> struct DeviceArray {
    T *ptr = nullptr;
    size_t size;
    explicit DeviceArray(size_t n) : size(n) { cudaMalloc(&ptr, n * sizeof(T)); cudaMemset(ptr, 0, n * sizeof(T)); }
    ~DeviceArray() { cudaFree(ptr); }
    void upload(const std::vector<T> &v) { cudaMemcpy(ptr, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice); }
};

__global__ void residuals(const double *x, const double *y, const int *idx, const double *w, double *res, int n, int dim)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    double s = 0;
    for (int d = 0; d < dim; ++d) s += x[idx[r] * dim + d] * w[d];
    res[r] = s - y[idx[r]];
}

__global__ void gradient(const double *x, const int *idx, const double *res, double *g, int n, int dim)
{
    int d = threadIdx.x;
    double s = 0;
    for (int r = 0; r < n; ++r) s += res[r] * x[idx[r] * dim + d];
    g[d] = 2 * s / n;
}

__global__ void adam(double *w, const double *g, double *m, double *v, double lr, int t)
{
    int d = threadIdx.x;
    m[d] = 0.9 * m[d] + 0.1 * g[d];
    v[d] = 0.99 * v[d] + 0.01 * g[d] * g[d];
    w[d] -= lr * (m[d] / (1 - pow(0.9, t))) / (sqrt(v[d] / (1 - pow(0.99, t))) + 1e-8);
}

int main(int argc, char **argv)
{
    const int dim = 16, samples = 320, batch = 32;
    const int steps = argc > 1 ? std::atoi(argv[1]) : 100;
    std::mt19937 data_rng(1);
    std::normal_distribution<double> nd;
    std::vector<double> x(samples * dim), y(samples), w_true(dim);
    for (auto &v : w_true) v = nd(data_rng);
    for (int i = 0; i < samples; ++i) {
        y[i] = 0.1 * nd(data_rng);
        for (int d = 0; d < dim; ++d) y[i] += w_true[d] * (x[i * dim + d] = nd(data_rng));
    }
    DeviceArray<double> dx(x.size()), dy(y.size()), w(dim), g(dim), m(dim), v(dim), res(batch);
    DeviceArray<int> index(samples);
    dx.upload(x);
    dy.upload(y);
    DDP_PARAMETER(w.ptr, w.size, DDP_FLOAT64);
    DDP_STATE(m.ptr, m.size, DDP_FLOAT64);
    DDP_STATE(v.ptr, v.size, DDP_FLOAT64);
    DDP_GRADIENT(g.ptr, g.size, DDP_FLOAT64);

    std::mt19937 shuffle_rng(1234 + DDP_RANK());
    std::vector<int> order(samples);
    std::iota(order.begin(), order.end(), 0);
    for (int s = 0; s < steps; ++s) {
        int pos = s * batch % samples;
        if (pos == 0) {
            std::shuffle(order.begin(), order.end(), shuffle_rng);
            index.upload(order);
        }
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        const int *idx = index.ptr + pos + first;
        residuals<<<1, batch>>>(dx.ptr, dy.ptr, idx, w.ptr, res.ptr, (int)count, dim);
        gradient<<<1, dim>>>(dx.ptr, idx, res.ptr, g.ptr, (int)count, dim);
        DDP_STEP(0);
        adam<<<1, dim>>>(w.ptr, g.ptr, m.ptr, v.ptr, 0.05, s + 1);
        if ((s + 1) % 20 == 0) {
            std::vector<double> r(count);
            cudaMemcpy(r.data(), res.ptr, count * sizeof(double), cudaMemcpyDeviceToHost);
            double loss = 0;
            for (double e : r) loss += e * e / count;
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0) std::cout << "step " << s + 1 << " loss " << loss << "\n";
        }
    }
    return 0;
}
