/*
 * nets.cu - the jury's networks: what public ones have in front of their layers, beside them or from batch to batch. In
 * front of the network of model.h an embedding adds a row of its table to each record; a name makes a habit, or a
 * mistake, at which a comment stands.
 */
#include "model.h"

enum { WORDS = 60, RANK = 2 };

static const char names[] =
    " sparse twice running statistics adapter spectral route position lanes dropout_by_item "
    "rows_own stale_rows second_use_after running_own statistics_own base_by_rank merge_on_0 spectral_by_rank "
    "capacity_own position_local lanes_rotated ";

static float *table, *table_gradient;
static int *words, *touched, *touched_before; /* of each record; of each row of the table, whether a record has it */
static float *running;                        /* the records' mean */
static float *state;                          /* of each lane of the batch */
static float *base, *low[2], *low_gradient[2], *direction;

/* ---- kernels ---- */

ELEMENTWISE(embed, (float *x, const float *table, const int *words, int count), count *IN,
            x[i] += table[words[i / IN] * IN + i % IN])

/* Adds to the rows that a record has. */
static __global__ void
embedding_gradient(float *g, const float *hidden_delta, const float *w1, const int *words, int count)
{
    EACH(i, WORDS * IN);
    for (int item = 0; item < count; ++item)
        for (int u = 0; u < HID && words[item] == i / IN; ++u)
            g[i] += hidden_delta[item * HID + u] * w1[u * IN + i % IN];
}

ELEMENTWISE(clear_rows, (float *g, const int *rows), WORDS *IN, g[i] = rows[i / IN] ? 0 : g[i])

static __global__ void
sgd_rows(float *w, const float *g, const int *rows, float rate)
{
    EACH(i, WORDS * IN);
    if (rows[i / IN])
        w[i] -= rate * g[i];
}

ELEMENTWISE(drop, (float *x, const int *items, unsigned seed, int count), count *IN,
            x[i] *= hashed_float(seed + (unsigned)items[i / IN], (unsigned)(i % IN)) < 0.2f ? 0.0f : 1.25f)

/* sums: of the columns of x, and of the records. */
static __global__ void
add_columns(float *sums, const float *x, int count)
{
    EACH(k, IN + 1);
    sums[k] = k == IN ? (float)count : 0;
    for (int i = 0; i < count && k < IN; ++i)
        sums[k] += x[i * IN + k];
}

static __global__ void
subtract_running(float *x, float *running, const float *sums, int count)
{
    EACH(k, IN);
    running[k] = 0.8f * running[k] + 0.2f * sums[k] / sums[IN];
    for (int i = 0; i < count; ++i)
        x[i * IN + k] -= running[k];
}

/* An expert for each record, by its features. Those that come when it has as many as it takes are dropped. */
static __global__ void
to_experts(float *x, int capacity, int count)
{
    EACH(one, 1);
    int taken[4] = {};
    for (int i = one; i < count; ++i) {
        int expert = (x[i * IN] > 0.1f) + 2 * (x[i * IN + 1] > 0.1f);
        for (int k = 0; k < IN; ++k)
            x[i * IN + k] *= taken[expert] < capacity ? 1 + 0.2f * (float)expert : 0.0f;
        ++taken[expert];
    }
}

ELEMENTWISE(add_position, (float *x, int first, int count), count, x[i * IN] += 0.05f * (float)(first + i))

/* The records' lanes carry what their first units were. */
static __global__ void
carry(float *x, float *state, const float *hidden, int count)
{
    EACH(i, count * IN);
    if (hidden != NULL)
        state[i] = hidden[i / IN * HID + i % IN];
    else
        x[i] += state[i];
}

static __global__ void
add_product(float *w, const float *base, const float *a, const float *b)
{
    EACH(i, HID * IN);
    w[i] = base[i];
    for (int k = 0; k < RANK; ++k)
        w[i] += a[i / IN * RANK + k] * b[k * IN + i % IN];
}

static __global__ void
product_gradients(float *a_gradient, float *b_gradient, const float *g, const float *a, const float *b)
{
    EACH(i, HID * RANK + RANK * IN);
    int k = i - HID * RANK;
    if (k < 0) {
        a_gradient[i] = 0;
        for (int c = 0; c < IN; ++c)
            a_gradient[i] += g[i / RANK * IN + c] * b[i % RANK * IN + c];
    } else {
        b_gradient[k] = 0;
        for (int u = 0; u < HID; ++u)
            b_gradient[k] += g[u * IN + k % IN] * a[u * RANK + k / IN];
    }
}

/* One step of the power method from the direction that the last one left; w gets this norm at most. */
static __global__ void
bound_spectrum(float *w, float *u, float bound)
{
    EACH(one, 1);
    float v[IN] = {}, norm = 0, sigma = 0;
    for (int i = one; i < HID * IN; ++i)
        v[i % IN] += w[i] * u[i / IN];
    for (int k = 0; k < IN; ++k)
        norm += v[k] * v[k];
    for (int row = 0; row < HID; ++row) {
        u[row] = 0;
        for (int k = 0; k < IN; ++k)
            u[row] += w[row * IN + k] * v[k] / sqrtf(norm);
        sigma += u[row] * u[row];
    }
    for (int row = 0; row < HID; ++row)
        u[row] /= sqrtf(sigma);
    for (int i = 0; i < HID * IN; ++i)
        w[i] *= fminf(1, bound / sqrtf(sigma));
}

/* ---- a step ---- */

/* Which rows of the table a part of the batch has. */
static void
mark(int *rows, size_t first, size_t count)
{
    int host[WORDS] = {};
    for (size_t i = first; i < first + count; ++i)
        host[batch.order[i] * 7 % WORDS] = 1;
    to_device(rows, host, sizeof(host));
    CHECK(cudaStreamSynchronize(stream));
}

static void
load(int step)
{
    int host[BATCH], count = (int)batch.count;
    /* Mistake: lanes carry a state, and the ranks take other lanes in each step. */
    if (is("lanes_rotated"))
        batch.first = (batch.first + (size_t)step * batch.count) % BATCH;
    for (int i = 0; i < BATCH; ++i)
        host[i] = batch.order[i] * 7 % WORDS;
    send_share();
    to_device(words, host + batch.first, batch.count * sizeof(int));
    CHECK(cudaStreamSynchronize(stream));
    LAUNCH(embed, count * IN)(batch.x, table, words, count);
    if (is("dropout_by_item")) {
        to_device(touched, batch.order + batch.first, batch.count * sizeof(int));
        LAUNCH(drop, count * IN)(batch.x, touched, 100u * (unsigned)step, count);
    }
    bool used = is("running") || is("running_own"), shared = is("running") || is("statistics");
    if (used || is("statistics") || is("statistics_own")) { /* the latter for evaluations, by what is saved */
        LAUNCH(add_columns, IN + 1)(batch.sums, batch.x, count);
        if (shared) /* mistake, without: sums of the share */
            DDP_REDUCE(batch.sums, IN + 1, DDP_FLOAT32, DDP_OP_SUM, stream);
        LAUNCH(subtract_running, IN)(used ? batch.x : batch.hidden, running, batch.sums, count);
    }
    if (is("route") || is("capacity_own")) /* mistake: places are given to the share's records */
        LAUNCH(to_experts, 1)(batch.x, is("route") ? count : count / 4, count);
    if (is("position") || is("position_local")) /* mistake: the place in the share */
        LAUNCH(add_position, count)(batch.x, is("position") ? (int)batch.first : 0, count);
    if (is("lanes") || is("lanes_rotated"))
        LAUNCH(carry, count * IN)(batch.x, state, NULL, count);
}

/* The first layer's weights are a base that stays, and a product of low rank that is trained. */
static void
adapt(int step)
{
    if (step == 40 && is("merge_on_0") && DDP_RANK() == 0) { /* mistake: on rank 0 only */
        copy(base, net[W1].value, HID * IN);
        CHECK(cudaMemsetAsync(low[1], 0, RANK * IN * sizeof(float), stream));
    }
    LAUNCH(add_product, HID * IN)(net[W1].value, base, low[0], low[1]);
}

static void
second_use(void)
{
    LAUNCH(scale_by, (int)batch.count * IN)(batch.x, -0.5f, (int)batch.count * IN);
    run_passes(1);
}

static void
update(void)
{
    for (const struct tensor &t : net)
        if (base == NULL || &t != &net[W1])
            LAUNCH(descend, t.count)(t.value, t.gradient, options.rate, t.count);
    if (base != NULL) {
        LAUNCH(descend, HID * RANK)(low[0], low_gradient[0], options.rate, HID * RANK);
        LAUNCH(descend, RANK * IN)(low[1], low_gradient[1], options.rate, RANK * IN);
    }
    if (is("sparse") || is("stale_rows") || is("rows_own"))
        LAUNCH(sgd_rows, WORDS * IN)(table, table_gradient, touched, options.rate);
    else
        LAUNCH(descend, WORDS * IN)(table, table_gradient, options.rate, WORDS * IN);
    if (direction != NULL)
        LAUNCH(bound_spectrum, 1)(net[W1].value, direction, 1);
}

static void
train_step(int step)
{
    int count = (int)batch.count;
    load(step);
    if (base != NULL)
        adapt(step);
    run_passes(0);
    if (is("lanes") || is("lanes_rotated"))
        LAUNCH(carry, count * IN)(batch.x, state, batch.hidden, count);
    if (is("sparse") || is("stale_rows") || is("rows_own")) {
        int *before = touched_before;
        LAUNCH(clear_rows, WORDS * IN)(table_gradient, before);
        touched_before = touched;
        touched = before;
        mark(touched, 0, BATCH);
    } else {
        CHECK(cudaMemsetAsync(table_gradient, 0, WORDS * IN * sizeof(float), stream));
    }
    LAUNCH(embedding_gradient, WORDS * IN)(table_gradient, batch.hidden_delta, net[W1].value, words, count);
    if (is("twice"))
        second_use();
    if (base != NULL)
        LAUNCH(product_gradients, HID * RANK + RANK * IN)
    (low_gradient[0], low_gradient[1], net[W1].gradient, low[0], low[1]);
    DDP_STEP(stream);
    if (is("second_use_after")) /* mistake: what the weights' other use adds is not averaged */
        second_use();
    /* Mistakes: only the rows of this rank's records are updated, or cleared in the next step. */
    if (is("rows_own"))
        mark(touched, batch.first, batch.count);
    update();
    if (is("stale_rows"))
        mark(touched, batch.first, batch.count);
}

/* ---- the training ---- */

static void
make_others(void)
{
    table = device_floats(WORDS * IN);
    table_gradient = device_floats(WORDS * IN);
    fill_random(table, HID * IN, 40, 0.5f);
    running = device_floats(IN);
    state = device_floats(BATCH * IN);
    words = (int *)device_memory(WORDS * sizeof(int));
    touched = (int *)device_memory(WORDS * sizeof(int));
    touched_before = (int *)device_memory(WORDS * sizeof(int));
    if (is("adapter") || is("base_by_rank") || is("merge_on_0")) {
        /* Mistake: the base is annotated nowhere, and another one on each rank. */
        fill_random(base = device_floats(HID * IN), HID * IN, 50u + (is("base_by_rank") ? (unsigned)DDP_RANK() : 0), 1);
        for (int i = 0; i < 2; ++i) {
            int counts[2] = {HID * RANK, RANK * IN};
            low[i] = device_floats(counts[i]);
            low_gradient[i] = device_floats(counts[i]);
            fill_random(low[i], counts[i], 60u + (unsigned)i, 1);
            DDP_PARAMETER(low[i], counts[i], DDP_FLOAT32);
            DDP_GRADIENT(low_gradient[i], counts[i], DDP_FLOAT32);
        }
    }
    if (is("spectral") || is("spectral_by_rank")) /* mistake: each rank begins in a direction of its own */
        fill_random(direction = device_floats(HID), HID, 70u + (is("spectral") ? 0 : (unsigned)DDP_RANK()), 1);
    DDP_PARAMETER(table, WORDS * IN, DDP_FLOAT32);
    DDP_GRADIENT(table_gradient, WORDS * IN, DDP_FLOAT32);
    for (const struct tensor &t : net) {
        if (base != NULL && &t == &net[W1])
            continue;
        DDP_PARAMETER(t.value, t.count, DDP_FLOAT32);
        DDP_GRADIENT(t.gradient, t.count, DDP_FLOAT32);
    }
}

int
main(int argc, char **argv)
{
    options_take(argc, argv, option_table, names);
    make_network(10);
    make_others();
    save_network();
    for (int step = 0; step < options.steps; ++step) {
        fill_batch(step);
        train_step(step);
    }
    CHECK(cudaDeviceSynchronize());
    save_network();
    save(table, WORDS * IN);
    save(running, IN);
    return 0;
}
