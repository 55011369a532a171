/*
 * test_options.c - command lines give the options that they say, or one problem; and help shows every option.
 */
#include "base/protocol.h"
#include "launcher/options.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 32 };

/* Splits at blanks; a word "''" is empty. */
static enum options_result
parse(const char *line, struct options *options, struct problem *problem)
{
    static char text[512], *words[MOST_WORDS + 1];
    int count = 0;
    snprintf(text, sizeof(text), "ddprun %s", line);
    for (char *word = strtok(text, " "); word != NULL && count < MOST_WORDS; word = strtok(NULL, " "))
        words[count++] = strcmp(word, "''") == 0 ? word + 2 : word;
    words[count] = NULL;
    return options_parse(count, words, options, problem);
}

START_TEST(defaults_are_those_of_the_protocol)
{
    struct options options;
    struct problem problem;
    ck_assert_int_eq(parse("./train", &options, &problem), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 0);
    ck_assert_int_eq(options.device, DEVICE_AUTO);
    ck_assert_int_eq(options.gpus.count, 0);
    ck_assert(!options.share_gpu && options.overlap && !options.quiet);
    ck_assert_uint_eq(options.bucket_bytes, 0);
    ck_assert_uint_eq(options.check_every, DDPRUN_DEFAULT_CHECK_EVERY);
    ck_assert(!options.verify);
    ck_assert_uint_eq(options.timeout_s, DDPRUN_DEFAULT_TIMEOUT_S);
    ck_assert_ptr_null(options.nccl);
    ck_assert_ptr_null(options.trace_dir);
    options_free(&options);
}
END_TEST

START_TEST(every_option_reaches_its_field)
{
    struct options options;
    struct problem problem;
    ck_assert_int_eq(
        parse("-n 8 --device softgpu --gpus 0,2,5-7 --share-gpu --bucket-mb 0.25 --no-overlap --nccl ./n.so "
              "--check-every 0 --timeout 30 --trace out -q ./train",
              &options, &problem),
        OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 8);
    ck_assert_int_eq(options.device, DEVICE_SOFTGPU);
    ck_assert_int_eq(options.gpus.count, 5);
    ck_assert_str_eq(options.gpus.names[4], "7");
    ck_assert(options.share_gpu && !options.overlap && options.quiet);
    ck_assert_uint_eq(options.bucket_bytes, 262144);
    ck_assert_str_eq(options.nccl, "./n.so");
    ck_assert_uint_eq(options.check_every, 0);
    ck_assert_uint_eq(options.timeout_s, 30);
    ck_assert_str_eq(options.trace_dir, "out");
    options_free(&options);
}
END_TEST

START_TEST(options_end_at_the_program)
{
    struct options options;
    struct problem problem;
    ck_assert_int_eq(parse("--ranks=2 ./train -n 5 --unknown --help", &options, &problem), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 2);
    ck_assert_str_eq(options.program[0], "./train");
    ck_assert_str_eq(options.program[1], "-n");
    ck_assert_ptr_null(options.program[5]);
    options_free(&options);
    ck_assert_int_eq(parse("-n 2 -- -train", &options, &problem), OPTIONS_RUN);
    ck_assert_str_eq(options.program[0], "-train");
    options_free(&options);
}
END_TEST

static const struct good {
    const char *line;
    uint64_t bucket_bytes;
} good_sizes[] = {{"25", 25u << 20}, {"0.5", 1u << 19}, {"1e-3", 1049}, {"1.", 1u << 20}, {"1048576", 1ull << 40}};

START_TEST(sizes_may_be_fractions)
{
    struct options options;
    struct problem problem;
    char line[64];
    snprintf(line, sizeof(line), "--bucket-mb %s ./train", good_sizes[_i].line);
    ck_assert_int_eq(parse(line, &options, &problem), OPTIONS_RUN);
    ck_assert_uint_eq(options.bucket_bytes, good_sizes[_i].bucket_bytes);
    options_free(&options);
}
END_TEST

static const char *const bad_lines[] = {
    "",
    "-n 2",
    "-n 0 ./train",
    "-n abc ./train",
    "-n 2x ./train",
    "-n +2 ./train",
    "-n -2 ./train",
    "-n '' ./train",
    "-n 1e1 ./train",
    "-n 257 ./train",
    "-n 99999999999999999999999 ./train",
    "-n",
    "--ranks",
    "--ranks= ./train",
    "--bucket-mb 0 ./train",
    "--bucket-mb -1 ./train",
    "--bucket-mb 1x ./train",
    "--bucket-mb inf ./train",
    "--bucket-mb nan ./train",
    "--bucket-mb 0x10 ./train",
    "--bucket-mb 1e-9 ./train",
    "--bucket-mb 1e30 ./train",
    "--bucket-mb 1e999 ./train",
    "--bucket-mb - ./train",
    "--bucket-mb '' ./train",
    "--device GPU ./train",
    "--gpus '' ./train",
    "--gpus 1,,2 ./train",
    "--gpus 1, ./train",
    "--gpus 3-1 ./train",
    "--gpus 1,1 ./train",
    "--gpus 0-2,1 ./train",
    "--gpus 1024 ./train",
    "--gpus 0-99999 ./train",
    "--gpus GPU- ./train",
    "--gpus GPU-a;b ./train",
    "--check-every -1 ./train",
    "--check-every 5000000000 ./train",
    "--timeout 0 ./train",
    "--timeout 1.5 ./train",
    "--nccl '' ./train",
    "--trace '' ./train",
    "--no-overlap=1 ./train",
    "--frob ./train",
    "--no ./train --",
    "-x ./train",
    "-nq",
};

START_TEST(bad_lines_get_one_problem_each)
{
    struct options untouched, options;
    memset(&untouched, 0x5a, sizeof(untouched));
    options = untouched;
    struct problem problem = {0};
    const char *line = bad_lines[_i];
    if (strcmp(line, "--no ./train --") == 0) { /* an unambiguous beginning of a name is that name */
        ck_assert_int_eq(parse(line, &options, &problem), OPTIONS_RUN);
        ck_assert(!options.overlap);
        return;
    }
    ck_assert_msg(parse(line, &options, &problem) == OPTIONS_BAD, "accepted: %s", line);
    ck_assert_int_eq(problem.exit_code, DDPRUN_EXIT_USAGE);
    ck_assert_uint_gt(strlen(problem.text), 10);
    ck_assert_ptr_null(strchr(problem.text, '\n'));
    ck_assert_mem_eq(&options, &untouched, sizeof(options));
}
END_TEST

START_TEST(help_and_version_win_over_what_follows)
{
    struct options options;
    struct problem problem;
    ck_assert_int_eq(parse("--help -n 0", &options, &problem), OPTIONS_HELP);
    ck_assert_int_eq(parse("-h", &options, &problem), OPTIONS_HELP);
    ck_assert_int_eq(parse("--version", &options, &problem), OPTIONS_VERSION);
    ck_assert_int_eq(parse("-n 2 -V", &options, &problem), OPTIONS_VERSION);
}
END_TEST

START_TEST(help_shows_every_option_and_fits_a_terminal)
{
    static const char *const names[] = {"--ranks",      "--device",  "--gpus",  "--share-gpu",   "--bucket-mb",
                                        "--no-overlap", "--nccl",    "--trace", "--check-every", "--timeout",
                                        "--quiet",      "--version", "--help",  "Exit codes",    "Examples"};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    options_print_help(out);
    fclose(out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
        ck_assert_msg(strstr(text, names[i]) != NULL, "no %s in the help", names[i]);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 100, "too long: %.110s", line);
    free(text);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("options");
    TCase *tcase = tcase_create("command lines");
    tcase_add_test(tcase, defaults_are_those_of_the_protocol);
    tcase_add_test(tcase, every_option_reaches_its_field);
    tcase_add_test(tcase, options_end_at_the_program);
    tcase_add_loop_test(tcase, sizes_may_be_fractions, 0, sizeof(good_sizes) / sizeof(good_sizes[0]));
    tcase_add_loop_test(tcase, bad_lines_get_one_problem_each, 0, sizeof(bad_lines) / sizeof(bad_lines[0]));
    tcase_add_test(tcase, help_and_version_win_over_what_follows);
    tcase_add_test(tcase, help_shows_every_option_and_fits_a_terminal);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
