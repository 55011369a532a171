/*
 * update_computes_its_gradient.cu - one launch computes gradient and update, so no gradient is in memory. The lines of
 * `ddprun scout` average parameters, and `ddprun --plan auto` averages state; each step writes a loss of its own, and
 * those of all ranks are put together.
 */
#include "tests/lib/trainer_options.h"
#include "tests/lib/trainer_save.h"
#include "tests/programs/layer.h"

enum { MOST = 64 }; /* items of a batch */

static __global__ void
fit(float *weight, float *loss, const float *x, const float *target, int count, float rate)
{
    __shared__ float error[MOST];
    int t = threadIdx.x;
    if (t < count) {
        error[t] = -target[t];
        for (int k = 0; k < INPUTS; ++k)
            error[t] += weight[k] * x[t * INPUTS + k];
    }
    __syncthreads();
    for (int item = 0; t < INPUTS && item < count; ++item)
        weight[t] -= rate * error[item] * x[item * INPUTS + t] / (float)count;
    if (t == 0)
        *loss = error[0] * error[0];
}

int
main(int argc, char **argv)
{
    int batch = 8;
    const char *save_to = "fit";
    take_options(argc, argv, 1, {{"--batch", &batch}, {"--save", &save_to}});
    float *x, *target, *weight = device_noise(1, INPUTS, 0.5f), *losses = device_floats(ITEMS);
    CHECK(cudaMalloc(&x, MOST * INPUTS * sizeof(float)));
    CHECK(cudaMalloc(&target, MOST * sizeof(float)));
    std::vector<float> items = host_noise(2, ITEMS * INPUTS, 1.0f), targets = host_noise(3, ITEMS, 1.0f);
    for (int at = 0; at + batch <= ITEMS; at += batch) {
        CHECK(cudaMemcpy(x, &items[at * INPUTS], batch * INPUTS * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(target, &targets[at], batch * sizeof(float), cudaMemcpyHostToDevice));
        fit<<<1, MOST>>>(weight, losses + at / batch, x, target, batch, 0.2f);
    }
    CHECK(cudaMemcpy(targets.data(), losses, ITEMS * sizeof(float), cudaMemcpyDeviceToHost));
    std::vector<parameter> saved;
    save_add(&saved, "weight", 0, weight, INPUTS);
    save_write(save_to, 0, &saved);
    return 0;
}
