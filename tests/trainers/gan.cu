/*
 * gan.cu - a trainer with two optimizers: a discriminator, group 0, and a generator, group 1.
 *
 * As trainers of this kind are written: the generator's backward pass goes through the discriminator and leaves its
 * part in the discriminator's gradients, which are zeroed before they are used again. Kernels only, every sum in a
 * fixed order. Prints "step N loss L" on rank 0, and saves its parameters as the samples do.
 */
extern "C" {
#include "common/parameter_file.h"
}

#include "common.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, WIDTH = 32, SQUARE = WIDTH * WIDTH, THREADS = 64, DISCRIMINATOR = 0, GENERATOR = 1, NETS = 2 };

struct options {
    int steps, streams;
    size_t batch;
    const char *rhythm; /* "turns", "joint" (both backward passes, then both optimizers), "critic" (three to one), or
                           "any" (no rhythm at all) */
    int change_at;      /* from this step on "turns" becomes "critic"; 0: never */
    int swap_at;        /* "joint": in this step the optimizers' order is the other one; 0: never */
    int swap_rank;      /* on this rank only; -1: on all */
    int retire_at;      /* in this step the generator is trained for the last time; 0: never */
    const char *save;   /* or NULL */
};

struct layer {
    float *weight, *gradient, *output, *delta;
};

static struct options options = {24, 1, 24, "turns", 0, 0, -1, 0, NULL};
static struct layer nets[NETS][LAYERS];
static float *input, *input_delta;
static cudaStream_t streams[NETS]; /* each net's optimizer has one; the same if --streams 1 */
static cudaStream_t side;          /* of the generator's backward pass; its own if --streams 3 */
static cudaEvent_t event;

/* ---- kernels ---- */

__global__ void
forward(const float *weight, const float *in, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= WIDTH * count)
        return;
    float sum = 0.0f;
    for (int k = 0; k < WIDTH; ++k)
        sum += weight[(i % WIDTH) * WIDTH + k] * in[(i / WIDTH) * WIDTH + k];
    out[i] = tanhf(sum);
}

__global__ void
loss_delta(const float *out, float target, float *delta, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < WIDTH * count)
        delta[i] = (out[i] - target) * (1.0f - out[i] * out[i]) / (float)count;
}

__global__ void
backward_weight(const float *delta, const float *in, float *gradient, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= SQUARE)
        return;
    float sum = 0.0f;
    for (int b = 0; b < count; ++b)
        sum += delta[b * WIDTH + i / WIDTH] * in[b * WIDTH + i % WIDTH];
    gradient[i] += sum;
}

__global__ void
backward_input(const float *weight, const float *delta, const float *in, float *delta_in, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= WIDTH * count)
        return;
    float sum = 0.0f;
    for (int k = 0; k < WIDTH; ++k)
        sum += weight[k * WIDTH + i % WIDTH] * delta[(i / WIDTH) * WIDTH + k];
    delta_in[i] = sum * (1.0f - in[i] * in[i]);
}

__global__ void
sgd(float *weight, const float *gradient, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < SQUARE)
        weight[i] -= rate * gradient[i];
}

static int
blocks(int count)
{
    return (count + THREADS - 1) / THREADS;
}

/* ---- the nets ---- */

static float
noise(unsigned seed, unsigned number)
{
    unsigned x = seed * 2654435761u + number * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return (float)(x & 0xffffu) / 32768.0f - 1.0f;
}

/* Samples of the world's batch number `number`, this rank's share of them. */
static void
load_input(unsigned number, size_t first, size_t count)
{
    float *host = (float *)malloc(count * WIDTH * sizeof(float));
    for (size_t i = 0; i < count * WIDTH; ++i)
        host[i] = noise(number + 1, (unsigned)(first * WIDTH + i));
    CHECK(cudaMemcpy(input, host, count * WIDTH * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(
        0)); /* a copy from pageable memory may still be on its way; the nets' streams do not wait */
    free(host);
}

static const float *
run_forward(int net, const float *in, int count, cudaStream_t stream)
{
    for (int l = 0; l < LAYERS; ++l) {
        forward<<<blocks(WIDTH * count), THREADS, 0, stream>>>(nets[net][l].weight, in, nets[net][l].output, count);
        in = nets[net][l].output;
    }
    return in;
}

/* The last layer's delta is there; `in` is what went in. Without `writes` the net's own gradients stay as they are. */
static void
run_backward(int net, const float *in, float *delta_in, int count, bool writes, cudaStream_t stream)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        const float *below = l > 0 ? nets[net][l - 1].output : in;
        float *delta_below = l > 0 ? nets[net][l - 1].delta : delta_in;
        if (writes)
            backward_weight<<<blocks(SQUARE), THREADS, 0, stream>>>(nets[net][l].delta, below, nets[net][l].gradient,
                                                                    count);
        if (delta_below != NULL)
            backward_input<<<blocks(WIDTH * count), THREADS, 0, stream>>>(nets[net][l].weight, nets[net][l].delta,
                                                                          below, delta_below, count);
    }
}

static void
zero_gradients(int net, cudaStream_t stream)
{
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaMemsetAsync(nets[net][l].gradient, 0, SQUARE * sizeof(float), stream));
}

static void
backward_of_discriminator(int count)
{
    cudaStream_t stream = streams[DISCRIMINATOR];
    stream_follow(streams[GENERATOR], stream, event);
    zero_gradients(DISCRIMINATOR, stream);
    const float *out = run_forward(DISCRIMINATOR, input, count, stream); /* real: +0.5 */
    loss_delta<<<blocks(WIDTH * count), THREADS, 0, stream>>>(out, 0.5f, nets[DISCRIMINATOR][LAYERS - 1].delta, count);
    run_backward(DISCRIMINATOR, input, NULL, count, true, stream);

    const float *fake = run_forward(GENERATOR, input, count, stream); /* fake: -0.5 */
    out = run_forward(DISCRIMINATOR, fake, count, stream);
    loss_delta<<<blocks(WIDTH * count), THREADS, 0, stream>>>(out, -0.5f, nets[DISCRIMINATOR][LAYERS - 1].delta, count);
    run_backward(DISCRIMINATOR, fake, NULL, count, true, stream);
}

static void
backward_of_generator(int count, bool writes_discriminator)
{
    cudaStream_t stream = side;
    stream_follow(streams[DISCRIMINATOR], stream, event);
    stream_follow(streams[GENERATOR], stream, event);
    zero_gradients(GENERATOR, stream);
    const float *fake = run_forward(GENERATOR, input, count, stream);
    const float *out = run_forward(DISCRIMINATOR, fake, count, stream);
    loss_delta<<<blocks(WIDTH * count), THREADS, 0, stream>>>(out, 0.5f, nets[DISCRIMINATOR][LAYERS - 1].delta, count);
    run_backward(DISCRIMINATOR, fake, nets[GENERATOR][LAYERS - 1].delta, count, writes_discriminator, stream);
    run_backward(GENERATOR, input, input_delta, count, true, stream);
}

static void
optimize(int net)
{
    if (net == DISCRIMINATOR)
        DDP_STEP(streams[net]);
    else
        DDP_STEP_GROUP(GENERATOR, streams[net]);
    stream_follow(side, streams[net],
                  event); /* only now: DDP_STEP itself waits for every stream that touched the group's gradients */
    for (int l = 0; l < LAYERS; ++l)
        sgd<<<blocks(SQUARE), THREADS, 0, streams[net]>>>(nets[net][l].weight, nets[net][l].gradient, 0.05f);
}

/* ---- training ---- */

static void
create(void)
{
    size_t rows = options.batch * WIDTH * sizeof(float);
    float host[SQUARE];
    CHECK(cudaMalloc(&input, rows));
    CHECK(cudaMalloc(&input_delta, rows));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    for (int net = 0; net < NETS; ++net) {
        streams[net] = streams[0];
        if (net < options.streams)
            CHECK(cudaStreamCreateWithFlags(&streams[net], cudaStreamNonBlocking));
        for (int l = 0; l < LAYERS; ++l) {
            struct layer *layer = &nets[net][l];
            CHECK(cudaMalloc(&layer->weight, sizeof(host)));
            CHECK(cudaMalloc(&layer->gradient, sizeof(host)));
            CHECK(cudaMalloc(&layer->output, rows));
            CHECK(cudaMalloc(&layer->delta, rows));
            for (int i = 0; i < SQUARE; ++i)
                host[i] =
                    noise((unsigned)(100 * net + l), (unsigned)i) / 16.0f + (i / WIDTH == i % WIDTH ? 0.8f : 0.0f);
            CHECK(cudaMemcpy(layer->weight, host, sizeof(host), cudaMemcpyHostToDevice));
        }
    }
}

static void
annotate(void)
{
    for (int net = 0; net < NETS; ++net) {
        DDP_GRADIENT_GROUP(net);
        for (int l = 0; l < LAYERS; ++l) {
            DDP_PARAMETER(nets[net][l].weight, SQUARE, DDP_FLOAT32);
            DDP_GRADIENT(nets[net][l].gradient, SQUARE, DDP_FLOAT32);
        }
    }
}

static bool
is_rhythm(const char *name, int step)
{
    const char *now = options.change_at > 0 && step >= options.change_at ? "critic" : options.rhythm;
    return strcmp(now, name) == 0;
}

static void
train_jointly(int step, int count)
{
    bool swap = step == options.swap_at && (options.swap_rank < 0 || options.swap_rank == DDP_RANK());
    backward_of_discriminator(count);
    backward_of_generator(count, false);
    optimize(swap ? GENERATOR : DISCRIMINATOR);
    optimize(swap ? DISCRIMINATOR : GENERATOR);
}

/* It only infers from now on: gradients are freed, and weights lie where nothing is annotated. */
static void
retire_generator(void)
{
    for (struct layer &layer : nets[GENERATOR]) {
        float *kept;
        CHECK(cudaMalloc(&kept, SQUARE * sizeof(float)));
        CHECK(cudaMemcpy(kept, layer.weight, SQUARE * sizeof(float), cudaMemcpyDeviceToDevice));
        CHECK(cudaFree(layer.weight));
        CHECK(cudaFree(layer.gradient));
        layer.weight = kept;
    }
}

static void
train(void)
{
    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 1; step <= options.steps; ++step) {
        load_input((unsigned)step, first, count);
        bool generator = is_rhythm("critic", step) ? step % 4 == 0 : noise(77, (unsigned)step) > 0.0f;
        if (is_rhythm("joint", step)) {
            train_jointly(step, (int)count);
        } else {
            bool both = is_rhythm("turns", step);
            if (both || !generator) {
                backward_of_discriminator((int)count);
                optimize(DISCRIMINATOR);
            }
            if ((both || generator) && (options.retire_at == 0 || step <= options.retire_at)) {
                backward_of_generator((int)count, true);
                optimize(GENERATOR);
            }
        }
        CHECK(cudaDeviceSynchronize()); /* the next batch goes into the same memory */
        if (step == options.retire_at)
            retire_generator();
    }
}

static int
save(void)
{
    struct parameter parameters[NETS * LAYERS];
    for (int i = 0; i < NETS * LAYERS; ++i) {
        snprintf(parameters[i].name, sizeof(parameters[i].name), "%c%d", i < LAYERS ? 'd' : 'g', i % LAYERS);
        parameters[i].count = SQUARE;
        parameters[i].values = (float *)malloc(SQUARE * sizeof(float));
        CHECK(cudaMemcpy(parameters[i].values, nets[i / LAYERS][i % LAYERS].weight, SQUARE * sizeof(float),
                         cudaMemcpyDeviceToHost));
    }
    int status = parameter_file_write(options.save, DDP_RANK(), parameters, NETS * LAYERS);
    for (int i = 0; i < NETS * LAYERS; ++i)
        free(parameters[i].values);
    return status;
}

int
main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--steps") == 0)
            options.steps = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--streams") == 0)
            options.streams = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--rhythm") == 0)
            options.rhythm = argv[i + 1];
        else if (strcmp(argv[i], "--change-at") == 0)
            options.change_at = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--swap-at") == 0)
            options.swap_at = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--swap-rank") == 0)
            options.swap_rank = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--retire-at") == 0)
            options.retire_at = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--save") == 0)
            options.save = argv[i + 1];
        else
            return 2;
    }
    create();
    annotate();
    train();
    return options.save != NULL && save() != 0;
}
