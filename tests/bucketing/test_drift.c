/*
 * test_drift.c - noise of the arithmetic is no mistake, and mistakes are no noise: updates that vary by rounding are
 * noise at every rate, one element, one row, one tensor and one rank's rate that are wrong are not, what chaos has
 * multiplied is above a bound and ends nothing alone, and a sample never has more elements than there is room for.
 */
#include "bucketing/drift.h"

#include "tests/lib/test.h"

#include <float.h>

enum { ELEMENTS = 2000, STEPS = 50, LOOKS = 20 };

enum kind { RIGHT, CLIPPED, SCATTERED, FORGOTTEN, ROW, ELEMENT, RATE, SLOW_RATE, UNLIKE };

/* Two ranks that train by momentum: values of rank 0 and of rank 1, and their gradients' means. */
struct ranks {
    float w[2][ELEMENTS], m[2][ELEMENTS];
    double now[ELEMENTS + DRIFT_MARKS], then[ELEMENTS + DRIFT_MARKS], apart[ELEMENTS + DRIFT_MARKS],
        before[ELEMENTS + DRIFT_MARKS];
    unsigned seed;
};

static double
uniform(unsigned *seed)
{
    return rand_r(seed) / (RAND_MAX + 1.0) - 0.5;
}

static double
wrong_factor(enum kind kind, int rank, size_t i, unsigned *seed)
{
    if (rank == 0)
        return 1;
    if (kind == RATE)
        return 1.01;
    if (kind == SLOW_RATE)
        return 1.0001;
    bool is_own = kind == FORGOTTEN || (kind == ROW && i >= 40 && i < 48) || (kind == ELEMENT && i == 77);
    return is_own ? 1 + 2 * uniform(seed) : 1;
}

static void
train(struct ranks *ranks, double rate, enum kind kind)
{
    for (int step = 0; step < STEPS; ++step) {
        double noise = kind == CLIPPED ? 1e-4 : 2e-7, clip[2] = {1, 1 + noise * uniform(&ranks->seed)};
        for (size_t i = 0; i < ELEMENTS; ++i) {
            double gradient = uniform(&ranks->seed) + 0.1 * (i % 7);
            for (int rank = 0; rank < 2; ++rank) {
                double own = gradient * wrong_factor(kind, rank, i, &ranks->seed);
                ranks->m[rank][i] = (float)(0.9 * ranks->m[rank][i] + clip[rank] * own);
                ranks->w[rank][i] -= (float)(rate * ranks->m[rank][i]);
                if (kind == SCATTERED && rank == 1 && i % 3 == 0)
                    ranks->w[rank][i] = nextafterf(ranks->w[rank][i], (float)uniform(&ranks->seed));
            }
        }
    }
    if (kind == UNLIKE)
        ranks->w[1][5] = NAN;
}

/* As values.c looks: rank 1 takes rank 0's values afterwards. */
static struct drift_found
look_at(struct ranks *ranks, struct drift *drift, uint64_t window)
{
    size_t marked = drift->mark_count;
    struct drift_look look = {.now = ranks->now,
                              .then = ranks->then,
                              .apart = ranks->apart,
                              .before = ranks->before,
                              .count = ELEMENTS + marked,
                              .marked = marked,
                              .elements = ELEMENTS,
                              .fraction_bits = FLT_MANT_DIG - 1,
                              .window = window};
    for (size_t i = 0; i < look.count; ++i) {
        size_t at = i < ELEMENTS ? i : drift->marks[i - ELEMENTS];
        double a = ranks->w[1][at], b = ranks->w[0][at], d = a - b;
        ranks->now[i] = a;
        ranks->apart[i] = d;
        look.unlike += isfinite(a) != isfinite(b);
        look.differing += i < ELEMENTS && isfinite(d) && d != 0;
        look.greatest = isfinite(a) ? fmax(look.greatest, fabs(a)) : look.greatest;
        if (isfinite(d) && fabs(d) > look.largest) {
            look.largest = fabs(d);
            look.place = at;
        }
    }
    struct drift_found found = drift_judge(drift, &look);
    if (found.conspicuous != DRIFT_NONE)
        drift_mark(drift, found.conspicuous);
    memcpy(ranks->w[1], ranks->w[0], sizeof(ranks->w[0]));
    marked = drift->mark_count;
    for (size_t i = 0; i < ELEMENTS + marked; ++i) {
        ranks->then[i] = ranks->w[0][i < ELEMENTS ? i : drift->marks[i - ELEMENTS]];
        ranks->before[i] = ranks->apart[i];
    }
    return found;
}

static struct ranks *
begin(unsigned seed)
{
    struct ranks *ranks = calloc(1, sizeof(*ranks));
    ck_assert_ptr_nonnull(ranks);
    ranks->seed = seed;
    for (size_t i = 0; i < ELEMENTS; ++i) {
        ranks->w[0][i] = ranks->w[1][i] = (float)uniform(&ranks->seed);
        ranks->then[i] = ranks->w[0][i];
    }
    return ranks;
}

/* The look that would end the job, from 1; 0: none of LOOKS. */
static int
ended_at(enum kind kind, double rate, unsigned seed)
{
    struct drift drift = {0};
    struct drift_pace pace = {0};
    struct ranks *ranks = begin(seed);
    int ended = 0;
    for (int look = 1; look <= LOOKS && ended == 0; ++look) {
        train(ranks, rate, kind);
        struct drift_found found = look_at(ranks, &drift, STEPS);
        if (drift_ends(&pace, found.verdict, STEPS, 2 * STEPS))
            ended = look;
    }
    free(ranks);
    return ended;
}

static const struct {
    enum kind kind;
    double rate;
    int least, most; /* the look that ends the job */
} rows[] = {
    {RIGHT, 1e-1, 0, 0},      {RIGHT, 1e-3, 0, 0},      {RIGHT, 1e-5, 0, 0},     {CLIPPED, 1e-1, 0, 0},
    {CLIPPED, 1e-4, 0, 0},    {SCATTERED, 1e-1, 0, 0},  {SCATTERED, 1e-4, 0, 0}, {FORGOTTEN, 1e-1, 1, 3},
    {FORGOTTEN, 1e-4, 1, 3},  {FORGOTTEN, 1e-6, 1, 3},  {ROW, 1e-1, 1, 3},       {ROW, 1e-4, 1, 3},
    {ELEMENT, 1e-1, 1, 6},    {ELEMENT, 1e-4, 1, 6},    {RATE, 1e-1, 1, 3},      {RATE, 1e-5, 1, 3},
    {SLOW_RATE, 1e-1, 1, 20}, {SLOW_RATE, 1e-4, 1, 20}, {UNLIKE, 1e-1, 1, 1},
};

TABLE_TEST(noise_ends_nothing_and_mistakes_end_soon, rows)
{
    for (unsigned seed = 1; seed <= 5; ++seed) {
        int ended = ended_at(rows[_i].kind, rows[_i].rate, seed);
        ck_assert_msg(ended >= rows[_i].least && ended <= rows[_i].most, "kind %d, rate %g, seed %u: look %d",
                      rows[_i].kind, rows[_i].rate, seed, ended);
    }
}

/* Rank 1 keeps master weights, which take nothing of rank 0: one step after a look the difference is there again. */
TEST(what_memory_without_annotation_keeps_counts_by_its_increase)
{
    struct drift drift = {0};
    struct ranks *ranks = begin(3);
    static float apart[ELEMENTS]; /* of the master weights */
    for (size_t i = 0; i < ELEMENTS; ++i)
        apart[i] = (float)(1e-6 * uniform(&ranks->seed));
    for (int look = 1; look <= LOOKS; ++look) {
        uint64_t window = look % 2 == 1 ? STEPS : 1;
        train(ranks, window == 1 ? 1e-5 : 1e-3, RIGHT);
        for (size_t i = 0; i < ELEMENTS; ++i)
            ranks->w[1][i] += apart[i];
        struct drift_found found = look_at(ranks, &drift, window);
        ck_assert_int_eq(found.verdict, DRIFT_NOISE);
        ck_assert(found.lasts == (look > 1));
    }
    free(ranks);
}

TEST(chaos_is_looked_at_again_and_ends_nothing_once_it_is_noise)
{
    struct drift_pace pace = {0};
    ck_assert(!drift_ends(&pace, DRIFT_BAD, 100, 100));
    ck_assert_uint_eq(pace.interval, 5);
    ck_assert(!drift_ends(&pace, DRIFT_NOISE, 5, 100));
    ck_assert_uint_eq(pace.interval, 10);
    for (int i = 0; i < 4; ++i)
        ck_assert(!drift_ends(&pace, DRIFT_NOISE, 10, 100));
    ck_assert_uint_eq(pace.interval, 0);
    ck_assert(!drift_ends(&pace, DRIFT_BAD, 100, 100));
    ck_assert(drift_ends(&pace, DRIFT_BAD, 5, 100));
}

LOOP_TEST(samples_have_room, 0, 7)
{
    static const uint64_t tensors[] = {1, 3, 16, 100, 1000, 20000, 1000000};
    uint64_t each = drift_sample_count(UINT64_C(1) << 40, (size_t)tensors[_i]);
    ck_assert_uint_le(tensors[_i] * (each > 0 ? each + DRIFT_MARKS : 0), 524288);
    ck_assert_uint_ge(each, tensors[_i] <= 100 ? 4096 : tensors[_i] <= 20000 ? 1 : 0);
    ck_assert_uint_le(drift_sample_count(10, (size_t)tensors[_i]), 10);
}
