/*
 * test_options.c - command lines and settings give the options that they say, or one error. What all commands have in
 * common: test_commands.c.
 */
#include "base/protocol.h"
#include "launcher/options/option_table.h"

#include "launcher/options/options.h"
#include "tools/check/command/check.h"
#include "tools/common/tool_options.h"

#include "tests/lib/test.h"

enum { MOST_WORDS = 64 };

static struct options options;
static struct error error;

/* Splits at blanks; a word "''" is empty. The options of the line before are freed. */
static enum options_result
parse(const char *line)
{
    static char text[1024], *words[MOST_WORDS + 1];
    int count = 0;
    snprintf(text, sizeof(text), "ddprun %s", line);
    for (char *word = strtok(text, " "); word != NULL && count < MOST_WORDS; word = strtok(NULL, " "))
        words[count++] = strcmp(word, "''") == 0 ? word + 2 : word;
    words[count] = NULL;
    options_free(&options);
    error = (struct error){0};
    return options_parse(count, words, &options, &error);
}

TEST(defaults_are_those_of_the_protocol)
{
    ck_assert_int_eq(parse("./train"), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 0);
    ck_assert_int_eq(options.device, DEVICE_AUTO);
    ck_assert_int_eq(options.gpus.count, 0);
    ck_assert(!options.share_gpu && options.job.overlap && !options.quiet);
    ck_assert_uint_eq(options.job.bucket_bytes, 0);
    ck_assert_uint_eq(options.job.check_every, DDPRUN_DEFAULT_CHECK_EVERY);
    ck_assert(!options.job.verify);
    ck_assert_uint_eq(options.timeout_s, DDPRUN_DEFAULT_TIMEOUT_S);
    ck_assert_ptr_null(options.nccl);
    ck_assert_ptr_null(options.trace_dir);
    ck_assert(!options.subst && !options.dry_run);
    ck_assert_int_eq(options.output, OUTPUT_TAGGED);
    ck_assert(options.summary_json == NULL && options.report == NULL && options.max_restarts == 0 && !options.verbose);
    ck_assert_int_eq(options.job.reduction, DDPRUN_REDUCE_MEAN);
    ck_assert_int_eq(options.job.compression, DDPRUN_COMPRESS_NONE);
    ck_assert(!options.mixed && options.mixed_given == NULL);
    ck_assert_int_eq(parse("check ./train"), OPTIONS_RUN);
    ck_assert(options.mixed && options.mixed_given == NULL);
    ck_assert(check_options.steps == 0 && check_options.tolerance < 0);
    ck_assert(check_options.alone == NULL && check_options.reference == NULL && check_options.json == NULL);
}

TEST(every_option_of_check_reaches_its_field)
{
    ck_assert_int_eq(parse("-n 8 check --steps 10000 --alone --quiet --reference ref --tolerance 2.5e-3 "
                           "--free --json out.json --no-overlap ./train --steps 3 -n 5"),
                     OPTIONS_RUN);
    ck_assert(options.mixed);
    ck_assert_str_eq(options.mixed_given, "steps");
    ck_assert_uint_eq(check_options.steps, 10000);
    ck_assert_str_eq(check_options.alone, "--quiet"); /* its value, and no option */
    ck_assert(!options.quiet);
    ck_assert_str_eq(check_options.reference, "ref");
    ck_assert(check_options.is_free);
    ck_assert(check_options.tolerance == 2.5e-3);
    ck_assert_str_eq(check_options.json, "out.json");
    ck_assert_int_eq(options.rank_count, 8);
    ck_assert(!options.job.overlap);
    ck_assert_str_eq(options.program[0], "./train");
    ck_assert_str_eq(options.program[4], "5");

    /* The program is the first word after check, and a program of that name has a folder in front. */
    ck_assert_int_eq(parse("check -- -train"), OPTIONS_RUN);
    ck_assert_str_eq(options.program[0], "-train");
    ck_assert_int_eq(parse("-n 2 ./check --steps"), OPTIONS_RUN);
    ck_assert(!options.mixed);
    ck_assert_int_eq(parse("./train check"), OPTIONS_RUN);
    ck_assert(!options.mixed);
}

TEST(every_option_reaches_its_field)
{
    ck_assert_int_eq(
        parse(
            "-n 8 --device softgpu --gpus 0,2,5-7 --share-gpu --one-device --bucket-mb 0.25 --no-overlap --nccl ./n.so "
            "--check-every 0 --timeout 30 --grace 70 --trace out -q --subst --dry-run --reserve 0.5 "
            "--output files=logs --summary-json end.json --failure-report why.txt --max-restarts 3 --reduce sum "
            "--compress bf16 --commit trust ./train"),
        OPTIONS_RUN);
    ck_assert_int_eq(options.job.commit, DDPRUN_COMMIT_TRUST);
    ck_assert_int_eq(options.rank_count, 8);
    ck_assert_int_eq(options.device, DEVICE_SOFTGPU);
    ck_assert_int_eq(options.gpus.count, 5);
    ck_assert_str_eq(options.gpus.list[4], "7");
    ck_assert(options.share_gpu && !options.job.overlap && options.quiet);
    ck_assert(options.one_device);
    ck_assert_uint_eq(options.job.bucket_bytes, 262144);
    ck_assert_str_eq(options.nccl, "./n.so");
    ck_assert_uint_eq(options.job.check_every, 0);
    ck_assert_uint_eq(options.timeout_s, 30);
    ck_assert_uint_eq(options.job.grace_s, 70);
    ck_assert_str_eq(options.trace_dir, "out");
    ck_assert(options.subst && options.dry_run);
    ck_assert_uint_eq(options.reserve_bytes, 524288);
    ck_assert_int_eq(options.output, OUTPUT_FILES);
    ck_assert_str_eq(options.output_dir, "logs");
    ck_assert_str_eq(options.summary_json, "end.json");
    ck_assert_str_eq(options.report, "why.txt");
    ck_assert_uint_eq(options.max_restarts, 3);
    ck_assert_int_eq(options.job.reduction, DDPRUN_REDUCE_SUM);
    ck_assert_int_eq(options.job.compression, DDPRUN_COMPRESS_BF16);
}

TEST(the_engine_gets_what_follows_from_several_options)
{
    static const struct {
        const char *line;
        bool overlaps;
        unsigned timeout_s;
    } cases[] = {{"./train", true, DDPRUN_DEFAULT_TIMEOUT_S},
                 {"--no-overlap --hang-timeout 1000 ./train", false, 1300}, /* a hang ends the job first */
                 {"--hang-timeout 0 ./train", true, DDPRUN_DEFAULT_TIMEOUT_S},
                 {"--hang-timeout 100 --timeout 30 ./train", true, 30}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        struct job_options job;
        ck_assert_msg(parse(cases[i].line) == OPTIONS_RUN, "%s: %s", cases[i].line, error.text);
        options_settle_job(&options, &job);
        ck_assert_uint_eq(job.protocol, DDPRUN_PROTOCOL_VERSION);
        ck_assert_msg(job.overlap == cases[i].overlaps, "%s", cases[i].line);
        ck_assert_uint_eq(job.timeout_s, cases[i].timeout_s);
        ck_assert_str_eq(job.nccl, "libnccl.so.2");
    }
}

/* All options with a flag, in the order of the table. */
static const struct flagged {
    unsigned flag;
    const char *names;
} flagged[] = {
    {TERM, "bucket-mb no-overlap reduce reads compress commit check-every "
           "verify stop-on-nan timeout hang-timeout grace max-restarts heartbeat-timeout "},
    {TRACED, "bucket-mb no-overlap reduce compress commit nccl check-every "
             "verify "},
    {NOT_HANDED_ON, "ranks nnodes node-rank master dry-run steps alone reference tolerance "
                    "free per-rank json "},
    {COMMAND_LINE_ONLY, "nnodes node-rank master by yes slow dry-run tee version help help-all steps alone reference "
                        "tolerance free per-rank json "},
};

TABLE_TEST(flags_are_on_the_options_that_they_are_for, flagged)
{
    char names[1024] = "";
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        if ((row->flags & flagged[_i].flag) != 0)
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ", row->name);
    }
    ck_assert_str_eq(names, flagged[_i].names);
}

TEST(terms_have_a_line_for_each_option_that_ranks_must_share)
{
    char terms[1024];
    ck_assert_int_eq(parse("--reduce sum --no-overlap --bucket-mb 0.1 --heartbeat-timeout 0 ./train"), OPTIONS_RUN);
    terms_write(&options, false, terms, sizeof(terms));
    const char *rest = strstr(terms, "--device");
    ck_assert_str_eq(rest,
                     "--device gpu\n--plan left out\n--bucket-mb 0.10000038146972656\n--no-overlap on\n--reduce sum\n"
                     "--reads owner\n--compress none\n--commit wait\n"
                     "--check-every 100\n--verify off\n--stop-on-nan off\n--timeout 900\n"
                     "--hang-timeout 600\n--grace 30\n--max-restarts 0\n--heartbeat-timeout 0\n");
}

/* What another ddprun gets of the command line, and which options a tool refuses. */
TEST(options_are_handed_on_and_refused_by_their_names)
{
    struct word_list words = {0};
    static const char *const own[] = {"trace", "verbose", NULL}, *const refused[] = {"subst", "metrics", NULL};
    ck_assert_int_eq(parse("-n 4 -v --gpus 3,5 --trace t --bucket-mb=2 --subst ./train"), OPTIONS_RUN);
    options_hand_on_but(&options, own, true, &words);
    ck_assert_uint_eq(words.count, 3);
    ck_assert_str_eq(words.list[0], "--gpus=3");
    ck_assert_str_eq(words.list[1], "--bucket-mb=2");
    ck_assert_str_eq(words.list[2], "--subst");
    for (size_t i = 0; i < words.count; ++i)
        free(words.list[i]);
    free(words.list);
    ck_assert(!options_refuse(options_given(&options, check_refuses), "check", &error));
    ck_assert_str_eq(error.text, "--trace and check contradict each other; leave one out");
    ck_assert(!options_refuse(options_set(&options, refused), "scout", &error));
    ck_assert_str_eq(error.text, "--subst and scout contradict each other; leave one out");

    /* Of a setting: check leaves it out of its runs; a command that cannot refuses it. */
    setenv("DDPRUN_METRICS", "m.prom", 1);
    ck_assert_int_eq(parse("./train"), OPTIONS_RUN);
    ck_assert(options_refuse(options_given(&options, check_refuses), "check", &error));
    ck_assert(!options_refuse(options_set(&options, refused), "scout", &error));
    ck_assert_str_eq(error.text, "--metrics and scout contradict each other; leave one out");
    setenv("DDPRUN_RANKS", "4", 1);
    setenv("DDPRUN_VERIFY", "1", 1);
    options_unset_settings(check_refuses);
    ck_assert(getenv("DDPRUN_METRICS") == NULL && getenv("DDPRUN_RANKS") == NULL);
    ck_assert_str_eq(getenv("DDPRUN_VERIFY"), "1");
    unsetenv("DDPRUN_VERIFY");
}

TEST(a_warning_of_a_hang_follows_from_its_limit)
{
    static const struct {
        unsigned timeout_s, warning_s;
    } cases[] = {{600, 60}, {0, 60}, {100, 10}, {19, 1}, {1, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
        ck_assert_uint_eq(options_hang_warning_s(&(struct options){.hang_timeout_s = cases[i].timeout_s}),
                          cases[i].warning_s);
}

TEST(options_end_at_the_program)
{
    ck_assert_int_eq(parse("--ranks=2 ./train -n 5 --unknown --help"), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 2);
    ck_assert_str_eq(options.program[0], "./train");
    ck_assert_str_eq(options.program[1], "-n");
    ck_assert_ptr_null(options.program[5]);
    ck_assert_int_eq(parse("-n 2 -- -train"), OPTIONS_RUN);
    ck_assert_str_eq(options.program[0], "-train");
}

static const char *const four_ranks[] = {
    "-np 4 ./train 8",
    "--np 4 ./train 8",
    "--np=4 ./train 8",
    "--nproc-per-node 4 ./train 8",
    "--nproc_per_node=4 ./train 8",
    "--nproc 4 ./train 8",
    "check -np 4 ./train 8",
    "-np 4 check ./train 8",
    "--nproc-per-node 2 -n 4 ./train 8",
};

TABLE_TEST(other_launchers_names_of_ranks_are_taken, four_ranks)
{
    ck_assert_msg(parse(four_ranks[_i]) == OPTIONS_RUN, "%s: %s", four_ranks[_i], error.text);
    ck_assert_int_eq(options.rank_count, 4);
    ck_assert_str_eq(options.program[0], "./train");
    ck_assert_str_eq(options.program[1], "8");
}

static const char *const counted_ranks[] = {"--nproc-per-node gpu ./train", "--nproc_per_node=auto ./train",
                                            "-n 3 -n auto ./train"};

TABLE_TEST(ranks_may_be_counted, counted_ranks)
{
    ck_assert_msg(parse(counted_ranks[_i]) == OPTIONS_RUN, "%s: %s", counted_ranks[_i], error.text);
    ck_assert_int_eq(options.rank_count, 0);
}

static const struct good {
    const char *line;
    uint64_t bucket_bytes;
} good_sizes[] = {{"25", 25u << 20}, {"0.5", 1u << 19}, {"1e-3", 1049}, {"1.", 1u << 20}, {"1048576", 1ull << 40}};

TABLE_TEST(sizes_may_be_fractions, good_sizes)
{
    char line[64];
    snprintf(line, sizeof(line), "--bucket-mb %s ./train", good_sizes[_i].line);
    ck_assert_int_eq(parse(line), OPTIONS_RUN);
    ck_assert_uint_eq(options.job.bucket_bytes, good_sizes[_i].bucket_bytes);
}

static const char *const bad_lines[] = {
    "",
    "-n 2",
    "-n",
    "-np",
    "-np ./train",
    "--np",
    "--nproc-per-node",
    "--nproc-per-node cpu ./train",
    "--ranks",
    "--ranks= ./train",
    "--reduce ./train",
    "--no-overlap=1 ./train",
    "--output ./train",
    "--quiet --verbose ./train",
    "--verify --check-every 0 ./train",
    "--config file ./train",
    "--frob ./train",
    "-x ./train",
    "-nq",
    "check",
    "check -n 2",
    "check --frob ./train",
    "check --steps ./train",
};

static void
expect_one_error(const char *line)
{
    ck_assert_msg(parse(line) == OPTIONS_BAD, "accepted: %s", line);
    ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
    ck_assert_uint_gt(strlen(error.text), 10);
    ck_assert(line[0] == '\0' || strchr(error.text, '\n') == NULL); /* "ddprun" alone says what it is */
}

TABLE_TEST(bad_lines_get_one_error_each, bad_lines)
{
    expect_one_error(bad_lines[_i]);
}

static const struct {
    const char *option, *values; /* with blanks between */
} bad_values[] = {
    {"-n", "0 abc 2x +2 -2 '' 1e1 257 99999999999999999999999 p"},
    {"--bucket-mb", "0 -1 1x inf nan 0x10 1e-9 1e30 1e999 - ''"},
    {"--device", "GPU"},
    {"--gpus", "'' 1,,2 1, 3-1 1,1 0-2,1 1024 0-99999 GPU- GPU-a;b"},
    {"--check-every", "-1 5000000000"},
    {"--sync-every", "4"},
    {"--timeout", "0 1.5"},
    {"--reduce", "avg"},
    {"--compress", "fp8 FP16"},
    {"--communicators", "2"},
    {"--nccl", "''"},
    {"--trace", "''"},
    {"--output", "files= rank1"},
    {"--summary-json", "''"},
    {"--grace", "-1 86401 1.5 30s"},
    {"--max-restarts", "-1 1001"},
    {"--restart-delay", "-1 x 86401"},
    {"check -n", "0"},
    {"check --steps", "0 x -1 10001"},
    {"check --tolerance", "2 -1e-4 nan 0x1 '' 1e-4x"},
    {"check --reference", "''"},
    {"check --json", "''"},
    {"--steps", "3"},
    {"--json", "x"},
};

TABLE_TEST(bad_values_get_one_error_each, bad_values)
{
    char values[128], line[128], *rest = values;
    snprintf(values, sizeof(values), "%s", bad_values[_i].values);
    for (const char *value; (value = strsep(&rest, " ")) != NULL;) {
        snprintf(line, sizeof(line), "%s %s ./train", bad_values[_i].option, value);
        expect_one_error(line);
    }
}

/* An unambiguous beginning of a name is that name. */
TEST(a_name_may_be_cut)
{
    ck_assert_int_eq(parse("--no-o ./train --"), OPTIONS_RUN);
    ck_assert(!options.job.overlap);
}

/* Of the first that is wrong the user hears; and the others of the job, where it was said how to meet them. */
TEST(bad_options_keep_where_a_host_meets_the_others)
{
    char *words[] = {"ddprun",      "--nnodes=2", "--no-such",      "--node-rank",   "1",
                     "--bucket-mb", "x",          "--master=h1",    "--job",         "j",
                     "-n",          "3",          "--help",         "--secret-file", "key",
                     "--timeout",   "7",          "--summary-json", "./train",       NULL};
    options_free(&options);
    ck_assert_int_eq(options_parse(sizeof(words) / sizeof(words[0]) - 1, words, &options, &error), OPTIONS_BAD);
    ck_assert_says(error.text, "--no-such");
    ck_assert(options.node_count == 2 && options.node_rank_given && options.node_rank == 1 && options.rank_count == 3);
    ck_assert_str_eq(options.master, "h1");
    ck_assert_str_eq(options.job_name, "j");
    ck_assert_str_eq(options.secret_file, "key");
    ck_assert_uint_eq(options.timeout_s, 7);
    ck_assert(options.program == NULL && options.summary_json == NULL);
}

TEST(help_and_version_win_over_what_follows)
{
    ck_assert_int_eq(parse("--help -n 0"), OPTIONS_HELP);
    ck_assert_int_eq(parse("-h"), OPTIONS_HELP);
    ck_assert_int_eq(parse("--help-all"), OPTIONS_HELP_ALL);
    ck_assert_int_eq(parse("--version"), OPTIONS_VERSION);
    ck_assert_int_eq(parse("-n 2 -V"), OPTIONS_VERSION);
    ck_assert_int_eq(parse("check --help"), OPTIONS_HELP_MIXED);
    ck_assert_int_eq(parse("-n 2 check --steps 2 -h --steps 0"), OPTIONS_HELP_MIXED);
    ck_assert_int_eq(parse("check --help-all"), OPTIONS_HELP_MIXED);
    ck_assert_int_eq(parse("check -V"), OPTIONS_VERSION);
    ck_assert_int_eq(parse("--help check"), OPTIONS_HELP);
}

TEST(the_short_help_fits_a_screen)
{
    char *text = NULL;
    size_t bytes = 0;
    int lines = 0;
    FILE *out = open_memstream(&text, &bytes);
    options_print_help(out);
    fclose(out);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        ck_assert_msg(strcspn(line, "\n") <= 80, "too long: %.90s", line);
        ++lines;
    }
    ck_assert_int_le(lines, 24);
    ck_assert_says(text, "--page FILE");
    free(text);
}

TEST(names_in_braces_are_replaced)
{
    static const struct {
        const char *from, *to;
    } cases[] = {{"run-{rank}.log", "run-3.log"},
                 {"{local_rank}/{world_size}{rank}", "1/123"},
                 {"{ranks} {rank", "{ranks} {rank"},
                 {"", ""},
                 {"{{rank}}", "{3}"}};
    const struct places places = {.rank = 3, .local_rank = 1, .world_size = 12};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        char *text = substitute_text(cases[i].from, &places);
        ck_assert_str_eq(text, cases[i].to);
        free(text);
    }
}

/* ---- settings ---- */

static void
unset_settings(void)
{
    unsetenv("DDPRUN_BUCKET_MB");
    unsetenv("DDPRUN_VERIFY");
    unsetenv("DDPRUN_RANKS");
    unsetenv("DDPRUN_REPORT");
}

TEST_GROUP(settings, .teardown = unset_settings);

TEST(the_command_line_goes_before_the_environment)
{
    setenv("DDPRUN_BUCKET_MB", "1", 1);
    setenv("DDPRUN_VERIFY", "1", 1);
    setenv("DDPRUN_RANKS", "5", 1);
    ck_assert_msg(parse("-n 3 ./train") == OPTIONS_RUN, "%s", error.text);
    ck_assert_int_eq(options.rank_count, 3);
    ck_assert_uint_eq(options.job.bucket_bytes, 1u << 20);
    ck_assert(options.job.verify);

    setenv("DDPRUN_VERIFY", "0", 1);
    setenv("DDPRUN_REPORT", "why.txt", 1); /* the earlier name of DDPRUN_FAILURE_REPORT */
    ck_assert_int_eq(parse("--bucket-mb 4 ./train"), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 5);
    ck_assert_uint_eq(options.job.bucket_bytes, 4u << 20);
    ck_assert(!options.job.verify);
    ck_assert_str_eq(options.report, "why.txt");
}

static const struct bad_setting {
    const char *variable, *value, *told;
} bad_settings[] = {
    {"DDPRUN_BUCKET_MB", "much", "DDPRUN_BUCKET_MB: 'much' is not"},
    {"DDPRUN_BUCKET_MB", "-3", "DDPRUN_BUCKET_MB: '-3' is not"},
    {"DDPRUN_VERIFY", "yes", "DDPRUN_VERIFY: 'yes' is neither on nor off; write 1 or 0"},
    {"DDPRUN_RANKS", "0", "DDPRUN_RANKS: '0' is not a number of ranks from 1 to 256"},
    {"DDPRUN_RANKS", "300", "DDPRUN_RANKS: '300' is not a number of ranks from 1 to 256"},
};

TABLE_TEST(bad_settings_are_named, bad_settings)
{
    const struct bad_setting *bad = &bad_settings[_i];
    setenv(bad->variable, bad->value, 1);
    ck_assert_int_eq(parse("./train"), OPTIONS_BAD);
    ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
    ck_assert_msg(strstr(error.text, bad->told) != NULL, "not told: %s in: %s", bad->told, error.text);
    ck_assert_ptr_null(strchr(error.text, '\n'));
}

TEST(too_many_ranks_are_named_with_their_place)
{
    setenv("DDPRUN_RANKS", "256", 1);
    ck_assert_int_eq(parse("-n 301 ./train"), OPTIONS_BAD);
    ck_assert_msg(strncmp(error.text, "'301' is not", 12) == 0, "%s", error.text);
    ck_assert_int_eq(parse("-n 3 ./train"), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 3);
    ck_assert_int_eq(parse("./train"), OPTIONS_RUN);
    ck_assert_int_eq(options.rank_count, 256);
}

int
main(void)
{
    options_mix(&check_command, check_rows);
    return tests_run();
}
