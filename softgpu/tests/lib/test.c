/*
 * test.c - the frame of a unit test: the list of its tests, how they run, and a main() for programs that need none of
 * their own.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct test_item *items;

/* Constructors run in an order of the compiler's; the list has that of the source. */
void
test_register(struct test_item *item)
{
    struct test_item **place = &items;
    while (*place != NULL && (strcmp((*place)->file, item->file) != 0 || (*place)->line < item->line))
        place = &(*place)->next;
    item->next = *place;
    *place = item;
}

void
test_assert_says(const char *file, int line, const char *text, const char *const parts[])
{
    for (; *parts != NULL; ++parts) {
        if (strstr(text, *parts) == NULL)
            ck_abort_msg("%s:%d: '%s' is not in: %s", file, line, *parts, text);
    }
}

static TCase *
start_group(Suite *suite, const struct test_group *group)
{
    TCase *tcase = tcase_create(group->name);
    if (group->timeout_s != 0)
        tcase_set_timeout(tcase, group->timeout_s == TEST_NO_TIMEOUT ? 0 : group->timeout_s);
    tcase_add_checked_fixture(tcase, group->setup, group->teardown);
    tcase_add_unchecked_fixture(tcase, group->start, group->stop);
    suite_add_tcase(suite, tcase);
    return tcase;
}

/* Returns how many groups and loops have nothing to run, each named on stderr. */
static int
add_items(Suite *suite)
{
    static const struct test_group ungrouped = {.name = "all"};
    int empty = 0;
    TCase *tcase = NULL;
    for (const struct test_item *item = items; item != NULL; item = item->next) {
        if (item->test == NULL) {
            tcase = start_group(suite, &item->group);
        } else {
            if (tcase == NULL)
                tcase = start_group(suite, &ungrouped);
            tcase_add_loop_test(tcase, item->test, item->begin, item->end);
        }
        if (item->test != NULL ? item->begin >= item->end : item->next == NULL || item->next->test == NULL) {
            fprintf(stderr, "%s:%d: nothing to run\n", item->file, item->line);
            ++empty;
        }
    }
    return empty;
}

static int
run(enum fork_status forks)
{
    Suite *suite = suite_create(program_invocation_short_name);
    int failed = add_items(suite);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, forks);
    srunner_run_all(runner, CK_ENV);
    failed += srunner_ntests_failed(runner);
    if (srunner_ntests_run(runner) == 0) {
        fprintf(stderr, "%s: no test ran\n", program_invocation_short_name);
        ++failed;
    }
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
tests_run(void)
{
    return run(CK_FORK_GETENV);
}

int
tests_run_in_this_process(void)
{
    return run(CK_NOFORK);
}

__attribute__((weak)) int
main(void)
{
    return tests_run();
}
