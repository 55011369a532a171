/*
 * turns.c - see session.h.
 */
#include "launcher/tools/check/session.h"

#include "base/tools/check/element.h"
#include "base/tools/check/norms.h"
#include "base/tools/check/reference.h"
#include "launcher/common/xcalloc.h"

#include <stdlib.h>

enum { PIECE_ELEMENTS = 1 << 16 };

/* A piece of the current record as doubles, each `factor` times, added to values[count]. */
static bool
add_piece(struct reference_reader *reader, int type, size_t count, double factor, double *values)
{
    char bytes[8 * 1024];
    size_t each = element_bytes(type), at_once = sizeof(bytes) / each;
    for (size_t at = 0; at < count; at += at_once) {
        size_t here = count - at < at_once ? count - at : at_once;
        if (!reference_next(reader, bytes, here * each))
            return false;
        for (size_t i = 0; i < here; ++i)
            values[at + i] += factor * element_get(type, bytes, i);
    }
    return true;
}

static bool
start(struct reference_reader *reader, const struct reference_key *key, uint64_t bytes)
{
    const struct reference_entry *entry = reference_find(reader, key);
    return entry != NULL && entry->record.bytes == bytes && reference_start(reader, entry);
}

static bool
compare_gradient(struct reference_reader *reference, struct reference_reader *turns, int count, double factor,
                 const struct check_tensor *tensor, struct check_row *row)
{
    struct reference_key key = {.kind = REFERENCE_VALUES, .role = CHECK_GRADIENT, .step = 1, .number = tensor->number};
    const struct reference_entry *entry = reference_find(reference, &key);
    size_t each = element_bytes((int)tensor->type);
    if (entry == NULL || each == 0 || !reference_start(reference, entry))
        return false;
    size_t elements = entry->record.bytes / each;
    double *mean = xcalloc(2 * PIECE_ELEMENTS, sizeof(*mean)), *whole = mean + PIECE_ELEMENTS;
    struct norms *norms = xcalloc(1, sizeof(*norms));
    norms_begin(norms, elements);
    bool ok = true;
    for (int r = 0; r < count && ok; ++r)
        ok = start(&turns[r], &key, entry->record.bytes);
    for (size_t at = 0; at < elements && ok; at += PIECE_ELEMENTS) {
        size_t here = elements - at < PIECE_ELEMENTS ? elements - at : PIECE_ELEMENTS;
        for (size_t i = 0; i < here; ++i)
            mean[i] = whole[i] = 0;
        ok = add_piece(reference, (int)tensor->type, here, 1, whole);
        for (int r = 0; r < count && ok; ++r)
            ok = add_piece(&turns[r], (int)tensor->type, here, factor, mean);
        norms_add(norms, ELEMENT_FLOAT64, mean, whole, here);
    }
    struct norm_result result = norms_end(norms);
    *row = (struct check_row){.kind = CHECK_ROW_TENSOR,
                              .step = 1,
                              .tensor = *tensor,
                              .norms = {.difference = result.difference,
                                        .reference = result.reference,
                                        .own = result.own,
                                        .product = result.product}};
    free(norms);
    free(mean);
    return ok;
}

static bool
compare_all(struct reference_reader *reference, struct reference_reader *turns, int count, double factor,
            struct check_rows *rows)
{
    struct reference_key key = {.kind = REFERENCE_TENSOR, .role = CHECK_GRADIENT};
    const struct reference_entry *entry;
    for (; (entry = reference_find(reference, &key)) != NULL; ++key.number) {
        struct check_tensor tensor;
        struct check_row row;
        if (!reference_get(reference, entry, &tensor, sizeof(tensor)))
            return false;
        if (tensor.group != 0) /* its boundary may be another one's first */
            continue;
        if (!compare_gradient(reference, turns, count, factor, &tensor, &row))
            return false;
        rows->rows = xrealloc(rows->rows, (rows->count + 1) * sizeof(*rows->rows));
        rows->rows[rows->count++] = row;
    }
    return true;
}

bool
turns_compare(const char *reference, char *const *files, int count, bool sums, struct check_rows *rows)
{
    const char *why;
    struct reference_reader whole, *turns = xcalloc((size_t)count, sizeof(*turns));
    bool ok = reference_open(reference, &whole, &why);
    int open = 0;
    for (; ok && open < count; ++open)
        ok = reference_open(files[open], &turns[open], &why);
    ok = ok && compare_all(&whole, turns, count, sums ? 1.0 : 1.0 / count, rows);
    for (int r = 0; r < open; ++r)
        reference_free(&turns[r]);
    reference_free(&whole);
    free(turns);
    if (!ok)
        check_rows_free(rows);
    return ok;
}
