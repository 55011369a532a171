/* relation.c - see relation.h. */
#include "tools/check/command/relation.h"

#include "tools/check/format/element.h"
#include "tools/common/grown.h"
#include "tools/common/owned.h"

#include <math.h>

static const double near_enough = 1e-4;

/* ---- files ---- */

/* False: the file is not there, *lost_p, or does not tell. */
static bool
load(const struct place_question *question, int rank, struct looked *looked, bool *lost_p)
{
    OWNED char *path = xasprintf("%s-%d.look", question->results[rank >= 0], rank >= 0 ? rank : 0);
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 20, bytes = 0, got, at = 0;
    *looked = (struct looked){.file = xcalloc(1, room)};
    while (file != NULL && (got = fread(looked->file + bytes, 1, room - bytes, file)) > 0) {
        bytes += got;
        if (bytes == room)
            looked->file = xrealloc(looked->file, room *= 2);
    }
    *lost_p = *lost_p || file == NULL;
    if (file != NULL)
        fclose(file);
    unlink(path);
    while (at + sizeof(struct look_operation) <= bytes) {
        struct look_operation *record = (void *)(looked->file + at);
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

static const struct contents *
contents_of(const struct looked *looked, uint64_t hash)
{
    return FIND(contents, looked->contents, looked->content_count, contents->hash == hash);
}

/* ---- which operation of a rank is which of the one rank's ---- */

bool
relation_is_one_call(const struct step *a, const struct step *b)
{
    return a->its->interval == b->its->interval && a->its->arguments == b->its->arguments &&
           strcmp(a->its->name, b->its->name) == 0 && strcmp(a->its->place, b->its->place) == 0;
}

/* What a call makes for the n-th time in an interval is what it makes there for the n-th time in one process. */
static void
align(const struct looked *one, struct looked *rank)
{
    OWNED bool *taken = xcalloc(rank->count + 1, sizeof(*taken));
    rank->of = xcalloc(one->count + 1, sizeof(*rank->of));
    for (size_t i = 0; i < one->count; ++i) {
        rank->of[i] = -1;
        for (size_t k = 0; k < rank->count && rank->of[i] < 0; ++k) {
            if (taken[k] || !relation_is_one_call(&one->steps[i], &rank->steps[k]))
                continue;
            taken[k] = true;
            rank->of[i] = (int)k;
        }
    }
}

/* Memory is an annotated tensor's before its annotation, too: as operations before the first DDP_STEP get it. */
static void
annotate_early(struct looked *looked)
{
    FOR_EACH(later, looked->steps, looked->count) {
        FOR_EACH_UNTIL(known, later->list, later->its->arguments, later->its->interval > 0) {
            FOR_EACH_UNTIL(step, looked->steps, NUMBER_OF(later), known->tensor == 0) {
                FOR_EACH_MUTABLE(it, step->list, step->its->arguments) {
                    bool is_it = it->is_memory && it->address == known->address;
                    it->is_before = it->is_before || (is_it && it->tensor == 0);
                    it->tensor = is_it ? known->tensor : it->tensor;
                }
            }
        }
    }
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

bool
relation_load(struct finding *finding, bool *lost_p)
{
    const struct place_question *question = finding->question;
    bool ok = load(question, -1, &finding->one, lost_p);
    annotate_early(&finding->one);
    finding->ranks = xcalloc((size_t)question->ranks, sizeof(*finding->ranks));
    for (int r = 0; r < question->ranks; ++r) {
        ok = load(question, r, &finding->ranks[r], lost_p) && ok;
        annotate_early(&finding->ranks[r]);
        if (ok) {
            align(&finding->one, &finding->ranks[r]);
            share_changes(&finding->one, &finding->ranks[r]);
        }
    }
    return ok;
}

static void
unload(struct looked *looked)
{
    free(looked->file);
    free(looked->contents);
    free(looked->steps);
    free(looked->of);
}

void
relation_free(struct finding *finding)
{
    for (int r = 0; r < finding->question->ranks; ++r)
        unload(&finding->ranks[r]);
    unload(&finding->one);
    free(finding->matters);
    free(finding->ranks);
}

/* ---- numbers ---- */

struct numbers {
    double *list;
    size_t count;
    bool are_whole;
    double unit; /* rounding of each, besides */
};

static void
free_numbers(const struct numbers *numbers)
{
    free(numbers->list);
}

static void
free_contents(const struct contents *contents)
{
    free((char *)contents->data);
}

#define OWNED_NUMBERS  __attribute__((cleanup(free_numbers))) struct numbers
#define OWNED_CONTENTS __attribute__((cleanup(free_contents))) struct contents

/* Of the numbers of that type the largest by the smallest, but for zeros; infinite: some are no ordinary ones. */
static double
spread_of(int type, const struct contents *contents, uint64_t first, uint64_t end)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < (end - first) / element_size(type); ++i) {
        double value = fabs(element_get(type, contents->data + first, i));
        if (value == 0)
            continue;
        if (!(value > 1e-30 && value < 1e30))
            return INFINITY;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    return most > least ? most / least : 1;
}

/* The lower half of a double is any float, or 0 of a short number; the upper halves are near each other. */
static int
guess_type(const struct contents *contents, uint64_t first, uint64_t end)
{
    static const double usual = 1e6, any = 1e18;
    double narrow = spread_of(ELEMENT_FLOAT32, contents, first, end),
           wide = (end - first) % sizeof(double) == 0 ? spread_of(ELEMENT_FLOAT64, contents, first, end) : INFINITY;
    bool are_short = end - first > sizeof(double) && wide < any;
    for (size_t i = 0; i < (end - first) / sizeof(float) && are_short; i += 2)
        are_short = element_get(ELEMENT_INT32, contents->data + first, i) == 0;
    bool are_halves = wide < INFINITY && (narrow == INFINITY || (narrow > usual && wide * wide < narrow));
    return are_halves || are_short ? ELEMENT_FLOAT64 : narrow < INFINITY ? ELEMENT_FLOAT32 : ELEMENT_INT32;
}

/* `type` 0: not known. */
static struct numbers
read_numbers(const struct contents *contents, int type, uint64_t first, uint64_t end)
{
    end = end < contents->bytes ? end : contents->bytes;
    first = first < end ? first : end;
    type = type != 0 ? type : guess_type(contents, first, end);
    size_t each = element_size(type);
    first -= first % each; /* what was changed need not be the first half of a double */
    end += (each - end % each) % each;
    end -= end > contents->bytes ? each : 0;
    struct numbers numbers = {.list = xcalloc((end - first) / each + 1, sizeof(double)),
                              .count = (end - first) / each,
                              .are_whole = type > ELEMENT_BFLOAT16};
    double most = 0;
    for (size_t i = 0; i < numbers.count; ++i) {
        numbers.list[i] = element_get(type, contents->data + first, i);
        most = fmax(most, fabs(numbers.list[i]));
    }
    numbers.unit = type == ELEMENT_BFLOAT16 ? most * 0x1p-8 : type == ELEMENT_FLOAT16 ? most * 0x1p-11 : 0;
    return numbers;
}

/* Of list[i] - factor * other[i]; other NULL: of list[i]. */
static double
norm_of(const double *list, const double *other, double factor, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; ++i) {
        double value = list[i] - (other != NULL ? factor * other[i] : 0);
        square += value * value;
    }
    return sqrt(square);
}

/* Each number is factor * the other one, nearly, and but for `unit`. */
static bool
are_near(const struct numbers *numbers, const struct numbers *other, double factor, double unit)
{
    double most = fmax(norm_of(numbers->list, NULL, 0, numbers->count),
                       fabs(factor) * norm_of(other->list, NULL, 0, other->count));
    return numbers->count == other->count && norm_of(numbers->list, other->list, factor, other->count) <=
                                                 unit * sqrt((double)other->count) + near_enough * most;
}

static void
weigh(struct numbers *own, double weight)
{
    for (size_t i = 0; i < own->count && !own->are_whole; ++i)
        own->list[i] *= weight;
}

static void
append(struct numbers *all, const struct numbers *own)
{
    all->list = xrealloc(all->list, (all->count + own->count + 1) * sizeof(double));
    for (size_t i = 0; i < own->count; ++i)
        all->list[all->count++] = own->list[i];
    all->are_whole = own->are_whole;
}

static void
add_elements(struct numbers *sum, const struct numbers *own)
{
    for (size_t i = 0; i < own->count && own->count == sum->count; ++i)
        sum->list[i] += own->list[i];
    if (sum->count == 0)
        append(sum, own);
}

COMPARES(by_value, double, (*a > *b) - (*a < *b))

/* In any order, and but for zeros, of which both may have more. */
static bool
are_rows(const struct numbers *all, const struct numbers *one, int ranks)
{
    size_t count = all->count > one->count ? all->count : one->count;
    OWNED_NUMBERS left = {xcalloc(count + 1, sizeof(double)), .count = count},
                  right = {xcalloc(count + 1, sizeof(double)), .count = count};
    memcpy(left.list, all->list, all->count * sizeof(double));
    memcpy(right.list, one->list, one->count * sizeof(double));
    SORT(left.list, count, by_value);
    SORT(right.list, count, by_value);
    return are_near(&left, &right, 1, 0) ||
           (!one->are_whole && (are_near(&left, &right, ranks, 0) || are_near(&left, &right, 1.0 / ranks, 0)));
}

/* ---- relations ---- */

static const struct looked *
made_by(const struct finding *finding, int rank)
{
    return rank < 0 ? &finding->one : &finding->ranks[rank];
}

const struct look_argument *
relation_argument(const struct finding *finding, int rank, const struct where *where)
{
    const struct looked *looked = made_by(finding, rank);
    int at = rank < 0 ? (int)where->at : looked->of[where->at];
    return at < 0 ? NULL : &looked->steps[at].list[where->argument];
}

int
relation_missing_on(const struct finding *finding, size_t at)
{
    const struct looked *rank = FIND(it, finding->ranks, (size_t)finding->question->ranks, it->of[at] < 0);
    return rank != NULL ? (int)(rank - finding->ranks) : -1;
}

/* What one rank's operation has changed there, and operations of the interval before it, which all ranks make: one that
 * changes some elements of each row leaves the others as they are. */
static void
range_of(const struct finding *finding, const struct where *where, uint64_t *first_p, uint64_t *end_p)
{
    const struct step *steps = finding->one.steps;
    const struct look_argument *it = &steps[where->at].list[where->argument];
    bool is_copy = steps[where->at].its->from_host;
    *first_p = is_copy ? 0 : it->first;
    *end_p = is_copy ? it->bytes : it->end;
    for (size_t i = 0; i < where->at; ++i) {
        bool counts = steps[i].its->interval >= finding->question->since && relation_missing_on(finding, i) < 0;
        FOR_EACH_UNTIL(by, steps[i].list, steps[i].its->arguments, !counts) {
            bool is_it = by->is_memory && by->address == it->address && by->end > 0;
            *first_p = is_it && by->first < *first_p ? by->first : *first_p;
            *end_p = is_it && by->end > *end_p ? by->end : *end_p;
        }
    }
    *end_p = *end_p < it->bytes ? *end_p : it->bytes; /* a DDP_REDUCE may be of a part */
}

/* It is the parameter or state that is changed before DDP_STEP. */
static bool
is_early(const struct finding *finding, const struct look_argument *it)
{
    return finding->question->is_early && it->tensor == finding->question->tensor;
}

/* What the operation has found there; of a parameter before DDP_STEP what the interval has begun with. */
static uint64_t
hash_before(const struct finding *finding, int rank, const struct where *where)
{
    const struct looked *looked = made_by(finding, rank);
    const struct look_argument *it = relation_argument(finding, rank, where);
    FOR_EACH_UNTIL(step, looked->steps, looked->count, !is_early(finding, it)) {
        struct look_argument *of = FIND(a, step->list, step->its->arguments, a->is_memory && a->tensor == it->tensor);
        if (of != NULL && step->its->interval == finding->question->interval)
            return of->before;
    }
    return it->before;
}

/* As it is annotated, or as one process's look. A float that is infinite or NaN is no number. */
static int
type_of(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    const struct contents *contents = contents_of(&finding->one, where->after ? mine->after : mine->before);
    if (mine->type > ELEMENT_FLOAT32 || contents == NULL || end > contents->bytes)
        return mine->type;
    int type = guess_type(contents, first, end);
    return mine->type != 0 && type == ELEMENT_FLOAT64 ? ELEMENT_FLOAT32 : type;
}

/* The numbers of [first, end) there; `of_change`: how much they have changed, zeros where the rank does not make the
 * operation. False: they were not kept. */
static bool
numbers_of(const struct finding *finding, int rank, const struct where *where, uint64_t first, uint64_t end,
           bool of_change, struct numbers *numbers)
{
    const struct look_argument *argument = relation_argument(finding, rank, where);
    const struct looked *looked = made_by(finding, rank);
    const struct contents *contents =
        argument != NULL ? contents_of(looked, where->after ? argument->after : argument->before) : NULL;
    if (argument == NULL && of_change) {
        bool known = numbers_of(finding, -1, where, first, end, false, numbers);
        for (size_t i = 0; i < numbers->count && known; ++i)
            numbers->list[i] = 0;
        return known;
    }
    if (contents == NULL || end > contents->bytes)
        return false;
    int type = type_of(finding, where, first, end);
    *numbers = read_numbers(contents, type, first, end);
    const struct contents *before =
        where->after && of_change ? contents_of(looked, hash_before(finding, rank, where)) : NULL;
    if (before == NULL || numbers->are_whole)
        return true;
    OWNED_NUMBERS old = read_numbers(before, type, first, end);
    double most = 0;
    for (size_t i = 0; i < numbers->count && old.count == numbers->count; ++i) {
        most = fmax(most, fabs(numbers->list[i]));
        numbers->list[i] -= old.list[i];
    }
    numbers->unit = fmax(numbers->unit, most * 1.2e-7);
    return true;
}

double
relation_weight(const struct finding *finding, int rank)
{
    const struct step *step =
        FIND(it, finding->ranks[rank].steps, finding->ranks[rank].count,
             it->its->interval == finding->question->interval && strcmp(it->its->name, LOOK_STEPS) == 0);
    return step != NULL ? step->list[0].value : 1;
}

/* Each rank's at the same place. */
static enum relation
relate_places(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end, bool of_change,
              const struct numbers *one)
{
    const struct place_question *question = finding->question;
    const struct step *step = &finding->one.steps[where->at];
    int ranks = question->ranks;
    bool same = true, summed = true, early = is_early(finding, &step->list[where->argument]);
    OWNED_NUMBERS sum = {.count = 0}, weighed = {.count = 0};
    for (int r = 0; r < ranks && summed; ++r) {
        OWNED_NUMBERS own = {.count = 0};
        summed = numbers_of(finding, r, where, first, end, of_change, &own);
        same = same && are_near(&own, one, 1, one->unit);
        add_elements(&sum, &own);
        weigh(&own, relation_weight(finding, r));
        add_elements(&weighed, &own);
    }
    same = same && summed;
    double unit = (1 + ranks) * one->unit;
    bool is_part = summed && are_near(&sum, one, 1, unit),
         is_mean = summed && (are_near(&sum, one, ranks, unit) || are_near(&weighed, one, ranks, unit));
    if (strcmp(step->its->name, LOOK_REDUCES) == 0) /* of what each rank has divided by its share */
        is_mean = is_mean || (summed && are_near(&sum, one, (double)ranks * ranks, 0));
    if (early && !same)
        return !question->is_averaged ? RELATION_NONE
               : is_mean              ? RELATION_SUM
               : is_part              ? RELATION_PART
                                      : RELATION_NONE;
    if (of_change && !question->is_update && is_part && !is_mean) /* of relation_adds() */
        return RELATION_PART;
    return same ? RELATION_SAME : is_part || is_mean ? RELATION_SUM : RELATION_NONE;
}

/* Behind `all`: of each rank [first, end), or where `end` is 0 what it has changed; `weighs`: as DDP_WEIGHT says. */
static bool
gather(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end, bool weighs,
       struct numbers *all)
{
    bool ok = true;
    for (int r = 0; r < finding->question->ranks && ok; ++r) {
        const struct look_argument *argument = relation_argument(finding, r, where);
        OWNED_NUMBERS own = {.count = 0};
        bool is_copy = finding->one.steps[where->at].its->from_host;
        uint64_t from = end > 0                       ? first
                        : is_copy || argument == NULL ? 0
                                                      : argument->first,
                 to = end > 0 || argument == NULL ? end
                      : is_copy                   ? argument->bytes
                                                  : argument->end;
        ok = to > from && numbers_of(finding, r, where, from, to, finding->question->is_update, &own);
        weigh(&own, weighs ? relation_weight(finding, r) : 1);
        if (ok)
            append(all, &own);
    }
    return ok;
}

bool
relation_is_result(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    const struct look_argument *theirs;
    return ALL_NUMBERS(r, 0, finding->question->ranks,
                       (theirs = relation_argument(finding, r, where)) != NULL &&
                           theirs->end - theirs->first == mine->end - mine->first);
}

static enum relation
relate(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    int ranks = finding->question->ranks, equal = 0;
    uint64_t first = 0, end = mine->bytes;
    if (where->after)
        range_of(finding, where, &first, &end);
    for (int r = 0; r < ranks; ++r) {
        const struct look_argument *theirs = relation_argument(finding, r, where);
        if (theirs == NULL || !theirs->is_memory)
            return RELATION_UNKNOWN;
        equal += (where->after ? theirs->after == mine->after : theirs->before == mine->before) &&
                 theirs->bytes == mine->bytes;
    }
    if (equal == ranks || mine->is_part)
        return equal == ranks ? RELATION_SAME : RELATION_UNKNOWN;
    enum relation relation = RELATION_NONE;
    bool early = is_early(finding, mine), of_change = finding->question->is_update || early;
    OWNED_NUMBERS one = {.count = 0};
    /* What was changed; else all there is, for an operation may leave some elements of the last row; else what it has
     * changed itself, as one of several results that lie side by side. */
    bool is_alone = where->after && mine->end > 0 && !finding->one.steps[where->at].its->from_host &&
                    relation_is_result(finding, where);
    for (int pass = 0; pass < 2 + is_alone && relation == RELATION_NONE; ++pass) {
        free(one.list);
        first = pass == 1 ? 0 : pass == 2 ? mine->first : first;
        end = pass == 1 ? mine->bytes : pass == 2 ? mine->end : end;
        if (!numbers_of(finding, -1, where, first, end, of_change, &one))
            return RELATION_UNKNOWN;
        relation = relate_places(finding, where, first, end, of_change, &one);
        if (early || pass == 2)
            break;
        const uint64_t ends[] = {0, first + (end - first) / (uint64_t)ranks, end};
        for (size_t i = where->after && pass == 0 ? 0 : 1; i < 3 && relation == RELATION_NONE; ++i) {
            for (int weighs = 0; weighs < 2 && relation == RELATION_NONE; ++weighs) {
                OWNED_NUMBERS all = {.count = 0};
                if (gather(finding, where, first, ends[i], weighs == 1, &all) && are_rows(&all, &one, ranks))
                    relation = RELATION_ROWS;
            }
        }
    }
    bool may_be_anew =
        one.are_whole && where->after && !early && !finding->one.steps[where->at].its->from_host &&
        (mine->type != 0 || !relation_is_result(finding, where)); /* or infinite, of a tensor of floats */
    return relation == RELATION_NONE && may_be_anew ? RELATION_EXCUSED : relation;
}

/* ---- what a call copies from the host ---- */

bool
relation_is_same_call(const struct look_operation *a, const struct look_operation *b)
{
    return a->from_host && b->from_host && strcmp(a->place, b->place) == 0 && strcmp(a->name, b->name) == 0;
}

static void
append_bytes(struct contents *all, const struct contents *own)
{
    char *data = xrealloc((char *)all->data, all->bytes + own->bytes + 1);
    memcpy(data + all->bytes, own->data, own->bytes);
    all->data = data;
    all->bytes += own->bytes;
}

/* All that the call has copied in the interval, malloc'ed; data NULL: it is not known. `hash`: the number of copies. */
static struct contents
copied_by(const struct looked *looked, const struct look_operation *its, uint32_t interval)
{
    struct contents all = {.data = xcalloc(1, 1)};
    FOR_EACH(step, looked->steps, looked->count) {
        const struct contents *own = relation_is_same_call(step->its, its) && step->its->interval == interval
                                         ? contents_of(looked, step->list[0].after)
                                         : NULL;
        if (own == NULL)
            continue;
        if (step->list[0].is_part) {
            free_contents(&all);
            return (struct contents){.data = NULL};
        }
        append_bytes(&all, own);
        ++all.hash;
    }
    return all;
}

/* Some items have one process's numbers in another order, as pictures that are shifted otherwise; the rest is its. */
static bool
are_mixed_up(const struct contents *all, const struct contents *one, uint64_t items)
{
    uint64_t each = items > 0 && one->bytes % items == 0 ? one->bytes / items : 0, mixed = 0;
    for (uint64_t at = 0; each > 0 && at + each <= one->bytes; at += each) {
        OWNED_NUMBERS left = read_numbers(all, 0, at, at + each), right = read_numbers(one, 0, at, at + each);
        bool same = memcmp(all->data + at, one->data + at, each) == 0, are = same || are_rows(&left, &right, 1);
        mixed += !same;
        if (!are)
            return false;
    }
    return mixed > 0;
}

static enum relation
relate_copies(const struct finding *finding, const struct where *where)
{
    const struct look_operation *its = finding->one.steps[where->at].its;
    OWNED_CONTENTS one = copied_by(&finding->one, its, its->interval), all = {.data = xcalloc(1, 1)};
    bool same = one.data != NULL, known = same;
    for (int r = 0; r < finding->question->ranks; ++r) {
        OWNED_CONTENTS own = copied_by(&finding->ranks[r], its, its->interval);
        known = known && own.data != NULL;
        same = same && known && own.bytes == one.bytes && memcmp(own.data, one.data, one.bytes) == 0;
        if (known)
            append_bytes(&all, &own);
    }
    OWNED_NUMBERS left = read_numbers(&all, 0, 0, all.bytes), right = read_numbers(&one, 0, 0, known ? one.bytes : 0);
    enum relation relation =
        !known ? RELATION_UNKNOWN
        : same ? RELATION_SAME
        : all.bytes == one.bytes && are_rows(&left, &right, 1) && !are_mixed_up(&all, &one, finding->question->items)
            ? RELATION_ROWS
        : its->is_aside /* a loader is ahead by any number of steps */ ? RELATION_UNKNOWN
                                                                       : RELATION_NONE;
    if (relation == RELATION_NONE && finding->matters[where->at] == MATTERS_UNSEEN && right.are_whole)
        relation = RELATION_ROWS; /* as where a share begins */
    return relation;
}

/* Of bytes[count], the place of what begins there; false: it is not there. */
static bool
is_among(const struct contents *all, const char *bytes, size_t count, uint64_t *begin_p)
{
    const char *found = count <= all->bytes ? memmem(all->data, all->bytes, bytes, count) : NULL;
    *begin_p = found != NULL ? (uint64_t)(found - all->data) : 0;
    return found != NULL;
}

/* The same where items are columns of so many layers: one item after the other; malloc'ed. */
static struct contents
lay_items(const struct contents *all, uint64_t each, uint64_t layers)
{
    struct contents laid = {.bytes = all->bytes, .data = memcpy(xcalloc(1, all->bytes + 1), all->data, all->bytes)};
    uint64_t part = each / layers, count = layers > 1 ? all->bytes / each * layers : 0;
    for (uint64_t k = 0; k < count; ++k)
        memcpy((char *)laid.data + (k % (count / layers) * layers + k / (count / layers)) * part, all->data + k * part,
               part);
    return laid;
}

/* Whether the one rank copies each item of these in some step; or many of them elsewhere than in the rank's share. */
static bool
are_known(const struct finding *finding, const struct look_operation *its, const struct contents *own, int rank,
          const struct part *part)
{
    enum { PIECES = 64, AT_SHARE, ELSEWHERE };
    uint64_t count = own->bytes / part->each, apart = count / PIECES + 1, tried = 0, known = 0, elsewhere = 0, at;
    uint32_t last = finding->one.steps[finding->one.count - 1].its->interval;
    OWNED char *found = xcalloc(count + 1, 1);
    for (uint32_t interval = 0; interval <= last; ++interval) {
        OWNED_CONTENTS all = copied_by(&finding->one, its, interval),
                       one = all.data != NULL ? lay_items(&all, part->each, part->layers)
                                              : (struct contents){.data = NULL};
        for (uint64_t i = 0; i < count && one.data != NULL; i += apart)
            if (is_among(&one, own->data + i * part->each, part->each, &at))
                found[i] = interval == its->interval && at == (uint64_t)rank * own->bytes + i * part->each ? AT_SHARE
                                                                                                           : ELSEWHERE;
    }
    for (uint64_t i = 0; i < count; i += apart, ++tried)
        known += found[i] != 0, elsewhere += found[i] == ELSEWHERE;
    return tried > 0 && (known == tried || 4 * elsewhere >= tried);
}

/* With items that lie in part->layers, if that is more than the least. */
static enum copied
relate_items(const struct finding *finding, const struct look_operation *its, int rank, const struct contents *all,
             const struct contents *mine, enum copied least, struct part *part)
{
    enum { LEAST_BYTES = 16 };
    OWNED_CONTENTS one = lay_items(all, part->each, part->layers), own = lay_items(mine, part->each, part->layers);
    enum copied copied =
        is_among(&one, own.data, own.bytes, &part->begin) ? COPIED_PART
        : part->each >= LEAST_BYTES && least < COPIED_ITEMS && are_known(finding, its, &own, rank, part)
            ? COPIED_ITEMS
            : COPIED_OTHERS;
    part->begins = copied == COPIED_PART || (copied == COPIED_ITEMS && finding->question->items > 0 &&
                                             is_among(&one, own.data, part->each, &part->begin));
    return copied;
}

enum copied
relation_of_copies(const struct finding *finding, size_t at, int rank, struct part *part)
{
    enum { PIECE_BYTES = 64 };
    const struct look_operation *its = finding->one.steps[at].its;
    OWNED_CONTENTS one = copied_by(&finding->one, its, its->interval),
                   own = copied_by(&finding->ranks[rank], its, its->interval);
    uint64_t items = finding->question->items, each = own.bytes < PIECE_BYTES ? own.bytes : PIECE_BYTES;
    bool in_items = items > 0 && one.bytes > 0 && one.bytes % items == 0;
    each = in_items ? one.bytes / items : each;
    *part = (struct part){.bytes = own.bytes, .all = one.bytes, .copies = own.hash, .all_copies = one.hash};
    enum copied copied = COPIED_OTHERS;
    uint64_t most = in_items && own.bytes % each == 0 ? each / sizeof(float) : 1;
    struct part so = *part;
    so.each = each;
    for (so.layers = 1; so.layers <= most && copied < COPIED_PART && one.data != NULL && own.bytes > 0; ++so.layers) {
        enum copied here =
            each % so.layers == 0 ? relate_items(finding, its, rank, &one, &own, copied, &so) : COPIED_OTHERS;
        *part = here > copied ? so : *part;
        copied = here > copied ? here : copied;
    }
    return copied;
}

/* ---- all of them ---- */

/* What each rank gets is what the one rank gets, from some place on, as of data that stay on the device. */
static bool
are_further_on(const struct finding *finding, const struct where *where)
{
    enum { LEAST_BYTES = 16 };
    const struct contents *one = contents_of(&finding->one, relation_argument(finding, -1, where)->before);
    bool are = one != NULL;
    for (int r = 0; r < finding->question->ranks && are; ++r) {
        const struct contents *own = contents_of(&finding->ranks[r], relation_argument(finding, r, where)->before);
        const char *from = own != NULL && own->bytes >= LEAST_BYTES ? one->data : NULL;
        are = false;
        while (from != NULL && !are &&
               (from = memmem(from, one->bytes - (size_t)(from - one->data), own->data, LEAST_BYTES)) != NULL) {
            size_t left = one->bytes - (size_t)(from - one->data);
            are = memcmp(from, own->data, left < own->bytes ? left : own->bytes) == 0;
            ++from;
        }
    }
    return are;
}

/* Of a rank's operations of the call: what each has changed, and all there is, one after the other; all values element
 * by element, added up; and the last ones. */
struct called {
    struct numbers rows, whole, sum, last;
};

static void
free_called(const struct called *called)
{
    free(called->rows.list), free(called->whole.list), free(called->sum.list), free(called->last.list);
}

/* Weighed; false: the files do not tell. */
static bool
add_call(const struct finding *finding, int rank, const struct where *where, double weight, struct called *called)
{
    const struct looked *looked = made_by(finding, rank);
    OWNED_NUMBERS last = {.count = 0};
    for (size_t i = 0; i < looked->count; ++i) {
        const struct look_argument *it = &looked->steps[i].list[where->argument];
        if (!relation_is_one_call(&looked->steps[i], &finding->one.steps[where->at]) || !it->is_memory || it->end == 0)
            continue;
        /* It ends where another operation's memory begins, as that of the next micro-batch. */
        bool may_go_on = it->tensor == 0 && ANY(step, looked->steps, looked->count,
                                                ANY(other, step->list, step->its->arguments,
                                                    other->is_memory && other->address == it->address + it->bytes));
        const struct contents *contents = !it->is_part && !may_go_on ? contents_of(looked, it->after) : NULL;
        if (contents == NULL)
            return false;
        OWNED_NUMBERS own = read_numbers(contents, it->type, it->first, it->end);
        weigh(&own, weight);
        append(&called->rows, &own);
        free(last.list);
        last = read_numbers(contents, it->type, 0, it->bytes);
        weigh(&last, weight);
        append(&called->whole, &last);
        add_elements(&called->sum, &last);
    }
    add_elements(&called->last, &last);
    return true;
}

enum relation
relation_of_call(const struct finding *finding, const struct where *where)
{
    __attribute__((cleanup(free_called))) struct called one = {.rows.count = 0};
    int ranks = finding->question->ranks;
    bool known = add_call(finding, -1, where, 1, &one);
    enum relation relation = RELATION_NONE;
    for (int weighs = 0; weighs < 2 && known && relation == RELATION_NONE; ++weighs) {
        __attribute__((cleanup(free_called))) struct called all = {.rows.count = 0};
        for (int r = 0; r < ranks && known; ++r)
            known = add_call(finding, r, where, weighs == 1 ? relation_weight(finding, r) : 1, &all);
        bool has_rows = are_rows(&all.rows, &one.rows, ranks) || are_rows(&all.whole, &one.whole, ranks);
        relation = known && has_rows ? RELATION_ROWS : RELATION_NONE;
        for (int factor = 1; factor <= ranks && relation == RELATION_NONE; factor += ranks - 1) {
            bool adds = are_near(&all.sum, &one.sum, factor, 0) || are_near(&all.last, &one.last, factor, 0);
            relation = adds || one.rows.are_whole ? RELATION_SUM : RELATION_NONE;
        }
    }
    return known ? relation : RELATION_UNKNOWN;
}

enum relation
relation_of(const struct finding *finding, const struct where *where)
{
    if (where->after && finding->one.steps[where->at].its->from_host && !finding->question->is_update)
        return relate_copies(finding, where);
    enum relation relation = relate(finding, where);
    bool may_be_data = relation == RELATION_NONE || relation == RELATION_ROWS;
    return may_be_data && !where->after && are_further_on(finding, where) ? RELATION_DATA : relation;
}

bool
relation_changes_same(const struct finding *finding, size_t at)
{
    static const double visible = 1e3; /* units in the last place */
    bool same = true;
    for (struct where where = {.at = at, .after = true}; where.argument < finding->one.steps[at].its->arguments;
         ++where.argument) {
        const struct look_argument *it = relation_argument(finding, -1, &where);
        OWNED_NUMBERS one = {.count = 0};
        bool same_bits =
            !it->is_memory || it->end == 0 ||
            ALL_NUMBERS(r, 0, finding->question->ranks, relation_argument(finding, r, &where)->after == it->after);
        same = same &&
               (same_bits || (relation_of(finding, &where) == RELATION_SAME &&
                              numbers_of(finding, -1, &where, it->first, it->end, true, &one) &&
                              norm_of(one.list, NULL, 0, one.count) > visible * one.unit * sqrt((double)one.count)));
    }
    return same;
}

enum relation
relation_adds(const struct finding *finding, const struct where *where, bool of_change)
{
    OWNED_NUMBERS one = {.count = 0};
    const struct look_argument *it = relation_argument(finding, -1, where);
    return it->end > it->first && numbers_of(finding, -1, where, it->first, it->end, of_change, &one)
               ? relate_places(finding, where, it->first, it->end, of_change, &one)
               : RELATION_NONE;
}

bool
relation_is_anew(const struct finding *finding, size_t at, size_t argument)
{
    const struct where before = {at, argument, .after = false}, after = {at, argument, .after = true};
    enum relation relation = finding->question->is_update ? relation_of(finding, &before) : RELATION_UNKNOWN;
    return relation != RELATION_SAME && relation != RELATION_UNKNOWN &&
           relation_adds(finding, &after, false) == RELATION_SAME;
}

/* A scalar, or what memory has that holds one number; 0: it is none. */
static double
number_at(const struct finding *finding, int rank, const struct where *where)
{
    const struct look_argument *it = relation_argument(finding, rank, where);
    OWNED_NUMBERS one = {.count = 0};
    double number = it != NULL && !it->is_memory ? it->value : 0;
    if (it != NULL && it->is_memory && numbers_of(finding, rank, where, it->first, it->end, false, &one))
        number = one.count == 1 ? one.list[0] : 0;
    return number;
}

bool
relation_is_weighted(const struct finding *finding, const struct where *number, const struct where *where)
{
    OWNED_NUMBERS one = {.count = 0};
    const struct look_argument *mine = relation_argument(finding, -1, where);
    if (!numbers_of(finding, -1, where, 0, mine->bytes, false, &one))
        return false;
    OWNED_NUMBERS sum = {.count = 0};
    double all = 0;
    bool is = true;
    for (int r = 0; r < finding->question->ranks && is; ++r) {
        OWNED_NUMBERS own = {.count = 0};
        double times = number_at(finding, r, number);
        is = times != 0 && numbers_of(finding, r, where, 0, mine->bytes, false, &own) && own.count == one.count;
        all += times;
        weigh(&own, times);
        add_elements(&sum, &own);
    }
    return is && fabs(all - number_at(finding, -1, number)) <= near_enough * fabs(all) && are_near(&sum, &one, all, 0);
}

/* In which of `layers` equal parts of its own do the ranks' shares lie in one process's memory, as where items are
 * columns? The number with the most elements that are the same; 1 is also that of shares one after the other. */
static size_t
count_layers(const struct numbers *numbers, int ranks)
{
    enum { LAYERS_AT_MOST = 4096 };
    size_t best = 1, most = 0;
    for (size_t layers = 1; layers <= LAYERS_AT_MOST && layers <= numbers[1].count; ++layers) {
        size_t same = 0, behind = 0;
        bool fits = numbers[0].count % layers == 0 && ALL_NUMBERS(r, 1, ranks + 1, numbers[r].count % layers == 0);
        for (int r = 1; r <= ranks && fits; behind += numbers[r++].count / layers)
            for (size_t i = 0, width = numbers[r].count / layers; i < numbers[r].count; ++i)
                same +=
                    numbers[r].list[i] == numbers[0].list[i / width * (numbers[0].count / layers) + behind + i % width];
        best = same > most ? layers : best;
        most = same > most ? same : most;
    }
    return best;
}

/* Of rows that each rank has changed, the bytes of an equal share; the first and the last elements may be as they were.
 * 0: none. */
static uint64_t
size_of_share(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where), *it;
    uint64_t ranks = (uint64_t)finding->question->ranks, share = ((mine->end + ranks - 1) / ranks + 3) / 4 * 4;
    bool is_one = !finding->question->is_uneven && ranks * share <= mine->bytes &&
                  ALL_NUMBERS(r, 0, (int)ranks,
                              (it = relation_argument(finding, r, where)) != NULL && it->end <= share &&
                                  it->end + share / 10 >= share && share <= it->bytes);
    return is_one ? share : 0;
}

size_t
relation_element(const struct finding *finding, const struct where *where, bool *of_share_p, double values[])
{
    const struct look_argument *mine = relation_argument(finding, -1, where), *it;
    int ranks = finding->question->ranks;
    bool are_copied = finding->one.steps[where->at].its->from_host, known = !mine->is_part;
    struct numbers *numbers = xcalloc((size_t)ranks + 1, sizeof(*numbers));
    size_t found = SIZE_MAX, behind = 0, each = sizeof(float), all = 0, same = 0;
    double worst = near_enough;
    uint64_t share = where->after && !are_copied ? size_of_share(finding, where) : 0;
    for (int r = -1; r < ranks && known; ++r) {
        it = relation_argument(finding, r, where);
        uint64_t first = where->after && !are_copied && share == 0 ? mine->first : 0,
                 end = it == NULL || !it->is_memory  ? 0
                       : share > 0                   ? first + (r < 0 ? (uint64_t)ranks * share : share)
                       : where->after && !are_copied ? it->end
                                                     : it->bytes;
        known = end > first && numbers_of(finding, r, where, first, end, false, &numbers[r + 1]);
        each = known ? (end - first) / (numbers[r + 1].count > 0 ? numbers[r + 1].count : 1) : each;
        all += r >= 0 && known ? numbers[r + 1].count : 0;
        same += r >= 0 && known && numbers[r + 1].count == numbers[0].count;
    }
    bool are_rows = known && same < (size_t)ranks && mine->tensor == 0;
    bool are_laid = (share > 0 || are_copied) && all == numbers[0].count;
    size_t layers = known && are_rows && are_laid ? count_layers(numbers, ranks) : 1;
    /* Rows: the first rank whose own are others. The last elements may be unchanged, but not many: else each row of a
     * share is smaller than one process's, and only the first elements are of the same row and column. */
    bool are_small = are_rows && fabs((double)all - (double)numbers[0].count) > 0.1 * (double)all;
    for (int r = 0; r <= ranks && are_small; ++r)
        values[r] = (double)numbers[r].count;
    for (int r = 1; r <= ranks && known && (!are_rows || are_laid || r == 1); ++r) {
        size_t width = numbers[r].count / layers > 0 ? numbers[r].count / layers : 1;
        size_t end = are_small && numbers[r].count > 0 ? 1 : numbers[r].count;
        for (size_t i = 0; i < end && !(are_rows && found != SIZE_MAX); ++i) {
            size_t at = are_rows ? i / width * (numbers[0].count / layers) + behind + i % width : i;
            double one = at < numbers[0].count ? numbers[0].list[at] : NAN, own = numbers[r].list[i],
                   apart = fabs(own - one) / fmax(fmax(fabs(own), fabs(one)), 1e-30);
            if (!(apart > worst))
                continue;
            worst = apart;
            found = i;
            values[0] = one;
            for (int k = 1; k <= ranks; ++k)
                values[k] = i < numbers[k].count && (k == r || !are_rows) ? numbers[k].list[i] : NAN;
        }
        behind += are_rows ? width : 0;
    }
    *of_share_p = are_rows;
    found = are_small && found == SIZE_MAX ? RELATION_COUNTS : found;
    for (int r = 0; r <= ranks; ++r)
        free(numbers[r].list);
    free(numbers);
    return found < RELATION_COUNTS && where->after && !are_copied && share == 0 ? found + mine->first / each : found;
}
