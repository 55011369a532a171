/*
 * kernels.h - the kernels that trainers of check/, plan/ and scout/ have in common: one operation on each element, and
 * norms, beside those of a dense layer (trainer_dense.h). For these programs only, each of which is one file of CUDA.
 *
 * One thread takes a sum in the order of the items, so that one process gives the same bits in every run.
 */
#ifndef TESTS_TOOLS_KERNELS_H
#define TESTS_TOOLS_KERNELS_H

#include "tests/lib/trainer_dense.h"

#include <cuda_runtime.h>
#include <math.h>

#define INDEX ((int)(blockIdx.x * blockDim.x + threadIdx.x))

/* ---- each element ---- */

ELEMENTWISE(scale_by, (float *values, float by, int count), count, values[i] *= by)
ELEMENTWISE(multiply, (float *values, const float *by, int count), count, values[i] *= by[i])
ELEMENTWISE(add_scaled, (float *to, const float *from, float by, int count), count, to[i] += by * from[i])
ELEMENTWISE(descend, (float *weights, const float *gradient, float rate, int count), count,
            weights[i] -= rate * gradient[i])
ELEMENTWISE(descend_with_momentum,
            (float *weights, const float *gradient, float *momentum, float keep, float rate, int count), count,
            momentum[i] = keep * momentum[i] + gradient[i];
            weights[i] -= rate * momentum[i])
ELEMENTWISE(move_average, (float *average, const float *values, float keep, int count), count,
            average[i] = keep * average[i] + (1 - keep) * values[i])

/* ---- norms ---- */

__global__ void
add_squares(float *sum, const float *values, int count)
{
    float squares = 0;
    for (int i = 0; INDEX == 0 && i < count; ++i)
        squares += values[i] * values[i];
    if (INDEX == 0)
        *sum += squares;
}

/* `squares`: the sum of the values' squares. A norm that is larger than `most` becomes that. */
__global__ void
scale_to_norm(float *values, const float *squares, float most, int count)
{
    if (INDEX<count && * squares> most * most)
        values[INDEX] *= most / sqrtf(*squares);
}

#endif
