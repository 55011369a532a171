/* update.c - see pattern.h. */
#include "tools/check/command/pattern.h"

#include <stdio.h>

/* ---- DDP_STEP_PARAMETERS ---- */

bool
update_say_averaged(struct judgement *judgement)
{
    judgement->verdict->is_precise = true;
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
    judgement->verdict->is_precise = true;
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
    judgement->verdict->is_precise = true;
    verdict_decide(judgement, ": group %u is never stepped, and has %s", unstepped->group,
                   sentence_name_tensor(unstepped, name));
    return verdict_advise(judgement, "call DDP_STEP_GROUP(%u, stream) between backward and the update of this group",
                          unstepped->group);
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
    judgement->verdict->is_precise = true;
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

bool
update_say_factor(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct check_item *first = judgement->first;
    char whose[80];
    struct factor factor;
    if (!factor_of_update(evidence, first, &factor) || factor.value < 1e-3 || factor.value > 1e3 ||
        (first->tensor.count == 1 && pattern_has_no_gradient(evidence, judgement->verdict, first)))
        return false;
    bool all = first->rank_count == evidence->ranks && !factor.mixed;
    snprintf(whose, sizeof(whose), "%zu of %zu parameters", factor.apart, factor.moved);
    verdict_decide(judgement, ", and the gradients are equal: the change of %s is %.4g times one rank's%s%s",
                   factor.apart < factor.moved ? whose : "every parameter", factor.value,
                   factor_meaning(evidence, factor.value), factor.mixed ? "; on other ranks another factor" : "");
    judgement->verdict->factor = factor.value;
    if (pattern_is_few(factor.apart, factor.moved))
        judgement->verdict->cause = CAUSE_TENSOR;
    return verdict_advise(
        judgement, "%s",
        all ? "the learning rate, or a factor of the gradients after DDP_STEP, depends on the number of ranks or on "
              "the share: use the value of one rank, because DDP_STEP leaves the mean, and the ranks' shares together "
              "are the batch of one rank"
            : "the learning rate, or a factor of the gradients such as a norm that is computed before DDP_STEP, "
              "differs between ranks: compute it from the step and from averaged gradients, not from a rank's own");
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

bool
update_say_one(struct judgement *judgement)
{
    uint32_t role = judgement->first->tensor.role;
    size_t others = judgement->pattern.all[role] - judgement->pattern.differing[role];
    bool reads =
        role == CHECK_PARAMETER && !pattern_has_no_gradient(judgement->evidence, judgement->verdict, judgement->first);
    return verdict_conclude(
        judgement,
        reads                 ? "after DDP_STEP it changes in another way on each rank: look at what its update reads"
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
update_say_all(struct judgement *judgement)
{
    if (check_rows_find(&judgement->evidence->ranked[0], CHECK_ROW_GRAPHS) != NULL)
        return verdict_conclude(judgement, "check the program without CUDA graphs; then the operation is named",
                                "; gradients that a CUDA graph averages were not compared");
    return verdict_conclude(judgement,
                            "the update uses values that are not averaged, such as a moment or a norm that is computed "
                            "before DDP_STEP; or DDP_STEP comes before backward, within it or after the optimizer",
                            ", and the gradients of the step are equal");
}
