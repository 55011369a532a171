/*
 * place.c - see place_question.h.
 *
 * Backwards from the tensor that differs, through the memory that operations of one rank change and get, come the
 * operations that it depends on. Forwards through these, the first that changes memory into something without a
 * relation (relation.h) is the place.
 */
#include "tools/check/command/relation.h"

#include "launcher/common/xcalloc.h"
#include "tools/check/place/rows.h"
#include "tools/near/element.h"

#include <math.h>

/* An update comes after the DDP_STEP of its own group: what is before that counts to the interval before. */
static void
begin_at_own_step(const struct place_question *question, const struct looked *looked)
{
    size_t last = 0, begin = 0;
    for (size_t i = 0; i < looked->count; ++i) {
        last = strcmp(looked->operations[i].header->name, LOOK_STEPS) == 0 ? i : last;
        for (uint32_t a = 0; a < looked->operations[i].header->arguments; ++a)
            begin = place_is_target(question, &looked->operations[i], a) ? last : begin;
    }
    for (size_t i = 0; i < begin; ++i)
        looked->operations[i].header->interval -= looked->operations[i].header->interval == question->interval;
}

/* Whether the operation is a copy from the host to memory that no operation is given. */
static bool
is_unseen(const struct looked *one, size_t at)
{
    const struct looked_operation *copy = &one->operations[at];
    return copy->header->from_host && !ANY(it, one->operations, one->count,
                                           it != copy && !it->header->from_host &&
                                               ANY(of, it->arguments, it->header->arguments,
                                                   of->is_memory && place_reaches(&copy->arguments[0], of)));
}

/* Fills finding->matters, backwards: an operation matters if it changes what one that matters gets, or the tensor
 * itself. False: none does. */
static bool
find_what_matters(struct finding *finding)
{
    const struct place_question *question = finding->question;
    const struct looked *one = &finding->one;
    bool any = false;
    free(finding->matters);
    finding->matters = xcalloc(one->count, sizeof(*finding->matters));
    for (size_t at = one->count; at-- > 0;) {
        const struct looked_operation *op = &one->operations[at];
        for (uint32_t a = 0; a < op->header->arguments; ++a)
            finding->matters[at] |= place_is_target(question, op, a) ? 1U << a : 0;
        any = any || finding->matters[at] != 0;
        FOR_EACH_UNTIL(it, op->arguments, op->header->arguments, finding->matters[at] == 0) {
            /* All of them: one may fill rows, the next others. */
            for (struct where by = {.operation = at};
                 it->is_memory && place_find_writer(one, by.operation, it, question->since, &by);)
                finding->matters[by.operation] |= 1U << by.argument;
        }
        if (any && finding->matters[at] == 0 && is_unseen(one, at))
            finding->matters[at] = MATTERS_UNSEEN;
    }
    return any;
}

/* The operation has changed the argument into something without relation. */
static bool
say_operation(const struct finding *finding, size_t at, uint32_t changed)
{
    struct operation operation;
    operation_find(finding, at, changed, &operation);
    return place_choose(&operation, finding->place);
}

/* How often the call is made in the interval. */
static size_t
count_calls(const struct looked *looked, const struct looked_operation *op)
{
    size_t count = 0;
    for (size_t i = 0; i < looked->count; ++i)
        count += looked_is_one_call(&looked->operations[i], op);
    return count;
}

/* Says that the rank makes the operation, and one process does not (`makes`), or the other way round. False: before
 * DDP_STEP a call that all ranks together make as often as one process is a loop over records, and right. */
static bool
say_missing(const struct finding *finding, const struct looked_operation *op, size_t at, int rank, bool makes)
{
    size_t one = count_calls(&finding->one, op), own = count_calls(&finding->ranks[rank], op), all = 0;
    for (int r = 0; r < finding->question->ranks; ++r)
        all += count_calls(&finding->ranks[r], op);
    if (!finding->question->is_update && one > 0 && own > 0 && all == one)
        return false;
    if (one > 0 && own > 0)
        place_say(finding, PLACE_MISSING, op, NULL, place_same_decision,
                  "rank %d makes it %zu time%s in the step, and one process %zu time%s", rank, own, own == 1 ? "" : "s",
                  one, one == 1 ? "" : "s");
    else
        place_say(finding, PLACE_MISSING, op, NULL, place_same_decision,
                  makes ? "rank %d makes it, and one process does not" : "one process makes it, and rank %d does not",
                  rank);
    place_add(finding, "%s", place_describe_origin(op, ORIGIN_OF_DECISION, (char[OPERATION_SENTENCE_BYTES]){""}));
    place_add_read(finding, at);
    return true;
}

/* Says that an operation which a rank does not make, the first of several, has changed what operation `at` gets.
 * Whether there is one. */
static bool
say_missing_before(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    struct where by;
    for (uint32_t a = 0; a < op->header->arguments; ++a) {
        bool is_written = op->arguments[a].is_memory &&
                          place_find_writer(&finding->one, at, &op->arguments[a], finding->question->since, &by);
        int rank = is_written ? relation_missing_on(finding, by.operation) : -1;
        if (rank >= 0)
            return say_missing_before(finding, by.operation) ||
                   say_missing(finding, &finding->one.operations[by.operation], by.operation, rank, false);
    }
    return false;
}

/* Says the first operation which this rank makes, and one process does not, that changes what operation `at` of one
 * process gets; with at == one.count: that changes the tensor itself. False: there is none. */
static bool
find_extra(const struct finding *finding, int rank, size_t at)
{
    const struct looked *one = &finding->one, *looked = &finding->ranks[rank];
    size_t end = at < one->count ? (size_t)looked->matches[at] : looked->count;
    for (size_t i = 0; i < end; ++i) {
        bool is_extra = at == one->count || !ANY(k, looked->matches, one->count, *k == (int)i), changes = false;
        for (uint32_t a = 0; a < looked->operations[i].header->arguments && is_extra; ++a) {
            changes = changes || (at == one->count && place_is_target(finding->question, &looked->operations[i], a));
            for (uint32_t b = 0; at < one->count && b < looked->operations[end].header->arguments; ++b)
                changes = changes ||
                          (looked->operations[end].arguments[b].is_memory &&
                           place_reaches(&looked->operations[i].arguments[a], &looked->operations[end].arguments[b]));
        }
        /* Before DDP_STEP one that one process never makes may be right, such as one that clears what is reduced. */
        if (changes && place_has(finding->question, &looked->operations[i]) &&
            (finding->question->is_update || at == one->count || count_calls(one, &looked->operations[i]) > 0))
            return say_missing(finding, &looked->operations[i], at, rank, true);
    }
    return false;
}

static bool
find_all_extra(const struct finding *finding, size_t at)
{
    return ANY_NUMBER(r, 0, finding->question->ranks, find_extra(finding, r, at));
}

/* Says an update that only the rank makes, after all that one process makes: a restored checkpoint, best weights.
 * False: there is none. */
static bool
find_own_update(const struct finding *finding, int rank)
{
    const struct looked *looked = &finding->ranks[rank];
    for (size_t i = 0; i < looked->count; ++i) {
        const struct looked_operation *op = &looked->operations[i];
        if (ANY(k, looked->matches, finding->one.count, *k == (int)i) || !place_has(finding->question, op))
            continue;
        if (ANY_NUMBER(a, 0, op->header->arguments, place_is_target(finding->question, op, a)))
            return say_missing(finding, op, finding->one.count, rank, true);
    }
    return false;
}

static bool
find_all_own_updates(const struct finding *finding)
{
    return finding->question->is_update && ANY_NUMBER(r, 0, finding->question->ranks, find_own_update(finding, r));
}

/* Whether the argument held other bits on some rank than on rank 0: what DDP_STEP has averaged does not. */
static bool
differs_between_ranks(const struct finding *finding, const struct where *where)
{
    return ANY_NUMBER(r, 1, finding->question->ranks,
                      relation_argument(finding, r, where)->before != relation_argument(finding, 0, where)->before);
}

/* Whether the memory was computed from a gradient after DDP_STEP, as its norm is. */
static bool
is_of_gradient(const struct finding *finding, size_t at, const struct look_argument *it)
{
    const struct looked_operation *operations = finding->one.operations;
    struct where by;
    return place_find_writer(&finding->one, at, it, operations[at].header->interval, &by) &&
           ANY(of, operations[by.operation].arguments, operations[by.operation].header->arguments,
               place_is_of(of, CHECK_GRADIENT));
}

/* Whether the operation reads memory without annotation, no gradient, whose values on the ranks are not one
 * process's. */
static bool
reads_own_rows(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    FOR_EACH(it, op->arguments, op->header->arguments) {
        const struct where read = {.operation = at, .argument = (size_t)(it - op->arguments)};
        bool may_be = it->is_memory && it->tensor == 0 && it->end == 0 && !is_of_gradient(finding, at, it);
        if (may_be && relation_of(finding, &read) != RELATION_SAME)
            return true;
    }
    return false;
}

/* Whether no rank has changed the gradient since the last DDP_STEP; one process need not make the operation. */
static bool
is_as_it_was(const struct finding *finding, const struct where *gradient)
{
    const struct looked *ranks = finding->ranks;
    uint32_t interval = finding->one.operations[gradient->operation].header->interval;
    struct where by;
    return ALL_NUMBERS(r, 0, finding->question->ranks,
                       !place_find_writer(&ranks[r], (size_t)ranks[r].matches[gradient->operation],
                                          relation_argument(finding, r, gradient), interval, &by));
}

/* True: the gradient is the rank's own. The last operation that has changed it since the last DDP_STEP reads the rank's
 * own rows, so it is of backward (*by_p); or no operation has changed it. False: it is an average that has been
 * changed, as by clipping after DDP_STEP. */
static bool
is_of_backward(const struct finding *finding, struct where gradient, struct where *by_p)
{
    const struct looked *one = &finding->one;
    uint32_t interval = one->operations[gradient.operation].header->interval;
    struct where by;
    bool is_first = true;
    *by_p = gradient;
    while (place_find_writer(one, gradient.operation, &one->operations[gradient.operation].arguments[gradient.argument],
                             interval, &by)) {
        *by_p = by;
        if (reads_own_rows(finding, by.operation))
            return true;
        gradient = (struct where){.operation = by.operation, .argument = by.argument};
        if (relation_missing_on(finding, by.operation) >= 0 || !differs_between_ranks(finding, &gradient))
            return false;
        is_first = false;
    }
    return is_first ? is_as_it_was(finding, &gradient) : true;
}

/* Of operations between backward and an update, the first that reads a gradient of the rank's own, such as one that
 * takes its norm; else the update. */
static struct where
find_reader(const struct finding *finding, struct where update)
{
    const struct looked_operation *operations = finding->one.operations;
    struct where found = update;
    for (size_t at = update.operation; at-- > 0 && place_has(finding->question, &operations[at]);) {
        for (uint32_t a = operations[at].header->arguments; a-- > 0;) {
            const struct where where = {.operation = at, .argument = a};
            bool is_gradient = place_is_of(&operations[at].arguments[a], CHECK_GRADIENT);
            if (is_gradient && operations[at].arguments[a].end > 0)
                return found;
            if (is_gradient && finding->matters[at] != 0 && relation_missing_on(finding, at) < 0 &&
                differs_between_ranks(finding, &where))
                found = where;
        }
    }
    return update;
}

/* Says that a parameter is updated by a gradient that each rank still has of its own: its DDP_STEP comes later, or
 * never. Whether it is so. */
static bool
say_unaveraged(const struct finding *finding)
{
    struct where by;
    for (struct where where = {.operation = 0}; where.operation < finding->one.count && !finding->question->is_averaged;
         ++where.operation) {
        const struct looked_operation *op = &finding->one.operations[where.operation];
        bool updates = place_has(finding->question, op) &&
                       ANY(it, op->arguments, op->header->arguments, place_is_of(it, CHECK_PARAMETER) && it->end > 0);
        for (where.argument = 0; where.argument < op->header->arguments && updates; ++where.argument) {
            const struct look_argument *of = &op->arguments[where.argument];
            bool is_gradient = place_is_of(of, CHECK_GRADIENT) && of->end == 0;
            if (!is_gradient || relation_missing_on(finding, where.operation) >= 0 ||
                !differs_between_ranks(finding, &where) || !is_of_backward(finding, where, &by))
                continue;
            const struct where reader = find_reader(finding, where);
            bool is_other = reader.operation != where.operation;
            const struct looked_operation *first = &finding->one.operations[reader.operation];
            of = &first->arguments[reader.argument];
            bool is_written = by.operation < reader.operation;
            place_say(finding, PLACE_BEFORE, first, &reader,
                      finding->question->has_groups
                          ? "call DDP_STEP_GROUP of this gradient's group between backward and this update; the group "
                            "is that of the last DDP_GRADIENT_GROUP before the gradient's DDP_GRADIENT"
                          : "call DDP_STEP between backward and this operation",
                      "%s%s points to a gradient that DDP_STEP has not averaged%s%.260s%s",
                      is_other ? "" : "it updates a parameter, and ", ARGUMENT_OF(first, of),
                      is_written ? " since " : "", is_written ? NAME_OF(&finding->one.operations[by.operation]) : "",
                      is_written ? " computed it" : "");
            if (is_other)
                place_add(finding, "; then %.200s updates a parameter by it", NAME_OF(op));
            finding->place->tensor = of->tensor;
            return true;
        }
    }
    return false;
}

/* Says that the host computes the parameter from a gradient that it has read before DDP_STEP, and does not read
 * after it. Whether it does. */
static bool
say_read_early(const struct finding *finding)
{
    const struct place_question *question = finding->question;
    const struct looked *one = &finding->one;
    const struct looked_operation *to =
        FIND(op, one->operations, one->count,
             op->header->from_host && op->header->arguments > 0 && place_is_target(question, op, 0));
    for (struct where where = {0}; to != NULL && question->is_update && where.operation < one->count;
         ++where.operation) {
        const struct looked_operation *op = &one->operations[where.operation];
        bool reads = strncmp(op->header->name, "cuMemcpyDtoH", strlen("cuMemcpyDtoH")) == 0 &&
                     op->header->interval + 1 == question->interval &&
                     relation_missing_on(finding, where.operation) < 0;
        for (where.argument = 0; where.argument < op->header->arguments && reads; ++where.argument) {
            const struct look_argument *of = &op->arguments[where.argument];
            if (!place_is_of(of, CHECK_GRADIENT) || relation_of(finding, &where) != RELATION_SUM ||
                !differs_between_ranks(finding, &where) ||
                ANY(other, one->operations, (size_t)(to - one->operations),
                    other->header->interval == question->interval &&
                        strcmp(other->header->name, op->header->name) == 0 &&
                        ANY(it, other->arguments, other->header->arguments, it->tensor == of->tensor)))
                continue;
            place_say(finding, PLACE_BEFORE, op, &where, "call DDP_STEP between backward and this copy",
                      "%s points to a gradient that DDP_STEP has not averaged", ARGUMENT_OF(op, of));
            place_add(finding, "; then %.200s copies a parameter from the host", NAME_OF(to));
            finding->place->tensor = of->tensor;
            return true;
        }
    }
    return false;
}

static uint64_t
elements_of(const struct look_argument *it)
{
    return it->bytes / element_size(it->type);
}

static uint64_t
elements_changed(const struct look_argument *it)
{
    return (it->end - it->first) / element_size(it->type);
}

/* Says that the update changes more of the parameter than DDP_GRADIENT names of its gradient, or memory after the
 * end of what DDP_PARAMETER names, by the same pointer. Whether it does. */
static bool
say_part(const struct finding *finding)
{
    const struct place_question *question = finding->question;
    bool is_behind =
        question->tensor == 0 &&
        !ANY(op, finding->one.operations, finding->one.count,
             ANY_NUMBER(a, 0, op->header->arguments, op->arguments[a].tensor == 0 && place_is_target(question, op, a)));
    FOR_EACH_UNTIL(op, finding->one.operations, finding->one.count, !is_behind && question->forgotten == NULL) {
        const struct look_argument *changed = NULL, *of = NULL;
        for (uint32_t a = 0; a < op->header->arguments; ++a) {
            bool is_it =
                place_is_target(question, op, a) && (!is_behind || place_is_of(&op->arguments[a], CHECK_PARAMETER));
            changed = is_it ? &op->arguments[a] : changed;
            of = place_is_of(&op->arguments[a], CHECK_GRADIENT) ? &op->arguments[a] : of;
        }
        if (changed == NULL || (!is_behind && (of == NULL || elements_changed(changed) <= elements_of(of))))
            continue;
        uint64_t named = of != NULL ? elements_of(of) : 0;
        if (is_behind)
            place_say(finding, PLACE_BEFORE, op, NULL, NULL,
                      "by %s it updates more than the %llu elements that DDP_PARAMETER names", ARGUMENT_OF(op, changed),
                      (unsigned long long)elements_of(changed));
        else
            place_say(finding, PLACE_BEFORE, op, NULL,
                      "annotate the whole gradient: DDP_GRADIENT with all elements of its parameter, and its type",
                      "it changes %llu elements of the parameter", (unsigned long long)elements_changed(changed));
        if (of != NULL)
            place_add(finding, "; of the gradient that %s points to, DDP_GRADIENT %s %llu", ARGUMENT_OF(op, of),
                      is_behind ? "names" : "annotates only", (unsigned long long)named);
        finding->place->tensor = of != NULL ? of->tensor : changed->tensor;
        return true;
    }
    return false;
}

/* Of an update: what each operation changes is right, and adds to something that is not. */
static bool
say_added(const struct finding *finding)
{
    bool is = false;
    for (size_t at = 0; at < finding->one.count && finding->question->is_update && !is; ++at)
        is = finding->matters[at] != 0 && place_has(finding->question, &finding->one.operations[at]) &&
             place_find_input(finding, at, false, -1);
    return is;
}

/* Whether an operation that some ranks do not make changes the tensor; of a gradient: not so that the mean is right. */
static bool
makes_wrong(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    return ANY_NUMBER(a, 0, op->header->arguments,
                      place_is_target(finding->question, op, a) &&
                          (finding->question->is_update ||
                           relation_adds(finding, &(struct where){at, a, .after = true}, true) != RELATION_SUM));
}

/* Whether what the operation has changed there has no relation to one process's that leads to the tensor. */
static bool
is_wrong(const struct finding *finding, const struct where *where, enum relation relation)
{
    const struct place_question *question = finding->question;
    bool must_be_same = question->is_update || (question->is_early && !question->is_averaged) ||
                        (question->is_reduced && place_is_target(question, &finding->one.operations[where->operation],
                                                                 (uint32_t)where->argument));
    return (relation == RELATION_NONE || relation == RELATION_PART || (must_be_same && relation != RELATION_SAME)) &&
           !relation_is_anew(finding, where->operation, where->argument);
}

/* Whether the next operation that gets what this one has changed there overwrites all of it and makes nothing wrong.
 * Where changes are compared, it may also add to it. */
static bool
is_overwritten(const struct finding *finding, const struct where *where)
{
    const struct looked *one = &finding->one;
    const struct look_argument *it = relation_argument(finding, -1, where), *by;
    struct where next = {.operation = where->operation + 1, .after = true};
    bool covers = false, adds = finding->question->is_update || finding->question->is_early;
    while (next.operation < one->count &&
           !ANY(of, one->operations[next.operation].arguments, one->operations[next.operation].header->arguments,
                of->is_memory && place_reaches(it, of)))
        ++next.operation;
    for (; next.operation < one->count && next.argument < one->operations[next.operation].header->arguments;
         ++next.argument) {
        by = &one->operations[next.operation].arguments[next.argument];
        enum relation relation = by->is_memory && by->end > 0 ? relation_of(finding, &next) : RELATION_SAME;
        if (relation == RELATION_UNKNOWN || is_wrong(finding, &next, relation))
            return false;
        covers = covers || (by->is_memory && by->address + by->first <= it->address + it->first &&
                            it->address + it->end <= by->address + by->end);
    }
    return covers && !adds;
}

/* Whether the ranks' terms that an operation adds to a gradient are parts of one process's term: their mean is the
 * Nth of it. */
static bool
adds_part(const struct finding *finding, const struct where *where)
{
    return relation_adds(finding, where, true) == RELATION_PART;
}

/* Whether the operation adds to a gradient a term that is divided by the batch, and another operation one whose mean
 * is right, or the other way round. */
static bool
mixes_divisors(const struct finding *finding, const struct where *where)
{
    const struct look_argument *it = relation_argument(finding, -1, where);
    struct where by;
    if (finding->question->is_update || !place_is_of(it, CHECK_GRADIENT))
        return false;
    if (!place_find_writer(&finding->one, where->operation, it, finding->question->since, &by))
        return false;
    if (relation_missing_on(finding, by.operation) >= 0 || relation_missing_on(finding, where->operation) >= 0)
        return false;
    bool is_part = adds_part(finding, where), was_part = adds_part(finding, &by);
    return is_part != was_part &&
           (is_part ? relation_adds(finding, &by, true) : relation_adds(finding, where, true)) == RELATION_SUM;
}

/* Says that a term of the gradient is divided by the whole batch and another by the share. Whether it is so. */
static bool
say_mixed_divisor(const struct finding *finding, const struct where *where)
{
    if (!mixes_divisors(finding, where) || !place_find_divisor(finding))
        return false;
    finding->place->kind = PLACE_TERM;
    finding->place->advice = "this term is divided by the whole batch, and another one of the same gradient by the "
                             "rank's share: divide by the share (the count of DDP_SHARD), as DDP_STEP averages";
    return true;
}

/* Fills finding->place with the first operation of the step, in the order of one process, that is wrong although all
 * that it reads is right. False: there is none. Called once by place_find(). */
static bool
find_place(struct finding *finding)
{
    const struct place_question *question = finding->question;
    for (size_t at = 0; at < finding->one.count; ++at) {
        const struct looked_operation *op = &finding->one.operations[at];
        if (finding->matters[at] == 0 || !place_has(question, op))
            continue;
        int missing_on = relation_missing_on(finding, at);
        if (missing_on >= 0 && place_say_no_memory(finding, op, missing_on))
            return true;
        if (missing_on >= 0) { /* what it makes may not be used */
            bool is_alone = say_missing(finding, op, at, missing_on, false);
            if (!is_alone || makes_wrong(finding, at))
                return say_missing_before(finding, at) || is_alone;
            continue;
        }
        if (question->is_update && find_all_extra(finding, at))
            return true;
        if (question->is_update && !relation_changes_same(finding, at) && place_say_scalar(finding, at, SCALAR_PART))
            return true;
        for (struct where where = {.operation = at, .after = true}; where.argument < op->header->arguments;
             ++where.argument) {
            bool is_data = question->is_update && op->header->from_host && !place_copies_whole(finding, at);
            bool is_other = question->is_early && !question->is_averaged &&
                            strcmp(op->header->name, LOOK_REDUCES) != 0 &&
                            !place_is_target(question, op, (uint32_t)where.argument);
            bool is_used = (finding->matters[at] & (MATTERS_UNSEEN | 1U << where.argument)) != 0;
            const struct look_argument *it = &op->arguments[where.argument];
            /* Its annotation gives all ranks rank 0's values, which are one process's. */
            bool begins_alike = it->is_before && !place_is_of(it, CHECK_GRADIENT) &&
                                relation_argument(finding, 0, &where)->after == it->after;
            if (is_other || !is_used || !it->is_memory || it->end == 0 || is_data || begins_alike)
                continue;
            enum relation relation = relation_of(finding, &where);
            if (relation == RELATION_UNKNOWN) { /* too much was left out */
                finding->place->is_probable = true;
                if (place_say_scalar(finding, at, SCALAR_PART))
                    return true;
                continue;
            }
            bool is_left = operation_clears_part(finding, &where);
            if ((is_left || is_wrong(finding, &where, relation)) && !is_overwritten(finding, &where))
                return say_missing_before(finding, at) || find_all_extra(finding, at) ||
                       say_mixed_divisor(finding, &where) || say_operation(finding, at, (uint32_t)where.argument) ||
                       say_added(finding);
        }
    }
    return say_added(finding) || find_all_own_updates(finding);
}

/* Finds the place of gradients that were not compared, as where one rank's update changes nothing, or comes after
 * several DDP_STEPs. False: there is none. */
static bool
find_unseen(struct finding *finding)
{
    const struct place_question *question = finding->question;
    struct place_question before = *question;
    bool found = false;
    before.is_update = false;
    finding->question = &before;
    FOR_EACH_UNTIL(op, finding->one.operations, finding->one.count, found) {
        bool is_unseen = op->header->interval >= question->unseen && op->header->interval < question->interval;
        for (uint32_t a = 0; a < op->header->arguments && is_unseen && !found; ++a) {
            before.tensor = place_is_of(&op->arguments[a], CHECK_GRADIENT) && op->arguments[a].end > 0
                                ? op->arguments[a].tensor
                                : 0;
            before.since = before.interval = op->header->interval;
            found = before.tensor != 0 && find_what_matters(finding) &&
                    (place_is_in_parts(finding) ? place_find_in_parts(finding) : find_place(finding));
        }
    }
    finding->place->is_before = found && before.interval + 1 < question->interval;
    finding->question = question;
    return found;
}

/* Finds the place among the operations of the step that lead to the tensor. False: none is it. */
static bool
find_in_step(struct finding *finding)
{
    const struct place_question *question = finding->question;
    if (say_unaveraged(finding) || place_say_without_step(finding) || say_read_early(finding) || say_part(finding))
        return true;
    if (question->is_divided)
        return place_find_divisor(finding);
    if (!question->is_update && !question->is_early && place_is_in_parts(finding))
        return place_find_in_parts(finding);
    return find_place(finding);
}

bool
place_find(const struct place_question *question, struct place *place)
{
    struct finding finding = {.question = question, .place = place};
    *place = (struct place){.text = "", .is_probable = question->is_rounded && !question->is_update};
    bool ok = relation_load(&finding, &place->is_lost);
    for (int r = 0; r <= question->ranks && ok && question->is_update; ++r)
        begin_at_own_step(question, r > 0 ? &finding.ranks[r - 1] : &finding.one);
    bool found = ok && question->is_update && find_unseen(&finding), any = ok && find_what_matters(&finding);
    found = found || (any && find_in_step(&finding));
    found = found || (ok && !any && find_all_extra(&finding, finding.one.count)) || (ok && place_say_host(&finding));
    relation_free(&finding);
    return found;
}
