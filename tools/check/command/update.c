/* update.c - see pattern.h. */
#include "tools/check/command/pattern.h"
#include "tools/check/format/element.h"

/* ---- a factor ---- */

/* What the update has changed is so many times one rank's; 0: it is no multiple. */
static double
find_factor(const struct judgement *judgement)
{
    const struct check_item *first = judgement->first;
    const struct check_evidence *evidence = judgement->evidence;
    const struct check_row *row = pattern_row(&evidence->ranked[first->first_rank], &first->tensor, first->first_step);
    double factor, n = evidence->ranks;
    if (row == NULL || !row->of_change || !factor_of_row(row, &factor) || !(factor > 1e-3 && factor < 1e3))
        return 0;
    double error = 1e-3 + 2 * row->norms.unit / row->norms.reference; /* each element's last place */
    bool is_n = fabs(factor / n - 1) < error, is_part = fabs(factor * n - 1) < error;
    return error > 0.15 || fabs(factor - 1) < 4 * error ? 0 : is_n ? n : is_part ? 1 / n : error < 0.02 ? factor : 0;
}

/* ---- annotations ---- */

/* A gradient of doubles, where no parameter has any. */
bool
update_say_wide(struct judgement *judgement)
{
    const struct check_verdict *verdict = judgement->verdict;
    const struct check_tensor *wide = NULL;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_tensor *tensor = &verdict->items[i].tensor;
        if (tensor->role == CHECK_PARAMETER && tensor->type == ELEMENT_FLOAT64)
            return false;
        wide = tensor->role == CHECK_GRADIENT && tensor->type == ELEMENT_FLOAT64 ? tensor : wide;
    }
    judgement->verdict->is_precise = wide != NULL;
    return wide != NULL && verdict_conclude(judgement, "annotate the gradient with its own type: DDP_TYPE_OF(pointer)",
                                            "; %s of float64, and no parameter has this type", TENSOR_NAME(wide));
}

/* ---- unannotated memory ---- */

bool
update_say_memory(struct judgement *judgement)
{
    const struct check_item *item = judgement->first = judgement->pattern.memory;
    verdict_decide(judgement, "%s", "");
    return verdict_advise(judgement,
                          item->tensor.group == 1
                              ? "`%s` updates this memory as it updates annotated parameters: annotate all of it with "
                                "DDP_PARAMETER, and its gradient with DDP_GRADIENT"
                              : "`%s` updates this memory together with annotated parameters. It is optimizer state "
                                "that differs between ranks, because each rank loads, initialises or computes it by "
                                "itself: annotate it with DDP_STATE, and compute it after DDP_STEP",
                          item->tensor.text);
}

/* ---- before the first step ---- */

bool
update_say_start(struct judgement *judgement)
{
    const struct pattern *pattern = &judgement->pattern;
    bool is_state = judgement->first->tensor.role == CHECK_STATE,
         is_one = !is_state && pattern->differing[CHECK_PARAMETER] < pattern->all[CHECK_PARAMETER];
    bool are_alike = judgement->agreement.moment == 0 || judgement->agreement.moment > pattern->moment;
    if ((judgement->shown & SHOWN_RANK_0_RIGHT) == 0 && are_alike) {
        verdict_decide(judgement,
                       "; before the first DDP_STEP all ranks have the same values, but one process has others");
        judgement->verdict->cause = CAUSE_START;
        return verdict_advise(judgement,
                              "on each rank compute the initial values from the whole batch, or without the batch: %s "
                              "copies rank 0's values to all ranks",
                              is_state ? "DDP_STATE" : "DDP_PARAMETER");
    }
    if ((judgement->shown & SHOWN_RANK_0_RIGHT) == 0) {
        verdict_decide(judgement, ": the program's first update comes before its first DDP_STEP");
        judgement->verdict->cause = is_one ? CAUSE_TENSOR : CAUSE_UPDATE;
        return verdict_advise(
            judgement, "%s",
            is_state ? "DDP_STATE is for memory that is equal on all ranks: compute it after DDP_STEP, or leave "
                       "DDP_STATE out if the memory belongs to this rank's records alone"
            : is_one ? "if forward writes this memory (running statistics), annotate it with DDP_BUFFER"
                     : "call DDP_STEP between backward and the optimizer");
    }
    verdict_decide(judgement, ": it does not have rank 0's values at the start");
    judgement->verdict->cause = CAUSE_START;
    return verdict_advise(judgement,
                          "%s copies rank 0's values to all ranks at once: it must come after the initialisation (and "
                          "after loading a checkpoint)",
                          is_state ? "DDP_STATE" : "DDP_PARAMETER");
}

/* ---- the update ---- */

bool
update_say_all(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    uint32_t role = judgement->first->tensor.role;
    size_t all = judgement->pattern.all[role], differing = judgement->pattern.differing[role];
    bool has_graphs = check_rows_find(&evidence->ranked[0], CHECK_ROW_GRAPHS) != NULL,
         is_few = (judgement->shown & SHOWN_FEW) != 0;
    char change[120] = "", rest[80] = "";
    uint32_t steps = 1, last = 0; /* with gradients: where one rank's update changes nothing, they wait for the next */
    double factor = find_factor(judgement);
    EACH_ROW_OF(row, &evidence->ranked[0], CHECK_GRADIENT) {
        steps += row->step != last && row->step < judgement->first->first_step;
        last = row->step;
    }
    if (factor != 0)
        snprintf(change, sizeof(change), "; the change is %.4g times that of one process%s", factor,
                 factor_meaning(evidence, factor));
    if (is_few)
        snprintf(rest, sizeof(rest), "; %zu of %zu %ss are equal in that step", all - differing, all,
                 role == CHECK_MEMORY ? "range" : check_role_name(role));
    verdict_decide(judgement, "%s%s%s",
                   has_graphs                              ? "; gradients that a CUDA graph averages were not compared"
                   : steps >= judgement->first->first_step ? "; the annotated gradients of the step are equal"
                                                           : "; gradients were not compared in each step so far",
                   change, rest);
    judgement->verdict->factor = factor;
    judgement->verdict->cause = is_few ? CAUSE_TENSOR : CAUSE_UPDATE;
    return verdict_advise(
        judgement, "%s",
        factor != 0
            ? "the update depends on the rank, the number of ranks or the share: if by a learning rate, compute it "
              "from the step; if by a norm or a clipping of gradients, call DDP_STEP before it"
        : has_graphs ? "check the program without CUDA graphs; then the operation is named"
        : is_few ? "its gradient is not averaged, or only a part of it: annotate the gradient with DDP_GRADIENT and "
                   "its full count, and write it before DDP_STEP; or the update reads memory that differs between ranks"
                 : "the update uses values that are not averaged, such as a moment or a norm that is computed before "
                   "DDP_STEP; or DDP_STEP comes before backward, within it or after the optimizer");
}
