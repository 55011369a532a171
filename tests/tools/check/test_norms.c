/*
 * test_norms.c - norms, worst blocks and sketches of random tensors are those of a plain computation in double,
 * for every type of element and however the elements come in pieces; a perturbed element is as many units away as was
 * asked for.
 */
#include "tools/near/change.h"
#include "tools/near/near.h"
#include "tools/near/sketch.h"

#include "tests/lib/test.h"

enum { TYPES = 4, CASES = 60, MOST_ELEMENTS = 6000 };

static const int types[TYPES] = {ELEMENT_FLOAT32, ELEMENT_FLOAT64, ELEMENT_FLOAT16, ELEMENT_BFLOAT16};

/* Each of Check's own assertions is a system call: too slow for every element. */
#define REQUIRE(holds, ...)            \
    do {                               \
        if (!(holds))                  \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

/* ---- random data ---- */

static uint64_t state;

static uint64_t
draw(void)
{
    return element_scramble(state++);
}

static size_t
draw_below(size_t most)
{
    return (size_t)(draw() % most);
}

/* How many elements come next of those that are left. */
static size_t
piece_of(size_t left, size_t most)
{
    size_t here = 1 + draw_below(most);
    return here < left ? here : left;
}

/* In [-1, 1). */
static double
draw_real(void)
{
    return (double)(draw() >> 11) * 0x1p-52 - 1;
}

/* How a type divides its bits. */
struct shape {
    int exponent_bits, fraction_bits;
};

static struct shape
shape_of(int type)
{
    return type == ELEMENT_FLOAT64   ? (struct shape){11, 52}
           : type == ELEMENT_FLOAT32 ? (struct shape){8, 23}
           : type == ELEMENT_FLOAT16 ? (struct shape){5, 10}
                                     : (struct shape){8, 7};
}

static uint64_t
bits_at(int type, const void *data, size_t index)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + index * element_bytes(type), element_bytes(type));
    return bits;
}

static void
set_bits(int type, void *data, size_t index, uint64_t bits)
{
    memcpy((char *)data + index * element_bytes(type), &bits, element_bytes(type));
}

/* What IEEE 754 says that the bits are. */
static double
decode(int type, uint64_t bits)
{
    struct shape shape = shape_of(type);
    int bias = (1 << (shape.exponent_bits - 1)) - 1, most = (1 << shape.exponent_bits) - 1;
    int exponent = (int)(bits >> shape.fraction_bits & (uint64_t)most);
    double fraction = (double)(bits & ((UINT64_C(1) << shape.fraction_bits) - 1));
    bool negative = (bits >> (shape.exponent_bits + shape.fraction_bits) & 1) != 0;
    double magnitude = exponent == most ? (fraction > 0 ? NAN : INFINITY)
                       : exponent == 0
                           ? ldexp(fraction, 1 - bias - shape.fraction_bits)
                           : ldexp(fraction + ldexp(1, shape.fraction_bits), exponent - bias - shape.fraction_bits);
    return negative ? -magnitude : magnitude;
}

/* The bits of a number near `value`: truncated, and too small ones become 0. */
static uint64_t
encode(int type, double value)
{
    struct shape shape = shape_of(type);
    int bias = (1 << (shape.exponent_bits - 1)) - 1, exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [1/2, 1) */
    uint64_t sign = (uint64_t)(value < 0) << (shape.exponent_bits + shape.fraction_bits);
    if (value == 0 || exponent - 1 + bias < 1)
        return sign;
    uint64_t whole = (uint64_t)ldexp(fraction, shape.fraction_bits + 1) - (UINT64_C(1) << shape.fraction_bits);
    return sign | (uint64_t)(exponent - 1 + bias) << shape.fraction_bits | whole;
}

/* It is there until many more have been made: a test does not free its own. */
static void *
new_tensor(int type, size_t count)
{
    static void *made[32];
    static size_t next;
    void **data = &made[next++ % (sizeof(made) / sizeof(made[0]))];
    free(*data);
    *data = calloc(count + 1, element_bytes(type));
    ck_assert_ptr_nonnull(*data);
    return *data;
}

static void *
random_tensor(int type, size_t count, double size)
{
    void *data = new_tensor(type, count);
    for (size_t i = 0; i < count; ++i)
        set_bits(type, data, i, encode(type, size * draw_real()));
    return data;
}

/* ---- elements ---- */

static void
check_element(int type, uint64_t bits)
{
    double found = element_get(type, &bits, 0), expected = decode(type, bits);
    if (isnan(expected))
        REQUIRE(isnan(found), "type %d, %llx", type, (unsigned long long)bits);
    else
        REQUIRE(found == expected && signbit(found) == signbit(expected), "type %d, %llx: %.17g instead of %.17g", type,
                (unsigned long long)bits, found, expected);
}

TEST(elements_are_what_their_bits_say)
{
    for (uint64_t bits = 0; bits <= UINT16_MAX; ++bits) { /* all there are, with subnormal numbers and infinities */
        check_element(ELEMENT_FLOAT16, bits);
        check_element(ELEMENT_BFLOAT16, bits);
    }
    for (int i = 0; i < 100000; ++i) {
        check_element(ELEMENT_FLOAT32, draw() >> 32);
        check_element(ELEMENT_FLOAT64, draw());
    }
    ck_assert(element_get(ELEMENT_FLOAT16, &(uint16_t){0x0001}, 0) == 0x1p-24);
    ck_assert(element_get(ELEMENT_FLOAT16, &(uint16_t){0x7bff}, 0) == 65504);
    ck_assert(element_get(ELEMENT_BFLOAT16, &(uint16_t){0x3f80}, 0) == 1);
    ck_assert_uint_eq(element_bytes(0), 0);
    ck_assert_uint_eq(element_bytes(ELEMENT_UINT64 + 1), 0);
    ck_assert(element_get(ELEMENT_INT32, (int32_t[]){1, -7}, 1) == -7);
    ck_assert(element_get(ELEMENT_INT64, (int64_t[]){1, -(INT64_C(1) << 50)}, 1) == -0x1p50);
    ck_assert(element_get(ELEMENT_UINT8, (uint8_t[]){1, 255}, 1) == 255);
    int32_t integers[] = {3, -3};
    element_perturb(ELEMENT_INT32, integers, 2, 0, 1);
    ck_assert(integers[0] == 3 && integers[1] == -3);
}

/* What is expected of an element that is moved by `units`: it stays what it is, by kind and sign. */
static void
check_moved(int type, uint64_t before, uint64_t after, unsigned units, size_t *up, size_t *down)
{
    struct shape shape = shape_of(type);
    uint64_t infinity = ((UINT64_C(1) << shape.exponent_bits) - 1) << shape.fraction_bits;
    uint64_t mask = (UINT64_C(1) << (shape.exponent_bits + shape.fraction_bits)) - 1, old = before & mask;
    uint64_t magnitude = after & mask;
    bool has_units = old != 0 && old < infinity; /* not zero, infinite or NaN */
    bool stays = after == before && (!has_units || old <= units || old + units >= infinity);
    bool rises = has_units && magnitude == old + units && magnitude < infinity;
    bool falls = has_units && magnitude + units == old && magnitude > 0;
    REQUIRE((before & ~mask) == (after & ~mask) && (rises || falls || stays), "type %d: %llx becomes %llx", type,
            (unsigned long long)before, (unsigned long long)after);
    *up += rises;
    *down += falls;
}

LOOP_TEST(perturbed_elements_move_by_units, 0, TYPES)
{
    int type = types[_i];
    static const unsigned all_units[] = {1, 2, 7, 1000};
    size_t count = 65536, each = element_bytes(type);
    for (size_t u = 0; u < sizeof(all_units) / sizeof(all_units[0]); ++u) {
        size_t up = 0, down = 0;
        char *before = new_tensor(type, count), *after = new_tensor(type, count), *pieces = new_tensor(type, count);
        for (size_t i = 0; i < count; ++i) /* every number of 16 bits; of the others any */
            set_bits(type, before, i, each == 2 ? i : i % 16 == 0 ? 0 : draw() >> (64 - 8 * each));
        memcpy(after, before, count * each);
        memcpy(pieces, before, count * each);
        element_perturb(type, after, count, 0, all_units[u]);
        for (size_t i = 0; i < count; ++i)
            check_moved(type, bits_at(type, before, i), bits_at(type, after, i), all_units[u], &up, &down);
        ck_assert_msg(up > count / 3 && down > count / 3, "%zu up, %zu down", up, down);
        for (size_t at = 0, here; at < count; at += here) { /* where pieces begin does not count */
            here = piece_of(count - at, 9000);
            element_perturb(type, pieces + at * each, here, at, all_units[u]);
        }
        ck_assert_mem_eq(pieces, after, count * each);
    }
}

/* ---- norms ---- */

static void
check_near(double found, double expected, double most, const char *what)
{
    ck_assert_msg(fabs(found - expected) <= most, "%s: %.17g instead of %.17g", what, found, expected);
}

static void
check_close(double found, double expected, const char *what)
{
    check_near(found, expected, 1e-9 * fabs(expected), what);
}

/* own[i] and reference[i] of all elements, added in pieces of random lengths. */
static struct norms
add_in_pieces(int type, const char *own, const char *reference, size_t count)
{
    struct norms norms;
    norms_begin(&norms, count);
    for (size_t at = 0, here; at < count; at += here) {
        here = piece_of(count - at, count);
        norms_add(&norms, type, own + at * element_bytes(type), reference + at * element_bytes(type), here);
    }
    return norms;
}

/* Infinities and NaNs in one of them, or in both; returns how many count, the first of them in *first_p. */
static uint64_t
add_unbounded(int type, void *own, void *reference, size_t count, size_t *first_p)
{
    struct shape shape = shape_of(type);
    uint64_t infinity = ((UINT64_C(1) << shape.exponent_bits) - 1) << shape.fraction_bits, unlike = 0;
    uint64_t minus = infinity | UINT64_C(1) << (shape.exponent_bits + shape.fraction_bits), nan = infinity | 1;
    const uint64_t pairs[][3] = {{infinity, infinity, 0}, {nan, nan, 0},      {nan, nan | 2, 0},
                                 {infinity, minus, 1},    {infinity, nan, 1}, {infinity, 0, 1},
                                 {0, infinity, 1},        {nan, 0, 1},        {0, nan, 1},
                                 {minus, minus, 0},       {minus, nan, 1}};
    for (size_t i = draw_below(7); i < count; i += 1 + draw_below(300)) {
        const uint64_t *pair = pairs[draw_below(sizeof(pairs) / sizeof(pairs[0]))];
        set_bits(type, own, i, pair[0]);
        set_bits(type, reference, i, pair[1]);
        if (pair[2] != 0 && unlike++ == 0)
            *first_p = i;
    }
    return unlike;
}

LOOP_TEST(norms_are_those_of_a_plain_computation, 0, CASES)
{
    int type = types[_i % TYPES];
    state = (uint64_t)_i << 32;
    size_t count = _i < TYPES ? 0 : 1 + draw_below(_i % 3 == 0 ? 600 : MOST_ELEMENTS), first = 0;
    char *own = random_tensor(type, count, 1), *reference = random_tensor(type, count, 1);
    uint64_t unbounded = _i % 2 != 0 ? add_unbounded(type, own, reference, count, &first) : 0;
    long double difference = 0, squares = 0, own_squares = 0, product = 0;
    for (size_t i = 0; i < count; ++i) {
        long double mine = decode(type, bits_at(type, own, i)), theirs = decode(type, bits_at(type, reference, i));
        if (!isfinite(mine) || !isfinite(theirs))
            continue;
        difference += (mine - theirs) * (mine - theirs);
        squares += theirs * theirs;
        own_squares += mine * mine;
        product += mine * theirs;
    }
    struct norms at_once, pieces = add_in_pieces(type, own, reference, count);
    norms_begin(&at_once, count);
    norms_add(&at_once, type, own, reference, count);
    ck_assert_mem_eq(&pieces, &at_once, sizeof(pieces));

    struct check_norms result = norms_end(&at_once);
    check_close(result.difference, (double)sqrtl(difference), "difference");
    check_close(result.reference, (double)sqrtl(squares), "reference");
    check_close(result.own, (double)sqrtl(own_squares), "own");
    ck_assert(fabs(result.product - (double)product) <= 1e-9 * result.own * result.reference);
    ck_assert_uint_eq(result.unbounded, unbounded);
    ck_assert_uint_le(result.block_first + (unbounded == 0 ? result.block_count : 0), count);
    if (unbounded > 0)
        ck_assert_uint_eq(result.block_first, first);
    ck_assert(result.block_difference <= result.difference * (1 + 1e-9));

    /* The same tensor differs by nothing. */
    struct norms same = add_in_pieces(type, own, own, count);
    result = norms_end(&same);
    ck_assert(result.difference == 0 && result.block_difference == 0 && result.unbounded == 0);
}

LOOP_TEST(two_rows_of_many_are_the_worst_block, 0, CASES)
{
    int type = types[_i % TYPES];
    state = (uint64_t)_i << 32 | 1;
    size_t rows = 500 + draw_below(3000), columns = 1 + draw_below(64), count = rows * columns;
    size_t begin = draw_below(rows - 1) * columns, end = begin + 2 * columns;
    char *reference = random_tensor(type, count, 1), *own = new_tensor(type, count);
    memcpy(own, reference, count * element_bytes(type));
    for (size_t i = begin; i < end; ++i)
        set_bits(type, own, i, encode(type, draw_real()));
    struct norms norms = add_in_pieces(type, own, reference, count);
    struct check_norms result = norms_end(&norms);
    ck_assert_uint_gt(result.block_count, 0);
    ck_assert_msg(result.block_first < end && result.block_first + result.block_count > begin,
                  "the worst are %llu from %llu on, changed are %zu from %zu on",
                  (unsigned long long)result.block_count, (unsigned long long)result.block_first, 2 * columns, begin);
    /* Two rows may lie in three blocks. The block shows what the whole hides. */
    ck_assert(result.block_difference > 0.5 * result.difference);
    ck_assert(result.block_difference / result.block_scale > 2 * result.difference / result.reference);
}

TEST(a_block_of_zeros_has_its_share_of_the_norm)
{
    enum { COUNT = NORM_BLOCKS * 8 };
    float reference[COUNT], own[COUNT];
    for (size_t i = 0; i < COUNT; ++i)
        own[i] = reference[i] = i < COUNT / 2 ? 1.0f : 0.0f;
    own[COUNT - 1] = 1e-6f; /* noise beside a zero */
    struct norms norms = add_in_pieces(ELEMENT_FLOAT32, (char *)own, (char *)reference, COUNT);
    struct check_norms result = norms_end(&norms);
    ck_assert_uint_eq(result.block_first, COUNT - 8);
    ck_assert_uint_eq(result.block_count, 8);
    check_close(result.block_scale, 2, "scale"); /* 8 of COUNT elements, whose squares are COUNT / 2 */
    ck_assert(result.block_difference / result.block_scale < 1e-6);
}

/* ---- sketches ---- */

static struct sketch
sketch_of(int type, const char *data, size_t count)
{
    struct sketch sketch = {.count = count};
    for (size_t at = 0, here; at < count; at += here) {
        here = piece_of(count - at, count);
        sketch_add(&sketch, type, data + at * element_bytes(type), here);
    }
    return sketch;
}

/* Norms of the difference and of the reference. */
static struct check_norms
plain_distance(int type, const void *own, const void *reference, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; ++i) {
        double mine = element_get(type, own, i), theirs = element_get(type, reference, i);
        difference += (mine - theirs) * (mine - theirs);
        norm += theirs * theirs;
    }
    return (struct check_norms){sqrt(difference), sqrt(norm)};
}

LOOP_TEST(sketches_tell_norms, 0, CASES / 2)
{
    int type = types[_i % TYPES];
    state = (uint64_t)_i << 32 | 2;
    bool small = _i % 2 == 0;
    size_t count = _i == 0 ? SKETCH_COUNTERS : small ? 1 + draw_below(SKETCH_COUNTERS) : 20000 + draw_below(200000);
    char *own = random_tensor(type, count, 1), *reference = random_tensor(type, count, 1);
    struct sketch mine = sketch_of(type, own, count), theirs = sketch_of(type, reference, count);
    struct check_norms found = sketch_compare(&mine, &theirs), expected = plain_distance(type, own, reference, count);
    double most = small ? 1e-9 : 0.2;
    check_near(found.difference, expected.difference, most * expected.difference, "difference");
    check_near(found.reference, expected.reference, most * expected.reference, "reference");
    ck_assert(sketch_compare(&mine, &mine).difference == 0);
}

LOOP_TEST(sketches_are_linear, 0, CASES / 4)
{
    state = (uint64_t)_i << 32 | 3;
    size_t count = 1 + draw_below(100000);
    double *a = new_tensor(ELEMENT_FLOAT64, count), *b = new_tensor(ELEMENT_FLOAT64, count),
           *both = new_tensor(ELEMENT_FLOAT64, count);
    for (size_t i = 0; i < count; ++i) { /* small whole numbers: sums of them are exact */
        a[i] = (double)draw_below(1000) - 500;
        b[i] = (double)draw_below(1000) - 500;
        both[i] = a[i] - 3 * b[i];
    }
    struct sketch of_a = sketch_of(ELEMENT_FLOAT64, (char *)a, count);
    struct sketch of_b = sketch_of(ELEMENT_FLOAT64, (char *)b, count);
    struct sketch of_both = sketch_of(ELEMENT_FLOAT64, (char *)both, count);
    for (size_t i = 0; i < SKETCH_COUNTERS; ++i)
        REQUIRE(of_both.counters[i] == of_a.counters[i] - 3 * of_b.counters[i], "counter %zu", i);
    ck_assert_uint_eq(of_both.added, count);
}

TEST(sketches_count_what_is_not_finite)
{
    float data[6] = {1, INFINITY, NAN, -INFINITY, 2, 3};
    struct sketch sketch = sketch_of(ELEMENT_FLOAT32, (char *)data, 6);
    ck_assert_uint_eq(sketch.unbounded, 3);
    check_close(sketch_compare(&sketch, &sketch).reference, sqrt(14), "norm");
}

/* What is left of a change to memory that keeps `kept` of itself, and gets the same from elsewhere in both runs. */
static double
retained(size_t count, double kept)
{
    float *before = random_tensor(ELEMENT_FLOAT32, count, 1), *more = random_tensor(ELEMENT_FLOAT32, count, 1);
    float *own = new_tensor(ELEMENT_FLOAT32, count), *reference = new_tensor(ELEMENT_FLOAT32, count);
    double *moved = new_tensor(ELEMENT_FLOAT64, count);
    for (size_t i = 0; i < count; ++i) {
        float changed = before[i] * ((draw() & 1) != 0 ? 1.01f : 0.99f);
        moved[i] = (double)changed - (double)before[i];
        reference[i] = (float)kept * before[i] + more[i];
        own[i] = (float)kept * changed + more[i] * (1 + 1e-7f * (float)draw_real()); /* and rounding */
    }
    struct sketch change = sketch_of(ELEMENT_FLOAT64, (char *)moved, count);
    struct sketch mine = sketch_of(ELEMENT_FLOAT32, (char *)own, count);
    struct sketch theirs = sketch_of(ELEMENT_FLOAT32, (char *)reference, count);
    return sketch_retained(&mine, &theirs, &change);
}

LOOP_TEST(what_is_left_of_a_change, 0, CASES / 4)
{
    state = (uint64_t)_i << 32 | 4;
    size_t count = _i % 2 == 0 ? 1 + draw_below(SKETCH_COUNTERS) : 1 + draw_below(300000);
    check_near(retained(count, 1), 1, 0.01, "elements that stay");
    check_near(retained(count, 0.9), 0.9, 0.01, "elements of which 0.9 stay");
    check_near(retained(count, 0), 0, 0.01, "elements that are replaced");
}

TEST(nothing_is_left_of_no_change)
{
    struct sketch none = {.count = 4}, own = sketch_of(ELEMENT_FLOAT32, (char *)(float[4]){1, 2, 3, 4}, 4);
    ck_assert(isnan(sketch_retained(&own, &own, &none)));
}

/* ---- values that are put, and changes ---- */

TEST(every_value_of_16_bits_is_put_as_it_is)
{
    for (int t = 2; t < TYPES; ++t) {
        for (uint64_t bits = 0; bits < 0x10000; ++bits) {
            double value = decode(types[t], bits);
            uint64_t out = 0; /* of which the first bytes are meant */
            element_put(types[t], &out, 0, value);
            REQUIRE(isnan(value) ? isnan(element_get(types[t], &out, 0)) : out == bits, "%#x becomes %#x",
                    (unsigned)bits, (unsigned)out);
        }
    }
}

LOOP_TEST(what_is_put_is_rounded_to_nearest_even, 0, CASES)
{
    state = (uint64_t)_i << 32 | 5;
    for (int t = 0; t < TYPES; ++t) {
        uint64_t bits = encode(types[t], ldexp(draw_real(), (int)draw_below(24) - 12)), out = 0;
        double value = decode(types[t], bits), unit = element_unit(types[t], value), away = copysign(unit, value);
        ck_assert(fabs(decode(types[t], bits + 1)) - fabs(value) == unit);
        if (types[t] == ELEMENT_FLOAT64) /* nothing lies between */
            continue;
        static const double parts[] = {0, 0.25, 0.5, 0.75, 1};
        const uint64_t nearest[] = {bits, bits, bits + (bits & 1), bits + 1, bits + 1};
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
            out = 0;
            element_put(types[t], &out, 0, value + parts[i] * away);
            ck_assert_uint_eq(out, nearest[i]);
        }
    }
}

/* The result for `count` elements that the reference moves by `step`, and the other by `factor` times that; `units` of
 * rounding are forgiven. */
static struct check_norms
change_by(size_t count, float step, double factor, double units, double *spread)
{
    float *before = random_tensor(ELEMENT_FLOAT32, count, 1), *after = new_tensor(ELEMENT_FLOAT32, count),
          *own = new_tensor(ELEMENT_FLOAT32, count);
    struct update_change *change = calloc(1, sizeof(*change));
    for (size_t i = 0; i < count; ++i) {
        after[i] = before[i] + step;
        own[i] = (float)((double)before[i] + factor * (double)step);
    }
    change_begin(change, count);
    size_t half = count / 2;
    change_add(change, ELEMENT_FLOAT32, units, own, before, after, half);
    change_add(change, ELEMENT_FLOAT32, units, own + half, before + half, after + half, count - half);
    struct check_norms result = norms_end(&change->norms);
    *spread = sqrt(change->square);
    free(change);
    return result;
}

LOOP_TEST(a_change_is_compared_with_a_change, 0, CASES)
{
    static const double factors[] = {1, 2, 1.01, 0.5, -1};
    state = (uint64_t)_i << 32 | 6;
    double factor = factors[_i % 5], spread;
    float step = ldexpf(1, -(_i % 12) - 1);
    size_t count = 1 + draw_below(MOST_ELEMENTS);
    struct check_norms result = change_by(count, step, factor, 1, &spread);
    double norm = (double)step * sqrt((double)count), rounding = sqrt((double)count) * 0x1p-22;
    check_near(result.reference, norm, rounding, "moved by");
    check_near(spread, fabs(factor - 1) * norm, rounding, "apart by");
    ck_assert_msg(result.difference <= spread && result.difference > spread - rounding, "differs by %g",
                  result.difference);
    ck_assert(factor != 1 || (result.difference == 0 && spread == 0));
}

TEST(rounding_is_no_difference_but_is_seen)
{
    const float before[2] = {1, -8}, after[2] = {1.5f, -8.5f};
    const float own[2] = {1.5f + 0x1p-23f, -8.5f - 0x1p-20f}; /* one unit away, each */
    struct update_change change;
    change_begin(&change, 2);
    change_add(&change, ELEMENT_FLOAT32, 1, own, before, after, 2);
    ck_assert(norms_end(&change.norms).difference == 0);
    check_close(sqrt(change.square), sqrt(0x1p-46 + 0x1p-40), "spread");
    change_begin(&change, 2);
    change_add(&change, ELEMENT_FLOAT32, 0, own, before, after, 2);
    check_close(norms_end(&change.norms).difference, sqrt(0x1p-46 + 0x1p-40), "difference");
}

TEST(a_change_to_what_is_not_finite_is_counted)
{
    const float before[3] = {1, 2, INFINITY}, after[3] = {NAN, 3, INFINITY}, own[3] = {1, INFINITY, INFINITY};
    struct update_change change;
    change_begin(&change, 3);
    change_add(&change, ELEMENT_FLOAT32, 1, own, before, after, 3);
    ck_assert_uint_eq(norms_end(&change.norms).unbounded, 2);
}

LOOP_TEST(sketches_of_changes, 0, CASES / 4)
{
    state = (uint64_t)_i << 32 | 7;
    size_t count = 1 + draw_below(20 * SKETCH_COUNTERS);
    float *before = random_tensor(ELEMENT_FLOAT32, count, 1), *after = new_tensor(ELEMENT_FLOAT32, count),
          *twice = new_tensor(ELEMENT_FLOAT32, count);
    for (size_t i = 0; i < count; ++i) {
        after[i] = before[i] + 0x1p-6f;
        twice[i] = before[i] + 0x1p-5f;
    }
    struct sketch begin = sketch_of(ELEMENT_FLOAT32, (char *)before, count),
                  end = sketch_of(ELEMENT_FLOAT32, (char *)after, count),
                  far = sketch_of(ELEMENT_FLOAT32, (char *)twice, count);
    struct check_norms none = sketch_compare_changes(&begin, &end, &begin, &end),
                       one = sketch_compare_changes(&begin, &far, &begin, &end);
    ck_assert(none.difference == 0);
    check_near(one.difference / one.reference, 1, 1e-3, "twice the change");
}

/* ---- near.h: noise and the verdict ---- */

TEST(words_are_the_same_bits_or_floats_within_noise)
{
    const uint32_t one = element_to_bits(1), near = element_to_bits(1.25f), far = element_to_bits(1.5f);
    ck_assert(near_are_words(one, one, 0));
    ck_assert(!near_are_words(one, near, 0));
    ck_assert(near_are_words(one, near, 0.25f));
    ck_assert(!near_are_words(one, far, 0.25f));
    ck_assert(near_are_words(element_to_bits(NAN), element_to_bits(NAN), 0));
    ck_assert(!near_are_words(element_to_bits(NAN), one, 1));
}

TEST(noise_is_a_multiple_of_the_floor_and_of_rounding)
{
    ck_assert_double_eq(near_noise(0.5, 1), NEAR_NOISE_FACTOR * 0.5);
    ck_assert_double_eq(near_noise(0, 4), NEAR_NOISE_FACTOR * 4 * (double)FLT_EPSILON);
}

TEST(a_run_is_noise_up_to_the_multiple_of_the_floor)
{
    const struct near_apart floor = {.sum = 1e-4, .element = 1e-2};
    const struct near_apart edge = {.sum = NEAR_NOISE_FACTOR * 1e-4, .element = NEAR_NOISE_FACTOR * 1e-2};
    ck_assert(near_is_noise(edge, floor));
    ck_assert(!near_is_noise((struct near_apart){edge.sum * 1.01, edge.element}, floor));
    ck_assert(!near_is_noise((struct near_apart){edge.sum, edge.element * 1.01}, floor));
    ck_assert(!near_is_noise((struct near_apart){INFINITY, 0}, floor));
}

TEST(rounding_is_noise_where_two_runs_agree_by_chance)
{
    const struct near_apart floor = {0};
    ck_assert(near_is_noise((struct near_apart){1e-5, 1e-3}, floor));
    ck_assert(!near_is_noise((struct near_apart){1.1e-5, 0}, floor));
    ck_assert(!near_is_noise((struct near_apart){0, 1.1e-3}, floor));
}

TEST(noise_above_a_ten_thousandth_hides_mistakes)
{
    const double most = NEAR_NOISE_AT_MOST / NEAR_NOISE_FACTOR;
    ck_assert(near_shows_mistakes((struct near_apart){.sum = most}));
    ck_assert(!near_shows_mistakes((struct near_apart){.sum = most * 1.01}));
    ck_assert(!near_shows_mistakes((struct near_apart){.element = 1e-2}));
}
