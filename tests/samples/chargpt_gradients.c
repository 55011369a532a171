/*
 * chargpt_gradients.c - the sample's kernels and cuBLAS calls compute what the plain C reference computes: loss and
 * gradients of each tensor, and an update, on random parameters and inputs, for several shapes, lengths below the
 * context, and added up over two backward passes.
 */
#include "chargpt/cuda_check.h"
#include "chargpt/model.h"
#include "chargpt/reference/gpt.h"
#include "common/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct trial {
    struct shape shape;
    int sequences, length;
};

static int
differs(const struct layout *layout, const float *ours, const float *theirs, const char *what, double limit)
{
    int bad = 0;
    for (int i = 0; i < layout->tensor_count; ++i) {
        const struct tensor *tensor = &layout->tensors[i];
        double difference = 0.0, largest = 0.0;
        for (size_t j = tensor->offset; j < tensor->offset + tensor->count; ++j) {
            difference = fmax(difference, fabs((double)ours[j] - (double)theirs[j]));
            largest = fmax(largest, fabs((double)theirs[j]));
            if (!isfinite(ours[j]))
                difference = INFINITY;
        }
        if (!(largest > 0.0) || !(difference <= limit * largest)) {
            printf("%s of %s: differ by %g, the largest is %g\n", what, tensor->name, difference, largest);
            bad = 1;
        }
    }
    return bad;
}

static int
try(const struct trial *trial, struct random *random)
{
    static struct model model;
    static struct gpt gpt;
    const int rows = trial->sequences * trial->length;
    model_create(&model, &trial->shape, (size_t)trial->sequences, 1);
    gpt_create(&gpt, &trial->shape, (size_t)trial->sequences, 1);
    const size_t count = model.layout.count, bytes = count * sizeof(float);
    float *copy = malloc(bytes);
    int *inputs = malloc(sizeof(int) * (size_t)rows), *targets = malloc(sizeof(int) * (size_t)rows);
    if (copy == NULL || inputs == NULL || targets == NULL)
        return 1;
    for (size_t i = 0; i < count; ++i)
        gpt.values[i] += 0.4f * (random_uniform(random) - 0.5f);
    CHECK_CUDA(cudaMemcpy(model.values, gpt.values, bytes, cudaMemcpyHostToDevice));

    int bad = 0;
    model_zero_gradients(&model);
    for (int pass = 0; pass < 2; ++pass) {
        for (int r = 0; r < rows; ++r) {
            inputs[r] = (int)random_below(random, (size_t)trial->shape.vocabulary);
            targets[r] = (int)random_below(random, (size_t)trial->shape.vocabulary);
        }
        const float factor = pass == 0 ? 0.75f : 0.25f;
        double loss = gpt_forward(&gpt, inputs, targets, (size_t)trial->sequences, (size_t)trial->length);
        gpt_backward(&gpt, inputs, targets, (size_t)trial->sequences, (size_t)trial->length, factor);
        model_input(&model, inputs, targets, (size_t)trial->sequences, (size_t)trial->length);
        model_forward(&model);
        model_backward(&model, factor);
        double ours = (double)model_last_loss(&model);
        if (!(fabs(ours - loss) < 1e-5 * loss)) {
            printf("loss %g instead of %g\n", ours, loss);
            bad = 1;
        }
    }
    CHECK_CUDA(cudaMemcpy(copy, model.gradients, bytes, cudaMemcpyDeviceToHost));
    bad |= differs(&model.layout, copy, gpt.gradients, "gradients", 1e-4);

    /* From the same gradients, so that only the update itself is compared. */
    const struct adamw constants = {.rate = 0.01f,
                                    .decay = 0.1f,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.99f,
                                    .epsilon = 1e-6f,
                                    .correction1 = 0.1f,
                                    .correction2 = 0.01f,
                                    .norm_limit = 0.05f};
    CHECK_CUDA(cudaMemcpy(model.gradients, gpt.gradients, bytes, cudaMemcpyHostToDevice));
    model_update(&model, &constants);
    gpt_update(&gpt, &constants);
    CHECK_CUDA(cudaMemcpy(copy, model.values, bytes, cudaMemcpyDeviceToHost));
    bad |= differs(&model.layout, copy, gpt.values, "values", 1e-5);

    model_destroy(&model);
    gpt_destroy(&gpt);
    free(copy);
    free(inputs);
    free(targets);
    return bad;
}

int
main(void)
{
    static const struct trial trials[] = {
        {{.layers = 1, .width = 8, .heads = 1, .context = 4, .vocabulary = 3}, 1, 4},
        {{.layers = 2, .width = 48, .heads = 3, .context = 16, .vocabulary = 65}, 5, 16},
        {{.layers = 3, .width = 20, .heads = 4, .context = 33, .vocabulary = 129}, 4, 29},
        {{.layers = 1, .width = 256, .heads = 2, .context = 70, .vocabulary = 7}, 2, 70},
    };
    struct random random = random_seeded(3);
    int bad = 0;
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); ++i) {
        if (try(&trials[i], &random)) {
            printf("^ in trial %zu\n", i);
            bad = 1;
        }
    }
    return bad;
}
