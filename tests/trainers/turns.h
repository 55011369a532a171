/*
 * turns.h - the net of trainers that take turns (turns.cu, turns_refused.cu), and the turns of several ranks
 * as one process plays them, by code of its own.
 */
#ifndef TESTS_TRAINERS_TURNS_H
#define TESTS_TRAINERS_TURNS_H

#include "../lib/trainer_net.h"
#include "../lib/trainer_options.h"
#include "../lib/trainer_save.h"
#include "common.h"

enum { ITEMS = 16, INPUTS = 12, HIDDEN = 24, OUTPUTS = 4, TENSORS = 2, LATE = 23, RANKS_AT_MOST = 8 };
static const float RATE = 0.05f;

struct tensor {
    int count, group;
    float *weight, *gradient;
    std::vector<float> begun, sum; /* --play: what the gradient held at the batch's begin; of the round's batches */
};

static tensor tensors[TENSORS] = {{INPUTS * HIDDEN, 0, NULL, NULL, {}, {}}, {HIDDEN * OUTPUTS, 0, NULL, NULL, {}, {}}};
static float *x, *target, *hidden, *output, *delta, *delta_hidden;
static float host_x[ITEMS * INPUTS], host_target[ITEMS * OUTPUTS];
static cudaStream_t stream;
static bool of_parameters; /* the step is DDP_STEP_PARAMETERS */

/* ---- the net ---- */

STATIC_ELEMENTWISE(fill, (float *values, float value, int count), count, values[i] = value)
STATIC_ELEMENTWISE(descend, (float *weight, const float *gradient, int count, float rate), count,
                   weight[i] -= rate * gradient[i])

static void
make_batch(int batch)
{
    for (int i = 0; i < ITEMS * INPUTS; ++i)
        host_x[i] = noise_of(7, (unsigned)(batch * ITEMS * INPUTS + i));
    for (int i = 0; i < ITEMS * OUTPUTS; ++i)
        host_target[i] = 0.8f * noise_of(9, (unsigned)(batch * ITEMS * OUTPUTS + i));
}

static inline void
load(int batch, float *to_x, float *to_target)
{
    CHECK(cudaStreamSynchronize(stream)); /* it may still read the batch before */
    make_batch(batch);
    CHECK(cudaMemcpyAsync(to_x, host_x, sizeof(host_x), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(to_target, host_target, sizeof(host_target), cudaMemcpyHostToDevice, stream));
}

static inline void
forward(void)
{
    dense_forward<<<blocks_for(ITEMS * HIDDEN), THREADS, 0, stream>>>(hidden, x, tensors[0].weight, NULL, INPUTS,
                                                                      HIDDEN, ITEMS);
    dense_forward<<<blocks_for(ITEMS * OUTPUTS), THREADS, 0, stream>>>(output, hidden, tensors[1].weight, NULL, HIDDEN,
                                                                       OUTPUTS, ITEMS);
    loss_delta<<<blocks_for(ITEMS * OUTPUTS), THREADS, 0, stream>>>(delta, output, target, OUTPUTS, ITEMS);
}

/* From the last layer's delta on. Gradients are added to what there is, times `keep`. */
static inline void
backward_below(float keep)
{
    input_delta<<<blocks_for(ITEMS * HIDDEN), THREADS, 0, stream>>>(delta_hidden, tensors[1].weight, delta, hidden,
                                                                    HIDDEN, OUTPUTS, ITEMS);
    weight_gradient<<<blocks_for(INPUTS * HIDDEN), THREADS, 0, stream>>>(tensors[0].gradient, delta_hidden, x, INPUTS,
                                                                         HIDDEN, ITEMS, keep, 1);
}

static inline void
forward_and_backward(float keep)
{
    forward();
    weight_gradient<<<blocks_for(HIDDEN * OUTPUTS), THREADS, 0, stream>>>(tensors[1].gradient, delta, hidden, HIDDEN,
                                                                          OUTPUTS, ITEMS, keep, 1);
    backward_below(keep);
}

static inline void
update_one(const tensor *one)
{
    descend<<<blocks_for(one->count), THREADS, 0, stream>>>(one->weight, one->gradient, one->count, RATE);
}

static inline void
update_all(void)
{
    for (const tensor &one : tensors)
        update_one(&one);
}

static inline void
update_group(int group)
{
    for (const tensor &one : tensors) {
        if (one.group == group)
            update_one(&one);
    }
}

static inline void
clear_group(int group)
{
    for (const tensor &one : tensors) {
        if (one.group == group)
            CHECK(cudaMemsetAsync(one.gradient, 0, one.count * sizeof(float), stream));
    }
}

static inline void
clear_gradients(void)
{
    for (const tensor &one : tensors)
        CHECK(cudaMemsetAsync(one.gradient, 0, one.count * sizeof(float), stream));
}

/* After the region: no rank leaves it out. */
static inline void
touch_loss(void)
{
    square_sum<<<1, 1, 0, stream>>>(delta_hidden, delta, ITEMS * OUTPUTS, 0);
}

static inline void
net_annotate(bool has_gradients)
{
    for (const tensor &one : tensors) {
        DDP_GRADIENT_GROUP(one.group);
        DDP_PARAMETER(one.weight, one.count, DDP_FLOAT32);
        if (has_gradients)
            DDP_GRADIENT(one.gradient, one.count, DDP_FLOAT32);
    }
}

static inline void
net_allocate(bool is_pair)
{
    stream = stream_create();
    x = device_floats(ITEMS * INPUTS);
    target = device_floats(ITEMS * OUTPUTS);
    hidden = device_floats(ITEMS * HIDDEN);
    output = device_floats(ITEMS * OUTPUTS);
    delta = device_floats(ITEMS * OUTPUTS);
    delta_hidden = device_floats(ITEMS * HIDDEN);
    for (int t = 0; t < TENSORS; ++t) {
        tensor *one = &tensors[t];
        std::vector<float> values(one->count);
        for (int i = 0; i < one->count; ++i)
            values[i] = 0.3f * noise_of(3 + (unsigned)t, (unsigned)i);
        one->weight = device_copy(values.data(), one->count);
        one->gradient = device_floats(one->count);
        one->group = is_pair ? t : 0;
    }
}

static inline void
net_create(bool is_pair, bool has_gradients)
{
    net_allocate(is_pair);
    net_annotate(has_gradients);
}

static inline void
net_save(const char *path)
{
    std::vector<parameter> saved;
    for (int t = 0; t < TENSORS; ++t)
        save_add(&saved, "w", t, tensors[t].weight, tensors[t].count);
    save_write(path, DDP_RANK(), &saved);
}

/* ---- one process that plays the turns of `played` ranks; the first batch is that of all of them ---- */

static int played;
static struct {
    bool is_first = true;
    int turn;
} groups[TENSORS];

static inline int
turns_of_round(void)
{
    return played > 0 ? played : DDP_WORLD_SIZE();
}

static inline int
rounds_of(int batches)
{
    return 1 + (batches - 1) / turns_of_round();
}

static inline float *
averaged(const tensor *one)
{
    return of_parameters ? one->weight : one->gradient;
}

static inline std::vector<float>
read_back(const tensor *one)
{
    std::vector<float> values(one->count);
    CHECK(cudaMemcpyAsync(values.data(), averaged(one), one->count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return values;
}

static inline void
write_back(const tensor *one, const std::vector<float> &values)
{
    CHECK(cudaMemcpyAsync(averaged(one), values.data(), one->count * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* Before a batch that changes what the round began with: each rank has that, and adds its own batch. */
static inline void
play_batch(void)
{
    for (tensor &one : tensors) {
        if (played > 0 && groups[one.group].turn == 0)
            one.begun = read_back(&one);
    }
}

/* DDP_STEP of the group; whether the update is made: with ddprun, the engine leaves it out. */
static inline bool
play_step(int group)
{
    const bool is_first = groups[group].is_first, completes = is_first || groups[group].turn == played - 1;
    for (tensor &one : tensors) {
        if (one.group != group)
            continue;
        std::vector<float> values = read_back(&one);
        const std::vector<float> own = values;
        if (groups[group].turn == 0)
            one.sum.assign(one.count, 0);
        for (int i = 0; i < one.count; ++i) {
            one.sum[i] = groups[group].turn == 0 ? own[i] : one.sum[i] + own[i];
            for (int rank = 1; rank < played && is_first; ++rank)
                one.sum[i] += own[i];
            values[i] = one.sum[i] / (float)played;
        }
        if (completes)
            write_back(&one, values);
        else if (!one.begun.empty())
            write_back(&one, one.begun);
    }
    groups[group].turn = completes ? 0 : groups[group].turn + 1;
    groups[group].is_first = false;
    return completes;
}

static inline bool
step_group(int group)
{
    if (played > 0)
        return play_step(group);
    if (of_parameters)
        DDP_STEP_PARAMETERS_GROUP(group, stream);
    else
        DDP_STEP_GROUP(group, stream);
    return true;
}

static inline bool
step(void)
{
    return step_group(0);
}

/* MODE [--batches N] [--play RANKS] [--save FILE] */
static inline int
turns_main(int argc, char **argv)
{
    int batches = 41; /* the last round is not complete on 3 ranks */
    const char *save_to = NULL;
    mode = argc > 1 ? argv[1] : "plain";
    take_options(argc, argv, 2, {{"--batches", &batches}, {"--play", &played}, {"--save", &save_to}});
    auto train = mode_of<void(int)>::given();
    REQUIRE(train != NULL);
    net_create(is_mode("gan"), !is_one_of({"hogwild", "each", "shared"}));
    train(batches);
    CHECK(cudaDeviceSynchronize());
    if (save_to != NULL)
        net_save(save_to);
    return 0;
}

#endif
