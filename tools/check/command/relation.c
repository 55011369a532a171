/* relation.c - see relation.h. */
#include "tools/check/command/relation_parts.h"

#include "launcher/common/xcalloc.h"
#include "tools/near/element.h"

#include <math.h>

bool
relation_load(struct finding *finding, bool *lost_p)
{
    const struct place_question *question = finding->question;
    bool ok = looked_load(question->results[0], 0, &finding->one, lost_p);
    finding->ranks = xcalloc((size_t)question->ranks, sizeof(*finding->ranks));
    for (int r = 0; r < question->ranks; ++r) {
        ok = looked_load(question->results[1], r, &finding->ranks[r], lost_p) && ok;
        if (ok)
            looked_align(&finding->one, &finding->ranks[r]);
    }
    return ok;
}

void
relation_free(struct finding *finding)
{
    for (int r = 0; r < finding->question->ranks; ++r)
        looked_free(&finding->ranks[r]);
    looked_free(&finding->one);
    free(finding->matters);
    free(finding->ranks);
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
    int at = rank < 0 ? (int)where->operation : looked->matches[where->operation];
    return at < 0 ? NULL : &looked->operations[at].arguments[where->argument];
}

int
relation_missing_on(const struct finding *finding, size_t at)
{
    const struct looked *rank = FIND(it, finding->ranks, (size_t)finding->question->ranks, it->matches[at] < 0);
    return rank != NULL ? (int)(rank - finding->ranks) : -1;
}

/* What one rank's operation has changed there, and operations of the interval before it, which all ranks make: one that
 * changes some elements of each row leaves the others as they are. */
static void
range_of(const struct finding *finding, const struct where *where, uint64_t *first_p, uint64_t *end_p)
{
    const struct looked_operation *operations = finding->one.operations;
    const struct look_argument *it = &operations[where->operation].arguments[where->argument];
    bool is_copy = operations[where->operation].header->from_host;
    *first_p = is_copy ? 0 : it->first;
    *end_p = is_copy ? it->bytes : it->end;
    for (size_t i = 0; i < where->operation; ++i) {
        bool counts = operations[i].header->interval >= finding->question->since && relation_missing_on(finding, i) < 0;
        FOR_EACH_UNTIL(by, operations[i].arguments, operations[i].header->arguments, !counts) {
            bool is_it = by->is_memory && by->address == it->address && by->end > 0;
            *first_p = is_it && by->first < *first_p ? by->first : *first_p;
            *end_p = is_it && by->end > *end_p ? by->end : *end_p;
        }
    }
    *end_p = *end_p < it->bytes ? *end_p : it->bytes; /* a DDP_REDUCE may be of a part */
}

/* Whether the argument is the parameter or state that the question is about, where that is changed before DDP_STEP. */
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
    FOR_EACH_UNTIL(op, looked->operations, looked->count, !is_early(finding, it)) {
        struct look_argument *of =
            FIND(a, op->arguments, op->header->arguments, a->is_memory && a->tensor == it->tensor);
        if (of != NULL && op->header->interval == finding->question->interval)
            return of->before;
    }
    return it->before;
}

/* As it is annotated, or as one process's look. A float that is infinite or NaN is no number. */
static int
type_of(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    const struct contents *contents = looked_find_contents(&finding->one, where->after ? mine->after : mine->before);
    if (mine->type > ELEMENT_FLOAT32 || contents == NULL || end > contents->bytes)
        return mine->type;
    int type = numbers_guess_type(contents, first, end);
    return mine->type != 0 && type == ELEMENT_FLOAT64 ? ELEMENT_FLOAT32 : type;
}

/* What was kept of an argument there; NULL: nothing. */
static const struct contents *
contents_there(const struct finding *finding, int rank, const struct where *where)
{
    const struct look_argument *argument = relation_argument(finding, rank, where);
    if (argument == NULL)
        return NULL;
    return looked_find_contents(made_by(finding, rank), where->after ? argument->after : argument->before);
}

bool
relation_numbers(const struct finding *finding, int rank, const struct where *where, uint64_t first, uint64_t end,
                 bool of_change, struct numbers *numbers)
{
    const struct contents *contents = contents_there(finding, rank, where), *before = NULL;
    if (of_change && relation_argument(finding, rank, where) == NULL) {
        bool known = relation_numbers(finding, -1, where, first, end, false, numbers);
        for (size_t i = 0; i < numbers->count && known; ++i)
            numbers->values[i] = 0;
        return known;
    }
    if (contents == NULL || end > contents->bytes)
        return false;
    int type = type_of(finding, where, first, end);
    *numbers = numbers_read(contents, type, first, end);
    if (where->after && of_change)
        before = looked_find_contents(made_by(finding, rank), hash_before(finding, rank, where));
    if (before == NULL || numbers->are_whole)
        return true;
    OWNED_NUMBERS old = numbers_read(before, type, first, end);
    double most = 0;
    for (size_t i = 0; i < numbers->count && old.count == numbers->count; ++i) {
        most = fmax(most, fabs(numbers->values[i]));
        numbers->values[i] -= old.values[i];
    }
    numbers->unit = fmax(numbers->unit, most * 1.2e-7);
    return true;
}

double
relation_weight(const struct finding *finding, int rank)
{
    const struct looked_operation *op =
        FIND(it, finding->ranks[rank].operations, finding->ranks[rank].count,
             it->header->interval == finding->question->interval && strcmp(it->header->name, LOOK_STEPS) == 0);
    return op != NULL ? op->arguments[0].value : 1;
}

/* Each rank's at the same place. */
static enum relation
relate_places(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end, bool of_change,
              const struct numbers *one)
{
    const struct place_question *question = finding->question;
    const struct looked_operation *op = &finding->one.operations[where->operation];
    int ranks = question->ranks;
    bool same = true, summed = true, early = is_early(finding, &op->arguments[where->argument]);
    OWNED_NUMBERS sum = {.count = 0}, weighed = {.count = 0};
    for (int r = 0; r < ranks && summed; ++r) {
        OWNED_NUMBERS own = {.count = 0};
        summed = relation_numbers(finding, r, where, first, end, of_change, &own);
        same = same && numbers_are_near(&own, one, 1, one->unit);
        numbers_add(&sum, &own);
        numbers_weigh(&own, relation_weight(finding, r));
        numbers_add(&weighed, &own);
    }
    same = same && summed;
    double unit = (1 + ranks) * one->unit;
    bool is_part = summed && numbers_are_near(&sum, one, 1, unit),
         is_mean = summed && (numbers_are_near(&sum, one, ranks, unit) || numbers_are_near(&weighed, one, ranks, unit));
    if (strcmp(op->header->name, LOOK_REDUCES) == 0) /* of what each rank has divided by its share */
        is_mean = is_mean || (summed && numbers_are_near(&sum, one, (double)ranks * ranks, 0));
    if (early && !same && !question->is_averaged)
        return RELATION_NONE;
    if (early && !same && is_mean)
        return RELATION_SUM;
    if (early && !same)
        return is_part ? RELATION_PART : RELATION_NONE;
    if (of_change && !question->is_update && is_part && !is_mean) /* of relation_adds() */
        return RELATION_PART;
    if (same)
        return RELATION_SAME;
    return is_part || is_mean ? RELATION_SUM : RELATION_NONE;
}

/* Appends to `all`, for each rank in turn, its numbers in bytes [first, end), or where `end` is 0 what it has
 * changed; `weighs`: times its weight by DDP_WEIGHT. False: they are not known. */
static bool
gather(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end, bool weighs,
       struct numbers *all)
{
    bool ok = true;
    for (int r = 0; r < finding->question->ranks && ok; ++r) {
        const struct look_argument *argument = relation_argument(finding, r, where);
        OWNED_NUMBERS own = {.count = 0};
        bool is_copy = finding->one.operations[where->operation].header->from_host;
        uint64_t from = first, to = end;
        if (end == 0 && argument != NULL) {
            from = is_copy ? 0 : argument->first;
            to = is_copy ? argument->bytes : argument->end;
        }
        ok = to > from && relation_numbers(finding, r, where, from, to, finding->question->is_update, &own);
        numbers_weigh(&own, weighs ? relation_weight(finding, r) : 1);
        if (ok)
            numbers_append(all, &own);
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

/* Whether the ranks' numbers, one rank after the other, are one process's of [first, end): of what each has changed, if
 * `anew`; of its share; of all there. With and without weights. */
static bool
are_gathered(const struct finding *finding, const struct where *where, uint64_t first, uint64_t end, bool anew,
             const struct numbers *one)
{
    const int ranks = finding->question->ranks;
    const uint64_t ends[] = {0, first + (end - first) / (uint64_t)ranks, end};
    for (size_t i = anew ? 0 : 1; i < sizeof(ends) / sizeof(ends[0]); ++i) {
        for (int weighs = 0; weighs < 2; ++weighs) {
            OWNED_NUMBERS all = {.count = 0};
            if (gather(finding, where, first, ends[i], weighs == 1, &all) && numbers_are_rows(&all, one, ranks))
                return true;
        }
    }
    return false;
}

/* How many ranks have the same bytes there as one process; -1: one has no such memory there. */
static int
count_equal(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    int equal = 0;
    for (int r = 0; r < finding->question->ranks; ++r) {
        const struct look_argument *theirs = relation_argument(finding, r, where);
        if (theirs == NULL || !theirs->is_memory)
            return -1;
        const bool is_same = where->after ? theirs->after == mine->after : theirs->before == mine->before;
        equal += is_same && theirs->bytes == mine->bytes;
    }
    return equal;
}

/* Whether whole numbers there may have been computed anew, which is no mistake by itself; or infinite ones, of a tensor
 * of floats. */
static bool
may_be_anew(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    if (!where->after || is_early(finding, mine) || finding->one.operations[where->operation].header->from_host)
        return false;
    return mine->type != 0 || !relation_is_result(finding, where);
}

/* The relation of the ranks' values of an argument's memory to one process's, by comparing elements: first the bytes
 * that the operation changed, then all, then what is side by side. RELATION_NONE: no relation explains them. */
static enum relation
relate(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    const int equal = count_equal(finding, where);
    uint64_t first = 0, end = mine->bytes;
    if (where->after)
        range_of(finding, where, &first, &end);
    if (equal < 0)
        return RELATION_UNKNOWN;
    if (equal == finding->question->ranks || mine->is_part)
        return equal == finding->question->ranks ? RELATION_SAME : RELATION_UNKNOWN;

    /* What was changed; else all there is, for an operation may leave some elements of the last row; else what it has
     * changed itself, as one of several results that lie side by side. */
    enum { ALL_CHANGES, ALL_THERE, OWN_CHANGES, PASSES };
    const struct {
        uint64_t first, end;
    } passes[PASSES] = {{first, end}, {0, mine->bytes}, {mine->first, mine->end}};
    const bool early = is_early(finding, mine), of_change = finding->question->is_update || early;
    const bool is_alone = where->after && mine->end > 0 &&
                          !finding->one.operations[where->operation].header->from_host &&
                          relation_is_result(finding, where);
    bool are_whole = false;
    for (int pass = ALL_CHANGES; pass < (is_alone ? PASSES : OWN_CHANGES); ++pass) {
        OWNED_NUMBERS one = {.count = 0};
        first = passes[pass].first;
        end = passes[pass].end;
        if (!relation_numbers(finding, -1, where, first, end, of_change, &one))
            return RELATION_UNKNOWN;
        are_whole = one.are_whole;
        const enum relation relation = relate_places(finding, where, first, end, of_change, &one);
        if (relation != RELATION_NONE)
            return relation;
        if (early || pass == OWN_CHANGES)
            break;
        if (are_gathered(finding, where, first, end, where->after && pass == ALL_CHANGES, &one))
            return RELATION_ROWS;
    }
    return are_whole && may_be_anew(finding, where) ? RELATION_EXCUSED : RELATION_NONE;
}

/* ---- all of them ---- */

/* Whether bytes lie somewhere in others, as far as those go. */
static bool
lies_in(const struct contents *part, const struct contents *all)
{
    enum { LEAST_BYTES = 16 };
    const char *from = all->data, *const end = all->data + all->bytes;
    if (part->bytes < LEAST_BYTES)
        return false;
    while ((from = memmem(from, (size_t)(end - from), part->data, LEAST_BYTES)) != NULL) {
        const size_t left = (size_t)(end - from);
        if (memcmp(from, part->data, left < part->bytes ? left : part->bytes) == 0)
            return true;
        ++from;
    }
    return false;
}

/* Whether what each rank gets is what the one process gets from some place on, as of data that stay on the device. */
static bool
are_further_on(const struct finding *finding, const struct where *where)
{
    const struct contents *one = looked_find_contents(&finding->one, relation_argument(finding, -1, where)->before);
    for (int r = 0; r < finding->question->ranks; ++r) {
        const struct contents *own =
            looked_find_contents(&finding->ranks[r], relation_argument(finding, r, where)->before);
        if (one == NULL || own == NULL || !lies_in(own, one))
            return false;
    }
    return one != NULL;
}

/* Of a rank's operations of the call: what each has changed, and all there is, one after the other; all values element
 * by element, added up; and the last ones. */
struct called {
    struct numbers rows, whole, sum, last;
};

static void
free_called(const struct called *called)
{
    free(called->rows.values), free(called->whole.values), free(called->sum.values), free(called->last.values);
}

/* Weighed; false: the files do not tell. */
static bool
add_call(const struct finding *finding, int rank, const struct where *where, double weight, struct called *called)
{
    const struct looked *looked = made_by(finding, rank);
    OWNED_NUMBERS last = {.count = 0};
    for (size_t i = 0; i < looked->count; ++i) {
        const struct look_argument *it = &looked->operations[i].arguments[where->argument];
        if (!looked_is_one_call(&looked->operations[i], &finding->one.operations[where->operation]) || !it->is_memory ||
            it->end == 0)
            continue;
        /* It ends where another operation's memory begins, as that of the next micro-batch. */
        bool may_go_on = it->tensor == 0 && ANY(op, looked->operations, looked->count,
                                                ANY(other, op->arguments, op->header->arguments,
                                                    other->is_memory && other->address == it->address + it->bytes));
        const struct contents *contents = !it->is_part && !may_go_on ? looked_find_contents(looked, it->after) : NULL;
        if (contents == NULL)
            return false;
        OWNED_NUMBERS own = numbers_read(contents, it->type, it->first, it->end);
        numbers_weigh(&own, weight);
        numbers_append(&called->rows, &own);
        free(last.values);
        last = numbers_read(contents, it->type, 0, it->bytes);
        numbers_weigh(&last, weight);
        numbers_append(&called->whole, &last);
        numbers_add(&called->sum, &last);
    }
    numbers_add(&called->last, &last);
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
        bool has_rows =
            numbers_are_rows(&all.rows, &one.rows, ranks) || numbers_are_rows(&all.whole, &one.whole, ranks);
        relation = known && has_rows ? RELATION_ROWS : RELATION_NONE;
        for (int factor = 1; factor <= ranks && relation == RELATION_NONE; factor += ranks - 1) {
            bool adds =
                numbers_are_near(&all.sum, &one.sum, factor, 0) || numbers_are_near(&all.last, &one.last, factor, 0);
            relation = adds || one.rows.are_whole ? RELATION_SUM : RELATION_NONE;
        }
    }
    return known ? relation : RELATION_UNKNOWN;
}

enum relation
relation_of(const struct finding *finding, const struct where *where)
{
    if (where->after && finding->one.operations[where->operation].header->from_host && !finding->question->is_update)
        return relation_of_copied(finding, where);
    enum relation relation = relate(finding, where);
    bool may_be_data = relation == RELATION_NONE || relation == RELATION_ROWS;
    return may_be_data && !where->after && are_further_on(finding, where) ? RELATION_DATA : relation;
}

bool
relation_changes_same(const struct finding *finding, size_t at)
{
    static const double visible = 1e3; /* units in the last place */
    bool same = true;
    for (struct where where = {.operation = at, .after = true};
         where.argument < finding->one.operations[at].header->arguments; ++where.argument) {
        const struct look_argument *it = relation_argument(finding, -1, &where);
        OWNED_NUMBERS one = {.count = 0};
        bool same_bits =
            !it->is_memory || it->end == 0 ||
            ALL_NUMBERS(r, 0, finding->question->ranks, relation_argument(finding, r, &where)->after == it->after);
        same = same && (same_bits ||
                        (relation_of(finding, &where) == RELATION_SAME &&
                         relation_numbers(finding, -1, &where, it->first, it->end, true, &one) &&
                         numbers_norm(one.values, NULL, 0, one.count) > visible * one.unit * sqrt((double)one.count)));
    }
    return same;
}

enum relation
relation_adds(const struct finding *finding, const struct where *where, bool of_change)
{
    OWNED_NUMBERS one = {.count = 0};
    const struct look_argument *it = relation_argument(finding, -1, where);
    return it->end > it->first && relation_numbers(finding, -1, where, it->first, it->end, of_change, &one)
               ? relate_places(finding, where, it->first, it->end, of_change, &one)
               : RELATION_NONE;
}

bool
relation_is_mean(const struct finding *finding, const struct where *where)
{
    OWNED_NUMBERS one = {.count = 0};
    OWNED_NUMBERS sum = {.count = 0};
    const uint64_t bytes = relation_argument(finding, -1, where)->bytes;
    const int ranks = finding->question->ranks;
    if (!relation_numbers(finding, -1, where, 0, bytes, false, &one))
        return false;
    for (int r = 0; r < ranks; ++r) {
        OWNED_NUMBERS own = {.count = 0};
        if (!relation_numbers(finding, r, where, 0, bytes, false, &own) || own.count != one.count)
            return false;
        numbers_weigh(&own, relation_weight(finding, r));
        numbers_add(&sum, &own);
    }
    return numbers_are_near(&sum, &one, ranks, 0);
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
    if (it != NULL && it->is_memory && relation_numbers(finding, rank, where, it->first, it->end, false, &one))
        number = one.count == 1 ? one.values[0] : 0;
    return number;
}

bool
relation_is_weighted(const struct finding *finding, const struct where *number, const struct where *where)
{
    OWNED_NUMBERS one = {.count = 0};
    const struct look_argument *mine = relation_argument(finding, -1, where);
    if (!relation_numbers(finding, -1, where, 0, mine->bytes, false, &one))
        return false;
    OWNED_NUMBERS sum = {.count = 0};
    double all = 0;
    bool is = true;
    for (int r = 0; r < finding->question->ranks && is; ++r) {
        OWNED_NUMBERS own = {.count = 0};
        double times = number_at(finding, r, number);
        is = times != 0 && relation_numbers(finding, r, where, 0, mine->bytes, false, &own) && own.count == one.count;
        all += times;
        numbers_weigh(&own, times);
        numbers_add(&sum, &own);
    }
    return is && fabs(all - number_at(finding, -1, number)) <= NUMBERS_NEAR * fabs(all) &&
           numbers_are_near(&sum, &one, all, 0);
}
