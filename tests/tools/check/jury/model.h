/*
 * model.h - what the programs of the jury train: a network of two layers, the records that it learns, and the way of a
 * batch to the device. Every process knows all records, and sums are taken by one thread in the order of the records.
 *
 * With JURY_SAVE=PATH in the environment a program writes what it started from and what it keeps to PATH.RANK when it
 * ends: jury.sh compares these files of one process and of several, which shows whether the program is right.
 */
#ifndef TESTS_TOOLS_CHECK_JURY_MODEL_H
#define TESTS_TOOLS_CHECK_JURY_MODEL_H

#include "tests/tools/frame.h"
#include "tests/tools/kernels.h"

enum { IN = 8, HID = 12, OUT = 4, BATCH = 24, ITEMS = 360, THREADS = 64, TENSORS = 4, SUMS = 32 };
enum { W1, B1, W2, B2 };

#define LAUNCH(kernel, count) kernel<<<((count) + THREADS - 1) / THREADS, THREADS, 0, stream>>>
#define EACH(i, count)                             \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= (count))                              \
    return

struct tensor {
    int rows, columns;
    float *value, *gradient, *first, *second, *kept; /* first and second moments; what a habit keeps besides */
    int count;
};

static struct tensor net[TENSORS] = {{HID, IN}, {HID, 1}, {OUT, HID}, {OUT, 1}};

static struct {
    size_t first, count; /* this rank's share of the batch */
    int order[BATCH];
    float host_x[BATCH * IN], host_t[BATCH * OUT], host_losses[BATCH]; /* records, targets: of the whole batch */
    float *x, *t, *hidden, *hidden_delta, *p, *delta, *losses, *sums;
} batch;

static struct {
    int steps;
    float rate;
} options = {80, 0.1f};

static cudaStream_t stream;

/* ---- kernels ---- */

/* p: a probability for each class. */
static __global__ void
forward(float *hidden, float *p, const float *x, const float *w1, const float *b1, const float *w2, const float *b2,
        int count)
{
    EACH(item, count);
    float logits[OUT], total = 0;
    for (int u = 0; u < HID; ++u) {
        float sum = b1[u];
        for (int k = 0; k < IN; ++k)
            sum += w1[u * IN + k] * x[item * IN + k];
        hidden[item * HID + u] = tanhf(sum);
    }
    for (int c = 0; c < OUT; ++c) {
        logits[c] = b2[c];
        for (int u = 0; u < HID; ++u)
            logits[c] += w2[c * HID + u] * hidden[item * HID + u];
        total += expf(logits[c]);
    }
    for (int c = 0; c < OUT; ++c)
        p[item * OUT + c] = expf(logits[c]) / total;
}

/* Of cross entropy with the targets t. */
static __global__ void
loss_delta(float *delta, float *losses, const float *p, const float *t, float divisor, int count)
{
    EACH(item, count);
    float loss = 0;
    for (int c = 0; c < OUT; ++c) {
        int at = item * OUT + c;
        delta[at] = (p[at] - t[at]) / divisor;
        loss -= t[at] * logf(p[at]);
    }
    losses[item] = loss;
}

ELEMENTWISE(add_noise, (float *values, int count, unsigned seed, float size), count,
            values[i] += size * (hashed_float(seed, (unsigned)i) - 0.5f))

/* ---- the network ---- */

static void
to_device(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

static void
copy(float *to, const float *from, int count)
{
    CHECK(cudaMemcpyAsync(to, from, (size_t)count * sizeof(float), cudaMemcpyDeviceToDevice, stream));
}

static void
to_host(float *to, const float *from, int count)
{
    CHECK(cudaMemcpyAsync(to, from, (size_t)count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void
fill_random(float *values, int count, unsigned seed, float spread)
{
    float host[HID * IN];
    for (int i = 0; i < count; ++i)
        host[i] = spread * (hashed_float(seed, (unsigned)i) - 0.5f);
    CHECK(cudaMemcpy(values, host, (size_t)count * sizeof(float), cudaMemcpyHostToDevice));
}

static void
make_network(unsigned seed)
{
    CHECK(cudaStreamCreate(&stream));
    for (struct tensor &t : net) {
        t.count = t.rows * t.columns;
        for (float **memory : {&t.value, &t.gradient, &t.first, &t.second, &t.kept})
            *memory = device_floats(t.count);
        fill_random(t.value, t.count, seed + (unsigned)(&t - net), 0.8f);
    }
    batch.x = device_floats(BATCH * IN);
    batch.t = device_floats(BATCH * OUT);
    batch.hidden = device_floats(BATCH * HID);
    batch.hidden_delta = device_floats(BATCH * HID);
    batch.p = device_floats(BATCH * OUT);
    batch.delta = device_floats(BATCH * OUT);
    batch.losses = device_floats(BATCH);
    batch.sums = device_floats(SUMS);
}

static inline void
annotate(void)
{
    for (const struct tensor &t : net) {
        DDP_PARAMETER(t.value, t.count, DDP_FLOAT32);
        DDP_GRADIENT(t.gradient, t.count, DDP_FLOAT32);
    }
}

static void
run_forward(float *p, const float *x, int count)
{
    LAUNCH(forward, count)
    (batch.hidden, p, x, net[W1].value, net[B1].value, net[W2].value, net[B2].value, count);
}

/* From batch.delta and batch.hidden of `count` records of x to gradients. */
static void
run_backward(const float *x, int count, float keep)
{
    LAUNCH(weight_gradient, net[W2].count)(net[W2].gradient, batch.delta, batch.hidden, HID, OUT, count, keep, 1);
    LAUNCH(bias_gradient, OUT)(net[B2].gradient, batch.delta, OUT, count, keep, 1);
    LAUNCH(input_delta, count * HID)
    (batch.hidden_delta, net[W2].value, batch.delta, batch.hidden, HID, OUT, count);
    LAUNCH(weight_gradient, net[W1].count)(net[W1].gradient, batch.hidden_delta, x, IN, HID, count, keep, 1);
    LAUNCH(bias_gradient, HID)(net[B1].gradient, batch.hidden_delta, HID, count, keep, 1);
}

/* The mean of the share's cross entropies: its gradients. */
static inline void
run_passes(float keep)
{
    int count = (int)batch.count;
    run_forward(batch.p, batch.x, count);
    LAUNCH(loss_delta, count)(batch.delta, batch.losses, batch.p, batch.t, (float)count, count);
    run_backward(batch.x, count, keep);
}

/* The mean loss of the share that the last pass had. */
static inline float
share_loss(void)
{
    float loss = 0;
    to_host(batch.host_losses, batch.losses, (int)batch.count);
    for (size_t i = 0; i < batch.count; ++i)
        loss += batch.host_losses[i];
    return loss / (float)batch.count;
}

static inline float
norm_of(bool gradients)
{
    float sum;
    CHECK(cudaMemsetAsync(batch.sums, 0, sizeof(float), stream));
    for (const struct tensor &t : net)
        LAUNCH(add_squares, 1)(batch.sums, gradients ? t.gradient : t.value, t.count);
    to_host(&sum, batch.sums, 1);
    return sqrtf(sum);
}

/* ---- the records ---- */

static int
label_of(int item)
{
    return (int)(hashed_float(3, (unsigned)item) * OUT);
}

static void
record_of(int item, float *x)
{
    for (int k = 0; k < IN; ++k)
        x[k] = hashed_float(5, (unsigned)(item * IN + k)) - 0.5f + 0.8f * (float)((label_of(item) * 3 + k) % OUT == 0);
}

/* The data set in the order of an epoch, from which step takes its batch. */
static void
batch_order(int step, unsigned seed, int *order)
{
    int all[ITEMS], epoch = step * BATCH / ITEMS;
    for (int i = 0; i < ITEMS; ++i)
        all[i] = i;
    for (int i = ITEMS - 1; i > 0; --i) {
        int k = (int)(hashed_float(seed + 31u * (unsigned)epoch, (unsigned)i) * (float)(i + 1)), item = all[i];
        all[i] = all[k];
        all[k] = item;
    }
    memcpy(order, all + step * BATCH % ITEMS, BATCH * sizeof(*order));
}

/* Records and targets of a batch, in the host's memory, by its order. */
static void
fill_records(int total)
{
    CHECK(cudaStreamSynchronize(stream)); /* the host's memory is free again */
    memset(batch.host_t, 0, sizeof(batch.host_t));
    for (int i = 0; i < total; ++i) {
        record_of(batch.order[i], batch.host_x + i * IN);
        batch.host_t[i * OUT + label_of(batch.order[i])] = 1;
    }
    DDP_SHARD(total, &batch.first, &batch.count);
}

static inline void
fill_batch(int step)
{
    batch_order(step, 77, batch.order);
    fill_records(BATCH);
}

static void
send_share(void)
{
    to_device(batch.x, batch.host_x + batch.first * IN, batch.count * IN * sizeof(float));
    to_device(batch.t, batch.host_t + batch.first * OUT, batch.count * OUT * sizeof(float));
}

/* ---- what is kept ---- */

static FILE *
saved_file(void)
{
    static FILE *file;
    const char *path = getenv("JURY_SAVE");
    char name[4096];
    if (path != NULL && file == NULL) {
        snprintf(name, sizeof(name), "%s.%d", path, DDP_RANK());
        REQUIRE((file = fopen(name, "w")) != NULL);
    }
    return file;
}

/* Adds `count` numbers of the device to the file: one line. */
static void
save(const float *values, int count)
{
    float host[512];
    if (saved_file() == NULL)
        return;
    to_host(host, values, count);
    for (int i = 0; i < count; ++i)
        fprintf(saved_file(), "%.9g ", (double)host[i]);
    fprintf(saved_file(), "\n");
}

static void
save_network(void)
{
    for (const struct tensor &t : net)
        save(t.value, t.count);
}

static const std::vector<option_row> option_table = {{"--steps", &options.steps}, {"--rate", &options.rate}};

#endif
