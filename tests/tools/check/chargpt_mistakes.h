/*
 * chargpt_mistakes.h - mistakes that users make, for samples/chargpt/main.c as it is: included before its first line
 * (-include), it puts its own macros in the place of ddprun.h's and of some of the trainer's functions. The variable
 * CHARGPT_MISTAKE says which mistake is made; without it the trainer is right.
 *
 * annotations   forgotten_gradient, forgotten_both, half_gradient, half_both: of one tensor, FORGOTTEN;
 *               forgotten_parameter: the same, and each rank draws other weights
 * DDP_STEP      step_missing, step_skipped (every 7th), step_behind_optimizer
 * items         no_share, unequal_shares, overlapping_shares, shuffle_seed_by_rank
 * loss, update  divisor_whole_batch, rate_by_rank
 */
#ifndef TESTS_TOOLS_CHECK_CHARGPT_MISTAKES_H
#define TESTS_TOOLS_CHECK_CHARGPT_MISTAKES_H

#include "chargpt/model.h"
#include "chargpt/text.h"

#include <ddprun.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FORGOTTEN = 3 }; /* in the order of annotations, from 0 */

static inline bool
mistake(const char *name)
{
    const char *made = getenv("CHARGPT_MISTAKE");
    return made != NULL && strcmp(made, name) == 0;
}

/* How many elements of the tensor that is annotated now are; 0: it is left out. Called once for each annotation. */
static inline size_t
mistaken_count(size_t count, bool is_gradient)
{
    static int annotated[2];
    if (annotated[is_gradient]++ != FORGOTTEN)
        return count;
    if (mistake("forgotten_both") || mistake(is_gradient ? "forgotten_gradient" : "forgotten_parameter"))
        return 0;
    return mistake("half_both") || (is_gradient && mistake("half_gradient")) ? count / 2 : count;
}

static inline void
mistaken_share(size_t total, size_t *first, size_t *count)
{
    size_t rank = (size_t)DDP_RANK(), ranks = (size_t)DDP_WORLD_SIZE(), parts = ranks * (ranks + 1) / 2;
    if (mistake("unequal_shares")) {
        *first = total * (rank * (rank + 1) / 2) / parts;
        *count = total * ((rank + 1) * (rank + 2) / 2) / parts - *first;
    } else if (mistake("overlapping_shares")) {
        *first = total / ranks * rank;
        *count = total - *first;
    } else {
        *first = 0;
        *count = total;
    }
}

static inline void
mistaken_update(struct model *model, const struct adamw *constants)
{
    struct adamw own = *constants;
    if (mistake("rate_by_rank"))
        own.rate *= (float)(1 + DDP_RANK());
    model_update(model, &own);
    if (mistake("step_behind_optimizer"))
        DDP_STEP(0);
}

#undef DDP_PARAMETER
#undef DDP_GRADIENT
#undef DDP_STEP
#undef DDP_SHARD

#define DDP_PARAMETER(ptr, count, type)                                       \
    do {                                                                      \
        size_t mistaken_ = mistaken_count(count, false);                      \
        if (mistaken_ > 0)                                                    \
            DDP_CALL_(parameter, ptr, (void *)(ptr), mistaken_, (int)(type)); \
    } while (0)

#define DDP_GRADIENT(ptr, count, type)                                       \
    do {                                                                     \
        size_t mistaken_ = mistaken_count(count, true);                      \
        if (mistaken_ > 0)                                                   \
            DDP_CALL_(gradient, ptr, (void *)(ptr), mistaken_, (int)(type)); \
    } while (0)

#define DDP_STEP(stream)                                                                 \
    do {                                                                                 \
        static int steps_;                                                               \
        bool left_out_ = mistake("step_skipped") && ++steps_ % 7 == 0;                   \
        if (!left_out_ && !mistake("step_missing") && !mistake("step_behind_optimizer")) \
            DDP_CALL_(step, stream, ddp_stream((uintptr_t)(stream)));                    \
    } while (0)

#define DDP_SHARD(total, first, count)                                                         \
    do {                                                                                       \
        if (mistake("no_share") || mistake("unequal_shares") || mistake("overlapping_shares")) \
            mistaken_share(total, first, count);                                               \
        else {                                                                                 \
            ddp_shard_alone((size_t)(total), (first), (count));                                \
            DDP_CALL_(shard, total, (size_t)(total), (first), (count));                        \
        }                                                                                      \
    } while (0)

/* Within its own expansion a name means the function. */
#define model_create(model, shape, sequences, seed) \
    model_create(model, shape, sequences, (seed) + (mistake("forgotten_parameter") ? (uint64_t)DDP_RANK() : 0))
#define text_batch(text, seed, ...) \
    text_batch(text, (seed) + (mistake("shuffle_seed_by_rank") ? (uint64_t)DDP_RANK() : 0), __VA_ARGS__)
#define model_backward(model, factor) \
    model_backward(model, (factor) / (mistake("divisor_whole_batch") ? (float)DDP_WORLD_SIZE() : 1.0f))
#define model_update(model, constants) mistaken_update(model, constants)

#endif
