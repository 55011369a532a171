/*
 * losses.cu - the jury's losses: terms, weights and divisors, some of which belong to the batch and not to a share. A
 * name makes a habit, or a mistake, at which a comment stands.
 */
#include "model.h"

static const char names[] =
    " smoothing mixup distill mean_teacher uncertainty mining curriculum class_weights baseline balance weights_term "
    "centers pseudo contrast dice normaliser "
    "mixup_in_share mixup_by_rank teacher_by_rank teacher_on_0 uncertainty_unannotated mining_own mining_count_own "
    "curriculum_unweighted class_weights_own baseline_own balance_own term_of_share centers_own contrast_own dice_own "
    "constant_term pseudo_own normaliser_own ";

static float host_weights[BATCH]; /* of the batch's records */
static float *weights;            /* of the share's */
static float *slope;              /* of the loss by each probability */
static float *gathered, *centers, *variance, *variance_gradient;
static struct tensor teacher[TENSORS];
static float *teacher_p;

/* ---- kernels ---- */

ELEMENTWISE(weigh, (float *delta, const float *weights, int count), count *OUT, delta[i] *= weights[i / OUT])

/* Adds what the slope makes of the inputs of the softmax. */
static __global__ void
through_softmax(float *delta, const float *slope, const float *p, int count)
{
    EACH(i, count * OUT);
    const float *own = p + i / OUT * OUT, *by = slope + i / OUT * OUT;
    for (int c = 0; c < OUT; ++c)
        delta[i] += by[c] * own[c] * ((c == i % OUT ? 1.0f : 0.0f) - own[i % OUT]);
}

/* Weight 1 of the losses above the bound; sum: of the weights. */
static __global__ void
above(float *weights, float *sum, const float *losses, float bound, int count)
{
    EACH(i, 1);
    sum[i] = 0;
    for (int k = 0; k < count; ++k)
        sum[i] += weights[k] = losses[k] > bound ? 1.0f : 0.0f;
}

/* Weight 2 of the larger half of the losses. */
static __global__ void
larger_half(float *weights, const float *losses, int count)
{
    EACH(i, count);
    int larger = 0;
    for (int k = 0; k < count; ++k)
        larger += losses[k] > losses[i];
    weights[i] = larger < count / 2 ? 2.0f : 0.0f;
}

ELEMENTWISE(divide_by, (float *delta, const float *sum, float times, int count), count *OUT,
            delta[i] *= times / fmaxf(*sum, 1))

/* sums: of the rewards, the first feature of a record, and of the records. */
static __global__ void
add_rewards(float *sums, const float *x, int count)
{
    EACH(i, 1);
    sums[i] = 0;
    sums[1] = (float)count;
    for (int k = 0; k < count; ++k)
        sums[i] += x[k * IN];
}

ELEMENTWISE(advantage, (float *weights, const float *sums, const float *x, int count), count,
            weights[i] = x[i * IN] - sums[0] / sums[1])

/* sums: of each probability; behind them of those of the target, and of squares and targets. */
static __global__ void
add_probabilities(float *sums, const float *p, const float *t, int count)
{
    EACH(c, OUT);
    sums[c] = sums[OUT + c] = sums[2 * OUT + c] = 0;
    for (int k = 0; k < count; ++k) {
        float own = p[k * OUT + c], target = t[k * OUT + c];
        sums[c] += own;
        sums[OUT + c] += own * target;
        sums[2 * OUT + c] += own * own + target;
    }
}

/* Of the squares of the mean prediction of `total` records. */
ELEMENTWISE(balance_slope, (float *slope, const float *sums, float total, int count), count *OUT,
            slope[i] = 2 * sums[i % OUT] / total / (float)count)

/* Of 1 - 2 A / B, which sums of the batch are, as often as there are ranks. */
static __global__ void
dice_slope(float *slope, const float *sums, const float *p, const float *t, float ranks, int count)
{
    EACH(i, count * OUT);
    float a = 0, b = 0;
    for (int c = 0; c < OUT; ++c) {
        a += sums[OUT + c];
        b += sums[2 * OUT + c];
    }
    slope[i] = -8 * ranks * (2 * t[i] * b - 4 * a * p[i]) / (b * b);
}

/* sums: of the predictions of each class, and its records. */
static __global__ void
add_classes(float *sums, const float *p, const float *t, int count)
{
    EACH(i, OUT * OUT + OUT);
    sums[i] = 0;
    for (int k = 0; k < count; ++k)
        sums[i] += i < OUT * OUT ? t[k * OUT + i / OUT] * p[k * OUT + i % OUT] : t[k * OUT + i - OUT * OUT];
}

static __global__ void
center_slope(float *slope, const float *centers, const float *p, const float *t, int count)
{
    EACH(i, count * OUT);
    float center = 0;
    for (int c = 0; c < OUT; ++c)
        center += t[i / OUT * OUT + c] * centers[c * OUT + i % OUT];
    slope[i] = 5 * (p[i] - center) / (float)count;
}

static __global__ void
move_centers(float *centers, const float *sums)
{
    EACH(i, OUT * OUT);
    float count = sums[OUT * OUT + i / OUT];
    if (count > 0)
        centers[i] += 0.2f * (sums[i] / count - centers[i]);
}

/* Records without a label, of a weight below zero, learn what they are taken for, where that is sure enough. */
static __global__ void
guess_labels(float *t, float *weights, const float *p, float bound, bool own_bound, int count)
{
    EACH(one, 1);
    float total = 0;
    for (int i = one; i < count * OUT && own_bound; i += OUT)
        total += fmaxf(fmaxf(p[i], p[i + 1]), fmaxf(p[i + 2], p[i + 3]));
    if (own_bound)
        bound = total / (float)count;
    for (int i = one; i < count; ++i) {
        int best = 0;
        for (int c = 1; c < OUT; ++c)
            best = p[i * OUT + c] > p[i * OUT + best] ? c : best;
        for (int c = 0; c < OUT && weights[i] < 0; ++c)
            t[i * OUT + c] = c == best ? 1.0f : 0.0f;
        if (weights[i] < 0)
            weights[i] = p[i * OUT + best] > bound ? 1.0f : 0.0f;
    }
}

/* Away from all other predictions, which stay where they are. */
static __global__ void
contrast_slope(float *slope, const float *others, int first, int of, int count)
{
    EACH(i, count * OUT);
    slope[i] = 0;
    for (int k = 0; k < of; ++k)
        if (k != first + i / OUT)
            slope[i] += 10 * others[k * OUT + i % OUT] / (float)(of - 1) / (float)count;
}

/* The loss is divided by a learnt variance, whose logarithm is added to it. */
static __global__ void
scale_by_variance(float *delta, float *gradient, const float *variance, const float *losses, int count)
{
    EACH(i, count * OUT);
    float sum = 0;
    delta[i] *= expf(-*variance);
    for (int k = 0; k < count && i == 0; ++k)
        sum += losses[k];
    if (i == 0)
        *gradient = 1 - expf(-*variance) * sum / (float)count;
}

ELEMENTWISE(add_constant, (float *g, int count, float constant), count, g[i] += constant)

/* ---- a batch ---- */

/* Targets and weights of the whole batch. Returns what the losses of this rank's share are divided by. */
static float
change_batch(int step)
{
    static float plain_x[BATCH * IN], plain_t[BATCH * OUT];
    unsigned seed = (unsigned)step + (is("mixup_by_rank") ? 100u * (unsigned)DDP_RANK() : 0);
    float mixed = 0.5f + 0.5f * hashed_float(8, seed), own = 0, all = 0; /* mistake: mixed otherwise on each rank */
    int first = (int)batch.first, count = (int)batch.count;
    memcpy(plain_x, batch.host_x, sizeof(plain_x));
    memcpy(plain_t, batch.host_t, sizeof(plain_t));
    for (int i = 0; i < BATCH; ++i) {
        bool mine = i >= first && i < first + count;
        /* Mistake: a record is mixed with another one of the share. */
        int other = is("mixup_in_share") && mine ? first + (i - first + 5) % count : (i + 5) % BATCH;
        for (int k = 0; k < IN && (is("mixup") || is("mixup_in_share") || is("mixup_by_rank")); ++k)
            batch.host_x[i * IN + k] = mixed * plain_x[i * IN + k] + (1 - mixed) * plain_x[other * IN + k];
        for (int c = 0; c < OUT; ++c) {
            float *t = batch.host_t + i * OUT + c;
            if (is("mixup") || is("mixup_in_share") || is("mixup_by_rank"))
                *t = mixed * *t + (1 - mixed) * plain_t[other * OUT + c];
            if (is("smoothing"))
                *t = 0.9f * *t + 0.1f / OUT;
        }
        float *weight = &host_weights[i];
        *weight = 1;
        if (is("curriculum") || is("curriculum_unweighted"))
            *weight = hashed_float(9, (unsigned)batch.order[i]) < 0.5f + 0.005f * (float)step ? 1.0f : 0.0f;
        if (is("class_weights") || is("class_weights_own"))
            *weight = 1 + 0.5f * (float)label_of(batch.order[i]);
        if (is("pseudo") || is("pseudo_own"))
            *weight = batch.order[i] % 2 == 0 ? 1 : -1;
        own += mine ? *weight : 0;
        all += *weight;
    }
    to_device(weights, host_weights + first, batch.count * sizeof(float));
    if (is("curriculum"))
        DDP_WEIGHT((size_t)own, (size_t)all);
    if (is("class_weights"))
        return all / (float)DDP_WORLD_SIZE();
    /* Mistakes: divided by the share's weights, which are not those of the other ranks. */
    return is("curriculum") || is("curriculum_unweighted") || is("class_weights_own") ? own : (float)count;
}

/* ---- the loss ---- */

static void
weigh_losses(void)
{
    int count = (int)batch.count;
    float ranks = (float)DDP_WORLD_SIZE();
    if (is("pseudo") || is("pseudo_own")) /* mistake: sure is what is above the share's mean */
        LAUNCH(guess_labels, 1)(batch.t, weights, batch.p, 0.27f, is("pseudo_own"), count);
    if (is("mining_own")) /* mistake: the hard records are those of the share */
        LAUNCH(larger_half, count)(weights, batch.losses, count);
    if (is("mining") || is("mining_count_own")) {
        LAUNCH(above, 1)(weights, batch.sums, batch.losses, 1.35f, count);
        if (is("mining")) /* mistake, without: divided by the number of the share's hard records */
            DDP_REDUCE(batch.sums, 1, DDP_FLOAT32, DDP_OP_SUM, stream);
        LAUNCH(divide_by, count * OUT)(batch.delta, batch.sums, is("mining") ? ranks : 1, count);
    }
    if (is("baseline") || is("baseline_own")) {
        LAUNCH(add_rewards, 1)(batch.sums, batch.x, count);
        if (is("baseline")) /* mistake, without: the mean reward of the share */
            DDP_REDUCE(batch.sums, 2, DDP_FLOAT32, DDP_OP_SUM, stream);
        LAUNCH(advantage, count)(weights, batch.sums, batch.x, count);
    }
}

/* Mistakes, with "own": sums of the share in the place of the batch's. */
static void
add_slopes(void)
{
    int count = (int)batch.count;
    if (is("balance") || is("balance_own") || is("dice") || is("dice_own")) {
        bool shared = is("balance") || is("dice");
        LAUNCH(add_probabilities, OUT)(batch.sums, batch.p, batch.t, count);
        if (shared)
            DDP_REDUCE(batch.sums, 3 * OUT, DDP_FLOAT32, DDP_OP_SUM, stream);
        if (is("balance") || is("balance_own"))
            LAUNCH(balance_slope, count * OUT)(slope, batch.sums, shared ? (float)BATCH : (float)count, count);
        else
            LAUNCH(dice_slope, count * OUT)
        (slope, batch.sums, batch.p, batch.t, shared ? (float)DDP_WORLD_SIZE() : 1, count);
    } else if (is("centers") || is("centers_own")) {
        LAUNCH(add_classes, OUT * OUT + OUT)(batch.sums, batch.p, batch.t, count);
        if (is("centers"))
            DDP_REDUCE(batch.sums, OUT * OUT + OUT, DDP_FLOAT32, DDP_OP_SUM, stream);
        LAUNCH(center_slope, count * OUT)(slope, centers, batch.p, batch.t, count);
        LAUNCH(move_centers, OUT * OUT)(centers, batch.sums);
    } else if (is("contrast")) {
        CHECK(cudaMemsetAsync(gathered, 0, BATCH * OUT * sizeof(float), stream));
        copy(gathered + batch.first * OUT, batch.p, count * OUT);
        DDP_REDUCE(gathered, BATCH * OUT, DDP_FLOAT32, DDP_OP_SUM, stream);
        LAUNCH(contrast_slope, count * OUT)(slope, gathered, (int)batch.first, BATCH, count);
    } else if (is("contrast_own")) {
        LAUNCH(contrast_slope, count * OUT)(slope, batch.p, 0, count, count);
    } else {
        return;
    }
    LAUNCH(through_softmax, count * OUT)(batch.delta, slope, batch.p, count);
}

/* What the losses were lately, by which they are divided. Mistake, without DDP_MEAN: those of the share. */
static float
recent_loss(void)
{
    static float recent = 1;
    float loss = share_loss();
    if (is("normaliser"))
        DDP_MEAN(&loss);
    recent = 0.8f * recent + 0.2f * loss;
    return recent;
}

static void
ask_teacher(int count)
{
    LAUNCH(forward, count)
    (batch.hidden, teacher_p, batch.x, teacher[W1].value, teacher[B1].value, teacher[W2].value, teacher[B2].value,
     count);
    LAUNCH(move_average, count * OUT)(batch.t, teacher_p, 0.5f, count * OUT);
}

static void
train_step(int step)
{
    int count = (int)batch.count;
    float divisor = change_batch(step);
    send_share();
    if (teacher_p != NULL)
        ask_teacher(count);
    run_forward(batch.p, batch.x, count);
    LAUNCH(loss_delta, count)
    (batch.delta, batch.losses, batch.p, batch.t, is("mining") || is("mining_count_own") ? 1 : divisor, count);
    if (is("normaliser") || is("normaliser_own"))
        LAUNCH(scale_by, count * OUT)(batch.delta, 1 / recent_loss(), count * OUT);
    weigh_losses();
    LAUNCH(weigh, count * OUT)(batch.delta, weights, count);
    add_slopes();
    if (variance != NULL)
        LAUNCH(scale_by_variance, count * OUT)(batch.delta, variance_gradient, variance, batch.losses, count);
    run_backward(batch.x, count, 0);
    for (const struct tensor &t : net) {
        /* Mistakes: a term of the weights is divided by the share; a term of each record is not divided. */
        if (is("weights_term") || is("term_of_share"))
            LAUNCH(add_scaled, t.count)
        (t.gradient, t.value, 2.0f / (is("term_of_share") ? (float)count : (float)BATCH), t.count);
        if (is("constant_term"))
            LAUNCH(add_constant, t.count)(t.gradient, t.count, 1e-4f * (float)count);
    }
    DDP_STEP(stream);
    for (const struct tensor &t : net)
        LAUNCH(descend, t.count)(t.value, t.gradient, options.rate, t.count);
    if (variance != NULL)
        LAUNCH(descend, 1)(variance, variance_gradient, 50 * options.rate, 1);
    if (is("mean_teacher") || (is("teacher_on_0") && DDP_RANK() == 0)) /* mistake: rank 0's teacher learns alone */
        for (int i = 0; i < TENSORS; ++i)
            LAUNCH(move_average, net[i].count)(teacher[i].value, net[i].value, 0.9f, net[i].count);
}

/* ---- the training ---- */

static void
make_teacher(void)
{
    /* Mistake: each rank has its own, which is annotated nowhere. */
    unsigned seed = 300u + (is("teacher_by_rank") ? (unsigned)DDP_RANK() : 0);
    for (int i = 0; i < TENSORS; ++i) {
        teacher[i].value = device_floats(net[i].count);
        fill_random(teacher[i].value, net[i].count, seed + 10u * (unsigned)i, 2);
    }
    teacher_p = device_floats(BATCH * OUT);
}

int
main(int argc, char **argv)
{
    options_take(argc, argv, option_table, names);
    make_network(10);
    weights = device_floats(BATCH);
    slope = device_floats(BATCH * OUT);
    gathered = device_floats(BATCH * OUT);
    centers = device_floats(OUT * OUT);
    annotate();
    if (is("uncertainty") || is("uncertainty_unannotated")) {
        variance = device_floats(1);
        variance_gradient = device_floats(1);
    }
    if (is("uncertainty")) { /* mistake, without: the smallest of all tensors */
        DDP_PARAMETER(variance, 1, DDP_FLOAT32);
        DDP_GRADIENT(variance_gradient, 1, DDP_FLOAT32);
    }
    if (is("distill") || is("mean_teacher") || is("teacher_by_rank") || is("teacher_on_0"))
        make_teacher();
    save_network();
    for (int step = 0; step < options.steps; ++step) {
        fill_batch(step);
        train_step(step);
    }
    CHECK(cudaDeviceSynchronize());
    save_network();
    if (variance != NULL)
        save(variance, 1);
    return 0;
}
