/*
 * gan.cu - two optimizers: a discriminator that learns to distinguish items from a generator's, group 0, and the
 * generator that learns to deceive it, group 1. Each has gradients, boundaries and updates of its own; backward of the
 * generator goes through the discriminator and writes its gradients, too, which no update uses.
 *
 * --rhythm turns; joint: both backward passes, then both optimizers; critic: three steps of the discriminator to one of
 * the generator; any: no rhythm at all. --change-at STEP: from then on "turns" becomes "critic". --swap-at STEP: in
 * this step of "joint" the optimizers' order is the other one, with --swap-rank on one rank only. --retire-at STEP: the
 * generator is trained for the last time. --streams 2: each optimizer has a stream; 3: backward of the generator, too.
 */
#include "layers.h"

enum { NOISE = 12, ITEM = 24, VERDICT = 4, LAYERS = 3, DISCRIMINATOR = 0, GENERATOR = 1, NETS = 2 };

static struct dense nets[NETS][LAYERS];
static struct items items; /* inputs: real items; targets are not used */
static struct items noises;
static cudaStream_t streams[NETS], side; /* of the optimizers, and of the generator's backward pass */
static cudaEvent_t event;
static const char *rhythm = "turns";
static int change_at, swap_at, swap_rank = -1, retire_at, stream_count = 1;

/* Of the mean of half the squared distance of all verdicts from `wanted`. */
STATIC_ELEMENTWISE(verdict_delta, (float *delta, const float *output, float wanted, int width, int count),
                   (width * count), delta[i] = (output[i] - wanted) * (1.0f - output[i] * output[i]) / (float)count)

static void
forward(int net, const float *input, int count, cudaStream_t stream)
{
    for (int l = 0; l < LAYERS; ++l)
        dense_run_forward(&nets[net][l], l > 0 ? nets[net][l - 1].output : input, count, stream);
}

/* Without `writes` the net's own gradients stay as they are; else these are added. */
static void
backward(int net, const float *input, int count, bool writes, cudaStream_t stream)
{
    const struct dense *layers = nets[net];
    for (int l = LAYERS - 1; l >= 0; --l) {
        if (writes)
            dense_run_gradients(&layers[l], l > 0 ? layers[l - 1].output : input, count, 1.0f, 1.0f, stream);
        if (l > 0)
            dense_run_delta(&layers[l], &layers[l - 1], count, stream);
    }
}

static void
zero_gradients(int net, cudaStream_t stream)
{
    for (const tensor &t : tensors_of(nets[net], LAYERS))
        device_zero(t.gradient, (size_t)t.count, stream);
}

/* Forward through the discriminator, and back, wanting `wanted` of it. */
static void
judge(const float *input, float wanted, int count, bool writes, cudaStream_t stream)
{
    const struct dense *last = &nets[DISCRIMINATOR][LAYERS - 1];
    forward(DISCRIMINATOR, input, count, stream);
    LAUNCH(verdict_delta, (size_t)(VERDICT * count), stream)(last->delta, last->output, wanted, VERDICT, count);
    backward(DISCRIMINATOR, input, count, writes, stream);
}

static void
backward_of_discriminator(size_t first_item, int count)
{
    cudaStream_t stream = streams[DISCRIMINATOR];
    stream_follow(streams[GENERATOR], stream, event);
    zero_gradients(DISCRIMINATOR, stream);
    forward(GENERATOR, noises.device_inputs + first_item * NOISE, count, stream);
    judge(items.device_inputs + first_item * ITEM, 0.6f, count, true, stream);
    judge(nets[GENERATOR][LAYERS - 1].output, -0.6f, count, true, stream);
}

static void
backward_of_generator(size_t first_item, int count, bool writes_discriminator)
{
    const struct dense *made = &nets[GENERATOR][LAYERS - 1];
    const float *seed = noises.device_inputs + first_item * NOISE;
    stream_follow(streams[DISCRIMINATOR], side, event);
    stream_follow(streams[GENERATOR], side, event);
    zero_gradients(GENERATOR, side);
    forward(GENERATOR, seed, count, side);
    judge(made->output, 0.6f, count, writes_discriminator, side);
    dense_run_delta(&nets[DISCRIMINATOR][0], made, count, side);
    backward(GENERATOR, seed, count, true, side);
}

static void
optimize(int net)
{
    if (net == DISCRIMINATOR)
        DDP_STEP(streams[net]);
    else
        DDP_STEP_GROUP(GENERATOR, streams[net]);
    /* only now: DDP_STEP itself waits for every stream that touched the group's gradients */
    stream_follow(side, streams[net], event);
    for (int l = 0; l < LAYERS; ++l)
        dense_update(&nets[net][l], 0.03f, streams[net]);
}

static bool
is_rhythm(const char *name, int step)
{
    return strcmp(change_at > 0 && step >= change_at ? "critic" : rhythm, name) == 0;
}

static void
train_jointly(int step, size_t first_item, int count)
{
    bool swap = step == swap_at && (swap_rank < 0 || swap_rank == DDP_RANK());
    backward_of_discriminator(first_item, count);
    backward_of_generator(first_item, count, false);
    optimize(swap ? GENERATOR : DISCRIMINATOR);
    optimize(swap ? DISCRIMINATOR : GENERATOR);
}

/* Steps count from 1. */
static void
train_step(int step, size_t first_item, int count)
{
    bool both = is_rhythm("turns", step);
    bool generator = is_rhythm("critic", step) ? step % 4 == 0 : noise(77, (unsigned)step) > 0.0f;
    if (is_rhythm("joint", step)) {
        train_jointly(step, first_item, count);
        return;
    }
    if (both || !generator) {
        backward_of_discriminator(first_item, count);
        optimize(DISCRIMINATOR);
    }
    if ((both || generator) && (retire_at == 0 || step <= retire_at)) {
        backward_of_generator(first_item, count, true);
        optimize(GENERATOR);
    }
}

/* It only infers from now on: gradients are freed, and weights lie where nothing is annotated. */
static void
retire_generator(void)
{
    device_wait();
    for (struct dense &layer : nets[GENERATOR]) {
        record_move(&layer.weight, (size_t)(layer.inputs * layer.outputs));
        record_move(&layer.bias, (size_t)layer.outputs);
        device_free(layer.weight_gradient);
        device_free(layer.bias_gradient);
    }
}

static void
create(void)
{
    static const int widths[NETS][LAYERS + 1] = {{ITEM, 32, 16, VERDICT}, {NOISE, 32, 28, ITEM}};
    event = event_create();
    side = stream_create();
    streams[DISCRIMINATOR] = stream_count > 1 ? stream_create() : side;
    streams[GENERATOR] = stream_count > 2 ? stream_create() : side;
    items_create(&items, (size_t)(options.steps * options.batch), ITEM, 1);
    items_create(&noises, (size_t)(options.steps * options.batch), NOISE, 1);
    for (int net = 0; net < NETS; ++net) {
        DDP_GRADIENT_GROUP(net);
        for (int l = 0; l < LAYERS; ++l) {
            dense_create(&nets[net][l], 10 * net + l, widths[net][l], widths[net][l + 1], true);
            dense_annotate_gradients(&nets[net][l]);
        }
    }
}

int
main(int argc, char **argv)
{
    options_parse(argc, argv,
                  {{"--rhythm", &rhythm},
                   {"--change-at", &change_at},
                   {"--swap-at", &swap_at},
                   {"--swap-rank", &swap_rank},
                   {"--retire-at", &retire_at},
                   {"--streams", &stream_count}});
    device_open();
    create();

    return train_all(streams[DISCRIMINATOR], [&](int step, size_t first_item, int count) {
        if (step > 0 && step == retire_at)
            retire_generator();
        items_load(&items, first_item, (size_t)count, streams[DISCRIMINATOR]);
        items_load(&noises, first_item, (size_t)count, streams[DISCRIMINATOR]);
        train_step(step + 1, first_item, count);
        stream_follow(streams[GENERATOR], streams[DISCRIMINATOR], event);
    });
}
