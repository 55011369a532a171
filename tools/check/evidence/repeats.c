/* repeats.c - see measure.h. */
#include "tools/check/evidence/measure.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

/* The worst of what is trained, of one rank that has run again. */
static double
worst_again(const struct check_evidence *evidence)
{
    struct check_evidence one = *evidence;
    struct check_rows none = {0}, copy = evidence->again;
    one.ranks = 1;
    one.again = one.perturbed = one.probe = one.nudged = none;
    size_t count;
    double worst = 0;
    OWNED struct check_item *items = items_make(&one, &copy, &count);
    FOR_EACH(item, items, count)
        worst = items_is_trained(item) ? fmax(worst, item->difference) : worst;
    return worst;
}

/* Whether a start nearby makes more than rounding can in one step; in many steps rounding may grow to it. */
static bool
is_beyond_rounding(const struct check_item *item)
{
    return item->tensor.role == CHECK_GRADIENT && (item->differs || item->unclear) && item->floor > 0.1 &&
           isfinite(item->floor);
}

/* Whether something that differs first does so beyond any rounding: then it is a difference, whatever rounding makes
 * of others. */
static bool
is_clear(const struct check_evidence *evidence, const struct check_item *items, size_t count,
         const struct check_item *first)
{
    enum { FAR_BEYOND = 10 };
    return first != NULL && ANY(item, items, count,
                                item->differs && item->moment == first->moment &&
                                    (item->limit <= evidence->bearable || item->at_first >= FAR_BEYOND * item->limit));
}

double
repeats_worst(const struct check_evidence *evidence, const struct check_item *items, size_t count,
              const struct check_item *first)
{
    double worst = worst_again(evidence);
    if (!check_evidence_is_forced(evidence) || is_clear(evidence, items, count, first))
        return worst;
    FOR_EACH(item, items, count)
        worst = is_beyond_rounding(item) ? fmax(worst, item->floor) : worst;
    return worst;
}
