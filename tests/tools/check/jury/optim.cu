/*
 * optim.cu - the jury's optimizers: what public trainers do with gradients between backward and the weights. A name
 * makes a habit, or a mistake, at which a comment stands.
 */
#include "model.h"

static const char names[] =
    " nesterov rmsprop adamw lion lars lookahead swa average clip_value clip_layer unit_clip noise "
    "centralise restarts layer_rates unfreeze host_adam every_fourth sam skip_large "
    "filter rounding ping_pong reset_head "
    "lion_own sign_before lars_own unit_clip_before clip_value_before noise_by_rank noise_before_by_rank "
    "rounding_by_rank rate_sqrt_n restarts_by_samples average_decay_n slow_by_rank reset_momentum_on_0 "
    "unfreeze_unannotated fifth_unannotated decay_times_n term_on_rank_0 ping_pong_one layer_rates_swapped "
    "adam_count_n update_on_rank_0 reset_by_rank sam_own fourth_own masked_by_rank freeze_own filter_squares ";

/* ---- kernels ---- */

ELEMENTWISE(momentum, (float *w, const float *g, float *m, int count, float rate, float keep, float ahead), count,
            m[i] = keep * m[i] + g[i];
            w[i] -= rate * (ahead * g[i] + (1 - ahead) * m[i] + ahead * keep * m[i]))
ELEMENTWISE(rmsprop, (float *w, const float *g, float *v, int count, float rate, float keep), count,
            v[i] = keep * v[i] + (1 - keep) * g[i] * g[i];
            w[i] -= rate * g[i] / (sqrtf(v[i]) + 1e-3f))

ELEMENTWISE(adamw, (float *w, const float *g, float *m, float *v, int count, float rate, float decay, int step), count,
            m[i] = 0.9f * m[i] + 0.1f * g[i];
            v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
            float mean = m[i] / (1 - powf(0.9f, (float)step)), square = v[i] / (1 - powf(0.99f, (float)step));
            w[i] -= rate * (mean / (sqrtf(square) + 1e-3f) + decay * w[i]))

ELEMENTWISE(lion_update, (float *w, const float *g, const float *m, int count, float rate), count,
            float c = 0.9f * m[i] + 0.1f * g[i];
            w[i] -= rate * (float)((c > 0) - (c < 0)))

/* sums: of the squares of w and g. */
ELEMENTWISE(lars, (float *w, const float *g, const float *sums, int count, float rate), count,
            w[i] -= rate * 0.5f * sqrtf(sums[0]) / (sqrtf(sums[1]) + 1e-6f) * g[i])
ELEMENTWISE(clip_values, (float *g, int count, float bound), count, g[i] = fminf(fmaxf(g[i], -bound), bound))
ELEMENTWISE(clip_to, (float *g, const float *sum, int count, float bound), count,
            g[i] *= fminf(1, bound / (sqrtf(*sum) + 1e-12f)))

/* Each row of a gradient has at most so much of its weights' norm. */
static __global__ void
clip_units(float *g, const float *w, int rows, int columns, float part)
{
    EACH(row, rows);
    float gs = 0, ws = 1e-3f;
    for (int k = row * columns; k < (row + 1) * columns; ++k) {
        gs += g[k] * g[k];
        ws += w[k] * w[k];
    }
    float factor = fminf(1, part * sqrtf(ws / (gs + 1e-12f)));
    for (int k = row * columns; k < (row + 1) * columns; ++k)
        g[k] *= factor;
}

static __global__ void
subtract_row_means(float *g, int rows, int columns)
{
    EACH(row, rows);
    float mean = 0;
    for (int k = 0; k < columns; ++k)
        mean += g[row * columns + k] / (float)columns;
    for (int k = 0; k < columns; ++k)
        g[row * columns + k] -= mean;
}

ELEMENTWISE(signs, (float *g, int count), count, g[i] = (float)((g[i] > 0) - (g[i] < 0)))
ELEMENTWISE(mask, (float *g, int count, unsigned seed), count,
            g[i] *= hashed_float(seed, (unsigned)i) < 0.5f ? 0.0f : 2.0f)

/* Weights on a grid: up or down at random. */
ELEMENTWISE(round_at_random, (float *w, int count, float grid, unsigned seed), count,
            w[i] = floorf(w[i] / grid + hashed_float(seed, (unsigned)i)) * grid)
ELEMENTWISE(sgd_into, (float *to, const float *w, const float *g, int count, float rate), count,
            to[i] = w[i] - rate * g[i])

/* filtered: what this rank's gradients were, on average. */
ELEMENTWISE(amplify, (float *g, float *filtered, int count, bool squares), count,
            filtered[i] = 0.8f * filtered[i] + 0.2f * (squares ? g[i] * g[i] : g[i]);
            g[i] = squares ? g[i] / (sqrtf(filtered[i]) + 0.1f) : g[i] + 2 * filtered[i])

/* ---- in front of DDP_STEP ---- */

static void
square_sums(const struct tensor &t)
{
    CHECK(cudaMemsetAsync(batch.sums, 0, 2 * sizeof(float), stream));
    LAUNCH(add_squares, 1)(batch.sums, t.value, t.count);
    LAUNCH(add_squares, 1)(batch.sums + 1, t.gradient, t.count);
}

static void
before_step(int step)
{
    unsigned seed = 1000u * (unsigned)step, own = seed + 17u * (unsigned)DDP_RANK();
    for (const struct tensor &t : net) {
        unsigned number = (unsigned)(&t - net);
        /* Right: a row's mean and a filter are linear in the gradient. */
        if (is("centralise") && t.columns > 1)
            LAUNCH(subtract_row_means, t.rows)(t.gradient, t.rows, t.columns);
        if (is("filter") || is("filter_squares")) /* mistake: the second is not linear */
            LAUNCH(amplify, t.count)(t.gradient, t.kept, t.count, is("filter_squares"));
        /* Mistakes: what is not linear, of this rank's own gradients. */
        if (is("lion_own"))
            LAUNCH(move_average, t.count)(t.first, t.gradient, 0.99f, t.count);
        if (is("sign_before"))
            LAUNCH(signs, t.count)(t.gradient, t.count);
        if (is("clip_value_before"))
            LAUNCH(clip_values, t.count)(t.gradient, t.count, 0.02f);
        if (is("unit_clip_before"))
            LAUNCH(clip_units, t.rows)(t.gradient, t.value, t.rows, t.columns, 0.05f);
        if (is("fourth_own"))
            LAUNCH(add_scaled, t.count)(t.kept, t.gradient, 0.25f, t.count);
        /* Mistakes: noise and masks of each rank's own. */
        if (is("noise_before_by_rank"))
            LAUNCH(add_noise, t.count)(t.gradient, t.count, own + number, 0.02f);
        if (is("masked_by_rank"))
            LAUNCH(mask, t.count)(t.gradient, t.count, own + number);
        /* Mistakes: the weights' share of the loss is all ranks', or rank 0's, which counts as one of several. */
        if (is("decay_times_n") || (is("term_on_rank_0") && DDP_RANK() == 0))
            LAUNCH(add_scaled, t.count)
        (t.gradient, t.value, is("decay_times_n") ? 0.1f * (float)DDP_WORLD_SIZE() : 0.1f, t.count);
    }
}

/* ---- behind DDP_STEP ---- */

static float
rate_of(int step, int number)
{
    float rate = options.rate;
    if (is("rate_sqrt_n")) /* mistake: the batch is as large as on one rank */
        rate *= sqrtf((float)DDP_WORLD_SIZE());
    if (is("restarts") || is("restarts_by_samples") || is("reset_momentum_on_0")) {
        /* Mistake: steps of 24 samples, of which one rank sees its share. */
        int steps = is("restarts_by_samples") ? step * (int)batch.count / BATCH : step;
        rate *= 0.5f * (1 + cosf(3.14159265f * (float)(steps % 16) / 16));
    }
    if (is("layer_rates") || is("layer_rates_swapped")) {
        /* Mistake: on rank 1 the list of layers is in another order. */
        int layer = is("layer_rates_swapped") && DDP_RANK() == 1 ? TENSORS - 1 - number : number;
        rate *= powf(0.6f, (float)layer);
    }
    return rate;
}

/* Adam in the host's memory. */
static void
update_by_host(const struct tensor &t, float rate, int step)
{
    static float m[TENSORS][HID * IN], v[TENSORS][HID * IN];
    float gradient[HID * IN], w[HID * IN], *mean = m[&t - net], *square = v[&t - net];
    to_host(gradient, t.gradient, t.count);
    to_host(w, t.value, t.count);
    for (int i = 0; i < t.count; ++i) {
        mean[i] = 0.9f * mean[i] + 0.1f * gradient[i];
        square[i] = 0.99f * square[i] + 0.01f * gradient[i] * gradient[i];
        w[i] -= rate * mean[i] / (sqrtf(square[i]) + 1e-2f) / (1 - powf(0.9f, (float)(step + 1)));
    }
    to_device(t.value, w, (size_t)t.count * sizeof(float));
    CHECK(cudaStreamSynchronize(stream));
}

static void
change_gradient(const struct tensor &t, int step)
{
    unsigned seed = 1000u * (unsigned)step + (unsigned)(&t - net);
    if (is("noise") || is("noise_by_rank")) /* mistake: the ranks' weights part */
        LAUNCH(add_noise, t.count)
    (t.gradient, t.count, seed + (is("noise_by_rank") ? 17u * (unsigned)DDP_RANK() : 0), 0.02f);
    if (is("clip_value"))
        LAUNCH(clip_values, t.count)(t.gradient, t.count, 0.02f);
    if (is("clip_layer")) {
        square_sums(t);
        LAUNCH(clip_to, t.count)(t.gradient, batch.sums + 1, t.count, 0.05f);
    }
    if (is("unit_clip"))
        LAUNCH(clip_units, t.rows)(t.gradient, t.value, t.rows, t.columns, 0.05f);
}

/* Whether the first layer waits: until step 20, or for its gradient. */
static bool
is_frozen(int number, int step, float own_norm)
{
    static bool settled;
    /* Mistake: each rank looks at its own gradients. */
    settled = settled || (is("freeze_own") && step > 10 && own_norm < 0.5f);
    return number < W2 && (settled || ((is("unfreeze") || is("unfreeze_unannotated")) && step < 20) ||
                           (is("fifth_unannotated") && step % 5 != 4));
}

static void
update_tensor(int number, int step, float own_norm)
{
    struct tensor &t = net[number];
    float rate = rate_of(step, number);
    unsigned seed = 1000u * (unsigned)step + (unsigned)number, own = seed + 17u * (unsigned)DDP_RANK();
    if (is_frozen(number, step, own_norm) || (is("update_on_rank_0") && DDP_RANK() != 0))
        return;
    change_gradient(t, step);
    if (is("nesterov") || is("restarts") || is("restarts_by_samples") || is("reset_momentum_on_0")) {
        /* Mistake: a restart of rank 0's only. */
        if (step % 16 == 0 && (is("restarts") || (is("reset_momentum_on_0") && DDP_RANK() == 0)))
            CHECK(cudaMemsetAsync(t.first, 0, (size_t)t.count * sizeof(float), stream));
        LAUNCH(momentum, t.count)(t.value, t.gradient, t.first, t.count, rate, 0.9f, is("nesterov"));
    } else if (is("rmsprop")) {
        LAUNCH(rmsprop, t.count)(t.value, t.gradient, t.second, t.count, rate, 0.95f);
    } else if (is("adamw") || is("adam_count_n")) {
        /* Mistake: the count of steps is that of batches on all ranks. */
        int count = (step + 1) * (is("adam_count_n") ? DDP_WORLD_SIZE() : 1);
        LAUNCH(adamw, t.count)(t.value, t.gradient, t.first, t.second, t.count, rate, 0.1f, count);
    } else if (is("lion") || is("lion_own")) {
        LAUNCH(lion_update, t.count)(t.value, t.gradient, t.first, t.count, rate);
        if (is("lion"))
            LAUNCH(move_average, t.count)(t.first, t.gradient, 0.99f, t.count);
    } else if (is("lars") || is("lars_own")) {
        if (is("lars"))
            square_sums(t);
        LAUNCH(lars, t.count)(t.value, t.gradient, is("lars") ? batch.sums : t.kept, t.count, rate);
    } else if (is("host_adam")) {
        update_by_host(t, rate, step);
    } else if (is("every_fourth")) { /* right: the mean of what is a mean already stays as it is */
        if (number >= W2 || step % 4 == 3)
            LAUNCH(descend, t.count)(t.value, t.gradient, rate, t.count);
    } else if (is("ping_pong") || is("ping_pong_one")) {
        float *from = t.value;
        LAUNCH(sgd_into, t.count)(t.kept, from, t.gradient, t.count, rate);
        t.value = t.kept;
        t.kept = from;
    } else if (is("fourth_own")) { /* mistake: kept has the sum of the rank's own gradients */
        if (step % 4 == 3) {
            LAUNCH(descend, t.count)(t.value, t.kept, rate, t.count);
            CHECK(cudaMemsetAsync(t.kept, 0, (size_t)t.count * sizeof(float), stream));
        }
    } else {
        LAUNCH(descend, t.count)(t.value, t.gradient, rate, t.count);
    }
    if (is("rounding") || is("rounding_by_rank")) /* mistake: each rank rounds its own way */
        LAUNCH(round_at_random, t.count)
    (t.value, t.count, options.rate / 64, is("rounding_by_rank") ? own : seed);
}

/* What is kept beside the weights: averages, slow weights. */
static void
after_update(int step)
{
    for (const struct tensor &t : net) {
        if (is("average") || is("average_decay_n")) /* mistake: the average forgets faster on more ranks */
            LAUNCH(move_average, t.count)
        (t.kept, t.value, powf(0.95f, is("average_decay_n") ? (float)DDP_WORLD_SIZE() : 1), t.count);
        if (is("swa") && step >= 20 && step % 4 == 0)
            LAUNCH(move_average, t.count)
        (t.kept, t.value, (float)((step - 20) / 4) / (float)((step - 20) / 4 + 1), t.count);
        if ((is("lookahead") || is("slow_by_rank")) && step % 5 == 4) {
            LAUNCH(move_average, t.count)(t.kept, t.value, 0.5f, t.count);
            copy(t.value, t.kept, t.count);
        }
    }
    if ((is("reset_head") || is("reset_by_rank")) && step == 16) /* mistake: by a seed of each rank's own */
        fill_random(net[W2].value, net[W2].count, 500u + (is("reset_by_rank") ? (unsigned)DDP_RANK() : 0), 0.8f);
}

/* SAM: gradients where the loss is larger. Mistake: each rank climbs by its own gradient. */
static void
climb(void)
{
    for (const struct tensor &t : net)
        copy(t.kept, t.value, t.count);
    run_passes(0);
    if (is("sam"))
        DDP_STEP(stream);
    float norm = norm_of(true);
    for (const struct tensor &t : net)
        LAUNCH(add_scaled, t.count)(t.value, t.gradient, 0.3f / norm, t.count);
}

static void
train_step(int step)
{
    bool climbs = is("sam") || is("sam_own"), adds = is("every_fourth") && step % 4 != 0;
    if (climbs)
        climb();
    run_passes(0);
    if (adds) /* the first layer's gradients of four steps */
        for (int i = 0; i < W2; ++i)
            LAUNCH(add_scaled, net[i].count)(net[i].gradient, net[i].kept, 1, net[i].count);
    before_step(step);
    /* Mistakes: norms of the rank's own gradients. */
    float norm = is("freeze_own") ? norm_of(true) : 0;
    for (int i = 0; i < TENSORS; ++i) {
        if (is("lars_own")) {
            square_sums(net[i]);
            copy(net[i].kept, batch.sums, 2);
        }
    }
    DDP_STEP(stream);
    for (struct tensor &t : net) {
        if (climbs)
            copy(t.value, t.kept, t.count);
        if (is("every_fourth"))
            copy(t.kept, t.gradient, t.count);
    }
    if (is("skip_large") && norm_of(true) > 0.5f)
        return;
    for (int i = 0; i < TENSORS; ++i)
        update_tensor(i, step, norm);
    after_update(step);
}

static void
annotate_all(void)
{
    for (const struct tensor &t : net) {
        /* Mistakes: what trains late, or each fifth step, is annotated nowhere. */
        if ((is("unfreeze_unannotated") || is("fifth_unannotated")) && &t < &net[W2])
            continue;
        DDP_PARAMETER(t.value, t.count, DDP_FLOAT32);
        DDP_GRADIENT(t.gradient, t.count, DDP_FLOAT32);
        if (is("ping_pong")) /* mistake, without: every other step writes what is not annotated */
            DDP_PARAMETER(t.kept, t.count, DDP_FLOAT32);
    }
}

int
main(int argc, char **argv)
{
    options_take(argc, argv, option_table, names);
    make_network(10u + (is("slow_by_rank") ? 100u * (unsigned)DDP_RANK() : 0));
    if (is("slow_by_rank")) /* mistake: the slow weights are those from before DDP_PARAMETER */
        for (const struct tensor &t : net)
            copy(t.kept, t.value, t.count);
    annotate_all();
    save_network();
    if (is("lookahead") || is("average") || is("average_decay_n"))
        for (const struct tensor &t : net)
            copy(t.kept, t.value, t.count);
    for (int step = 0; step < options.steps; ++step) {
        fill_batch(step);
        send_share();
        train_step(step);
    }
    CHECK(cudaDeviceSynchronize());
    save_network();
    if (is("average") || is("average_decay_n") || is("swa"))
        for (const struct tensor &t : net)
            save(t.kept, t.count);
    return 0;
}
