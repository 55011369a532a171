/*
 * net.h - a small framework: parameters, layers as templates over float and double, and a net of them. layers.cu has
 * the code.
 */
#ifndef SMALL_NET_H
#define SMALL_NET_H

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

void small_fail(const char *call, const char *file, int line);

#define SMALL_CHECK(call)                          \
    do {                                           \
        if ((call) != 0)                           \
            small_fail(#call, __FILE__, __LINE__); \
    } while (0)

enum { ITEM_INPUTS = 12, ITEM_CLASSES = 5 };

/* What all layers use; one for a process. */
cublasHandle_t small_blas();

/* Device memory of `rows` x `columns` elements, zero at first. */
template <class T> struct Tensor {
    T *data = nullptr;
    int rows = 0, columns = 0;

    Tensor() = default;
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    ~Tensor();
    void resize(int r, int c);
    size_t count() const
    {
        return (size_t)rows * (size_t)columns;
    }
};

/* What a layer learns. Statistics of a layer stand among its parameters, too, with rate 0: forward writes them. */
template <class T> struct Param {
    std::string name;
    Tensor<T> value, gradient, momentum;
    T rate; /* times the solver's */

    Param(const std::string &n, int rows, int columns, T r, T first);
};

template <class T> struct Layer {
    Tensor<T> output, delta; /* delta: the loss's derivative by the output */
    std::vector<std::unique_ptr<Param<T>>> params;

    virtual ~Layer() = default;
    virtual void forward(const Tensor<T> &input) = 0;
    /* input_delta: null for the first layer. */
    virtual void backward(const Tensor<T> &input, Tensor<T> *input_delta) = 0;

  protected:
    Param<T> &add(const std::string &name, int rows, int columns, T rate, T first);
};

template <class T> class Net
{
  public:
    /* batch: items that one step of this process sees. With batch_means, Scale also keeps the mean of its inputs. */
    Net(int batch, bool batch_means);
    /* The mean of the loss over the batch is in loss() when the device is there. */
    void forward_backward(const Tensor<T> &items, const int *classes);
    T loss() const;
    std::vector<Param<T> *> params();

  private:
    std::vector<std::unique_ptr<Layer<T>>> layers;
    Tensor<T> item_losses;
};

#endif
