/*
 * blas_threads.h - how many threads OpenBLAS uses inside a kernel: one, or as many as SOFTGPU_BLAS_THREADS says.
 *
 * Called by libcublas and libcublasLt when a handle is made.
 */
#ifndef SOFTGPU_CUBLAS_BLAS_THREADS_H
#define SOFTGPU_CUBLAS_BLAS_THREADS_H

#include <stdbool.h>

/* Tells OpenBLAS, once per process and library. False, after one line, if the variable is malformed. */
bool blas_threads_set(void);

#endif
