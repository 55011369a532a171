/*
 * place.c - see place.h.
 *
 * Backwards from the tensor that differs, through the memory that operations of one rank change and get, come the
 * operations that it depends on. Forwards through these, each memory of the ranks stands in a relation to the one
 * rank's: it is the same; the ranks have its rows, in any layout; or theirs add up to it, once or N times. The first
 * operation that changes memory into something without a relation is the place.
 */
#include "tools/check/command/place.h"

#include "launcher/common/xcalloc.h"
#include "tools/check/command/evidence.h"
#include "tools/check/format/element.h"
#include "tools/check/format/look.h"
#include "tools/common/grown.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double near_enough = 1e-4; /* relative: mistakes differ by more, rounding by less */

struct contents {
    uint64_t hash, bytes;
    const char *data;
};

struct step {
    const struct look_operation *its;
    struct look_argument *list;
};

struct looked {
    char *file;
    struct contents *contents; /* [content_count] */
    struct step *steps;        /* [count] */
    size_t content_count, count;
    int *of; /* [operations of the one rank]: which of these it is; -1: none */
};

enum relation { RELATION_NONE, RELATION_SAME, RELATION_ROWS, RELATION_SUM, RELATION_UNKNOWN };

struct finding {
    const struct place_question *question;
    struct looked one, *ranks; /* [ranks] */
    bool *matters;             /* [operations of the one rank] */
};

/* ---- files ---- */

static bool
load(const char *path, struct looked *looked)
{
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 20, bytes = 0, got, at = 0;
    *looked = (struct looked){.file = xcalloc(1, room)};
    while (file != NULL && (got = fread(looked->file + bytes, 1, room - bytes, file)) > 0) {
        bytes += got;
        if (bytes == room)
            looked->file = xrealloc(looked->file, room *= 2);
    }
    if (file != NULL)
        fclose(file);
    while (at + sizeof(struct look_operation) <= bytes) {
        const struct look_operation *record = (const void *)(looked->file + at);
        size_t behind = record->arguments > 0 ? record->arguments * sizeof(struct look_argument) : record->bytes;
        at += sizeof(*record);
        if (record->arguments > LOOK_ARGUMENTS || behind > bytes - at)
            return false;
        if (record->arguments > 0)
            *GROWN(looked->steps, looked->count) = (struct step){record, (void *)(looked->file + at)};
        else
            *GROWN(looked->contents, looked->content_count) =
                (struct contents){record->hash, record->bytes, looked->file + at};
        at += (behind + 7) / 8 * 8;
    }
    return looked->count > 0 && looked->count < LOOK_OPERATIONS;
}

static void
unload(struct looked *looked)
{
    free(looked->file);
    free(looked->contents);
    free(looked->steps);
    free(looked->of);
}

static const struct contents *
contents_of(const struct looked *looked, uint64_t hash)
{
    for (size_t i = 0; i < looked->content_count; ++i) {
        if (looked->contents[i].hash == hash)
            return &looked->contents[i];
    }
    return NULL;
}

/* ---- which operation of a rank is which of the one rank's ---- */

static bool
are_alike(const struct step *a, const struct step *b)
{
    return a->its->interval == b->its->interval && a->its->arguments == b->its->arguments &&
           strcmp(a->its->name, b->its->name) == 0;
}

/* The longest sequence that both have. */
static void
align(const struct looked *one, struct looked *rank)
{
    size_t columns = rank->count + 1;
    uint16_t *longest = xcalloc((one->count + 1) * columns, sizeof(*longest));
    for (size_t i = one->count; i-- > 0;) {
        for (size_t k = rank->count; k-- > 0;) {
            uint16_t down = longest[(i + 1) * columns + k], right = longest[i * columns + k + 1];
            longest[i * columns + k] = are_alike(&one->steps[i], &rank->steps[k])
                                           ? longest[(i + 1) * columns + k + 1] + 1
                                       : down > right ? down
                                                      : right;
        }
    }
    rank->of = xcalloc(one->count + 1, sizeof(*rank->of));
    for (size_t i = 0, k = 0; i < one->count; ++i) {
        rank->of[i] = -1;
        while (k < rank->count && !are_alike(&one->steps[i], &rank->steps[k]) &&
               longest[i * columns + k] == longest[i * columns + k + 1])
            ++k;
        if (k < rank->count && are_alike(&one->steps[i], &rank->steps[k]))
            rank->of[i] = (int)k++;
    }
    free(longest);
}

/* What a rank changes counts as changed on the one rank, too: dividing by 1 leaves what is there. */
static void
share_changes(struct looked *one, const struct looked *rank)
{
    for (size_t i = 0; i < one->count; ++i) {
        for (uint32_t a = 0; a < one->steps[i].its->arguments && rank->of[i] >= 0; ++a) {
            const struct look_argument *theirs = &rank->steps[rank->of[i]].list[a];
            struct look_argument *mine = &one->steps[i].list[a];
            if (mine->is_memory && mine->end == 0 && theirs->end <= mine->bytes) {
                mine->first = theirs->first;
                mine->end = theirs->end;
            }
        }
    }
}

/* ---- numbers ---- */

struct numbers {
    double *list;
    size_t count;
    bool are_whole;
    double unit; /* rounding of each, besides */
};

/* Ordinary floats, else doubles, else whole numbers. */
static struct numbers
read_numbers(const struct contents *contents, uint64_t first, uint64_t end)
{
    static const int types[] = {ELEMENT_FLOAT32, ELEMENT_FLOAT64, ELEMENT_INT32};
    end = end < contents->bytes ? end : contents->bytes;
    first = first < end ? first : end;
    struct numbers numbers = {.list = xcalloc((end - first) / 4 + 1, sizeof(double))};
    for (size_t k = 0, bad = 1; k < 3 && bad > 0; ++k) {
        numbers.are_whole = k == 2;
        numbers.count = (end - first) / element_size(types[k]);
        bad = k == 1 && (end - first) % 8 != 0;
        for (size_t i = 0; i < numbers.count && bad == 0; ++i) {
            double value = numbers.list[i] = element_get(types[k], contents->data + first, i);
            bad = k < 2 && value != 0 && !(fabs(value) > 1e-30 && fabs(value) < 1e30);
        }
    }
    return numbers;
}

/* list[i] is factor * other[i], nearly, and but for `unit`. */
static bool
are_near(const double *list, const double *other, double factor, size_t count, double unit)
{
    double apart = 0, left = 0, right = 0;
    for (size_t i = 0; i < count; ++i) {
        apart += (list[i] - factor * other[i]) * (list[i] - factor * other[i]);
        left += list[i] * list[i];
        right += factor * other[i] * factor * other[i];
    }
    return sqrt(apart) <= unit * sqrt((double)count) + near_enough * sqrt(fmax(left, right));
}

static int
compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* In any order, and but for zeros, of which both may have more. */
static bool
are_rows(const struct numbers *all, const struct numbers *one, int ranks)
{
    size_t count = all->count > one->count ? all->count : one->count;
    double *left = xcalloc(count + 1, sizeof(double)), *right = xcalloc(count + 1, sizeof(double));
    memcpy(left, all->list, all->count * sizeof(double));
    memcpy(right, one->list, one->count * sizeof(double));
    qsort(left, count, sizeof(double), compare_doubles);
    qsort(right, count, sizeof(double), compare_doubles);
    bool are = are_near(left, right, 1, count, 0) || (!one->are_whole && are_near(left, right, ranks, count, 0)) ||
               (!one->are_whole && are_near(left, right, 1.0 / ranks, count, 0));
    free(left);
    free(right);
    return are;
}

/* ---- relations ---- */

/* Of one memory: in which argument of an operation, before it or after it. */
struct where {
    size_t at, argument;
    bool after;
};

static const struct look_argument *
argument_of(const struct finding *finding, int rank, const struct where *where)
{
    const struct looked *looked = rank < 0 ? &finding->one : &finding->ranks[rank];
    int at = rank < 0 ? (int)where->at : looked->of[where->at];
    return at < 0 ? NULL : &looked->steps[at].list[where->argument];
}

/* What the operation has changed there, and operations of the interval before it: an operation that changes some
 * elements of each row leaves the others as they are. */
static void
range_of(const struct finding *finding, int rank, const struct where *where, uint64_t *first_p, uint64_t *end_p)
{
    const struct looked *looked = rank < 0 ? &finding->one : &finding->ranks[rank];
    const struct look_argument *it = argument_of(finding, rank, where);
    size_t at = rank < 0 ? where->at : (size_t)looked->of[where->at];
    bool is_copy = looked->steps[at].its->from_host;
    *first_p = is_copy ? 0 : it->first;
    *end_p = is_copy ? it->bytes : it->end;
    for (size_t i = 0; i < at; ++i) {
        const struct step *step = &looked->steps[i];
        for (uint32_t a = 0; a < step->its->arguments && step->its->interval == finding->question->interval; ++a) {
            bool is_it = step->list[a].is_memory && step->list[a].address == it->address && step->list[a].end > 0;
            *first_p = is_it && step->list[a].first < *first_p ? step->list[a].first : *first_p;
            *end_p = is_it && step->list[a].end > *end_p ? step->list[a].end : *end_p;
        }
    }
}

/* The numbers of [first, end) there; of an update how much they have changed. False: they were not kept. */
static bool
numbers_of(const struct finding *finding, int rank, const struct where *where, uint64_t first, uint64_t end,
           struct numbers *numbers)
{
    const struct look_argument *argument = argument_of(finding, rank, where);
    const struct looked *looked = rank < 0 ? &finding->one : &finding->ranks[rank];
    const struct contents *contents =
        argument != NULL ? contents_of(looked, where->after ? argument->after : argument->before) : NULL;
    if (contents == NULL || end > contents->bytes)
        return false;
    *numbers = read_numbers(contents, first, end);
    const struct contents *before =
        where->after && finding->question->is_update ? contents_of(looked, argument->before) : NULL;
    if (before == NULL || numbers->are_whole)
        return true;
    struct numbers old = read_numbers(before, first, end);
    double most = 0;
    for (size_t i = 0; i < numbers->count && old.count == numbers->count; ++i) {
        most = fmax(most, fabs(numbers->list[i]));
        numbers->list[i] -= old.list[i];
    }
    numbers->unit = most * 1.2e-7;
    free(old.list);
    return true;
}

/* Each rank's at the same place. */
static enum relation
relate_places(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end,
              const struct numbers *one)
{
    int ranks = finding->question->ranks;
    bool same = true, summed = true;
    struct numbers sum = {.list = xcalloc(one->count + 1, sizeof(double)), .count = one->count};
    for (int r = 0; r < ranks && summed; ++r) {
        struct numbers own;
        summed = numbers_of(finding, r, where, first, end, &own);
        if (!summed)
            break;
        same = same && own.count == one->count && are_near(own.list, one->list, 1, one->count, one->unit);
        for (size_t i = 0; i < one->count && i < own.count; ++i)
            sum.list[i] += own.list[i];
        free(own.list);
    }
    same = same && summed;
    summed = summed &&
             (are_near(sum.list, one->list, 1, one->count, 0) || are_near(sum.list, one->list, ranks, one->count, 0));
    free(sum.list);
    return same ? RELATION_SAME : summed ? RELATION_SUM : RELATION_NONE;
}

static void
append(struct numbers *all, const struct numbers *own)
{
    all->list = xrealloc(all->list, (all->count + own->count + 1) * sizeof(double));
    memcpy(all->list + all->count, own->list, own->count * sizeof(double));
    all->count += own->count;
    all->are_whole = own->are_whole;
}

/* The ranks' together, of [first, end) of each, or of what each has changed where `end` is 0, behind `all`. */
static bool
gather(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end, struct numbers *all)
{
    bool ok = true;
    for (int r = 0; r < finding->question->ranks && ok; ++r) {
        const struct look_argument *argument = argument_of(finding, r, where);
        struct numbers own = {.count = 0};
        ok = argument != NULL &&
             numbers_of(finding, r, where, end > 0 ? first : argument->first, end > 0 ? end : argument->end, &own);
        if (ok)
            append(all, &own);
        free(own.list);
    }
    return ok;
}

static enum relation
relate(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = argument_of(finding, -1, where);
    int ranks = finding->question->ranks, equal = 0;
    uint64_t first = 0, end = mine->bytes;
    if (where->after)
        range_of(finding, -1, where, &first, &end);
    for (int r = 0; r < ranks; ++r) {
        const struct look_argument *theirs = argument_of(finding, r, where);
        if (theirs == NULL || !theirs->is_memory)
            return RELATION_UNKNOWN;
        equal += (where->after ? theirs->after == mine->after : theirs->before == mine->before) &&
                 theirs->bytes == mine->bytes;
    }
    if (equal == ranks)
        return RELATION_SAME;
    if (mine->is_part)
        return RELATION_UNKNOWN;
    enum relation relation = RELATION_NONE;
    struct numbers one = {.count = 0}, all;
    /* What was changed; else all there is, for an operation may leave some elements of the last row. */
    for (int pass = 0; pass < 2 && relation == RELATION_NONE; ++pass) {
        free(one.list);
        first = pass > 0 ? 0 : first;
        end = pass > 0 ? mine->bytes : end;
        if (!numbers_of(finding, -1, where, first, end, &one))
            return RELATION_UNKNOWN;
        relation = relate_places(finding, where, first, end, &one);
        const uint64_t ends[] = {0, first + (end - first) / (uint64_t)ranks, end};
        for (size_t i = where->after && pass == 0 ? 0 : 1; i < 3 && relation == RELATION_NONE; ++i) {
            all = (struct numbers){.count = 0};
            if (gather(finding, where, first, ends[i], &all) && are_rows(&all, &one, ranks))
                relation = RELATION_ROWS;
            free(all.list);
        }
    }
    /* Whole numbers that kernels compute, such as indices of rows, may begin anew in each share. */
    if (one.are_whole && where->after && !finding->one.steps[where->at].its->from_host)
        relation = relation == RELATION_NONE ? RELATION_ROWS : relation;
    free(one.list);
    return relation;
}

/* Of operations that come from one call, as those of micro-batches do: whether they together leave the batch's rows, or
 * the last one a sum. Where ranks make fewer of them that is not known. */
static enum relation
relate_calls(const struct finding *finding, const struct where *where)
{
    const struct looked *one = &finding->one;
    const struct look_operation *its = one->steps[where->at].its;
    struct numbers mine = {.count = 0}, all = {.count = 0};
    struct where each = *where, last = *where;
    bool ok = true;
    for (each.at = 0; each.at < one->count && ok; ++each.at) {
        if (!are_alike(&one->steps[each.at], &one->steps[where->at]))
            continue;
        const struct look_argument *it = argument_of(finding, -1, &each), *mine_it = argument_of(finding, -1, where);
        if (its->from_host ? it->bytes != mine_it->bytes : it->address != mine_it->address)
            continue;
        struct numbers own = {.count = 0};
        uint64_t first, end;
        range_of(finding, -1, &each, &first, &end);
        ok = gather(finding, &each, 0, 0, &all) && numbers_of(finding, -1, &each, first, end, &own);
        if (ok)
            append(&mine, &own);
        free(own.list);
        last = each;
    }
    bool several = last.at != where->at || !ok;
    enum relation relation = !ok ? RELATION_UNKNOWN : several ? relate(finding, &last) : RELATION_NONE;
    if (ok && several && relation != RELATION_SUM)
        relation = are_rows(&all, &mine, finding->question->ranks) ? RELATION_ROWS
                   : its->from_host                                ? RELATION_UNKNOWN
                                                                   : RELATION_NONE;
    free(mine.list);
    free(all.list);
    return relation;
}

/* ---- what the tensor depends on ---- */

/* The argument has changed something behind the other one's pointer. */
static bool
reaches(const struct look_argument *it, const struct look_argument *of)
{
    return it->is_memory && it->end > 0 && it->address + it->first < of->address + of->bytes &&
           of->address < it->address + it->end;
}

/* The operation before `at` of the interval that changed what the argument points to; -1: none did. *argument_p. */
static int
find_writer(const struct looked *one, size_t at, const struct look_argument *of, uint32_t least, size_t *argument_p)
{
    while (at-- > 0 && one->steps[at].its->interval >= least) {
        for (uint32_t a = 0; a < one->steps[at].its->arguments; ++a) {
            if (reaches(&one->steps[at].list[a], of)) {
                *argument_p = a;
                return (int)at;
            }
        }
    }
    return -1;
}

/* The operation changes the tensor that differs, by this argument. */
static bool
is_target(const struct place_question *question, const struct step *step, uint32_t at)
{
    const struct look_argument *it = &step->list[at];
    bool is_it = question->tensor != 0
                     ? it->tensor == question->tensor
                     : (it->number & 0xffff) == question->argument && strcmp(step->its->name, question->by) == 0;
    return is_it && it->is_memory && it->end > 0 && step->its->interval == question->interval;
}

/* Backwards: an operation matters if it changes what one that matters gets, or the tensor. */
static bool
find_what_matters(struct finding *finding)
{
    const struct place_question *question = finding->question;
    const struct looked *one = &finding->one;
    bool any = false;
    finding->matters = xcalloc(one->count, sizeof(*finding->matters));
    for (size_t at = one->count; at-- > 0;) {
        const struct step *step = &one->steps[at];
        bool changes = false;
        for (uint32_t a = 0; a < step->its->arguments; ++a)
            changes = changes || is_target(question, step, a);
        finding->matters[at] = finding->matters[at] || changes;
        any = any || changes;
        for (uint32_t a = 0; a < step->its->arguments && finding->matters[at]; ++a) {
            const struct look_argument *it = &step->list[a];
            size_t argument;
            int writer = (int)at;
            /* All of them: one may fill rows, the next others. */
            while (it->is_memory && (writer = find_writer(one, (size_t)writer, it, question->interval, &argument)) >= 0)
                finding->matters[writer] = true;
        }
    }
    return any;
}

/* ---- sentences ---- */

static const char *
name_step(const struct step *step, char text[320])
{
    char place[200];
    (void)place_name(step->its->place, place, sizeof(place));
    snprintf(text, 320, "`%.96s` (%.190s)", step->its->name, place[0] != '\0' ? place : "?");
    return text;
}

static void __attribute__((format(printf, 5, 6)))
say(struct place *place, enum place_kind kind, const struct step *step, const char *advice, const char *format, ...)
{
    char name[320], how[480];
    va_list args;
    va_start(args, format);
    vsnprintf(how, sizeof(how), format, args);
    va_end(args);
    place->kind = kind;
    place->advice = advice;
    snprintf(place->text, sizeof(place->text), "%s is the first operation that differs: %s", name_step(step, name),
             how);
}

/* "0.125 on rank 0, 0.11 on rank 1 and 0.0625 in one process"; the ranks' are one where they are the same. */
static void
list_values(const struct finding *finding, const struct where *where, char text[200])
{
    int ranks = finding->question->ranks;
    double first = argument_of(finding, 0, where)->value;
    bool alike = true;
    size_t used = 0;
    for (int r = 1; r < ranks; ++r)
        alike = alike && argument_of(finding, r, where)->value == first;
    if (alike)
        used = (size_t)snprintf(text, 200, "%.6g on all ranks", first);
    for (int r = 0; r < ranks && !alike && used < 140; ++r)
        used += (size_t)snprintf(text + used, 200 - used, "%s%.6g on rank %d", r > 0 ? ", " : "",
                                 argument_of(finding, r, where)->value, r);
    snprintf(text + used, 200 - used, " and %.6g in one process", argument_of(finding, -1, where)->value);
}

/* Of scalars that differ: 5: in no way that a share explains; 4: they add up, but are not alike: a count of the share;
 * 3: they are the share's part of the one rank's, or N times; 2: whole numbers that rise with the rank, as where a
 * share begins; 1: that add up, as counts and grids do; 0: all are the same. */
static int
judge_scalar(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = argument_of(finding, -1, where);
    double one = mine->value, sum = 0, inverse = 0, before = 0;
    int ranks = finding->question->ranks, same = 0;
    bool rises = mine->is_whole, alike = true;
    for (int r = 0; r < ranks; ++r) {
        const struct look_argument *theirs = argument_of(finding, r, where);
        if (theirs->is_memory)
            return 0;
        same += fabs(theirs->value - one) <= 1e-5 * fabs(one);
        rises = rises && (r == 0 ? theirs->value == one : theirs->value > before);
        alike = alike && (r == 0 || theirs->value == before);
        before = theirs->value;
        sum += before;
        inverse += one / before;
    }
    if (same == ranks)
        return 0;
    bool adds = fabs(sum - one) <= 1e-5 * fabs(one), divides = fabs(inverse - 1) <= 1e-5;
    if (rises)
        return 2;
    if ((adds && alike && one == trunc(one)) || (mine->is_whole && (adds || (sum > one && sum < one + ranks))))
        return 1;
    return adds && !alike ? 4 : adds || divides ? 3 : 5;
}

static bool
say_scalar(const struct finding *finding, size_t at, int least, struct place *place)
{
    static const char *const advice[] = {
        [1] = "",
        "if this argument is a seed, or depends on the rank, take one value on all ranks",
        "a term has another factor on the ranks than in one process: divide it as the loss is divided",
        "each rank divides by a number of its own share, such as its count of valid labels: before backward call "
        "DDP_WEIGHT(number of the share, number of the batch)",
        "this argument must not depend on the rank or the number of ranks; a number that the program computes from the "
        "share needs DDP_REDUCE, or its term a DDP_WEIGHT"};
    const struct step *step = &finding->one.steps[at];
    char values[200];
    int worst = 0;
    struct where where = {.at = at}, found = where;
    for (; where.argument < step->its->arguments; ++where.argument) {
        int here = step->list[where.argument].is_memory ? 0 : judge_scalar(finding, &where);
        found = here > worst ? where : found;
        worst = here > worst ? here : worst;
    }
    if (worst < least)
        return false;
    list_values(finding, &found, values);
    say(place, worst == 2 && !finding->question->is_update ? PLACE_SHARE : PLACE_SCALAR, step,
        finding->question->is_update
            ? "this argument of the update must not depend on the rank, the number of ranks or "
              "the share: compute it from the step and from averaged values"
            : advice[worst],
        "argument %u is %s", (step->list[found.argument].number & 0xffff) + 1, values);
    return true;
}

/* What the operation gets, and no operation of the step has changed, is in no relation to the one rank's; `rows_too`:
 * or has its rows, which need not be those of the batch. */
static bool
say_input(const struct finding *finding, size_t at, bool rows_too, struct place *place)
{
    const struct looked *one = &finding->one;
    const struct step *step = &one->steps[at];
    char name[320] = "";
    size_t argument;
    for (struct where where = {.at = at}; where.argument < step->its->arguments; ++where.argument) {
        const struct look_argument *of = &step->list[where.argument];
        if (!of->is_memory || of->tensor != 0 || find_writer(one, at, of, step->its->interval, &argument) >= 0)
            continue;
        enum relation relation = relate(finding, &where);
        if (relation == RELATION_SAME || (relation != RELATION_NONE && !finding->question->is_update && !rows_too))
            continue;
        int writer = find_writer(one, at, of, 0, &argument);
        bool is_before =
            finding->question->is_update && writer >= 0 && strcmp(one->steps[writer].its->name, step->its->name) != 0;
        say(place, is_before ? PLACE_BEFORE : PLACE_INPUT, step,
            !is_before
                ? "compute it for the whole batch (DDP_REDUCE) if it depends on the batch; else annotate it: "
                  "DDP_PARAMETER and DDP_GRADIENT (trained), DDP_STATE (alike on all ranks), DDP_BUFFER (statistics)"
            : one->steps[writer].its->from_host
                ? "state that one rank alone loads or initialises needs DDP_STATE; rows of the rank's own share do not "
                  "belong to an update from averaged gradients"
                : "compute moments, norms and averages of gradients after DDP_STEP, and all of backward before it; "
                  "optimizer state that one rank alone loads or initialises needs DDP_STATE",
            "argument %u points to memory that is not annotated and differs between ranks or from one "
            "process%s%.200s%s",
            (of->number & 0xffff) + 1, writer >= 0 ? "; " : "", writer >= 0 ? name_step(&one->steps[writer], name) : "",
            writer < 0                          ? ""
            : !is_before                        ? " wrote it last"
            : one->steps[writer].its->from_host ? " copied it from the host before DDP_STEP"
                                                : " computed it before DDP_STEP");
        return true;
    }
    return false;
}

static bool
say_place(const struct finding *finding, size_t at, uint32_t changed, struct place *place)
{
    const struct step *step = &finding->one.steps[at];
    const struct look_argument *it = &step->list[changed];
    size_t argument;
    if (step->its->from_host) {
        struct where where = {.at = at, .argument = changed, .after = true};
        bool is_whole = argument_of(finding, 0, &where)->bytes == it->bytes;
        say(place, is_whole ? PLACE_HOST : PLACE_SHARE, step,
            is_whole ? "weights, a teacher or state must begin alike on all ranks: use the same seed, or annotate this "
                       "memory with DDP_PARAMETER or DDP_STATE; of a batch each rank must copy its share"
                     : "look for values that the host computes of the share alone (DDP_REDUCE computes them for the "
                       "batch), reads of the batch without `first` and `count` of DDP_SHARD, items that two ranks "
                       "choose, a shuffle or random numbers that are seeded by rank",
            is_whole ? "a rank copies other values than one process to memory that is not annotated"
                     : "a rank copies other data than its share of the data that one process copies");
        return true;
    }
    if (say_scalar(finding, at, 3, place) || say_input(finding, at, false, place) ||
        say_scalar(finding, at, 2, place) || say_input(finding, at, true, place))
        return true;
    if (finding->question->is_update && is_target(finding->question, step, changed))
        return false;
    if (finding->question->is_update) {
        say(place, PLACE_CHANGED, step,
            "the update must read averaged gradients, and no results of the rank's own rows: run all of backward "
            "before DDP_STEP",
            "between DDP_STEP and the update it changes %s, and not as in one process",
            it->tensor >> 24 == 1 + CHECK_GRADIENT ? "averaged gradients" : "memory that the update depends on");
        return true;
    }
    bool is_gradient = false; /* after backward it gets one */
    for (uint32_t a = 0; a < step->its->arguments; ++a)
        is_gradient = is_gradient ||
                      (step->list[a].tensor >> 24 == 1 + CHECK_GRADIENT &&
                       find_writer(&finding->one, at, &step->list[a], finding->question->interval, &argument) >= 0);
    if (is_gradient)
        say(place, PLACE_CHANGED, step,
            "if it clips gradients, or computes a sign, a threshold or a norm of them, put DDP_STEP between backward "
            "and it; if it adds random numbers, seed them alike on all ranks",
            "after backward it reads or changes gradients that are not averaged yet, and its results are not in "
            "proportion to them");
    else
        say(place, PLACE_SHARE, step,
            "look in this kernel for statistics of the share, such as a sum, a mean, a norm or a ranking (DDP_REDUCE "
            "computes them for the batch), and for positions and random numbers by a row's number in the share instead "
            "of the batch",
            "the memory that argument %u points to has neither the rows of one process nor a sum over them: a row "
            "depends on the other rows of the share, or on its number in it",
            (it->number & 0xffff) + 1);
    return true;
}

static bool
has_step(const struct looked *looked, const struct look_operation *its)
{
    for (size_t i = 0; i < looked->count; ++i) {
        if (looked->steps[i].its->interval == its->interval && strcmp(looked->steps[i].its->name, its->name) == 0)
            return true;
    }
    return false;
}

/* Of an operation that is made on one side only: by the rank, or by one process. Before DDP_STEP others of its name may
 * be a loop over records. */
static bool
say_missing(const struct finding *finding, const struct step *step, int rank, bool makes, struct place *place)
{
    if (!finding->question->is_update && has_step(makes ? &finding->one : &finding->ranks[rank], step->its))
        return false;
    say(place, PLACE_MISSING, step,
        "the decision on the host whether this operation is made must be the same on all ranks: by averaged values "
        "(DDP_MEAN), not by the rank or its own values",
        makes ? "rank %d makes it, and one process does not" : "one process makes it, and rank %d does not", rank);
    return true;
}

/* An operation that one rank does not make changes what its operation gets that is `at` of one rank's; with at ==
 * one.count the tensor itself, which one rank does not change at all. */
static bool
find_extra(const struct finding *finding, int rank, size_t at, struct place *place)
{
    const struct looked *one = &finding->one, *looked = &finding->ranks[rank];
    size_t end = at < one->count ? (size_t)looked->of[at] : looked->count;
    for (size_t i = 0, next = 0; i < end; ++i) {
        while (next < one->count && looked->of[next] < (int)i)
            ++next;
        bool is_extra = at == one->count || next == one->count || looked->of[next] != (int)i, changes = false;
        for (uint32_t a = 0; a < looked->steps[i].its->arguments && is_extra; ++a) {
            changes = changes || (at == one->count && is_target(finding->question, &looked->steps[i], a));
            for (uint32_t b = 0; at < one->count && b < looked->steps[end].its->arguments; ++b)
                changes = changes || (looked->steps[end].list[b].is_memory &&
                                      reaches(&looked->steps[i].list[a], &looked->steps[end].list[b]));
        }
        if (changes && looked->steps[i].its->interval == finding->question->interval)
            return say_missing(finding, &looked->steps[i], rank, true, place);
    }
    return false;
}

static bool
find_place(struct finding *finding, struct place *place)
{
    const struct place_question *question = finding->question;
    for (size_t at = 0; at < finding->one.count; ++at) {
        const struct step *step = &finding->one.steps[at];
        if (!finding->matters[at] || step->its->interval != question->interval)
            continue;
        for (int r = 0; r < question->ranks; ++r) {
            if (finding->ranks[r].of[at] < 0)
                return say_missing(finding, step, r, false, place);
            if (question->is_update && find_extra(finding, r, at, place))
                return true;
        }
        if (question->is_update && say_scalar(finding, at, 3, place))
            return true;
        for (struct where where = {.at = at, .after = true}; where.argument < step->its->arguments; ++where.argument) {
            if (!step->list[where.argument].is_memory || step->list[where.argument].end == 0)
                continue;
            enum relation relation = relate(finding, &where);
            if (relation == RELATION_NONE && !question->is_update)
                relation = relate_calls(finding, &where);
            if (relation == RELATION_UNKNOWN)
                return false;
            if (relation == RELATION_NONE || (question->is_update && relation != RELATION_SAME))
                return say_place(finding, at, (uint32_t)where.argument, place);
        }
    }
    return false;
}

/* Whether one call changes a gradient several times in the step, as micro-batches do: their shares have no relation
 * yet. */
static bool
accumulates(const struct looked *one)
{
    for (size_t i = 0; i < one->count; ++i) {
        const struct step *step = &one->steps[i];
        for (uint32_t a = 0; a < step->its->arguments; ++a) {
            const struct look_argument *it = &step->list[a];
            for (size_t j = 0; j < i && it->end > 0 && it->tensor >> 24 == 1 + CHECK_GRADIENT; ++j) {
                if (are_alike(step, &one->steps[j]) && one->steps[j].list[a].address == it->address)
                    return true;
            }
        }
    }
    return false;
}

bool
place_find(const struct place_question *question, struct place *place)
{
    int ranks = question->ranks;
    struct finding finding = {.question = question, .ranks = xcalloc((size_t)ranks, sizeof(*finding.ranks))};
    bool ok = load(question->one, &finding.one);
    *place = (struct place){.text = ""};
    for (int r = 0; r < ranks; ++r) {
        bool loaded = load(question->of[r], &finding.ranks[r]);
        ok = ok && loaded;
        if (ok)
            align(&finding.one, &finding.ranks[r]);
        if (ok)
            share_changes(&finding.one, &finding.ranks[r]);
    }
    ok = ok && !accumulates(&finding.one);
    bool any = ok && find_what_matters(&finding);
    bool found = any && find_place(&finding, place);
    for (int r = 0; r < ranks && ok && !any && !found; ++r)
        found = find_extra(&finding, r, finding.one.count, place);
    for (int r = 0; r < ranks; ++r)
        unload(&finding.ranks[r]);
    unload(&finding.one);
    free(finding.matters);
    free(finding.ranks);
    return found;
}
