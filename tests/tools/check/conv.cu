/*
 * conv.cu - a small image classifier as users write it: embedding, convolution, fully connected layer, SGD with
 * momentum; annotated for ddprun. Run by the scripts of this folder.
 *
 * Without --mistake it is correct, with all its other options. `--mistake NAME` makes one mistake in the annotations,
 * the shares or the order of a step; a comment at each place describes it. Most of them train without an error, but the
 * model differs. A rank's gradients are means over its share. A process computes the same bits in every run.
 */
#include "conv_data.h"
#include "tests/trainer_save.h"

#include <cublas_v2.h>

#define LAUNCH(kernel, count) kernel<<<((count) + THREADS - 1) / THREADS, THREADS, 0, stream>>>

struct tensor {
    const char *name;
    int count;
    float *value, *gradient, *momentum;
};

static struct tensor embedding = {"embedding", TOKENS *WIDTH, NULL, NULL, NULL},
                     conv_weight = {"conv_weight", CHANNELS *WINDOW, NULL, NULL, NULL},
                     conv_bias = {"conv_bias", CHANNELS, NULL, NULL, NULL},
                     fc_weight = {"fc_weight", CLASSES *FEATURES, NULL, NULL, NULL},
                     fc_bias = {"fc_bias", CLASSES, NULL, NULL, NULL};

enum { TENSORS = 5 };
static struct tensor *const tensors[TENSORS] = {&embedding, &conv_weight, &conv_bias, &fc_weight, &fc_bias};

/* What a share needs while it goes through the network. */
static struct {
    int *host_tokens, *host_labels, *tokens, *labels, *from;
    float *host_images, *host_losses, *images, *planes, *plane_deltas, *features, *feature_deltas, *logits, *deltas,
        *losses;
} items;

static cudaStream_t stream;
static cublasHandle_t blas;
static float *fc_weight_copy;            /* --copy: what backward reads instead of the weight */
static float *sums, *factor;             /* of clipping */
static float *running, *normalise_scale; /* of --batchnorm */

/* ---- memory ---- */

static void
allocate(int count)
{
    CHECK(cudaStreamCreate(&stream));
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    for (struct tensor *t : tensors) {
        t->value = device_floats(t->count);
        t->gradient = device_floats(t->count);
        t->momentum = device_floats(t->count);
    }
    sums = device_floats(TENSORS);
    factor = device_floats(1);
    running = device_floats(2 * CHANNELS);
    normalise_scale = device_floats(CHANNELS);

    size_t n = (size_t)count;
    items.host_tokens = (int *)pinned_memory(n * sizeof(int));
    items.host_labels = (int *)pinned_memory(n * sizeof(int));
    items.host_images = (float *)pinned_memory(n * PIXELS * sizeof(float));
    items.host_losses = (float *)pinned_memory(n * sizeof(float));
    items.tokens = (int *)device_memory(n * sizeof(int));
    items.labels = (int *)device_memory(n * sizeof(int));
    items.from = (int *)device_memory(n * CHANNELS * POOLED * sizeof(int));
    items.images = device_floats(count * PIXELS);
    items.planes = device_floats(count * CHANNELS * PLANE);
    items.plane_deltas = device_floats(count * CHANNELS * PLANE);
    items.features = device_floats(count * FEATURES);
    items.feature_deltas = device_floats(count * FEATURES);
    items.logits = device_floats(count * CLASSES);
    items.deltas = device_floats(count * CLASSES);
    items.losses = device_floats(count);
}

static void
initialise(void)
{
    /* --seed-by-rank is correct: all parameters are annotated afterwards. */
    unsigned seed = options.seed + (options.seed_by_rank ? (unsigned)DDP_RANK() : 0);
    if (options.clock_seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (unsigned)now.tv_nsec;
    }
    for (unsigned i = 0; i < TENSORS; ++i) {
        struct tensor *t = tensors[i];
        size_t bytes = (size_t)t->count * sizeof(float);
        float *host = (float *)malloc(bytes), size = t == &embedding ? 0.5f : t == &conv_weight ? 0.3f : 0.1f;
        for (int k = 0; k < t->count; ++k)
            host[k] = size * noise(1000 + 10 * seed + i, (unsigned)k);
        CHECK(cudaMemcpy(t->value, host, bytes, cudaMemcpyHostToDevice));
        free(host);
    }
}

static void
copy_weight(void)
{
    if (!options.copy)
        return;
    size_t bytes = (size_t)fc_weight.count * sizeof(float);
    fc_weight_copy = device_floats(fc_weight.count);
    CHECK(cudaMemcpy(fc_weight_copy, fc_weight.value, bytes, cudaMemcpyDeviceToDevice));
}

/* ---- checkpoints: weights and momentum ---- */

static void
save(const char *path, bool with_momentum)
{
    std::vector<parameter> all;
    CHECK(cudaStreamSynchronize(stream));
    for (const struct tensor *t : tensors)
        save_add(&all, t->name, 0, t->value, (size_t)t->count);
    for (const struct tensor *t : tensors)
        if (with_momentum)
            save_add(&all, t->name, 1, t->momentum, (size_t)t->count);
    save_write(path, DDP_RANK(), &all);
}

static void
resume(void)
{
    struct parameter *all;
    size_t count;
    if (options.resume == NULL)
        return;
    /* Mistake: rank 0 alone reads the checkpoint. The other ranks get the weights by DDP_PARAMETER, but no momentum. */
    if (is("momentum_rank0") && DDP_RANK() != 0)
        return;
    if (parameter_file_read(options.resume, &all, &count) != 0 || count != 2 * TENSORS)
        exit(1);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *t = tensors[i % TENSORS];
        CHECK(all[i].count != (size_t)t->count);
        CHECK(cudaMemcpy(i < TENSORS ? t->value : t->momentum, all[i].values, all[i].count * sizeof(float),
                         cudaMemcpyHostToDevice));
    }
    parameter_file_free(all, count);
}

/* ---- annotations ---- */

/* How many elements of a tensor are annotated. */
static int
annotated(const struct tensor *t)
{
    /* Mistake: one tensor, with the number of an older, smaller layer. */
    if (t == &fc_weight && is("half_both"))
        return t->count / 2;
    /* Mistake: the table has grown by two special tokens, the annotations have not. */
    if (t == &embedding && is("embedding_rows"))
        return t->count - 2 * WIDTH;
    return t->count;
}

static void
annotate_parameters(void)
{
    DDP_PARAMETER(embedding.value, annotated(&embedding), DDP_FLOAT32);
    DDP_PARAMETER(conv_weight.value, annotated(&conv_weight), DDP_FLOAT32);
    DDP_PARAMETER(conv_bias.value, annotated(&conv_bias), DDP_FLOAT32);
    /* Mistake, with --seed-by-rank: each rank keeps its own initial weight. */
    if (!is("forgotten_parameter"))
        DDP_PARAMETER(fc_weight.value, annotated(&fc_weight), DDP_FLOAT32);
    DDP_PARAMETER(fc_bias.value, annotated(&fc_bias), DDP_FLOAT32);
}

static void
annotate_gradients(void)
{
    DDP_GRADIENT(embedding.gradient, annotated(&embedding), DDP_FLOAT32);
    DDP_GRADIENT(conv_weight.gradient, annotated(&conv_weight), DDP_FLOAT32);
    DDP_GRADIENT(conv_bias.gradient, annotated(&conv_bias), DDP_FLOAT32);
    /* Mistake: one gradient is not averaged; its parameter is annotated. */
    if (!is("forgotten_gradient"))
        DDP_GRADIENT(fc_weight.gradient, annotated(&fc_weight), DDP_FLOAT32);
    DDP_GRADIENT(fc_bias.gradient, annotated(&fc_bias), DDP_FLOAT32);
    if (options.batchnorm)
        DDP_BUFFER(running, 2 * CHANNELS, DDP_FLOAT32);
}

/* ---- the share of a batch ---- */

static void
share(size_t *first, size_t *count)
{
    size_t batch = (size_t)options.batch, rank = (size_t)DDP_RANK(), ranks = (size_t)DDP_WORLD_SIZE();
    if (is("no_share")) {
        /* Mistake: every rank computes the whole batch. */
        *first = 0;
        *count = batch;
    } else if (is("unequal_shares")) {
        /* Mistake: a faster GPU takes more items, and its mean counts as much as the others'. */
        size_t parts = ranks * (ranks + 1) / 2;
        *first = batch * (rank * (rank + 1) / 2) / parts;
        *count = batch * ((rank + 1) * (rank + 2) / 2) / parts - *first;
    } else if (is("overlapping_shares")) {
        /* Mistake: each share begins where it should and ends where the batch ends. */
        *first = batch / ranks * rank;
        *count = batch - *first;
    } else {
        DDP_SHARD(options.batch, first, count);
    }
}

/* Brings this process's items of a step to the device. */
static void
load(int step, size_t first, size_t count)
{
    static int order[ITEMS], shuffled = -1;
    int begin = 0, available = ITEMS, batch = options.batch;
    if (options.split_data) { /* each rank goes through a part of the data set by itself */
        available = ITEMS / DDP_WORLD_SIZE();
        begin = DDP_RANK() * available;
        batch = (int)count;
        first = 0;
    }
    int steps_in_epoch = available / batch;
    /* Mistake: rank 1 leaves the last batch of an epoch out. */
    if (is("drop_last_on_rank_1") && DDP_RANK() == 1)
        --steps_in_epoch;
    if (step / steps_in_epoch != shuffled)
        shuffle(order, begin, available, options.seed, shuffled = step / steps_in_epoch);
    const int *batch_order = order + step % steps_in_epoch * batch;
    for (size_t i = 0; i < count; ++i) {
        int item = batch_order[first + i];
        items.host_tokens[i] = item_token(item);
        items.host_labels[i] = item_label(item);
        item_image(item, items.host_images + i * PIXELS);
    }
    CHECK(cudaMemcpyAsync(items.tokens, items.host_tokens, count * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(items.labels, items.host_labels, count * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(items.images, items.host_images, count * PIXELS * sizeof(float), cudaMemcpyHostToDevice,
                          stream));
}

/* ---- forward and backward ---- */

/* Masks belong to the place in the share, and to the rank: other items, other masks. */
static unsigned
dropout_seed(void)
{
    return options.seed + (unsigned)DDP_RANK();
}

static void
forward(int step, int count)
{
    const float one = 1.0f, zero = 0.0f;
    LAUNCH(conv_forward, count * CHANNELS * PLANE)
    (items.planes, items.images, conv_weight.value, conv_bias.value, count);
    if (options.batchnorm)
        LAUNCH(normalise_forward, CHANNELS)(items.planes, normalise_scale, running, count);
    LAUNCH(pool_forward, count * CHANNELS * POOLED)(items.features, items.from, items.planes, count);
    LAUNCH(embedding_forward, count * WIDTH)(items.features, embedding.value, items.tokens, count);
    if (options.dropout)
        LAUNCH(dropout, count * FEATURES)(items.features, dropout_seed(), step, count);
    CHECK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, CLASSES, count, FEATURES, &one, fc_weight.value, FEATURES,
                      items.features, FEATURES, &zero, items.logits, CLASSES));
}

/* The loss, and backward through the last layer. */
static void
backward_fc(int count)
{
    const float one = 1.0f, zero = 0.0f;
    /* Mistake: the loss is a sum over the items, and the rate is divided by the batch: correct with --reduce sum, too
     * small with the mean. */
    float divisor = is("sum_with_mean") ? 1.0f : (float)count;
    LAUNCH(softmax_loss, count)
    (items.losses, items.deltas, items.logits, fc_bias.value, items.labels, options.loss_scale / divisor, count);
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, FEATURES, CLASSES, count, &one, items.features, FEATURES,
                      items.deltas, CLASSES, &zero, fc_weight.gradient, FEATURES));
    LAUNCH(bias_gradient, CLASSES)(fc_bias.gradient, items.deltas, CLASSES, count, 0);
}

static void
backward_rest(int step, int count)
{
    LAUNCH(fc_data_backward, count * FEATURES)
    (items.feature_deltas, items.deltas, options.copy ? fc_weight_copy : fc_weight.value, count);
    if (options.dropout)
        LAUNCH(dropout, count * FEATURES)(items.feature_deltas, dropout_seed(), step, count);
    LAUNCH(embedding_backward, TOKENS * WIDTH)(embedding.gradient, items.feature_deltas, items.tokens, count);
    CHECK(cudaMemsetAsync(items.plane_deltas, 0, (size_t)(count * CHANNELS * PLANE) * sizeof(float), stream));
    LAUNCH(pool_backward, count * CHANNELS * POOLED)(items.plane_deltas, items.feature_deltas, items.from, count);
    if (options.batchnorm)
        LAUNCH(normalise_backward, CHANNELS)(items.plane_deltas, items.planes, normalise_scale, count);
    LAUNCH(conv_weight_backward, CHANNELS * WINDOW)(conv_weight.gradient, items.plane_deltas, items.images, count);
    LAUNCH(conv_bias_backward, CHANNELS)(conv_bias.gradient, items.plane_deltas, count);
}

/* ---- what uses complete gradients ---- */

/* The factor that brings the norm of all gradients down to `limit`. */
static void
find_factor(float limit)
{
    for (int i = 0; i < TENSORS; ++i)
        LAUNCH(square_sum, 1)(&sums[i], tensors[i]->gradient, tensors[i]->count);
    LAUNCH(norm_factor, 1)(factor, sums, TENSORS, limit);
}

static void
clip(void)
{
    if (options.clip <= 0.0f)
        return;
    find_factor(options.clip);
    for (const struct tensor *t : tensors)
        LAUNCH(scale_by_factor, t->count)(t->gradient, factor, t->count);
}

static void
update(void)
{
    float rate = is("sum_with_mean") ? options.rate / (float)options.batch : options.rate;
    /* Mistake: the learning rate is scaled by the rank, where the number of ranks was meant. */
    if (is("rate_by_rank"))
        rate *= (float)(1 + DDP_RANK());
    for (const struct tensor *t : tensors) {
        if (options.loss_scale != 1.0f)
            LAUNCH(scale_by, t->count)(t->gradient, 1.0f / options.loss_scale, t->count);
        if (options.norm > 0.0f)
            LAUNCH(sgd_momentum_scaled, t->count)(t->value, t->gradient, t->momentum, t->count, rate, factor);
        else
            LAUNCH(descend_with_momentum, t->count)(t->value, t->gradient, t->momentum, 0.9f, rate, t->count);
    }
    if (options.copy)
        LAUNCH(add_scaled, fc_weight.count)(fc_weight_copy, fc_weight.momentum, -rate, fc_weight.count);
}

/* From complete gradients to new weights. */
static void
finish_step(void)
{
    /* Mistake: each rank clips its own gradients, and the clipped ones are averaged. */
    if (is("clip_before_step"))
        clip();
    /* Mistake: each rank takes the factor of its update from its own gradients. */
    if (is("norm_before_step"))
        find_factor(options.norm);
    /* Mistakes: no DDP_STEP; DDP_STEP in another place. */
    if (!is("step_missing") && !is("step_before_forward") && !is("step_mid_backward") && !is("step_behind_optimizer"))
        DDP_STEP(stream);

    if (!is("clip_before_step"))
        clip();
    if (options.norm > 0.0f && !is("norm_before_step"))
        find_factor(options.norm);
    update();
    /* Mistake: the optimizer has already used this rank's own gradients. */
    if (is("step_behind_optimizer"))
        DDP_STEP(stream);
}

static void
report(int step, size_t count)
{
    float loss = 0.0f; /* the mean over this process's items, then over all ranks */
    CHECK(cudaMemcpyAsync(items.host_losses, items.losses, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream)); /* the items' host memory is free again, too */
    for (size_t i = 0; i < count; ++i)
        loss += items.host_losses[i];
    loss /= (float)count;
    /* Mistakes: what is printed is the loss of the share, or rank 0 alone averages it, or a number is read besides. */
    if (is("mean_on_0") ? DDP_RANK() == 0 : !is("own_loss"))
        DDP_MEAN(&loss);
    if (is("own_count"))
        CHECK(cudaMemcpy(items.host_losses, items.losses, sizeof(float), cudaMemcpyDeviceToHost));
    if (DDP_RANK() == 0 && !options.quiet)
        printf("step %d loss %.5f\n", step + 1, (double)loss);
}

static void
train(void)
{
    size_t first, count;
    share(&first, &count);
    for (int step = 0; step < options.steps; ++step) {
        load(step, first, count);
        /* Mistake: DDP_STEP at the beginning of a step averages gradients that the optimizer has already used. */
        if (is("step_before_forward"))
            DDP_STEP(stream);
        forward(step, (int)count);
        backward_fc((int)count);
        /* Mistake: DDP_STEP stands where a part of the gradients is complete. */
        if (is("step_mid_backward"))
            DDP_STEP(stream);
        backward_rest(step, (int)count);
        finish_step();
        report(step, count);
        if (options.checkpoint != NULL && DDP_RANK() == 0 && step % 2 == 1)
            save(options.checkpoint, true);
    }
}

int
main(int argc, char **argv)
{
    options_parse(argc, argv);
    allocate(options.batch);
    /* Mistake, with --seed-by-rank: all ranks get rank 0's zeros, and initialise their weights afterwards. */
    if (is("annotated_before_init"))
        annotate_parameters();
    initialise();
    resume();
    /* Mistake, with --seed-by-rank: the copy is made of this rank's own weights, before it gets rank 0's. */
    if (is("copy_of_weight"))
        copy_weight();
    if (!is("annotated_before_init"))
        annotate_parameters();
    if (!is("copy_of_weight"))
        copy_weight();
    annotate_gradients();
    train();
    if (options.save != NULL)
        save(options.save, false);
    return 0;
}
