/*
 * chargpt_reference - trains as the sample chargpt does, with the same arithmetic in plain C, and prints what chargpt
 * prints: do both train the same? Takes the options of chargpt.
 */
#include "chargpt/options.h"
#include "chargpt/text.h"
#include "gpt.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

static void
train(struct options o, const struct text *text)
{
    o.shape.vocabulary = text->vocabulary;
    const size_t context = (size_t)o.shape.context, rows = o.batch * context;
    int *inputs = calloc(rows, sizeof(int)), *targets = calloc(rows, sizeof(int));
    if (inputs == NULL || targets == NULL) {
        fprintf(stderr, "chargpt_reference: there is not enough memory\n");
        exit(1);
    }
    static struct gpt gpt;
    gpt_create(&gpt, &o.shape, o.batch, o.seed);

    for (size_t step = 1; step <= o.steps; ++step) {
        double loss = 0.0, validation = 0.0;
        gpt_zero_gradients(&gpt);
        for (size_t i = 0; i < o.accumulate; ++i) {
            text_batch(text, o.seed, (step - 1) * o.accumulate + i, 0, o.batch, context, inputs, targets);
            loss += gpt_forward(&gpt, inputs, targets, o.batch, context) / (double)o.accumulate;
            gpt_backward(&gpt, inputs, targets, o.batch, context, 1.0f / (float)o.accumulate);
        }
        struct adamw constants = options_adamw(&o, step);
        gpt_update(&gpt, &constants);
        if (step % o.eval_every != 0 && step != o.steps)
            continue;
        for (size_t i = 0; i < o.eval_batches; ++i) {
            text_validation(text, o.eval_batches * o.batch, i * o.batch, o.batch, context, inputs, targets);
            validation += gpt_forward(&gpt, inputs, targets, o.batch, context) / (double)o.eval_batches;
        }
        printf("step %zu loss %.5f val %.5f\n", step, loss, validation);
    }
    gpt_destroy(&gpt);
    free(inputs);
    free(targets);
}

int
main(int argc, char **argv)
{
    if (__builtin_cpu_supports("avx2") == 0) {
        fprintf(stderr, "chargpt_reference: this machine has no AVX2, which this program is compiled for\n");
        return 1;
    }
    struct options options = options_parse(argc, argv);
    struct text text;
    text_load(options.data, (size_t)options.shape.context, &text);
    openblas_set_num_threads(1);
    train(options, &text);
    text_free(&text);
    return 0;
}
