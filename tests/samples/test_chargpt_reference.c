/*
 * test_chargpt_reference.c - the plain C reference of chargpt computes the gradients of its own loss: along the
 * gradient of each tensor the loss rises by the gradient's norm, as differences of the loss show. Gradients add up, and
 * the update is AdamW's.
 */
#include "chargpt/reference/gpt.h"
#include "common/random.h"

#include "tests/lib/test.h"

enum { SEQUENCES = 3, LENGTH = 7, VOCABULARY = 11 };

static struct gpt gpt;
static int inputs[SEQUENCES * LENGTH], targets[SEQUENCES * LENGTH];

/* Larger values than those of a training's begin, so that nothing is nearly linear. */
static void
setup(void)
{
    const struct shape shape = {.layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = VOCABULARY};
    struct random random = random_seeded(7);
    gpt_create(&gpt, &shape, SEQUENCES, 1);
    for (size_t i = 0; i < gpt.layout.count; ++i)
        gpt.values[i] += random_uniform(&random) - 0.5f;
    for (int i = 0; i < SEQUENCES * LENGTH; ++i) {
        inputs[i] = (int)random_below(&random, VOCABULARY);
        targets[i] = (int)random_below(&random, VOCABULARY);
    }
}

static void
teardown(void)
{
    gpt_destroy(&gpt);
}

static double
loss(void)
{
    return gpt_forward(&gpt, inputs, targets, SEQUENCES, LENGTH);
}

static void
add_gradients(float factor)
{
    loss();
    gpt_backward(&gpt, inputs, targets, SEQUENCES, LENGTH, factor);
}

/* The loss with one tensor moved by `distance` along its gradient. */
static double
loss_moved(const struct tensor *tensor, double norm, double distance)
{
    float kept[4 * 16 * 16 + VOCABULARY];
    ck_assert_uint_le(tensor->count, sizeof(kept) / sizeof(kept[0]));
    float *values = gpt.values + tensor->offset;
    const float *gradients = gpt.gradients + tensor->offset;
    for (size_t i = 0; i < tensor->count; ++i) {
        kept[i] = values[i];
        values[i] += (float)(distance * (double)gradients[i] / norm);
    }
    double result = loss();
    for (size_t i = 0; i < tensor->count; ++i)
        values[i] = kept[i];
    return result;
}

TEST_GROUP(all, .setup = setup, .teardown = teardown);

TEST(test_gradients)
{
    add_gradients(1.0f);
    for (int i = 0; i < gpt.layout.tensor_count; ++i) {
        const struct tensor *tensor = &gpt.layout.tensors[i];
        double squares = 0.0;
        for (size_t j = 0; j < tensor->count; ++j)
            squares += pow((double)gpt.gradients[tensor->offset + j], 2.0);
        const double norm = sqrt(squares), distance = 2e-3;
        ck_assert_msg(norm > 1e-3, "%s: a norm of %g shows nothing", tensor->name, norm);
        double slope = (loss_moved(tensor, norm, distance) - loss_moved(tensor, norm, -distance)) / (2.0 * distance);
        ck_assert_msg(fabs(slope - norm) < 0.01 * norm + 2e-4, "%s: slope %g, norm of the gradient %g", tensor->name,
                      slope, norm);
    }
}

TEST(test_gradients_add_up)
{
    add_gradients(1.0f);
    float *once = malloc(gpt.layout.count * sizeof(float));
    ck_assert_ptr_nonnull(once);
    for (size_t i = 0; i < gpt.layout.count; ++i)
        once[i] = gpt.gradients[i];
    gpt_zero_gradients(&gpt);
    add_gradients(0.25f);
    add_gradients(0.75f);
    for (size_t i = 0; i < gpt.layout.count; ++i)
        ck_assert_float_eq_tol(gpt.gradients[i], once[i], 1e-6f);
    free(once);
}

/* The second step by hand, for one value that decays and one that does not. */
TEST(test_update)
{
    const struct adamw constants = {.rate = 0.1f,
                                    .decay = 0.5f,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.99f,
                                    .epsilon = 1e-6f,
                                    .correction1 = 1.0f - 0.81f,
                                    .correction2 = 1.0f - 0.9801f,
                                    .norm_limit = 2.0f};
    const size_t places[] = {0, gpt.layout.count - 1};
    for (int i = 0; i < 2; ++i) {
        gpt.values[places[i]] = 1.0f;
        gpt.moments1[places[i]] = 0.2f;
        gpt.moments2[places[i]] = 0.3f;
        gpt.gradients[places[i]] = i == 0 ? 3.0f : 4.0f; /* of norm 5, to be clipped to 2 */
    }
    gpt_update(&gpt, &constants);
    for (int i = 0; i < 2; ++i) {
        double g = i == 0 ? 1.2 : 1.6, m = 0.9 * 0.2 + 0.1 * g, v = 0.99 * 0.3 + 0.01 * g * g;
        double decay = i == 0 ? 0.5 : 0.0, step = m / 0.19 / (sqrt(v / 0.0199) + 1e-6) + decay;
        ck_assert_double_eq_tol((double)gpt.values[places[i]], 1.0 - 0.1 * step, 1e-5);
    }
}
