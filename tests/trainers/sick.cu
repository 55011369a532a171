/*
 * sick.cu - a trainer in which one rank, in one step, has an infinite element or NaN in one gradient.
 *
 * A NaN spreads as in a network: the update brings it into the weight, and from then on all gradients are NaN on all
 * ranks. With --skip an update with such a gradient is left out, as where losses are scaled. With --leave the program
 * ends with code 3 when it has seen one, as many that look at their loss.
 *
 * Options: --type 0..3 (float32, float64, float16, bfloat16), --flat 1 (all gradients next to each other: sent in
 * place),
 * --tensors N, --count N (elements of the first; the others have fewer), --steps N, --rank R (-1: none, -2: all),
 * --step S (from 1), --tensor T, --whole 1 (all its elements), --infinite 1, --skip 1, --leave 1, --parameters 1
 * (DDP_STEP_PARAMETERS: the weight itself is sick), --mask 1 (one weight is infinite from the beginning), --groups N
 * (tensors belong to groups in turn, each with a DDP_STEP of its own in each step), --graph N (steps are captured, N of
 * them in a graph), --eager N (so many steps before the capture), --ahead 1 (the host waits for nothing before the
 * end), --mean 1 (a DDP_MEAN in each step, and its value is NaN where else a gradient would be), --says 1 (a line after
 * each step).
 */
#include "../lib/trainer.h"
#include "../lib/trainer_options.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>

enum { TENSORS_AT_MOST = 16, GRAPH_AT_MOST = 20 };

/* ints on the device: an update is left out; a weight is not finite; each step of a graph is sick. */
enum { LEFT_OUT, SPOILT, SICK, FLAGS = SICK + GRAPH_AT_MOST };

static const struct {
    enum ddp_type type;
    int bytes;
    unsigned long long one, exponent, nan;
} types[] = {
    {DDP_FLOAT32, 4, 0x3f800000, 0x7f800000, 0x7fc00000},
    {DDP_FLOAT64, 8, 0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000},
    {DDP_FLOAT16, 2, 0x3c00, 0x7c00, 0x7e00},
    {DDP_BFLOAT16, 2, 0x3f80, 0x7f80, 0x7fc0},
};

static struct {
    int type, flat, tensors, count, steps, rank, step, tensor, whole, infinite, skip, leave, parameters, mask, groups,
        graph, eager, ahead, mean, says;
} options = {.tensors = 6, .count = 3000, .steps = 40, .rank = -1, .step = 20, .tensor = 2, .groups = 1};

struct tensor {
    unsigned char *weight, *gradient;
    size_t count;
};

__device__ static unsigned long long
load(const unsigned char *at, int bytes)
{
    unsigned long long bits = 0;
    for (int i = 0; i < bytes; ++i)
        bits |= (unsigned long long)at[i] << 8 * i;
    return bits;
}

__device__ static void
store(unsigned char *at, int bytes, unsigned long long bits)
{
    for (int i = 0; i < bytes; ++i)
        at[i] = (unsigned char)(bits >> 8 * i);
}

/* In a sick step elements [first, first + sick) become `bits`; all, if a weight is not finite any more. */
__global__ void
backward(unsigned char *gradient, size_t count, int bytes, unsigned long long one, size_t first, size_t sick,
         unsigned long long bits, const int *is_sick, const int *spoilt, unsigned long long nan)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        store(gradient + i * bytes, bytes, *spoilt ? nan : *is_sick && i - first < sick ? bits : one);
}

__global__ void
look(const unsigned char *values, size_t count, int bytes, unsigned long long exponent, int *found)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        if ((load(values + i * bytes, bytes) & exponent) == exponent)
            *found = 1;
    }
}

/* What is not finite stays in the weight, unless the update is left out. */
__global__ void
update(unsigned char *weight, const unsigned char *gradient, size_t count, int bytes, unsigned long long exponent,
       const int *left_out, int *spoilt)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count && !*left_out;
         i += (size_t)gridDim.x * blockDim.x) {
        unsigned long long bits = load(gradient + i * bytes, bytes);
        if ((bits & exponent) != exponent)
            continue;
        store(weight + i * bytes, bytes, bits);
        *spoilt = 1;
    }
}

static cudaStream_t stream;

static void
make_tensors(struct tensor *tensors)
{
    const int bytes = types[options.type].bytes;
    unsigned char *flat = NULL;
    CHECK(cudaMalloc((void **)&flat, (size_t)options.tensors * options.count * bytes));
    for (int t = 0; t < options.tensors; ++t) {
        struct tensor *made = &tensors[t];
        made->count = (size_t)options.count / (1 + t % 3);
        const size_t size = made->count * bytes;
        CHECK(cudaMalloc((void **)&made->weight, size));
        CHECK(cudaMemset(made->weight, 0, size));
        made->gradient = flat;
        flat += size;
        if (!options.flat)
            CHECK(cudaMalloc((void **)&made->gradient, size));
        CHECK(cudaMemset(made->gradient, 0, size));
        if (options.mask && t == 0) {
            unsigned long long infinite = types[options.type].exponent;
            CHECK(cudaMemcpy(made->weight, &infinite, bytes, cudaMemcpyHostToDevice));
        }
        DDP_PARAMETER(made->weight, made->count, types[options.type].type);
        if (options.groups > 1)
            DDP_GRADIENT_GROUP(t % options.groups);
        if (!options.parameters)
            DDP_GRADIENT(made->gradient, made->count, types[options.type].type);
    }
}

/* The gradients of one group, and what follows from them; number `at` of its graph. */
static void
enqueue(const struct tensor *tensors, int group, int at, int *flags)
{
    const int bytes = types[options.type].bytes;
    const unsigned long long exponent = types[options.type].exponent, nan = types[options.type].nan;
    CHECK(cudaMemsetAsync(&flags[LEFT_OUT], 0, sizeof(int), stream));
    for (int t = options.tensors - 1; t >= 0; --t) {
        const struct tensor *of = &tensors[t];
        size_t sick = t != options.tensor ? 0 : options.whole ? of->count : 1;
        size_t first = options.whole ? 0 : of->count / 2;
        if (t % options.groups == group)
            backward<<<4, 64, 0, stream>>>(options.parameters ? of->weight : of->gradient, of->count, bytes,
                                           types[options.type].one, first, sick, options.infinite ? exponent : nan,
                                           &flags[SICK + at], &flags[SPOILT], nan);
    }
    if (options.parameters) {
        DDP_STEP_PARAMETERS(stream);
        return;
    }
    DDP_STEP_GROUP(group, stream);
    for (int t = group; options.skip && t < options.tensors; t += options.groups)
        look<<<4, 64, 0, stream>>>(tensors[t].gradient, tensors[t].count, bytes, exponent, &flags[LEFT_OUT]);
    for (int t = group; t < options.tensors; t += options.groups)
        update<<<4, 64, 0, stream>>>(tensors[t].weight, tensors[t].gradient, tensors[t].count, bytes, exponent,
                                     &flags[LEFT_OUT], &flags[SPOILT]);
    CHECK(cudaGetLastError());
}

static bool
is_sick_step(int step)
{
    return step == options.step && (options.rank == DDP_RANK() || options.rank == -2);
}

/* Steps from `step` on: one, or a graph of them. Returns how many. */
static int
train(const struct tensor *tensors, int step, int *flags)
{
    static cudaGraphExec_t captured;
    const bool is_graph = options.graph > 0 && step > options.eager;
    const int count = is_graph ? options.graph : 1;
    for (int i = 0; i < count; ++i) {
        const bool is_sick = is_sick_step(step + i) && !options.mean;
        CHECK(cudaMemset(&flags[SICK + i], is_sick, sizeof(int)));
    }
    if (is_graph && captured == NULL)
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < count && captured == NULL; ++i) {
        for (int g = 0; g < options.groups; ++g)
            enqueue(tensors, g, i, flags);
    }
    if (is_graph && captured == NULL) {
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&captured, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }
    if (is_graph)
        CHECK(cudaGraphLaunch(captured, stream));
    return count;
}

static void
parse(int argc, char **argv)
{
    take_options(argc, argv, 1, {OPTION(options, type),       OPTION(options, flat),   OPTION(options, tensors),
                                 OPTION(options, count),      OPTION(options, steps),  OPTION(options, rank),
                                 OPTION(options, step),       OPTION(options, tensor), OPTION(options, whole),
                                 OPTION(options, infinite),   OPTION(options, skip),   OPTION(options, leave),
                                 OPTION(options, parameters), OPTION(options, mask),   OPTION(options, groups),
                                 OPTION(options, graph),      OPTION(options, eager),  OPTION(options, ahead),
                                 OPTION(options, mean),       OPTION(options, says)});
    if (options.tensors > TENSORS_AT_MOST || options.graph > GRAPH_AT_MOST)
        exit(2);
}

int
main(int argc, char **argv)
{
    struct tensor tensors[TENSORS_AT_MOST];
    int *flags, host[FLAGS] = {0};
    parse(argc, argv);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc((void **)&flags, sizeof(host)));
    CHECK(cudaMemset(flags, 0, sizeof(host)));
    make_tensors(tensors);
    for (int step = 1; step <= options.steps;) {
        step += train(tensors, step, flags);
        if (!options.ahead)
            CHECK(cudaMemcpy(host, flags, sizeof(host), cudaMemcpyDeviceToHost));
        if (options.leave && host[SPOILT])
            exit(3);
        if (options.mean) {
            double loss = is_sick_step(step - 1) ? (double)NAN : 1.0;
            DDP_MEAN_AS("loss", &loss);
        }
        if (options.says)
            printf("step %d\n", step - 1);
    }
    return 0;
}
