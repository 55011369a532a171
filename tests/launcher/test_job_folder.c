/*
 * test_job_folder.c - a job's folder is private and goes away; those of killed launchers are cleared, those in use are
 * not.
 */
#include "launcher/job_folder.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/test-job-folder-XXXXXX";

static bool
exists(const char *path)
{
    struct stat file;
    return lstat(path, &file) == 0;
}

static void
fill(const char *folder)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/inner", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/inner/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof(path), "%s/link", folder);
    ck_assert_int_eq(symlink(place, path), 0);
}

START_TEST(a_folder_is_private_and_goes_away)
{
    struct job_folder folder;
    struct problem problem;
    ck_assert(job_folder_make(&folder, &problem));
    struct stat made;
    ck_assert_int_eq(stat(folder.path, &made), 0);
    ck_assert_int_eq(made.st_mode & 07777, 0700);
    ck_assert_int_eq(strncmp(folder.path, place, strlen(place)), 0);

    char path[512];
    snprintf(path, sizeof(path), "%s", folder.path);
    fill(path);
    job_folder_remove(&folder);
    ck_assert(!exists(path));
    ck_assert(exists(place)); /* the link in it was not followed */
    job_folder_remove(&folder);
}
END_TEST

START_TEST(folders_in_use_stay_abandoned_ones_go)
{
    struct job_folder used, second;
    struct problem problem;
    ck_assert(job_folder_make(&used, &problem));
    char abandoned[512], named_alike[512], link[512];
    snprintf(abandoned, sizeof(abandoned), "%s/ddprun-%lu-abcdef", place, (unsigned long)geteuid());
    snprintf(named_alike, sizeof(named_alike), "%s/ddprun-%lu-abcdef-kept", place, (unsigned long)geteuid());
    snprintf(link, sizeof(link), "%s/ddprun-%lu-ghijkl", place, (unsigned long)geteuid());
    ck_assert_int_eq(mkdir(abandoned, 0700), 0);
    ck_assert_int_eq(mkdir(named_alike, 0700), 0);
    fill(abandoned);
    ck_assert_int_eq(symlink(named_alike, link), 0);

    ck_assert(job_folder_make(&second, &problem));
    ck_assert(!exists(abandoned));
    ck_assert(exists(used.path));
    ck_assert(exists(named_alike));
    ck_assert(exists(link));
    job_folder_remove(&used);
    job_folder_remove(&second);
    unlink(link);
    rmdir(named_alike);
}
END_TEST

START_TEST(no_place_is_a_problem)
{
    struct job_folder folder;
    struct problem problem = {0};
    setenv("TMPDIR", "/nowhere/at/all", 1);
    ck_assert(!job_folder_make(&folder, &problem));
    ck_assert_ptr_nonnull(strstr(problem.text, "/nowhere/at/all"));
    setenv("TMPDIR", place, 1);
}
END_TEST

int
main(void)
{
    if (mkdtemp(place) == NULL)
        return EXIT_FAILURE;
    setenv("TMPDIR", place, 1);
    Suite *suite = suite_create("job_folder");
    TCase *tcase = tcase_create("folders");
    tcase_add_test(tcase, a_folder_is_private_and_goes_away);
    tcase_add_test(tcase, folders_in_use_stay_abandoned_ones_go);
    tcase_add_test(tcase, no_place_is_a_problem);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    rmdir(place);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
