/* pattern.c - see pattern.h. */
#include "tools/check/command/pattern.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

static const double same_direction = 0.999; /* cosine */

const struct check_row *
pattern_row(const struct check_rows *rows, const struct check_tensor *tensor, uint32_t step)
{
    return FIND(row, rows->rows, rows->count,
                row->kind == CHECK_ROW_TENSOR && row->step == step && check_same_tensor(&row->tensor, tensor));
}

bool
pattern_has_one_batch(const struct check_evidence *evidence)
{
    bool any = false;
    if (!check_evidence_in_rounds(evidence))
        return evidence->is_same_data;
    EACH_ROW(first, &evidence->ranked[0], CHECK_ROW_OWN) {
        for (int r = 1; r < evidence->ranks; ++r) {
            if (!ANY(row, evidence->ranked[r].rows, evidence->ranked[r].count,
                     row->kind == CHECK_ROW_OWN && row->step == first->step && row->value == first->value))
                return false;
            any = true;
        }
    }
    return any;
}

/* The norm of all of one rank's gradients in a step, squared. */
static double
gradient_square(const struct check_rows *rows, uint32_t step)
{
    double square = 0;
    EACH_ROW_OF(row, rows, CHECK_GRADIENT)
        square += row->step == step ? row->norms.reference * row->norms.reference : 0;
    return square;
}

/* Whether a gradient of the step is neither zero nor noise beside the others. */
static bool
item_tells(const struct check_evidence *evidence, const struct check_item *item, uint32_t step)
{
    const struct check_row *row = pattern_row(&evidence->ranked[0], &item->tensor, step);
    double square = row != NULL ? row->norms.reference * row->norms.reference : 0;
    double all = gradient_square(&evidence->ranked[0], step);
    return square > 0 && (square > 1e-6 * all || !isfinite(all));
}

static bool
is_trained(const struct check_item *item)
{
    return item->tensor.role == CHECK_PARAMETER || item->tensor.role == CHECK_GRADIENT;
}

/* A buffer that gradients depend on, by far less than it differs itself. */
static bool
explains(const struct check_item *buffer, const struct check_item *other)
{
    return buffer->tensor.role == CHECK_BUFFER && is_trained(other) && buffer->at_first > 1e3 * other->at_first;
}

struct pattern
pattern_find(const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    struct pattern pattern = {0};
    for (const struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        unsigned moment = item->moment;
        uint32_t role = item->tensor.role;
        if (role != CHECK_GRADIENT) /* of which zeros prove nothing: below */
            pattern.all[role] += item->differs || item->moved || role != CHECK_PARAMETER;
        /* A result may have to depend on the number of ranks, and a mean may be shown only. */
        if (!item->differs || role == CHECK_REDUCE || role == CHECK_MEAN)
            continue;
        ++pattern.ever[item->tensor.role];
        bool in_place = item->tensor.role == CHECK_MEMORY && item->tensor.group == 1;
        if (in_place && pattern.memory == NULL)
            pattern.memory = item;
        bool sooner = pattern.moment == 0 || moment < pattern.moment,
             goes_first = !sooner && moment == pattern.moment && !explains(pattern.first, item) &&
                          ((is_trained(item) && !is_trained(pattern.first)) || explains(item, pattern.first));
        /* What is trained explains what then differs in means, buffers and other memory. */
        if (sooner || goes_first) {
            pattern.moment = moment;
            pattern.first = item;
        }
    }
    for (const struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        bool then = item->differs && item->moment == pattern.moment;
        uint32_t step = pattern.first != NULL ? pattern.first->first_step : 1;
        pattern.differing[item->tensor.role] += then;
        pattern.all[CHECK_GRADIENT] +=
            item->tensor.role == CHECK_GRADIENT && (then || item_tells(evidence, item, step));
    }
    return pattern;
}

bool
pattern_is_few(size_t differing, size_t all)
{
    return differing > 0 && all > 1 && (differing == 1 || 4 * differing <= all) && differing < all;
}

bool
pattern_is_scaled(const struct check_evidence *evidence, double *factor_p)
{
    const struct check_rows *rows = &evidence->ranked[0];
    double product = 0, square = gradient_square(rows, 1);
    EACH_ROW_OF(row, rows, CHECK_GRADIENT)
        product += row->step == 1 ? row->norms.product : 0;
    if (!(square > 0))
        return false;
    double factor = product / square, n = evidence->ranks;
    bool is_n = fabs(factor * n - 1) < 0.02 || fabs(factor / n - 1) < 0.02;
    size_t count = 0;
    EACH_ROW_OF(row, rows, CHECK_GRADIENT) {
        const struct check_norms *norms = &row->norms;
        if (row->step != 1 || norms->reference * norms->reference < 1e-8 * square)
            continue;
        double own = norms->product / (norms->reference * norms->reference);
        double rest = norms->own * norms->own - own * norms->product; /* squared: what the factor leaves */
        if (!is_n && sqrt(fmax(rest, 0)) > 0.2 * fabs(factor - 1) * norms->reference)
            return false;
        if (!(norms->product > same_direction * norms->own * norms->reference) ||
            fabs(own - factor) > 0.01 * fabs(factor))
            return false;
        ++count;
    }
    *factor_p = factor;
    return count > 0 && fabs(factor - 1) > 0.01;
}

bool
pattern_factor_holds(const struct check_evidence *evidence, double factor)
{
    for (const struct check_rows *rows = evidence->ranked; rows < evidence->ranked + evidence->ranks; ++rows) {
        EACH_ROW(row, rows, CHECK_ROW_FORCED)
            if (row->norms.product != factor && row->norms.product != 1)
                return false;
        EACH_ROW_OF(row, rows, CHECK_GRADIENT) {
            double apart = norms_apart(&row->norms, factor), reference = row->norms.reference, most = 0; /* so far */
            if (apart <= evidence->bearable * factor * reference ||
                reference * reference < 1e-8 * gradient_square(rows, row->step))
                continue;
            EACH_ROW_OF(it, rows, CHECK_GRADIENT)
                if (it->tensor.number == row->tensor.number && it->step <= row->step)
                    most = fmax(most, it->norms.reference);
            if (!(apart <= evidence->bearable * factor * most))
                return false;
        }
    }
    return true;
}

bool
pattern_takes_whole_batches(const struct check_evidence *evidence)
{
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_COPIED);
    const struct check_row *shared = check_rows_find(&evidence->ranked[0], CHECK_ROW_SHARD);
    const struct check_row *whole = check_rows_find(&evidence->alone, CHECK_ROW_SHARD);
    if (shared != NULL && whole != NULL && evidence->ranks > 1)
        return shared->value == whole->value * (uint64_t)evidence->ranks;
    if (alone == NULL || alone->value < 1024 || shared != NULL || evidence->ranks < 2)
        return false;
    const struct check_row *row;
    return ALL(rows, evidence->ranked, evidence->ranks,
               (row = check_rows_find(rows, CHECK_ROW_COPIED)) != NULL &&
                   (double)row->value >= 0.95 * (double)alone->value);
}

bool
pattern_is_averaged(const struct check_evidence *evidence, const struct check_tensor *tensor)
{
    const struct check_rows *rows = &evidence->ranked[0];
    return ANY(row, rows->rows, rows->count,
               row->kind == CHECK_ROW_AVERAGED && check_same_tensor(&row->tensor, tensor));
}

uint64_t
pattern_uneven_items(const struct check_evidence *evidence, uint32_t step)
{
    EACH_ROW(row, &evidence->ranked[0], CHECK_ROW_SHARD) {
        if (row->uneven && row->step + 1 == step)
            return row->value;
    }
    return 0;
}

double
pattern_worst(const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    struct check_evidence one = *evidence;
    struct check_rows none = {0}, copy = evidence->again;
    one.ranks = 1;
    one.again = one.perturbed = one.probe = one.nudged = none;
    size_t count;
    double worst = 0;
    OWNED struct check_item *items = items_make(&one, &copy, &count);
    FOR_EACH(item, items, count)
        worst = is_trained(item) ? fmax(worst, item->difference) : worst;
    /* A start nearby makes more than rounding can in one step; in many steps rounding may grow to it. */
    FOR_EACH_UNTIL(item, verdict->items, verdict->item_count, !check_evidence_is_forced(evidence))
        if (item->tensor.role == CHECK_GRADIENT && (item->differs || item->unclear) && item->floor > 0.1 &&
            isfinite(item->floor))
            worst = fmax(worst, item->floor);
    return worst;
}

bool
pattern_is_right(const struct check_evidence *evidence, const struct check_rows *ranked)
{
    size_t count;
    OWNED struct check_item *items = items_make(evidence, ranked, &count);
    return count > 0 && /* a mean may be shown only */
           ALL(item, items, count, !item->differs || item->tensor.role == CHECK_MEAN);
}

/* ---- factors ---- */

static const double exact = 1e-3; /* relative; rounding of small changes makes it more */

bool
factor_of_row(const struct check_row *row, double *factor_p)
{
    const struct check_norms *norms = &row->norms;
    double square = norms->reference * norms->reference;
    *factor_p = square > 0 && norms->unbounded == 0 ? norms->product / square : 0;
    /* Each element is a unit in the last place off, up or down. */
    double rest = norms->own * norms->own - *factor_p * norms->product;
    double most = exact * fmax(norms->own, norms->reference) + norms->unit * sqrt((double)row->tensor.count);
    return *factor_p != 0 && rest <= most * most;
}

const char *
factor_meaning(const struct check_evidence *evidence, double factor)
{
    double n = evidence->ranks;
    return fabs(factor * n - 1) < 0.02   ? ", the reciprocal of the number of ranks"
           : fabs(factor / n - 1) < 0.02 ? ", the number of ranks"
                                         : "";
}
