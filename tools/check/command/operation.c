/* operation.c - the facts of an operation (tools/check/place/operation.h), from what ranks and one process have kept of
 * it. */
#include "tools/check/command/relation.h"

#include "tools/near/numbers.h"

/* ---- memory ---- */

/* Whether all memory that the operation gets is the same on all ranks and in one process. */
static bool
gets_same(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        if (op->arguments[where.argument].is_memory && relation_of(finding, &where) != RELATION_SAME)
            return false;
    }
    return true;
}

/* Whether the numbers that the operation gets, and its results, are the same on all ranks. */
static bool
are_alike(const struct finding *finding, size_t at)
{
    for (struct where where = {.operation = at}; where.argument < finding->one.operations[at].header->arguments;
         ++where.argument) {
        const struct look_argument *first = relation_argument(finding, 0, &where);
        for (int r = 1; r < finding->question->ranks; ++r) {
            const struct look_argument *it = relation_argument(finding, r, &where);
            if (it->after != first->after || it->value != first->value)
                return false;
        }
    }
    return true;
}

/* Whether operation `at` gets a tensor of the role that an operation before has changed otherwise than in one
 * process, by what is of the rank alone. */
static bool
gets_changed(const struct finding *finding, size_t at, uint32_t role)
{
    const struct looked_operation *op = &finding->one.operations[at];
    FOR_EACH(it, op->arguments, op->header->arguments) {
        struct where by;
        if (!place_is_of(it, role) || !place_find_writer(&finding->one, at, it, finding->question->since, &by))
            continue;
        if (place_is_of(relation_argument(finding, -1, &by), role) && relation_of(finding, &by) != RELATION_SAME)
            return true;
    }
    return false;
}

/* Whether the argument is memory without annotation that the operation only reads. */
static bool
is_plain_input(const struct look_argument *it)
{
    return it->is_memory && it->tensor == 0 && it->end == 0;
}

static bool
gets_parameter(const struct looked_operation *op)
{
    return ANY(it, op->arguments, op->header->arguments, place_is_of(it, CHECK_PARAMETER));
}

/* Data of the batch that stay on the device are to be moved by `first`: what it gets that no operation has computed of
 * parameters, and all ranks get from the same place on. */
static void
find_unmoved(const struct finding *finding, size_t at, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[at];
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *of = &op->arguments[where.argument];
        struct where by;
        if (!is_plain_input(of))
            continue;
        bool is_computed =
            place_find_writer(&finding->one, at, of, 0, &by) && gets_parameter(&finding->one.operations[by.operation]);
        if (is_computed || relation_of(finding, &where) != RELATION_SAME)
            continue;
        snprintf(operation->unmoved, sizeof(operation->unmoved),
                 "; %s points to the same values on all ranks: if it holds the batch, add `first`",
                 ARGUMENT_OF(op, of));
        return;
    }
}

/* It reads memory that is in no relation to one process's, or has its rows. */
static bool
gets_rows(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *it = &op->arguments[where.argument];
        if (!it->is_memory || it->end > 0)
            continue;
        enum relation relation = relation_of(finding, &where);
        if (relation != RELATION_SAME && relation != RELATION_SUM)
            return true;
    }
    return false;
}

/* Fills operation->integers: the operation reads whole numbers of rows that are not those of one process. */
static void
find_integers(const struct finding *finding, size_t at, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[at];
    FOR_EACH(it, op->arguments, op->header->arguments) {
        struct where by;
        if (!it->is_memory || it->tensor != 0 ||
            !place_find_writer(&finding->one, at, it, finding->question->since, &by) ||
            relation_of(finding, &by) != RELATION_EXCUSED)
            continue;
        snprintf(operation->integers, sizeof(operation->integers), "%s", ARGUMENT_OF(op, it));
        (void)place_describe_element(finding, &by, operation->integers_element);
        (void)place_name_operation(&finding->one.operations[by.operation], operation->integers_writer);
        return;
    }
}

/* Whether another operation of the step, *by, has added the argument's memory up over the share. */
static bool
is_sum(const struct finding *finding, const struct where *where, struct where *by)
{
    const struct look_argument *of = relation_argument(finding, -1, where);
    if (!is_plain_input(of) || !place_find_writer(&finding->one, where->operation, of, finding->question->since, by))
        return false;
    const struct looked_operation *writer = &finding->one.operations[by->operation];
    bool is_computed = !writer->header->from_host && strcmp(writer->header->name, LOOK_REDUCES) != 0;
    return is_computed && relation_of(finding, where) == RELATION_SUM;
}

/* Fills operation->sum: the first argument that points to a value which was summed over the rank's share alone. */
static void
find_sum(const struct finding *finding, size_t at, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[at];
    struct place_sum *sum = &operation->sum;
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        struct where by;
        if (!is_sum(finding, &where, &by))
            continue;
        sum->is_there = true;
        snprintf(sum->argument, sizeof(sum->argument), "%s", ARGUMENT_OF(op, &op->arguments[where.argument]));
        (void)place_describe_element(finding, &where, sum->element);
        (void)place_name_operation(&finding->one.operations[by.operation], sum->writer);
        if (relation_missing_on(finding, by.operation) < 0)
            place_find_scalar(finding, by.operation, &sum->scalar);
        sum->weighs = !operation->is_late && !operation->is_early && place_weighs(finding, &by);
        return;
    }
}

/* Fills operation->gradient: the name of the first argument that is annotated as a gradient, and the element that
 * differs. */
static void
find_gradient(const struct finding *finding, size_t at, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[at];
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *it = &op->arguments[where.argument];
        if (!place_is_of(it, CHECK_GRADIENT))
            continue;
        snprintf(operation->gradient, sizeof(operation->gradient), "%s", ARGUMENT_OF(op, it));
        (void)place_describe_element(finding, &where, operation->gradient_element);
        return;
    }
}

/* Whether the operation changes a gradient that is annotated already: what fills the memory before its annotation is
 * no backward pass. */
static bool
changes_gradient(const struct looked_operation *op)
{
    return ANY(it, op->arguments, op->header->arguments,
               place_is_of(it, CHECK_GRADIENT) && it->end > 0 && !it->is_before);
}

/* Whether the operation changes a parameter before DDP_STEP, in a step in which no operation changes an annotated
 * gradient. */
static bool
is_backward(const struct finding *finding, const struct where *where)
{
    if (!finding->question->is_early || !place_is_of(relation_argument(finding, -1, where), CHECK_PARAMETER))
        return false;
    return !ANY(op, finding->one.operations, finding->one.count,
                place_has(finding->question, op) && changes_gradient(op));
}

/* Numbers with a fraction that are the same on all ranks and in one process, such as the factor of a decay. */
static void
find_equal_numbers(const struct finding *finding, size_t at, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[at];
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *number = &op->arguments[where.argument];
        if (number->is_memory || number->is_whole || !place_is_alike(finding, &where))
            continue;
        printable_append(operation->equal_number, sizeof(operation->equal_number), ", and %s is %s",
                         ARGUMENT_OF(op, number), VALUES_AT(finding, &where));
    }
}

/* ---- memory that nothing compares ---- */

/* The place that such memory is, found beside the finding's own; no text: there is none. */
static struct place
find_input(const struct finding *finding, size_t at, bool rows_too, int changed)
{
    struct place place = *finding->place;
    struct finding beside = *finding;
    beside.place = &place;
    if (!place_find_input(&beside, at, rows_too, changed))
        place.text[0] = '\0';
    return place;
}

/* Fills the inputs of the operation that could be wrong: in no relation to one process's; the rank's rows; and what the
 * operation overwrites. `changed`: number of the argument that it has changed wrongly. */
static void
find_inputs(const struct finding *finding, size_t at, uint32_t changed, struct operation *operation)
{
    operation->input = find_input(finding, at, false, -1);
    operation->input_of_rows = find_input(finding, at, true, -1);
    if (!operation->is_update)
        operation->input_besides = find_input(finding, at, true, (int)changed);
}

/* ---- copies ---- */

/* Whether the same call site makes the operation again after a later DDP_STEP, in one process. */
static bool
comes_again(const struct finding *finding, const struct looked_operation *op)
{
    FOR_EACH(it, finding->one.operations, finding->one.count) {
        if (it->header->interval > op->header->interval && relation_is_same_call(it->header, op->header))
            return true;
    }
    return false;
}

/* Fills what is asked of a copy from the host: whether it brings the share or the whole, and what the host computed it
 * from. */
static void
find_copy(const struct finding *finding, size_t at, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[at];
    struct finding beside = *finding;
    operation->items = *finding->place;
    beside.place = &operation->items;
    if (operation->is_update || !place_say_items(&beside, at))
        operation->items.text[0] = '\0';
    operation->copies_whole = place_copies_whole(finding, at);
    operation->has_rank_0_its_share = place_has_rank_0_its_share(finding, at);
    operation->comes_again = comes_again(finding, op);
    (void)place_describe_read(finding, at, operation->host_reads);
    (void)place_describe_origin(op, ORIGIN_OF_COPY, operation->host_writes);
}

/* ---- the operation ---- */

/* Fills the number of blocks in one process, and the first rank (-1: none) that launches another number. */
static void
find_grid(const struct finding *finding, size_t at, struct operation *operation)
{
    operation->blocks = finding->one.operations[at].header->blocks;
    operation->blocks_rank = -1;
    for (int r = 0; r < finding->question->ranks && operation->blocks_rank < 0; ++r) {
        uint64_t blocks = finding->ranks[r].operations[finding->ranks[r].matches[at]].header->blocks;
        if (blocks == operation->blocks)
            continue;
        operation->blocks_rank = r;
        operation->rank_blocks = blocks;
    }
}

/* Whether all that one process's operation has changed there is 0 then. */
static bool
clears(const struct finding *finding, const struct where *where)
{
    const struct look_argument *it = relation_argument(finding, -1, where);
    const struct contents *before = looked_find_contents(&finding->one, it->before),
                          *after = looked_find_contents(&finding->one, it->after);
    if (before == NULL || after == NULL || it->end > before->bytes || it->end > after->bytes)
        return false;
    OWNED_NUMBERS then = numbers_read(before, it->type, it->first, it->end);
    OWNED_NUMBERS now = numbers_read(after, it->type, it->first, it->end);
    return ALL_NUMBERS(i, 0, (int)now.count, now.values[i] == 0 || now.values[i] == then.values[i]);
}

bool
operation_clears_part(const struct finding *finding, const struct where *where)
{
    const struct where before = {.operation = where->operation, .argument = where->argument};
    if (finding->question->is_update || !place_is_of(relation_argument(finding, -1, where), CHECK_GRADIENT))
        return false;
    return relation_of(finding, &before) == RELATION_SAME && relation_of(finding, where) != RELATION_SAME &&
           clears(finding, where);
}

/* Fills what is asked of the argument that the operation has changed wrongly: its name, its role, the element that
 * differs. */
static void
find_changed(const struct finding *finding, const struct where *where, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    const struct look_argument *it = &op->arguments[where->argument];
    const struct place_question *question = finding->question;
    snprintf(operation->changed, sizeof(operation->changed), "%s", ARGUMENT_OF(op, it));
    (void)place_describe_element(finding, where, operation->changed_element);
    operation->is_tensor = it->tensor == question->tensor;
    operation->is_target = place_is_target(question, op, (uint32_t)where->argument);
    operation->is_of_gradient = place_is_of(it, CHECK_GRADIENT);
    operation->is_annotated = it->tensor != 0;
    operation->clears_part = operation_clears_part(finding, where);
    if (question->is_averaged) {
        uint32_t role = question->tensor >> 24 == 1 + CHECK_STATE ? CHECK_STATE : CHECK_PARAMETER;
        operation->gets_averageless = gets_changed(finding, where->operation, role);
        operation->is_part = relation_of(finding, where) == RELATION_PART;
    }
}

/* The operation has changed there rows of the share that are not one process's. */
static bool
are_wrong_rows(const struct finding *finding, const struct where *where)
{
    const struct look_argument *it = relation_argument(finding, -1, where);
    if (!it->is_memory || it->tensor != 0 || it->end == 0 || relation_is_result(finding, where))
        return false;
    return relation_of(finding, where) == RELATION_NONE;
}

/* What the operation changes at `changed`, or besides. */
static void
find_first_rows(const struct finding *finding, const struct where *changed, struct operation *operation)
{
    const struct looked_operation *op = &finding->one.operations[changed->operation];
    struct where found = *changed, other = {.operation = changed->operation, .after = true};
    bool any = operation->makes_rows && relation_are_rows_of_rank_0(finding, changed);
    for (; other.argument < op->header->arguments && !any; ++other.argument) {
        any = are_wrong_rows(finding, &other) && relation_are_rows_of_rank_0(finding, &other);
        found = any ? other : found;
    }
    if (!any)
        return;
    snprintf(operation->first_rows, sizeof(operation->first_rows), "%s",
             ARGUMENT_OF(op, &op->arguments[found.argument]));
    (void)place_describe_element(finding, &found, operation->first_rows_element);
}

/* Of a kernel, or a call of a library. */
static void
find_arguments(const struct finding *finding, const struct where *where, struct operation *operation)
{
    size_t at = where->operation;
    operation->gets_same = gets_same(finding, at);
    operation->are_alike = are_alike(finding, at);
    find_grid(finding, at, operation);
    place_find_scalar(finding, at, &operation->scalar);
    find_inputs(finding, at, (uint32_t)where->argument, operation);
    if (operation->is_update)
        return;
    operation->is_late = gets_changed(finding, at, CHECK_GRADIENT);
    operation->is_backward = is_backward(finding, where);
    operation->makes_rows = !relation_is_result(finding, where);
    find_first_rows(finding, where, operation);
    operation->adds_same_term = operation->is_late && relation_adds(finding, where, true) == RELATION_SAME;
    (void)place_describe_share(finding, at, operation->share_size);
    find_sum(finding, at, operation);
    operation->gets_rows = gets_rows(finding, at);
    find_unmoved(finding, at, operation);
    find_integers(finding, at, operation);
    find_gradient(finding, at, operation);
    find_equal_numbers(finding, at, operation);
}

void
operation_find(const struct finding *finding, size_t at, uint32_t changed, struct operation *operation)
{
    const struct place_question *question = finding->question;
    const struct looked_operation *op = &finding->one.operations[at];
    const struct where where = {.operation = at, .argument = changed, .after = true};
    *operation = (struct operation){.is_update = question->is_update,
                                    .is_early = question->is_early,
                                    .is_averaged = question->is_averaged,
                                    .is_of_reduce = question->is_reduced,
                                    .is_uneven = question->is_uneven,
                                    .is_probable = finding->place->is_probable,
                                    .is_reduce = strcmp(op->header->name, LOOK_REDUCES) == 0,
                                    .is_copy = op->header->from_host,
                                    .blocks_rank = -1};
    (void)place_name_operation(op, operation->name);
    find_changed(finding, &where, operation);
    if (operation->is_reduce)
        snprintf(operation->reduced, sizeof(operation->reduced), "%.100s",
                 op->header->place + strcspn(op->header->place, "\n") + 1);
    else if (operation->is_copy)
        find_copy(finding, at, operation);
    else
        find_arguments(finding, &where, operation);
}
