/*
 * test_filter.c - what hooks conclude from the filter is never a miss where there is a gradient: against a plain
 * search, for random ranges, kernels and arguments, before and after every kind of change; and while other threads
 * change it.
 */
#include "random_filter.h"

#include "tests/lib/test.h"

enum { ROUNDS = 200, LAUNCHES = 500, KERNELS = 700 };

/* What a filter begins with. The writer puts larger tables in its place. */
static const struct filter_kernel none = {.words = {FILTER_LIST_END}};
static struct filter_kernels empty_table = {.mask = 0, .slot_count = 1, .slots = {&none}};

TEST_GROUP(filter, .timeout_s = TEST_NO_TIMEOUT);

TEST(a_miss_is_a_miss)
{
    static struct filter filter = {.kernels = &empty_table}; /* static: what it published stays reachable */
    unsigned long misses = 0, hits = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        CUfunction function = random_round(&filter);
        for (int launch = 0; launch < LAUNCHES; ++launch) {
            bool touches = random_arguments();
            bool missed = filter_launch_misses(&filter, function, random_params);
            ck_assert_msg(missed == !touches, "round %d, launch %d: %s", round, launch, missed ? "lost" : "no miss");
            *(missed ? &misses : &hits) += 1;
        }
    }
    ck_assert_uint_gt(misses, ROUNDS); /* else the rounds prove nothing */
    ck_assert_uint_gt(hits, ROUNDS);
}

TEST(what_is_not_known_goes_to_the_engine)
{
    static struct filter filter = {.kernels = &empty_table}; /* static: what it published stays reachable */
    uint64_t value = 0x2000;
    void *params[] = {&value};
    struct filter_word word = {0, 0};
    CUfunction known = (CUfunction)0x1000, unknown = (CUfunction)0x1040;
    ck_assert(!filter_launch_misses(&filter, known, params));
    ck_assert(filter_add_kernel(&filter, known, &word, 1));
    ck_assert(filter_launch_misses(&filter, known, params)); /* nothing is tracked */
    ck_assert(!filter_launch_misses(&filter, unknown, params));
    ck_assert(!filter_launch_misses(&filter, known, NULL));
    ck_assert(!filter_launch_misses(&filter, NULL, params));

    filter_set_bounds(&filter, 0x1000, 0x3000); /* without an index all within the bounds may hit */
    ck_assert(!filter_launch_misses(&filter, known, params));
    ck_assert(filter_set_index(&filter, &(struct filter_span){0x1000, 0x1800}, 1));
    ck_assert(filter_launch_misses(&filter, known, params));
    filter_forget_kernels(&filter);
    ck_assert(!filter_launch_misses(&filter, known, params));
}

TEST(many_kernels_are_all_found)
{
    static struct filter filter = {.kernels = &empty_table}; /* static: what it published stays reachable */
    for (unsigned round = 0; round < 2; ++round) {
        for (unsigned i = 0; i < KERNELS; ++i) {
            struct filter_word words[2] = {{i % 7, 0}, {i % 5, 8}};
            ck_assert(filter_add_kernel(&filter, (CUfunction)(uintptr_t)(0x7f1200000000 + 0x200 * i), words, 2));
        }
        for (unsigned i = 0; i < KERNELS; ++i) {
            CUfunction function = (CUfunction)(uintptr_t)(0x7f1200000000 + 0x200 * i);
            const struct filter_kernel *found = filter_find(filter.kernels, function);
            ck_assert_ptr_eq(found->function, function);
            ck_assert_uint_eq(found->words[0], i % 7);
        }
        ck_assert_ptr_null(filter_find(filter.kernels, (CUfunction)0x10)->function);
        filter_forget_kernels(&filter);
    }
}

TEST(kernels_that_do_not_fit_go_to_the_engine)
{
    static struct filter filter = {.kernels = &empty_table}; /* static: what it published stays reachable */
    ck_assert(!filter_add_kernel(&filter, (CUfunction)0x1000, &(struct filter_word){FILTER_LIST_END, 0}, 1));
    ck_assert(!filter_add_kernel(&filter, (CUfunction)0x1000, &(struct filter_word){0, 1 << 16}, 1));
}

/* ---- while it changes ---- */

static struct filter shared;
static _Atomic bool ends;
static const CUfunction kernel_of_all = (CUfunction)0x1000;

/* One range is there in every version, among others that come and go. */
static const struct filter_span always = {0x500000, 0x500100};

static void *
change_kernels(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3000; ++i) {
        if (i % 100 == 0)
            filter_forget_kernels(&shared);
        (void)filter_add_kernel(&shared, (CUfunction)(uintptr_t)(0x1000 + 0x40 * (i % 50)), &(struct filter_word){0, 0},
                                1);
    }
    return NULL;
}

static void *
change_ranges(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3000; ++i) {
        struct filter_span spans[200];
        size_t count = 0, before = (size_t)(i % 13);
        for (size_t j = 0; j < before; ++j)
            spans[count++] = (struct filter_span){0x1000 + 0x100 * j * (1 + (size_t)(i % 3)),
                                                  0x1040 + 0x100 * j * (1 + (size_t)(i % 3))};
        spans[count++] = always;
        for (size_t j = 0; j < (size_t)(i % 17 * (i < 1500 ? 1 : 11)); ++j) /* at last more than at first fit */
            spans[count++] = (struct filter_span){0x600000 + 0x1000 * j, 0x600100 + 0x1000 * j};
        filter_set_bounds(&shared, spans[0].begin, spans[count - 1].end);
        if (i % 4 != 0)
            (void)filter_set_index(&shared, spans, count);
    }
    atomic_store(&ends, true);
    return NULL;
}

TEST(a_reader_never_loses_what_is_always_there)
{
    pthread_t writer, writer_of_kernels; /* one for each, as in the engine */
    uint64_t inside = always.begin + 7, outside = 0x10;
    void *hit[] = {&inside}, *miss[] = {&outside};
    unsigned long missed = 0;
    shared.kernels = &empty_table;
    ck_assert(filter_add_kernel(&shared, kernel_of_all, &(struct filter_word){0, 0}, 1));
    set_spans(&shared, &always, 1);
    atomic_store(&ends, false);
    ck_assert_int_eq(pthread_create(&writer, NULL, change_ranges, NULL), 0);
    ck_assert_int_eq(pthread_create(&writer_of_kernels, NULL, change_kernels, NULL), 0);
    while (!atomic_load(&ends)) {
        ck_assert(!filter_launch_misses(&shared, kernel_of_all, hit));
        missed += filter_launch_misses(&shared, kernel_of_all, miss);
    }
    pthread_join(writer, NULL);
    pthread_join(writer_of_kernels, NULL);
    (void)missed;
}
