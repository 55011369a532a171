/*
 * symbols_other.cu - the second source file of symbols.cu, with some names that its first file has too.
 */
#include "check.h"

__device__ int same_name = 200;

static __device__ int
same_function()
{
    return 5;
}

template <class T>
__global__ void
own_names(T *out, T)
{
    *out = same_name + same_function();
}

void
run_other(int *out)
{
    own_names<<<1, 1>>>(out, 0);
}
