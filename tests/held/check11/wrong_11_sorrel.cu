// Regression on a bumpy surface in double precision. Lookahead optimizer: fast weights take SGD steps, and every five
// steps the slow weights move half of the way towards them and replace them.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <memory>
#include <vector>
#include "ddprun.h"

template <typename T> class DeviceArray {
public:
    explicit DeviceArray(size_t n) : size_(n)
    {
        if (cudaMalloc((void **)&data_, n * sizeof(T)) != cudaSuccess)
            std::abort();
        cudaMemset(data_, 0, n * sizeof(T));
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray &) = delete;
    T *get() const { return data_; }
    size_t size() const { return size_; }
    void upload(const std::vector<T> &v) { cudaMemcpy(data_, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice); }
    std::vector<T> download(size_t n) const
    {
        std::vector<T> v(n);
        cudaMemcpy(v.data(), data_, n * sizeof(T), cudaMemcpyDeviceToHost);
        return v;
    }

private:
    T *data_ = nullptr;
    size_t size_;
};

namespace kernels {

template <typename T>
__global__ void dense(const T *x, const T *w, const T *b, T *y, int n, int in, int out, bool bend)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out)
        return;
    T s = b[t % out];
    for (int k = 0; k < in; ++k)
        s += x[t / out * in + k] * w[k * out + t % out];
    y[t] = bend ? tanh(s) : s;
}

template <typename T> __global__ void squared(const T *y, const T *want, T *dy, T *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        T e = y[i] - want[i];
        loss[i] = e * e / 2;
        dy[i] = e / n;
    }
}

template <typename T> __global__ void weights(const T *x, const T *dy, T *dw, T *db, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out)
        return;
    T s = 0, b = 0;
    for (int i = 0; i < n; ++i) {
        s += x[i * in + t / out] * dy[i * out + t % out];
        b += dy[i * out + t % out];
    }
    dw[t] = s;
    if (t < out)
        db[t] = b;
}

template <typename T> __global__ void inputs(const T *dy, const T *w, const T *y, T *dx, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in)
        return;
    T s = 0;
    for (int o = 0; o < out; ++o)
        s += dy[t / in * out + o] * w[t % in * out + o];
    dx[t] = s * (1 - y[t] * y[t]);
}

template <typename T> __global__ void fastStep(T *w, const T *g, int n, T rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

template <typename T> __global__ void slowStep(T *slow, T *w, int n, T alpha)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] = slow[i] += alpha * (w[i] - slow[i]);
}

} // namespace kernels

template <typename T> struct Layer {
    int in, out;
    DeviceArray<T> w, b, dw, db, slowW, slowB, y, dy;
    Layer(int in_, int out_, int batch, unsigned &seed)
        : in(in_), out(out_), w(in_ * out_), b(out_), dw(in_ * out_), db(out_), slowW(in_ * out_), slowB(out_),
          y(batch * out_), dy(batch * out_)
    {
        std::vector<T> init(in * out);
        for (T &v : init) {
            seed = seed * 69069u + 1u;
            v = (T)(std::sqrt(6.0 / (in + out)) * ((seed >> 8) / 8388608.0 - 1.0));
        }
        w.upload(init);
        cudaMemcpy(slowW.get(), w.get(), in * out * sizeof(T), cudaMemcpyDeviceToDevice);
        cudaMemcpy(slowB.get(), b.get(), out * sizeof(T), cudaMemcpyDeviceToDevice);
        DDP_PARAMETER(w.get(), in * out, DDP_TYPE_OF(w.get()));
        DDP_PARAMETER(b.get(), out, DDP_TYPE_OF(b.get()));
        DDP_GRADIENT(dw.get(), in * out, DDP_TYPE_OF(dw.get()));
        DDP_GRADIENT(db.get(), out, DDP_TYPE_OF(db.get()));
    }
    void forward(const T *x, int n, bool bend)
    {
        kernels::dense<T><<<(n * out + 63) / 64, 64>>>(x, w.get(), b.get(), y.get(), n, in, out, bend);
    }
    void gradients(const T *x, int n)
    {
        kernels::weights<T><<<(in * out + 63) / 64, 64>>>(x, dy.get(), dw.get(), db.get(), n, in, out);
    }
    void update(int step, T rate)
    {
        kernels::fastStep<T><<<(in * out + 63) / 64, 64>>>(w.get(), dw.get(), in * out, rate);
        kernels::fastStep<T><<<1, 64>>>(b.get(), db.get(), out, rate);
        if (step % 5 == 4) {
            kernels::slowStep<T><<<(in * out + 63) / 64, 64>>>(slowW.get(), w.get(), in * out, (T)0.5);
            kernels::slowStep<T><<<1, 64>>>(slowB.get(), b.get(), out, (T)0.5);
        }
    }
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60, batch = 50, rows = 500, hidden = 32;
    unsigned dataSeed = 1, seed = 40 + DDP_RANK();
    std::vector<double> hx(rows * 2), hy(rows);
    for (int i = 0; i < rows; ++i) {
        for (int k = 0; k < 2; ++k) {
            dataSeed = dataSeed * 69069u + 1u;
            hx[2 * i + k] = 2 * ((dataSeed >> 8) / 8388608.0 - 1.0);
        }
        hy[i] = std::sin(hx[2 * i]) * std::cos(hx[2 * i + 1]) + 0.3 * hx[2 * i];
    }
    DeviceArray<double> x(rows * 2), want(rows), loss(batch);
    x.upload(hx);
    want.upload(hy);
    Layer<double> one(2, hidden, batch, seed), two(hidden, hidden, batch, seed), three(hidden, 1, batch, seed);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        int n = (int)count;
        size_t at = (size_t)step * batch % rows + first;
        const double *in = x.get() + 2 * at;

        one.forward(in, n, true);
        two.forward(one.y.get(), n, true);
        three.forward(two.y.get(), n, false);
        kernels::squared<double><<<1, 64>>>(three.y.get(), want.get() + at, three.dy.get(), loss.get(), n);
        three.gradients(two.y.get(), n);
        kernels::inputs<double>
            <<<(n * hidden + 63) / 64, 64>>>(three.dy.get(), three.w.get(), two.y.get(), two.dy.get(), n, hidden, 1);
        two.gradients(one.y.get(), n);
        kernels::inputs<double>
            <<<(n * hidden + 63) / 64, 64>>>(two.dy.get(), two.w.get(), one.y.get(), one.dy.get(), n, hidden, hidden);
        one.gradients(in, n);

        DDP_STEP(0);
        one.update(step, 0.15);
        two.update(step, 0.15);
        three.update(step, 0.15);

        if (step % 10 == 0 || step == steps - 1) {
            double mean = 0;
            for (double l : loss.download(n))
                mean += l / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                std::printf("step %d loss %.5f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Layer<double> *l : {&one, &two, &three}) {
            std::vector<double> v = l->w.download(l->w.size()), b = l->b.download(l->b.size());
            std::fwrite(v.data(), sizeof(double), v.size(), f);
            std::fwrite(b.data(), sizeof(double), b.size(), f);
        }
        std::fclose(f);
    }
    cudaDeviceSynchronize();
    return 0;
}
