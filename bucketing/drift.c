/*
 * drift.c - see drift.h. Where the bounds come from: docs/how-it-works.md.
 */
#include "bucketing/drift.h"

#include "base/assertion.h"

#include <math.h>

_Static_assert(DRIFT_SAME < DRIFT_NOISE && DRIFT_NOISE < DRIFT_MARKED && DRIFT_MARKED < DRIFT_BAD &&
                   DRIFT_BAD < DRIFT_MISTAKE,
               "verdicts are compared");

enum {
    SAMPLE = 4096,
    WHOLE = 65536,            /* so many elements are a sample of themselves, */
    SAMPLES_AT_MOST = 524288, /* where all samples together are no more: 4 MiB of float64 */
    CLOSE = 5,                /* boundaries between comparisons while a difference is above a bound */
    SHORT = 10,               /* boundaries in which training does not multiply noise by much */
    STRIKES = 3,              /* looks that an element is conspicuous in, or that are above a bound in a row */
    NARROW = 16,              /* fraction bits: a type with fewer rounds much of an update away */
    SPARSE = 50,              /* one element in so many is few, */
    FEW = 2,                  /* and so are these */
    FEW_WINDOWS = 8,          /* of which a has a mean at all */
    BINS = 64,                /* of b, by powers of two, from 2^-BINS on */
};

/* Of a and c: for types with many fraction bits, and for those with few. */
static const double A_BOUND[] = {3e-5, 5e-3}, C_BOUND[] = {2e-3, 0.2};
/* b of a conspicuous element; that beside the b of most others, and where two looks are enough. */
static const double ALONE = 0.05, ABOVE_MOST = 30, FAR_ABOVE_MOST = 300;
static const double B_BOUND = 0.3, B_SHARE = 0.02;
static const double LEAP = 3, ABOVE_CALM = 3e4; /* times a bound, and times c where noise was found */
static const double SPARSE_BOUND = 1.5e-3, SPARSE_ULPS[] = {64, 4}; /* of few elements that alone differ */
static const double MEAN_SHARE = 0.25, FLOOR_ULPS = 32;
static const double DISCOUNT_ULPS[] = {4, 1}; /* additions to a value in another order */

/* Sums over a sample, and its b. */
struct sums {
    bool lasts;
    double moved, apart, counted, aligned; /* of |m|, |d|, |d| above the discount, d sign(m) */
    double anew;                           /* of |d - before| */
    double most_moved, mean;               /* greatest |m|, mean |m| */
    size_t bins[BINS + 1];                 /* elements by their b; the last has those from 1 on */
    size_t over;                           /* elements above B_BOUND */
    size_t still;                          /* elements that no rank has moved */
    double most_apart, still_apart;        /* greatest |d|: of those that rank 0 has moved, and of the others */
    size_t worst;                          /* the one with the largest b */
    double b, most;                        /* its b; what three quarters of the elements do not exceed */
};

static int
is_narrow(const struct drift_look *look)
{
    return look->fraction_bits < NARROW;
}

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

/* What of d is more than another order of additions makes. */
static double
counted(const struct drift_look *look, size_t i, double d)
{
    return fmax(fabs(d) - DISCOUNT_ULPS[is_narrow(look)] * ulp(look->now[i], look), 0);
}

static void
add_up(const struct drift_look *look, struct sums *sums)
{
    for (size_t i = 0; i < look->count - look->marked; ++i) {
        if (!is_usable(look, i))
            continue;
        double m = movement(look, i), d = difference(look, i, sums->lasts);
        sums->moved += fabs(m);
        sums->most_moved = fmax(sums->most_moved, fabs(m));
        sums->apart += fabs(look->apart[i]);
        sums->anew += fabs(look->apart[i] - look->before[i]);
        sums->counted += is_narrow(look) ? fabs(d) : counted(look, i, d);
        if (m != 0)
            sums->aligned += m > 0 ? d : -d;
    }
    sums->mean = look->count > look->marked ? sums->moved / (double)(look->count - look->marked) : 0;
}

/* b of one element. One that went to and fro has moved by a part of the mean, at least. */
static double
b_of(const struct drift_look *look, size_t i, const struct sums *sums)
{
    double d = counted(look, i, difference(look, i, sums->lasts));
    double beside = fabs(movement(look, i)) + MEAN_SHARE * sums->mean + FLOOR_ULPS * ulp(look->now[i], look);
    return !is_usable(look, i) || d == 0 ? 0 : d / beside;
}

/* The bin of b: 0 has those of no difference. */
static int
bin_of(double b)
{
    int exponent = 0;
    if (b == 0)
        return 0;
    (void)frexp(b, &exponent);
    if (exponent <= -BINS)
        return 0;
    return exponent > 0 ? BINS : BINS + exponent;
}

/* One that went to and fro, and stands where it was, is apart as the others are. */
static void
add_still(const struct drift_look *look, size_t i, struct sums *sums)
{
    double d = is_usable(look, i) ? fabs(look->apart[i]) : 0;
    if (movement(look, i) != look->apart[i])
        sums->most_apart = fmax(sums->most_apart, d);
    else if (d > FLOOR_ULPS * ulp(look->now[i], look))
        sums->still_apart = fmax(sums->still_apart, d);
    else
        sums->still += d == 0;
}

static void
look_at_each(const struct drift_look *look, struct sums *sums)
{
    size_t sampled = look->count - look->marked;
    for (size_t i = 0; i < sampled; ++i) {
        double b = b_of(look, i, sums);
        ++sums->bins[bin_of(b)];
        sums->over += b > B_BOUND;
        add_still(look, i, sums);
        if (b > sums->b) {
            sums->worst = i;
            sums->b = b;
        }
    }
    int bin = 0;
    size_t up_to_bin = sums->bins[0];
    while (bin < BINS && up_to_bin < sampled - sampled / 4) {
        ++bin;
        up_to_bin += sums->bins[bin];
    }
    sums->most = bin == 0 ? 0 : ldexp(1, bin - BINS);
}

static bool
is_alone(double b, const struct sums *sums)
{
    return b > ALONE && b > ABOVE_MOST * sums->most;
}

/* ---- marks ---- */

static void
unmark(struct drift *drift, size_t at)
{
    ASSERT(at < drift->mark_count);
    --drift->mark_count;
    for (size_t i = at; i < drift->mark_count; ++i) {
        drift->marks[i] = drift->marks[i + 1];
        drift->hits[i] = drift->hits[i + 1];
    }
}

void
drift_mark(struct drift *drift, uint64_t place)
{
    ASSERT(drift->mark_count <= DRIFT_MARKS);
    for (size_t i = 0; i < drift->mark_count; ++i) {
        if (drift->marks[i] == place)
            return;
    }
    if (drift->mark_count == DRIFT_MARKS)
        unmark(drift, 0); /* the oldest */
    drift->marks[drift->mark_count] = place;
    drift->hits[drift->mark_count++] = 1;
}

/* Marked elements that moved are conspicuous once more, or marked no more. DRIFT_NOISE: none is; *at_p, *place_p: the
 * place in the sample and the element of one that is. */
static enum drift_verdict
look_at_marked(struct drift *drift, const struct drift_look *look, const struct sums *sums, size_t *at_p,
               uint64_t *place_p)
{
    enum drift_verdict verdict = DRIFT_NOISE;
    size_t sampled = look->count - look->marked;
    for (size_t k = look->marked; k-- > 0;) {
        size_t i = sampled + k;
        bool moved = counted(look, i, movement(look, i)) > 0 || look->apart[i] != 0;
        if (!moved)
            continue;
        double b = b_of(look, i, sums);
        if (!is_alone(b, sums)) {
            unmark(drift, k);
            continue;
        }
        bool is_sure = ++drift->hits[k] >= STRIKES || b > FAR_ABOVE_MOST * sums->most;
        if (verdict != DRIFT_MISTAKE) {
            *at_p = i;
            *place_p = drift->marks[k];
        }
        verdict = is_sure || verdict == DRIFT_MISTAKE ? DRIFT_MISTAKE : DRIFT_MARKED;
    }
    return verdict;
}

/* ---- a ---- */

/* Student's t over so many windows that chance exceeds once in 10^5 looks. */
static double
t_of_chance(uint64_t windows)
{
    if (windows < 16)
        return 12;
    return windows < 32 ? 8 : 7;
}

/* Whether a has a direction that lasts. */
static bool
has_direction(const struct drift *drift, double bound)
{
    double n = (double)drift->windows, mean = drift->sum / n;
    double variance = fmax(drift->squares / n - mean * mean, 0) * n / (n - 1);
    double by_chance = t_of_chance(drift->windows) * sqrt(variance / n);
    return drift->windows >= FEW_WINDOWS && fabs(mean) > bound && fabs(mean) > by_chance;
}

static bool
add_window(struct drift *drift, double a, double bound)
{
    ++drift->windows;
    drift->sum += a;
    drift->squares += a * a;
    return has_direction(drift, bound);
}

/* ---- the judgement ---- */

static struct drift_found
found_at(enum drift_verdict verdict, double apart, double moved, uint64_t place)
{
    return (struct drift_found){.verdict = verdict, .apart = apart, .moved = moved, .place = place};
}

/* Few elements alone differ, by more than rounding. */
static bool
is_sparse(const struct drift_look *look)
{
    return look->largest > SPARSE_ULPS[is_narrow(look)] * ulp(look->greatest, look) &&
           (look->differing * SPARSE <= look->elements ||
            (look->differing <= FEW && 3 * look->differing <= look->elements));
}

void
drift_compare(struct drift_found *found, double calm)
{
    if (found->verdict == DRIFT_BAD && found->times > LEAP && found->c > ABOVE_CALM * calm)
        found->verdict = DRIFT_MISTAKE;
}

/* Chaos multiplies noise: not where there was none, for bits were the same, and not by so much from one look to
 * another. */
static struct drift_found
above(const struct drift *drift, const struct drift_look *look, double times, double c, double apart, double moved)
{
    bool is_long = 4 * look->window > 5 * drift->calm_window;
    struct drift_found found = found_at(DRIFT_BAD, apart, moved, DRIFT_EVERYWHERE);
    found.times = times;
    found.c = c;
    if (!drift->is_noisy && times > LEAP)
        found.verdict = DRIFT_MISTAKE;
    else if (drift->is_noisy && !is_long)
        drift_compare(&found, drift->calm_c);
    return found;
}

static double
c_of(const struct sums *sums)
{
    if (sums->moved > 0)
        return sums->counted / sums->moved;
    return sums->counted > 0 ? INFINITY : 0;
}

static struct drift_found
judge(struct drift *drift, const struct drift_look *look, struct sums *sums)
{
    size_t sampled = look->count - look->marked, at = 0;
    uint64_t place = 0;
    double of_all = sums->most_moved + FLOOR_ULPS * ulp(look->greatest, look);
    double all = sums->lasts || look->largest == 0 ? 0 : look->largest / of_all;
    int narrow = is_narrow(look);
    look_at_each(look, sums);
    enum drift_verdict marked = look_at_marked(drift, look, sums, &at, &place);

    if (look->unlike > 0)
        return found_at(DRIFT_MISTAKE, INFINITY, sums->most_moved, look->place);
    if (all > SPARSE_BOUND && is_sparse(look))
        return found_at(DRIFT_MISTAKE, look->largest, sums->most_moved, look->place);
    if (!sums->lasts && sums->still > FEW && sums->still_apart > 2 * sums->most_apart)
        return found_at(DRIFT_MISTAKE, sums->still_apart, 0, look->place);
    if (sums->moved > 0 && add_window(drift, sums->aligned / sums->moved, A_BOUND[narrow]))
        return found_at(DRIFT_MISTAKE, fabs(sums->aligned), sums->moved, DRIFT_EVERYWHERE);
    double c = c_of(sums);
    if (c > C_BOUND[narrow])
        return above(drift, look, c / C_BOUND[narrow], c, sums->counted, sums->moved);
    if (sums->over > FEW && (double)sums->over > B_SHARE * (double)sampled)
        return above(drift, look, (double)sums->over / (B_SHARE * (double)sampled), c,
                     fabs(difference(look, sums->worst, sums->lasts)), fabs(movement(look, sums->worst)));
    if (marked != DRIFT_NOISE)
        return found_at(marked, fabs(difference(look, at, sums->lasts)), fabs(movement(look, at)), place);
    if (is_alone(all, sums)) {
        drift_mark(drift, look->place);
        return found_at(DRIFT_MARKED, look->largest, sums->most_moved, look->place);
    }
    return found_at(DRIFT_NOISE, look->largest, sums->most_moved, look->place);
}

/* Rank 0's values were taken, and what was apart before is there again after much fewer steps. */
static bool
is_there_again(const struct drift *drift, const struct drift_look *look, const struct sums *sums)
{
    return drift->is_noisy && sums->apart > 0 && sums->anew < 0.5 * sums->apart &&
           (drift->lasts || 4 * look->window <= drift->window);
}

struct drift_found
drift_judge(struct drift *drift, const struct drift_look *look)
{
    struct sums sums = {0};
    ASSERT(look->marked <= look->count && look->marked <= drift->mark_count);
    if (look->differing == 0 && look->unlike == 0)
        return found_at(DRIFT_SAME, 0, 0, 0);
    add_up(look, &sums);
    if (is_there_again(drift, look, &sums)) {
        drift->lasts = true;
        sums = (struct sums){.lasts = true};
        add_up(look, &sums);
    }
    struct drift_found found = judge(drift, look, &sums);
    found.a = sums.moved > 0 ? sums.aligned / sums.moved : 0;
    found.b = sums.b;
    found.c = sums.moved > 0 ? sums.counted / sums.moved : 0;
    found.lasts = sums.lasts;
    found.conspicuous = is_alone(sums.b, &sums) ? sums.worst : DRIFT_NONE;
    if (found.verdict == DRIFT_NOISE && found.conspicuous != DRIFT_NONE)
        found.verdict = DRIFT_MARKED;
    drift->window = look->window;
    if (found.verdict <= DRIFT_MARKED) {
        drift->is_noisy = true;
        drift->calm_c = fmax(drift->calm_c, found.c);
        drift->calm_window = look->window > drift->calm_window ? look->window : drift->calm_window;
    }
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
    if (tensors * (uint64_t)(1 + DRIFT_MARKS) > SAMPLES_AT_MOST)
        return 0;
    uint64_t each = SAMPLES_AT_MOST / (tensors > 0 ? tensors : 1) - DRIFT_MARKS;
    uint64_t most = SAMPLE;
    if (each >= WHOLE)
        most = WHOLE;
    else if (each < SAMPLE)
        most = each;
    return (size_t)(elements < most ? elements : most);
}
