/*
 * Trains the network of model.h to continue a text: main_plain.c for several GPUs, which take turns at whole batches
 * (docs/annotations.md, "Turns"). N batches are a round, and make one update.
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

/* The sequences of a batch, which is whole on each rank, and room for them. */
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
    struct share share = {.first = 0, .count = options->batch, .context = (size_t)options->shape.context};
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
    return loss;
}

/* Whether the loss of this batch is in the next line: the last batch of each rank is. */
static bool
is_reported(const struct options *options, size_t step)
{
    size_t line = (step + options->eval_every - 1) / options->eval_every * options->eval_every;
    if (line > options->steps)
        line = options->steps;
    return line - step < (size_t)DDP_WORLD_SIZE();
}

/* Updates that were made in this many batches: the first batch makes one, and then each round. */
static size_t
updates_of(size_t batches)
{
    return batches == 0 ? 0 : 1 + (batches - 1) / (size_t)DDP_WORLD_SIZE();
}

/* From `step` + 1 on. A step is a batch; N of them on N ranks make an update, and the optimizer counts updates. Returns
 * the seconds that the steps took, without validation and checkpoints. */
static double
train(struct model *model, const struct text *text, const struct options *options, size_t step)
{
    struct share share = share_create(options);
    double seconds = 0.0, begin_s = now_s();
    size_t updates = updates_of(step);
    float loss = 0.0f; /* of the rank's own last batch */
    while (step++ < options->steps) {
        bool evaluates = step % options->eval_every == 0 || step == options->steps;
        DDP_TURN_BEGIN();
        bool wants_loss = DDP_TURN_MINE() && is_reported(options, step);
        float found = backward(model, text, options, &share, step, wants_loss);
        if (wants_loss)
            loss = found;
        DDP_STEP(0);
        updates += (size_t)DDP_TURN_UPDATES();
        struct adamw constants = options_adamw(options, updates);
        model_update(model, &constants);
        DDP_TURN_END();
        bool saves = options->checkpoint_every > 0 && step % options->checkpoint_every == 0;
        if (!evaluates && !saves)
            continue;

        if (evaluates)
            DDP_MEAN(&loss);
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
        size_t steps = options.steps - done;
        size_t sequences = options.batch * options.accumulate * (size_t)DDP_WORLD_SIZE();
        fprintf(stderr, "%zu batches in %.2f s, %.2f ms/batch, effective batch %zu sequences, %zu parameters\n", steps,
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
