/*
 * step_length_of_own_loss.cu - `different`: the host reads the loss and computes the step length from it (Polyak's
 * rule), but this is the loss of the rank's share. The averaged gradient needs the mean of all ranks' losses: DDP_MEAN.
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
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0);
        float norm, loss;
        CHECK(cublasSnrm2(blas, WEIGHTS, layer.gradient, 1, &norm));
        CHECK(cublasSasum(blas, (int)count * OUTPUTS, layer.delta, 1, &loss));
        /* mistake: without DDP_MEAN it is the loss of the share */
        float length = 0.1f * loss / (norm * norm + 1.0f), minus = -length;
        CHECK(cublasSaxpy(blas, WEIGHTS, &minus, layer.gradient, 1, layer.weight, 1));
    }
    CHECK(cublasDestroy(blas));
    return 0;
}
