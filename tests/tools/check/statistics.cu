/*
 * statistics.cu - a layer that is normalised by running statistics of its input, which forward writes, beside weights
 * of as many elements. The first argument is what is wrong:
 *
 *   nothing    the statistics are not annotated: they do not depend on the items
 *   running    they are annotated by DDP_PARAMETER
 *   unwritten  and so is a gradient of each, which nothing writes
 *   zeroed     and so is a gradient of each, which each step sets to zero
 *   late       (a mistake of another kind) the weights of the scale are initialised behind their annotation, by rank
 *   behind     (another) DDP_STEP stands behind the optimizer, and the statistics are annotated by DDP_PARAMETER
 */
#include "tests/elementwise.h"
#include "tests/tools/frame.h"

enum { WIDTH = 64, ITEMS = 8, STEPS = 6 };

static float *weight, *scale, *mean, *square;
static float *weight_gradient, *scale_gradient, *mean_gradient, *square_gradient;

static __device__ float
item_of(size_t item, int step, int i)
{
    return (float)((item * 37 + (size_t)step * 11 + (size_t)i * 5) % 17) / 17.0f - 0.4f;
}

static __global__ void
forward_backward(const float *w, const float *s, float *m, float *q, float *dw, float *ds, size_t first, size_t count,
                 int step, int keeps)
{
    int i = threadIdx.x;
    float sum = 0, squares = 0, of_weight = 0, of_scale = 0;
    for (size_t k = first; k < first + count; ++k) {
        float x = item_of(k, step, i), error = w[i] * x * s[i] - 1.0f;
        sum += x;
        squares += x * x;
        of_weight += error * x * s[i];
        of_scale += error * w[i] * x;
    }
    if (keeps) {
        m[i] = 0.9f * m[i] + 0.1f * sum / (float)count;
        q[i] = 0.9f * q[i] + 0.1f * squares / (float)count;
    }
    dw[i] = of_weight / (float)count;
    ds[i] = of_scale / (float)count;
}

ELEMENTWISE_OF_ALL(update, (float *w, const float *g), w[i] -= 0.1f * g[i])

static float *
floats(float value)
{
    float *memory, host[WIDTH];
    for (int i = 0; i < WIDTH; ++i)
        host[i] = value + 0.01f * (float)(i % 7);
    CHECK(cudaMalloc(&memory, sizeof(host)));
    CHECK(cudaMemcpy(memory, host, sizeof(host), cudaMemcpyHostToDevice));
    return memory;
}

static void
annotate(bool keeps)
{
    DDP_PARAMETER(weight, WIDTH, DDP_TYPE_OF(weight));
    DDP_PARAMETER(scale, WIDTH, DDP_TYPE_OF(scale));
    DDP_GRADIENT(weight_gradient, WIDTH, DDP_FLOAT32);
    DDP_GRADIENT(scale_gradient, WIDTH, DDP_FLOAT32);
    if (keeps) {
        DDP_PARAMETER(mean, WIDTH, DDP_FLOAT32);
        DDP_PARAMETER(square, WIDTH, DDP_FLOAT32);
    }
    if (is("unwritten") || is("zeroed")) {
        DDP_GRADIENT(mean_gradient, WIDTH, DDP_FLOAT32);
        DDP_GRADIENT(square_gradient, WIDTH, DDP_FLOAT32);
    }
}

int
main(int argc, char **argv)
{
    names_take(argc, argv, " nothing running unwritten zeroed late behind ");
    bool keeps = !is("nothing") && !is("late"), behind = is("behind");
    size_t first, count;
    weight = floats(0.5f);
    scale = floats(1.0f);
    mean = floats(0.0f);
    square = floats(1.0f);
    float **gradients[] = {&weight_gradient, &scale_gradient, &mean_gradient, &square_gradient};
    for (float **gradient : gradients)
        *gradient = device_floats(WIDTH);
    annotate(keeps);
    if (is("late")) {
        float *other = floats(1.0f + (float)DDP_RANK());
        CHECK(cudaMemcpy(scale, other, WIDTH * sizeof(float), cudaMemcpyDeviceToDevice));
        CHECK(cudaFree(other));
    }
    DDP_SHARD(ITEMS, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        if (is("zeroed")) {
            CHECK(cudaMemsetAsync(mean_gradient, 0, WIDTH * sizeof(float), 0));
            CHECK(cudaMemsetAsync(square_gradient, 0, WIDTH * sizeof(float), 0));
        }
        forward_backward<<<1, WIDTH>>>(weight, scale, mean, square, weight_gradient, scale_gradient, first, count, step,
                                       keeps);
        if (!behind)
            DDP_STEP(0);
        update<<<1, WIDTH>>>(weight, weight_gradient);
        update<<<1, WIDTH>>>(scale, scale_gradient);
        if (behind)
            DDP_STEP(0);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
