/*
 * sum_divided_by_whole_batch.cu - `different`: a rank adds up the gradients of its share and divides the sum by the
 * size of the whole batch; DDP_STEP then divides by the number of ranks again. The divisor is that of the share.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count, at;
        DDP_SHARD(BATCH, &first, &count);
        at = step * BATCH + first;
        layer_forward(&layer, at, (int)count);
        layer_loss(&layer, at, (int)count, 1.0f);
        float scale = 1.0f / BATCH; /* mistake: the sum is over `count` items */
        blas_weight_gradient(blas, layer.gradient, layer.delta, layer.x + at * INPUTS, INPUTS, OUTPUTS, (int)count,
                             0.0f, scale);
        DDP_STEP(0);
        sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.1f);
    }
    CHECK(cublasDestroy(blas));
    return 0;
}
