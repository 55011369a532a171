/*
 * test_plan.c - a plan holds every gradient once, in the order given, in buckets of one type and within the cap, and no
 * two neighbours could have been one bucket; plans have the same bytes exactly when they are the same.
 */
#include "bucketing/plan.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 500, GRADIENTS = 24 };

struct plan_case {
    struct plan_gradient gradients[GRADIENTS];
    size_t order[GRADIENTS];
    size_t count;
    uint64_t cap_bytes;
};

static struct plan_case
random_case(unsigned seed)
{
    struct plan_case made = {.count = (size_t)(rand_r(&seed) % GRADIENTS),
                             .cap_bytes = (uint64_t)(rand_r(&seed) % 3000)};
    for (size_t i = 0; i < made.count; ++i) {
        made.gradients[i] =
            (struct plan_gradient){1 + (uint64_t)(rand_r(&seed) % 1000), rand_r(&seed) % 4 == 0 ? 2 : 1};
        size_t at = (size_t)rand_r(&seed) % (i + 1); /* inside-out shuffle */
        made.order[i] = made.order[at];
        made.order[at] = i;
    }
    return made;
}

static struct plan *
build(const struct plan_case *of)
{
    return plan_build(1, of->gradients, of->order, of->count, of->cap_bytes);
}

START_TEST(plans_hold_their_promises)
{
    struct plan_case made = random_case((unsigned)_i);
    struct plan *plan = build(&made);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_eq(plan->gradient_count, made.count);

    size_t next = 0;
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        uint64_t bytes = 0;
        ck_assert_uint_eq(bucket->first, next);
        ck_assert_uint_gt(bucket->count, 0);
        for (size_t i = bucket->first; i < bucket->first + bucket->count; ++i) {
            const struct plan_gradient *gradient = &made.gradients[made.order[i]];
            ck_assert_uint_eq(plan->order[i], made.order[i]);
            ck_assert_uint_eq(plan->bucket_of[made.order[i]], k);
            ck_assert_int_eq(gradient->type, bucket->type);
            bytes += gradient->bytes;
        }
        ck_assert_uint_eq(bytes, bucket->bytes);
        ck_assert(bytes <= made.cap_bytes || bucket->count == 1);
        next += bucket->count;

        /* Greedy: the gradient after a bucket would not have fitted. */
        if (k + 1 < plan->bucket_count) {
            const struct plan_gradient *after = &made.gradients[made.order[next]];
            ck_assert(after->type != bucket->type || bytes + after->bytes > made.cap_bytes);
        }
    }
    ck_assert_uint_eq(next, made.count);
    plan_free(plan);
}
END_TEST

START_TEST(bytes_tell_plans_apart)
{
    struct plan_case made = random_case((unsigned)_i + 9000);
    if (made.count < 2)
        return;
    struct plan *plan = build(&made), *same = build(&made);
    size_t swapped = made.order[0];
    made.order[0] = made.order[1];
    made.order[1] = swapped;
    struct plan *other = build(&made);

    size_t plan_size, same_size, other_size;
    void *plan_data = plan_bytes(plan, &plan_size), *same_data = plan_bytes(same, &same_size),
         *other_data = plan_bytes(other, &other_size);
    ck_assert_uint_eq(plan_size, same_size);
    ck_assert_mem_eq(plan_data, same_data, plan_size);
    ck_assert(plan_size != other_size || memcmp(plan_data, other_data, plan_size) != 0);

    free(plan_data);
    free(same_data);
    free(other_data);
    plan_free(plan);
    plan_free(same);
    plan_free(other);
}
END_TEST

START_TEST(an_order_that_is_no_permutation_is_refused)
{
    struct plan_gradient gradients[] = {{4, 1}, {4, 1}};
    size_t twice[] = {0, 0}, beyond[] = {0, 2};
    ck_assert_ptr_null(plan_build(1, gradients, twice, 2, 100));
    ck_assert_ptr_null(plan_build(1, gradients, beyond, 2, 100));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tcase = tcase_create("properties");
    tcase_add_loop_test(tcase, plans_hold_their_promises, 0, CASES);
    tcase_add_loop_test(tcase, bytes_tell_plans_apart, 0, CASES);
    tcase_add_test(tcase, an_order_that_is_no_permutation_is_refused);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
