/*
 * weights_updated_in_backward.cu - the lines of `ddprun scout` where cuBLAS adds each gradient to its weights during
 * backward, and no gradient is in memory: DDP_STEP_PARAMETERS averages the weights. An array of activations begins with
 * a part of the data.
 */
#include "tests/programs/layer.h"

enum { LAYERS = 3 };

static const int widths[LAYERS + 1] = {INPUTS, 16, 8, OUTPUTS};

int
main(void)
{
    float *data = device_noise(1, ITEMS * INPUTS, 1.0f), *targets = device_noise(2, ITEMS * OUTPUTS, 0.8f);
    float *weight[LAYERS], *activation[LAYERS + 1], *delta[LAYERS + 1];
    const float one = 1.0f, rate = -0.1f;
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    for (int l = 0; l < LAYERS; ++l) {
        size_t count = (size_t)widths[l] * widths[l + 1], bytes = (size_t)widths[l + 1] * BATCH * sizeof(float);
        std::vector<float> start = host_noise(10 + l, count, 0.5f);
        CHECK(cudaMalloc(&weight[l], count * sizeof(float)));
        CHECK(cudaMalloc(&activation[l + 1], bytes));
        CHECK(cudaMalloc(&delta[l + 1], bytes));
        CHECK(cudaMemcpy(weight[l], start.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    }
    for (int step = 0; step < STEPS; ++step) {
        activation[0] = data + step * BATCH * INPUTS;
        for (int l = 0; l < LAYERS; ++l)
            dense_forward<<<blocks_for(widths[l + 1] * BATCH), THREADS>>>(activation[l + 1], activation[l], weight[l],
                                                                          NULL, widths[l], widths[l + 1], BATCH);
        loss_delta<<<blocks_for(OUTPUTS * BATCH), THREADS>>>(delta[LAYERS], activation[LAYERS],
                                                             targets + step * BATCH * OUTPUTS, OUTPUTS, BATCH);
        for (int l = LAYERS; l-- > 0;) {
            int in = widths[l], out = widths[l + 1];
            if (l > 0)
                input_delta<<<blocks_for(in * BATCH), THREADS>>>(delta[l], weight[l], delta[l + 1], activation[l], in,
                                                                 out, BATCH);
            CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, in, out, BATCH, &rate, activation[l], in, delta[l + 1],
                              out, &one, weight[l], in));
        }
    }
    CHECK(cublasDestroy(blas));
    return 0;
}
