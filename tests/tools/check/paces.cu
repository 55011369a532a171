/*
 * paces.cu - a batch is computed in parts of PART items, which add up their gradients; batches have different sizes.
 * Names on the command line:
 *
 *   each     (a mistake) DDP_STEP comes after each part: a rank, whose share has fewer parts, calls it less often
 *   ranks    (a mistake) the same on ranks; one process calls it once, after all parts
 *   equal    batches of 16 items, which have as many parts each
 *   ragged   batches of several sizes, of which the first three are one part on a rank and in one process
 *   skips    (a mistake) ranks leave one update out
 *
 * Without a mistake DDP_STEP comes once, after all parts.
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

enum { WIDTH = 32, PART = 4, ITEMS = 128, BATCHES = 20 };

/* Adds the mean of a linear model's squared error over the batch of `whole` items. */
static __global__ void
backward(float *g, const float *w, const float *x, int count, float whole)
{
    float sum = 0;
    for (int item = 0; item < count; ++item) {
        float out = -0.3f;
        for (int k = 0; k < WIDTH; ++k)
            out += w[k] * x[item * WIDTH + k];
        sum += out * x[item * WIDTH + threadIdx.x];
    }
    g[threadIdx.x] += sum / whole;
}

ELEMENTWISE_OF_ALL(update, (float *w, const float *g), w[i] -= 0.05f * g[i])

static int
size_of(int batch)
{
    static const int ragged[] = {4, 4, 4, 16, 8, 10};
    return is("ragged") ? ragged[batch % 6] : 16;
}

static void
compute(float *g, const float *w, const float *x, int count)
{
    const bool is_alone = DDP_WORLD_SIZE() == 1;
    const bool is_each = is("each") || (is("ranks") && !is_alone);
    for (int i = 0; i < count; i += PART) {
        const int part = count - i < PART ? count - i : PART;
        backward<<<1, WIDTH>>>(g, w, x + i * WIDTH, part, (float)count);
        if (is_each)
            DDP_STEP(0);
    }
    if (!is_each)
        DDP_STEP(0);
}

int
main(int argc, char **argv)
{
    names_take(argc, argv, " each ranks equal ragged skips ");
    float *w = device_floats(WIDTH), *g = device_floats(WIDTH), *x = device_floats(ITEMS * WIDTH);
    static float items[ITEMS * WIDTH];
    for (int i = 0; i < ITEMS * WIDTH; ++i)
        items[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    CHECK(cudaMemcpy(x, items, sizeof(items), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(w, items, WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, WIDTH, DDP_TYPE_OF(w));
    DDP_GRADIENT(g, WIDTH, DDP_TYPE_OF(g));
    for (int batch = 0, at = 0; batch < BATCHES; ++batch) {
        const int size = size_of(batch);
        size_t first, count;
        at = at + size > ITEMS ? 0 : at;
        DDP_SHARD((size_t)size, &first, &count);
        CHECK(cudaMemsetAsync(g, 0, WIDTH * sizeof(float), 0));
        compute(g, w, x + ((size_t)at + first) * WIDTH, (int)count);
        if (!is("skips") || DDP_WORLD_SIZE() == 1 || batch != 2)
            update<<<1, WIDTH>>>(w, g);
        at += size;
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
