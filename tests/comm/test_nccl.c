/*
 * test_nccl.c - an NCCL that is missing, is something else, or is too old gets one line that says so and what to do,
 * and the table stays untouched.
 */
#include "comm/nccl.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static unsigned opened_count;

static void
note_opened(const void *address)
{
    (void)address;
    ++opened_count;
}

static void
check_refused(const char *path, const char *words)
{
    struct comm_error error;
    struct nccl nccl = {.version = 77};
    ck_assert(!nccl_open(&nccl, path, note_opened, &error));
    ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
    ck_assert_msg(strstr(error.text, "--nccl PATH") != NULL, "%s", error.text);
    ck_assert_ptr_null(strchr(error.text, '\n'));
    ck_assert_int_eq(nccl.version, 77);
}

START_TEST(a_missing_library_is_refused)
{
    check_refused("/nowhere/libnccl.so.2", "cannot open NCCL");
}
END_TEST

START_TEST(another_library_is_refused)
{
    check_refused("libm.so.6", "has no nccl");
}
END_TEST

START_TEST(an_old_release_is_refused)
{
    opened_count = 0;
    check_refused(OLD_NCCL, "is NCCL 2.8.4");
    ck_assert_uint_eq(opened_count, 1); /* exempted from the hooks before it ran */
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("nccl");
    TCase *tcase = tcase_create("refusals");
    tcase_add_test(tcase, a_missing_library_is_refused);
    tcase_add_test(tcase, another_library_is_refused);
    tcase_add_test(tcase, an_old_release_is_refused);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
