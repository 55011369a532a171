/*
 * update.c - see pattern.h.
 */
#include "tools/check/command/pattern.h"

#include "base/mutant.h"
#include "tools/check/command/verdict.h"

#include <math.h>
#include <stdio.h>

/* The row of a kind that is of this tensor, or NULL. */
static const struct check_row *
find_note(const struct check_rows *rows, enum check_row_kind kind, const struct check_tensor *tensor)
{
    for (size_t i = 0; i < rows->count; ++i) {
        const struct check_row *row = &rows->rows[i];
        if (row->kind == (uint32_t)kind && row->tensor.role == tensor->role && row->tensor.number == tensor->number)
            return row;
    }
    return NULL;
}

/* A gradient as the program annotates it: "gradient 3, `g` (train.cu:12), 400 elements". */
static const char *
name_gradient(const struct check_tensor *tensor, char text[400])
{
    snprintf(text, 400, "gradient %u, `%s` (%s:%d), %llu elements", tensor->number + 1, tensor->text, tensor->file,
             tensor->line, (unsigned long long)tensor->count);
    return text;
}

/* ---- DDP_STEP_PARAMETERS ---- */

static void
judge_averaged(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_UPDATE, first,
                     ", though DDP_STEP_PARAMETERS averages it");
    sentence_say(
        verdict->advice,
        "the mean of updated parameters is one rank's update if each layer's input gradient is computed before its "
        "weights change, if the update is linear in the gradient (SGD, momentum; not Adam, not clipping), and if "
        "the loss is divided by the rank's share: compute input gradients before the update, or give gradients buffers "
        "of their own and call DDP_STEP instead of DDP_STEP_PARAMETERS");
}

/* ---- gradients that are not averaged ---- */

/* Of a group that is never stepped: a gradient of the first parameter's size. Each parameter that differs then has one.
 */
static const struct check_tensor *
find_unstepped(const struct check_evidence *evidence, const struct check_verdict *verdict,
               const struct pattern *pattern)
{
    const struct check_tensor *found = NULL;
    const struct check_rows *rows = &evidence->ranked[0];
    for (size_t i = 0; i < verdict->item_count && !MUTANT(CHECK_GROUPS_UNSEEN); ++i) {
        const struct check_item *item = &verdict->items[i];
        if (item->tensor.role != CHECK_PARAMETER || !item->differs || item->moment != pattern->moment)
            continue;
        const struct check_tensor *own = NULL;
        for (size_t k = 0; k < rows->count && own == NULL; ++k) {
            const struct check_row *row = &rows->rows[k];
            own = row->kind == CHECK_ROW_UNSTEPPED && row->tensor.count == item->tensor.count ? &row->tensor : NULL;
        }
        if (own == NULL)
            return NULL;
        found = item == pattern->first ? own : found;
    }
    return found;
}

/* Where the parameter's first element differs another gradient ends, which has fewer elements. */
static const struct check_tensor *
find_shorter(const struct check_evidence *evidence, const struct check_item *first)
{
    const struct check_rows *rows = &evidence->ranked[first->first_rank];
    const struct check_row *own = pattern_row(rows, &first->tensor, first->first_step);
    if (own == NULL || !own->of_change || own->norms.same == 0 || MUTANT(CHECK_SHORTER_UNSEEN))
        return NULL;
    for (size_t i = 0; i < rows->count; ++i) {
        const struct check_row *row = &rows->rows[i];
        if (row->kind == CHECK_ROW_TENSOR && row->tensor.role == CHECK_GRADIENT &&
            row->tensor.count == own->norms.same && row->tensor.count < first->tensor.count)
            return &row->tensor;
    }
    return NULL;
}

static bool
judge_gradients_of(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    char place[600], name[400];
    const struct check_item *first = pattern->first;
    const struct check_tensor *shorter = find_shorter(evidence, first),
                              *unstepped = find_unstepped(evidence, verdict, pattern);
    if (shorter == NULL && unstepped == NULL)
        return false;
    sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_TENSOR, first);
    sentence_place(evidence, verdict, first, place);
    if (shorter != NULL) {
        sentence_say(verdict->text, "%s: from element %llu on, where %s, ends", place,
                     (unsigned long long)shorter->count, name_gradient(shorter, name));
        sentence_say(verdict->advice, "annotate the whole gradient: DDP_GRADIENT with the parameter's %llu elements",
                     (unsigned long long)first->tensor.count);
    } else {
        sentence_say(verdict->text, "%s: group %u is never stepped, and has %s", place, unstepped->group,
                     name_gradient(unstepped, name));
        sentence_say(verdict->advice, "call DDP_STEP_GROUP(%u, stream) between backward and the update of this group",
                     unstepped->group);
    }
    return true;
}

/* ---- gradients that change between DDP_STEP and the update ---- */

enum { FIRST_USED = 2 }; /* step whose gradients are seen as the update gets them */

/* What DDP_STEP has left of the group's gradients, relative to one rank's; 0: not known. */
static double
left_by_step(const struct check_rows *rows, const struct check_row *used)
{
    for (size_t i = 0; i < rows->count; ++i) {
        const struct check_row *row = &rows->rows[i];
        if (row->kind == CHECK_ROW_FORCED && row->step == used->step && row->tensor.group == used->tensor.group)
            return row->norms.product;
    }
    return 0;
}

/* How far a gradient is from what DDP_STEP has left, relative to that. */
static double
change_of_used(const struct check_row *used, double left)
{
    const struct check_norms *norms = &used->norms;
    double square =
        norms->own * norms->own - 2 * left * norms->product + left * left * norms->reference * norms->reference;
    return norms->reference > 0 ? sqrt(fmax(square, 0)) / (left * norms->reference) : 0;
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
    uint32_t step = items_step(first) < FIRST_USED ? FIRST_USED : items_step(first);
    const struct check_rows *rows = &evidence->ranked[first->first_rank];
    struct used worst = {.change = 1e-3};
    for (size_t i = 0; i < rows->count && !MUTANT(CHECK_USED_UNSEEN); ++i) {
        const struct check_row *row = &rows->rows[i];
        double left = row->kind == CHECK_ROW_USED && row->step == step ? left_by_step(rows, row) : 0;
        if (!(left > 0) || row->norms.unbounded > 0)
            continue;
        worst.any = true;
        double change = change_of_used(row, left);
        if (change > worst.change)
            worst = (struct used){row, change, left, true};
    }
    return worst;
}

static bool
judge_used(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    char name[400], how[64] = "otherwise than on one rank";
    double factor;
    struct used found = find_used(evidence, first);
    const struct check_row *used = found.row;
    if (used == NULL)
        return false;
    if (factor_of_row(used, &factor)) {
        factor /= found.left;
        snprintf(how, sizeof(how), "to %.4g times one rank's", factor);
    }
    verdict->factor = factor;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_UPDATE, first,
                     ": %s, changes between DDP_STEP and `%s`, %s%s", name_gradient(&used->tensor, name), used->text,
                     how, factor > 0 ? factor_meaning(evidence, factor) : "");
    sentence_say(verdict->advice, "%s",
                 fabs(factor * evidence->ranks - 1) < 0.01
                     ? "DDP_STEP leaves the mean over the ranks: do not divide it by their number again"
                     : "what writes gradients between DDP_STEP and the update must do the same on all ranks as on one: "
                       "look for a division, for a norm of this rank's own gradients, for a backward behind DDP_STEP");
    return true;
}

/* ---- several updates for one DDP_STEP ---- */

/* Between the DDP_STEP whose update makes the first difference, or that comes before it, and the next one. */
static bool
judge_updates(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    const struct check_rows *rows = &evidence->ranked[first->first_rank];
    const struct check_row *several = NULL;
    uint32_t step = first->first_step - 1; /* of either */
    size_t as_often = 0;
    for (size_t i = 0; i < rows->count && !MUTANT(CHECK_UPDATES_UNSEEN); ++i) {
        if (rows->rows[i].kind == CHECK_ROW_UPDATES && rows->rows[i].step == step)
            several = &rows->rows[i];
    }
    for (size_t i = 0; i < rows->count && several != NULL; ++i)
        as_often += rows->rows[i].kind == CHECK_ROW_UPDATES && rows->rows[i].value >= several->value;
    if (several == NULL)
        return false;
    bool always = 2 * as_often > evidence->steps;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_UPDATE, first,
                     ": between DDP_STEP %u and the next one `%s` updated the same parameter %llu times", step,
                     several->text, (unsigned long long)several->value);
    sentence_say(verdict->advice, "%s",
                 always
                     ? "each update needs a DDP_STEP of its own, between its backward and it"
                     : "DDP_STEP is left out before one of these updates: call it in each step, between backward and "
                       "the update");
    return true;
}

/* ---- the factor of the update ---- */

static bool
judge_factor(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    char whose[80];
    struct factor factor;
    bool used = find_used(evidence, first).any; /* and none is another */
    if (!factor_of_update(evidence, first, &factor))
        return false;
    bool all = first->rank_count == evidence->ranks && !factor.mixed, one = factor.apart < factor.moved;
    bool is_n = all && fabs(factor.value - evidence->ranks) < 0.01 * evidence->ranks,
         is_reciprocal = all && fabs(factor.value * evidence->ranks - 1) < 0.01;
    bool is_few = pattern_is_few(factor.apart, factor.moved);
    snprintf(whose, sizeof(whose), "%zu of %zu parameters", factor.apart, factor.moved);
    verdict->factor = factor.value;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, is_few ? CAUSE_TENSOR : CAUSE_UPDATE, first,
                     ", and the gradients are equal: the change of %s is %.4g times one rank's%s%s",
                     one ? whose : "every parameter", factor.value, factor_meaning(evidence, factor.value),
                     factor.mixed ? "; on other ranks another factor" : "");
    sentence_say(verdict->advice, "%s",
                 used && (is_n || is_reciprocal)
                     ? "the update gets one rank's gradients, but another learning rate: do not let it depend on the "
                       "number of ranks, whose shares together are the batch of one rank"
                 : is_n ? "the learning rate is multiplied by the number of ranks, or gradients are, behind DDP_STEP: "
                          "leave that out, for the ranks' shares together are the batch of one rank"
                 : is_reciprocal
                     ? "gradients are divided by the number of ranks behind DDP_STEP, which leaves their mean, or the "
                       "learning rate is: leave that out"
                 : all ? "look for a factor that depends on the number of ranks or on the share, in the learning rate, "
                         "in a norm that is computed before DDP_STEP or in what becomes of gradients behind it"
                       : "the learning rate, or a factor of the gradients such as a norm that is computed before "
                         "DDP_STEP, is not the same on all ranks: let it depend on the step and on averaged "
                         "gradients, and on nothing that is a rank's own; where one rank alone has read a step "
                         "counter or moments: optimizer state (DDP_STATE)");
    return true;
}

static bool
judge_states(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    double factor;
    const struct check_item *first = pattern->first;
    bool is_state = first->tensor.role == CHECK_MEMORY || first->tensor.role == CHECK_STATE;
    if (!is_state || !factor_of_states(evidence, verdict, pattern->moment, &factor))
        return false;
    verdict->factor = factor;
    sentence_differs(
        evidence, verdict, CHECK_DIFFERENT, CAUSE_UPDATE, first,
        ": the optimizer's moments are those of gradients that are %.4g times one rank's%s, and at DDP_STEP "
        "they are equal",
        factor, factor_meaning(evidence, factor));
    sentence_say(verdict->advice,
                 "DDP_STEP leaves the mean over the ranks: look for what %s gradients behind it, before the optimizer",
                 factor < 1 ? "divides" : "multiplies");
    return true;
}

/* ---- unannotated memory ---- */

static void
judge_unannotated(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *item)
{
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_UNANNOTATED, item, "%s", "");
    sentence_say(
        verdict->advice,
        item->tensor.group == 2
            ? "`%s` writes it, and it stays from step to step: compute it behind DDP_STEP; if the ranks begin with "
              "different values of it, annotate it with DDP_STATE"
        : item->tensor.group == 1
            ? "`%s` updates it as it updates annotated parameters: annotate it with DDP_PARAMETER, and its "
              "gradient with DDP_GRADIENT, in full"
            : "`%s` updates it beside annotated parameters: it is optimizer state that the ranks do not "
              "have in common, loaded, initialised or computed on each rank by itself: annotate it with DDP_STATE, and "
              "compute it behind DDP_STEP",
        item->tensor.text);
}

bool
update_judge_memory(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    bool alone = pattern->ever[CHECK_PARAMETER] + pattern->ever[CHECK_GRADIENT] == 0;
    const struct check_item *item = pattern->memory != NULL                                ? pattern->memory
                                    : alone && pattern->first->tensor.role == CHECK_MEMORY ? pattern->first
                                                                                           : NULL;
    if (item == NULL)
        return false;
    if (!(item == pattern->first && (judge_used(evidence, verdict, item) || judge_states(evidence, verdict, pattern))))
        judge_unannotated(evidence, verdict, item);
    return true;
}

/* ---- what else it may be ---- */

bool
update_judge_clipping(const struct check_evidence *evidence, struct check_verdict *verdict,
                      const struct check_item *first)
{
    double norm;
    if (!pattern_is_clipped(evidence, &norm))
        return false;
    sentence_differs(
        evidence, verdict, CHECK_DIFFERENT, CAUSE_UPDATE, first,
        "; the norm of all gradients at DDP_STEP is never above %.4g on one rank, and not the ranks': they "
        "are clipped before they are averaged",
        norm);
    sentence_say(verdict->advice, "put DDP_STEP between backward and the clipping");
    return true;
}

/* A share in the step that differs is larger than another. */
static bool
judge_uneven(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    for (size_t i = 0; i < evidence->ranked[0].count && !check_evidence_weighs(evidence); ++i) {
        const struct check_row *row = &evidence->ranked[0].rows[i];
        if (row->kind != CHECK_ROW_SHARD || !row->uneven || row->step + 1 != first->first_step)
            continue;
        sentence_differs(evidence, verdict, CHECK_NOT_COMPARABLE, CAUSE_INDIVISIBLE, first,
                         "; %d ranks do not divide the %llu items of this step, and the mean of unequal shares is not "
                         "the mean of all items",
                         evidence->ranks, (unsigned long long)row->value);
        sentence_say(verdict->advice, "weigh the shares, DDP_WEIGHT(count, total), or leave such a batch out");
        return true;
    }
    return false;
}

static void
judge_later(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first,
            bool few)
{
    uint32_t role = first->tensor.role;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, few || role != CHECK_GRADIENT ? CAUSE_TENSOR : CAUSE_UPDATE,
                     first, "; what came before is equal");
    sentence_say(
        verdict->advice,
        role == CHECK_GRADIENT ? "something that is not annotated changes the gradients after the first step: a tensor "
                                 "that was forgotten, data that ranks read in another order, a decision on the host"
        : role == CHECK_BUFFER ? "all ranks take rank 0's bytes at each DDP_STEP: a buffer that depends on the batch "
                                 "holds what rank 0's share gives"
                               : "the mean over ranks of this value is not one rank's: is it a mean over the share?");
}

static void
judge_one(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    uint32_t role = pattern->first->tensor.role;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_TENSOR, pattern->first,
                     "; the other %zu %ss are equal then", pattern->all[role] - pattern->differing[role],
                     role == CHECK_MEMORY ? "range" : check_role_name(role));
    sentence_say(verdict->advice,
                 role == CHECK_STATE
                     ? "its update reads something that is not the same on all ranks, or DDP_STATE stands before it is "
                       "initialised or read"
                     : "its gradient is not averaged, or not all of it: annotate it with DDP_GRADIENT and its full "
                       "count, and write it before DDP_STEP");
}

/* Optimizer state without annotation that differs on the same ranks, as soon as it is looked at. */
static const struct check_item *
find_state(const struct check_verdict *verdict, const struct check_item *first)
{
    enum { FIRST_SEEN = 3 };
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        uint32_t by = first->first_step > FIRST_SEEN ? first->first_step : FIRST_SEEN;
        if (item->tensor.role == CHECK_MEMORY && item->differs && item->first_step <= by &&
            item->rank_count == first->rank_count && item->first_rank == first->first_rank)
            return item;
    }
    return NULL;
}

/* ---- statistics that forward writes ---- */

/* Zeros are no gradient. */
static bool
is_written(const struct check_rows *rows, const struct check_tensor *gradient)
{
    for (size_t i = 0; i < rows->count; ++i) {
        const struct check_row *row = &rows->rows[i];
        if (row->kind == CHECK_ROW_TENSOR && row->tensor.role == gradient->role &&
            row->tensor.number == gradient->number && (row->norms.reference > 0 || row->norms.own > 0))
            return true;
    }
    return false;
}

static bool
is_alike(const struct check_item *item, const struct check_tensor *tensor, uint32_t role)
{
    return item->tensor.role == role && item->tensor.count == tensor->count && item->tensor.type == tensor->type;
}

/* Whether of the parameters like this one no more differ at that moment than have no gradient. */
static bool
has_no_gradient(const struct check_evidence *evidence, const struct check_verdict *verdict, const struct check_item *of)
{
    size_t parameters = 0, different = 0, gradients = 0;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        bool is_parameter = is_alike(item, &of->tensor, CHECK_PARAMETER);
        parameters += is_parameter;
        different += is_parameter && item->differs && item->moment == of->moment;
        gradients += is_alike(item, &of->tensor, CHECK_GRADIENT) && is_written(&evidence->ranked[0], &item->tensor);
    }
    for (size_t i = 0; i < evidence->ranked[0].count; ++i) {
        const struct check_row *row = &evidence->ranked[0].rows[i];
        gradients += row->kind == CHECK_ROW_UNSTEPPED && row->tensor.count == of->tensor.count;
    }
    return gradients + different <= parameters;
}

/* Before the first update parameters differ that have no gradient, and on one rank each step changes them. */
static bool
judge_running(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        if (item->differs && item->moment == first->moment &&
            (item->tensor.role != CHECK_PARAMETER || !item->moved || !has_no_gradient(evidence, verdict, item)))
            return false;
    }
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_TENSOR, first,
                     ": it has changed before the first DDP_STEP, and has no gradient");
    sentence_say(verdict->advice,
                 "running statistics, which forward writes? Annotate them with DDP_BUFFER, not DDP_PARAMETER; a "
                 "parameter that is trained needs its DDP_GRADIENT");
    return true;
}

/* The tensor that differs first has the same bits on all ranks. */
static bool
is_common(const struct check_evidence *evidence, const struct check_item *first)
{
    const struct check_row *zero = pattern_row(&evidence->ranked[0], &first->tensor, first->first_step);
    bool common = zero != NULL && zero->value != 0;
    for (int r = 1; r < evidence->ranks && common; ++r) {
        const struct check_row *row = pattern_row(&evidence->ranked[r], &first->tensor, first->first_step);
        common = row != NULL && row->value == zero->value;
    }
    return common;
}

static void
judge_all(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    char place[600];
    uint32_t step = first->first_step;
    sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_UPDATE, first);
    sentence_place(evidence, verdict, first, place);
    if (step == 1 && judge_running(evidence, verdict, first))
        return;
    if (step == 1) {
        sentence_say(verdict->text, "%s: the parameters have changed before the first DDP_STEP, and not as on one rank",
                     place);
        sentence_say(verdict->advice, "DDP_STEP must stand between backward and the optimizer, and stands behind it");
        return;
    }
    bool same = find_used(evidence, first).any; /* judge_used() has found no other one */
    const struct check_item *state = same ? find_state(verdict, first) : NULL;
    if (state != NULL) {
        char name[400];
        verdict->cause = CAUSE_UNANNOTATED;
        sentence_say(verdict->text,
                     "%s, and the gradients of the step are equal, as the update gets them, too; %s, differs as well",
                     place, sentence_name_item(verdict, state, name));
        sentence_say(verdict->advice,
                     "the optimizer state that `%s` keeps is not the same on all ranks: annotate it with DDP_STATE, "
                     "behind initialisation and loading, and compute it behind DDP_STEP",
                     state->tensor.text);
        return;
    }
    sentence_say(verdict->text, "%s, and the gradients of the step are equal%s", place,
                 same ? ", as the update gets them, too" : "");
    sentence_say(verdict->advice, "%s",
                 is_common(evidence, first)
                     ? "all ranks have the same bits, and one rank has others: look for what depends on the number of "
                       "ranks or on the size of a share, and is the same on all ranks: a rate, a divisor, a count that "
                       "DDP_REDUCE has added up, a decision by averaged values"
                 : same ? "the update reads what is not the same on all ranks: a moment, a norm or an average that is "
                          "computed before DDP_STEP, from this rank's gradients; optimizer state that was loaded or "
                          "initialised on one rank (DDP_STATE); a learning rate or a decision on the host"
                 : step > 2
                     ? "the update of this step used something that is not the same on all ranks: a DDP_STEP "
                       "that is left out in some steps, or a decision on the host"
                     : "the update uses what is not averaged: a moment, a norm or an average that is computed before "
                       "DDP_STEP, or gradients that are clipped there; DDP_STEP stands in front of backward, within it "
                       "or behind the optimizer; optimizer state (DDP_STATE) or a decision on the host is not the same "
                       "on all ranks");
}

void
update_judge(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    const struct check_item *first = pattern->first;
    uint32_t role = first->tensor.role, step = first->first_step;
    bool few = pattern_is_few(pattern->differing[role], pattern->all[role]);
    if (find_note(&evidence->ranked[0], CHECK_ROW_AVERAGED, &first->tensor) != NULL)
        judge_averaged(evidence, verdict, first);
    else if (role == CHECK_GRADIENT && step > 1 &&
             (judge_updates(evidence, verdict, first) || judge_uneven(evidence, verdict, first) ||
              update_judge_clipping(evidence, verdict, first)))
        return;
    else if (role == CHECK_GRADIENT || role == CHECK_BUFFER || role == CHECK_MEAN)
        judge_later(evidence, verdict, first, few);
    else if (step > 1 && (judge_used(evidence, verdict, first) || judge_factor(evidence, verdict, first) ||
                          judge_gradients_of(evidence, verdict, pattern) || judge_states(evidence, verdict, pattern) ||
                          judge_updates(evidence, verdict, first)))
        return;
    else if (few && step > 1)
        judge_one(evidence, verdict, pattern);
    else
        judge_all(evidence, verdict, first);
}
