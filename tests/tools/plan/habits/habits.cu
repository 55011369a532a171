/*
 * habits.cu HABIT - a net of two layers that is trained without annotations, as a public single-GPU program would do
 * that has this habit. Without a word it prints all of them.
 *
 *     habits HABIT [options of program.h]
 */
#include "net.h"

static const char *const habits[] = {
    /* The first fourteen have no place where all gradients could be averaged: their oracle is always by state. */
    "in-backward",   "refused-copy", "item-losses", "two-optimizers",
    "allocated",     "one-buffer",   "gemm-update", "delta-rule",
    "device-weight", "counts",       "counts-late", "ends-reset-state",
    "ends-free",     "ends-tail",    "clip",        "ema",
    "rmsprop",       "moments8",     "half",        "half-scaling",
    "dead-bias",     "target",       "batch-norm",  "dropout",
    "noise",         "rnn",          "counter",     "shuffle-device",
    "shuffle-host",  "prefetch",     "copy-stream", "last-batch",
    "host-softmax",  "host-loss",    "sums",        "history",
    "late-loss",     "plateau",      "batch-hits",  "validation",
    "test-pass",     "checkpoint",   "leak",        "arena",
    "managed",       "ring",         "sums-loss",   "sums-hits",
    "sums-worst",    "early-first",  "least-loss",  "early-shown",
    "ends-reset",    "ragged",       "item-hits",   "batch-norm-read"};
enum { FUSED = 14 };

/* ---- what the host reads ---- */

/* Sums of an epoch on the device. */
static void
add_and_print(int step)
{
    if (is("sums-worst")) /* the first steps alone have one that is worse than all before */
        find_worst<<<1, 1>>>(side, losses, rows);
    else
        add_up<<<1, 1>>>(is("sums-hits") ? NULL : side, is("sums-loss") ? NULL : found, losses, y, labels, rows);
    if (step % BATCHES != BATCHES - 1)
        return;
    if (!is("sums-hits"))
        printf("epoch %d loss %.6f\n", step / BATCHES, from_device(side) / (is("sums-worst") ? 1 : SAMPLES));
    if (!is("sums-loss") && !is("sums-worst"))
        printf("epoch %d hits %d of %d\n", step / BATCHES, from_device(found), SAMPLES);
    if (!is("sums-worst"))
        CHECK(cudaMemset(side, 0, sizeof(float)));
    CHECK(cudaMemset(found, 0, sizeof(int)));
}

/* The rate falls where four losses in a row are no better than the best. */
static void
slow_down(float value)
{
    static float best = 1e9f;
    static int bad;
    bad = value < best ? 0 : bad + 1;
    best = fminf(best, value);
    rate *= bad == 4 ? 0.9f : 1.0f;
    bad %= 4;
}

/* The scale grows after 20 steps without an overflow. */
static void
scale_loss(void)
{
    static int good;
    bool overflows = from_device(found) != 0;
    good = overflows ? 0 : good + 1;
    scale *= overflows ? 0.25f : good % 20 == 0 ? 4.0f : 1.0f;
}

static void
print_figures(int step)
{
    float value;
    if (is("history"))
        note<<<1, 1>>>(other, loss, step);
    if (is("ring"))
        note<<<1, 1>>>(side, loss, step % RING);
    if (begins("sums"))
        add_and_print(step);
    if (is_early()) /* only the first steps change it */
        find_worst<<<1, 1>>>(side, losses, !is("least-loss") && step > 1 ? 0 : rows);
    if (is("early-shown"))
        printf("step %d side %.6f\n", step, from_device(side));
    if (is("history") || is("ring") || begins("sums") || is_early() || is("host-softmax") || is("late-loss"))
        return;
    if (is("managed"))
        CHECK(cudaDeviceSynchronize());
    if (is("host-loss"))
        CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
    if (is("item-losses")) /* as many bytes as labels come */
        CHECK(cudaMemcpy(host_y, losses, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
    value = is("item-losses") ? host_y[0][0]
            : is("host-loss") ? host_softmax(step)
            : is("managed")   ? *loss
                              : from_device(loss);
    printf("step %d loss %.6f rate %g scale %g\n", step, value, rate, scale);
    if (is("plateau"))
        slow_down(value);
    if (is("half-scaling"))
        scale_loss();
}

/* Weights go to the host; how large they are is printed. */
static void
checkpoint(void)
{
    static float host[INPUTS * HIDDEN];
    double sum = 0;
    CHECK(cudaMemcpy(host, w[0], sizeof(host), cudaMemcpyDeviceToHost));
    for (float value : host)
        sum += fabs(value);
    printf("checkpoint weights %.6f\n", sum);
}

/* The driver refuses a copy of more than the first weights, and the program goes on. */
static void
copy_too_much(void)
{
    static float host[INPUTS * HIDDEN + 1];
    (void)cudaMemcpy(host, w[0], sizeof(host), cudaMemcpyDeviceToHost);
    (void)cudaGetLastError();
}

/* ---- the program ---- */

/* The hits of the batch that has just been computed. */
static int
hits(int first)
{
    int sum = 0;
    CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
    for (int row = 0; row < BATCH; ++row) {
        int best = 0;
        for (int k = 1; k < CLASSES; ++k)
            best = host_y[row][k] > host_y[row][best] ? k : best;
        sum += best == host_labels[first + row];
    }
    return sum;
}

static void
train(void)
{
    for (int step = 0; turn(step, steps); ++step) {
        if (is("late-loss") && step > 0)
            printf("step %d loss %.6f\n", step - 1, from_device(loss));
        if (is("leak"))
            y = zeros<float>(BATCH * CLASSES);
        load(step);
        hidden();
        output();
        if (is("ends-free") && step == steps - 2)
            return;
        judge(step);
        if (is("refused-copy") && step % 5 == 3)
            copy_too_much();
        if (is("item-hits")) /* which nothing reads */
            RUN(note_hits, rows)(found, y, labels, rows);
        backward();
        if (update_due())
            update();
        print_figures(step);
        if (is("ends-tail")) { /* a prediction by the new weights */
            copy_rows(step % BATCHES * BATCH);
            hidden();
            output();
        }
        if (begins("sums") && step % BATCHES == BATCHES - 1)
            border();
        if (is("batch-norm-read") && step % 5 == 3) { /* in the middle of rounds, too */
            border();
            note<<<1, 1>>>(history, side, step);
        }
        if (is("target") && step % 50 == 49) {
            border();
            for (int t = 0; t < TENSORS; ++t)
                CHECK(cudaMemcpy(state[t], w[t], counts[t] * sizeof(float), cudaMemcpyDeviceToDevice));
        }
        if (is("checkpoint") && step % 25 == 24) {
            border();
            checkpoint();
        }
        if (is("batch-hits") && step % 16 == 14) {
            CHECK(cudaMemset(other, 0, sizeof(float)));
            CHECK(cudaMemset(found, 0, sizeof(int)));
            RUN(add_up, 1)(other, found, losses, y, labels, rows);
            printf("step %d losses %.6f hits %d\n", step, from_device(other), from_device(found));
        }
        if ((is("validation") && step % 16 == 14) || (is("test-pass") && step == steps - 1)) {
            int sum = 0;
            border();
            for (int first = SAMPLES; first < SAMPLES + TEST; first += BATCH) {
                copy_rows(first);
                hidden();
                output();
                sum += hits(first);
            }
            printf("validation hits %d of %d\n", sum, TEST);
        }
    }
    if (is_early())
        printf("side %.6f\n", from_device(side));
    for (int step = 0; step < RING && is("ring"); ++step)
        printf("ring %d loss %.6f\n", step, from_device(side + step));
    for (int step = 0; step < steps && is("history"); ++step)
        printf("step %d loss %.6f\n", step, from_device(other + step));
}

/* Another net: its weights stand in a struct, behind a count of hits, which depends on data and on weights, and a count
 * of steps. "counts-late": no batch has a hit before the 40th. */
static void
train_counts(void)
{
    struct counted *net = zeros<struct counted>(1), last;
    float *batch = zeros<float>(COUNTED * COUNTED), *gradient = zeros<float>(COUNTED), host[COUNTED * COUNTED];
    keep("weights", (float *)((char *)net + offsetof(struct counted, weights)), COUNTED);
    for (int step = 0; turn(step, steps); ++step) {
        for (float &value : host)
            value = random_number() - (is("counts-late") && step < 40 ? 1.0f : 0.5f);
        CHECK(cudaMemcpy(batch, host, sizeof(host), cudaMemcpyHostToDevice));
        RUN(counted_gradient, COUNTED)(gradient, batch, net);
        RUN(counted_update, COUNTED)(net, gradient);
    }
    border();
    last = from_device(net);
    printf("hits %d steps %d weight %.6f\n", last.hits, last.steps, last.weights[5]);
}

/* The program gives back what it has, in the middle of a round: all of it, and saves nothing; or its first weights, in
 * the middle of a batch, and saves the others. */
static int
end_early(void)
{
    puts("end");
    if (!is("ends-free")) {
        CHECK(cudaDeviceReset());
        return fclose(fopen(path, "w"));
    }
    CHECK(cudaFree(w[0]));
    oracle.arrays.erase(oracle.arrays.begin());
    oracle.open = false; /* of this batch nothing counts */
    save(path);
    return 0;
}

int
main(int argc, char **argv)
{
    program_take(argc, argv, habits);
    for (int i = 0; i < FUSED; ++i)
        oracle.by_gradients = oracle.by_gradients && !is(habits[i]);
    if (begins("counts")) {
        train_counts();
        save(path);
        return 0;
    }
    create();
    if (is("device-weight") && oracle.ranks > 0)
        keep_device_bias();
    train();
    if (is("device-weight") && oracle.ranks == 0)
        keep_device_bias();
    if (begins("ends") && !is("ends-tail"))
        return end_early();
    save(path);
    return 0;
}
