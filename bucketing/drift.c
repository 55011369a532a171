/*
 * drift.c - see drift.h. Where the bounds come from: docs/noise.md.
 */
#include "bucketing/drift.h"

#include <math.h>

enum {
    SAMPLE = 4096,
    WHOLE = 65536,            /* so many elements are a sample of themselves, */
    SAMPLES_AT_MOST = 524288, /* where all samples together are no more: 4 MiB of float64 */
    CLOSE = 5,                /* boundaries between comparisons while a difference is above a bound */
    SHORT = 10,               /* boundaries in which training does not multiply noise by much */
    STRIKES = 3,
    FLOOR_ULPS = 32, /* of b */
    NARROW = 16,     /* fraction bits: a type with fewer rounds much of an update away */
    SPARSE = 50,     /* one element in so many is few, */
    FEW = 2,         /* and so are these */
    FEW_WINDOWS = 8, /* of which a has a mean at all */
};

static const double B_BOUND = 0.3, B_CERTAIN = 0.5, B_SHARE = 0.02, C_BOUND = 2e-3, C_BOUND_NARROW = 0.2,
                    A_BOUND = 3e-5, A_BOUND_NARROW = 5e-3, MEAN_SHARE = 0.25, DISCOUNT_ULPS = 4;

/* Sums over a sample. */
struct sums {
    double moved, apart, counted, aligned; /* of |m|, |d|, |d| above the discount, d sign(m) */
    double anew;                           /* of |d - before| */
    double most_moved;
    size_t over;      /* elements above B_BOUND, but for marked ones */
    size_t worst;     /* the element with the largest b, of those */
    size_t marked;    /* the same of marked ones */
    double b, marked_b;
};

static double
ulp(double value, const struct drift_look *look)
{
    return fabs(value) * ldexp(1, -look->fraction_bits);
}

static double
difference(const struct drift_look *look, size_t i, bool lasts)
{
    return look->apart[i] - (lasts ? look->before[i] : 0);
}

static double
movement(const struct drift_look *look, size_t i)
{
    return look->now[i] - look->then[i];
}

static bool
is_usable(const struct drift_look *look, size_t i)
{
    return isfinite(look->now[i]) && isfinite(look->then[i]) && isfinite(look->apart[i]) && isfinite(look->before[i]);
}

static void
add_up(const struct drift_look *look, struct sums *sums)
{
    double discount = look->fraction_bits < NARROW ? 0 : DISCOUNT_ULPS;
    for (size_t i = 0; i < look->count - look->marked; ++i) {
        if (!is_usable(look, i))
            continue;
        double m = movement(look, i), d = look->apart[i], less = fabs(d) - discount * ulp(look->now[i], look);
        sums->moved += fabs(m);
        sums->most_moved = fmax(sums->most_moved, fabs(m));
        sums->apart += fabs(d);
        sums->anew += fabs(d - look->before[i]);
        sums->counted += fmax(less, 0);
        sums->aligned += m > 0 ? d : m < 0 ? -d : 0;
    }
}

/* b of one element. One that went to and fro has moved by a part of the mean, at least. */
static double
b_of(const struct drift_look *look, size_t i, double mean, bool lasts)
{
    double d = fabs(difference(look, i, lasts));
    double beside = fabs(movement(look, i)) + MEAN_SHARE * mean + FLOOR_ULPS * ulp(look->now[i], look);
    return d == 0 || !is_usable(look, i) ? 0 : d / beside;
}

static void
look_at_each(const struct drift_look *look, double mean, bool lasts, struct sums *sums)
{
    size_t sampled = look->count - look->marked;
    for (size_t i = 0; i < look->count; ++i) {
        bool is_marked = i >= sampled;
        double b = b_of(look, i, mean, lasts);
        sums->over += !is_marked && b > B_BOUND;
        if (is_marked && b > sums->marked_b) {
            sums->marked = i;
            sums->marked_b = b;
        } else if (!is_marked && b > sums->b) {
            sums->worst = i;
            sums->b = b;
        }
    }
}

static void
mark(struct drift *drift, uint64_t place)
{
    size_t kept = drift->mark_count < DRIFT_MARKS ? drift->mark_count : DRIFT_MARKS;
    for (size_t i = 0; i < kept; ++i) {
        if (drift->marks[i] == place)
            return;
    }
    drift->marks[drift->mark_count++ % DRIFT_MARKS] = place;
}

/* Whether a has a direction that lasts: Student's t of its mean, with bounds that chance passes once in 10^5 looks. */
static bool
has_direction(const struct drift *drift, double bound)
{
    double n = (double)drift->windows, mean = drift->sum / n;
    double variance = fmax(drift->squares / n - mean * mean, 0) * n / (n - 1);
    double t = drift->windows < 16 ? 12 : drift->windows < 32 ? 8 : 7;
    return drift->windows >= FEW_WINDOWS && fabs(mean) > bound && fabs(mean) > t * sqrt(variance / n);
}

static bool
add_window(struct drift *drift, double a, double bound)
{
    ++drift->windows;
    drift->sum += a;
    drift->squares += a * a;
    return has_direction(drift, bound);
}

static struct drift_found
found_at(enum drift_verdict verdict, double apart, double moved, uint64_t place)
{
    return (struct drift_found){.verdict = verdict, .apart = apart, .moved = moved, .place = place};
}

/* Few elements that are far from rank 0's beside the largest movement of any, while the others are the same. */
static bool
is_sparse(const struct drift_look *look)
{
    return look->differing * SPARSE <= look->elements ||
           (look->differing <= FEW && 3 * look->differing <= look->elements);
}

static struct drift_found
judge(struct drift *drift, const struct drift_look *look, struct sums *sums, bool lasts)
{
    bool is_narrow = look->fraction_bits < NARROW;
    size_t sampled = look->count - look->marked;
    double d = lasts ? sums->anew : sums->apart, mean = sampled > 0 ? sums->moved / (double)sampled : 0;
    double counted = lasts ? sums->anew : sums->counted;
    double of_all = sums->most_moved + FLOOR_ULPS * ulp(look->greatest, look);
    double all = lasts || look->largest == 0 ? 0 : look->largest / of_all;
    look_at_each(look, mean, lasts, sums);

    if (look->unlike > 0)
        return found_at(DRIFT_MISTAKE, INFINITY, sums->most_moved, look->place);
    if (sums->marked_b > B_BOUND)
        return found_at(DRIFT_MISTAKE, fabs(difference(look, sums->marked, lasts)), fabs(movement(look, sums->marked)),
                        drift->marks[sums->marked - sampled]);
    if (all > B_CERTAIN && is_sparse(look))
        return found_at(DRIFT_MISTAKE, look->largest, sums->most_moved, look->place);
    if (!lasts && sums->moved > 0 && add_window(drift, sums->aligned / sums->moved, is_narrow ? A_BOUND_NARROW : A_BOUND))
        return found_at(DRIFT_MISTAKE, fabs(sums->aligned), sums->moved, DRIFT_EVERYWHERE);
    if (counted > (is_narrow ? C_BOUND_NARROW : C_BOUND) * sums->moved)
        return found_at(DRIFT_BAD, d, sums->moved, DRIFT_EVERYWHERE);
    if (sums->over > FEW && (double)sums->over > B_SHARE * (double)sampled)
        return found_at(DRIFT_BAD, fabs(difference(look, sums->worst, lasts)), fabs(movement(look, sums->worst)),
                        DRIFT_EVERYWHERE);
    if (all > B_BOUND) {
        mark(drift, look->place);
        return found_at(DRIFT_MARKED, look->largest, sums->most_moved, look->place);
    }
    return found_at(DRIFT_NOISE, look->largest, sums->most_moved, look->place);
}

struct drift_found
drift_judge(struct drift *drift, const struct drift_look *look)
{
    struct sums sums = {0};
    if (look->differing == 0 && look->unlike == 0)
        return found_at(DRIFT_SAME, 0, 0, 0);
    add_up(look, &sums);
    bool lasts = drift->is_noisy && sums.apart > 0 && sums.anew < 0.5 * sums.apart;
    struct drift_found found = judge(drift, look, &sums, lasts);
    found.a = sums.moved > 0 ? sums.aligned / sums.moved : 0;
    found.c = sums.moved > 0 ? sums.apart / sums.moved : 0;
    found.lasts = lasts;
    drift->is_noisy = drift->is_noisy || found.verdict <= DRIFT_MARKED;
    return found;
}

bool
drift_is_mistake_at_end(struct drift *drift, const struct drift_look *look, struct drift_found *found_p)
{
    bool was_noisy = drift->is_noisy;
    *found_p = drift_judge(drift, look);
    return found_p->verdict >= (was_noisy ? DRIFT_MISTAKE : DRIFT_BAD);
}

bool
drift_ends(struct drift_pace *pace, enum drift_verdict worst, uint64_t window, uint64_t regular)
{
    if (worst >= DRIFT_BAD) {
        ++pace->strikes;
        pace->interval = CLOSE;
    } else if (worst == DRIFT_MARKED) {
        pace->interval = CLOSE;
    } else {
        pace->strikes = 0;
        pace->interval *= 2;
        if (pace->interval >= regular)
            pace->interval = 0;
    }
    return worst == DRIFT_MISTAKE || pace->strikes >= STRIKES || (pace->strikes == STRIKES - 1 && window <= SHORT);
}

size_t
drift_sample_count(uint64_t elements, size_t tensors)
{
    uint64_t each = SAMPLES_AT_MOST / (tensors > 0 ? tensors : 1) - DRIFT_MARKS;
    uint64_t most = each >= WHOLE ? WHOLE : each < SAMPLE ? each : SAMPLE;
    if (tensors * (uint64_t)(1 + DRIFT_MARKS) > SAMPLES_AT_MOST)
        return 0;
    return (size_t)(elements < most ? elements : most);
}
