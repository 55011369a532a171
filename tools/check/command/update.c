/* update.c - see pattern.h. */
#include "tools/check/command/pattern.h"

#include <stdio.h>

/* ---- DDP_STEP_PARAMETERS ---- */

bool
update_say_averaged(struct judgement *judgement)
{
    return verdict_conclude(
        judgement,
        "the mean of updated parameters is one rank's update if each layer's input gradient is computed before its "
        "weights change, if the update is linear in the gradient (SGD, momentum; not Adam, not clipping), and if the "
        "loss is divided by the rank's share: compute input gradients before the update, or give gradients buffers of "
        "their own and call DDP_STEP instead of DDP_STEP_PARAMETERS",
        ", although DDP_STEP_PARAMETERS averages it");
}

/* ---- gradients that are not averaged ---- */

/* Of a group that is never stepped: a gradient of the first parameter's size. Each parameter that differs then has one.
 */
static const struct check_tensor *
find_unstepped(const struct judgement *judgement)
{
    const struct check_tensor *found = NULL;
    const struct check_rows *rows = &judgement->evidence->ranked[0];
    for (size_t i = 0; i < judgement->verdict->item_count; ++i) {
        const struct check_item *item = &judgement->verdict->items[i];
        if (item->tensor.role != CHECK_PARAMETER || !item->differs || item->moment != judgement->pattern.moment)
            continue;
        const struct check_row *own = NULL;
        do
            own = check_rows_next(rows, CHECK_ROW_UNSTEPPED, own);
        while (own != NULL && own->tensor.count != item->tensor.count);
        if (own == NULL)
            return NULL;
        found = item == judgement->first ? &own->tensor : found;
    }
    return found;
}

/* Where the parameter's first element differs another gradient ends, which has fewer elements. */
static const struct check_tensor *
find_shorter(const struct check_evidence *evidence, const struct check_verdict *verdict, const struct check_item *first)
{
    const struct check_rows *rows = &evidence->ranked[first->first_rank];
    const struct check_row *own = pattern_row(rows, &first->tensor, first->first_step);
    if (own == NULL || !own->of_change || own->norms.same == 0 || !pattern_has_no_gradient(evidence, verdict, first))
        return NULL;
    const struct check_row *row = NULL;
    do
        row = check_rows_next_of(rows, CHECK_GRADIENT, row);
    while (row != NULL && (row->tensor.count != own->norms.same || row->tensor.count >= first->tensor.count));
    return row != NULL ? &row->tensor : NULL;
}

bool
update_say_shorter(struct judgement *judgement)
{
    char name[400];
    const struct check_tensor *shorter = find_shorter(judgement->evidence, judgement->verdict, judgement->first);
    if (shorter == NULL)
        return false;
    verdict_decide(judgement, ": from element %llu on, where %s, ends", (unsigned long long)shorter->count,
                   sentence_name_tensor(shorter, name));
    return verdict_advise(judgement, "annotate the whole gradient: DDP_GRADIENT with the parameter's %llu elements",
                          (unsigned long long)judgement->first->tensor.count);
}

bool
update_say_unstepped(struct judgement *judgement)
{
    char name[400];
    const struct check_tensor *unstepped = find_unstepped(judgement);
    if (unstepped == NULL)
        return false;
    verdict_decide(judgement, ": group %u is never stepped, and has %s", unstepped->group,
                   sentence_name_tensor(unstepped, name));
    return verdict_advise(judgement, "call DDP_STEP_GROUP(%u, stream) between backward and the update of this group",
                          unstepped->group);
}

/* ---- gradients that change between DDP_STEP and the update ---- */

/* The step whose update makes the first difference, or, if that is the first, the next: whose calls are seen. */
static uint32_t
seen_step(const struct check_item *first)
{
    return items_step(first) < 2 ? 2 : items_step(first);
}

/* What DDP_STEP has left of the group's gradients, relative to one rank's; 0: not known. */
static double
left_by_step(const struct check_rows *rows, const struct check_row *used)
{
    const struct check_row *row = NULL;
    do
        row = check_rows_next(rows, CHECK_ROW_FORCED, row);
    while (row != NULL && (row->step != used->step || row->tensor.group != used->tensor.group));
    return row != NULL ? row->norms.product : 0;
}

struct used {
    const struct check_row *row; /* NULL: none */
    double change;               /* relative */
    double left;                 /* by DDP_STEP, relative to one rank's */
    bool any;                    /* some gradients were seen */
};

/* Of the step, or if it is the first, of the next: the gradient that an update gets most otherwise than on one rank. */
static struct used
find_used(const struct check_evidence *evidence, const struct check_item *first)
{
    uint32_t step = seen_step(first);
    const struct check_rows *rows = &evidence->ranked[first->first_rank];
    struct used worst = {.change = 1e-3};
    EACH_ROW(row, rows, CHECK_ROW_USED) {
        double left = row->step == step ? left_by_step(rows, row) : 0;
        if (!(left > 0) || row->norms.unbounded > 0)
            continue;
        worst.any = true;
        double change = row->norms.reference > 0 ? norms_apart(&row->norms, left) / (left * row->norms.reference) : 0;
        if (change > worst.change)
            worst = (struct used){row, change, left, true};
    }
    return worst;
}

bool
update_say_used(struct judgement *judgement)
{
    char name[400], how[64] = "not as on one rank";
    double factor;
    struct used found = find_used(judgement->evidence, judgement->first);
    const struct check_row *used = found.row;
    if (used == NULL)
        return false;
    if (factor_of_row(used, &factor)) {
        factor /= found.left;
        snprintf(how, sizeof(how), "to %.4g times one rank's", factor);
    }
    verdict_decide(judgement, ": %s, changes between DDP_STEP and `%s`, %s%s",
                   sentence_name_tensor(&used->tensor, name), used->text, how,
                   factor > 0 ? factor_meaning(judgement->evidence, factor) : "");
    judgement->verdict->factor = factor;
    return verdict_advise(
        judgement, "%s",
        fabs(factor * judgement->evidence->ranks - 1) < 0.01
            ? "DDP_STEP leaves the mean over the ranks: do not divide it by their number again"
            : "kernels that write gradients between DDP_STEP and the update must do the same on all ranks as on one: "
              "look for a division, for a norm of this rank's own gradients, for a backward pass after DDP_STEP");
}

/* ---- several updates for one DDP_STEP ---- */

/* Between the DDP_STEP whose update makes the first difference, or that comes before it, and the next one. */
bool
update_say_several(struct judgement *judgement)
{
    const struct check_item *first = judgement->first;
    const struct check_rows *rows = &judgement->evidence->ranked[first->first_rank];
    const struct check_row *several = NULL, *row = NULL;
    uint32_t step = first->first_step - 1; /* of either */
    size_t as_often = 0;
    do
        several = check_rows_next(rows, CHECK_ROW_UPDATES, several);
    while (several != NULL && several->step != step);
    if (several == NULL)
        return false;
    while ((row = check_rows_next(rows, CHECK_ROW_UPDATES, row)) != NULL)
        as_often += row->value >= several->value;
    return verdict_conclude(
        judgement,
        2 * as_often > judgement->evidence->steps
            ? "each update needs its own DDP_STEP, between its backward pass and the update"
            : "DDP_STEP is left out before one of these updates: call it in each step, between backward and the update",
        ": between DDP_STEP %u and the next DDP_STEP `%s` updated the same parameter %llu times", step, several->text,
        (unsigned long long)several->value);
}

/* ---- the factor of the update ---- */

/* Where it differs the step changes nothing, and does on one rank; or the other way round. */
bool
update_say_still(struct judgement *judgement)
{
    char ranks[48];
    size_t still = 0, moves = 0;
    const struct check_item *first = judgement->first;
    for (int r = 0; r < judgement->evidence->ranks; ++r) {
        const struct check_row *row = pattern_row(&judgement->evidence->ranked[r], &first->tensor, first->first_step);
        if (row == NULL || row->same_bits || row->norms.difference <= 1e-3 * row->norms.reference)
            continue;
        bool rests = row->norms.own <= 0 && row->norms.reference > 0,
             starts = row->norms.own > 0 && row->norms.reference <= 0;
        if (!row->of_change || !(rests || starts))
            return false;
        still += rests;
        moves += starts;
    }
    if ((still > 0) == (moves > 0))
        return false;
    sentence_name_ranks(judgement->evidence, first, ranks);
    verdict_decide(judgement, ": the step %s it there, and %s on one rank; the gradients are equal",
                   still > 0 ? "does not change" : "changes", still > 0 ? "does" : "does not");
    return verdict_advise(judgement,
                          "the update is left out %s: decide on all ranks alike whether a step updates: by averaged "
                          "values, not by a rank's own",
                          still > 0 ? ranks : "on the other ranks");
}

/* The first scalar that is another in this update, or in the first one that was looked at, in a text; empty: none. */
static const char *
find_scalar(const struct judgement *judgement, char text[400])
{
    const struct check_item *first = judgement->first;
    const struct check_rows *rows = &judgement->evidence->ranked[first->first_rank];
    uint32_t step = seen_step(first);
    char ranks[48];
    text[0] = '\0';
    const struct check_row *row = NULL;
    do
        row = check_rows_next(rows, CHECK_ROW_SCALAR, row);
    while (row != NULL && row->step != step);
    if (row != NULL)
        snprintf(text, 400, ": argument %llu of `%.200s` is %.6g %s, and %.6g on one rank",
                 (unsigned long long)row->value + 1, row->text, row->norms.own,
                 sentence_name_ranks(judgement->evidence, first, ranks), row->norms.reference);
    return text;
}

bool
update_say_scalar(struct judgement *judgement)
{
    char text[400];
    if (find_scalar(judgement, text)[0] == '\0')
        return false;
    return verdict_conclude(
        judgement,
        judgement->first->rank_count == judgement->evidence->ranks
            ? "a rate, a factor or a divisor of the update depends on the number of ranks, or on the share: use the "
              "value of one rank, because the ranks' shares together are the batch of one rank"
            : "a rate, a factor or a divisor of the update differs between ranks: compute it from the step and from "
              "averaged values, not from a rank's own",
        ", and the gradients are equal%s", text);
}

bool
update_say_factor(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct check_item *first = judgement->first;
    char whose[80], scalar[400];
    struct factor factor;
    bool used = find_used(evidence, first).any; /* and none is another */
    if (!factor_of_update(evidence, first, &factor) || factor.value < 1e-3 || factor.value > 1e3 ||
        (first->tensor.count == 1 && pattern_has_no_gradient(evidence, judgement->verdict, first)))
        return false;
    bool all = first->rank_count == evidence->ranks && !factor.mixed, one = factor.apart < factor.moved;
    bool is_n = all && fabs(factor.value - evidence->ranks) < 0.01 * evidence->ranks,
         is_reciprocal = all && fabs(factor.value * evidence->ranks - 1) < 0.01;
    snprintf(whose, sizeof(whose), "%zu of %zu parameters", factor.apart, factor.moved);
    verdict_decide(judgement, ", and the gradients are equal: the change of %s is %.4g times one rank's%s%s%s",
                   one ? whose : "every parameter", factor.value, factor_meaning(evidence, factor.value),
                   factor.mixed ? "; on other ranks another factor" : "", find_scalar(judgement, scalar));
    judgement->verdict->factor = factor.value;
    if (pattern_is_few(factor.apart, factor.moved))
        judgement->verdict->cause = CAUSE_TENSOR;
    return verdict_advise(
        judgement, "%s",
        used && (is_n || is_reciprocal)
            ? "the update reads the gradients of one rank, but its learning rate is another: the rate must not depend "
              "on the number of ranks, because their shares together are the batch of one rank"
        : is_n ? "the learning rate, or gradients after DDP_STEP, are multiplied by the number of ranks: leave that "
                 "out, because the ranks' shares together are the batch of one rank"
        : is_reciprocal ? "gradients after DDP_STEP, or the learning rate, are divided by the number of ranks: leave "
                          "that out, because DDP_STEP leaves the mean"
        : all ? "look for a factor that depends on the number of ranks or on the share, in the learning rate, in a "
                "norm that is computed before DDP_STEP, or in kernels that change gradients after it"
              : "the learning rate, or a factor of the gradients such as a norm that is computed before DDP_STEP, "
                "differs between ranks: compute it from the step and from averaged gradients, not from a rank's own; "
                "if one rank alone has loaded a step counter or moments, annotate them with DDP_STATE");
}

bool
update_say_states(struct judgement *judgement)
{
    double factor;
    uint32_t role = judgement->first->tensor.role;
    bool is_state = role == CHECK_MEMORY || role == CHECK_STATE;
    if (!is_state || !factor_of_states(judgement->evidence, judgement->verdict, judgement->pattern.moment, &factor))
        return false;
    verdict_decide(judgement,
                   ": the optimizer's moments fit gradients that are %.4g times one rank's%s, and at DDP_STEP the "
                   "gradients are equal",
                   factor, factor_meaning(judgement->evidence, factor));
    judgement->verdict->factor = factor;
    return verdict_advise(
        judgement,
        "DDP_STEP leaves the mean over the ranks: look for a kernel that %s gradients after it, before the optimizer",
        factor < 1 ? "divides" : "multiplies");
}

/* ---- unannotated memory ---- */

bool
update_say_memory(struct judgement *judgement)
{
    const struct check_item *item = judgement->first = judgement->pattern.memory;
    verdict_decide(judgement, "%s", "");
    return verdict_advise(judgement,
                          item->tensor.group == 1
                              ? "`%s` updates it as it updates annotated parameters: annotate all of it with "
                                "DDP_PARAMETER, and its gradient with DDP_GRADIENT"
                              : "`%s` updates it beside annotated parameters: it is optimizer state that differs "
                                "between ranks, because each rank loads, initialises or computes it by itself: "
                                "annotate it with DDP_STATE, and compute it after DDP_STEP",
                          item->tensor.text);
}

/* ---- what else it may be ---- */

/* Optimizer state without annotation that differs on the same ranks, as soon as it is looked at. */
static const struct check_item *
find_state(const struct check_verdict *verdict, const struct check_item *first)
{
    uint32_t by = first->first_step > 3 ? first->first_step : 3; /* from then on it is compared */
    for (const struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        if (item->tensor.role == CHECK_MEMORY && item->differs && item->first_step <= by &&
            item->rank_count == first->rank_count && item->first_rank == first->first_rank)
            return item;
    }
    return NULL;
}

bool
update_say_copied(struct judgement *judgement)
{
    int rank;
    char place[DATA_PLACE_BYTES];
    const struct check_row *row = carried_find_other(judgement->evidence, items_step(judgement->first), &rank);
    if (row == NULL)
        return false;
    return verdict_conclude(
        judgement,
        "state, and memory that is only read, such as a teacher, a frozen layer or a second copy of weights, must "
        "begin alike on all ranks: use the same seed, or annotate it with DDP_PARAMETER or DDP_STATE",
        ": %s step %u rank %d copies other values than one rank to memory that is not annotated, at %s",
        row->step > 1 ? "in" : "up to", row->step, rank, data_name_site(judgement->evidence, row->copy.site, place));
}

bool
update_say_one(struct judgement *judgement)
{
    uint32_t role = judgement->first->tensor.role;
    size_t others = judgement->pattern.all[role] - judgement->pattern.differing[role];
    bool reads =
        role == CHECK_PARAMETER && !pattern_has_no_gradient(judgement->evidence, judgement->verdict, judgement->first);
    int rank;
    if (reads && (judgement_front(judgement, true) != NULL ||
                  carried_find_other(judgement->evidence, items_step(judgement->first), &rank) != NULL))
        return false;
    return verdict_conclude(
        judgement,
        reads ? "after DDP_STEP it changes in another way on each rank: by random numbers, values that the host "
                "copies, rows of the rank's own share only, a moment or a norm that is computed before DDP_STEP from "
                "this rank's gradients, a rate or a decision on the host"
        : role == CHECK_STATE ? "its update reads memory or arguments that differ between ranks, or DDP_STATE is "
                                "called before it is initialised or loaded"
                              : "its gradient is not averaged, or not all of it: annotate it with DDP_GRADIENT and its "
                                "full count, and write it before DDP_STEP",
        "%s; the other %zu %s%s then", reads ? ", and its gradient is equal" : "", others,
        role == CHECK_MEMORY ? "range" : check_role_name(role), others == 1 ? " is equal" : "s are equal");
}

/* ---- statistics that forward writes ---- */

/* Before the first update parameters differ that have no gradient, and on one rank each step changes them. */
bool
update_say_running(struct judgement *judgement)
{
    const struct check_verdict *verdict = judgement->verdict;
    for (const struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        if (item->differs && item->moment == judgement->pattern.moment &&
            (item->tensor.role != CHECK_PARAMETER || !item->moved ||
             !pattern_has_no_gradient(judgement->evidence, verdict, item)))
            return false;
    }
    return verdict_conclude(judgement,
                            "running statistics, which forward writes? Annotate them with DDP_BUFFER, not "
                            "DDP_PARAMETER; a parameter that is trained needs its DDP_GRADIENT",
                            ": it has changed before the first DDP_STEP, and has no gradient");
}

bool
update_say_before_step(struct judgement *judgement)
{
    bool is_state = judgement->first->tensor.role == CHECK_STATE;
    return verdict_conclude(judgement,
                            is_state ? "DDP_STATE is for memory that is alike on all ranks: compute it after DDP_STEP, "
                                       "or leave DDP_STATE out if it belongs to this rank's records alone"
                                     : "call DDP_STEP between backward and the optimizer; it comes after the optimizer",
                            ": %s before the first DDP_STEP, and not as on one rank",
                            is_state ? "it has changed" : "the parameters have changed");
}

bool
update_say_state(struct judgement *judgement)
{
    char name[400];
    bool same = find_used(judgement->evidence, judgement->first).any; /* and none is another */
    const struct check_item *state = same ? find_state(judgement->verdict, judgement->first) : NULL;
    if (state == NULL)
        return false;
    verdict_decide(
        judgement,
        ", and the gradients of the step are equal at DDP_STEP and where the update reads them; %s, differs, too",
        sentence_name_item(judgement->verdict, state, name));
    return verdict_advise(judgement,
                          "the optimizer state that `%s` keeps differs between ranks: annotate it with DDP_STATE after "
                          "initialisation and loading, and compute it after DDP_STEP",
                          state->tensor.text);
}

bool
update_say_own_state(struct judgement *judgement)
{
    const struct check_row *front = judgement_front(judgement, true);
    if (front == NULL)
        return false;
    verdict_decide(judgement,
                   ", and the gradients of the step are equal; before DDP_STEP `%.96s` computes from a rank's own "
                   "gradients memory that `%s` reads",
                   front->text, front->tensor.text);
    return verdict_advise(
        judgement,
        "compute moments, norms and averages of gradients after DDP_STEP: launch `%.96s` between DDP_STEP and `%s`",
        front->text, front->tensor.text);
}

bool
update_say_all(struct judgement *judgement)
{
    bool same = find_used(judgement->evidence, judgement->first).any;
    bool captured = check_rows_find(&judgement->evidence->ranked[0], CHECK_ROW_GRAPHS) != NULL;
    return verdict_conclude(
        judgement,
        captured ? "check the program without CUDA graphs; then the cause is named: a rate or divisor by the number of "
                   "ranks, a moment, a norm or clipping before DDP_STEP, a tensor that is not annotated, the data of "
                   "the shares"
        : pattern_is_common(judgement->evidence, judgement->first)
            ? "all ranks have the same bits, and one rank has others: look for a value that depends on the number of "
              "ranks or on the size of a share, and is the same on all ranks: a rate, a divisor, a count that "
              "DDP_REDUCE has added up, a decision by averaged values"
        : same ? "the update reads values that differ between ranks: a moment, a norm or an average that is computed "
                 "before DDP_STEP, from this rank's gradients; optimizer state that was loaded or initialised on one "
                 "rank (DDP_STATE); a learning rate or a decision on the host"
        : judgement->first->first_step > 2
            ? "the update of this step used values that differ between ranks: memory that is not annotated and that "
              "each rank initialises or computes by itself, for example from its own gradients; a decision on the host"
            : "the update uses values that are not averaged: a moment, a norm or an average that is computed before "
              "DDP_STEP, or gradients that are clipped there; DDP_STEP comes before backward, within it or after the "
              "optimizer; optimizer state (DDP_STATE) or a decision on the host differs between ranks",
        "%s",
        captured ? "; gradients that a CUDA graph averages were not compared"
        : same   ? ", and the gradients of the step are equal at DDP_STEP and where the update reads them"
                 : ", and the gradients of the step are equal");
}
