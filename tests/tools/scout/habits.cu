/*
 * habits.cu HABIT[+HABIT...] [STEPS] - a small trainer with the habits that trainers have, annotated as it has to be,
 * so that what `ddprun scout` finds can be held against it. Two dense layers, a softmax, Adam. The habits:
 *
 * of the update: sgd (y += a x), momentum-in-gradient (the gradient is scaled, never zeroed), decay (written into the
 * gradient), clip and host-norm (by a norm that the device or the host computes), average and two-averages (of the
 * parameters), schedule (another rate in each step), skip (every fifth step, by a flag on the device), scaled (the loss
 * is, and the host leaves every seventh step out)
 *
 * of the step: batches (three passes, the last one with fewer items), evaluate (every tenth step), one (item), zeroed
 * (gradients are zeroed and added to), captured (forward and backward are a graph)
 *
 * of memory: realloc (gradients are made anew in each step), flat (one buffer, made in the first backward), history
 * (the loss of each step has a place of its own), half (bfloat16 beside float32 weights)
 *
 * of the net: batch-norm, dropout, embedding, recurrent, atomics (gradients are sums by atomicAdd), two (nets by turns,
 * an optimizer for each)
 *
 * of other programs: stencil, inference, diverged
 */
#include "tests/tools/scout/public.h"

#include <cstdint>

enum { WORDS = 50, NETS = 2, PASSES = 3 };

static int steps = STEPS;

/* ---- kernels ---- */

/* g += x' d, of a bias without x: each item adds its own. */
ELEMENTWISE(add_items, (float *g, const float *x, const float *d, int rows, int in, int out), rows *in *out,
            int row = i / (in * out), e = i % (in * out);
            atomicAdd(&g[e], (x != NULL ? x[row * in + e / out] : 1.0f) * d[row * out + e % out] / rows))

ELEMENTWISE(set_flag, (float *flag, const float *squares, float most), 1, *flag = *squares < most ? 1.0f : 0.0f)

/* `flag`: nothing happens where it is 0; NULL: it always does. */
__global__ void
adam(float *w, const float *g, float *m, float *v, const float *flag, float rate, float unscale, int step, int count)
{
    int k = INDEX;
    if (k >= count || (flag != NULL && *flag == 0.0f))
        return;
    float gradient = g[k] * unscale;
    m[k] = 0.9f * m[k] + 0.1f * gradient;
    v[k] = 0.99f * v[k] + 0.01f * gradient * gradient;
    w[k] -= rate * (m[k] / (1 - powf(0.9f, step))) / (sqrtf(v[k] / (1 - powf(0.99f, step))) + 1e-3f);
}

ELEMENTWISE(drop, (float *h, unsigned *seeds, int count), count, seeds[i] = seeds[i] * 1664525u + 1013904223u;
            if ((seeds[i] >> 16) % 5 == 0) h[i] = 0)

ELEMENTWISE(look_up, (float *x, const float *table, const int *words, int rows, int width), rows *width,
            x[i] = table[words[i / width] * width + i % width])

ELEMENTWISE(look_up_gradient, (float *g, const float *d, const int *words, int rows, int width), rows *width,
            atomicAdd(&g[words[i / width] * width + i % width], d[i] / rows))

ELEMENTWISE(cell_delta, (float *d, const float *h, const float *x, int rows, int in, int width), rows *width,
            d[i] = (h[i] - x[i / width * in + i % in]) * (1 - h[i] * h[i]))

static __device__ float
widen(uint16_t half)
{
    unsigned bits = (unsigned)half << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static __device__ uint16_t
narrow(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x8000u) >> 16);
}

ELEMENTWISE(to_half, (uint16_t * half, const float *x, int count), count, half[i] = narrow(x[i]))
ELEMENTWISE(from_half, (float *x, const uint16_t *half, int count), count, x[i] = widen(half[i]))

__global__ void
half_gradient(uint16_t *g, const float *x, const float *d, int rows, int in, int out)
{
    int k = INDEX;
    float sum = 0;
    for (int r = 0; k < in * out && r < rows; ++r)
        sum += (x != NULL ? x[r * in + k / out] : 1.0f) * d[r * out + k % out] / rows;
    if (k < in * out)
        g[k] = narrow(sum);
}

__global__ void
spread_heat(float *next, const float *now, int count)
{
    int i = INDEX;
    if (i > 0 && i < count - 1)
        next[i] = now[i] + 0.1f * (now[i - 1] - 2 * now[i] + now[i + 1]);
}

/* ---- memory and data ---- */

static void
upload(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

struct net {
    float *w[TENSORS], *g[TENSORS], *m[TENSORS], *v[TENSORS], *average[NETS][TENSORS];
    uint16_t *half[TENSORS], *half_gradient[TENSORS];
    float *table, *table_gradient, *table_m, *table_v;
};

static float *x_delta, *loss, *squares, *flag, *mean, *variance;
static int *classes, *words;
static unsigned *seeds;
static float host_x[BATCH * INPUTS];
static int host_wanted[BATCH], host_words[BATCH];

static void
annotate_gradients(struct net *net, int group)
{
    DDP_GRADIENT_GROUP(group);
    for (int i = 0; i < TENSORS; ++i)
        DDP_GRADIENT(net->g[i], tensor_count[i], DDP_FLOAT32);
}

static void
create(struct net *net, int group)
{
    for (int i = 0; i < TENSORS; ++i) {
        net->w[i] = floats(tensor_count[i], 0.4f);
        net->m[i] = floats(tensor_count[i], 0);
        net->v[i] = floats(tensor_count[i], 0);
        for (int n = 0; n < NETS; ++n)
            net->average[n][i] = floats(tensor_count[i], 0);
        DDP_PARAMETER(net->w[i], tensor_count[i], DDP_FLOAT32);
        if (!is("flat") && !is("realloc") && !is("half"))
            net->g[i] = floats(tensor_count[i], 0);
        if (is("half")) {
            CHECK(cudaMalloc(&net->half[i], (size_t)tensor_count[i] * 2));
            CHECK(cudaMalloc(&net->half_gradient[i], (size_t)tensor_count[i] * 2));
            net->g[i] = floats(tensor_count[i], 0);
            DDP_GRADIENT(net->half_gradient[i], tensor_count[i], DDP_BFLOAT16);
        }
    }
    if (net->g[0] != NULL && !is("half"))
        annotate_gradients(net, group);
    if (is("embedding")) {
        net->table = floats(WORDS * INPUTS, 1.0f);
        net->table_gradient = floats(WORDS * INPUTS, 0);
        net->table_m = floats(WORDS * INPUTS, 0);
        net->table_v = floats(WORDS * INPUTS, 0);
        DDP_PARAMETER(net->table, WORDS * INPUTS, DDP_FLOAT32);
        DDP_GRADIENT(net->table_gradient, WORDS * INPUTS, DDP_FLOAT32);
    }
}

/* Gradients of habits that make them as they go. */
static void
prepare_gradients(struct net *net)
{
    if (is("flat") && net->g[0] == NULL) {
        int total = 0;
        for (int i = 0; i < TENSORS; ++i)
            total += tensor_count[i];
        net->g[0] = floats(total, 0);
        for (int i = 1; i < TENSORS; ++i)
            net->g[i] = net->g[i - 1] + tensor_count[i - 1];
        annotate_gradients(net, 0);
    }
    for (int i = 0; i < TENSORS && is("realloc"); ++i) {
        if (net->g[i] != NULL) {
            DDP_FORGET(net->g[i]);
            CHECK(cudaFree(net->g[i]));
        }
        CHECK(cudaMalloc(&net->g[i], (size_t)tensor_count[i] * sizeof(float)));
    }
    if (is("realloc"))
        annotate_gradients(net, 0);
}

static void
load(int rows)
{
    for (int r = 0; r < rows; ++r) {
        host_wanted[r] = (int)(random_number() * OUTPUTS);
        host_words[r] = (int)(random_number() * WORDS);
        for (int i = 0; i < INPUTS; ++i)
            host_x[r * INPUTS + i] = (i % OUTPUTS == host_wanted[r] ? 1.0f : 0.0f) + 0.3f * random_number();
    }
    if (is("embedding"))
        upload(words, host_words, (size_t)rows * sizeof(int));
    else
        upload(x, host_x, (size_t)rows * INPUTS * sizeof(float));
    upload(classes, host_wanted, (size_t)rows * sizeof(int));
}

/* ---- a step ---- */

static void
forward(const struct net *net, int rows)
{
    if (is("embedding"))
        RUN(look_up, rows * INPUTS)(x, net->table, words, rows, INPUTS);
    RUN(dense, rows * HIDDEN)(h, x, net->w[0], net->w[1], rows, INPUTS, HIDDEN, HIDDEN, BENT);
    if (is("batch-norm"))
        RUN(normalise, HIDDEN)(h, mean, variance, rows, HIDDEN);
    if (is("dropout"))
        RUN(drop, rows * HIDDEN)(h, seeds, rows * HIDDEN);
    RUN(dense, rows * OUTPUTS)(y, h, net->w[2], net->w[3], rows, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
}

static void
backward(const struct net *net, int rows, bool adds, float scaled)
{
    RUN(softmax_delta, rows)(delta, loss, y, classes, rows, OUTPUTS, scaled);
    RUN(delta_below, rows * HIDDEN)(below, delta, net->w[2], h, rows, HIDDEN, OUTPUTS, OUTPUTS);
    for (int i = 0; i < TENSORS; ++i) {
        if (!is("atomics"))
            compute_gradient(net->g[i], i, rows, adds);
        else
            RUN(add_items, tensor_count[i] * rows)
        (net->g[i], input_of(i), delta_of(i), rows, tensor_in[i], tensor_out[i]);
    }
    if (!is("embedding"))
        return;
    RUN(delta_below, rows * INPUTS)(x_delta, below, net->w[0], x, rows, INPUTS, HIDDEN, HIDDEN);
    CHECK(cudaMemsetAsync(net->table_gradient, 0, WORDS * INPUTS * sizeof(float), stream));
    RUN(look_up_gradient, rows * INPUTS)(net->table_gradient, x_delta, words, rows, INPUTS);
}

static void
measure_norm(const struct net *net)
{
    CHECK(cudaMemsetAsync(squares, 0, sizeof(float), stream));
    for (int i = 0; i < TENSORS; ++i)
        RUN(add_squares, 1)(squares, net->g[i], tensor_count[i]);
}

static float
norm_on_host(const struct net *net)
{
    float sum;
    measure_norm(net);
    CHECK(cudaMemcpyAsync(&sum, squares, sizeof(sum), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return sqrtf(sum);
}

static void
before_update(const struct net *net, int step)
{
    for (int i = 0; i < TENSORS && is("decay"); ++i)
        RUN(add_scaled, tensor_count[i])(net->g[i], net->w[i], 1e-2f, tensor_count[i]);
    if (is("clip") || is("skip"))
        measure_norm(net);
    for (int i = 0; i < TENSORS && is("clip"); ++i)
        RUN(scale_to_norm, tensor_count[i])(net->g[i], squares, 0.1f, tensor_count[i]);
    if (is("skip"))
        RUN(set_flag, 1)(flag, squares, step % 5 == 4 ? 0.0f : 10.0f);
    if (is("host-norm")) {
        float norm = norm_on_host(net);
        for (int i = 0; i < TENSORS; ++i)
            RUN(scale_by, tensor_count[i])(net->g[i], norm > 0.1f ? 0.1f / norm : 1.0f, tensor_count[i]);
    }
}

static void
update(const struct net *net, int step, float unscale)
{
    float rate = is("diverged") ? 1e30f : is("schedule") ? 0.01f / (1.0f + 0.1f * step) : 0.01f;
    for (int i = 0; i < TENSORS; ++i) {
        int count = tensor_count[i];
        if (is("half"))
            RUN(from_half, count)(net->g[i], net->half_gradient[i], count);
        if (is("sgd") || is("momentum-in-gradient") || is("diverged"))
            RUN(add_scaled, count)(net->w[i], net->g[i], -10 * rate, count);
        else
            RUN(adam, count)
        (net->w[i], net->g[i], net->m[i], net->v[i], is("skip") ? flag : NULL, rate, unscale, step + 1, count);
        if (is("momentum-in-gradient"))
            RUN(scale_by, count)(net->g[i], 0.9f, count);
        for (int n = 0; n < is("average") + 2 * is("two-averages"); ++n)
            RUN(move_average, count)(net->average[n][i], net->w[i], n == 0 ? 0.9f : 0.99f, count);
    }
    if (is("embedding"))
        RUN(adam, WORDS * INPUTS)
    (net->table, net->table_gradient, net->table_m, net->table_v, NULL, rate, 1.0f, step + 1, WORDS * INPUTS);
}

/* Weights and gradients in 16 bits beside those in 32. */
static void
round_weights(const struct net *net)
{
    for (int i = 0; i < TENSORS; ++i) {
        RUN(to_half, tensor_count[i])(net->half[i], net->w[i], tensor_count[i]);
        RUN(from_half, tensor_count[i])(net->average[0][i], net->half[i], tensor_count[i]); /* what forward reads */
    }
}

static void
step_half(const struct net *net, int step)
{
    struct net rounded = *net;
    load(BATCH);
    round_weights(net);
    memcpy(rounded.w, net->average[0], sizeof(rounded.w));
    forward(&rounded, BATCH);
    RUN(softmax_delta, BATCH)(delta, loss, y, classes, BATCH, OUTPUTS, 1.0f);
    RUN(delta_below, BATCH * HIDDEN)(below, delta, rounded.w[2], h, BATCH, HIDDEN, OUTPUTS, OUTPUTS);
    for (int i = 0; i < TENSORS; ++i)
        RUN(half_gradient, tensor_count[i])
    (net->half_gradient[i], input_of(i), delta_of(i), BATCH, tensor_in[i], tensor_out[i]);
    DDP_STEP(stream);
    update(net, step, 1);
}

static cudaGraphExec_t
capture(const struct net *net)
{
    cudaGraph_t graph;
    cudaGraphExec_t launchable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    forward(net, BATCH);
    backward(net, BATCH, false, 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&launchable, graph, 0));
    return launchable;
}

static void
step_captured(const struct net *net, int step)
{
    static cudaGraphExec_t graph;
    if (graph == NULL)
        graph = capture(net);
    load(BATCH);
    CHECK(cudaGraphLaunch(graph, stream));
    DDP_STEP(stream);
    update(net, step, 1);
}

static void
step_plain(struct net *net, int step, int group)
{
    static float *history;
    bool adds = is("momentum-in-gradient") || is("zeroed") || is("atomics");
    float scaled = is("scaled") ? 128.0f : 1.0f;
    int passes = is("batches") ? PASSES : 1;
    prepare_gradients(net);
    for (int i = 0; i < TENSORS && (is("zeroed") || is("atomics")); ++i)
        CHECK(cudaMemsetAsync(net->g[i], 0, (size_t)tensor_count[i] * sizeof(float), stream));
    for (int pass = 0; pass < passes; ++pass) {
        int rows = is("one") ? 1 : pass == PASSES - 1 ? BATCH / 2 : BATCH;
        load(rows);
        forward(net, rows);
        backward(net, rows, adds || pass > 0, scaled);
    }
    DDP_STEP_GROUP(group, stream);
    before_update(net, step);
    if (!is("scaled") || norm_on_host(net) < (step % 7 == 6 ? 0.0f : 128.0f * 4.0f))
        update(net, step, 1.0f / scaled);
    if (is("history")) {
        if (history == NULL)
            history = floats(steps, 0);
        CHECK(cudaMemsetAsync(&history[step], 0, sizeof(float), stream));
        RUN(add_scaled, 1)(&history[step], loss, 1.0f, 1);
    }
    if (is("evaluate") && step % 10 == 9) {
        load(BATCH);
        forward(net, BATCH);
        CHECK(cudaMemcpyAsync(host_x, y, BATCH * OUTPUTS * sizeof(float), cudaMemcpyDeviceToHost, stream));
    }
}

/* ---- programs of another kind ---- */

static void
train_recurrent(void)
{
    float *w = floats(INPUTS * HIDDEN, 0.4f), *u = floats(HIDDEN * HIDDEN, 0.4f), *next = floats(BATCH * HIDDEN, 0);
    float *gw = floats(INPUTS * HIDDEN, 0), *gu = floats(HIDDEN * HIDDEN, 0);
    DDP_PARAMETER(w, INPUTS * HIDDEN, DDP_FLOAT32);
    DDP_PARAMETER(u, HIDDEN * HIDDEN, DDP_FLOAT32);
    DDP_GRADIENT(gw, INPUTS * HIDDEN, DDP_FLOAT32);
    DDP_GRADIENT(gu, HIDDEN * HIDDEN, DDP_FLOAT32);
    for (int step = 0; step < steps; ++step) {
        load(BATCH);
        RUN(cell, BATCH * HIDDEN)(next, x, h, w, u, BATCH, INPUTS, HIDDEN);
        RUN(cell_delta, BATCH * HIDDEN)(below, next, x, BATCH, INPUTS, HIDDEN);
        RUN(gradient_of, INPUTS * HIDDEN)(gw, x, below, BATCH, INPUTS, HIDDEN, HIDDEN, false);
        RUN(gradient_of, HIDDEN * HIDDEN)(gu, h, below, BATCH, HIDDEN, HIDDEN, HIDDEN, false);
        DDP_STEP(stream);
        RUN(add_scaled, INPUTS * HIDDEN)(w, gw, -0.1f, INPUTS * HIDDEN);
        RUN(add_scaled, HIDDEN * HIDDEN)(u, gu, -0.1f, HIDDEN * HIDDEN);
        CHECK(cudaMemcpyAsync(h, next, BATCH * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    }
}

static void
run_others(struct net *net)
{
    enum { CELLS = 1024 };
    float *now = floats(CELLS, 1), *next = floats(CELLS, 1);
    for (int step = 0; step < steps; ++step) {
        if (is("stencil")) {
            RUN(spread_heat, CELLS)(next, now, CELLS);
            RUN(spread_heat, CELLS)(now, next, CELLS);
        } else {
            load(BATCH);
            forward(net, BATCH);
            CHECK(cudaMemcpy(host_x, y, BATCH * OUTPUTS * sizeof(float), cudaMemcpyDeviceToHost));
        }
    }
}

int
main(int argc, char **argv)
{
    static struct net nets[NETS];
    names_take(argc > 1 ? 2 : 1, argv,
               " adam sgd momentum-in-gradient decay clip host-norm average two-averages schedule skip scaled batches "
               "evaluate "
               "one zeroed realloc flat history batch-norm dropout embedding recurrent half atomics captured two "
               "stencil inference diverged ");
    steps = argc > 2 ? atoi(argv[2]) : STEPS;
    CHECK(cudaStreamCreate(&stream));
    create_activations();
    x_delta = floats(BATCH * INPUTS, 0);
    loss = floats(1, 0);
    squares = floats(1, 0);
    flag = floats(1, 0);
    mean = floats(HIDDEN, 0);
    variance = floats(HIDDEN, 1);
    seeds = (unsigned *)floats(BATCH * HIDDEN, 1);
    classes = (int *)floats(BATCH, 0);
    words = (int *)floats(BATCH, 0);
    if (is("stencil") || is("inference")) {
        create(&nets[0], 0);
        run_others(&nets[0]);
    } else if (is("recurrent")) {
        train_recurrent();
    } else {
        for (int n = 0; n < 1 + is("two"); ++n)
            create(&nets[n], n);
        for (int step = 0; step < steps; ++step) {
            CHECK(cudaMemsetAsync(loss, 0, sizeof(float), stream));
            if (is("half"))
                step_half(&nets[0], step);
            else if (is("captured"))
                step_captured(&nets[0], step);
            else
                step_plain(&nets[step % (1 + is("two"))], step, step % (1 + is("two")));
        }
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
