/*
 * Trains the network of model.h on handwritten digits. This program exists twice: main_plain.c is written for one GPU,
 * as people write them; main.c has the few lines more that let `ddprun` run it on several. docs/samples.md shows
 * the difference, taken from the two files by docs/refresh.sh.
 */
#include "data.h"
#include "model.h"
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Goes through the training images in a new random order each epoch; images that fill no whole batch wait for the next.
 */
struct epoch {
    size_t *order;
    size_t next;
};

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *
allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        fprintf(stderr, "digits: out of host memory\n");
        exit(1);
    }
    return memory;
}

/* The next batch of the epoch, or the first of a new one. */
static const size_t *
next_batch(struct epoch *epoch, size_t image_count, size_t batch, struct random *random)
{
    if (epoch->next + batch > image_count) {
        data_shuffle(epoch->order, image_count, random);
        epoch->next = 0;
    }
    const size_t *images = epoch->order + epoch->next;
    epoch->next += batch;
    return images;
}

static double
test_accuracy(struct model *model, const struct data *test)
{
    model_input(model, test->pixels, test->labels, test->count);
    model_forward(model, test->count);
    return (double)model_correct(model, test->labels, test->count) / (double)test->count;
}

static void
train(struct model *model, const struct data *images, const struct options *options)
{
    struct random random = random_seeded(options->seed + 1); /* model_create() uses the seed itself */
    struct epoch epoch = {.order = allocate(images->count, sizeof(size_t)), .next = images->count};
    for (size_t i = 0; i < images->count; ++i)
        epoch.order[i] = i;

    size_t first = 0, count = options->batch;
    float *pixels = allocate(count * IMAGE_PIXELS, sizeof(float));
    int *labels = allocate(count, sizeof(int));

    for (size_t step = 1; step <= options->steps; ++step) {
        const size_t *batch = next_batch(&epoch, images->count, options->batch, &random);
        data_gather(images, batch + first, count, pixels, labels);
        model_input(model, pixels, labels, count);
        model_forward(model, count);
        model_backward(model, count);
        model_update(model, options->rate);

        if (step % options->log_every == 0 || step == options->steps) {
            float loss = model_loss(model, count);
            if (!isfinite(loss)) {
                fprintf(stderr, "digits: step %zu: the loss is not finite; try a smaller --lr\n", step);
                exit(1);
            }
            if (!options->quiet) {
                printf("step %zu loss %.4f\n", step, (double)loss);
                fflush(stdout);
            }
        }
    }
    free(epoch.order);
    free(pixels);
    free(labels);
}

int
main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);

    struct data images, test;
    data_load(options.data, &images, &test);
    if (options.batch > images.count) {
        fprintf(stderr, "digits: --batch %zu: there are only %zu training images\n", options.batch, images.count);
        return 2;
    }

    struct model model;
    model_create(&model, options.batch > test.count ? options.batch : test.count, options.seed);

    double begin_s = now_s();
    train(&model, &images, &options);
    double seconds = now_s() - begin_s; /* the last step printed its loss, so the device is done */

    double accuracy = test_accuracy(&model, &test);
    if (!options.quiet) {
        printf("test accuracy %.4f\n", accuracy);
        fprintf(stderr, "%zu steps in %.2f s, %.1f steps/s, effective batch %zu\n", options.steps, seconds,
                (double)options.steps / seconds, options.batch);
    }
    if (options.save != NULL)
        model_save(&model, options.save, 0);

    model_destroy(&model);
    data_free(&images);
    data_free(&test);
    return 0;
}
