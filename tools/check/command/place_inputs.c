/*
 * place_inputs.c - an operation gets memory that nothing compares, and that is not one process's (relation.h): which
 * memory, and which operation has written it?
 */
#include "tools/check/command/relation.h"

#include "tools/near/element.h"

static const char annotate_memory[] =
    "if this memory depends on the batch, reduce it over the batch (DDP_REDUCE), or fill it from the rows of the whole "
    "batch. Else annotate it: DDP_PARAMETER and DDP_GRADIENT if it is trained, DDP_STATE if it must be equal on all "
    "ranks, DDP_BUFFER for running statistics";

/* ---- parts of sentences ---- */

/* Whether the argument's memory is the rank's own part of a sum, which no DDP_REDUCE has added up. */
static bool
is_own_sum(const struct finding *finding, const struct where *where)
{
    const struct look_argument *of = relation_argument(finding, -1, where);
    return of->is_memory && of->tensor == 0 && of->end == 0 && relation_of(finding, where) == RELATION_SUM;
}

/* Appends the first such memory that the operation has got. */
static void
add_sums(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    if (relation_missing_on(finding, at) >= 0)
        return;
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        if (!is_own_sum(finding, &where))
            continue;
        place_add(finding, "; its %s points to values of the rank's share alone",
                  ARGUMENT_OF(op, &op->arguments[where.argument]));
        place_add_values(finding, &where);
        return;
    }
}

/* ---- a gradient without annotation ---- */

/* Whether the operation gets a gradient without annotation: the memory, or in a pool the last byte that the writer
 * has written of it, is as large as the gradient that is missing. */
static bool
is_forgotten(const struct finding *finding, const struct look_argument *of, const struct where *writer)
{
    const struct check_tensor *lost = finding->question->forgotten;
    const struct looked_operation *by = &finding->one.operations[writer->operation];
    if (lost == NULL || by->header->from_host)
        return false;
    uint64_t bytes = lost->count * element_size((int)lost->type);
    uint64_t written = by->arguments[writer->argument].address + by->arguments[writer->argument].end - of->address;
    if (of->is_part)
        return bytes >= of->bytes;
    return bytes == of->bytes || bytes == written;
}

/* Says that the memory, which `writer` wrote, is a gradient without DDP_GRADIENT, if a parameter of its size has none.
 * Whether it does. */
static bool
say_forgotten(const struct finding *finding, const struct looked_operation *op, const struct look_argument *of,
              const struct where *writer)
{
    const struct check_tensor *lost = finding->question->forgotten;
    if (!is_forgotten(finding, of, writer))
        return false;
    place_say(finding, PLACE_UNNAMED, op, NULL,
              "annotate this gradient with DDP_GRADIENT, with as many elements as its parameter",
              "%s, %llu element%s, written by %.260s, has no DDP_GRADIENT and feeds a parameter", ARGUMENT_OF(op, of),
              (unsigned long long)lost->count, lost->count == 1 ? "" : "s",
              NAME_OF(&finding->one.operations[writer->operation]));
    FOR_EACH(it, op->arguments, op->header->arguments) {
        if (place_is_of(it, CHECK_PARAMETER) && it->end > 0)
            finding->place->tensor = it->tensor;
    }
    return true;
}

/* ---- memory of steps before ---- */

/* The operation has left what `read` gets, and that is not one process's. RELATION_SAME: it has not, or it is. */
static enum relation
left_wrong(const struct finding *finding, const struct where *left, const struct where *read)
{
    const struct look_argument *of = relation_argument(finding, -1, read);
    if (!place_reaches(relation_argument(finding, -1, left), of))
        return RELATION_SAME;
    enum relation relation = relation_of(finding, left);
    bool is_wrong = relation == RELATION_NONE || relation == RELATION_ROWS || relation == RELATION_SUM;
    return is_wrong ? relation : RELATION_SAME;
}

/* Makes the operation `left`, which wrote other values than in one process for the operation `read`, the place. */
static void
say_left(const struct finding *finding, const struct where *left, const struct where *read, enum relation relation)
{
    const struct looked_operation *by = &finding->one.operations[left->operation],
                                  *reader = &finding->one.operations[read->operation];
    bool are_rows = relation == RELATION_ROWS;
    place_say(finding, PLACE_INPUT, by, are_rows ? read : left, annotate_memory,
              "%s points to memory that is not annotated, and there it writes %s",
              ARGUMENT_OF(by, &by->arguments[left->argument]),
              are_rows ? "the rows of the rank's share alone, but one process those of the batch"
                       : "other values than one process");
    add_sums(finding, left->operation);
    place_add(finding, "; in step %u %.260s reads it by %s", reader->header->interval + 1, NAME_OF(reader),
              ARGUMENT_OF(reader, &reader->arguments[read->argument]));
    finding->place->is_before = by->header->interval < finding->question->since;
}

/* Says the first operation before `read` after which the memory was not one process's; `wrong_alone`: in no relation
 * to it. Whether there is one. */
static bool
say_carried_if(const struct finding *finding, const struct where *read, bool wrong_alone)
{
    for (struct where left = {.after = true}; left.operation < read->operation; ++left.operation) {
        if (relation_missing_on(finding, left.operation) >= 0)
            continue;
        for (left.argument = 0; left.argument < finding->one.operations[left.operation].header->arguments;
             ++left.argument) {
            enum relation relation = left_wrong(finding, &left, read);
            if (relation == RELATION_SAME || (wrong_alone && relation != RELATION_NONE))
                continue;
            say_left(finding, &left, read, relation);
            return true;
        }
    }
    return false;
}

static bool
say_carried(const struct finding *finding, const struct where *read)
{
    return say_carried_if(finding, read, true) || say_carried_if(finding, read, false);
}

/* ---- what is said of the memory ---- */

/* Who has written what the operation gets, in any step. */
struct written_by {
    bool is_written;
    bool is_before; /* of an update: by another operation, before DDP_STEP */
    struct where by;
};

/* The operation that wrote the memory of an argument last, before `read` reads it; and whether that was before
 * DDP_STEP, in a search in the update. */
static struct written_by
find_last_writer(const struct finding *finding, const struct where *read)
{
    const struct looked *one = &finding->one;
    struct written_by found = {.is_written = false};
    found.is_written = place_find_writer(one, read->operation, relation_argument(finding, -1, read), 0, &found.by);
    found.is_before =
        found.is_written && finding->question->is_update &&
        strcmp(one->operations[found.by.operation].header->name, one->operations[read->operation].header->name) != 0;
    return found;
}

/* Of a writer before DDP_STEP: the last gradient that it reads; what it writes, too, it need not read. 0: none. */
static uint32_t
find_gradient(const struct looked_operation *writer)
{
    uint32_t tensor = 0;
    FOR_EACH(it, writer->arguments, writer->header->arguments) {
        if (place_is_of(it, CHECK_GRADIENT) && it->end == 0)
            tensor = it->tensor;
    }
    return tensor;
}

/* The advice for unannotated memory that differs; `last` is the operation that wrote it last. */
static const char *
advise(const struct written_by *written, const struct looked_operation *last)
{
    if (!written->is_before)
        return annotate_memory;
    return last->header->from_host
               ? "if one rank alone loads or initialises this state, annotate it with DDP_STATE; an update by averaged "
                 "gradients must not read rows of the rank's own share"
               : "compute moments and norms after DDP_STEP, from averaged gradients. If this memory is a gradient, "
                 "annotate it with DDP_GRADIENT; if it is optimizer state that one rank alone loads or initialises, "
                 "with "
                 "DDP_STATE";
}

/* The end of the sentence on unannotated memory: how `last`, whose name stands before it, has written it. */
static const char *
describe_writing(const struct finding *finding, const struct written_by *written, const struct looked_operation *last)
{
    if (!written->is_before)
        return " wrote it last";
    if (last->header->from_host)
        return " copied it from the host before DDP_STEP";
    return finding->place->tensor != 0 ? " computed it before DDP_STEP, from a gradient"
                                       : " computed it before DDP_STEP";
}

/* Makes unannotated memory that differs, and that the operation reads, the place; where a more precise sentence holds
 * (another beginning, a forgotten gradient, memory carried from step to step), that one. */
static void
say_memory(const struct finding *finding, const struct where *read)
{
    const struct looked_operation *op = &finding->one.operations[read->operation];
    const struct look_argument *of = &op->arguments[read->argument];
    struct written_by written = find_last_writer(finding, read);
    const struct looked_operation *last = &finding->one.operations[written.is_written ? written.by.operation : 0];
    if (place_begins_elsewhere(finding, read)) {
        (void)place_say_begin(finding, read);
        return;
    }
    uint32_t gradient = written.is_before ? find_gradient(last) : 0;
    if (gradient != 0)
        finding->place->tensor = gradient;
    if (written.is_before && finding->place->tensor == 0 && say_forgotten(finding, op, of, &written.by))
        return;
    if (!finding->question->is_update && say_carried(finding, read))
        return;
    place_say(finding, written.is_before ? PLACE_BEFORE : PLACE_INPUT, op, read, advise(&written, last),
              "%s points to memory that is not annotated, and the ranks' values there differ from one process's",
              ARGUMENT_OF(op, of));
    if (!written.is_written)
        return;
    place_add(finding, "; %.200s%s", NAME_OF(last), describe_writing(finding, &written, last));
    if (!last->header->from_host)
        add_sums(finding, written.by.operation);
}

/* Makes a DDP_BUFFER that differs, and that the operation reads, the place. */
static void
say_buffer(const struct finding *finding, const struct where *read)
{
    const struct looked_operation *op = &finding->one.operations[read->operation];
    place_say(
        finding, PLACE_INPUT, op, read,
        "if this buffer is trained, annotate it with DDP_PARAMETER and DDP_GRADIENT; if it holds statistics of the "
        "batch, reduce them with DDP_REDUCE",
        "%s points to a buffer (DDP_BUFFER) that differs from one process's",
        ARGUMENT_OF(op, &op->arguments[read->argument]));
}

/* ---- which memory? ---- */

struct search {
    const struct finding *finding;
    bool rows_too;
    int changed;     /* an argument, or -1 */
    bool reads_only; /* in the first pass what is only read, and a sum, comes first */
};

/* Whether the contents of the argument before the operation matter. Those of a result need not: after the first step
 * they are those of the step before. */
static bool
matters_as_it_was(const struct search *search, const struct where *read, bool in_part)
{
    const struct look_argument *of = relation_argument(search->finding, -1, read);
    if (search->changed < 0)
        return of->end == 0 || search->finding->question->is_update;
    if (in_part)
        return true;
    return of->end > 0 && ((int)read->argument != search->changed || search->finding->question->since == 0);
}

/* Whether an operation of the step has filled some of the memory: the rest is of steps before. */
static bool
is_filled_in_part(const struct search *search, const struct look_argument *of, const struct where *by)
{
    const struct look_argument *filled = relation_argument(search->finding, -1, by);
    return search->changed >= 0 && of->end == 0 && filled->end - filled->first < of->bytes;
}

/* Whether the argument is memory that nothing compares, or a buffer, which held something before the step.
 * *in_part_p: the operation writes to it, too. */
static bool
is_candidate(const struct search *search, const struct where *read, bool *in_part_p)
{
    const struct finding *finding = search->finding;
    const struct look_argument *of = relation_argument(finding, -1, read);
    struct where by;
    bool is_buffer = place_is_of(of, CHECK_BUFFER);
    if (!of->is_memory || (search->reads_only && of->end > 0) || (of->tensor != 0 && !is_buffer))
        return false;
    bool is_written = place_find_writer(&finding->one, read->operation, of, finding->question->since, &by);
    *in_part_p = is_written && is_filled_in_part(search, of, &by);
    if (is_written && !is_buffer && !*in_part_p)
        return false;
    return matters_as_it_was(search, read, *in_part_p);
}

/* Whether memory that the operation reads is wrong, in a relation that the search asks for. `in_part`: the operation
 * writes to this memory, too. */
static bool
is_suspect(const struct search *search, const struct where *read, enum relation relation, bool in_part)
{
    bool is_update = search->finding->question->is_update;
    bool is_elsewhere = relation == RELATION_DATA && place_begins_elsewhere(search->finding, read);
    if (relation == RELATION_SAME || (relation == RELATION_DATA && !is_elsewhere))
        return false;
    if (is_elsewhere)
        return !search->reads_only;
    if (search->reads_only && relation != RELATION_SUM)
        return false;
    bool is_known = relation == RELATION_ROWS || (relation != RELATION_NONE && !is_update);
    if (is_known && !search->rows_too)
        return false;
    if (search->changed >= 0 && (relation == RELATION_ROWS || (in_part && relation != RELATION_NONE)))
        return false;
    return !relation_is_anew(search->finding, read->operation, read->argument);
}

/* Says the place if this argument holds wrong memory before the operation. Whether it does. */
static bool
say_if_wrong(const struct search *search, const struct where *read)
{
    const struct finding *finding = search->finding;
    bool in_part;
    if (!is_candidate(search, read, &in_part))
        return false;
    enum relation relation = relation_of(finding, read);
    if (place_is_of(relation_argument(finding, -1, read), CHECK_BUFFER)) {
        bool is_wrong = relation != RELATION_SAME && !finding->question->is_update;
        if (is_wrong)
            say_buffer(finding, read);
        return is_wrong;
    }
    if (!is_suspect(search, read, relation, in_part))
        return false;
    say_memory(finding, read);
    return true;
}

bool
place_find_input(const struct finding *finding, size_t at, bool rows_too, int changed)
{
    struct search search = {.finding = finding, .rows_too = rows_too, .changed = changed};
    for (int pass = 0; pass < 2; ++pass) {
        search.reads_only = pass == 0;
        for (struct where read = {.operation = at}; read.argument < finding->one.operations[at].header->arguments;
             ++read.argument) {
            if (say_if_wrong(&search, &read))
                return true;
        }
    }
    return false;
}
