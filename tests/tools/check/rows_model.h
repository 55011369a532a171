/*
 * rows_model.h - what rows.cu trains: a network of two layers, its tensors with their annotations, and the way of a
 * batch from the host's memory to the device. A comment stands at each mistake.
 */
#ifndef TESTS_TOOLS_CHECK_ROWS_MODEL_H
#define TESTS_TOOLS_CHECK_ROWS_MODEL_H

#include "rows_data.h"
#include "tests/lib/trainer_save.h"

#define LAUNCH(kernel, count) kernel<<<((count) + THREADS - 1) / THREADS, THREADS, 0, stream>>>

struct tensor {
    int count;
    float *value, *gradient, *momentum, *second, *average;
    __nv_bfloat16 *short_value, *short_gradient; /* of habits with bfloat16 */
};

enum { W1, B1, W2, B2, TENSORS };
static struct tensor tensors[TENSORS] = {
    {.count = HIDDEN * INPUTS}, {.count = HIDDEN}, {.count = CLASSES * HIDDEN}, {.count = CLASSES}};
static float *const &w1 = tensors[W1].value, *const &b1 = tensors[B1].value, *const &w2 = tensors[W2].value,
                    *const &b2 = tensors[B2].value;

static struct {
    int items; /* of the batch */
    size_t first, count;
    int order[MOST_BATCH + 1];
    struct record *records; /* of the host, as images and labels are */
    float *host_images, *host_losses, *images, *hidden, *hidden_deltas, *deltas, *losses, *all_images;
    int *host_labels, *labels, *from, *all_labels;
    float *sums, *running, *running_gradient, *host_bias, *host_gradient;
} batch;

/* A tensor beside the network, with its gradient: trained now and then. */
static struct tensor probe = {.count = INPUTS};

static cudaStream_t stream, side;
static cudaEvent_t forked, joined;

/* ---- memory ---- */

/* The first bias lies in another kind of memory, or is the host's, which copies it for the device. */
static float *
value_memory(int t)
{
    float *memory = NULL;
    size_t bytes = (size_t)tensors[t].count * sizeof(float);
    if (t == B1 && (is("bias_pinned") || is("pinned_bias")))
        return (float *)pinned_memory(bytes);
    if (t == B1 && (is("bias_managed") || is("managed_bias"))) {
        CHECK(cudaMallocManaged((void **)&memory, bytes));
        memset(memory, 0, bytes);
        return memory;
    }
    return device_floats(tensors[t].count);
}

static void
allocate_tensors(void)
{
    float *all = is("flat") ? device_floats(1024) : NULL;
    for (int i = 0; i < TENSORS; ++i) {
        struct tensor *t = &tensors[i];
        t->value = all != NULL ? all : value_memory(i);
        t->gradient = all != NULL ? all + 512 : device_floats(t->count);
        t->momentum = device_floats(t->count);
        t->second = device_floats(t->count);
        t->average = device_floats(t->count);
        t->short_value = (__nv_bfloat16 *)device_memory((size_t)t->count * sizeof(__nv_bfloat16));
        t->short_gradient = (__nv_bfloat16 *)device_memory((size_t)t->count * sizeof(__nv_bfloat16));
        all = all != NULL ? all + t->count : NULL;
    }
    batch.sums = device_floats(INPUTS + 1);
    batch.running = device_floats(HIDDEN); /* as many as a bias has */
    batch.running_gradient = device_floats(HIDDEN);
    batch.host_bias = (float *)malloc(HIDDEN * sizeof(float));
    batch.host_gradient = (float *)pinned_memory(CLASSES * HIDDEN * sizeof(float));
}

static void
allocate_batch(void)
{
    probe.value = device_floats(INPUTS);
    probe.gradient = device_floats(INPUTS);
    probe.momentum = device_floats(INPUTS);
    batch.records = (struct record *)pinned_memory((MOST_BATCH + 1) * sizeof(struct record));
    batch.host_images = (float *)pinned_memory(2 * (MOST_BATCH + 1) * INPUTS * sizeof(float));
    batch.host_labels = (int *)pinned_memory((MOST_BATCH + 1) * sizeof(int));
    batch.host_losses = (float *)pinned_memory(MOST_BATCH * sizeof(float));
    batch.images = device_floats(MOST_BATCH * INPUTS);
    batch.labels = (int *)device_memory(MOST_BATCH * sizeof(int));
    batch.from = (int *)device_memory(MOST_BATCH * sizeof(int));
    batch.hidden = device_floats(MOST_BATCH * HIDDEN);
    batch.hidden_deltas = device_floats(MOST_BATCH * HIDDEN);
    batch.deltas = device_floats(MOST_BATCH * CLASSES);
    batch.losses = device_floats(MOST_BATCH);
    if (!is("device_data"))
        return;
    batch.all_images = device_floats(ITEMS * INPUTS);
    batch.all_labels = (int *)device_memory(ITEMS * sizeof(int));
    for (int i = 0; i < ITEMS; ++i) {
        struct record record = record_of(i);
        CHECK(cudaMemcpy(batch.all_images + i * INPUTS, record.image, sizeof(record.image), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(batch.all_labels + i, &record.label, sizeof(int), cudaMemcpyHostToDevice));
    }
}

static void
initialise(void)
{
    float host[HIDDEN * INPUTS];
    /* Right: all ranks take those of rank 0. */
    unsigned seed = is("clock_weights") ? (unsigned)time(NULL) : is("seed_by_rank") ? 10u * (unsigned)DDP_RANK() : 0;
    for (int i = 0; i < TENSORS; ++i) {
        bool zero = (is("zero_head") && (i == W2 || i == B2)) || (is("zero_bias") && i == B1);
        for (int k = 0; k < tensors[i].count; ++k)
            host[k] = zero ? 0 : 0.8f * noise(10 + (unsigned)i + seed, (unsigned)k) - 0.4f;
        CHECK(cudaMemcpy(tensors[i].value, host, (size_t)tensors[i].count * sizeof(float), cudaMemcpyHostToDevice));
        if (i == B1)
            memcpy(batch.host_bias, host, HIDDEN * sizeof(float));
        struct tensor *t = &tensors[i];
        LAUNCH(narrow, t->count)(t->short_value, t->value, t->count);
        if (is("bf16_copies")) /* of weights in float, with which the passes compute */
            CHECK(cudaMemcpy(t->average, host, (size_t)t->count * sizeof(float), cudaMemcpyHostToDevice));
        if (is("bf16_weights") || is("bf16_copies"))
            LAUNCH(widen, t->count)(t->value, t->short_value, t->count);
    }
}

/* ---- checkpoints: weights and momentum ---- */

static void
save(const char *path, bool with_momentum)
{
    std::vector<parameter> all;
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < TENSORS; ++i)
        save_add(&all, "value", i, tensors[i].value, (size_t)tensors[i].count);
    for (int i = 0; i < TENSORS && with_momentum; ++i)
        save_add(&all, "momentum", i, tensors[i].momentum, (size_t)tensors[i].count);
    save_write(path, DDP_RANK(), &all);
}

static void
resume(void)
{
    struct parameter *all;
    size_t count;
    /* Mistake: rank 0 alone reads the checkpoint. The other ranks get the weights by DDP_PARAMETER, but no momentum. */
    if (options.resume == NULL || (is("momentum_rank0") && DDP_RANK() != 0))
        return;
    REQUIRE(parameter_file_read(options.resume, &all, &count) == 0 && count == 2 * TENSORS);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *t = &tensors[i % TENSORS];
        CHECK(cudaMemcpy(i < TENSORS ? t->value : t->momentum, all[i].values, (size_t)t->count * sizeof(float),
                         cudaMemcpyHostToDevice));
    }
    parameter_file_free(all, count);
}

/* The step with which the training begins: a checkpoint has it, beside the weights. */
static int
resumed_step(void)
{
    enum { SAVED_STEP = 2 };
    /* Mistake: rank 0 alone reads the checkpoint. The other ranks get its weights by DDP_PARAMETER, and begin with the
     * first batch. */
    if (!is("resume_rank0") || DDP_RANK() != 0)
        return 0;
    for (int step = 0; step < SAVED_STEP; ++step)
        batch_order(step, batch.order);
    return SAVED_STEP;
}

/* Right: backward reads a copy of the second weight, which the update moves, too. */
static void
copy_weight(void)
{
    const struct tensor *t = &tensors[W2];
    if (is("copy"))
        CHECK(cudaMemcpy(t->average, t->value, (size_t)t->count * sizeof(float), cudaMemcpyDeviceToDevice));
}

/* ---- annotations ---- */

/* How many elements of a tensor are annotated. */
static int
annotated(int i)
{
    /* Mistakes: the number is that of an older, smaller layer; or a table has grown by two rows. */
    return is("half_both") && i == W2    ? tensors[i].count / 2
           : is("fewer_rows") && i == W1 ? tensors[i].count - 2 * INPUTS
                                         : tensors[i].count;
}

static void
annotate_gradient(int i)
{
    const struct tensor *t = &tensors[i];
    /* Mistakes: the counts are those of an older, smaller network: of all gradients, or of one. */
    int count = is("half_gradients") || (is("half_gradient") && i == W2) ? t->count / 2 : annotated(i);
    /* Mistake: one gradient is not averaged; its parameter is annotated. */
    if (is("forgotten_gradient") && i == W2)
        return;
    if (is("two_groups") || is("group_turns") || is("group_never_stepped"))
        DDP_GRADIENT_GROUP(i / 2);
    if (is("bf16_weights"))
        DDP_GRADIENT(t->short_gradient, count, DDP_BFLOAT16);
    /* Mistake: what is annotated is a copy in the host's memory, which nothing fills any more. */
    else if (i == W2 && is("gradient_unwritten"))
        DDP_GRADIENT(batch.host_gradient, count, DDP_FLOAT32);
    else
        DDP_GRADIENT(t->gradient, count, DDP_FLOAT32);
}

static void
annotate(void)
{
    if (is("flat")) {
        DDP_PARAMETER(w1, HIDDEN * INPUTS + HIDDEN + CLASSES * HIDDEN + CLASSES, DDP_FLOAT32);
        DDP_GRADIENT(tensors[W1].gradient, HIDDEN * INPUTS + HIDDEN + CLASSES * HIDDEN + CLASSES, DDP_FLOAT32);
        return;
    }
    for (int i = 0; i < TENSORS; ++i) {
        const struct tensor *t = &tensors[i];
        /* Mistake: each annotation has the other's memory. */
        if (is("swapped")) {
            DDP_PARAMETER(t->gradient, t->count, DDP_FLOAT32);
            DDP_GRADIENT(t->value, t->count, DDP_FLOAT32);
            continue;
        }
        /* Mistakes: a bias is forgotten, in four kinds of memory. */
        if (i == B1 &&
            (is("bias_device") || is("bias_managed") || is("bias_pinned") || is("bias_host") || is("late_bias")))
            continue;
        if (i == B1 && is("host_bias"))
            DDP_PARAMETER(batch.host_bias, t->count, DDP_FLOAT32);
        else if (is("bf16_weights"))
            DDP_PARAMETER(t->short_value, t->count, DDP_BFLOAT16);
        else if (is("bf16_copies"))
            DDP_PARAMETER(t->average, t->count, DDP_FLOAT32);
        /* Mistake without, where seeds are by rank: each rank keeps its own initial weight. */
        else if (!is("forgotten_parameter") || i != W2)
            DDP_PARAMETER(t->value, annotated(i), DDP_FLOAT32);
        annotate_gradient(i);
        if (is("state"))
            DDP_STATE(t->momentum, t->count, DDP_FLOAT32);
    }
    if (is("batchnorm"))
        DDP_BUFFER(batch.running, HIDDEN, DDP_FLOAT32);
    /* Mistakes: statistics that forward writes are annotated as a parameter; beside a gradient that nothing writes; and
     * one that each step clears. */
    bool has_gradient = is("unwritten_statistics") || is("zeroed_statistics");
    if (is("trained_statistics") || has_gradient)
        DDP_PARAMETER(batch.running, HIDDEN, DDP_FLOAT32);
    if (has_gradient)
        DDP_GRADIENT(batch.running_gradient, HIDDEN, DDP_FLOAT32);
    if (is("idle_group")) { /* right: nothing is ever made of these gradients */
        DDP_GRADIENT_GROUP(2);
        DDP_GRADIENT(device_floats(16), 16, DDP_FLOAT32);
    }
}

/* Another size of the second weight's memory is wanted, as where a vocabulary grows. */
static void
reallocate(void)
{
    struct tensor *t = &tensors[W2];
    float *old_value = t->value, *old_gradient = t->gradient;
    t->value = device_floats(2 * t->count);
    t->gradient = device_floats(2 * t->count);
    CHECK(cudaMemcpy(t->value, old_value, (size_t)t->count * sizeof(float), cudaMemcpyDeviceToDevice));
    if (is("realloc")) {
        DDP_FORGET(old_value);
        DDP_FORGET(old_gradient);
    }
    /* Mistake: the new memory is not annotated. The old one is freed, or kept for later. */
    if (!is("realloc_kept")) {
        CHECK(cudaFree(old_value));
        CHECK(cudaFree(old_gradient));
    }
    if (is("realloc")) {
        DDP_PARAMETER(t->value, t->count, DDP_FLOAT32);
        DDP_GRADIENT(t->gradient, t->count, DDP_FLOAT32);
    }
}

/* ---- from the data set to the device ---- */

static void
to_device(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

static void
share_batch(void)
{
    size_t items = (size_t)batch.items, rank = (size_t)DDP_RANK(), ranks = (size_t)DDP_WORLD_SIZE();
    if (is("no_share")) {
        /* Mistake: every rank computes the whole batch. */
        batch.first = 0;
        batch.count = items;
    } else if (is("unequal_shares")) {
        /* Mistake: a faster GPU takes more records, and its mean counts as much as the others'. */
        size_t parts = ranks * (ranks + 1) / 2;
        batch.first = items * (rank * (rank + 1) / 2) / parts;
        batch.count = items * ((rank + 1) * (rank + 2) / 2) / parts - batch.first;
    } else if (is("overlapping_shares")) {
        /* Mistake: each share begins where it should and ends where the batch ends. */
        batch.first = items / ranks * rank;
        batch.count = items - batch.first;
    } else {
        DDP_SHARD(items, &batch.first, &batch.count);
    }
}

/* The host's batch: all of it, on every rank. */
static void
fill_batch(int step)
{
    size_t rank = (size_t)DDP_RANK();
    batch.items = batch_order(step, batch.order);
    batch.order[batch.items] = batch.order[0];
    share_batch();
    int order[MOST_BATCH + 1];
    memcpy(order, batch.order, sizeof(order));
    size_t ranks = (size_t)DDP_WORLD_SIZE(), part = batch.count / (size_t)options.micro;
    for (size_t i = 0; i < batch.count && is("split_data"); ++i) /* of a part of the data set, each rank of its own */
        batch.order[batch.first + i] = (int)rank * (ITEMS / (int)ranks) + order[i] % (ITEMS / (int)ranks);
    for (size_t i = 0; i < batch.count && is("strided"); ++i) /* right: the ranks take the records in turn */
        batch.order[batch.first + i] = order[i * ranks + rank];
    for (size_t i = 0; i < batch.count && is("shard_micro"); ++i) /* right: a share of each micro-batch */
        batch.order[batch.first + i] = order[i / part * part * ranks + rank * part + i % part];
    for (int i = 0; i <= batch.items; ++i) {
        struct record record = record_of(batch.order[i]);
        bool mine = (size_t)i >= batch.first && (size_t)i < batch.first + batch.count;
        for (int k = 0; k < INPUTS; ++k) {
            if (is("augment_by_item"))
                record.image[k] += 0.2f * noise(7 + (unsigned)step, (unsigned)(batch.order[i] * INPUTS + k));
            /* Mistake: what is drawn for the rank's own records only, the next shuffle does not draw. */
            if (is("augment_all") || (is("augment_from_shuffle") && mine))
                record.image[k] += 0.2f * (float)(draw() % 1024) / 1024;
        }
        batch.records[i] = record;
        memcpy(batch.host_images + i * INPUTS, record.image, sizeof(record.image));
        batch.host_labels[i] = record.label;
    }
}

/* Where the rank's records begin in the host's memory: of images in floats, and of labels. */
static void
find_places(size_t *image, size_t *label)
{
    size_t first = batch.first;
    /* Mistake: all ranks begin at the batch's beginning. */
    if (is("first_ignored"))
        first = 0;
    /* Mistake: every rank but the first begins a record late. */
    if (is("moved_by_one") && first > 0)
        ++first;
    /* Mistake: records are counted, and floats are added. */
    *image = is("first_in_floats") ? first : first * INPUTS;
    /* Mistakes: labels are the batch's first; on rank 1, those of other records. */
    *label = is("labels_not_moved") ? 0 : is("wrong_labels") && DDP_RANK() == 1 ? first - 1 : first;
}

static void
load_in_other_ways(void)
{
    if (is("device_data")) {
        to_device(batch.from, batch.order + batch.first, batch.count * sizeof(int));
        LAUNCH(gather, (int)batch.count * INPUTS)
        (batch.images, batch.labels, batch.all_images, batch.all_labels, batch.from, (int)batch.count);
    } else if (is("records")) {
        const struct record *from = batch.records + batch.first;
        CHECK(cudaMemcpy2DAsync(batch.images, sizeof(from->image), from->image, sizeof(*from), sizeof(from->image),
                                batch.count, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpy2DAsync(batch.labels, sizeof(int), &from->label, sizeof(*from), sizeof(int), batch.count,
                                cudaMemcpyHostToDevice, stream));
    } else {
        for (size_t i = 0; i < batch.count; ++i) {
            to_device(batch.images + i * INPUTS, batch.records[batch.first + i].image, INPUTS * sizeof(float));
            to_device(batch.labels + i, &batch.records[batch.first + i].label, sizeof(int));
        }
    }
}

static void
load(int step)
{
    size_t image, label;
    CHECK(cudaStreamSynchronize(stream)); /* the host's memory is free again */
    fill_batch(step);
    /* Right, with weights: in some steps rank 0 has all records, and the others do not run their passes. */
    if (is("idle") && step > 9 && step % 2 == 0 && DDP_WORLD_SIZE() > 1) {
        batch.first = 0;
        batch.count = DDP_RANK() == 0 ? (size_t)batch.items : 0;
        if (batch.count == 0)
            return;
    }
    find_places(&image, &label);
    /* Mistake: rank 1 leaves out the records that do not fill a group of eight. */
    if (is("drop_last") && DDP_RANK() == 1)
        batch.count -= batch.count % 8;
    if (is("device_data") || is("records") || is("copy_each")) {
        load_in_other_ways();
    } else {
        cudaStream_t own = stream;
        stream = is("prefetch") ? side : stream;
        /* Right: what follows the share in the host's memory comes along, and is not used. */
        size_t copied = is("padded") ? (size_t)batch.items : batch.count;
        to_device(batch.images, batch.host_images + image, copied * INPUTS * sizeof(float));
        to_device(batch.labels, batch.host_labels + label, batch.count * sizeof(int));
        if (is("prefetch")) {
            CHECK(cudaEventRecord(joined, side));
            CHECK(cudaStreamWaitEvent(own, joined, 0));
        }
        stream = own;
    }
    if (is("augment_by_rank"))
        LAUNCH(add_noise, (int)batch.count * INPUTS)(batch.images, (unsigned)DDP_RANK(), step, (int)batch.count);
}

#endif
