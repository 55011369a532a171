/*
 * elementwise.h - kernels of one formula, for trainers: `...` is what is done to element `i`. Include nothing of CUDA
 * for it: the trainer has.
 */
#ifndef TESTS_ELEMENTWISE_H
#define TESTS_ELEMENTWISE_H

#define ELEMENT_OF_THREAD ((int)(blockIdx.x * blockDim.x + threadIdx.x))

/* There are as many elements as threads. */
#define ELEMENTWISE_OF_ALL(name, parameters, ...) \
    __global__ void name parameters               \
    {                                             \
        const int i = ELEMENT_OF_THREAD;          \
        __VA_ARGS__;                              \
    }

/* There may be more threads. */
#define ELEMENTWISE(name, parameters, count, ...) \
    __global__ void name parameters               \
    {                                             \
        const int i = ELEMENT_OF_THREAD;          \
        if (i < count) {                          \
            __VA_ARGS__;                          \
        }                                         \
    }

/* Threads share the elements. */
#define ELEMENTWISE_BY_STRIDES(name, parameters, count, ...)                                    \
    __global__ void name parameters                                                             \
    {                                                                                           \
        for (int i = ELEMENT_OF_THREAD; i < (int)(count); i += (int)(gridDim.x * blockDim.x)) { \
            __VA_ARGS__;                                                                        \
        }                                                                                       \
    }

#endif
