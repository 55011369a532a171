// Robust-ish line of regression with a step size that needs no tuning: Polyak's rule. When the smallest loss is known
// (here 0), the rate of each step is loss / |gradient|^2, damped by a factor.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

static void must(int status, const char *what)
{
    if (status != 0)
        throw std::runtime_error(std::string(what) + " failed with " + std::to_string(status));
}

template <typename T> class DeviceArray {
  public:
    explicit DeviceArray(size_t n) : size_(n) { must(cudaMalloc((void **)&data_, n * sizeof(T)), "cudaMalloc"); }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray &) = delete;
    T *get() const { return data_; }
    size_t size() const { return size_; }
    void set(const T *from, size_t n) { must(cudaMemcpy(data_, from, n * sizeof(T), cudaMemcpyHostToDevice), "set"); }
    void read(T *to, size_t n) const { must(cudaMemcpy(to, data_, n * sizeof(T), cudaMemcpyDeviceToHost), "read"); }

  private:
    T *data_ = nullptr;
    size_t size_;
};

// log(cosh(prediction - target)): quadratic near 0, linear far away.
__global__ void residuals(const float *x, const float *target, const float *w, float *slope, float *loss, int rows,
                          int columns)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float e = -target[r];
    for (int c = 0; c < columns; ++c)
        e += x[r * columns + c] * w[c];
    float a = fabsf(e);
    loss[r] = a + log1pf(expf(-2.0f * a)) - 0.693147f;
    slope[r] = tanhf(e) / rows;
}

// One block; the sum of n values in a fixed order.
template <int THREADS> __global__ void mean_of(const float *values, int n, float *mean)
{
    __shared__ float part[THREADS];
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += THREADS)
        s += values[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *mean = part[0] / n;
}

class Regression {
  public:
    Regression(size_t columns, size_t most_rows)
        : w(columns), dw(columns), slope(most_rows), loss(most_rows), mean(1), columns_((int)columns)
    {
        must(cublasCreate(&blas_), "cublasCreate");
        std::vector<float> zero(columns, 0.0f);
        w.set(zero.data(), columns);
        dw.set(zero.data(), columns);
    }
    ~Regression() { cublasDestroy(blas_); }

    // The gradient into dw; returns the mean loss.
    float backward(const float *x, const float *y, int rows)
    {
        residuals<<<(rows + 31) / 32, 32>>>(x, y, w.get(), slope.get(), loss.get(), rows, columns_);
        mean_of<32><<<1, 32>>>(loss.get(), rows, mean.get());
        const float one = 1.0f, zero = 0.0f;
        must(cublasSgemv(blas_, CUBLAS_OP_N, columns_, rows, &one, x, columns_, slope.get(), 1, &zero, dw.get(), 1), "gemv");
        float l;
        mean.read(&l, 1);
        return l;
    }

    void update(float l)
    {
        float norm;
        must(cublasSnrm2(blas_, columns_, dw.get(), 1, &norm), "nrm2");
        const float alpha = -0.5f * l / (norm * norm + 1e-3f);
        must(cublasSaxpy(blas_, columns_, &alpha, dw.get(), 1, w.get(), 1), "axpy");
    }

    DeviceArray<float> w, dw, slope, loss, mean;

  private:
    int columns_;
    cublasHandle_t blas_;
};

int main() try {
    constexpr size_t rows = 40, columns = 9, batches = 5, steps = 15;
    std::vector<float> x(rows * batches * columns), y(rows * batches, 0.0f);
    unsigned seed = 99;
    for (size_t i = 0; i < x.size(); ++i) {
        seed = seed * 22695477u + 1u;
        x[i] = float(seed >> 16 & 0x7fff) / 16384.0f - 1.0f;
        y[i / columns] += x[i] * (float(i % columns) - 3.0f) * 0.4f;
    }

    Regression model(columns, rows);
    DDP_PARAMETER(model.w.get(), columns, DDP_FLOAT32);
    DDP_GRADIENT(model.dw.get(), columns, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(rows, &first, &count);
    DeviceArray<float> bx(count * columns), by(count);

    for (size_t step = 0; step < steps; ++step) {
        size_t at = step % batches * rows + first;
        bx.set(&x[at * columns], count * columns);
        by.set(&y[at], count);
        float l = model.backward(bx.get(), by.get(), (int)count);
        DDP_STEP(0);
        model.update(l);
        DDP_MEAN(&l);
        if (DDP_RANK() == 0)
            std::printf("step %zu: %.5f\n", step, l);
    }
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "autorate: %s\n", e.what());
    return 1;
}
