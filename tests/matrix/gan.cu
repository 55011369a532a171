/*
 * gan.cu - two optimizers: a discriminator that learns to distinguish items from a generator's, and the generator that
 * learns to deceive it. Each has gradients, boundaries and updates of its own; backward of the generator goes through
 * the discriminator and writes its gradients, too, which no update uses.
 */
#include "layers.h"

enum { NOISE = 12, ITEM = 24, VERDICT = 4, GENERATOR = 3, DISCRIMINATOR = 3 };

static struct dense generator[GENERATOR], discriminator[DISCRIMINATOR];
static struct items items; /* inputs: real items; targets are not used */
static struct items noises;
static cudaStream_t stream;

/* Of the mean of half the squared distance of all verdicts from `wanted`. */
static __global__ void
verdict_delta(float *delta, const float *output, float wanted, int width, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width * count)
        delta[i] = (output[i] - wanted) * (1.0f - output[i] * output[i]) / (float)count;
}

static void
forward(const struct dense *layers, int layer_count, const float *input, int count)
{
    for (int l = 0; l < layer_count; ++l)
        dense_run_forward(&layers[l], l > 0 ? layers[l - 1].output : input, count, stream);
}

/* All gradients of a stack; `keep` as in dense_run_gradients(). */
static void
backward(const struct dense *layers, int layer_count, const float *input, int count, float keep)
{
    for (int l = layer_count - 1; l >= 0; --l) {
        dense_run_gradients(&layers[l], l > 0 ? layers[l - 1].output : input, count, keep, 1.0f, stream);
        if (l > 0)
            dense_run_delta(&layers[l], &layers[l - 1], count, stream);
    }
}

/* Forward through the discriminator, and back, wanting `wanted` of it. */
static void
judge(const float *input, float wanted, int count, float keep)
{
    const struct dense *last = &discriminator[DISCRIMINATOR - 1];
    forward(discriminator, DISCRIMINATOR, input, count);
    LAUNCH(verdict_delta, (size_t)(VERDICT * count), stream)(last->delta, last->output, wanted, VERDICT, count);
    backward(discriminator, DISCRIMINATOR, input, count, keep);
}

static void
step_run(size_t first_item, int count)
{
    const float *real = items.device_inputs + first_item * ITEM, *seed = noises.device_inputs + first_item * NOISE;
    const struct dense *made = &generator[GENERATOR - 1];
    items_load(&items, first_item, (size_t)count, stream);
    items_load(&noises, first_item, (size_t)count, stream);

    forward(generator, GENERATOR, seed, count);
    judge(real, 0.6f, count, 0.0f);
    judge(made->output, -0.6f, count, 1.0f);
    DDP_STEP_GROUP(0, stream);
    for (int l = 0; l < DISCRIMINATOR; ++l)
        dense_update(&discriminator[l], 0.1f, stream);

    judge(made->output, 0.6f, count, 0.0f);
    dense_run_delta(&discriminator[0], made, count, stream);
    backward(generator, GENERATOR, seed, count, 0.0f);
    DDP_STEP_GROUP(1, stream);
    for (int l = 0; l < GENERATOR; ++l)
        dense_update(&generator[l], 0.1f, stream);
}

int
main(int argc, char **argv)
{
    static const int generator_widths[] = {NOISE, 32, 28, ITEM}, discriminator_widths[] = {ITEM, 32, 16, VERDICT};
    options_parse(argc, argv);
    device_open();
    stream = stream_create();
    items_create(&items, (size_t)(options.steps * options.batch), ITEM, 1);
    items_create(&noises, (size_t)(options.steps * options.batch), NOISE, 1);
    for (int l = 0; l < DISCRIMINATOR; ++l)
        dense_create(&discriminator[l], l, discriminator_widths[l], discriminator_widths[l + 1], true);
    for (int l = 0; l < GENERATOR; ++l)
        dense_create(&generator[l], 10 + l, generator_widths[l], generator_widths[l + 1], true);
    DDP_GRADIENT_GROUP(0);
    for (int l = 0; l < DISCRIMINATOR; ++l)
        dense_annotate_gradients(&discriminator[l]);
    DDP_GRADIENT_GROUP(1);
    for (int l = 0; l < GENERATOR; ++l)
        dense_annotate_gradients(&generator[l]);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        step_run((size_t)(step * options.batch) + first, (int)count);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
