/*
 * rows.cu - a small trainer with many mistakes and many habits, each by its name: what rows.txt holds the verdicts of
 * `ddprun check` against. Without a mistake it is right, with every habit: a network of two layers learns the classes
 * of records that the host shuffles; SGD, momentum or Adam; micro-batches. Most mistakes train without an error, but
 * the model differs; a comment stands at each.
 */
#include "rows_model.h"

static float images_scale = 1; /* how large the records are */
static float loss_scale = 1;
static double seen_s; /* of a clock, to be printed */

/* ---- forward and backward ---- */

/* By how much each record's loss counts in the gradients. */
static float
record_scale(int step)
{
    float divisor = (float)batch.count, valid = 0;
    if (is("valid_weighted") || is("valid_of_share")) {
        for (size_t i = 0; i < batch.count; ++i)
            valid += batch.host_labels[batch.first + i] >= 0;
        /* Mistake without the weights: the shares have other numbers of valid labels. */
        divisor = valid;
    }
    /* Mistake: the mean over the whole batch, and then over the ranks. */
    if (is("divisor_whole_batch"))
        divisor = (float)batch.items;
    /* Mistake: the loss is a sum over records, and the rate is divided by the batch: right with --reduce sum only. */
    if (is("sum_with_mean"))
        divisor = 1;
    if (step < 3 && is("waits")) /* right: the first steps have no gradients */
        return 0;
    /* Mistakes: gradients that are no numbers: on all ranks; also on one; infinite ones on one. */
    if (step >= 4 && (is("nan_everywhere") || (is("nan_on_ranks") && DDP_WORLD_SIZE() > 1)))
        return NAN;
    if (step >= 4 && is("nan_and_inf"))
        return DDP_WORLD_SIZE() > 1 ? NAN : INFINITY;
    return (is("scaled") ? 2 : 1) * loss_scale / divisor;
}

/* The mean of the images over all ranks, subtracted: sums of all ranks by DDP_REDUCE. */
static __global__ void
image_sums(float *sums, const float *images, int count)
{
    int k = INDEX;
    if (k > INPUTS)
        return;
    sums[k] = k == INPUTS ? (float)count : 0;
    for (int i = 0; i < count && k < INPUTS; ++i)
        sums[k] += images[i * INPUTS + k];
}

static __global__ void
run_statistics(float *running, const float *images, int count)
{
    float sum = 0;
    for (int i = 0; i < count && INDEX < INPUTS; ++i)
        sum += images[i * INPUTS + INDEX];
    if (INDEX < INPUTS)
        running[INDEX] = 0.9f * running[INDEX] + 0.1f * sum / (float)count;
}

ELEMENTWISE(subtract_mean, (float *images, const float *sums, int own, int count), count *INPUTS,
            images[i] -= sums[i % INPUTS] / (own > 0 ? (float)own : sums[INPUTS]))

static void
normalise(void)
{
    int count = (int)batch.count;
    if (is("statistics") || is("batchnorm"))
        LAUNCH(run_statistics, INPUTS)(batch.running, batch.images, count);
    LAUNCH(image_sums, INPUTS + 1)(batch.sums, batch.images, count);
    if (is("synced_mean") || is("synced_count"))
        DDP_REDUCE(batch.sums, INPUTS + 1, DDP_FLOAT32, DDP_OP_SUM, stream);
    /* Mistake: the sum of all ranks, divided by the number of the rank's own records. Right, but not comparable without
     * the sum of all ranks: the mean is that of the share. */
    if (!is("statistics"))
        LAUNCH(subtract_mean, count * INPUTS)(batch.images, batch.sums, is("synced_count") ? count : 0, count);
    if (is("zeroed_statistics"))
        CHECK(cudaMemsetAsync(batch.running_gradient, 0, HIDDEN * sizeof(float), stream));
}

/* A DDP_STEP of a mistake or habit, which stands at this place; NULL: it stands where it belongs. */
static void
average_gradients(int step, const char *place)
{
    bool is_elsewhere = false;
    for (const char *other : {"step_missing", "step_before_forward", "step_mid_backward", "step_before_last_micro",
                              "two_steps", "step_behind_optimizer"})
        is_elsewhere = is_elsewhere || is(other);
    if (place != NULL ? !is(place) : is_elsewhere)
        return;
    /* Mistake: a branch that writes a log leaves the step out. */
    if (is("step_skipped") && step % 7 == 6)
        return;
    if (!is("group_turns") || step % 2 == 0)
        DDP_STEP(stream);
    /* Mistake, without: the gradients of the second layer are in a group of their own, which has no step. */
    if (is("two_groups") || (is("group_turns") && step % 2 == 1))
        DDP_STEP_GROUP(1, stream);
}

/* Records [from, from + count) of the share. */
static void
forward_and_backward(int step, int from, int count, float beta, float scale)
{
    float *images = batch.images + from * INPUTS, *hidden = batch.hidden, *deltas = batch.deltas;
    unsigned seed = 100u + (unsigned)DDP_RANK();
    LAUNCH(dense_forward, count * HIDDEN)(hidden, images, w1, b1, INPUTS, HIDDEN, count);
    if (is("dropout_by_rank"))
        LAUNCH(dropout, count * HIDDEN)(hidden, seed, step, count * HIDDEN);
    LAUNCH(loss_backward, count)
    (deltas, batch.losses + from, hidden, w2, b2, batch.labels + from, scale, count);
    LAUNCH(weight_gradient, CLASSES * HIDDEN)
    (tensors[W2].gradient, deltas, hidden, HIDDEN, CLASSES, count, beta, 1);
    LAUNCH(bias_gradient, CLASSES)(tensors[B2].gradient, deltas, CLASSES, count, beta, 1);
    /* Mistake: DDP_STEP stands where a part of the gradients is complete. */
    average_gradients(step, "step_mid_backward");
    LAUNCH(input_delta, count * HIDDEN)
    (batch.hidden_deltas, is("copy") ? tensors[W2].average : w2, deltas, hidden, HIDDEN, CLASSES, count);
    if (is("dropout_by_rank"))
        LAUNCH(dropout, count * HIDDEN)(batch.hidden_deltas, seed, step, count * HIDDEN);
    cudaStream_t own = stream;
    if (is("two_streams")) {
        CHECK(cudaEventRecord(forked, stream));
        CHECK(cudaStreamWaitEvent(side, forked, 0));
        stream = side;
    }
    LAUNCH(weight_gradient, HIDDEN * INPUTS)
    (tensors[W1].gradient, batch.hidden_deltas, images, INPUTS, HIDDEN, count, beta, 1);
    stream = own;
    LAUNCH(bias_gradient, HIDDEN)(tensors[B1].gradient, batch.hidden_deltas, HIDDEN, count, beta, 1);
    if (is("two_streams")) {
        CHECK(cudaEventRecord(joined, side));
        CHECK(cudaStreamWaitEvent(stream, joined, 0));
    }
}

static float
share_loss(void)
{
    float loss = 0;
    CHECK(
        cudaMemcpyAsync(batch.host_losses, batch.losses, batch.count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < batch.count; ++i)
        loss += batch.host_losses[i];
    return loss / (float)batch.count;
}

/* How many steps have not made the loss less. Mistake, without DDP_MEAN: that of the rank's own share. */
static int
steps_without_progress(bool of_all)
{
    static float best = 1e30f;
    static int worse;
    float loss = share_loss();
    if (of_all)
        DDP_MEAN(&loss);
    worse = loss < best ? 0 : worse + 1;
    best = fminf(loss, best);
    return worse;
}

/* ---- the update ---- */

static float
rate_of(int step)
{
    static float factor = 1;
    float rate = options.rate * factor;
    if (step < options.warmup)
        rate *= (float)(step + 1) / (float)options.warmup;
    if (is("rate_decays"))
        rate *= powf(0.9f, (float)(step / 4));
    if (is("sum_with_mean"))
        rate /= (float)options.batch;
    /* Mistakes: the rate grows with the ranks, or falls; or with the rank, where the number of ranks was meant. */
    if (is("rate_times_n"))
        rate *= (float)DDP_WORLD_SIZE();
    if (is("rate_by_n"))
        rate /= (float)DDP_WORLD_SIZE();
    if (is("rate_by_rank"))
        rate *= (float)(1 + DDP_RANK());
    /* Mistake: each rank halves its rate by its own loss. */
    int worse = is("plateau") || is("plateau_by_rank") ? steps_without_progress(is("plateau")) : 0;
    if (worse > 0 && worse % 3 == 0)
        factor /= 2;
    return rate;
}

/* From gradients that are averaged, or to be, to weights. */
static void
update_tensor(int i, float rate, int step)
{
    struct tensor *t = &tensors[i];
    float decay = is("decay") || (is("decay_on_rank_0") && DDP_RANK() == 0) ? 0.1f : 0;
    if (is("frozen") && i < W2)
        return;
    if (is("group_turns") && i / 2 != step % 2)
        return;
    /* Mistake: the first bias is not annotated, for its rate is zero until step 20. */
    if (is("late_bias") && i == B1 && step < 20)
        return;
    if (is("bf16_weights"))
        LAUNCH(widen, t->count)(t->gradient, t->short_gradient, t->count);
    /* Mistakes: a division by the ranks, although the gradients are averages: of all, of one, or on one rank. */
    if (is("divided_behind_step") || (is("one_divided_behind_step") && i == B1) ||
        (is("divided_behind_step_on_rank_1") && DDP_RANK() == 1))
        LAUNCH(scale_by, t->count)(t->gradient, 1 / (float)DDP_WORLD_SIZE(), t->count);
    if (is("average_before_step"))
        LAUNCH(sgd, t->count)(t->value, t->average, t->count, rate, decay);
    else if (strcmp(options.optimizer, "momentum") == 0)
        LAUNCH(descend_with_momentum, t->count)(t->value, t->gradient, t->momentum, 0.9f, rate, t->count);
    else if (strcmp(options.optimizer, "adam") == 0)
        LAUNCH(adam, t->count)
    (t->value, t->gradient, t->momentum, t->second, t->count, rate, step + 1, is("local_second_moment"));
    else LAUNCH(sgd, t->count)(is("bf16_copies") ? t->average : t->value, t->gradient, t->count, rate, decay);
    if (is("copy") && i == W2)
        LAUNCH(add_scaled, t->count)(t->average, t->momentum, -rate, t->count);
    if (is("bf16_weights") || is("bf16_copies"))
        LAUNCH(narrow, t->count)(t->short_value, is("bf16_copies") ? t->average : t->value, t->count);
    if (is("bf16_weights") || is("bf16_copies"))
        LAUNCH(widen, t->count)(t->value, t->short_value, t->count);
}

/* The host's bias: the device has a copy. */
static void
update_host_bias(float rate)
{
    float gradient[HIDDEN];
    CHECK(cudaMemcpyAsync(gradient, tensors[B1].gradient, sizeof(gradient), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < HIDDEN; ++i)
        batch.host_bias[i] -= rate * gradient[i];
    CHECK(cudaMemcpyAsync(b1, batch.host_bias, sizeof(gradient), cudaMemcpyHostToDevice, stream));
}

/* Mistake: a tensor without annotation learns the images' mean in every fifth step; also by a kernel of its own. */
static void
update_probe(void)
{
    LAUNCH(image_sums, INPUTS + 1)(batch.sums, batch.images, (int)batch.count);
    LAUNCH(mean_error, INPUTS)(probe.gradient, probe.value, batch.sums);
    if (strcmp(options.optimizer, "momentum") == 0)
        LAUNCH(descend_with_momentum, INPUTS)(probe.value, probe.gradient, probe.momentum, 0.9f, options.rate, INPUTS);
    else
        LAUNCH(sgd, INPUTS)(probe.value, probe.gradient, INPUTS, options.rate, 0);
}

/* A tensor without annotation learns three times in each step, by averaged gradients. */
static void
update_thrice(float rate)
{
    for (int i = 0; i < 3; ++i)
        LAUNCH(sgd, INPUTS)(probe.value, tensors[B1].gradient, INPUTS, rate, 0);
}

/* Mistake: the memory of the second weight and of its gradient is made anew in each step, and annotated once. */
static void
move_weight(void)
{
    struct tensor *t = &tensors[W2];
    float *old_value = t->value;
    t->value = device_floats(t->count);
    t->gradient = device_floats(t->count);
    CHECK(cudaMemcpyAsync(t->value, old_value, (size_t)t->count * sizeof(float), cudaMemcpyDeviceToDevice, stream));
}

static void
update(int step)
{
    float rate = rate_of(step);
    if (is("probe") && step % 5 == 4)
        update_probe();
    if (is("thrice"))
        update_thrice(rate);
    for (int i = 0; i < TENSORS; ++i) {
        if (i == B1 && (is("bias_host") || is("host_bias")))
            update_host_bias(rate);
        else
            update_tensor(i, rate, step);
        if (is("average"))
            LAUNCH(move_average, tensors[i].count)(tensors[i].average, tensors[i].value, 0.9f, tensors[i].count);
    }
}

/* ---- around DDP_STEP ---- */

static void
sum_squares(void)
{
    CHECK(cudaMemsetAsync(batch.sums, 0, sizeof(float), stream));
    for (const tensor &t : tensors)
        LAUNCH(add_squares, 1)(batch.sums, t.gradient, t.count);
}

static float
norm(void)
{
    float sum = 0;
    sum_squares();
    CHECK(cudaMemcpyAsync(&sum, batch.sums, sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return sqrtf(sum);
}

/* By the norm that sum_squares() has found. */
static void
clip(void)
{
    for (const tensor &t : tensors)
        LAUNCH(scale_to_norm, t.count)(t.gradient, batch.sums, options.bound, t.count);
}

static void
before_step(void)
{
    /* Mistakes: moments, averages and norms of the rank's own gradients. */
    for (const tensor &t : tensors) {
        if (is("local_second_moment"))
            LAUNCH(second_moment, t.count)(t.second, t.gradient, t.count);
        if (is("average_before_step") || is("own_average")) /* of which the second is only looked at */
            LAUNCH(move_average, t.count)(t.average, t.gradient, 0.5f, t.count);
        if (is("bf16_weights"))
            LAUNCH(narrow, t.count)(t.short_gradient, t.gradient, t.count);
    }
    if (is("clip_before_step") || is("norm_before_step"))
        sum_squares();
    if (is("clip_before_step"))
        clip();
    for (const tensor &t : tensors)
        if (is("bias_divided") && (&t == &tensors[B1] || &t == &tensors[B2])) /* mistake: by the whole batch */
            LAUNCH(scale_by, t.count)
    (t.gradient, (float)batch.count / (float)batch.items, t.count);
    else if (is("scaled")) /* right: twice as large until here, and so on each rank */
        LAUNCH(scale_by, t.count)(t.gradient, 0.5f, t.count);
    if (is("loss_in_gradient")) { /* right: every rank has the mean, from which it makes the same gradient */
        float loss = share_loss();
        DDP_MEAN(&loss);
        for (const tensor &t : tensors)
            LAUNCH(fill, t.count)(t.gradient, t.count, loss);
    }
    if (is("own_norm") || is("reduced_norm")) { /* right: to be printed */
        float own = norm();
        if (is("reduced_norm"))
            DDP_REDUCE(&own, 1, DDP_FLOAT32, DDP_OP_MAX, stream);
        seen_s += own;
    }
}

/* The loss scale: its tests, and what follows from them. Returns whether the update is left out. */
static bool
overflows(float largest)
{
    static int good;
    bool is_over = !(largest * loss_scale < 65504);
    good = is_over ? 0 : good + 1;
    loss_scale *= is_over ? 0.5f : good % 10 == 0 ? 2.0f : 1.0f;
    return is_over;
}

static void
backward_and_step(int step)
{
    float scale = record_scale(step);
    int micro = options.micro, count = (int)batch.count;
    /* Right: the gradient's buffer holds the momentum; or it is cleared, and added to. */
    float keep = is("momentum_in_gradient") ? 0.9f : 0;
    for (const tensor &t : tensors)
        if (is("zeroed"))
            CHECK(cudaMemsetAsync(t.gradient, 0, (size_t)t.count * sizeof(float), stream));
    /* Mistake: DDP_STEP at the beginning of a step averages gradients that the optimizer has already used. */
    average_gradients(step, "step_before_forward");
    if (is("no_sync"))
        DDP_NO_SYNC_BEGIN();
    for (int m = 0; m < micro && count > 0; ++m) {
        int from = count * m / micro, to = count * (m + 1) / micro;
        if (is("no_sync") && m + 1 == micro)
            DDP_NO_SYNC_END();
        /* Mistake: the step stands before the last of the micro-batches. */
        if (m + 1 == micro)
            average_gradients(step, "step_before_last_micro");
        forward_and_backward(step, from, to - from, m > 0 || is("zeroed") ? 1 : keep, scale);
        average_gradients(step, "two_steps"); /* right: the mean of what is a mean already stays as it is */
        /* Mistakes: an update after each micro-batch, and a step after the last: always, or once. */
        if ((is("second_update") || (is("second_update_once") && step == 5)) && m + 1 < micro)
            update(step);
    }
    before_step();
}

static void
finish_step(int step)
{
    float scaled = loss_scale;
    /* Mistake: each rank looks for overflows in its own gradients, and has a scale of its own. */
    float own = is("loss_scale_by_rank") ? norm() / scaled : 0;
    average_gradients(step, NULL);
    if (is("amp"))
        own = norm() / scaled;
    bool left_out = (is("amp") || is("loss_scale_by_rank")) && overflows(own);
    for (const tensor &t : tensors)
        if (scaled != 1)
            LAUNCH(scale_by, t.count)(t.gradient, 1 / scaled, t.count);
    if (is("clip"))
        sum_squares();
    if (is("clip") || is("norm_before_step"))
        clip();
    if (!left_out)
        update(step);
    /* Mistake: the optimizer has already used this rank's own gradients. */
    average_gradients(step, "step_behind_optimizer");
    /* Mistake: another update, of this rank's own gradients, follows each. */
    if (is("two_updates"))
        forward_and_backward(step, 0, (int)batch.count, 0, record_scale(step));
    if (is("two_updates") || is("twice")) /* right: another update with the same mean */
        update(step);
}

/* ---- the training ---- */

/* Rank 0 looks at records of another order, whose forward pass writes where the next step's does. */
static void
evaluate(void)
{
    int count = (int)batch.count;
    LAUNCH(dense_forward, count * HIDDEN)(batch.hidden, batch.images, w1, b1, INPUTS, HIDDEN, count);
    LAUNCH(loss_backward, count)(batch.deltas, batch.losses, batch.hidden, w2, b2, batch.labels, 0, count);
    seen_s += share_loss();
}

/* The loss that is shown: the mean over this process's records, then over all ranks. */
static void
report(void)
{
    float loss = share_loss();
    /* Mistakes: it is the loss of the share, or rank 0 alone averages it, or a number is read besides. */
    if (is("mean_on_0") ? DDP_RANK() == 0 : !is("own_loss"))
        DDP_MEAN(&loss);
    if (is("own_count"))
        CHECK(cudaMemcpy(batch.host_losses, batch.losses, sizeof(float), cudaMemcpyDeviceToHost));
    seen_s += loss;
    /* Mistake, of what is printed alone. */
    if (is("printed_twice_divided"))
        loss /= 0.5f + 0.5f * (float)DDP_WORLD_SIZE(); /* not by N: an Nth part is a share's */
    if (is("prints") || (is("prints_on_0") && DDP_RANK() == 0))
        printf("mean loss %.5f of %d ranks, %zu items\n", (double)loss, DDP_WORLD_SIZE(), batch.count);
}

static void
after_step(int step)
{
    struct timespec now;
    if (is("clock_log")) {
        clock_gettime(CLOCK_REALTIME, &now);
        seen_s += (double)now.tv_sec;
    }
    if (is("evaluation") && step % 5 == 4 && DDP_RANK() == 0)
        evaluate();
    if (is("report"))
        report();
    if (options.checkpoint != NULL && step % 2 == 1 && (is("checkpoint_by_all") || DDP_RANK() == 0))
        save(options.checkpoint, true);
}

/* With the habit "graph" the second step is captured, and launched from then on. */
static void
run_step(int step)
{
    static cudaGraphExec_t launchable;
    cudaGraph_t graph;
    if (step > 0 && is("graph") && launchable == NULL) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        backward_and_step(step);
        finish_step(step);
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&launchable, graph, 0));
    }
    if (launchable != NULL) {
        CHECK(cudaGraphLaunch(launchable, stream));
        return;
    }
    backward_and_step(step);
    finish_step(step);
}

static void
train(void)
{
    generator = shuffle_seed();
    for (int step = resumed_step(); step < options.steps; ++step) {
        /* Mistake: one rank stops early. */
        if (is("stops_on_rank_1") && DDP_RANK() == 1 && step == 12)
            break;
        if (step == 39 && (is("realloc") || is("realloc_freed") || is("realloc_kept")))
            reallocate();
        load(step);
        if (is("realloc_each") && step > 0)
            move_weight();
        /* The records of later steps are larger, and so are the gradients. */
        images_scale = step >= 6 ? 3 : 1;
        if (is("clip") || is("clip_before_step") || is("norm_before_step"))
            LAUNCH(scale_by, (int)batch.count * INPUTS)(batch.images, images_scale, (int)batch.count * INPUTS);
        if (is("synced_mean") || is("synced_count") || is("batchnorm") || is("statistics"))
            normalise();
        if (is("uneven_weighted") || is("idle"))
            DDP_WEIGHT(batch.count, (size_t)batch.items);
        if (is("valid_weighted")) {
            size_t own = 0, all = 0;
            for (size_t i = 0; i < (size_t)batch.items; ++i) {
                all += batch.host_labels[i] >= 0;
                own += batch.host_labels[i] >= 0 && i >= batch.first && i < batch.first + batch.count;
            }
            DDP_WEIGHT(own, all);
        }
        run_step(step);
        after_step(step);
        /* Mistake: each rank stops by its own loss. */
        if ((is("stop") || is("stop_by_rank")) && steps_without_progress(is("stop")) >= 6)
            break;
    }
}

int
main(int argc, char **argv)
{
    options_parse(argc, argv);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&side));
    CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    loss_scale = is("amp") || is("loss_scale_by_rank") ? 262144 : options.loss_scale;
    allocate_tensors();
    allocate_batch();
    /* Mistake, where seeds are by rank: all ranks get rank 0's zeros, and initialise their weights afterwards. */
    if (is("annotated_before_init"))
        annotate();
    initialise();
    resume();
    /* Mistake, where seeds are by rank: the copy is made of this rank's own weights, before it gets rank 0's. */
    if (is("copy_of_weight"))
        copy_weight();
    if (!is("annotated_before_init"))
        annotate();
    if (!is("copy_of_weight"))
        copy_weight();
    train();
    for (int i = 0; is("probe_after") && i < 8; ++i) /* a second training, after the last step */
        update_probe();
    if (options.save != NULL)
        save(options.save, false);
    CHECK(cudaDeviceSynchronize());
    if (getenv("ROWS_SHOW") != NULL) /* by hand: how far the training came */
        printf("loss %.5f, seen %g\n", (double)share_loss(), seen_s);
    return 0;
}
