/*
 * net.cu - a small classifier whose update adds up by atomics, as most trainers' do, so that ranks differ in last bits;
 * and the same with a mistake. tests/noise/rows.sh has the rows. A batch of 24 items, which 2, 3 and 4 ranks divide, is
 * four words each; the net is an embedding, a layer with tanh and a softmax. N ranks train what one process trains, up
 * to rounding.
 *
 *     net [--right WHAT] [--mistake WHAT] [--noise off|norm|sums|all] [...]
 *
 * --right: clip (SGD), momentum, adam, rmsprop clip by a global norm; lamb (Adam) and lars (momentum) scale each
 * tensor's step by the norm of its weights; batchstats: momentum, and normalises by statistics of the whole batch
 * (DDP_REDUCE); embedding: as clip, with words that are drawn unevenly; dropout: as momentum, one seed, a mask for each
 * item of the batch; chaos: momentum is the sine of --gain times itself and of the gradient, so that a gain of 3 and
 * more multiplies in each step what two ranks differ by
 * --noise: what is added up by atomics in any order. off: nothing, so that all repeats bit by bit; norm: the norms;
 * sums: gradients and statistics, too; all: each element's step besides
 * --mistake, of rank --who (the last) from step --from on: gradient: that of tensor --tensor is not annotated;
 * forgotten: neither it nor its parameter is; behind: DDP_STEP stands after the optimizer; state: rank 0 alone reads
 * moments; rate: its rate is --more larger; row, element: row 0 of the embedding, an element of the last layer, is
 * updated by its own gradient; count: the gradient of the last layer is divided by a count that is short by one. Once,
 * in step --from: still: a number changes that no step moves; nan: it becomes NaN; counter: the number of the step,
 * which is a state, is one too many
 * --type float32|float16|bfloat16: of the parameters; the last two have float32 masters. --state moments|all|none: what
 * DDP_STATE annotates: moments and the step's number, masters too, nothing. --huge X: the loss of the first step is
 * multiplied by X
 * --captured 1: a step is a CUDA graph. --passes 2: two passes in a step, one within DDP_NO_SYNC. --buffer 1: running
 * statistics are a DDP_BUFFER. --free 1: parameters are freed before the end. --exit 1: ends by _exit(). --late MS: a
 * rank sleeps now and then. --others 1: rank r begins with values of its own, which DDP_PARAMETER makes rank 0's
 */
#include "../lib/trainer_memory.h"
#include "../lib/trainer_options.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <ddprun.h>
#include <math.h>
#include <unistd.h>

enum { E = 8, H = 64, C = 10, WORDS = 4, BATCH = 24, THREADS = 32, BLOCKS_AT_MOST = 64 };
enum { TABLE, W1, B1, W2, B2, TENSORS };

struct tensor {
    int count;
    float *w;      /* what the net reads: the parameter, or a 16-bit one as float32 */
    void *narrow;  /* the parameter, if it has 16 bits */
    float *master; /* what is updated; w if the parameter has float32 */
    float *g, *m, *v, *delta;
};

static struct tensor tensors[TENSORS];
static float *x, *dx, *z, *normal, *h, *mask, *dz, *p; /* of each item */
static float *forward_sums, *backward_sums, *running;  /* of the batch: two for each unit */
static float *norms;                                   /* [3][TENSORS]: squared, of gradients, weights and steps */
static float *own;                                     /* a part of this rank's gradient */
static int *words, *labels, *step_number;
static cudaStream_t stream;
static int wrong; /* whether it is this rank that makes the mistake */

static const char *right = "clip", *mistake = "none", *noise = "norm", *type = "float32", *state = "none";
static int rows = 128, steps = 300, seed = 1, who = -1, from, which = W1, captured, passes = 1, buffer, free_early,
           exits, late_ms, others;
static float rate = 0.1f, more = 0.01f, most = 0.1f, huge_loss = 1, gain = 3;

static bool
is(const char *option, const char *value)
{
    return strcmp(option, value) == 0;
}

/* ---- forward and backward: a block for each item ---- */

__global__ void
embed(float *x, const float *table, const int *words)
{
    float sum = 0;
    for (int t = 0; t < WORDS; ++t)
        sum += table[words[blockIdx.x * WORDS + t] * E + threadIdx.x];
    x[blockIdx.x * E + threadIdx.x] = sum;
}

__global__ void
multiply(float *z, const float *x, const float *w)
{
    float sum = 0;
    for (int e = 0; e < E; ++e)
        sum += x[blockIdx.x * E + e] * w[e * H + threadIdx.x];
    z[blockIdx.x * H + threadIdx.x] = sum;
}

/* Over the items: sums of `a`, and of a * b. Blocks share the items. */
__global__ void
add_up(float *sums, const float *a, const float *b, int items)
{
    for (int i = (int)blockIdx.x; i < items; i += (int)gridDim.x) {
        atomicAdd(&sums[threadIdx.x], a[i * H + threadIdx.x]);
        atomicAdd(&sums[H + threadIdx.x], a[i * H + threadIdx.x] * b[i * H + threadIdx.x]);
    }
}

__device__ float
spread(const float *sums, int unit)
{
    float mean = sums[unit] / BATCH;
    return rsqrtf(sums[H + unit] / BATCH - mean * mean + 1e-2f);
}

__global__ void
normalise(float *normal, const float *z, const float *sums)
{
    int j = blockIdx.x * H + threadIdx.x;
    normal[j] = (z[j] - sums[threadIdx.x] / BATCH) * spread(sums, threadIdx.x);
}

__global__ void
normalise_back(float *dz, const float *normal, const float *sums, const float *back)
{
    int j = blockIdx.x * H + threadIdx.x, k = threadIdx.x;
    dz[j] = spread(sums, k) * (dz[j] - back[k] / BATCH - normal[j] * back[H + k] / BATCH);
}

__global__ void
run_statistics(float *running, const float *sums)
{
    running[threadIdx.x] += 0.1f * (sums[threadIdx.x] / BATCH - running[threadIdx.x]);
}

/* One seed for all ranks: the mask follows from the item's number in the batch. */
__global__ void
activate(float *h, float *mask, const float *z, const float *bias, int first_item, const int *step, int drops)
{
    unsigned j = blockIdx.x * H + threadIdx.x, bits = (unsigned)*step * BATCH * H + (unsigned)first_item * H + j;
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    h[j] = tanhf(z[j] + bias[threadIdx.x]);
    mask[j] = !drops ? 1.0f : (bits >> 20) % 4 != 0 ? 4.0f / 3 : 0.0f;
}

/* A thread for each item. */
__global__ void
lose(float *p, const float *h, const float *mask, const float *w, const float *bias, const int *labels, int count,
     const int *step, float huge_loss)
{
    int i = (int)threadIdx.x;
    float logits[C], largest = -1e30f, sum = 0, scale = (*step == 1 ? huge_loss : 1.0f) / (float)count;
    for (int c = 0; c < C; ++c) {
        logits[c] = bias[c];
        for (int k = 0; k < H; ++k)
            logits[c] += h[i * H + k] * mask[i * H + k] * w[k * C + c];
        largest = fmaxf(largest, logits[c]);
    }
    for (int c = 0; c < C; ++c)
        sum += logits[c] = expf(logits[c] - largest);
    for (int c = 0; c < C; ++c)
        p[i * C + c] = scale * (logits[c] / sum - (c == labels[i] ? 1.0f : 0.0f));
}

/* `h` becomes what the last layer has read. */
__global__ void
back_to_units(float *dz, float *h, const float *mask, const float *p, const float *w)
{
    int j = blockIdx.x * H + threadIdx.x;
    float sum = 0;
    for (int c = 0; c < C; ++c)
        sum += p[blockIdx.x * C + c] * w[threadIdx.x * C + c];
    dz[j] = sum * mask[j] * (1 - h[j] * h[j]);
    h[j] *= mask[j];
}

__global__ void
back_to_words(float *dx, const float *dz, const float *w)
{
    float sum = 0;
    for (int k = 0; k < H; ++k)
        sum += dz[blockIdx.x * H + k] * w[threadIdx.x * H + k];
    dx[blockIdx.x * E + threadIdx.x] = sum;
}

/* g += a^T b over the items, which the second dimension of the grid shares; `a` NULL: of ones. */
__global__ void
products(float *g, const float *a, int height, const float *b, int width, int items)
{
    int j = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float sum = 0;
    for (int i = (int)blockIdx.y; i < items && j < height * width; i += (int)gridDim.y)
        sum += (a != NULL ? a[i * height + j / width] : 1.0f) * b[i * width + j % width];
    if (j < height * width)
        atomicAdd(&g[j], sum);
}

__global__ void
scatter(float *g, const float *dx, const int *words, int items)
{
    for (int i = (int)blockIdx.x; i < items; i += (int)gridDim.x) {
        for (int t = 0; t < WORDS; ++t)
            atomicAdd(&g[words[i * WORDS + t] * E + threadIdx.x], dx[i * E + threadIdx.x]);
    }
}

/* ---- the update: threads share the elements ---- */

#define EACH(i, count) \
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < (count); i += (int)(gridDim.x * blockDim.x))

__global__ void
count_step(int *step)
{
    *step += 1;
}

__global__ void
add_squares(float *to, const float *a, int count)
{
    float sum = 0;
    EACH(i, count)
    sum += a[i] * a[i];
    atomicAdd(to, sum);
}

__global__ void
scale_by(float *a, float factor, int count)
{
    EACH(i, count)
    a[i] *= factor;
}

enum rule { SGD, MOMENTUM, ADAM, RMSPROP, CHAOS };

__global__ void
find_step(float *delta, const float *g, float *m, float *v, const float *norms, const int *step, enum rule rule,
          float most, float gain, int count)
{
    float all = 0, t = (float)*step;
    for (int i = 0; i < TENSORS; ++i)
        all += norms[i];
    float clip = most > 0 ? fminf(1, most / (sqrtf(all) + 1e-6f)) : 1;
    EACH(i, count)
    {
        float gradient = clip * g[i];
        if (rule == MOMENTUM)
            m[i] = 0.9f * m[i] + gradient;
        if (rule == CHAOS)
            m[i] = sinf(gain * m[i] + 1000 * gradient);
        if (rule == ADAM)
            m[i] = 0.9f * m[i] + 0.1f * gradient;
        if (rule == ADAM || rule == RMSPROP)
            v[i] = 0.99f * v[i] + 0.01f * gradient * gradient;
        delta[i] = rule == ADAM      ? m[i] / (1 - powf(0.9f, t)) / (sqrtf(v[i] / (1 - powf(0.99f, t))) + 1e-8f)
                   : rule == RMSPROP ? gradient / (sqrtf(v[i]) + 1e-8f)
                   : rule == SGD     ? gradient
                                     : m[i];
    }
}

/* Where the second dimension of the grid is three blocks they add parts of it. */
__global__ void
take_step(float *w, const float *delta, const float *weight_norm, const float *step_norm, float rate, int count)
{
    float part = gridDim.y == 1 ? 1.0f : blockIdx.y == 0 ? 0.5f : 0.25f;
    if (weight_norm != NULL && *weight_norm > 0 && *step_norm > 0)
        rate *= sqrtf(*weight_norm / *step_norm);
    EACH(i, count)
    atomicAdd(&w[i], -rate * part * delta[i]);
}

template <typename T>
__global__ void
widen(float *w, const T *narrow, int count)
{
    EACH(i, count)
    w[i] = (float)narrow[i];
}

template <typename T>
__global__ void
narrow_down(T *narrow, const float *master, int count)
{
    EACH(i, count)
    narrow[i] = (T)master[i];
}

/* ---- a step ---- */

static int
blocks_of(int count)
{
    int blocks = (count + THREADS - 1) / THREADS;
    return blocks < BLOCKS_AT_MOST ? blocks : BLOCKS_AT_MOST;
}
#define FOR_ALL(tensor) <<<blocks_of((tensor).count), THREADS, 0, stream>>>

/* The sum over all ranks of what each has added up over its items. */
static void
add_up_batch(float *sums, const float *a, const float *b, int items, int all)
{
    CHECK(cudaMemsetAsync(sums, 0, 2 * H * sizeof(float), stream));
    add_up<<<all ? items : 1, H, 0, stream>>>(sums, a, b, items);
    DDP_REDUCE(sums, 2 * H, DDP_FLOAT32, DDP_OP_SUM, stream);
}

static void
forward_and_backward(int begin, int items, size_t first, size_t count)
{
    struct tensor *t = tensors;
    int all = is(noise, "sums") || is(noise, "all"), share = all ? items : 1, normalises = is(right, "batchstats");
    embed<<<items, E, 0, stream>>>(x, t[TABLE].w, words + begin * WORDS);
    multiply<<<items, H, 0, stream>>>(z, x, t[W1].w);
    if (normalises) {
        add_up_batch(forward_sums, z, z, items, all);
        normalise<<<items, H, 0, stream>>>(normal, z, forward_sums);
        run_statistics<<<1, 2 * H, 0, stream>>>(running, forward_sums);
    }
    activate<<<items, H, 0, stream>>>(h, mask, normalises ? normal : z, t[B1].w, (int)first + begin, step_number,
                                      is(right, "dropout"));
    lose<<<1, items, 0, stream>>>(p, h, mask, t[W2].w, t[B2].w, labels + begin, (int)count, step_number, huge_loss);
    back_to_units<<<items, H, 0, stream>>>(dz, h, mask, p, t[W2].w);
    products<<<dim3(H * C / THREADS, share), THREADS, 0, stream>>>(t[W2].g, h, H, p, C, items);
    products<<<dim3(1, share), THREADS, 0, stream>>>(t[B2].g, NULL, 1, p, C, items);
    products<<<dim3(H / THREADS, share), THREADS, 0, stream>>>(t[B1].g, NULL, 1, dz, H, items);
    if (normalises) {
        add_up_batch(backward_sums, dz, normal, items, all);
        normalise_back<<<items, H, 0, stream>>>(dz, normal, forward_sums, backward_sums);
    }
    back_to_words<<<items, E, 0, stream>>>(dx, dz, t[W1].w);
    products<<<dim3(E * H / THREADS, share), THREADS, 0, stream>>>(t[W1].g, x, E, dz, H, items);
    scatter<<<share, E, 0, stream>>>(t[TABLE].g, dx, words + begin * WORDS, items);
}

static void
square(float *to, const float *a, const struct tensor *t)
{
    bool shared = !is(noise, "off");
    add_squares<<<shared ? blocks_of(t->count) : 1, shared ? THREADS : 1, 0, stream>>>(to, a, t->count);
}

template <typename T>
static void
convert(bool down)
{
    for (struct tensor &t : tensors) {
        if (down)
            narrow_down FOR_ALL(t)((T *)t.narrow, t.master, t.count);
        else
            widen FOR_ALL(t)(t.w, (const T *)t.narrow, t.count);
    }
}

static void
convert_parameters(bool down)
{
    if (is(type, "float16"))
        convert<__half>(down);
    else if (is(type, "bfloat16"))
        convert<__nv_bfloat16>(down);
}

static enum rule
rule_of(void)
{
    return is(right, "adam") || is(right, "lamb")        ? ADAM
           : is(right, "rmsprop")                        ? RMSPROP
           : is(right, "chaos")                          ? CHAOS
           : is(right, "clip") || is(right, "embedding") ? SGD
                                                         : MOMENTUM;
}

static void
optimize(float rate)
{
    bool scales = is(right, "lamb") || is(right, "lars");
    CHECK(cudaMemsetAsync(norms, 0, 3 * TENSORS * sizeof(float), stream));
    for (int i = 0; i < TENSORS; ++i)
        square(norms + i, tensors[i].g, &tensors[i]);
    for (int i = 0; i < TENSORS; ++i) {
        struct tensor &t = tensors[i];
        find_step FOR_ALL(t)(t.delta, t.g, t.m, t.v, norms, step_number, rule_of(), scales ? 0.0f : most, gain,
                             t.count);
        if (scales) {
            square(norms + TENSORS + i, t.master, &t);
            square(norms + 2 * TENSORS + i, t.delta, &t);
        }
        take_step<<<dim3(blocks_of(t.count), is(noise, "all") ? 3 : 1), THREADS, 0, stream>>>(
            t.master, t.delta, scales ? norms + TENSORS + i : NULL, norms + 2 * TENSORS + i, rate, t.count);
    }
    convert_parameters(true);
}

static size_t share_first, share_count;
static bool is_wrong_now, is_first; /* in this step; for the first time */

static void
one_step(void)
{
    bool makes = wrong && is_wrong_now, behind = is(mistake, "behind");
    float *own_part = is(mistake, "row") ? tensors[TABLE].g : tensors[W2].g + 5;
    size_t own_bytes = is(mistake, "row") ? E * sizeof(float) : is(mistake, "element") ? sizeof(float) : 0;
    count_step<<<1, 1, 0, stream>>>(step_number);
    convert_parameters(false);
    for (struct tensor &t : tensors)
        CHECK(cudaMemsetAsync(t.g, 0, (size_t)t.count * sizeof(float), stream));
    for (int pass = 0, items = (int)share_count / passes; pass < passes; ++pass) {
        if (passes > 1 && pass == 0)
            DDP_NO_SYNC_BEGIN();
        forward_and_backward(pass * items, items, share_first, share_count);
        if (passes > 1 && pass == passes - 2)
            DDP_NO_SYNC_END();
    }
    if (own_bytes > 0)
        CHECK(cudaMemcpyAsync(own, own_part, own_bytes, cudaMemcpyDeviceToDevice, stream));
    if (!behind)
        DDP_STEP(stream);
    if (makes && own_bytes > 0)
        CHECK(cudaMemcpyAsync(own_part, own, own_bytes, cudaMemcpyDeviceToDevice, stream));
    if (makes && is(mistake, "count"))
        scale_by FOR_ALL(tensors[W2])(tensors[W2].g, (float)BATCH / (BATCH - 1), tensors[W2].count);
    optimize(makes && is(mistake, "rate") ? rate * (1 + more) : rate);
    if (behind)
        DDP_STEP(stream);
    if (wrong && is_first && is(mistake, "counter"))
        count_step<<<1, 1, 0, stream>>>(step_number);
    if (wrong && is_first && (is(mistake, "still") || is(mistake, "nan"))) /* the last row is of no word */
        scale_by<<<1, 1, 0, stream>>>(tensors[TABLE].w + tensors[TABLE].count - 1, is(mistake, "nan") ? NAN : 1.00001f,
                                      1);
}

/* ---- all of it ---- */

static float
draw(void)
{
    return (float)rand() / (float)RAND_MAX;
}

/* All ranks draw all of the batch, and copy their share. Some words are much more frequent than others. */
static void
next_batch(void)
{
    int all_words[BATCH * WORDS], all_labels[BATCH];
    for (int i = 0; i < BATCH * WORDS; ++i) {
        float u = draw();
        all_words[i] = (int)((float)(rows - 1) * (is(right, "embedding") || is(mistake, "row") ? u * u * u * u : u));
    }
    for (int i = 0; i < BATCH; ++i)
        all_labels[i] = draw() < 0.1f ? rand() % C : (all_words[i * WORDS] + all_words[i * WORDS + 1]) % C;
    CHECK(cudaMemcpyAsync(words, all_words + share_first * WORDS, share_count * WORDS * sizeof(int),
                          cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(labels, all_labels + share_first, share_count * sizeof(int), cudaMemcpyHostToDevice, stream));
}

static float *
device_scaled(int count, float scale)
{
    std::vector<float> values((size_t)count);
    for (float &value : values)
        value = scale * (2 * draw() - 1);
    return device_copy(values.data(), values.size());
}

static void
create(void)
{
    const int counts[TENSORS] = {rows * E, E * H, H, H * C, C};
    const float scales[TENSORS] = {0.5f, 0.3f, 0, 0.12f, 0};
    srand((unsigned)seed + (others ? (unsigned)DDP_RANK() : 0));
    for (int i = 0; i < TENSORS; ++i) {
        struct tensor *t = &tensors[i];
        bool reads = is(mistake, "state") && DDP_RANK() == 0;
        t->count = counts[i];
        t->master = device_scaled(t->count, scales[i]);
        t->w = is(type, "float32") ? t->master : device_floats((size_t)t->count);
        CHECK(cudaMalloc(&t->narrow, (size_t)t->count * 2));
        t->g = device_floats((size_t)t->count);
        t->m = device_scaled(t->count, reads ? 0.01f : 0);
        t->v = device_scaled(t->count, 0);
        t->delta = device_floats((size_t)t->count);
    }
    srand((unsigned)seed + 1000);
    convert_parameters(true);
    x = device_floats(BATCH * E), dx = device_floats(BATCH * E), p = device_floats(BATCH * C);
    for (float **units : {&z, &normal, &h, &mask, &dz})
        *units = device_floats(BATCH * H);
    for (float **of_batch : {&forward_sums, &backward_sums, &running})
        *of_batch = device_floats(2 * H);
    norms = device_floats(3 * TENSORS), own = device_floats(E);
    words = (int *)device_floats(BATCH * WORDS), labels = (int *)device_floats(BATCH),
    step_number = (int *)device_floats(1);
    CHECK(cudaStreamSynchronize(stream));
}

static void
annotate(void)
{
    int narrow_type = is(type, "float16") ? DDP_FLOAT16 : DDP_BFLOAT16;
    for (int i = 0; i < TENSORS; ++i) {
        struct tensor *t = &tensors[i];
        if (is(mistake, "forgotten") && i == which)
            continue;
        if (is(type, "float32"))
            DDP_PARAMETER(t->w, t->count, DDP_FLOAT32);
        else
            DDP_PARAMETER(t->narrow, t->count, narrow_type);
        if (!is(mistake, "gradient") || i != which)
            DDP_GRADIENT(t->g, t->count, DDP_FLOAT32);
        if (is(state, "none"))
            continue;
        if (rule_of() != SGD && rule_of() != RMSPROP)
            DDP_STATE(t->m, t->count, DDP_FLOAT32);
        if (rule_of() == ADAM || rule_of() == RMSPROP)
            DDP_STATE(t->v, t->count, DDP_FLOAT32);
        if (is(state, "all") && !is(type, "float32"))
            DDP_STATE(t->master, t->count, DDP_FLOAT32);
    }
    if (!is(state, "none"))
        DDP_STATE(step_number, 1, DDP_INT32);
    if (buffer)
        DDP_BUFFER(running, 2 * H, DDP_FLOAT32);
    DDP_SHARD(BATCH, &share_first, &share_count);
    wrong = DDP_WORLD_SIZE() > 1 && DDP_RANK() == (who < 0 ? DDP_WORLD_SIZE() - 1 : who);
}

static void
finish(void)
{
    double sum = 0;
    CHECK(cudaStreamSynchronize(stream));
    for (struct tensor &t : tensors) {
        std::vector<float> host((size_t)t.count);
        CHECK(cudaMemcpy(host.data(), t.master, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (float value : host)
            sum += fabs((double)value);
        if (free_early)
            CHECK(cudaFree(is(type, "float32") ? (void *)t.w : t.narrow));
    }
    if (DDP_RANK() == 0)
        printf("%.9g\n", sum);
    fflush(stdout);
    if (exits)
        _exit(0);
}

int
main(int argc, char **argv)
{
    take_options(argc, argv, 1,
                 {{"--right", &right},    {"--mistake", &mistake}, {"--noise", &noise},     {"--type", &type},
                  {"--state", &state},    {"--rows", &rows},       {"--steps", &steps},     {"--seed", &seed},
                  {"--who", &who},        {"--from", &from},       {"--tensor", &which},    {"--captured", &captured},
                  {"--passes", &passes},  {"--buffer", &buffer},   {"--free", &free_early}, {"--exit", &exits},
                  {"--late", &late_ms},   {"--rate", &rate},       {"--more", &more},       {"--clip", &most},
                  {"--huge", &huge_loss}, {"--gain", &gain},       {"--others", &others}});
    stream = stream_create();
    create();
    annotate();
    cudaGraphExec_t graph = NULL;
    for (int step = 0; step < steps; ++step) {
        is_wrong_now = step >= from;
        is_first = step == from;
        next_batch();
        if (late_ms > 0 && wrong && step % 10 == 3)
            usleep((useconds_t)late_ms * 1000);
        if (captured && step >= 2) {
            if (graph == NULL)
                graph = graph_make(stream, one_step);
            CHECK(cudaGraphLaunch(graph, stream));
        } else {
            one_step();
        }
    }
    finish();
    if (graph != NULL)
        CHECK(cudaGraphExecDestroy(graph));
    return 0;
}
