/*
 * solver.cu - the solver; the only file that ddprun's annotations change.
 */
#include "solver.h"

#include <ddprun.h>

#include <cmath>

static cublasStatus_t
dot(int n, const float *x, float *result)
{
    return cublasSdot(small_blas(), n, x, 1, x, 1, result);
}

static cublasStatus_t
dot(int n, const double *x, double *result)
{
    return cublasDdot(small_blas(), n, x, 1, x, 1, result);
}

static cublasStatus_t
scal(int n, float by, float *x)
{
    return cublasSscal(small_blas(), n, &by, x, 1);
}

static cublasStatus_t
scal(int n, double by, double *x)
{
    return cublasDscal(small_blas(), n, &by, x, 1);
}

template <class T>
__global__ void
sgd(T *value, T *momentum, const T *gradient, int count, T rate)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        momentum[i] = T(0.9) * momentum[i] + rate * gradient[i];
        value[i] -= momentum[i];
    }
}

template <class T> Solver<T>::Solver(Net<T> &n, Loader<T> &l, T c) : net(n), loader(l), clip(c), params(n.params())
{
    for (Param<T> *param : params) {
        const size_t count = param->value.count();
        T *const value = param->value.data, *const gradient = param->gradient.data,
                 *const momentum = param->momentum.data;
        if (param->rate == T(0)) {
            DDP_BUFFER(value, count, DDP_TYPE_OF(value));
            continue;
        }
        DDP_PARAMETER(value, count, DDP_TYPE_OF(value));
        DDP_GRADIENT(gradient, count, DDP_TYPE_OF(gradient));
        DDP_STATE(momentum, count, DDP_TYPE_OF(momentum));
    }
}

template <class T>
void
Solver<T>::clip_gradients()
{
    T squares = 0;
    for (const Param<T> *param : params) {
        T part = 0;
        if (param->rate != T(0))
            SMALL_CHECK(dot((int)param->gradient.count(), param->gradient.data, &part));
        squares += part;
    }
    const T norm = std::sqrt(squares);
    if (norm <= clip)
        return;
    ++clipped;
    for (Param<T> *param : params)
        if (param->rate != T(0))
            SMALL_CHECK(scal((int)param->gradient.count(), clip / norm, param->gradient.data));
}

template <class T>
void
Solver<T>::update()
{
    for (Param<T> *param : params)
        if (param->rate != T(0))
            sgd<<<(unsigned)(param->value.count() + 63) / 64, 64>>>(param->value.data, param->momentum.data,
                                                                    param->gradient.data, (int)param->value.count(),
                                                                    T(0.1) * param->rate);
}

template <class T>
T
Solver<T>::step()
{
    Batch<T> *const batch = loader.take();
    net.forward_backward(batch->items, batch->classes.data);
    DDP_STEP(0);
    if (clip > T(0))
        clip_gradients();
    update();
    T loss = net.loss();
    DDP_MEAN(&loss);
    SMALL_CHECK(cudaDeviceSynchronize());
    loader.give(batch);
    return loss;
}

template class Solver<float>;
template class Solver<double>;
