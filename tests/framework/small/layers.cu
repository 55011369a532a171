/*
 * layers.cu - the layers: dense, scale with running statistics, relu; the loss; the net.
 */
#include "net.h"

#include <cstdio>
#include <cstdlib>
#include <random>

enum { THREADS = 64 };

static unsigned
blocks(size_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

void
small_fail(const char *call, const char *file, int line)
{
    std::fprintf(stderr, "%s:%d: %s failed\n", file, line, call);
    std::exit(1);
}

cublasHandle_t
small_blas()
{
    static cublasHandle_t handle;
    if (handle == nullptr)
        SMALL_CHECK(cublasCreate(&handle));
    return handle;
}

static cublasStatus_t
gemm(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
     float *c, int ldc)
{
    const float one = 1, zero = 0;
    return cublasSgemm(small_blas(), ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
}

static cublasStatus_t
gemm(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const double *a, int lda, const double *b,
     int ldb, double *c, int ldc)
{
    const double one = 1, zero = 0;
    return cublasDgemm(small_blas(), ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
}

/* ---- tensors ---- */

template <class T> Tensor<T>::~Tensor()
{
    cudaFree(data);
}

template <class T>
void
Tensor<T>::resize(int r, int c)
{
    rows = r;
    columns = c;
    SMALL_CHECK(cudaMalloc(&data, count() * sizeof(T)));
    SMALL_CHECK(cudaMemset(data, 0, count() * sizeof(T)));
}

/* first 0: random values, the same in every process; otherwise all are `first`. */
template <class T> Param<T>::Param(const std::string &n, int rows, int columns, T r, T first) : name(n), rate(r)
{
    static std::mt19937 source(7);
    std::vector<T> values((size_t)rows * (size_t)columns, first);
    if (first == T(0) && rows > 1)
        for (T &x : values)
            x = (T)((double)source() / 4294967296.0 - 0.5);
    value.resize(rows, columns);
    SMALL_CHECK(cudaMemcpy(value.data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    if (rate != T(0)) {
        gradient.resize(rows, columns);
        momentum.resize(rows, columns);
    }
}

template <class T>
Param<T> &
Layer<T>::add(const std::string &name, int rows, int columns, T rate, T first)
{
    params.push_back(std::make_unique<Param<T>>(name, rows, columns, rate, first));
    return *params.back();
}

/* ---- kernels ---- */

template <class T>
__global__ void
add_bias(T *y, const T *bias, int columns, size_t count)
{
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] += bias[i % columns];
}

template <class T>
__global__ void
sum_rows(T *sums, const T *a, int rows, int columns)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns)
        return;
    T sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += a[i * columns + j];
    sums[j] = sum;
}

template <class T>
__global__ void
update_statistics(T *sigma, T *seen, const T *gain, int columns)
{
    T squares = 0;
    for (int j = 0; j < columns; ++j)
        squares += gain[j] * gain[j];
    sigma[0] = T(0.9) * sigma[0] + T(0.1) * sqrt(squares / columns);
    seen[0] += 1;
}

template <class T>
__global__ void
update_mean(T *mean, const T *x, int rows, int columns)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns)
        return;
    T sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += x[i * columns + j];
    mean[j] = T(0.9) * mean[j] + T(0.1) * sum / rows;
}

template <class T>
__global__ void
scale(T *y, const T *x, const T *gain, const T *sigma, int columns, size_t count)
{
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = x[i] * gain[i % columns] / sigma[0];
}

template <class T>
__global__ void
sum_gains(T *sums, const T *delta, const T *x, const T *sigma, int rows, int columns)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns)
        return;
    T sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += delta[i * columns + j] * x[i * columns + j];
    sums[j] = sum / sigma[0];
}

template <class T>
__global__ void
relu(T *y, const T *x, const T *by, size_t count)
{
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = by[i] > T(0) ? x[i] : T(0);
}

/* One thread for each item: its loss, and the derivative of the batch's mean. */
template <class T>
__global__ void
softmax_loss(T *loss, T *delta, const T *x, const int *classes, int rows, int columns)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    T largest = x[i * columns], sum = 0;
    for (int j = 1; j < columns; ++j)
        largest = x[i * columns + j] > largest ? x[i * columns + j] : largest;
    for (int j = 0; j < columns; ++j)
        sum += exp(x[i * columns + j] - largest);
    for (int j = 0; j < columns; ++j)
        delta[i * columns + j] = (exp(x[i * columns + j] - largest) / sum - (j == classes[i] ? 1 : 0)) / rows;
    loss[i] = (log(sum) + largest - x[i * columns + classes[i]]) / rows;
}

/* ---- layers ---- */

template <class T> class Dense : public Layer<T>
{
    Param<T> &weight, &bias;

  public:
    Dense(const std::string &name, int batch, int inputs, int outputs)
        : weight(this->add(name + ".weight", inputs, outputs, 1, 0)), bias(this->add(name + ".bias", 1, outputs, 2, 0))
    {
        this->output.resize(batch, outputs);
        this->delta.resize(batch, outputs);
    }
    void forward(const Tensor<T> &x) override
    {
        Tensor<T> &y = this->output;
        SMALL_CHECK(gemm(CUBLAS_OP_N, CUBLAS_OP_N, y.columns, y.rows, x.columns, weight.value.data, y.columns, x.data,
                         x.columns, y.data, y.columns));
        add_bias<<<blocks(y.count()), THREADS>>>(y.data, bias.value.data, y.columns, y.count());
    }
    void backward(const Tensor<T> &x, Tensor<T> *dx) override
    {
        const Tensor<T> &dy = this->delta;
        SMALL_CHECK(gemm(CUBLAS_OP_N, CUBLAS_OP_T, dy.columns, x.columns, x.rows, dy.data, dy.columns, x.data,
                         x.columns, weight.gradient.data, dy.columns));
        sum_rows<<<blocks((size_t)dy.columns), THREADS>>>(bias.gradient.data, dy.data, dy.rows, dy.columns);
        if (dx != nullptr)
            SMALL_CHECK(gemm(CUBLAS_OP_T, CUBLAS_OP_N, x.columns, x.rows, dy.columns, weight.value.data, dy.columns,
                             dy.data, dy.columns, dx->data, x.columns));
    }
};

/* y = x * gain / sigma, where sigma follows the size of the gains as training goes on. */
template <class T> class Scale : public Layer<T>
{
    Param<T> &gain, &sigma, &seen, *mean;

  public:
    Scale(const std::string &name, int batch, int columns, bool batch_means)
        : gain(this->add(name + ".gain", 1, columns, 1, 1)), sigma(this->add(name + ".sigma", 1, 1, 0, 1)),
          seen(this->add(name + ".seen", 1, 1, 0, 0)),
          mean(batch_means ? &this->add(name + ".mean", 1, columns, 0, 0) : nullptr)
    {
        this->output.resize(batch, columns);
        this->delta.resize(batch, columns);
    }
    void forward(const Tensor<T> &x) override
    {
        const Tensor<T> &y = this->output;
        update_statistics<<<1, 1>>>(sigma.value.data, seen.value.data, gain.value.data, y.columns);
        if (mean != nullptr)
            update_mean<<<blocks((size_t)y.columns), THREADS>>>(mean->value.data, x.data, x.rows, x.columns);
        scale<<<blocks(y.count()), THREADS>>>(y.data, x.data, gain.value.data, sigma.value.data, y.columns, y.count());
    }
    void backward(const Tensor<T> &x, Tensor<T> *dx) override
    {
        const Tensor<T> &dy = this->delta;
        sum_gains<<<blocks((size_t)dy.columns), THREADS>>>(gain.gradient.data, dy.data, x.data, sigma.value.data,
                                                           dy.rows, dy.columns);
        scale<<<blocks(dy.count()), THREADS>>>(dx->data, dy.data, gain.value.data, sigma.value.data, dy.columns,
                                               dy.count());
    }
};

template <class T> class Relu : public Layer<T>
{
  public:
    Relu(int batch, int columns)
    {
        this->output.resize(batch, columns);
        this->delta.resize(batch, columns);
    }
    void forward(const Tensor<T> &x) override
    {
        relu<<<blocks(x.count()), THREADS>>>(this->output.data, x.data, x.data, x.count());
    }
    void backward(const Tensor<T> &x, Tensor<T> *dx) override
    {
        relu<<<blocks(x.count()), THREADS>>>(dx->data, this->delta.data, x.data, x.count());
    }
};

/* ---- the net ---- */

template <class T> Net<T>::Net(int batch, bool batch_means)
{
    enum { HIDDEN = 24 };
    layers.push_back(std::make_unique<Dense<T>>("first", batch, ITEM_INPUTS, HIDDEN));
    layers.push_back(std::make_unique<Scale<T>>("scale", batch, HIDDEN, batch_means));
    layers.push_back(std::make_unique<Relu<T>>(batch, HIDDEN));
    layers.push_back(std::make_unique<Dense<T>>("second", batch, HIDDEN, ITEM_CLASSES));
    item_losses.resize(batch, 1);
}

template <class T>
void
Net<T>::forward_backward(const Tensor<T> &items, const int *classes)
{
    for (size_t i = 0; i < layers.size(); ++i)
        layers[i]->forward(i == 0 ? items : layers[i - 1]->output);
    Layer<T> &last = *layers.back();
    softmax_loss<<<blocks((size_t)items.rows), THREADS>>>(item_losses.data, last.delta.data, last.output.data, classes,
                                                          items.rows, last.output.columns);
    for (size_t i = layers.size(); i-- > 0;)
        layers[i]->backward(i == 0 ? items : layers[i - 1]->output, i == 0 ? nullptr : &layers[i - 1]->delta);
}

template <class T>
T
Net<T>::loss() const
{
    std::vector<T> losses(item_losses.count());
    SMALL_CHECK(cudaMemcpy(losses.data(), item_losses.data, losses.size() * sizeof(T), cudaMemcpyDeviceToHost));
    T sum = 0;
    for (T x : losses)
        sum += x;
    return sum;
}

template <class T>
std::vector<Param<T> *>
Net<T>::params()
{
    std::vector<Param<T> *> all;
    for (auto &layer : layers)
        for (auto &param : layer->params)
            all.push_back(param.get());
    return all;
}

template struct Tensor<int>;
template struct Tensor<float>;
template struct Tensor<double>;
template class Net<float>;
template class Net<double>;
