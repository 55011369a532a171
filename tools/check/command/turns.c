/* turns.c - see session.h. */
#include "tools/check/command/session.h"

#include "tools/check/format/element.h"
#include "tools/check/format/reference.h"
#include "tools/common/grown.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 1 << 16 };

/*
 * Products of the gradients of the shares, and of the whole batch. Of them follows by which weights the shares' sum
 * comes closest to the whole, over all gradients together.
 */
struct products {
    int count;            /* shares */
    double *shares;       /* [count][count + 1]: with each other, and in the last column with the whole */
    double whole;         /* with itself */
    double *values[2];    /* [PIECE_ELEMENTS]: mean of the shares, the whole */
    double *share_values; /* [count][PIECE_ELEMENTS] */
};

static double
dot_product(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; ++i)
        sum += a[i] * b[i];
    return sum;
}

static void
add_products(struct products *products, size_t count)
{
    int shares = products->count;
    for (int r = 0; r < shares; ++r) {
        const double *own = products->share_values + (size_t)r * PIECE_ELEMENTS;
        for (int k = 0; k < shares; ++k)
            products->shares[r * (shares + 1) + k] +=
                dot_product(own, products->share_values + (size_t)k * PIECE_ELEMENTS, count);
        products->shares[r * (shares + 1) + shares] += dot_product(own, products->values[1], count);
    }
    products->whole += dot_product(products->values[1], products->values[1], count);
}

/* Into weights[count]; false: shares are multiples of each other. Gauss and Jordan, the matrix is positive. */
static bool
solve_products(const struct products *products, double *weights)
{
    int count = products->count, columns = count + 1;
    double *rows = xcalloc((size_t)count * (size_t)columns, sizeof(*rows));
    bool ok = true;
    for (int i = 0; i < count * columns; ++i)
        rows[i] = products->shares[i];
    for (int pivot = 0; pivot < count && ok; ++pivot) {
        double *own = rows + pivot * columns;
        ok = own[pivot] > 1e-9 * products->shares[pivot * columns + pivot];
        for (int r = 0; r < count && ok; ++r) {
            double factor = rows[r * columns + pivot] / own[pivot];
            for (int c = pivot; c < columns && r != pivot; ++c)
                rows[r * columns + c] -= factor * own[c];
        }
    }
    for (int r = 0; r < count && ok; ++r)
        weights[r] = rows[r * columns + count] / rows[r * columns + r];
    free(rows);
    return ok;
}

/* A row for each share, if the whole is their weighted sum but for rounding. */
static void
note_weights(const struct products *products, struct check_rows *rows)
{
    int count = products->count;
    double *weights = xcalloc((size_t)count, sizeof(*weights)), rest = products->whole;
    bool ok = solve_products(products, weights);
    for (int r = 0; r < count && ok; ++r) {
        const double *own = products->shares + r * (count + 1);
        rest -= 2 * weights[r] * own[count];
        for (int k = 0; k < count; ++k)
            rest += weights[r] * weights[k] * own[k];
        ok = weights[r] > 0;
    }
    for (int r = 0; r < count && ok && rest <= 1e-8 * products->whole; ++r)
        *GROWN(rows->rows, rows->count) = (struct check_row){.kind = CHECK_ROW_PART, .norms = {.product = weights[r]}};
    free(weights);
}

static bool
compare_gradient(struct reference_reader *reference, struct reference_reader *turns, struct products *products,
                 double factor, uint32_t step, const struct check_tensor *tensor, struct check_row *row)
{
    struct reference_key key = {
        .kind = REFERENCE_VALUES, .role = CHECK_GRADIENT, .step = step, .number = tensor->number};
    const struct reference_entry *entry = reference_find(reference, &key);
    size_t each = element_bytes((int)tensor->type);
    if (entry == NULL || each == 0 || !reference_start(reference, entry))
        return false;
    size_t elements = entry->record.bytes / each;
    int count = products->count;
    double *mean = products->values[0], *whole = products->values[1];
    struct norms *norms = xcalloc(1, sizeof(*norms));
    norms_begin(norms, elements);
    bool ok = true;
    for (int r = 0; r < count && ok; ++r)
        ok = reference_start_of(&turns[r], &key, entry->record.bytes);
    for (size_t at = 0; at < elements && ok; at += PIECE_ELEMENTS) {
        size_t here = elements - at < PIECE_ELEMENTS ? elements - at : PIECE_ELEMENTS;
        memset(mean, 0, here * sizeof(*mean));
        memset(whole, 0, here * sizeof(*whole));
        ok = reference_add(reference, (int)tensor->type, here, 1, whole);
        for (int r = 0; r < count && ok; ++r) {
            double *own = products->share_values + (size_t)r * PIECE_ELEMENTS;
            memset(own, 0, here * sizeof(*own));
            ok = reference_add(&turns[r], (int)tensor->type, here, 1, own);
            for (size_t i = 0; i < here; ++i)
                mean[i] += factor * own[i];
        }
        add_products(products, here);
        norms_add(norms, ELEMENT_FLOAT64, mean, whole, here);
    }
    *row = (struct check_row){.kind = CHECK_ROW_TENSOR, .step = step, .tensor = *tensor, .norms = norms_end(norms)};
    free(norms);
    return ok;
}

static bool
compare_all(struct reference_reader *reference, struct reference_reader *turns, struct products *products,
            double factor, uint32_t step, struct check_rows *rows)
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
        if (!compare_gradient(reference, turns, products, factor, step, &tensor, &row))
            return false;
        *GROWN(rows->rows, rows->count) = row;
    }
    return true;
}

bool
turns_compare(const char *reference, char *const *files, int count, bool sums, uint32_t step, struct check_rows *rows)
{
    const char *why;
    struct reference_reader whole, *turns = xcalloc((size_t)count, sizeof(*turns));
    bool ok = reference_open(reference, &whole, &why);
    int open = 0;
    for (; ok && open < count; ++open)
        ok = reference_open(files[open], &turns[open], &why);
    size_t shares = (size_t)count;
    double *values = xcalloc((shares + 2) * PIECE_ELEMENTS, sizeof(*values));
    struct products products = {.count = count,
                                .shares = xcalloc(shares * (shares + 1), sizeof(*products.shares)),
                                .values = {values, values + PIECE_ELEMENTS},
                                .share_values = values + 2 * (size_t)PIECE_ELEMENTS};
    ok = ok && compare_all(&whole, turns, &products, sums ? 1.0 : 1.0 / count, step, rows);
    if (ok)
        note_weights(&products, rows);
    free(products.shares);
    free(values);
    for (int r = 0; r < open; ++r)
        reference_free(&turns[r]);
    reference_free(&whole);
    free(turns);
    if (!ok)
        check_rows_free(rows);
    return ok;
}
