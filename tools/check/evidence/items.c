/* items.c - see items.h. */

#include "tools/check/evidence/items.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/near/near.h"

/* Of the norm of all tensors of a role, what counts as noise in one of them. */
static const double role_noise = 1e-4;

/* Whether tensors of this role are compared as a step begins, as the one before has left them. */
static bool
is_at_beginning(uint32_t role)
{
    return role == CHECK_PARAMETER || role == CHECK_MEMORY || role == CHECK_STATE;
}

unsigned
items_moment(uint32_t role, uint32_t step)
{
    if (step == 0)
        return 0;
    return 2 * step + (is_at_beginning(role) ? 0 : 1);
}

unsigned
items_moment_of(const struct check_row *row)
{
    return items_moment(row->tensor.role, row->during > 0 ? row->during : row->step);
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
    FOR_EACH(row, rows->rows, rows->count)
        last = is_of_tensor(row) && row->step > last ? row->step : last;
    struct role_norm *norms = xcalloc((size_t)CHECK_ROLES * (last + 1), sizeof(*norms));
    FOR_EACH(row, rows->rows, rows->count) {
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
    if (difference <= 0)
        return 0;
    double relative = scale > 0 ? difference / scale : INFINITY;
    return isnan(relative) ? INFINITY : relative;
}

struct distance {
    double whole, block;
    double absolute; /* not relative */
    double spread;   /* of a change, with what is rounding */
    double units;    /* of a floor: check_evidence_units() */
    double typical;  /* the larger, of what tensors of the role typically have: noise is little of that */
};

/* But for `typical`, which is no floor. */
static void
take_larger(struct distance *distance, const struct distance *other)
{
    distance->whole = fmax(distance->whole, other->whole);
    distance->block = fmax(distance->block, other->block);
    distance->spread = fmax(distance->spread, other->spread);
    distance->absolute = fmax(distance->absolute, other->absolute);
}

/* Whether it is infinite or NaN where the reference is not, or the other way round. A gradient that is not finite on
 * one rank, either, says nothing: what the update makes of it does. */
static bool
is_unbounded(const struct check_row *row)
{
    bool overflows = row->tensor.role == CHECK_GRADIENT && row->norms.endless > 0;
    return row->norms.unbounded > row->norms.unlike && !overflows;
}

/* How far a row's tensor is from the reference, relative to its norm, or to `all`, the norm of all tensors of its role,
 * where its own is smaller than their noise. */
static struct distance
distance_of(const struct check_row *row, const struct role_norm *all)
{
    const struct check_norms *norms = &row->norms;
    bool has_role = (row->tensor.role == CHECK_PARAMETER || row->tensor.role == CHECK_GRADIENT) &&
                    (!row->of_change || row->averaged);
    double each = has_role && all->count > 0 ? role_noise * sqrt(all->square / all->count) : 0; /* of an element */
    double full = each / role_noise;
    struct distance distance = {
        .absolute = norms->difference,
        .spread = row->of_change ? ratio(norms->spread, norms->reference) : 0,
        .typical =
            fmax(ratio(norms->difference, fmax(norms->reference, full * sqrt((double)row->tensor.count))),
                 ratio(norms->block_difference, fmax(norms->block_scale, full * sqrt((double)norms->block_count)))),
        .whole = ratio(norms->difference, fmax(norms->reference, each * sqrt((double)row->tensor.count))),
        .block = ratio(norms->block_difference, fmax(norms->block_scale, each * sqrt((double)norms->block_count)))};
    if (is_unbounded(row))
        distance.whole = distance.typical = INFINITY;
    return distance;
}

/* ---- all rows of a run, in order of tensor and step ---- */

int
items_compare_rows(const void *a, const void *b)
{
    const struct check_row *left = *(const struct check_row *const *)a, *right = *(const struct check_row *const *)b;
    return COMPARE(left, right, tensor.role, COMPARE(left, right, tensor.number, COMPARE(left, right, step, 0)));
}

struct sorted {
    const struct check_row **rows; /* of tensors */
    struct distance *distances;    /* [count] */
    size_t count;
    double units; /* as of a floor */
};

/* A rank's rows of tensors, sorted by tensor and step, with the distance of each. The caller frees both lists. */
static struct sorted
sort_rows(const struct check_rows *rows)
{
    struct sorted sorted = {.rows = xcalloc(rows->count + 1, sizeof(*sorted.rows)),
                            .distances = xcalloc(rows->count + 1, sizeof(*sorted.distances))};
    FOR_EACH(row, rows->rows, rows->count)
        if (is_of_tensor(row))
            sorted.rows[sorted.count++] = row;
    SORT(sorted.rows, sorted.count, items_compare_rows);
    uint32_t last;
    OWNED struct role_norm *norms = role_norms(rows, &last);
    for (size_t i = 0; i < sorted.count; ++i)
        sorted.distances[i] = distance_of(
            sorted.rows[i], &norms[(size_t)sorted.rows[i]->tensor.role * (last + 1) + sorted.rows[i]->step]);
    return sorted;
}

static void
free_sorted(struct sorted *sorted)
{
    free(sorted->rows);
    free(sorted->distances);
}

/* Of a run that began a unit in the last place away: how far its parameters were from the reference, step by step, at
 * [step]; malloc'ed. */
static double *
find_drift(const struct sorted *sorted, const struct role_norm *parameters, uint32_t last)
{
    double *drift = xcalloc((size_t)last + 1, sizeof(*drift));
    for (size_t i = 0; i < sorted->count; ++i) {
        const struct check_row *row = sorted->rows[i];
        drift[row->step] += row->tensor.role == CHECK_PARAMETER ? row->norms.difference * row->norms.difference : 0;
    }
    for (uint32_t step = 0; step <= last; ++step)
        drift[step] = parameters[step].square > 0 ? sqrt(drift[step] / parameters[step].square) : 0;
    return drift;
}

/* Where every step begins from the reference, what a distance of one unit makes in one step is the floor; the run that
 * began so far away is farther away in later steps, and its differences are brought back to that distance. `in_rounds`
 * of DDP_REDUCE calls it is moved in each, and the second shows what one unit makes. */
static void
take_drift_out(struct sorted *sorted, const struct check_rows *rows, bool in_rounds)
{
    static const double unit = 0x1p-24; /* of a run that begins with zeros, which stay */
    uint32_t last;
    OWNED struct role_norm *norms = role_norms(rows, &last);
    OWNED double *drift = find_drift(sorted, &norms[(size_t)CHECK_PARAMETER * (last + 1)], last);
    double first = last > 0 ? fmax(drift[1], unit) : unit;
    for (size_t i = 0; i < sorted->count; ++i) {
        uint32_t step = sorted->rows[i]->during > 0 ? sorted->rows[i]->during : sorted->rows[i]->step;
        double scale = step <= last && drift[step] > first ? first / drift[step] : 1;
        if (in_rounds && step > 2) /* what no DDP_REDUCE finds drifts, unseen */
            scale = 0;
        sorted->distances[i].whole *= scale;
        sorted->distances[i].block *= scale;
        sorted->distances[i].absolute *= scale;
    }
}

/* Makes each distance the largest of its tensor so far. */
static void
accumulate_distances(struct sorted *sorted)
{
    for (size_t i = 1; i < sorted->count; ++i) {
        if (check_same_tensor(&sorted->rows[i]->tensor, &sorted->rows[i - 1]->tensor))
            take_larger(&sorted->distances[i], &sorted->distances[i - 1]);
    }
}

/* The place of the row of the same tensor, of this step or the last one before it; or count. */
static size_t
find_row(const struct sorted *sorted, const struct check_row *like)
{
    size_t count = COUNT_SORTED(row, sorted->rows, sorted->count, items_compare_rows(row, &like) <= 0);
    return count > 0 && check_same_tensor(&sorted->rows[count - 1]->tensor, &like->tensor) ? count - 1 : sorted->count;
}

/* ---- items ---- */

/* What repeating and rounding make of this tensor up to this step: the largest so far, for it grows. `runs`: with
 * accumulate_distances(). */
static struct distance
floor_of(const struct sorted *runs, size_t run_count, const struct check_row *like)
{
    struct distance floor = {.units = runs->units};
    for (size_t r = 0; r < run_count; ++r) {
        size_t place = find_row(&runs[r], like);
        if (place < runs[r].count && (runs[r].rows[place]->of_change || !like->of_change))
            take_larger(&floor, &runs[r].distances[place]);
    }
    return floor;
}

/* Notes in the table that a row differs on `rank` by `relative`. The first moment (step and role) that differs on any
 * rank counts; `whole`: the whole tensor differs, not a block alone. */
static void
note_difference(struct check_item *item, const struct check_row *row, int rank, bool whole, double relative)
{
    unsigned moment = items_moment_of(row), first = item->moment;
    item->differs = true;
    if (first == moment) {
        ++item->rank_count;
        item->unbounded = item->unbounded || is_unbounded(row);
        item->at_first = fmax(item->at_first, relative);
    }
    if (first != 0 && first <= moment)
        return;
    item->rank_count = 1;
    item->at_first = relative;
    item->unbounded = is_unbounded(row);
    item->endless = row->norms.endless > 0;
    item->moment = moment;
    item->first_step = row->step;
    item->is_at_beginning = is_at_beginning(row->tensor.role);
    item->made_in_step = row->step - (item->is_at_beginning && row->step > 0);
    item->is_of_change = row->of_change;
    item->first_rank = rank;
    /* A part is named where the rest is as it should be. */
    bool part = row->norms.block_count > 0 && row->norms.block_count < row->tensor.count &&
                (!whole || row->norms.block_difference > 0.7 * row->norms.difference);
    item->block_first = part ? row->norms.block_first : 0;
    item->block_count = part ? row->norms.block_count : 0;
}

/* Whether the row has the tolerance of its tensor's type: an update computes from the reference's gradients in that
 * type, with no product of a narrower one. */
static bool
has_own_tolerance(const struct check_evidence *evidence, const struct check_row *row)
{
    return row->of_change && !row->averaged && !evidence->is_asked;
}

/* Whether the row must have the same bits: what DDP_REDUCE finds in whole numbers is exact where it begins from the
 * reference. */
static bool
is_exact(const struct check_evidence *evidence, const struct check_row *row)
{
    return row->tensor.role == CHECK_REDUCE && row->tensor.type > ELEMENT_BFLOAT16 &&
           check_evidence_is_forced(evidence);
}

/* The relative difference up to which the row's tensor is equal; 0: it must have the same bits. */
static double
tolerance_of(const struct check_evidence *evidence, const struct check_row *row)
{
    if (is_exact(evidence, row))
        return 0;
    if (row->tensor.role == CHECK_REDUCE && !evidence->is_asked)
        return fmax(evidence->tolerance, near_tolerance((int)row->tensor.type));
    return has_own_tolerance(evidence, row) ? near_tolerance((int)row->tensor.type) : evidence->tolerance;
}

/* The largest tolerance for the row's tensor with which a verdict still means something; a larger one hides
 * mistakes. */
static double
bearable_of(const struct check_evidence *evidence, const struct check_row *row)
{
    double own = ITEMS_BEARABLE * near_tolerance((int)row->tensor.type);
    if (row->tensor.role == CHECK_REDUCE)
        return fmax(evidence->bearable, own);
    return has_own_tolerance(evidence, row) ? own : evidence->bearable;
}

/* Whether a difference of the update by the tolerance explains in how many elements, of little change, the last bit is
 * another: not more than `times` as many, and two; or repeating the program does. */
static bool
is_rounding(const struct check_evidence *evidence, const struct check_row *row, const struct distance *distance,
            const struct distance *floor, double times)
{
    const struct check_norms *norms = &row->norms;
    double tolerance = tolerance_of(evidence, row), unit = floor->units * norms->unit;
    double explained = tolerance * norms->rounding + 2 * unit * unit;
    bool counts = row->of_change && !row->averaged && row->tensor.role != CHECK_MEMORY;
    return !counts || norms->spread <= tolerance * norms->reference ||
           norms->spread * norms->spread <= times * explained || distance->spread <= ITEMS_FLOOR_FACTOR * floor->spread;
}

/* Whether units in the last place explain the difference, and are much of what the update has changed at all. */
static bool
is_too_small(const struct check_row *row)
{
    bool is_trained = row->tensor.role != CHECK_MEMORY || row->tensor.group != 0;
    return row->of_change && is_trained && row->norms.spread > row->norms.reference / 16;
}

/* A gradient vanishes where the training converges, and the rounding of its sum does not: it is held against what it
 * was. So does what DDP_REDUCE finds. `most`: the largest that the reference has had so far. */
static bool
is_vanishing(const struct check_evidence *evidence, const struct check_row *row, const struct distance *floor,
             double most)
{
    double noise = fmax(ITEMS_FLOOR_FACTOR * floor->absolute, evidence->tolerance * most / 2);
    bool may = row->tensor.role == CHECK_GRADIENT || (row->tensor.role == CHECK_REDUCE && !is_exact(evidence, row));
    return may && row->norms.unbounded == 0 && row->norms.reference < most / 10 &&
           row->norms.difference <= fmin(noise, evidence->bearable * most);
}

/* Whether noise of a gradient that vanishes, beside products of a narrow type, may be as large as the gradient
 * itself: then it proves nothing. `most`: the largest norm that the gradient had so far. */
static bool
is_lost_in_noise(const struct check_evidence *evidence, const struct check_row *row, double most)
{
    double float32 = near_tolerance(ELEMENT_FLOAT32);
    return evidence->tolerance > float32 && row->norms.difference > evidence->bearable * row->norms.reference &&
           row->norms.difference > float32 * most / 2;
}

/* Whether a discrete decision, such as that of a ReLU, hangs on rounding: from a start a unit in the last place away
 * one process makes a difference of the same size in this step, and none in the step before. */
static bool
is_decision(const struct check_evidence *evidence, const struct check_row *row)
{
    bool before = false; /* the row of the step before, of the same run, makes none */
    if (row->tensor.role != CHECK_GRADIENT || row->norms.unbounded > 0)
        return false;
    EACH_ROW_OF(own, &evidence->nudged, CHECK_GRADIENT) {
        if (own->tensor.number != row->tensor.number)
            continue;
        if (own->step == row->step && before &&
            fabs(own->norms.difference - row->norms.difference) <= 0.01 * row->norms.difference)
            return true;
        before = own->step + 1 == row->step && own->norms.difference <= evidence->tolerance * own->norms.reference;
    }
    return false;
}

/* Whether rounding explains a gradient's difference. In a run of one process parameters and data were changed by a unit
 * in the last place, and the gradient then differed by as much: it nearly cancels, or it is a long sum whose order
 * decides. That run must have shown the difference in this step; or, if the difference is bearable beside the gradient,
 * as a part of the gradient in any step. Never explained is what is not bearable beside gradients of typical size. */
static bool
is_nudged(struct check_item *item, const struct check_evidence *evidence, const struct check_row *row,
          const struct distance *distance)
{
    double most = 0, relative = 0, bearable = bearable_of(evidence, row);
    EACH_ROW_OF(own, &evidence->nudged, CHECK_GRADIENT) {
        if (!check_same_tensor(&own->tensor, &row->tensor) || own->norms.unbounded > 0)
            continue;
        most = own->step == row->step ? fmax(most, own->norms.difference) : most;
        relative = own->norms.reference > 0 ? fmax(relative, own->norms.difference / own->norms.reference) : relative;
    }
    if (fmax(distance->whole, distance->block) <= bearable)
        most = fmax(most, relative * row->norms.reference);
    if (!(most > 0 && row->norms.difference <= ITEMS_FLOOR_FACTOR * most) || distance->typical > bearable)
        return false;
    item->floor = fmax(item->floor, distance->whole * most / row->norms.difference);
    return true;
}

/* Adds what a rank says of the item. */
static void
add_row(struct check_item *item, const struct check_evidence *evidence, const struct check_row *row,
        const struct distance *distance, const struct distance *floor, double most, int rank)
{
    const struct check_item before = *item;
    double tolerance = tolerance_of(evidence, row);
    double whole_limit = fmax(ITEMS_FLOOR_FACTOR * floor->whole, tolerance);
    double block_limit = fmax(ITEMS_FLOOR_FACTOR * floor->block, tolerance);
    double relative = fmax(distance->whole, distance->block);
    bool apart = (is_exact(evidence, row) && floor->whole <= 0) || !is_rounding(evidence, row, distance, floor, 4);
    bool beyond = !row->same_bits && apart; /* also of numbers that doubles do not hold */
    bool vanishes = is_vanishing(evidence, row, floor, most);
    if (vanishes)
        relative = row->norms.difference / most;
    else if (beyond)
        relative = fmax(relative, distance->spread);
    if (item->worst_step == 0 || relative > item->difference) {
        item->difference = relative;
        item->floor = fmax(floor->whole, floor->block);
        item->worst_step = row->step;
        item->worst_rank = rank;
    }
    item->typical = fmax(item->typical, vanishes ? relative : distance->typical);
    item->moved = item->moved || row->moved;
    bool whole = distance->whole > whole_limit || beyond, block = distance->block > block_limit;
    if (vanishes && !row->same_bits && is_lost_in_noise(evidence, row, most)) {
        item->hidden = fmax(item->hidden, row->norms.difference / row->norms.reference);
        item->unclear = true;
    }
    if (row->same_bits || vanishes || ((whole || block) && is_nudged(item, evidence, row, distance)))
        return;
    if (!(whole || block)) {
        bool hides = distance->typical > bearable_of(evidence, row);
        item->hidden = hides ? fmax(item->hidden, relative) : item->hidden;
        item->unclear = item->unclear || hides || is_too_small(row) || !is_rounding(evidence, row, distance, floor, 1);
        return;
    }
    if (is_decision(evidence, row)) {
        *item = before;
        item->decided_step = item->decided_step == 0 ? row->step : item->decided_step;
        item->decided = fmax(item->decided, relative);
        return;
    }
    note_difference(item, row, rank, whole, relative);
    if (relative == item->at_first)
        item->limit = distance->whole > whole_limit ? whole_limit : block_limit;
}

/* Whether the row's value is another one when one process runs again: such a mean is a time or a random number; what
 * DDP_REDUCE finds may be rounded otherwise. */
static bool
does_not_repeat(const struct sorted *again, const struct check_row *like)
{
    static const double repeated = 1e-3; /* relative */
    size_t place = find_row(again, like);
    if (place == again->count || again->rows[place]->step != like->step)
        return false;
    const struct check_row *row = again->rows[place];
    return (like->tensor.role == CHECK_MEAN && !row->same_bits) ||
           (like->tensor.role == CHECK_REDUCE && again->distances[place].whole > repeated);
}

/* Adds a rank's sorted rows to the table, and returns its new count. floors[]: rows of one process's other runs, from
 * which the noise of each tensor follows. */
static size_t
add_rank(struct check_item *items, size_t count, const struct check_evidence *evidence, const struct sorted floors[2],
         const struct sorted *mine, int rank)
{
    size_t item = 0;
    double most = 0;
    for (size_t i = 0; i < mine->count; ++i) {
        const struct check_row *row = mine->rows[i];
        bool new = i == 0 || !check_same_tensor(&row->tensor, &mine->rows[i - 1]->tensor);
        if (new) {
            for (item = 0; item < count && !check_same_tensor(&items[item].tensor, &row->tensor);)
                ++item;
            if (item == count)
                items[count++] = (struct check_item){.tensor = row->tensor};
        }
        most = new ? row->norms.reference : fmax(most, row->norms.reference);
        struct distance floor = floor_of(floors, 2, row);
        items[item].ignored = items[item].ignored || does_not_repeat(&floors[0], row);
        add_row(&items[item], evidence, row, &mine->distances[i], &floor, most, rank);
    }
    return count;
}

/* NULL: the memory of the item was not changed to see what becomes of it. */
static const struct check_row *
find_probed(const struct check_evidence *evidence, const struct check_item *item)
{
    EACH_ROW(row, &evidence->probe, CHECK_ROW_RETAINED) {
        if (item->tensor.role == CHECK_MEMORY && row->tensor.number == item->tensor.number)
            return row;
    }
    return NULL;
}

/* Whether DDP_STEP_PARAMETERS averages the tensor. */
static bool
is_averaged(const struct check_evidence *evidence, const struct check_item *item)
{
    EACH_ROW(row, &evidence->ranked[0], CHECK_ROW_AVERAGED) {
        if (check_same_tensor(&row->tensor, &item->tensor))
            return true;
    }
    return false;
}

/* What differs, and does not count. Where ranks average parameters, each has an update of its own, and what that alone
 * keeps may differ, as momentum does: it is right if nothing else differs in any step. */
static void
leave_out(const struct check_evidence *evidence, struct check_item *items, size_t count)
{
    bool weighs = check_evidence_weighs(evidence),
         are_own = check_rows_find(&evidence->ranked[0], CHECK_ROW_AVERAGED) != NULL;
    FOR_EACH_MUTABLE(item, items, count) {
        const struct check_row *probed = find_probed(evidence, item);
        item->is_scratch = probed != NULL && fabs(probed->norms.product) < 0.1; /* nothing of a change was left */
        item->is_own = probed != NULL && probed->value == 0 && item->tensor.group != 1;
        item->is_averaged = is_averaged(evidence, item);
        item->unweighted = item->tensor.role == CHECK_MEAN && weighs;
        if (item->is_scratch || item->ignored || item->unweighted)
            item->differs = item->unclear = false;
        are_own = are_own && (!item->differs || item->is_own || item->tensor.role == CHECK_MEAN);
    }
    FOR_EACH_MUTABLE(item, items, count) {
        item->is_own = item->is_own && are_own && item->differs;
        item->differs = item->differs && !item->is_own;
    }
}

struct check_item *
items_make(const struct check_evidence *evidence, const struct check_rows *ranked, size_t *count_p)
{
    size_t most = 0, count = 0;
    for (int r = 0; r < evidence->ranks; ++r)
        most += ranked[r].count;
    struct check_item *items = xcalloc(most + 1, sizeof(*items));
    struct sorted floors[2] = {sort_rows(&evidence->again), sort_rows(&evidence->perturbed)};
    if (check_evidence_is_forced(evidence))
        take_drift_out(&floors[1], &evidence->perturbed, check_evidence_in_rounds(evidence));
    floors[0].units = check_evidence_units(evidence);
    accumulate_distances(&floors[0]);
    accumulate_distances(&floors[1]);
    for (int r = 0; r < evidence->ranks; ++r) {
        struct sorted mine = sort_rows(&ranked[r]);
        count = add_rank(items, count, evidence, floors, &mine, r);
        free_sorted(&mine);
    }
    free_sorted(&floors[0]);
    free_sorted(&floors[1]);
    leave_out(evidence, items, count);
    *count_p = count;
    return items;
}

/* Order of the table: tensors that differ first, of these the larger difference first; then by role and number. */
static int
compare_items(const void *a, const void *b)
{
    const struct check_item *left = a, *right = b;
    int by_tensor = COMPARE(left, right, tensor.role, COMPARE(left, right, tensor.number, 0));
    return COMPARE(right, left, differs, COMPARE(right, left, difference, by_tensor));
}

void
items_sort(struct check_item *items, size_t count)
{
    SORT(items, count, compare_items);
}

/* The table of the run whose gradients were scaled, as of one rank; *count_p items. The caller frees it. */
static struct check_item *
make_scaled(const struct check_evidence *evidence, size_t *count_p)
{
    struct check_evidence one = *evidence;
    struct check_rows scaled = evidence->scaled;
    one.ranks = 1;
    one.ranked = &scaled;
    return items_make(&one, &scaled, count_p);
}

bool
items_scaled_differ(const struct check_evidence *evidence, uint32_t role)
{
    size_t count;
    OWNED struct check_item *items = make_scaled(evidence, &count);
    return ANY(item, items, count, item->tensor.role == role && item->differs);
}

bool
items_scaled_differs(const struct check_evidence *evidence, const struct check_item *like)
{
    size_t count;
    OWNED struct check_item *items = make_scaled(evidence, &count);
    return ANY(item, items, count, item->differs && check_same_tensor(&item->tensor, &like->tensor));
}
