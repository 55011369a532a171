/*
 * test_nearness.c - sums of the same terms in another order are near, from 10 terms to 10^6; sums of other terms are
 * not, from one item to 10^5, nor what is nearly equal by a large column, by a term of the weights or because the data
 * are.
 */
#include "comm/nearness.h"

#include "tests/lib/test.h"

enum { ELEMENTS = 32, SEEDS = 20, MANY = 10000 };

static uint64_t generator;

static double
draw(void) /* in [0, 1) */
{
    generator = generator * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(generator >> 33) / (double)(UINT64_C(1) << 31);
}

/* The float32 sum of terms that the seed draws, from `turn` on around. */
static double
add_up(uint64_t seed, double mean, double deviation, unsigned count, unsigned turn)
{
    double *terms = malloc(count * sizeof(*terms)), sum = 0;
    generator = seed;
    for (unsigned i = 0; i < count; ++i)
        terms[i] = mean + deviation * sqrt(12) * (draw() - 0.5);
    for (unsigned i = 0; i < count; ++i) {
        double term = terms[(i * 7919ULL + turn) % count]; /* a prime that divides no count */
        sum = (float)sum + (float)term;
    }
    free(terms);
    return sum;
}

/* What the ranks' sums of two steps say: of the same terms in another order, or of other ones. */
static struct nearness
sums(const struct nearness *before, uint64_t seed, double mean, double deviation, unsigned count, bool same,
     unsigned elements)
{
    struct nearness nearness = *before;
    for (unsigned e = 0; e < elements; ++e) {
        uint64_t first = seed * 1000003 + e * 31, other = first + (UINT64_C(1) << 40), later = other * 3;
        double mine = add_up(first, mean, deviation, count, 0);
        double theirs = add_up(same ? first : other, mean, deviation, count, count / 3);
        double next = add_up(later, mean, deviation, count, 0);
        nearness_add(&nearness, mine, theirs, fabs(next - mine));
    }
    return nearness;
}

static const struct nearness none;

/* TERMS, their mean and deviation. */
static const struct {
    unsigned count;
    double mean, deviation;
} terms[] = {
    {10, 0, 1}, {1000, 0, 1}, {1000, 1, 1}, {10000, 0.01, 1}, {100000, 0, 1}, {1000000, 0, 1}, {1000000, 1, 1},
};

TEST_GROUP(rules, .timeout_s = 120);

TABLE_TEST(the_same_terms_are_near, terms)
{
    for (uint64_t seed = 1; seed <= (terms[_i].count > MANY ? 1 : SEEDS); ++seed) {
        struct nearness found = sums(&none, seed, terms[_i].mean, terms[_i].deviation, terms[_i].count, true, ELEMENTS);
        ck_assert_msg(nearness_holds(&found, 1), "near %zu, apart %zu", found.near, found.apart);
    }
}

static const unsigned items[] = {1, 2, 3, 8, 64, 1000, 100000};

TABLE_TEST(other_terms_are_not, items)
{
    for (uint64_t seed = 1; seed <= (items[_i] >= MANY ? 1 : SEEDS); ++seed) {
        for (int mean = 0; mean < 2; ++mean) {
            struct nearness found = sums(&none, seed, mean, 1, items[_i], false, ELEMENTS);
            ck_assert(!nearness_holds(&found, 1));
            bool near = true; /* one element is, by chance; not in three steps */
            for (uint64_t step = 1; step <= 3; ++step) {
                found = sums(&none, 3 * seed + step, mean, 1, items[_i], false, 1);
                near = near && nearness_holds(&found, 1);
            }
            ck_assert(!near);
        }
    }
}

/* Data that are nearly equal: ranks are as near to each other as steps are. */
TEST(nearly_equal_data_are_not_the_same)
{
    struct nearness found = sums(&none, 1, 1, 1e-6, 64, false, ELEMENTS);
    ck_assert(!nearness_holds(&found, 1));
}

/* Seven columns of eight differ as data do; one is nearly the same for all items, and a million times as large. */
TEST(a_large_column_does_not_speak_for_the_others)
{
    struct nearness found = {.near = 8, .count = 8, .size = 8e6};
    found = sums(&found, 1, 0, 1, 64, false, ELEMENTS - 8);
    ck_assert(!nearness_holds(&found, 1));
}

/* A term of the weights leaves equal bits in rows that no item names: they are no evidence, and the others differ. */
TEST(equal_elements_say_nothing)
{
    struct nearness found = none;
    for (int i = 0; i < 1000; ++i)
        nearness_add(&found, 1e-3 * i, 1e-3 * i, 1e-6);
    ck_assert(!nearness_holds(&found, 1));
    found = sums(&found, 1, 0, 1, 4, false, 1);
    ck_assert(!nearness_holds(&found, 1));
    struct nearness zeros = {.count = 64};
    ck_assert(!nearness_holds(&zeros, 1));
    ck_assert(!nearness_holds(NULL, 0));
}

/* Each tensor has to be near; but one that is rounding beside the others is not asked. */
TEST(a_tensor_of_other_data_is_enough)
{
    struct nearness tensors[3] = {sums(&none, 1, 0, 1, 64, true, ELEMENTS), sums(&none, 2, 0, 1, 64, true, ELEMENTS),
                                  sums(&none, 3, 0, 1e-3, 64, false, ELEMENTS)};
    ck_assert(nearness_holds(tensors, 2));
    ck_assert(!nearness_holds(tensors, 3));
    tensors[2] = sums(&none, 3, 0, 1e-7, 64, false, ELEMENTS);
    ck_assert(nearness_holds(tensors, 3));
}

TEST(elements_that_are_no_numbers_are_apart)
{
    struct nearness found = sums(&none, 1, 0, 1, 64, true, 1);
    ck_assert(nearness_holds(&found, 1));
    nearness_add(&found, NAN, NAN, INFINITY);
    nearness_add(&found, INFINITY, INFINITY, INFINITY);
    ck_assert(!nearness_holds(&found, 1));
}

/* What is not known of other steps does not excuse. */
TEST(bounds)
{
    struct nearness found = none;
    nearness_add(&found, 1, 1 + 0x1p-13, INFINITY);
    ck_assert(nearness_holds(&found, 1));
    nearness_add(&found, 1, 1 + 0x1p-11, INFINITY);
    ck_assert(!nearness_holds(&found, 1));
    found = none;
    nearness_add(&found, 1, 1 + 0x1p-13, 0x1p-10);
    ck_assert(!nearness_holds(&found, 1));
}
