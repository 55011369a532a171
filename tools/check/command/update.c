/* update.c - see pattern.h. */
#include "tools/check/command/pattern.h"
#include "tools/check/format/element.h"

#include <stdio.h>

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

/* ---- annotations ---- */

static bool
is_sized(const struct check_item *item, uint32_t role, uint64_t count)
{
    return item->tensor.role == role && item->tensor.count == count && (role != CHECK_PARAMETER || item->moved);
}

/* Elements of tensors of the role to which the other role has none of their size; *one_p: one of them, of the wanted
 * number of elements if there is one. */
static double
count_single(const struct check_verdict *verdict, uint32_t role, uint32_t other, uint64_t wanted,
             const struct check_tensor **one_p)
{
    const struct check_item *end = verdict->items + verdict->item_count;
    double elements = 0;
    for (const struct check_item *item = verdict->items; item < end; ++item) {
        double own = 0, others = 0;
        for (const struct check_item *it = verdict->items; it < end; ++it) {
            own += is_sized(it, role, item->tensor.count);
            others += is_sized(it, other, item->tensor.count);
        }
        if (!is_sized(item, role, item->tensor.count) || own <= others)
            continue;
        elements += (double)item->tensor.count * (own - others) / own;
        if (*one_p == NULL || (*one_p)->count != wanted)
            *one_p = &item->tensor;
    }
    return elements;
}

/* A gradient of doubles, where no parameter has any. */
static const struct check_tensor *
find_wide(const struct check_verdict *verdict)
{
    const struct check_tensor *wide = NULL;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_tensor *tensor = &verdict->items[i].tensor;
        if (tensor->role == CHECK_PARAMETER && tensor->type == ELEMENT_FLOAT64)
            return NULL;
        wide = tensor->role == CHECK_GRADIENT && tensor->type == ELEMENT_FLOAT64 ? tensor : wide;
    }
    return wide;
}

bool
update_say_annotation(struct judgement *judgement)
{
    const struct check_verdict *verdict = judgement->verdict;
    const struct check_tensor *parameter = NULL, *gradient = NULL, *wide = find_wide(verdict);
    char names[2][400];
    uint64_t count = judgement->first->tensor.count;
    double parameters = count_single(verdict, CHECK_PARAMETER, CHECK_GRADIENT, count, &parameter),
           gradients = count_single(verdict, CHECK_GRADIENT, CHECK_PARAMETER,
                                    parameter != NULL ? parameter->count / 2 : count, &gradient);
    bool is_short = parameters > gradients && gradients > 0 &&
                    (count == parameter->count || count == gradient->count) && gradient->count < parameter->count;
    if (!is_short && wide == NULL)
        return false;
    judgement->verdict->is_precise = true;
    is_short = wide == NULL;
    if (is_short)
        verdict_decide(judgement, "; %s, ends before %s", sentence_name_tensor(gradient, names[0]),
                       sentence_name_tensor(parameter, names[1]));
    else
        verdict_decide(judgement, "; %s of float64, and no parameter has this type",
                       sentence_name_tensor(wide, names[0]));
    return verdict_advise(judgement,
                          is_short ? "annotate the whole gradient: DDP_GRADIENT with the parameter's %llu elements"
                                   : "annotate the gradient with its own type, as DDP_TYPE_OF has it",
                          (unsigned long long)(is_short ? parameter->count : 0));
}

/* Of a group that is never stepped: a gradient of the size of the parameter that differs. */
bool
update_say_unstepped(struct judgement *judgement)
{
    char name[400];
    uint64_t count = judgement->first->tensor.role == CHECK_PARAMETER ? judgement->first->tensor.count : 0;
    EACH_ROW(row, &judgement->evidence->ranked[0], CHECK_ROW_UNSTEPPED) {
        if (row->tensor.count != count)
            continue;
        judgement->verdict->is_precise = true;
        verdict_decide(judgement, ": group %u is never stepped, and has %s", row->tensor.group,
                       sentence_name_tensor(&row->tensor, name));
        return verdict_advise(judgement,
                              "call DDP_STEP_GROUP(%u, stream) between backward and the update of this group",
                              row->tensor.group);
    }
    return false;
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

/* ---- before the first step ---- */

/* Of parameters of its size more differ than have no gradient that is not all zeros, or of a group that is not stepped.
 */
static bool
has_gradient(const struct judgement *judgement)
{
    const struct check_verdict *verdict = judgement->verdict;
    const struct check_rows *rows = &judgement->evidence->ranked[0];
    uint64_t count = judgement->first->tensor.count;
    size_t parameters = 0, others = 0;
    for (const struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        bool alike = item->tensor.count == count, is_parameter = item->tensor.role == CHECK_PARAMETER, written = false;
        parameters += alike && is_parameter;
        others += alike && is_parameter && item->differs && item->moment == judgement->pattern.moment;
        EACH_ROW_OF(row, rows, CHECK_GRADIENT)
            written = written || (row->tensor.number == item->tensor.number && row->norms.reference > 0);
        others += alike && item->tensor.role == CHECK_GRADIENT && written;
    }
    EACH_ROW(row, rows, CHECK_ROW_UNSTEPPED)
        others += row->tensor.count == count;
    return others > parameters;
}

bool
update_say_start(struct judgement *judgement)
{
    const struct pattern *pattern = &judgement->pattern;
    bool is_state = judgement->first->tensor.role == CHECK_STATE,
         is_one = !is_state && pattern->differing[CHECK_PARAMETER] < pattern->all[CHECK_PARAMETER];
    if ((judgement->shown & SHOWN_RANK_0_RIGHT) == 0) {
        verdict_decide(judgement, ": %s before the first DDP_STEP, and not as on one rank",
                       is_state || is_one ? "it has changed" : "the parameters have changed");
        judgement->verdict->cause = is_one ? CAUSE_TENSOR : CAUSE_UPDATE;
        return verdict_advise(
            judgement, "%s",
            is_state ? "DDP_STATE is for memory that is alike on all ranks: compute it after DDP_STEP, or leave "
                       "DDP_STATE out if it belongs to this rank's records alone"
            : is_one && !has_gradient(judgement)
                ? "running statistics, which forward writes? Annotate them with DDP_BUFFER, not DDP_PARAMETER; "
                  "else call DDP_STEP between backward and the optimizer"
                : "call DDP_STEP between backward and the optimizer; it comes after the optimizer");
    }
    verdict_decide(judgement, ": it does not have rank 0's values at the start");
    judgement->verdict->cause = CAUSE_START;
    return verdict_advise(judgement,
                          "%s copies rank 0's values to all ranks at once: it must come after the initialisation (and "
                          "after loading a checkpoint)%s",
                          is_state ? "DDP_STATE" : "DDP_PARAMETER",
                          judgement->evidence->grows ? "; and DDP_STEP must come before the update" : "");
}

/* ---- the update ---- */

/* In each step so far: where one rank's update changes nothing, gradients wait for the next one. */
static bool
are_compared(const struct judgement *judgement)
{
    uint32_t steps = 0, last = 0;
    EACH_ROW_OF(row, &judgement->evidence->ranked[0], CHECK_GRADIENT) {
        steps += row->step != last && row->step < judgement->first->first_step;
        last = row->step;
    }
    return steps + 1 >= judgement->first->first_step;
}

bool
update_say_all(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    uint32_t role = judgement->first->tensor.role;
    size_t others = judgement->pattern.all[role] - judgement->pattern.differing[role];
    bool has_graphs = check_rows_find(&evidence->ranked[0], CHECK_ROW_GRAPHS) != NULL,
         is_few = (judgement->shown & SHOWN_FEW) != 0;
    char change[120] = "", rest[80] = "";
    double factor = find_factor(judgement);
    if (factor != 0)
        snprintf(change, sizeof(change), "; its change is %.4g times one rank's%s", factor,
                 factor_meaning(evidence, factor));
    if (is_few)
        snprintf(rest, sizeof(rest), "; the other %zu %s%s", others,
                 role == CHECK_MEMORY ? "range" : check_role_name(role), others == 1 ? " is equal" : "s are equal");
    verdict_decide(judgement, "%s%s%s",
                   has_graphs                ? "; gradients that a CUDA graph averages were not compared"
                   : are_compared(judgement) ? "; the annotated gradients of the step are equal"
                                             : "; gradients were not compared in each step so far",
                   change, rest);
    judgement->verdict->factor = factor;
    judgement->verdict->cause = is_few ? CAUSE_TENSOR : CAUSE_UPDATE;
    return verdict_advise(
        judgement, "%s",
        factor != 0  ? "a learning rate, or a factor of the gradients such as a norm that is computed before DDP_STEP, "
                       "depends on the rank, the number of ranks or the share: compute it from the step and from "
                       "averaged gradients"
        : has_graphs ? "check the program without CUDA graphs; then the operation is named"
        : is_few ? "its gradient is not averaged, or not all of it: annotate it with DDP_GRADIENT and its full count, "
                   "and write it before DDP_STEP; or its update reads what differs between ranks"
                 : "the update uses values that are not averaged, such as a moment or a norm that is computed before "
                   "DDP_STEP; or DDP_STEP comes before backward, within it or after the optimizer");
}
