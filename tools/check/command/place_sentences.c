/*
 * place_sentences.c - what place.c and its parts say of an operation and of its scalars (relation.h).
 */
#include "tools/check/command/relation.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <math.h>
#include <stdarg.h>

bool
place_has(const struct place_question *question, const struct looked_operation *op)
{
    return op->header->interval >= question->since && op->header->interval <= question->interval;
}

bool
place_is_target(const struct place_question *question, const struct looked_operation *op, uint32_t at)
{
    const struct look_argument *it = &op->arguments[at];
    bool is_it = question->tensor != 0
                     ? it->tensor == question->tensor
                     : (it->number & 0xffff) == question->argument && strcmp(op->header->name, question->by) == 0;
    return is_it && it->is_memory &&
           (question->is_reduced
                ? strcmp(op->header->name, LOOK_REDUCES) == 0 && op->header->blocks == question->interval
                : it->end > 0 && op->header->interval == question->interval);
}

const char *
place_name_operation(const struct looked_operation *op, char text[320])
{
    struct origin call;
    bool has_call = strncmp(op->header->name, "cuMem", 5) == 0 && origin_find(op->header->place, ORIGIN_OF_CALL, &call);
    const char *name = has_call ? call.name : op->header->name, *version = strstr(name, "_v2");
    char place[200];
    (void)place_name(op->header->place, place, sizeof(place));
    snprintf(text, 320, "`%.*s` (%.190s)", version != NULL ? (int)(version - name) : 96, name,
             place[0] != '\0' ? place : "?");
    return text;
}

bool
place_say(const struct finding *finding, enum place_kind kind, const struct looked_operation *op,
          const struct where *values, const char *advice, const char *format, ...)
{
    struct place *place = finding->place;
    char how[480];
    va_list args;
    va_start(args, format);
    vsnprintf(how, sizeof(how), format, args);
    va_end(args);
    place->kind = kind;
    place->advice = advice;
    snprintf(place->text, sizeof(place->text), "%s is %sthe first operation that differs: %s", NAME_OF(op),
             place->is_probable ? "probably " : "", how);
    return values == NULL || place_add_values(finding, values);
}

bool
place_add(const struct finding *finding, const char *format, ...)
{
    struct place *place = finding->place;
    size_t length = strlen(place->text);
    va_list args;
    va_start(args, format);
    vsnprintf(place->text + length, sizeof(place->text) - length, format, args);
    va_end(args);
    return true;
}

/* "0.125 on rank 0, 0.11 on rank 1 and 0.0625 in one process"; values[0] is the last, and NaN is left out. */
static char *
list_values(const double *values, int ranks, char text[200])
{
    bool alike = ALL_NUMBERS(r, 2, ranks + 1, values[r] == values[1]);
    const char *join = "";
    size_t used = alike ? (size_t)snprintf(text, 200, "%.6g on all ranks", values[1]) : 0;
    for (int r = 1; r <= ranks && !alike && used < 140; ++r)
        if (!isnan(values[r])) {
            used += (size_t)snprintf(text + used, 200 - used, "%s%.6g on rank %d", join, values[r], r - 1);
            join = ", ";
        }
    snprintf(text + used, 200 - used, " and %.6g in one process", values[0]);
    return text;
}

char *
place_list_values(const struct finding *finding, const struct where *where, char text[200])
{
    int ranks = finding->question->ranks;
    OWNED double *values = xcalloc((size_t)ranks + 1, sizeof(*values));
    for (int r = -1; r < ranks; ++r) {
        const struct look_argument *it = relation_argument(finding, r, where);
        values[r + 1] = it != NULL ? it->value : NAN; /* of a rank that does not call it */
    }
    return list_values(values, ranks, text);
}

bool
place_weighs(const struct finding *finding, const struct where *counts)
{
    struct where last = {.operation = finding->one.count, .after = true};
    while (last.operation-- > 0) {
        const struct looked_operation *op = &finding->one.operations[last.operation];
        for (last.argument = 0; last.argument < op->header->arguments; ++last.argument) {
            if (place_is_target(finding->question, op, (uint32_t)last.argument))
                return relation_is_weighted(finding, counts, &last);
        }
    }
    return false;
}

const char *const place_same_decision =
    "the host's decision whether to make this operation must be the same on all ranks: decide by averaged values "
    "(DDP_MEAN), not by the rank's number or its own values";

/* ---- parts of sentences ---- */

const char *
place_describe_element(const struct finding *finding, const struct where *where, char text[OPERATION_ELEMENT_BYTES])
{
    char values_text[OPERATION_VALUES_BYTES];
    OWNED double *values = xcalloc((size_t)finding->question->ranks + 1, sizeof(*values));
    bool of_share;
    size_t element = relation_element(finding, where, &of_share, values);
    list_values(values, finding->question->ranks, values_text);
    text[0] = '\0';
    if (element == RELATION_COUNTS)
        snprintf(text, OPERATION_ELEMENT_BYTES, " (elements that it changes: %s)", values_text);
    else if (element != SIZE_MAX)
        snprintf(text, OPERATION_ELEMENT_BYTES, " (element %zu%s: %s)", element, of_share ? " of the share" : "",
                 values_text);
    return text;
}

bool
place_add_values(const struct finding *finding, const struct where *where)
{
    return place_add(finding, "%s", place_describe_element(finding, where, (char[OPERATION_ELEMENT_BYTES]){""}));
}

const char *
place_describe_origin(const struct looked_operation *op, uint32_t number, char text[OPERATION_SENTENCE_BYTES])
{
    struct origin origin;
    text[0] = '\0';
    if (origin_find(op->header->place, number, &origin))
        snprintf(text, OPERATION_SENTENCE_BYTES,
                 number == ORIGIN_OF_COPY ? "; the host sets `%s` at %s%s" : "; the host decides by `%s` (%s)%s",
                 origin.name, origin.place, origin.from);
    return text;
}

/* Whether the operation is a call of a library that changes nothing, such as nrm2, whose result is the host's. */
static bool
answers(const struct looked_operation *op)
{
    return strncmp(op->header->name, "cublas", 6) == 0 && ALL(it, op->arguments, op->header->arguments, it->end == 0);
}

static bool
copies_to_host(const struct looked_operation *op)
{
    static const char copy[] = "cuMemcpyDtoH";
    return strncmp(op->header->name, copy, strlen(copy)) == 0;
}

/* Whether the host reads there what ranks have each of its own share. */
static bool
reads_own_share(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    if (!copies_to_host(op) && !answers(op))
        return false;
    enum relation relation = relation_of(finding, &(struct where){.operation = at});
    return relation != RELATION_SAME && relation != RELATION_UNKNOWN;
}

/* The part of a sentence that says which copy to the host, at `from`, has given the host a value of the rank's
 * share. */
static void
describe_last_read(const struct finding *finding, const struct looked_operation *op, const char *from,
                   char text[OPERATION_SENTENCE_BYTES])
{
    struct origin use;
    const char *part = finding->question->takes_turns ? "own batch" : "share";
    if (!copies_to_host(op)) {
        snprintf(text, OPERATION_SENTENCE_BYTES,
                 ", after the host has read a value at %s that is of the rank's %s alone", from, part);
        return;
    }
    snprintf(text, OPERATION_SENTENCE_BYTES,
             ", after the host has read values at %s that are of the rank's %s alone, into %s", from, part,
             ARGUMENT_OF(op, &(struct look_argument){.number = 0}));
    if (origin_find(op->header->place, ORIGIN_OF_USE, &use))
        printable_append(text, OPERATION_SENTENCE_BYTES, " (first used at %s)", use.place);
}

const char *
place_describe_read(const struct finding *finding, size_t at, char text[OPERATION_SENTENCE_BYTES])
{
    char from[200], first[200] = "";
    text[0] = '\0';
    while (at-- > 0) {
        const struct looked_operation *op = &finding->one.operations[at];
        if (!reads_own_share(finding, at) || strcmp(place_name(op->header->place, from, sizeof(from)), first) == 0)
            continue;
        if (first[0] != '\0') {
            printable_append(text, OPERATION_SENTENCE_BYTES, ", and at %s", from);
            return text;
        }
        describe_last_read(finding, op, from, text);
        snprintf(first, sizeof(first), "%s", from);
    }
    return text;
}

void
place_add_read(const struct finding *finding, size_t at)
{
    place_add(finding, "%s", place_describe_read(finding, at, (char[OPERATION_SENTENCE_BYTES]){""}));
}
