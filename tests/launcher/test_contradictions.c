/*
 * test_contradictions.c - each option with each other: either they go together, or the pair is in the table below, with
 * what is said. An option without a sample here fails the test: its pairs are not settled.
 *
 * Pairs with an option of `ddprun check` are tried after "check"; without it each of these options is refused,
 * whatever is beside it. What goes together only in training is refused by check itself (tests/tools/check/input.sh).
 */
#include "launcher/options/option_table.h"
#include "tools/check/command/check.h"

#include "tests/lib/test.h"

enum { MOST_WORDS = 16 };

/* Of options whose values differ in what they exclude, several. */
static const struct sample {
    const char *name, *value;
} samples[] = {
    {"ranks", "2"},
    {"device", "gpu"},
    {"device", "softgpu"},
    {"gpus", "0,1"},
    {"share-gpu", NULL},
    {"one-device", NULL},
    {"reserve", "64"},
    {"bind", "core"},
    {"bucket-mb", "10"},
    {"no-overlap", NULL},
    {"reduce", "sum"},
    {"compress", "bf16"},
    {"commit", "trust"},
    {"nccl", "libnccl.so.2"},
    {"check-every", "0"},
    {"check-every", "7"},
    {"plan", "plan.json"},
    {"plan", "auto"},
    {"unproved", NULL},
    {"by", "state"},
    {"reads", "own"},
    {"yes", NULL},
    {"slow", NULL},
    {"verify", NULL},
    {"stop-on-nan", NULL},
    {"timeout", "30"},
    {"hang-timeout", "20"},
    {"hang-timeout", "0"},
    {"grace", "70"},
    {"grace", "0"},
    {"heartbeat-timeout", "20"},
    {"max-restarts", "3"},
    {"secret-file", "secret"},
    {"job", "a"},
    {"trace", "traces"},
    {"page", "page.html"},
    {"subst", NULL},
    {"nnodes", "2"},
    {"node-rank", "1"},
    {"master", "h1"},
    {"interface", "lo"},
    {"dry-run", NULL},
    {"output", "none"},
    {"output", "files=logs"},
    {"tee", NULL},
    {"timestamps", NULL},
    {"restart-delay", "3"},
    {"progress", "on"},
    {"progress", "off"},
    {"summary-json", "end.json"},
    {"metrics", "metrics.prom"},
    {"verbose", NULL},
    {"quiet", NULL},
    {"steps", "5"},
    {"alone", "--batch 8"},
    {"reference", "ref.ddp"},
    {"tolerance", "0.001"},
    {"json", "check.json"},
    {"free", NULL},
    {"per-rank", "a3,a7"},
    {"np", "2"},
    {"nproc-per-node", "2"},
    {"nproc_per_node", "2"},
    {"report", "report.txt"},
    {"failure-report", "report.txt"},
    {"unannotated", NULL},
};

enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

/* Pairs that exclude each other; all others are to be accepted. A value of NULL: any. */
static const struct excluded {
    struct sample one, other;
    const char *told;
} excluded[] = {
    {{"verbose", NULL}, {"quiet", NULL}, "contradict each other"},
    {{"progress", "on"}, {"quiet", NULL}, "contradict each other"},
    {{"check-every", "0"}, {"verify", NULL}, "leave one out"},
    {{"timestamps", NULL}, {"output", "none"}, "add --tee"},
    {{"timestamps", NULL}, {"output", "files=logs"}, "add --tee"},
    {{"plan", NULL}, {"commit", "trust"}, "leave --commit trust out"},
};

/* These are so by themselves, beside another option's usual value. */
static const struct sample alone[] = {{"tee", NULL}};

static bool
is_sample(const struct sample *wanted, const struct sample *sample)
{
    return strcmp(wanted->name, sample->name) == 0 &&
           (wanted->value == NULL || (sample->value != NULL && strcmp(wanted->value, sample->value) == 0));
}

static size_t
add_words(char **words, size_t count, const struct sample *sample, char name[40])
{
    snprintf(name, 40, "--%s", sample->name);
    words[count++] = name;
    if (sample->value != NULL)
        words[count++] = (char *)(uintptr_t)sample->value;
    return count;
}

/* Whether it is an option of `ddprun check` alone. */
static bool
is_of_check(const struct sample *sample)
{
    const struct option_row *row = option_row_named(&ddprun_command, sample->name);
    return row != NULL && row->group == GROUP_MIXED && (row->flags & OF_JOBS_TOO) == 0;
}

/* Where "check" stands: nowhere, before the options, between them or after them. */
enum place { WITHOUT_CHECK, CHECK_FIRST, CHECK_BETWEEN, CHECK_LAST };

static enum options_result
parse_at(enum place place, const struct sample *one, const struct sample *other, struct error *error)
{
    char *words[MOST_WORDS] = {"ddprun"}, names[2][40];
    size_t count = 1;
    if (place == CHECK_FIRST)
        words[count++] = "check";
    count = add_words(words, count, one, names[0]);
    if (place == CHECK_BETWEEN)
        words[count++] = "check";
    if (other != NULL)
        count = add_words(words, count, other, names[1]);
    if (place == CHECK_LAST)
        words[count++] = "check";
    words[count++] = "./train";
    struct options options;
    enum options_result result = options_parse((int)count, words, &options, error);
    if (result == OPTIONS_RUN) {
        ck_assert_int_eq(options.mixed, place != WITHOUT_CHECK);
        ck_assert_str_eq(options.program[0], "./train");
    }
    options_free(&options);
    return result;
}

/* As a user writes these options. */
static enum options_result
parse(const struct sample *one, const struct sample *other, struct error *error)
{
    bool checks = is_of_check(one) || (other != NULL && is_of_check(other));
    return parse_at(checks ? CHECK_FIRST : WITHOUT_CHECK, one, other, error);
}

/* What is said of a pair; NULL: it goes together. */
static const char *
said_of(const struct sample *one, const struct sample *other)
{
    for (size_t i = 0; i < sizeof(excluded) / sizeof(excluded[0]); ++i) {
        const struct excluded *row = &excluded[i];
        if ((is_sample(&row->one, one) && is_sample(&row->other, other)) ||
            (is_sample(&row->one, other) && is_sample(&row->other, one)))
            return row->told;
    }
    return NULL;
}

static bool
is_bad_alone(const struct sample *sample)
{
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); ++i) {
        if (is_sample(&alone[i], sample))
            return true;
    }
    return false;
}

static void
require_sample(const char *name)
{
    for (size_t k = 0; k < SAMPLES; ++k) {
        if (strcmp(samples[k].name, name) == 0)
            return;
    }
    ck_abort_msg("--%s has no sample here: settle with which options it goes together", name);
}

TEST(every_option_has_a_sample)
{
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        if (row->kind != OPTION_ANSWER) /* --help and the like ask for nothing else */
            require_sample(row->name);
    }
    for (const struct option_synonym *synonym = ddprun_command.synonyms; synonym->name != NULL; ++synonym)
        require_sample(synonym->name);
}

LOOP_TEST(each_pair_is_settled, 0, SAMPLES)
{
    const struct sample *one = &samples[_i];
    struct error error = {0};
    if (!is_bad_alone(one))
        ck_assert_msg(parse(one, NULL, &error) == OPTIONS_RUN, "--%s alone: %s", one->name, error.text);
    for (size_t k = 0; k < SAMPLES; ++k) {
        const struct sample *other = &samples[k];
        const char *told = said_of(one, other);
        bool same = strcmp(one->name, other->name) == 0; /* the last one counts */
        if (same || (told == NULL && (is_bad_alone(one) || is_bad_alone(other))))
            continue;
        enum options_result result = parse(one, other, &error);
        ck_assert_msg((result == OPTIONS_RUN) == (told == NULL), "--%s with --%s: %s", one->name, other->name,
                      result == OPTIONS_RUN ? "accepted" : error.text);
        if (told != NULL)
            ck_assert_msg(strstr(error.text, told) != NULL && strchr(error.text, '\n') == NULL, "%s", error.text);
    }
}

LOOP_TEST(options_of_check_belong_to_check, 0, SAMPLES)
{
    const struct sample *one = &samples[_i];
    struct error error = {0};
    char wanted[64];
    if (!is_of_check(one))
        return;
    snprintf(wanted, sizeof(wanted), "--%s is an option of ddprun check", one->name);
    ck_assert_int_eq(parse_at(WITHOUT_CHECK, one, NULL, &error), OPTIONS_BAD);
    ck_assert_int_eq(error.exit_code, 2);
    ck_assert_msg(strstr(error.text, wanted) != NULL && strchr(error.text, '\n') == NULL, "%s", error.text);
    for (size_t k = 0; k < SAMPLES; ++k) {
        const struct sample *other = &samples[k];
        ck_assert_int_eq(parse_at(WITHOUT_CHECK, one, other, &error), OPTIONS_BAD);
        if (is_bad_alone(other))
            continue;
        /* Options stand on either side of the word. */
        for (enum place place = CHECK_FIRST; place <= CHECK_LAST; ++place)
            ck_assert_msg(parse_at(place, other, one, &error) == OPTIONS_RUN, "--%s with --%s, check at %d: %s",
                          one->name, other->name, (int)place, error.text);
    }
}

/* Parses these words beside `settings`: variables without "DDPRUN_", "NAME=value NAME=value". */
static enum options_result
parse_beside(const char *settings, const char *word, const char *value, struct options *options, struct error *error)
{
    enum { MOST_SETTINGS = 4 };
    char text[100], *words[MOST_WORDS] = {"ddprun"}, names[MOST_SETTINGS][40];
    int count = 1, set = 0;
    snprintf(text, sizeof(text), "%s", settings);
    for (char *setting = strtok(text, " "); setting != NULL && set < MOST_SETTINGS; setting = strtok(NULL, " ")) {
        size_t length = strcspn(setting, "=");
        snprintf(names[set], sizeof(names[set]), "DDPRUN_%.*s", (int)length, setting);
        setenv(names[set++], setting + length + 1, 1);
    }
    if (word != NULL)
        words[count++] = (char *)(uintptr_t)word;
    if (value != NULL)
        words[count++] = (char *)(uintptr_t)value;
    words[count++] = "./train";
    enum options_result result = options_parse(count, words, options, error);
    if (result != OPTIONS_RUN)
        options_free(options);
    while (set > 0)
        unsetenv(names[--set]);
    return result;
}

/* What the command line gives counts in place of the same setting; against another one it does not. */
TEST(settings_exclude_options_as_options_do)
{
    struct options options;
    struct error error = {0};
    ck_assert_int_eq(parse_beside("CHECK_EVERY=0", "--check-every", "5", &options, &error), OPTIONS_RUN);
    ck_assert_int_eq(options.job.check_every, 5);
    options_free(&options);

    ck_assert_int_eq(parse_beside("QUIET=1", "-v", NULL, &options, &error), OPTIONS_BAD);
    ck_assert_int_eq(error.exit_code, 2);
    ck_assert_says(error.text, "in the environment");
    ck_assert_int_eq(parse_beside("VERIFY=1", "--check-every", "0", &options, &error), OPTIONS_BAD);
    ck_assert_int_eq(parse_beside("QUIET=1 VERBOSE=1", NULL, NULL, &options, &error), OPTIONS_BAD);
}

/* Of one version. */
TEST(an_option_that_is_gone_is_refused_with_what_serves_instead)
{
    static const struct {
        struct sample sample;
        const char *told;
    } cases[] = {{{"hang-warning", "5"}, "a tenth of"},        {{"trace-steps", "5-9"}, "first 1000 steps"},
                 {{"trace-args", NULL}, "not its arguments"},  {{"outer-lr", "0.7"}, "DDP_STEP_PARAMETERS"},
                 {{"outer-momentum", "0.9"}, "an outer step"}, {{"sync-every", "8"}, "every K-th update"},
                 {{"communicators", "2"}, "network cards"},    {{"env", "A=1"}, "env NAME=VALUE before"},
                 {{"output", "rank0-all"}, "rank0 prints"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        struct error error = {0};
        for (enum place place = WITHOUT_CHECK; place <= CHECK_FIRST; ++place) {
            ck_assert_int_eq(parse_at(place, &cases[i].sample, NULL, &error), OPTIONS_BAD);
            ck_assert_int_eq(error.exit_code, 2);
            ck_assert_msg(strstr(error.text, "is gone") != NULL && strstr(error.text, cases[i].told) != NULL &&
                              strchr(error.text, '\n') == NULL,
                          "%s", error.text);
        }
    }
}

TEST(a_mistyped_variable_is_not_ignored)
{
    static const struct {
        const char *variable, *told; /* NULL: not a variable of ddprun */
    } cases[] = {{"DDPRUN_BUKET_MB", "did you mean DDPRUN_BUCKET_MB?"},
                 {"DDPRUN_CHECKEVERY", "did you mean DDPRUN_CHECK_EVERY?"},
                 {"DDPRUN_DRY_RUN", "command line only"},
                 {"DDPRUN_DRYRUN", "did you mean --dry-run, on the command line?"},
                 {"DDPRUN_TOLERANCE", "command line only"},
                 {"DDPRUN_TRACE_ARGS", "--trace-args is gone"},
                 {"DDPRUN_OUTER_LR", "--outer-lr is gone"},
                 {"DDPRUN_HANG_WARNING", "--hang-warning is gone"},
                 {"DDPRUN_VERSION", NULL},
                 {"DDPRUN_SOAK", NULL},
                 {"DDPRUN_MY_OWN_NOTE", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        struct error error = {0};
        const struct sample sample = {"ranks", "2"};
        setenv(cases[i].variable, "1", 1);
        enum options_result result = parse(&sample, NULL, &error);
        unsetenv(cases[i].variable);
        ck_assert_msg((result == OPTIONS_RUN) == (cases[i].told == NULL), "%s: %s", cases[i].variable, error.text);
        ck_assert_msg(cases[i].told == NULL || strstr(error.text, cases[i].told) != NULL, "%s", error.text);
    }
}

int
main(void)
{
    options_mix(&check_command, check_rows);
    return tests_run();
}
