/*
 * losses.c - what a step loses, and what saves it: each by the model, never by rules of thumb. Whether steps overlap is
 * none of them: trials have tried both in the run, and decide.
 */
#include "tools/predict/model.h"

#include "base/protocol.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST_GAIN 0.01 /* of a step */

struct found {
    struct loss *losses;
    size_t count, room;
    double least_us;
};

static int
compare_gains(const void *a, const void *b)
{
    const struct loss *left = a, *right = b;
    return left->gain_us > right->gain_us ? -1 : left->gain_us < right->gain_us;
}

static struct loss *
add_loss(struct found *found, double lost_us, double gain_us)
{
    if (!(gain_us >= found->least_us) || found->count == found->room)
        return NULL;
    struct loss *loss = &found->losses[found->count++];
    *loss = (struct loss){.lost_us = lost_us, .gain_us = gain_us};
    return loss;
}

static void
add_straggler(const struct model *model, struct found *found)
{
    const struct model_rank *rank = model->straggler;
    struct loss *loss = rank != NULL ? add_loss(found, rank->ahead_us, rank->ahead_us) : NULL;
    if (loss == NULL)
        return;
    snprintf(loss->what, sizeof(loss->what), "%s", model->waiting);
    snprintf(loss->advice, sizeof(loss->advice),
             "look at rank %d (%s): its host's load, its GPU's clock and temperature, its data loader, its share of "
             "the batch",
             rank->rank, rank->host);
}

/* Of ranks that are late in turns. */
static void
add_waiting(const struct model *model, struct found *found)
{
    struct loss *loss = model->straggler == NULL ? add_loss(found, model->waiting_us, model->waiting_us) : NULL;
    if (loss == NULL)
        return;
    loss->at_most = true;
    snprintf(loss->what, sizeof(loss->what), "%s", model->waiting);
    snprintf(loss->advice, sizeof(loss->advice), "%s",
             model->unbound ? "--bind core gives each rank cores of its own, which nothing does here"
                            : "let steps take equally long: batches of one size, cores that no other process uses");
}

/* What buckets planned from measured times leave exposed, with so many thousandths of the bytes. NAN: not known. */
static double
best_exposed(const struct model *model, unsigned bytes_kept)
{
    struct cost cost;
    double best_us;
    return model_cost(model, model->ranks, NULL, &cost) && model_exposed(model, &cost, bytes_kept, &best_us) ? best_us
                                                                                                             : NAN;
}

static void
add_buckets(const struct model *model, struct found *found)
{
    struct loss *loss = model->fixed && model->overlapped
                            ? add_loss(found, model->exposed_us, model->exposed_us - best_exposed(model, model->kept))
                            : NULL;
    if (loss == NULL)
        return;
    snprintf(loss->what, sizeof(loss->what), "buckets have the size that --bucket-mb gives");
    snprintf(loss->advice, sizeof(loss->advice), "leave --bucket-mb out: buckets are then planned from measured times");
}

/* Beyond what better buckets save. */
static void
add_network(const struct model *model, struct found *found)
{
    double best_us = model->fixed ? best_exposed(model, model->kept) : model->exposed_us;
    struct loss *loss =
        model->narrow
            ? NULL
            : add_loss(found, best_us, fmin(best_us, best_exposed(model, model->kept)) - best_exposed(model, 500));
    if (loss == NULL)
        return;
    snprintf(loss->what, sizeof(loss->what), "the network is too slow for the gradients");
    snprintf(loss->advice, sizeof(loss->advice),
             "--compress fp16 or bf16 sends half of the bytes, and rounds gradients");
}

static void
add_checks(const struct model *model, struct found *found)
{
    double every = model->verify ? 1.0 : (double)model->check_every;
    double lost_us = every > 0.0 ? model->checks_us / every : 0.0;
    unsigned rarer = model->check_every < DDPRUN_DEFAULT_CHECK_EVERY ? DDPRUN_DEFAULT_CHECK_EVERY : 1000;
    struct loss *loss = every > 0.0 ? add_loss(found, lost_us, lost_us * (1.0 - every / rarer)) : NULL;
    if (loss == NULL)
        return;
    snprintf(loss->what, sizeof(loss->what), "a comparison of all parameters takes %.3f ms, every %.0f step%s",
             model->checks_us / 1e3, every, every > 1.0 ? "s" : "");
    if (model->verify)
        snprintf(loss->advice, sizeof(loss->advice), "leave --verify out");
    else
        snprintf(loss->advice, sizeof(loss->advice), "--check-every %u", rarer);
}

size_t
model_losses(const struct model *model, struct loss *losses, size_t room)
{
    struct found found = {.losses = losses, .room = room};
    found.least_us = LEAST_GAIN * model->measured_step_us;
    if (model->ranks == 1) /* which loses nothing to others */
        return 0;
    add_straggler(model, &found);
    add_waiting(model, &found);
    add_buckets(model, &found);
    add_network(model, &found);
    add_checks(model, &found);
    if (found.count > 1)
        qsort(losses, found.count, sizeof(*losses), compare_gains);
    return found.count;
}
