/*
 * test.h - the frame of a unit test, over Check. TEST(name) { ... } is all that a test needs: it registers itself
 * before main() begins, and test.c has a main() that runs all tests of the program in the order of the source.
 *
 *     TEST(sums_are_right) { ck_assert_int_eq(1 + 1, 2); }
 *     LOOP_TEST(squares_are_right, 0, 10) { ck_assert_int_ge(_i * _i, _i); }
 *     TABLE_TEST(rows_are_right, rows) { ck_assert(rows[_i].good); }
 *     SEED_TEST(properties_hold, 0, 400) { ck_assert_int_ge(rand_r(&seed), 0); }
 *
 * A program in which no test runs, a group without a test and a loop without a turn fail. CK_FORK, CK_VERBOSITY and
 * Check's other variables apply. The headers of the C library that tests use throughout come with this one.
 */
#ifndef SOFTGPU_TESTS_TEST_H
#define SOFTGPU_TESTS_TEST_H

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEST_NO_TIMEOUT = -1, TEST_SEEDS = 20 };

/* What the tests of a group share. Every member may be left out. */
struct test_group {
    const char *name;
    int timeout_s;                          /* of each test in a process of its own; 0: Check's, 4 s */
    void (*setup)(void), (*teardown)(void); /* around each test */
    void (*start)(void), (*stop)(void);     /* once, around all of them, in the process of the runner */
};

/* A test, or (test is NULL) the head of a group. */
struct test_item {
    const char *file;
    int line;
    const TTest *test;
    int begin, end; /* of _i; `end` is not reached */
    struct test_group group;
    struct test_item *next;
};

/* Adds `item`, which stays the caller's and must outlive the run, behind those of earlier lines of its file. */
void test_register(struct test_item *item);

/*
 * For a main() of the program's own, which replaces that of test.c: runs the tests, in processes of their own if
 * CK_FORK allows, or all in the calling process. Returns main()'s exit code.
 */
int tests_run(void);
int tests_run_in_this_process(void);

/* Fails unless each of the texts that follow is a part of `text`. */
#define ck_assert_says(text, ...) test_assert_says(__FILE__, __LINE__, text, (const char *const[]){__VA_ARGS__, NULL})
void test_assert_says(const char *file, int line, const char *text, const char *const parts[]);

/* The tests from here to the next group share this: TEST_GROUP(settings, .timeout_s = 60, .setup = make_settings); */
#define TEST_GROUP(group_name, ...)                                            \
    static struct test_item group_name##_group;                                \
    __attribute__((constructor)) static void group_name##_group_register(void) \
    {                                                                          \
        test_register(&group_name##_group);                                    \
    }                                                                          \
    static struct test_item group_name##_group = {                             \
        .file = __FILE__, .line = __LINE__, .group = {.name = #group_name, __VA_ARGS__}}

/* A test for each _i from `first` up to, without, `last`. Both may be computed: they are asked for before main(). */
#define LOOP_TEST(test_name, first, last)                                    \
    static const TTest *test_name;                                           \
    __attribute__((constructor)) static void test_name##_register(void)      \
    {                                                                        \
        static struct test_item item = {.file = __FILE__, .line = __LINE__}; \
        item.test = test_name;                                               \
        item.begin = (int)(first);                                           \
        item.end = (int)(last);                                              \
        test_register(&item);                                                \
    }                                                                        \
    START_TEST(test_name)

/* A test for each row of an array: table[_i]. */
#define TABLE_TEST(test_name, table) LOOP_TEST(test_name, 0, sizeof(table) / sizeof((table)[0]))

/* A property: the body, with `seed`, for `count` seeds from `first` on, TEST_SEEDS of them in one process. */
#define SEED_TEST(test_name, first, count)                           \
    static void test_name##_of(unsigned seed);                       \
    LOOP_TEST(test_name, 0, ((count) + TEST_SEEDS - 1) / TEST_SEEDS) \
    {                                                                \
        for (unsigned i = 0; i < TEST_SEEDS; ++i)                    \
            test_name##_of((first) + (unsigned)_i * TEST_SEEDS + i); \
    }                                                                \
    static void test_name##_of(unsigned seed)

#define TEST(test_name) LOOP_TEST(test_name, 0, 1)

#endif
