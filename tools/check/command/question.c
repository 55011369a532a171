/* question.c - see session.h. */
#include "tools/check/command/session.h"

#include "tools/check/evidence/items.h"
#include "tools/common/each.h"
#include "tools/near/near.h"

#include <math.h>

enum { UNSEEN_AT_MOST = 8 /* steps that are looked at before an update */ };

bool
question_is_divided(const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    bool is_part = verdict->cause == CAUSE_SCALE && fabs(verdict->factor * evidence->ranks - 1) < 0.02;
    return is_part && !check_evidence_takes_turns(evidence); /* in turns no batch is divided */
}

bool
question_is_exact(const struct check_facts *facts)
{
    return facts->bearable <= ITEMS_BEARABLE * near_tolerance(0);
}

/* The interval in which a tensor comes about that differs in the step: of what DDP_REDUCE finds, of the round before,
 * too. */
static uint32_t
first_interval(uint32_t role, uint32_t step)
{
    if (role != CHECK_REDUCE)
        return step - 1;
    return step > 2 ? step - 2 : 0;
}

/* How many elements of the gradient were annotated in the step, or last before it: another life of the program may have
 * annotated fewer. */
static uint64_t
count_in_step(const struct check_evidence *evidence, const struct check_item *gradient, uint32_t step)
{
    uint64_t count = gradient->tensor.count;
    EACH_ROW_OF(row, &evidence->ranked[0], CHECK_GRADIENT) {
        if (row->step <= step && check_same_tensor(&row->tensor, &gradient->tensor))
            count = row->tensor.count;
    }
    return count;
}

/* The tensor that differs, if a parameter of its size has no annotated gradient; else NULL. */
static const struct check_tensor *
find_forgotten(const struct check_evidence *evidence, const struct check_facts *facts, const struct check_item *first)
{
    const struct check_tensor *tensor = &first->tensor;
    int64_t elements = 0, alike = 0; /* of gradients that are missing; and gradients as large as this tensor */
    FOR_EACH(item, facts->items, facts->item_count) {
        bool needs_gradient = item->tensor.role == CHECK_PARAMETER && item->moved && !item->is_averaged,
             is_gradient = item->tensor.role == CHECK_GRADIENT;
        int more = needs_gradient - is_gradient;
        uint64_t count = is_gradient ? count_in_step(evidence, item, first->made_in_step) : item->tensor.count;
        elements += (int64_t)count * more;
        if (count == tensor->count && item->tensor.type == tensor->type)
            alike += more;
    }
    return elements > 0 && alike > 0 ? tensor : NULL;
}

/* Whether the program names groups of gradients (DDP_GRADIENT_GROUP). */
static bool
has_groups(const struct check_evidence *evidence, const struct check_facts *facts)
{
    if (check_rows_find(&evidence->ranked[0], CHECK_ROW_UNSTEPPED) != NULL)
        return true;
    return ANY(item, facts->items, facts->item_count, item->tensor.role == CHECK_GRADIENT && item->tensor.group > 0);
}

/* Whether a gradient was compared in this step. */
static bool
is_compared(const struct check_rows *rows, uint32_t step)
{
    EACH_ROW_OF(row, rows, CHECK_GRADIENT) {
        if (row->step == step)
            return true;
    }
    return false;
}

/* Gradients from this interval on, of the last few before the update, were not compared. */
static uint32_t
find_unseen(const struct check_evidence *evidence, uint32_t interval)
{
    uint32_t unseen = interval > UNSEEN_AT_MOST ? interval - UNSEEN_AT_MOST : 0;
    while (unseen < interval && is_compared(&evidence->ranked[0], unseen + 1))
        ++unseen;
    return unseen;
}

/* Of what differs first. What is compared when a step begins, the step before has changed; what DDP_STEP_PARAMETERS
 * averages, before it. */
struct place_question
question_find(const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    const struct check_item *first = verdict->first;
    const struct check_row *shard = check_rows_find(&evidence->ranked[0], CHECK_ROW_SHARD),
                           *gradient = check_rows_next_of(&evidence->ranked[0], CHECK_GRADIENT, NULL);
    uint32_t role = first->tensor.role, step = first->first_step;
    /* Of another group than the one whose DDP_STEP counts the steps: it comes about after that. */
    bool is_later = role == CHECK_GRADIENT && gradient != NULL && gradient->tensor.group != first->tensor.group,
         is_reduced = role == CHECK_REDUCE, is_averaged = first->is_averaged && step > 1,
         is_of_start = step == 1 && (role == CHECK_PARAMETER || role == CHECK_STATE || role == CHECK_BUFFER);
    struct place_question question = {
        .tensor = role != CHECK_MEMORY ? (role + 1) << 24 | first->tensor.number : 0,
        .by = first->tensor.text,
        .argument = first->tensor.argument,
        .since = first_interval(role, step),
        .interval = is_reduced || is_later ? step : step - 1,
        .differs = first->differs,
        .is_reduced = is_reduced,
        .is_averaged = is_averaged,
        .is_early = is_averaged || is_of_start,
        .is_uneven = verdict->cause == CAUSE_INDIVISIBLE,
        .items = shard != NULL && shard->value > 1 ? shard->value : 0,
        .is_divided = question_is_divided(evidence, verdict),
        .is_rounded = !question_is_exact(verdict->facts),
        .is_undone = verdict->facts->undone != 0,
        .takes_turns = check_evidence_takes_turns(evidence),
        .forgotten = find_forgotten(evidence, verdict->facts, first),
        .lacks_gradients = verdict->facts->trained_elements > verdict->facts->gradient_elements,
        .has_graphs = verdict->facts->has_graphs,
        .has_groups = has_groups(evidence, verdict->facts),
    };
    question.is_update = role != CHECK_GRADIENT && !is_reduced && !question.is_early;
    if (question.is_averaged)
        question.since = --question.interval;
    question.unseen = question_is_exact(verdict->facts) ? find_unseen(evidence, question.interval) : question.interval;
    return question;
}
