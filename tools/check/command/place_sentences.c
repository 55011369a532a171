/*
 * place_sentences.c - what place.c and its parts say of an operation and of its scalars (relation.h).
 */
#include "tools/check/command/relation.h"

#include "launcher/common/xcalloc.h"
#include "tools/check/command/origin.h"
#include "tools/common/owned.h"

#include <math.h>
#include <stdarg.h>

bool
place_has(const struct place_question *question, const struct step *step)
{
    return step->its->interval >= question->since && step->its->interval <= question->interval;
}

bool
place_is_target(const struct place_question *question, const struct step *step, uint32_t at)
{
    const struct look_argument *it = &step->list[at];
    bool is_it = question->tensor != 0
                     ? it->tensor == question->tensor
                     : (it->number & 0xffff) == question->argument && strcmp(step->its->name, question->by) == 0;
    return is_it && it->is_memory &&
           (question->is_reduced ? strcmp(step->its->name, LOOK_REDUCES) == 0 && step->its->blocks == question->interval
                                 : it->end > 0 && step->its->interval == question->interval);
}

const char *
place_name_step(const struct step *step, char text[320])
{
    struct origin call;
    bool has_call = strncmp(step->its->name, "cuMem", 5) == 0 && origin_find(step->its->place, ORIGIN_OF_CALL, &call);
    const char *name = has_call ? call.name : step->its->name, *version = strstr(name, "_v2");
    char place[200];
    (void)place_name(step->its->place, place, sizeof(place));
    snprintf(text, 320, "`%.*s` (%.190s)", version != NULL ? (int)(version - name) : 96, name,
             place[0] != '\0' ? place : "?");
    return text;
}

bool
place_say(const struct finding *finding, enum place_kind kind, const struct step *step, const struct where *values,
          const char *advice, const char *format, ...)
{
    struct place *place = finding->place;
    char how[480];
    va_list args;
    va_start(args, format);
    vsnprintf(how, sizeof(how), format, args);
    va_end(args);
    place->kind = kind;
    place->advice = advice;
    snprintf(place->text, sizeof(place->text), "%s is %sthe first operation that differs: %s", NAME_OF(step),
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
place_add_values(const struct finding *finding, const struct where *where)
{
    char text[200];
    OWNED double *values = xcalloc((size_t)finding->question->ranks + 1, sizeof(*values));
    bool of_share;
    size_t element = relation_element(finding, where, &of_share, values);
    list_values(values, finding->question->ranks, text);
    if (element == RELATION_COUNTS)
        place_add(finding, " (elements that it changes: %s)", text);
    else if (element != SIZE_MAX)
        place_add(finding, " (element %zu%s: %s)", element, of_share ? " of the share" : "", text);
    return true;
}

bool
place_weighs(const struct finding *finding, const struct where *counts)
{
    struct where last = {.at = finding->one.count, .after = true};
    while (last.at-- > 0) {
        const struct step *step = &finding->one.steps[last.at];
        for (last.argument = 0; last.argument < step->its->arguments; ++last.argument) {
            if (place_is_target(finding->question, step, (uint32_t)last.argument))
                return relation_is_weighted(finding, counts, &last);
        }
    }
    return false;
}

/* Of scalars that differ: 6: they weigh the ranks' gradients right; 5: no share explains them; 4: they, or what
 * divides, add up, but are not alike: a count; 3: they are the share's part of the one rank's, or N times; 2: whole
 * numbers that rise with the rank, as where a share begins; 1: that add up, or are where a share ends; 0: alike. */
static int
judge_scalar(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    double one = mine->value, sum = 0, inverse = 0, before = 0;
    int ranks = finding->question->ranks, same = 0, weighed = 0;
    bool rises = mine->is_whole, ends = rises, alike = true;
    for (int r = 0; r < ranks; ++r) {
        const struct look_argument *theirs = relation_argument(finding, r, where);
        if (theirs->is_memory)
            return 0;
        same += fabs(theirs->value - one) <= 1e-5 * fabs(one);
        weighed += fabs(theirs->value * relation_weight(finding, r) / ranks - one) <= 1e-5 * fabs(one);
        rises = rises && theirs->is_whole && (r == 0 ? theirs->value == one : theirs->value > before);
        ends =
            ends && theirs->is_whole && (r == 0 || theirs->value > before) && (r < ranks - 1 || theirs->value == one);
        alike = alike && (r == 0 || theirs->value == before);
        before = theirs->value;
        sum += before;
        inverse += one / before;
    }
    if (same == ranks || (weighed == ranks && relation_weight(finding, 0) != 1))
        return 0;
    bool adds = fabs(sum - one) <= 1e-5 * fabs(one), divides = fabs(inverse - 1) <= 1e-5;
    if (rises)
        return 2;
    if (ends || (adds && !alike && !finding->question->is_uneven && !finding->question->is_update &&
                 place_weighs(finding, where)))
        return ends ? 1 : 6;
    if ((adds && alike && one == trunc(one)) || (mine->is_whole && (adds || (sum > one && sum < one + ranks))))
        return 1;
    return (adds || divides) && !alike ? 4 : adds || divides ? 3 : 5;
}

void
place_add_origin(const struct finding *finding, const struct step *step, uint32_t number)
{
    struct origin origin;
    if (origin_find(step->its->place, number, &origin))
        place_add(finding,
                  number == ORIGIN_OF_COPY ? "; the host sets `%s` at %s%s" : "; the host decides by `%s` (%s)%s",
                  origin.name, origin.place, origin.from);
}

/* A value that the host has read at `from`, as the first one or as a further one. */
static void
place_add_one_read(const struct finding *finding, const struct step *step, bool is_further, const char *from)
{
    const bool is_library = strncmp(step->its->name, "cublas", 6) == 0;
    const char *part = finding->question->takes_turns ? "own batch" : "share";
    if (is_further)
        place_add(finding, ", and at %s", from);
    else if (is_library)
        place_add(finding, ", after the host has read a value at %s that is of the rank's %s alone", from, part);
    else
        place_add(finding, ", after the host has read values at %s that are of the rank's %s alone, into %s", from,
                  part, ARGUMENT_OF(step, &(struct look_argument){.number = 0}));
}

void
place_add_read(const struct finding *finding, size_t at)
{
    char from[200], first[200] = "";
    struct origin use;
    for (struct where where = {.at = at}; where.at-- > 0;) {
        const struct step *step = &finding->one.steps[where.at];
        bool is_library = strncmp(step->its->name, "cublas", 6) == 0, /* such as nrm2, whose result is the host's */
            reads = strncmp(step->its->name, "cuMemcpyDtoH", strlen("cuMemcpyDtoH")) == 0 ||
                    (is_library && ALL(it, step->list, step->its->arguments, it->end == 0));
        enum relation relation = reads ? relation_of(finding, &where) : RELATION_SAME;
        if (relation == RELATION_SAME || relation == RELATION_UNKNOWN ||
            strcmp(place_name(step->its->place, from, sizeof(from)), first) == 0)
            continue;
        place_add_one_read(finding, step, first[0] != '\0', from);
        if (first[0] != '\0')
            return;
        if (!is_library && origin_find(step->its->place, ORIGIN_OF_USE, &use))
            place_add(finding, " (first used at %s)", use.place);
        snprintf(first, sizeof(first), "%s", from);
    }
}

void
place_add_share(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    struct where where = {.at = at};
    while (where.argument < step->its->arguments &&
           (step->list[where.argument].is_memory || judge_scalar(finding, &where) != 1))
        ++where.argument;
    if (where.argument == step->its->arguments)
        return;
    place_add(finding, ", and %s, which depends on the size of the share, is %s",
              ARGUMENT_OF(step, &step->list[where.argument]), VALUES_AT(finding, &where));
}

/* The same launch in the step before, which is equal; not one that has changed nothing, as a decay of zeros. */
static bool
find_before(const struct finding *finding, const struct where *where, struct where *then)
{
    const struct step *step = &finding->one.steps[where->at];
    *then = *where;
    while (then->at-- > 0) {
        const struct step *earlier = &finding->one.steps[then->at];
        if (earlier->its->interval < finding->question->since && strcmp(earlier->its->name, step->its->name) == 0 &&
            strcmp(earlier->its->place, step->its->place) == 0 && earlier->its->arguments == step->its->arguments)
            return relation_missing_on(finding, then->at) < 0 &&
                   ANY(it, earlier->list, earlier->its->arguments, it->end > 0 && it->before != it->after);
    }
    return false;
}

const char *const place_weigh_shares =
    "weigh the shares by this number: DDP_WEIGHT(number of the share, number of the batch) before backward";

const char *const place_same_decision =
    "the host's decision whether to make this operation must be the same on all ranks: decide by averaged values "
    "(DDP_MEAN), not by the rank's number or its own values";

const char *const place_same_update =
    "this argument of the update depends on the rank, the number of ranks or the share: if it is a learning rate, "
    "compute it from the step; if it is a norm of gradients, call DDP_STEP before the norm";

/* The line that gives the argument its value stands first; `values`: what it is, and more of it. */
static void
say_origin(struct place *place, const struct step *step, const struct look_argument *it, const struct origin *origin,
           const char *values)
{
    snprintf(place->text, sizeof(place->text),
             "`%s` (%s)%s is %s, and is passed to %s as %s: %sthe first operation that differs", origin->name,
             origin->place, origin->from, values, NAME_OF(step), ARGUMENT_OF(step, it),
             place->is_probable ? "probably " : "");
}

bool
place_say_scalar(const struct finding *finding, size_t at, int least)
{
    const char *const advice[] = {
        "this argument is the size of the share: either the result must not depend on it, or another argument is "
        "wrong, such as the first item of the share",
        "the ranks' shares of this step are not equal: call DDP_WEIGHT(count, total) after DDP_SHARD, or leave this "
        "batch out, or check with a batch that the number of ranks divides",
        "if this argument is a seed, or depends on the rank, use one value on all ranks; if it is the first item of "
        "the share, add it once, and let no row depend on other rows of the share",
        "a term has another factor on the ranks than in one process: divide it as the loss is divided",
        "this argument depends on the number of items in the rank's share: before backward call DDP_WEIGHT(items of "
        "the rank's share, items of the whole batch)",
        "this argument must not depend on the rank or on the number of ranks; if the program computes it from the "
        "share, reduce it (DDP_REDUCE), or weigh the share (DDP_WEIGHT)",
        place_weigh_shares};
    const struct step *step = &finding->one.steps[at];
    int worst = 0;
    bool moves = false;
    struct where where = {.at = at}, found = where;
    for (; where.argument < step->its->arguments; ++where.argument) {
        int here = step->list[where.argument].is_memory ? 0 : judge_scalar(finding, &where);
        struct where then;
        bool was_right = here > 0 && find_before(finding, &where, &then), by_share = was_right && here < 3;
        for (int r = -1; r < finding->question->ranks && was_right; ++r)
            was_right = relation_argument(finding, r, &where)->value == relation_argument(finding, r, &then)->value;
        double mine = by_share ? step->list[where.argument].value - relation_argument(finding, -1, &then)->value : 0;
        for (int r = 0; r < finding->question->ranks && by_share; ++r) {
            double own = relation_argument(finding, r, &where)->value - relation_argument(finding, r, &then)->value;
            by_share = mine != 0 && fabs(own * finding->question->ranks - mine) <= 1e-5 * fabs(mine);
        }
        here = was_right ? 0 : by_share ? 5 : here;
        moves = here > worst ? by_share : moves;
        found = here > worst ? where : found;
        worst = here > worst ? here : worst;
    }
    if (worst < least)
        return false;
    const char *values = VALUES_AT(finding, &found);
    const struct look_argument *it = &step->list[found.argument];
    struct origin origin;
    bool has_origin = origin_find(step->its->place, it->number & 0xffff, &origin);
    place_say(finding, worst == 2 && !finding->question->is_update ? PLACE_SHARE : PLACE_SCALAR, step, NULL,
              finding->question->is_update && origin.is_share
                  ? "compute it from the step, or from the items of the whole batch, not of the rank's share"
              : finding->question->is_update                ? place_same_update
              : worst == 1 && !finding->question->is_uneven ? advice[0]
                                                            : advice[worst],
              "%s%s is %s", ARGUMENT_OF(step, it), has_origin ? origin.from : "", values);
    if (has_origin && origin.place[0] != '\0')
        say_origin(finding->place, step, it, &origin, values);
    place_add(finding, "%s",
              worst == 6 ? "; with this number as weight, the mean of the ranks' gradients equals one process's"
              : moves    ? "; since the step before, it has advanced by the share, and in one process by the batch"
                         : "");
    if (worst == 5 && !moves && !origin.is_share)
        place_add_read(finding, at);
    return true;
}
