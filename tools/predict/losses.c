/*
 * losses.c - what a step loses, and what saves it: each by the model, never by rules of thumb. Whether steps overlap is
 * none of them: trials have tried both in the run, and decide.
 */
#include "tools/predict/model.h"

#include <math.h>
#include <stdarg.h>

#define LEAST_GAIN  0.01      /* of a step */
#define LEAST_BYTES (1 << 20) /* of gradients, for --compress: half of fewer bytes saves little */

struct found {
    struct loss *losses;
    size_t count, room;
    double least_us;
};

COMPARES(greatest_first, struct loss, COMPARE(b, a, gain_us, 0))

/* Unless the gain is too small. `advice` and what follows: as of printf(). */
static void __attribute__((format(printf, 5, 6)))
add_loss(struct found *found, double gain_us, bool unmeasured, const char *what, const char *advice, ...)
{
    va_list arguments;
    if (!(gain_us >= found->least_us) || found->count == found->room)
        return;
    struct loss *loss = &found->losses[found->count++];
    *loss = (struct loss){.gain_us = gain_us, .unmeasured = unmeasured};
    snprintf(loss->what, sizeof(loss->what), "%s", what);
    va_start(arguments, advice);
    vsnprintf(loss->advice, sizeof(loss->advice), advice, arguments);
    va_end(arguments);
}

/* For one rank, or for ranks that are late in turns. */
static void
add_waiting(const struct model *model, struct found *found)
{
    if (model->straggler >= 0)
        add_loss(found, model->straggler_us, false, model->waiting,
                 "look at rank %d (%s): the load of its host, its data loader, its share of the batch, its GPU's clock",
                 model->straggler, model->straggler_host);
    else
        add_loss(found, model->waiting_us, true, model->waiting, "%s",
                 model->unbound ? "--bind core (each rank gets its own cores)"
                                : "give all ranks batches of one size, and cores without other processes");
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

/* Whether the bytes of all gradients, and not the latency of an all-reduce, are most of what one of them takes. */
static bool
bytes_prevail(const struct model *model)
{
    struct cost cost;
    return model_cost(model, model->ranks, NULL, &cost) && cost_fs(&cost, model->bytes) / 2 >= cost_fs(&cost, 0);
}

static void
add_buckets(const struct model *model, struct found *found)
{
    if (model->fixed)
        add_loss(found, model->exposed_us, true, "--bucket-mb sets the size of buckets",
                 "leave --bucket-mb out: buckets are then planned from measured times");
    if (!model->narrow && model->bytes >= LEAST_BYTES && bytes_prevail(model))
        add_loss(found, fmin(model->exposed_us, best_exposed(model, model->kept)) - best_exposed(model, 500), false,
                 "the network is too slow for the gradients",
                 "--compress fp16 or bf16 sends half of the bytes, and rounds gradients");
}

size_t
model_losses(const struct model *model, struct loss *losses, size_t room)
{
    struct found found = {.losses = losses, .room = room};
    found.least_us = LEAST_GAIN * model->measured_step_us;
    if (model->ranks == 1) /* which loses nothing to others */
        return 0;
    add_waiting(model, &found);
    add_buckets(model, &found);
    SORT(losses, found.count, greatest_first);
    return found.count;
}
