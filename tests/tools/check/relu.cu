/*
 * relu.cu - in step 32 the input of one ReLU is zero up to rounding, and small batches are added up in another order,
 * as libraries do: a row of the weight's gradient hangs on the last bit. The first argument is what else there is:
 *
 *   nothing  the program is right
 *   rank     (a mistake) from step 32 on rank 1 adds to this row, and no ReLU is near zero
 *   both     (a mistake) the same three steps after the ReLU
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

enum { UNITS = 16, FEATURES = 4, UNIT = 3, ITEMS = 8, STEPS = 40, STEP = 32 };

/* The unit's weights come to 1 and stay there; the others follow the step and the items. */
static __global__ void
backward(float *g, const float *w, size_t first, size_t count, int step, int is_near, float added)
{
    int u = threadIdx.x / FEATURES, k = threadIdx.x % FEATURES;
    const float x[FEATURES] = {-0.1f, -0.2f, 0.3f, 0.0f};
    const float *own = w + UNIT * FEATURES;
    float small = x[0] * own[0] + (x[1] * own[1] + x[2] * own[2]),
          whole = (x[0] * own[0] + x[1] * own[1]) + x[2] * own[2];
    float sum = 0, value = w[threadIdx.x];
    for (size_t i = first; i < first + count; ++i) {
        if (u != UNIT)
            sum += value - 1.0f - 0.1f * (float)((step * 5 + u * 3 + (int)i * 7) % 11);
        else
            sum += value - 1.0f + (is_near && i == 0 && (count < ITEMS ? small : whole) > 0 ? x[k] : 0.0f) + added;
    }
    g[threadIdx.x] = sum / (float)count;
}

ELEMENTWISE_OF_ALL(update, (float *w, const float *g), w[i] -= 0.5f * g[i])

int
main(int argc, char **argv)
{
    names_take(argc, argv, " nothing rank both ");
    int ranks_from = is("rank") ? STEP : is("both") ? STEP + 3 : STEPS + 1;
    float *w = device_floats(UNITS * FEATURES), *g = device_floats(UNITS * FEATURES), host[UNITS * FEATURES];
    size_t first, count;
    for (int i = 0; i < UNITS * FEATURES; ++i)
        host[i] = 0.5f + 0.01f * (float)i;
    CHECK(cudaMemcpy(w, host, sizeof(host), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, UNITS * FEATURES, DDP_TYPE_OF(w));
    DDP_GRADIENT(g, UNITS * FEATURES, DDP_TYPE_OF(g));
    DDP_SHARD(ITEMS, &first, &count);
    for (int step = 1; step <= STEPS; ++step) {
        int is_near = step == STEP && !is("rank");
        backward<<<1, UNITS * FEATURES>>>(g, w, first, count, step, is_near,
                                          step >= ranks_from && DDP_RANK() == 1 ? 0.02f : 0.0f);
        DDP_STEP(0);
        update<<<1, UNITS * FEATURES>>>(w, g);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
