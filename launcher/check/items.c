/*
 * items.c - see items.h.
 */
#include "launcher/check/items.h"

#include "base/mutant.h"
#include "launcher/check/pattern.h"
#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the norm of all tensors of a role, what counts as noise in one of them. */
static const double role_noise = 1e-4;

/* Compared when a step begins, as the one before has left it. */
static bool
is_at_beginning(uint32_t role)
{
    return role == CHECK_PARAMETER || role == CHECK_MEMORY || role == CHECK_STATE;
}

unsigned
items_moment(uint32_t role, uint32_t step)
{
    return step == 0 ? 0 : 2 * step + (is_at_beginning(role) ? 0 : 1);
}

uint32_t
items_step(const struct check_item *item)
{
    return item->first_step - (is_at_beginning(item->tensor.role) && item->first_step > 0 ? 1 : 0);
}

/* ---- one row ---- */

struct role_norm {
    double square; /* of the reference */
    double count;
};

/* What a damaged file says of others is not looked at. */
static bool
is_of_tensor(const struct check_row *row)
{
    enum { STEPS_AT_MOST = 20000 }; /* --steps, and more */
    return row->kind == CHECK_ROW_TENSOR && row->tensor.role < CHECK_ROLES && row->step <= STEPS_AT_MOST;
}

/* For each role and step, [role * (last_step + 1) + step]; malloc'ed. */
static struct role_norm *
role_norms(const struct check_rows *rows, uint32_t *last_step_p)
{
    uint32_t last = 0;
    for (size_t i = 0; i < rows->count; ++i) {
        if (is_of_tensor(&rows->rows[i]) && rows->rows[i].step > last)
            last = rows->rows[i].step;
    }
    struct role_norm *norms = xcalloc((size_t)CHECK_ROLES * (last + 1), sizeof(*norms));
    for (size_t i = 0; i < rows->count; ++i) {
        const struct check_row *row = &rows->rows[i];
        if (!is_of_tensor(row))
            continue;
        struct role_norm *all = &norms[(size_t)row->tensor.role * (last + 1) + row->step];
        all->square += row->norms.reference * row->norms.reference;
        all->count += (double)row->tensor.count;
    }
    *last_step_p = last;
    return norms;
}

/* Infinite where it cannot be told: of norms that a double does not hold, too. */
static double
ratio(double difference, double scale)
{
    double relative = difference <= 0 ? 0 : scale > 0 ? difference / scale : INFINITY;
    return isnan(relative) ? INFINITY : relative;
}

struct distance {
    double whole, block;
};

static struct distance
distance_of(const struct check_row *row, const struct role_norm *all)
{
    const struct check_norms *norms = &row->norms;
    bool has_role = row->tensor.role == CHECK_PARAMETER || row->tensor.role == CHECK_GRADIENT;
    double each = has_role && all->count > 0 ? role_noise * sqrt(all->square / all->count) : 0; /* of an element */
    struct distance distance = {
        .whole = ratio(norms->difference, fmax(norms->reference, each * sqrt((double)row->tensor.count))),
        .block = ratio(norms->block_difference, fmax(norms->block_scale, each * sqrt((double)norms->block_count)))};
    if (norms->unbounded > 0)
        distance.whole = INFINITY;
    return distance;
}

/* ---- all rows of a run, in order of tensor and step ---- */

static int
compare_rows(const void *a, const void *b)
{
    const struct check_row *left = *(const struct check_row *const *)a, *right = *(const struct check_row *const *)b;
    const uint32_t l[] = {left->tensor.role, left->tensor.number, left->step};
    const uint32_t r[] = {right->tensor.role, right->tensor.number, right->step};
    for (size_t i = 0; i < sizeof(l) / sizeof(l[0]); ++i) {
        if (l[i] != r[i])
            return l[i] < r[i] ? -1 : 1;
    }
    return 0;
}

struct sorted {
    const struct check_row **rows; /* of tensors */
    struct distance *distances;    /* [count] */
    size_t count;
};

static struct sorted
sort_rows(const struct check_rows *rows)
{
    struct sorted sorted = {.rows = xcalloc(rows->count + 1, sizeof(*sorted.rows)),
                            .distances = xcalloc(rows->count + 1, sizeof(*sorted.distances))};
    for (size_t i = 0; i < rows->count; ++i) {
        if (is_of_tensor(&rows->rows[i]))
            sorted.rows[sorted.count++] = &rows->rows[i];
    }
    qsort(sorted.rows, sorted.count, sizeof(*sorted.rows), compare_rows);
    uint32_t last;
    struct role_norm *norms = role_norms(rows, &last);
    for (size_t i = 0; i < sorted.count; ++i)
        sorted.distances[i] = distance_of(
            sorted.rows[i], &norms[(size_t)sorted.rows[i]->tensor.role * (last + 1) + sorted.rows[i]->step]);
    free(norms);
    return sorted;
}

static void
free_sorted(struct sorted *sorted)
{
    free(sorted->rows);
    free(sorted->distances);
}

/* Makes each distance the largest of its tensor so far. */
static void
accumulate(struct sorted *sorted)
{
    for (size_t i = 1; i < sorted->count; ++i) {
        const struct check_tensor *tensor = &sorted->rows[i]->tensor, *before = &sorted->rows[i - 1]->tensor;
        struct distance *distance = &sorted->distances[i];
        if (tensor->role != before->role || tensor->number != before->number)
            continue;
        distance->whole = fmax(distance->whole, distance[-1].whole);
        distance->block = fmax(distance->block, distance[-1].block);
    }
}

/* Where the row of this tensor and step is, or would be. */
static size_t
find_place(const struct sorted *sorted, const struct check_row *like)
{
    size_t low = 0, high = sorted->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_rows(&sorted->rows[middle], &like) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The place of the row of the same tensor and step, or count. */
static size_t
find_row(const struct sorted *sorted, const struct check_row *like)
{
    size_t place = find_place(sorted, like);
    return place < sorted->count && compare_rows(&sorted->rows[place], &like) == 0 ? place : sorted->count;
}

/* ---- items ---- */

/* What repeating and rounding make of this tensor up to this step: the largest so far, for it grows. `runs`: with
 * accumulate(). */
static struct distance
floor_of(const struct sorted *runs, size_t run_count, const struct check_row *like)
{
    struct distance floor = {0};
    if (MUTANT(CHECK_FLOOR_INFINITE))
        floor.whole = floor.block = INFINITY;
    for (size_t r = 0; r < run_count; ++r) {
        size_t place = find_row(&runs[r], like);
        if (place == runs[r].count) { /* the last one before it */
            place = find_place(&runs[r], like);
            const struct check_tensor *before = place > 0 ? &runs[r].rows[place - 1]->tensor : NULL;
            if (before == NULL || before->role != like->tensor.role || before->number != like->tensor.number)
                continue;
            --place;
        }
        floor.whole = fmax(floor.whole, runs[r].distances[place].whole);
        floor.block = fmax(floor.block, runs[r].distances[place].block);
    }
    return floor;
}

static void
note_difference(struct check_item *item, const struct check_row *row, int rank, bool whole)
{
    unsigned moment = items_moment(row->tensor.role, row->step),
             first = items_moment(row->tensor.role, item->first_step);
    item->differs = true;
    if (first == moment) {
        ++item->rank_count;
        item->unbounded = item->unbounded || row->norms.unbounded > 0;
    }
    if (first != 0 && first <= moment)
        return;
    item->rank_count = 1;
    item->unbounded = row->norms.unbounded > 0;
    item->first_step = row->step;
    item->first_rank = rank;
    /* A part is named where the rest is as it should be. */
    bool part = row->norms.block_count > 0 && row->norms.block_count < row->tensor.count &&
                (!whole || row->norms.block_difference > 0.7 * row->norms.difference);
    item->block_first = part ? row->norms.block_first : 0;
    item->block_count = part ? row->norms.block_count : 0;
}

/* Adds what a rank says of the item. */
static void
add_row(struct check_item *item, const struct check_evidence *evidence, const struct check_row *row,
        const struct distance *distance, const struct distance *floor, int rank)
{
    double whole_limit = fmax(evidence->floor_factor * floor->whole, evidence->tolerance);
    double block_limit = fmax(evidence->floor_factor * floor->block, evidence->tolerance);
    double relative = fmax(distance->whole, distance->block);
    if (item->worst_step == 0 || relative > item->difference) {
        item->difference = relative;
        item->floor = fmax(floor->whole, floor->block);
        item->worst_step = row->step;
        item->worst_rank = rank;
    }
    item->sampled = item->sampled || row->sampled;
    bool whole = distance->whole > whole_limit, block = distance->block > block_limit;
    if (row->same_bits || !(whole || block))
        return;
    note_difference(item, row, rank, whole);
}

/* A mean that is not the same when one rank runs again is a time or a random number. */
static bool
does_not_repeat(const struct sorted *again, const struct check_row *like)
{
    size_t place = find_row(again, like);
    return like->tensor.role == CHECK_MEAN && place < again->count && !again->rows[place]->same_bits;
}

/* Of the probe: nothing of a change was left. */
static bool
is_scratch(const struct check_rows *probe, const struct check_tensor *tensor)
{
    for (size_t i = 0; i < probe->count; ++i) {
        const struct check_row *row = &probe->rows[i];
        if (row->kind == CHECK_ROW_RETAINED && row->tensor.number == tensor->number)
            return row->norms.product == row->norms.product && row->norms.product < 0.1 && row->norms.product > -0.1;
    }
    return false;
}

static size_t
add_rank(struct check_item *items, size_t count, const struct check_evidence *evidence, const struct sorted floors[2],
         const struct sorted *mine, int rank)
{
    size_t item = 0;
    for (size_t i = 0; i < mine->count; ++i) {
        const struct check_row *row = mine->rows[i];
        bool new = i == 0 || row->tensor.role != mine->rows[i - 1]->tensor.role ||
                   row->tensor.number != mine->rows[i - 1]->tensor.number;
        if (new) {
            for (item = 0; item < count && (items[item].tensor.role != row->tensor.role ||
                                            items[item].tensor.number != row->tensor.number);)
                ++item;
            if (item == count)
                items[count++] = (struct check_item){.tensor = row->tensor};
        }
        struct distance floor = floor_of(floors, 2, row);
        items[item].ignored = items[item].ignored || does_not_repeat(&floors[0], row);
        add_row(&items[item], evidence, row, &mine->distances[i], &floor, rank);
    }
    return count;
}

struct check_item *
items_make(const struct check_evidence *evidence, const struct check_rows *ranked, size_t *count_p)
{
    size_t most = 0, count = 0;
    for (int r = 0; r < evidence->ranks; ++r)
        most += ranked[r].count;
    struct check_item *items = xcalloc(most + 1, sizeof(*items));
    struct sorted floors[2] = {sort_rows(&evidence->again), sort_rows(&evidence->perturbed)};
    accumulate(&floors[0]);
    accumulate(&floors[1]);
    for (int r = 0; r < evidence->ranks; ++r) {
        struct sorted mine = sort_rows(&ranked[r]);
        count = add_rank(items, count, evidence, floors, &mine, r);
        free_sorted(&mine);
    }
    free_sorted(&floors[0]);
    free_sorted(&floors[1]);
    bool weighs = check_evidence_weighs(evidence);
    for (size_t i = 0; i < count; ++i) {
        items[i].is_scratch = items[i].tensor.role == CHECK_MEMORY && is_scratch(&evidence->probe, &items[i].tensor);
        items[i].unweighted = items[i].tensor.role == CHECK_MEAN && weighs;
        if (items[i].is_scratch || items[i].ignored || items[i].unweighted)
            items[i].differs = false;
    }
    *count_p = count;
    return items;
}

static int
compare_items(const void *a, const void *b)
{
    const struct check_item *left = a, *right = b;
    if (left->differs != right->differs)
        return left->differs ? -1 : 1;
    if (left->difference != right->difference)
        return left->difference > right->difference ? -1 : 1;
    const uint32_t l[] = {left->tensor.role, left->tensor.number}, r[] = {right->tensor.role, right->tensor.number};
    return l[0] != r[0] ? (l[0] < r[0] ? -1 : 1) : l[1] < r[1] ? -1 : 1;
}

void
items_sort(struct check_item *items, size_t count)
{
    qsort(items, count, sizeof(*items), compare_items);
}
