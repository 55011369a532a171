/*
 * tokens.cu - a trainer that copies bytes to the device that are no addresses but could look like some: 32-bit tokens,
 * bfloat16 that is mostly zero, dark images; before and within backward. ddprun must not take them for addresses of
 * gradients, or overlap ends.
 *
 * tokens [STEPS]. Rank r adds r + 1 to every gradient, an update takes half of the mean from the weights: all exact in
 * float32. Exit code 0 only if every weight is what it has to be.
 */
#include "../lib/trainer.h"
#include "../lib/trainer_options.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <ddprun.h>

enum { LAYERS = 8, ELEMENTS = 1 << 16, TOKENS = 65536, KINDS = 3 };

__global__ void
set(float *out, float value)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__global__ void
descend(float *weight, const float *gradient)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    weight[i] -= 0.5f * gradient[i];
}

static uint32_t
next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* One batch: tokens of a vocabulary of 50,257; bfloat16 of which one in 16 is not zero; 8-bit pixels below 4. */
static void
draw(uint32_t *batch, int kind, uint64_t *random)
{
    for (int i = 0; i < TOKENS; ++i) {
        uint32_t number = next(random);
        if (kind == 0)
            batch[i] = number % 50257;
        else if (kind == 1)
            batch[i] = number % 16 == 0 ? 0x3f00u | (number >> 8 & 0xff) : 0;
        else
            batch[i] = number & 0x03030303u;
    }
}

int
main(int argc, char **argv)
{
    int steps = argc > 1 ? (int)whole_number(argv[1], 1, INT_MAX) : 100;
    float *weights[LAYERS], *gradients[LAYERS];
    uint32_t *host, *device[KINDS];
    uint64_t random = 1 + (uint64_t)DDP_RANK();
    CHECK(cudaMallocHost((void **)&host, 2 * KINDS * TOKENS * sizeof(*host)));
    for (auto &batch : device)
        CHECK(cudaMalloc(&batch, TOKENS * sizeof(*batch)));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMalloc(&weights[l], ELEMENTS * sizeof(float)));
        CHECK(l % 2 == 0 ? cudaMalloc(&gradients[l], ELEMENTS * sizeof(float))
                         : cudaMallocAsync((void **)&gradients[l], ELEMENTS * sizeof(float), 0));
        set<<<ELEMENTS / 256, 256>>>(weights[l], 1024.0f);
        DDP_PARAMETER(weights[l], ELEMENTS, DDP_FLOAT32);
        DDP_GRADIENT(gradients[l], ELEMENTS, DDP_FLOAT32);
    }
    for (int step = 0; step < steps; ++step) {
        CHECK(cudaDeviceSynchronize()); /* the batches have been read */
        for (int k = 0; k < KINDS; ++k) {
            draw(host + k * TOKENS, k, &random);
            CHECK(cudaMemcpyAsync(device[k], host + k * TOKENS, TOKENS * sizeof(*host), cudaMemcpyHostToDevice, 0));
        }
        for (int l = LAYERS - 1; l >= 0; --l) {
            set<<<ELEMENTS / 256, 256>>>(gradients[l], (float)(1 + DDP_RANK()));
            int k = l % KINDS;
            draw(host + (KINDS + k) * TOKENS, k, &random);
            CHECK(cudaMemcpyAsync(device[k], host + (KINDS + k) * TOKENS, TOKENS * sizeof(*host),
                                  cudaMemcpyHostToDevice, 0));
        }
        DDP_STEP(0);
        for (int l = 0; l < LAYERS; ++l)
            descend<<<ELEMENTS / 256, 256>>>(weights[l], gradients[l]);
    }
    static float values[ELEMENTS];
    const float expected = 1024.0f - 0.5f * (float)steps * (float)(DDP_WORLD_SIZE() + 1) / 2.0f;
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(values, weights[l], sizeof(values), cudaMemcpyDeviceToHost));
        for (int i = 0; i < ELEMENTS; ++i) {
            if (values[i] == expected)
                continue;
            fprintf(stderr, "tokens: weight %d of layer %d is %g instead of %g\n", i, l, (double)values[i],
                    (double)expected);
            return 1;
        }
    }
    return 0;
}
