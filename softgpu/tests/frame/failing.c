/*
 * failing.c - programs of the frame of unit tests (tests/lib/test.h) that must fail: without a test, with a loop or a
 * group in which nothing runs, and with a test that fails before one that does not.
 */
#include "tests/lib/test.h"

#ifdef EMPTY_LOOP
LOOP_TEST(never_runs, 2, 2)
{
    ck_assert_int_eq(_i, 2);
}
#endif

#ifdef FAILURE
TEST(fails)
{
    ck_assert_int_eq(1, 2);
}
#endif

#ifndef NO_TEST
TEST(passes)
{
    ck_assert_int_eq(1, 1);
}
#endif

#ifdef EMPTY_GROUP
TEST_GROUP(without_tests, .timeout_s = 10);
#endif
