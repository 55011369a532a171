/*
 * compare.c - tensors of a run of `ddprun check`: written to the reference or compared with it, in pieces (check.h).
 *
 * A tensor whose step begins from the reference is compared by what the step has changed, and gets the
 * reference's bytes. Where its hash is the reference's it is not read a second time. Called by course.c, at boundaries.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/owned.h"
#include "tools/near/change.h"
#include "tools/near/element.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define ELEMENT_IS_ANNOTATED(type, number, name, c, wide) \
    _Static_assert((int)ELEMENT_##type == (int)DDP_##type, "element.h");
ELEMENT_TYPES(ELEMENT_IS_ANNOTATED)
_Static_assert((int)CHECK_PARAMETER == (int)TENSOR_PARAMETER && (int)CHECK_GRADIENT == (int)TENSOR_GRADIENT &&
                   (int)CHECK_BUFFER == (int)TENSOR_BUFFER,
               "run.h");

static size_t defined[CHECK_ROLES]; /* tensors below this number are described: written to the reference or read */

void
compare_restart(void)
{
    memset(defined, 0, sizeof(defined));
}

void
compare_describe(const struct tensor *tensor, enum check_row_kind kind, uint32_t step, struct check_row *row)
{
    *row = (struct check_row){.kind = kind,
                              .step = step,
                              .tensor.role = tensor->role == TENSOR_STATE ? CHECK_STATE : (uint32_t)tensor->role,
                              .tensor.number = (uint32_t)tensor->index,
                              .tensor.group = tensor->averaged ? (uint32_t)tensor->group : 0,
                              .tensor.type = (uint32_t)tensor->type,
                              .tensor.count = tensor->count,
                              .tensor.line = tensor->site.line};
    snprintf(row->tensor.text, sizeof(row->tensor.text), "%s", tensor->site.text);
    snprintf(row->tensor.file, sizeof(row->tensor.file), "%s", file_name_of(tensor->site.file));
}

void
compare_note(enum check_row_kind kind, uint32_t step, const struct tensor *tensor)
{
    struct check_row row;
    compare_describe(tensor, kind, step, &row);
    values_row(&row);
}

void
compare_note_after(uint32_t step, const struct tensor *parameter, unsigned times, unsigned usual)
{
    struct check_row row;
    compare_describe(parameter, CHECK_ROW_AFTER, step, &row);
    row.norms.own = times;
    row.norms.reference = usual;
    values_row(&row);
}

/* The reference has the tensor that this run has. */
static void
define_tensor(const struct check_tensor *mine)
{
    struct reference_key key = {.kind = REFERENCE_TENSOR, .role = mine->role, .number = mine->number};
    if (mine->number < defined[mine->role])
        return;
    defined[mine->role] = mine->number + 1;
    if (values_writer() != NULL) {
        values_put(&key, mine, sizeof(*mine));
        return;
    }
    const char *role = check_role_name(mine->role);
    struct check_tensor theirs;
    if (!values_get(&key, &theirs, sizeof(theirs)))
        values_refuse("%s %u is `%s` (%s:%d) here, and the reference has fewer; all runs must annotate the same "
                      "tensors",
                      role, mine->number + 1, mine->text, mine->file, mine->line);
    if (theirs.count != mine->count || theirs.type != mine->type || theirs.group != mine->group ||
        theirs.line != mine->line || strcmp(theirs.text, mine->text) != 0)
        values_refuse("%s %u is `%s` (%s:%d), %llu %s, and in the reference `%s` (%s:%d), %llu %s; all runs must "
                      "annotate the same tensors in the same order%s",
                      role, mine->number + 1, mine->text, mine->file, mine->line, (unsigned long long)mine->count,
                      element_name((int)mine->type), theirs.text, theirs.file, theirs.line,
                      (unsigned long long)theirs.count, element_name((int)theirs.type),
                      mine->role == CHECK_BUFFER
                          ? "; DDP_STEP copies rank 0's buffer to all ranks: what belongs to the "
                            "items of a rank's share needs no annotation"
                          : "");
}

/* A tensor on its way from the device past the reference. */
struct passing {
    int type;
    struct norms *norms;
    XXH3_state_t hash; /* of all of it */
};

/* Compares a piece of a tensor with the next bytes of the reference: adds to its hash and to its norms. */
static void
pass_piece(void *arg, const void *piece, size_t bytes)
{
    struct passing *passing = arg;
    (void)XXH3_64bits_update(&passing->hash, piece, bytes);
    if (!reference_next(values_reader(), values_theirs, bytes))
        values_stop_damaged();
    norms_add(passing->norms, passing->type, piece, values_theirs, bytes / element_size(passing->type));
}

/* Element by element. */
static void
compare_values(const struct tensor *tensor, const struct reference_entry *entry, struct check_row *row)
{
    struct passing passing = {.type = tensor->type, .norms = values_room(NULL, sizeof(*passing.norms))};
    (void)XXH3_64bits_reset(&passing.hash);
    if (entry->record.bytes != tensor->bytes || !reference_start(values_reader(), entry))
        values_stop_damaged();
    norms_begin(passing.norms, tensor->count);
    values_read_tensor(tensor, pass_piece, &passing);
    row->norms = norms_end(passing.norms);
    row->value = XXH3_64bits_digest(&passing.hash);
    row->same_bits = row->value == entry->record.contents;
    free(passing.norms);
}

/* ---- an update that began with the reference's values ---- */

/* The tensor gets the reference's bytes; `before`, of the step before, is NULL where there is none. */
static void
compare_change(const struct tensor *tensor, double units, const struct reference_entry *before,
               const struct reference_entry *after, struct check_norms *norms)
{
    static struct reference_reader second;
    static char *old;
    OWNED struct update_change *change = values_room(NULL, sizeof(*change));
    if (second.state == NULL)
        second = reference_share(values_reader());
    old = old == NULL ? values_room(NULL, VALUES_PIECE_BYTES) : old;
    if (second.state == NULL)
        stop_job("out of memory");
    if (before == NULL)
        memset(old, 0, VALUES_PIECE_BYTES); /* the step before is not known */
    change_begin(change, tensor->count);
    bool ok = reference_start(values_reader(), after) && (before == NULL || reference_start(&second, before));
    for (size_t at = 0, here; at < tensor->bytes && ok; at += here) {
        here = tensor->bytes - at < VALUES_PIECE_BYTES ? tensor->bytes - at : VALUES_PIECE_BYTES;
        values_tensor_out(values_piece, tensor, at, here);
        ok = reference_next(values_reader(), values_theirs, here) &&
             (before == NULL || reference_next(&second, old, here));
        change_add(change, tensor->type, units, values_piece, old, values_theirs, here / type_bytes(tensor->type));
        values_tensor_in(tensor, at, values_theirs, here);
    }
    if (!ok)
        values_stop_damaged();
    *norms = norms_end(&change->norms);
    norms->spread = sqrt(change->square);
    norms->rounding = change->rounding;
    norms->unit = change->unit;
    norms->own = sqrt(change->own);
    norms->product = change->product;
}

/* The step before, as long as the tensor is what it is. */
static const struct reference_entry *
find_before(const struct reference_key *key, const struct reference_entry *after)
{
    struct reference_key before = *key;
    before.step -= before.step > 0;
    const struct reference_entry *entry = reference_find(values_reader(), &before);
    return entry != NULL && entry->record.bytes == after->record.bytes ? entry : NULL;
}

/* Compares what a step has changed: *row gets the hash, whether the bits are the reference's, and else the norms of the
 * change. `before`: the reference's record of the step before; NULL: it has none, and values are compared. */
static void
compare_update(const struct tensor *tensor, const struct compare_at *at, const struct reference_entry *before,
               const struct reference_entry *entry, struct check_row *row)
{
    if (entry->record.bytes != tensor->bytes)
        values_stop_damaged();
    row->value = values_hash(tensor);
    row->same_bits = row->value == entry->record.contents;
    row->of_change = before != NULL;
    if (!row->same_bits)
        compare_change(tensor, at->units, row->of_change ? before : NULL, entry, &row->norms);
}

/* ---- buffers ---- */

/*
 * What a step has changed of a buffer is held against the reference's change: a wrong update of a tensor that is no
 * buffer is little beside its values. Statistics are sums in another order on N ranks, so only a difference that no
 * rounding makes counts. The buffer gets the reference's bytes.
 */
static void
compare_buffer(const struct tensor *tensor, const struct reference_entry *before, const struct reference_entry *entry,
               struct check_row *row)
{
    static const double no_rounding = 0.01; /* relative */
    struct check_norms change;
    compare_change(tensor, check_run.units, before, entry, &change);
    row->of_change = change.difference > no_rounding * change.reference;
    row->norms = row->of_change ? change : row->norms;
}

/* ---- all of them ---- */

bool
compare_described(const struct tensor *tensor, const struct compare_at *at, struct check_row *row)
{
    struct reference_key key = {
        .kind = REFERENCE_VALUES, .step = at->step, .role = row->tensor.role, .number = row->tensor.number};
    row->kind = CHECK_ROW_TENSOR;
    row->step = at->step;
    row->during = at->during;
    row->averaged = at->is_averaged;
    if (values_writer() != NULL) {
        uint64_t endless = values_keep(tensor, key.role, key.number, at->step);
        if (row->tensor.role == CHECK_PARAMETER && endless > 0)
            compare_note(CHECK_ROW_ENDLESS, at->step, tensor);
        return false;
    }
    const struct reference_entry *entry = reference_find(values_reader(), &key);
    if (entry == NULL) /* the one rank had ended before, or had freed it */
        return false;
    const struct reference_entry *before = find_before(&key, entry);
    row->moved = before != NULL && before->record.contents != entry->record.contents;
    if (at->is_update)
        compare_update(tensor, at, before, entry, row);
    else
        compare_values(tensor, entry, row);
    if (row->tensor.role == CHECK_BUFFER && check_run.forced && before != NULL && !row->same_bits)
        compare_buffer(tensor, before, entry, row);
    values_row(row);
    return true;
}

void
compare_tensor(const struct tensor *tensor, const struct compare_at *at, struct check_row *row)
{
    compare_describe(tensor, CHECK_ROW_TENSOR, at->step, row);
    define_tensor(&row->tensor);
    (void)compare_described(tensor, at, row);
}

void
compare_set(const struct tensor *tensor, const struct check_tensor *described, uint32_t step, double factor)
{
    struct reference_key key = {
        .kind = REFERENCE_VALUES, .role = described->role, .step = step, .number = described->number};
    const struct reference_entry *entry = reference_find(values_reader(), &key);
    if (entry == NULL)
        return;
    bool ok = entry->record.bytes == tensor->bytes && reference_start(values_reader(), entry);
    for (size_t at = 0, here; at < tensor->bytes && ok; at += here) {
        here = tensor->bytes - at < VALUES_PIECE_BYTES ? tensor->bytes - at : VALUES_PIECE_BYTES;
        ok = reference_next(values_reader(), values_theirs, here);
        for (size_t i = 0; i < here / type_bytes(tensor->type) && factor != 1; ++i)
            element_put(tensor->type, values_theirs, i, factor * element_get(tensor->type, values_theirs, i));
        values_tensor_in(tensor, at, values_theirs, here);
    }
    if (!ok)
        values_stop_damaged();
}

void
compare_mean(double value, int type, uint32_t call, uint32_t step, const struct ddp_site *site)
{
    struct {
        struct check_tensor tensor;
        double value;
    } mine = {.tensor = {.role = CHECK_MEAN, .number = call, .type = (uint32_t)type, .count = 1, .line = site->line},
              .value = value},
      theirs;
    snprintf(mine.tensor.text, sizeof(mine.tensor.text), "%s", site->text);
    snprintf(mine.tensor.file, sizeof(mine.tensor.file), "%s", file_name_of(site->file));
    struct reference_key key = {.kind = REFERENCE_MEAN, .number = call};
    if (values_writer() != NULL)
        values_put(&key, &mine, sizeof(mine));
    if (values_writer() != NULL || !values_get(&key, &theirs, sizeof(theirs)))
        return;
    if (theirs.tensor.line != mine.tensor.line || strcmp(theirs.tensor.text, mine.tensor.text) != 0)
        return; /* ranks call it in another order than one rank: they are not the same values */
    struct norms norms;
    norms_begin(&norms, 1);
    norms_add(&norms, ELEMENT_FLOAT64, &mine.value, &theirs.value, 1);
    struct check_row row = {.kind = CHECK_ROW_TENSOR,
                            .step = step > 0 ? step : 1,
                            .tensor = mine.tensor,
                            .norms = norms_end(&norms),
                            .same_bits = mine.value == theirs.value || (isnan(mine.value) && isnan(theirs.value))};
    values_row(&row);
}

/* ---- which steps lead to an update ---- */

/* The reference's record of parameter `number` (from 0) at this step; NULL: it has none. */
static const struct reference_entry *
parameter_at(uint32_t step, uint32_t number)
{
    const struct reference_key key = {
        .kind = REFERENCE_VALUES, .role = CHECK_PARAMETER, .step = step, .number = number};
    return reference_find(values_reader(), &key);
}

/* Whether all parameters are the same at both steps in the reference, and there are some. */
static bool
are_same(uint32_t step, uint32_t other)
{
    for (uint32_t number = 0;; ++number) {
        const struct reference_entry *a = parameter_at(step, number), *b = parameter_at(other, number);
        if (a == NULL || b == NULL)
            return number > 0;
        if (a->record.contents != b->record.contents)
            return false;
    }
}

bool
compare_leads_on(uint32_t step)
{
    uint32_t last = check_run.steps + 1;
    return values_reader() != NULL && are_same(step, step + 1) && parameter_at(last, 0) != NULL &&
           !are_same(step + 1, last);
}
