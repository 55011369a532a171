/*
 * net.cuh - tensors, parameters, and layers as templates over float and double: dense, scale with running statistics,
 * relu; the loss.
 */
#ifndef SMALL_NET_CUH
#define SMALL_NET_CUH

#include <cublas_v2.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#define SMALL_CHECK(call)                                                          \
    do {                                                                           \
        if ((call) != 0) {                                                         \
            std::fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

enum { ITEM_INPUTS = 12, ITEM_CLASSES = 5, THREADS = 64 };
#define FOR(count) <<<((unsigned)(count) + THREADS - 1) / THREADS, THREADS>>>

/* What all layers use; one for a process. */
inline cublasHandle_t
small_blas()
{
    static cublasHandle_t handle;
    if (handle == nullptr)
        SMALL_CHECK(cublasCreate(&handle));
    return handle;
}

/* cuBLAS's functions by the type of their numbers. */
#define SMALL_BLAS(name, of_float, of_double) \
    inline auto name(float)                   \
    {                                         \
        return of_float;                      \
    }                                         \
    inline auto name(double)                  \
    {                                         \
        return of_double;                     \
    }
SMALL_BLAS(gemm, cublasSgemm, cublasDgemm)
SMALL_BLAS(dot, cublasSdot, cublasDdot)
SMALL_BLAS(scal, cublasSscal, cublasDscal)

/* Device memory of `rows` x `columns` elements, zero at first. */
template <class T> struct Tensor {
    T *data = nullptr;
    int rows = 0, columns = 0;

    Tensor() = default;
    Tensor(const Tensor &) = delete;
    ~Tensor()
    {
        cudaFree(data);
    }
    void resize(int r, int c)
    {
        rows = r;
        columns = c;
        SMALL_CHECK(cudaMalloc(&data, count() * sizeof(T)));
        SMALL_CHECK(cudaMemset(data, 0, count() * sizeof(T)));
    }
    size_t count() const
    {
        return (size_t)rows * (size_t)columns;
    }
    std::vector<T> read() const
    {
        std::vector<T> values(count());
        SMALL_CHECK(cudaMemcpy(values.data(), data, count() * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }
};

/* What a layer learns. Statistics of a layer stand among its parameters, too, with rate 0: forward writes them. */
template <class T> struct Param {
    std::string name;
    Tensor<T> value, gradient, momentum;
    T rate; /* times the solver's */

    /* first 0: random values, the same in every process; otherwise all are `first`. */
    Param(const std::string &n, int rows, int columns, T r, T first) : name(n), rate(r)
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
};

template <class T> struct Layer {
    Tensor<T> output, delta; /* delta: the loss's derivative by the output */
    std::vector<std::unique_ptr<Param<T>>> params;

    Layer(int batch, int columns)
    {
        output.resize(batch, columns);
        delta.resize(batch, columns);
    }
    virtual ~Layer() = default;
    virtual void forward(const Tensor<T> &x) = 0;
    /* dx: the derivative by the input; null for the first layer. */
    virtual void backward(const Tensor<T> &x, Tensor<T> *dx) = 0;

  protected:
    Param<T> &add(const std::string &name, int rows, int columns, T rate, T first)
    {
        params.push_back(std::make_unique<Param<T>>(name, rows, columns, rate, first));
        return *params.back();
    }
};

/* ---- kernels: a thread for each element, or for each column ---- */

template <class T>
__global__ void
add_bias(T *y, const T *bias, int columns, size_t count)
{
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] += bias[i % columns];
}

/* sums[j] = keep * sums[j] + scale * the sum over rows of a, times b where there is one, over sigma where there is one.
 */
template <class T>
__global__ void
sum_rows(T *sums, const T *a, const T *b, const T *sigma, int rows, int columns, T keep, T scale)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns)
        return;
    T sum = 0;
    for (int i = 0; i < rows; ++i)
        sum += a[i * columns + j] * (b != nullptr ? b[i * columns + j] : T(1));
    sums[j] = (keep != T(0) ? keep * sums[j] : T(0)) + scale * sum / (sigma != nullptr ? sigma[0] : T(1));
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
scale(T *y, const T *x, const T *gain, const T *sigma, int columns, size_t count)
{
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = x[i] * gain[i % columns] / sigma[0];
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

    void multiply(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T *a, const T *b, T *c)
    {
        const T one = 1, zero = 0;
        SMALL_CHECK(gemm(T())(small_blas(), ta, tb, m, n, k, &one, a, ta == CUBLAS_OP_N ? m : k, b,
                              tb == CUBLAS_OP_N ? k : n, &zero, c, m));
    }

  public:
    Dense(const std::string &name, int batch, int inputs, int outputs)
        : Layer<T>(batch, outputs), weight(this->add(name + ".weight", inputs, outputs, 1, 0)),
          bias(this->add(name + ".bias", 1, outputs, 2, 0))
    {
    }
    void forward(const Tensor<T> &x) override
    {
        Tensor<T> &y = this->output;
        multiply(CUBLAS_OP_N, CUBLAS_OP_N, y.columns, y.rows, x.columns, weight.value.data, x.data, y.data);
        add_bias FOR(y.count())(y.data, bias.value.data, y.columns, y.count());
    }
    void backward(const Tensor<T> &x, Tensor<T> *dx) override
    {
        const Tensor<T> &dy = this->delta;
        multiply(CUBLAS_OP_N, CUBLAS_OP_T, dy.columns, x.columns, x.rows, dy.data, x.data, weight.gradient.data);
        sum_rows FOR(dy.columns)(bias.gradient.data, dy.data, (T *)nullptr, (T *)nullptr, dy.rows, dy.columns, T(0),
                                 T(1));
        if (dx != nullptr)
            multiply(CUBLAS_OP_T, CUBLAS_OP_N, x.columns, x.rows, dy.columns, weight.value.data, dy.data, dx->data);
    }
};

/* y = x * gain / sigma, where sigma follows the size of the gains as training goes on. With batch_means it also keeps
 * the mean of its inputs. */
template <class T> class Scale : public Layer<T>
{
    Param<T> &gain, &sigma, &seen, *mean;

  public:
    Scale(const std::string &name, int batch, int columns, bool batch_means)
        : Layer<T>(batch, columns), gain(this->add(name + ".gain", 1, columns, 1, 1)),
          sigma(this->add(name + ".sigma", 1, 1, 0, 1)), seen(this->add(name + ".seen", 1, 1, 0, 0)),
          mean(batch_means ? &this->add(name + ".mean", 1, columns, 0, 0) : nullptr)
    {
    }
    void forward(const Tensor<T> &x) override
    {
        const Tensor<T> &y = this->output;
        update_statistics<<<1, 1>>>(sigma.value.data, seen.value.data, gain.value.data, y.columns);
        if (mean != nullptr)
            sum_rows FOR(y.columns)(mean->value.data, x.data, (T *)nullptr, (T *)nullptr, x.rows, x.columns, T(0.9),
                                    T(0.1) / x.rows);
        scale FOR(y.count())(y.data, x.data, gain.value.data, sigma.value.data, y.columns, y.count());
    }
    void backward(const Tensor<T> &x, Tensor<T> *dx) override
    {
        const Tensor<T> &dy = this->delta;
        sum_rows FOR(dy.columns)(gain.gradient.data, dy.data, x.data, sigma.value.data, dy.rows, dy.columns, T(0),
                                 T(1));
        scale FOR(dy.count())(dx->data, dy.data, gain.value.data, sigma.value.data, dy.columns, dy.count());
    }
};

template <class T> struct Relu : Layer<T> {
    using Layer<T>::Layer;
    void forward(const Tensor<T> &x) override
    {
        relu FOR(x.count())(this->output.data, x.data, x.data, x.count());
    }
    void backward(const Tensor<T> &x, Tensor<T> *dx) override
    {
        relu FOR(x.count())(dx->data, this->delta.data, x.data, x.count());
    }
};

#endif
