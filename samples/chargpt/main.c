/*
 * Trains the network of model.h to continue a text. This program exists twice: main_plain.c is written for one GPU, as
 * people write them; main.c has the few lines more that let `ddprun` run it on several.
 */
#include "checkpoint.h"
#include "model.h"
#include "options.h"
#include "sampling.h"
#include "text.h"

#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The part of each batch that this process computes: sequences first..first+count-1, and room for them. */
struct share {
    size_t first, count, context;
    int *inputs, *targets;
};

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct share
share_create(const struct options *options)
{
    struct share share = {.context = (size_t)options->shape.context};
    DDP_SHARD(options->batch, &share.first, &share.count);
    share.inputs = calloc(share.count * share.context, sizeof(int));
    share.targets = calloc(share.count * share.context, sizeof(int));
    if (share.inputs == NULL || share.targets == NULL) {
        fprintf(stderr, "chargpt: out of host memory\n");
        exit(1);
    }
    return share;
}

/* Mean loss over sequences that lie evenly in the validation part. */
static float
validate(struct model *model, const struct text *text, const struct options *options, const struct share *share)
{
    float sum = 0.0f;
    for (size_t i = 0; i < options->eval_batches; ++i) {
        text_validation(text, options->eval_batches * options->batch, i * options->batch + share->first, share->count,
                        share->context, share->inputs, share->targets);
        model_input(model, share->inputs, share->targets, share->count, share->context);
        model_forward(model);
        sum += model_loss(model);
    }
    float loss = sum / (float)options->eval_batches;
    DDP_MEAN(&loss);
    return loss;
}

/* Forward and backward over the batches of one step; the mean of their losses if it is asked for. */
static float
backward(struct model *model, const struct text *text, const struct options *options, const struct share *share,
         size_t step, bool wants_loss)
{
    float sum = 0.0f;
    model_zero_gradients(model);
    for (size_t i = 0; i < options->accumulate; ++i) {
        text_batch(text, options->seed, (step - 1) * options->accumulate + i, share->first, share->count,
                   share->context, share->inputs, share->targets);
        model_input(model, share->inputs, share->targets, share->count, share->context);
        model_forward(model);
        model_backward(model, 1.0f / (float)options->accumulate);
        if (wants_loss)
            sum += model_last_loss(model);
    }
    float loss = sum / (float)options->accumulate;
    if (wants_loss)
        DDP_MEAN(&loss);
    return loss;
}

/* From `step` + 1 on. Returns the seconds that the steps took, without validation and checkpoints. */
static double
train(struct model *model, const struct text *text, const struct options *options, size_t step)
{
    struct share share = share_create(options);
    double seconds = 0.0, begin_s = now_s();
    while (step++ < options->steps) {
        bool evaluates = step % options->eval_every == 0 || step == options->steps;
        float loss = backward(model, text, options, &share, step, evaluates);
        struct adamw constants = options_adamw(options, step);
        DDP_STEP(0);
        model_update(model, &constants);
        bool saves = options->checkpoint_every > 0 && step % options->checkpoint_every == 0;
        if (!evaluates && !saves)
            continue;

        model_wait();
        seconds += now_s() - begin_s;
        if (evaluates) {
            float validation = validate(model, text, options, &share);
            if (!isfinite(loss) || !isfinite(validation)) {
                fprintf(stderr, "chargpt: step %zu: the loss is not finite; try a smaller --lr\n", step);
                exit(1);
            }
            if (!options->quiet) {
                printf("step %zu loss %.5f val %.5f\n", step, (double)loss, (double)validation);
                fflush(stdout);
            }
        }
        if (saves && options->checkpoint != NULL)
            checkpoint_write(options->checkpoint, model, text, step);
        begin_s = now_s();
    }
    free(share.inputs);
    free(share.targets);
    return seconds;
}

int
main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    if (DDP_RANK() != 0) {
        options.quiet = true;
        options.checkpoint = NULL;
        options.sample = 0;
    }
    if (options.batch < (size_t)DDP_WORLD_SIZE()) {
        fprintf(stderr, "chargpt: --batch %zu: there are %d ranks\n", options.batch, DDP_WORLD_SIZE());
        return 2;
    }

    struct text text;
    text_load(options.data, (size_t)options.shape.context, &text);
    options.shape.vocabulary = text.vocabulary;

    struct model model;
    model_create(&model, &options.shape, options.batch, options.seed);
    size_t done = options.resume != NULL ? checkpoint_read(options.resume, &model, &text) : 0;
    for (int i = 0; i < model.layout.tensor_count; ++i) {
        const struct tensor *tensor = &model.layout.tensors[i];
        DDP_PARAMETER(model.values + tensor->offset, tensor->count, DDP_FLOAT32);
        DDP_GRADIENT(model.gradients + tensor->offset, tensor->count, DDP_FLOAT32);
    }

    double seconds = train(&model, &text, &options, done);
    if (!options.quiet && options.steps > done) {
        size_t steps = options.steps - done, sequences = options.batch * options.accumulate;
        fprintf(stderr, "%zu steps in %.2f s, %.2f ms/step, effective batch %zu sequences, %zu parameters\n", steps,
                seconds, 1e3 * seconds / (double)steps, sequences, model.layout.count);
    }
    if (options.checkpoint != NULL)
        checkpoint_write(options.checkpoint, &model, &text, options.steps > done ? options.steps : done);
    if (options.save != NULL)
        model_save(&model, options.save, DDP_RANK());
    if (options.sample > 0)
        sampling_print(&model, &text, options.sample, options.temperature, options.seed);

    model_destroy(&model);
    text_free(&text);
    return 0;
}
