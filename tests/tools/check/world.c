/* world.c - see check_world.h. */
#include "world.h"

#include "tools/near/element.h"

#include <math.h>
#include <stdlib.h>

enum { ELEMENTS = 1024 };

/* ---- evidence of a right program ---- */

static void
add_row(struct check_rows *rows, const struct check_row *row)
{
    if ((rows->count & (rows->count - 1)) == 0) /* there is room up to a power of two */
        rows->rows = realloc(rows->rows, (rows->count == 0 ? 1 : 2 * rows->count) * sizeof(*rows->rows));
    rows->rows[rows->count++] = *row;
}

/* Relative to the tensor, as a whole and in each block. */
static void
set_difference(struct check_norms *norms, double relative)
{
    norms->difference = relative * norms->reference;
    norms->block_difference = relative * norms->block_scale;
    norms->own = norms->reference;
    norms->product = norms->reference * norms->reference * (1 - relative * relative / 2);
}

static void
set_reference(struct check_norms *norms, double reference, double relative)
{
    norms->reference = reference;
    norms->block_scale = reference / 16; /* of 4 elements in 1024 */
    set_difference(norms, relative);
}

void
add_tensor(struct check_rows *rows, uint32_t role, uint32_t number, uint32_t step, double relative)
{
    struct check_row row = {.kind = CHECK_ROW_TENSOR,
                            .step = step,
                            .tensor = {.role = role, .number = number, .type = 1, .count = ELEMENTS, .line = 10},
                            .norms = {.block_count = 4, .block_first = 8}};
    snprintf(row.tensor.text, sizeof(row.tensor.text), "%s_%u", check_role_name(role), number);
    snprintf(row.tensor.file, sizeof(row.tensor.file), "train.cu");
    /* No norm of gradients that is the same in each step. */
    set_reference(&row.norms, role == CHECK_GRADIENT ? 10 + step : 10, relative);
    row.same_bits = relative == 0;
    row.moved = step > 1;
    if (role == CHECK_REDUCE && number == 1)
        row.tensor.type = ELEMENT_INT32;
    row.tensor.group = role != CHECK_REDUCE ? 0 : number == 2 ? CHECK_OP_MAX : number == 3 ? CHECK_OP_MEAN : 1;
    row.value = role == CHECK_MEAN || role == CHECK_MEMORY ? 0 : 1000 + step; /* all ranks have the same bits */
    add_row(rows, &row);
}

/* All that a run of one rank or of several compares, each by `relative` from the reference. */
static void
add_tensors(struct check_rows *rows, unsigned steps, double relative)
{
    for (uint32_t step = 1; step <= steps + 1; ++step) {
        for (uint32_t i = 0; i < TENSORS; ++i)
            add_tensor(rows, CHECK_PARAMETER, i, step, step == 1 ? 0 : relative);
        for (uint32_t i = 0; i < TENSORS && step > 2; ++i)
            add_tensor(rows, CHECK_MEMORY, i, step, relative);
        for (uint32_t i = 0; i < TENSORS && step <= steps; ++i)
            add_tensor(rows, CHECK_GRADIENT, i, step, relative);
        if (step <= steps) {
            add_tensor(rows, CHECK_BUFFER, 0, step, relative);
            add_tensor(rows, CHECK_MEAN, step - 1, step, relative);
        }
    }
}

static void
add_note(struct check_rows *rows, enum check_row_kind kind, uint32_t step, uint64_t value)
{
    add_row(rows, &(struct check_row){.kind = kind, .step = step, .value = value});
}

static void
add_rank(struct check_rows *rows, int rank, unsigned steps)
{
    add_tensors(rows, steps, 3e-7);
    add_note(rows, CHECK_ROW_SHARD, 0, 24);
    add_note(rows, CHECK_ROW_COPIED, 2, 2400);
    for (uint32_t step = 1; step <= 2; ++step)
        add_note(rows, CHECK_ROW_OWN, step, 100 * step + (uint64_t)rank);
    add_note(rows, CHECK_ROW_END, steps, 1);
}

void
make_world(struct world *world, int ranks, unsigned steps)
{
    *world = (struct world){.steps = steps,
                            .evidence = {.steps = steps, .ranks = ranks, .tolerance = 1e-5, .ranked = world->ranked}};
    add_tensors(&world->evidence.again, steps, 0);
    add_tensors(&world->evidence.perturbed, steps, 3e-7);
    add_note(&world->evidence.alone, CHECK_ROW_SHARD, 0, 24);
    add_note(&world->evidence.alone, CHECK_ROW_COPIED, 2, 4800);
    for (int rank = 0; rank < ranks; ++rank)
        add_rank(&world->ranked[rank], rank, steps);
}

void
free_world(struct world *world)
{
    struct check_evidence *of = &world->evidence;
    struct check_rows *single[] = {&of->again,  &of->perturbed, &of->alone, &of->probe,
                                   &of->scaled, &of->far,       &of->nudged};
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); ++i)
        check_rows_free(single[i]);
    for (int rank = 0; rank < MOST_RANKS; ++rank) {
        check_rows_free(&world->ranked[rank]);
        check_rows_free(&world->plain[rank]);
        for (int i = 0; i < CHECK_REPEATS; ++i)
            check_rows_free(&world->repeats[i][rank]);
    }
}

/* ---- what a scene changes ---- */

static void
change_norms(struct check_row *row, const struct edit *edit)
{
    struct check_norms *norms = &row->norms;
    row->same_bits = false;
    switch (edit->what) {
    case CHANGED:
    case DIFFERENCE:
        set_difference(norms, edit->value);
        break;
    case BLOCK:
        norms->block_difference = edit->value * norms->block_scale;
        norms->difference = norms->block_difference;
        break;
    case TIMES:
    case FACTOR:
        set_difference(norms, fabs(edit->value - 1));
        norms->own = edit->value * norms->reference;
        norms->product = edit->value * norms->reference * norms->reference;
        break;
    case NORM:
        set_reference(norms, edit->value, norms->reference > 0 ? norms->difference / norms->reference : 0);
        break;
    case UNBOUNDED:
        norms->unbounded = (uint64_t)edit->value;
        break;
    case INFINITE:
        norms->difference = norms->reference = norms->own = norms->block_difference = norms->block_scale = INFINITY;
        break;
    case IN_PLACE:
        row->tensor.group = 1;
        break;
    case COUNT:
        row->tensor.count = (uint64_t)edit->value;
        break;
    case ENDLESS:
        norms->endless = (uint64_t)edit->value;
        break;
    case UNMOVED:
    case MOVED:
        row->moved = edit->what == MOVED;
        break;
    case TOO_SMALL:
        set_difference(norms, 0);
        row->of_change = true;
        norms->spread = norms->unit = edit->value * norms->reference;
        break;
    case FLIPPED:
        set_difference(norms, 0);
        row->of_change = true;
        norms->unit = 1e-6 * norms->reference;
        norms->rounding = 1e-4 * norms->reference * norms->reference;
        norms->spread = edit->value * norms->reference;
        break;
    case HASH:
        row->value = (uint64_t)edit->value;
        break;
    case WIDE:
        row->tensor.type = ELEMENT_FLOAT64;
        break;
    case NARROW:
        row->tensor.type = ELEMENT_BFLOAT16;
        break;
    default:
        break;
    }
    if (edit->what == CHANGED || edit->what == TIMES) {
        row->of_change = true;
        norms->spread = norms->difference;
    }
}

void
change_tensors(struct check_rows *rows, const struct edit *edit)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; ++i) {
        struct check_row *row = &rows->rows[i];
        int number = (int)row->tensor.number;
        bool meant = row->kind == CHECK_ROW_TENSOR && (edit->role == ANY || (int)row->tensor.role == edit->role) &&
                     (edit->role == ANY || (number >= edit->first && number <= edit->last)) && row->step >= edit->from;
        if (meant)
            change_norms(row, edit);
        if (!meant || edit->what != MISSING)
            rows->rows[kept++] = *row;
    }
    rows->count = kept;
}

void
set_note(struct check_rows *rows, const struct edit *edit, enum check_row_kind kind)
{
    struct check_row row = {.kind = kind,
                            .step = edit->from,
                            .value = (uint64_t)edit->value,
                            .uneven = edit->what == UNEVEN,
                            .tensor.number = (uint32_t)edit->first,
                            .norms.product = edit->value};
    if (kind == CHECK_ROW_UNSTEPPED || kind == CHECK_ROW_ENDLESS || kind == CHECK_ROW_AFTER) {
        row.tensor.role = kind == CHECK_ROW_UNSTEPPED ? CHECK_GRADIENT : CHECK_PARAMETER;
        row.tensor.group = kind == CHECK_ROW_UNSTEPPED;
        row.tensor.count = edit->what == UNSTEPPED && edit->value > 0 ? (uint64_t)edit->value : ELEMENTS;
    }
    snprintf(row.text, sizeof(row.text), "%s", kind == CHECK_ROW_ALARM ? "what would have ended the job" : "");
    if (kind == CHECK_ROW_AFTER) {
        row.norms.own = edit->value;
        row.norms.reference = 1;
    }
    if (edit->what == ON_HOST)
        row.copy =
            (struct check_copy){{2, 64, edit->first > 0 ? 0 : (uint64_t)edit->value}, {2, 64, edit->first > 0 ? 0 : 1}};
    for (size_t i = 0; i < rows->count; ++i) {
        if (rows->rows[i].kind == (uint32_t)kind && rows->rows[i].step == edit->from && kind != CHECK_ROW_RETAINED) {
            rows->rows[i] = row;
            return;
        }
    }
    add_row(rows, &row);
}

static void
drop_notes(struct check_rows *rows, enum check_row_kind kind)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; ++i) {
        if (rows->rows[i].kind != (uint32_t)kind)
            rows->rows[kept++] = rows->rows[i];
    }
    rows->count = kept;
}

static void
change_rows(struct check_rows *rows, const struct edit *edit)
{
    static const enum check_row_kind kinds[] = {
        [SHARD] = CHECK_ROW_SHARD,       [UNEVEN] = CHECK_ROW_SHARD,
        [COPIED] = CHECK_ROW_COPIED,     [OWN] = CHECK_ROW_OWN,
        [ALARM] = CHECK_ROW_ALARM,       [RETAINED] = CHECK_ROW_RETAINED,
        [FORCED] = CHECK_ROW_FORCED,     [TYPES] = CHECK_ROW_TYPES,
        [ON_HOST] = CHECK_ROW_COPY,      [UNSTEPPED] = CHECK_ROW_UNSTEPPED,
        [NAN_ALONE] = CHECK_ROW_ENDLESS,
    };
    if (edit->what == ADDED)
        add_tensor(rows, (uint32_t)edit->role, (uint32_t)edit->first, edit->from, edit->value);
    else if (edit->what < SHARD)
        change_tensors(rows, edit);
    else if (edit->value < 0) /* none */
        drop_notes(rows, kinds[edit->what]);
    else
        set_note(rows, edit, kinds[edit->what]);
}

static void
turn_into_rounds(struct check_rows *rows, unsigned steps, double relative)
{
    change_tensors(rows, &(struct edit){MISSING, .role = ANY});
    for (uint32_t step = 1; step <= steps; ++step) {
        for (uint32_t i = 0; i < 4; ++i)
            add_tensor(rows, CHECK_REDUCE, i, step, i == 1 ? 0 : relative);
    }
    add_note(rows, CHECK_ROW_ROUNDS, steps, 0);
}

static void
make_rounds(struct world *world, bool shown)
{
    struct check_evidence *evidence = &world->evidence;
    evidence->forced = true;
    turn_into_rounds(&evidence->again, world->steps, 0);
    turn_into_rounds(&evidence->perturbed, world->steps, 3e-7);
    for (int rank = 0; rank < evidence->ranks; ++rank)
        turn_into_rounds(&world->ranked[rank], world->steps, 3e-7);
    if (shown)
        add_tensor(&evidence->scaled, CHECK_REDUCE, 0, 2, 0.5);
}

/* [MOST_RANKS]; NULL: it is a run of one process. */
static struct check_rows *
ranks_of(struct world *world, enum run run)
{
    switch (run) {
    case RANKS:
        return world->ranked;
    case PLAIN:
        return world->plain;
    case TWICE:
    case THRICE:
    case FOURTH:
        return world->repeats[run - TWICE];
    default:
        return NULL;
    }
}

void
apply(struct world *world, const struct edit *edit)
{
    struct check_evidence *evidence = &world->evidence;
    struct check_rows *single[] = {
        [AGAIN] = &evidence->again,  [PERTURBED] = &evidence->perturbed, [ALONE] = &evidence->alone,
        [PROBE] = &evidence->probe,  [SCALED] = &evidence->scaled,       [FAR] = &evidence->far,
        [NUDGED] = &evidence->nudged};
    evidence->forced = evidence->forced || edit->what == FORCED;
    evidence->tolerance = edit->what == TYPES ? -1 : evidence->tolerance;
    switch (edit->what) {
    case NOTHING:
        return;
    case READS:
        evidence->readings = CHECK_READS_DATE;
        snprintf(evidence->reading_places, sizeof(evidence->reading_places), "`time` (train.cu:5)");
        return;
    case OVERLAPPED:
        evidence->overlapped_steps = (uint64_t)edit->value;
        return;
    case STOPPED:
        snprintf(evidence->stopped, sizeof(evidence->stopped), "rank 1 waited");
        return;
    case STOPPED_ALIKE:
        snprintf(evidence->stopped, sizeof(evidence->stopped), "a rank ended");
        evidence->common_end = (unsigned)edit->value;
        return;
    case UPDATED_AFTER:
        set_note(&evidence->alone, edit, CHECK_ROW_AFTER);
        return;
    case ENDED:
        add_note(&evidence->alone, CHECK_ROW_END, world->steps, 0);
        add_note(&evidence->again, CHECK_ROW_END, world->steps, 0);
        return;
    case COMPRESSED:
        evidence->wire_type = ELEMENT_FLOAT16;
        return;
    case BY_PLAN:
        evidence->by_plan = true;
        return;
    case REFUTED:
        snprintf(evidence->refuted, sizeof(evidence->refuted), "proof (d) of the plan fails: after round 1");
        return;
    case UNPROVED:
        snprintf(evidence->unproved, sizeof(evidence->unproved), "proof (d) of the plan is not possible here: short");
        return;
    case SAME_DATA:
        evidence->is_same_data = true;
        return;
    case SUMS:
        evidence->sums = true;
        return;
    case ROUNDS:
        make_rounds(world, edit->value <= 0);
        return;
    default:
        break;
    }
    struct check_rows *ranked = ranks_of(world, edit->run);
    if (ranked == NULL) {
        change_rows(single[edit->run], edit);
        return;
    }
    for (int rank = 0; rank < evidence->ranks && ranked[rank].count == 0; ++rank) /* such runs are not there yet */
        add_rank(&ranked[rank], rank, world->steps);
    if (edit->run == PLAIN)
        evidence->plain = world->plain;
    if (edit->run >= TWICE)
        evidence->repeats[edit->run - TWICE] = ranked;
    for (int rank = 0; rank < evidence->ranks; ++rank) {
        if (edit->rank == 0 || edit->rank == rank + 1)
            change_rows(&ranked[rank], edit);
    }
}
