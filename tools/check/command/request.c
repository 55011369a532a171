/*
 * request.c - what was asked of a check, and whether it can be done (session.h). Everything that can be refused is
 * refused before the first run.
 */
#include "tools/check/command/session.h"

#include "launcher/options/option_rows.h"
#include "launcher/output/whole_file.h"
#include "launcher/start/environment.h"
#include "launcher/start/spawn.h"
#include "tools/check/command/check.h"
#include "tools/check/format/element.h"
#include "tools/check/format/reference.h"
#include "tools/common/tool_options.h"
#include "tools/plan/command/auto.h"

#include <wordexp.h>

enum { DEFAULT_RANKS = 2 };

/* ---- options, and what becomes of ddprun's own in the runs ---- */

struct check_options check_options;

void
check_options_reset(void)
{
    check_options = (struct check_options){.tolerance = -1};
}

/* May be empty: no arguments. */
static bool
take_alone(const struct option_row *row, void *target, const char *value, struct error *error)
{
    struct check_options *options = target;
    (void)row, (void)error;
    options->alone = value;
    return true;
}

#define OPTION_TARGET                 struct check_options
#define OPTION(name_, argument_, ...) OPTION_ALSO(name_, argument_, 0, __VA_ARGS__)
#define OPTION_ALSO(name_, argument_, flags_, ...)          \
    {.name = name_,                                         \
     .argument = argument_,                                 \
     .group = GROUP_MIXED,                                  \
     .flags = COMMAND_LINE_ONLY | NOT_HANDED_ON | (flags_), \
     .target = &check_options,                              \
     __VA_ARGS__},
/* clang-format off */
const struct option_row check_rows[] = {
OPTION("steps", "K", WHOLE(steps, 1, 10000, "a number of steps from 1 to 10000"),
       .help = "compare K steps, 1 to 10000 (default: 64, or as many as one\n"
               "process makes in 30 s)")
OPTION("alone", "ARGS", SPECIAL(take_alone),
       .help = "run one process with ARGS instead of the program's arguments: for\n"
               "programs with an option for the batch of a rank. ARGS is split as\n"
               "a shell does, without $(...)")
OPTION("reference", "FILE", TEXT(reference, "a file"),
       .help = "check in two commands: with -n 1 write one process's results to FILE;\nwith more ranks, also under srun or mpirun, compare with FILE")
OPTION("tolerance", "X", REAL(tolerance, 0, 1, "a relative difference from 0 to 1"),
       .help = "relative difference that counts as equal. Default: 20 times what\ntwo runs of one process differ by, at least 1e-5 and at most 4e-5; 4e-3\nwith float16 or TF32, 3e-2 with bfloat16. If X is more\nthan four times the default, check never reports equal: such a\ntolerance proves nothing")
OPTION("free", NULL, SWITCH(is_free),
       .help = "let each rank continue from its own values: differences add up\n"
               "(default: each step starts from the values of one process)")
OPTION_ALSO("per-rank", "LIST", OF_JOBS_TOO, TEXT(per_rank, "memory as a3,a7"),
       .help = "for --plan auto: ddprun scout --help explains it")
OPTION("json", "FILE", TEXT(json, "a file"),
       .help = "write the verdict and all tensors to FILE, as JSON")
{0}};
/* clang-format on */

const char *const check_refuses[] = {"max-restarts", "trace", "dry-run",     "output", "metrics",
                                     "summary-json", "page",  "stop-on-nan", NULL};
const char *const check_sets[] = {"progress", "verbose", "quiet",   "max-restarts", "trace",
                                  "dry-run",  "output",  "metrics", "summary-json", "page",
                                  "by",       "yes",     "slow",    "stop-on-nan",  NULL};

/* ---- whether it can be done ---- */

static bool
find_ranks(struct check *check, struct error *error)
{
    const struct options *options = check->options;
    const char *rank = getenv("PMIX_RANK");
    check->in_cluster = rank != NULL && getenv("PMIX_NAMESPACE") != NULL && getenv(DDPRUN_ENV_JOB_DIR) == NULL;
    check->cluster_rank = check->in_cluster ? atoi(rank) : 0;
    check->ranks = options->rank_count;
    if (check->in_cluster && check_options.reference == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "another launcher has started the ranks, and ddprun check cannot start them again; first "
                         "write one process's results: ddprun check -n 1 --reference FILE PROGRAM, then start ddprun "
                         "check --reference FILE PROGRAM by srun or mpirun");
    if (check->in_cluster && check->ranks != 0 && check->ranks != 1)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "another launcher has started ddprun check, and sets the number of ranks: leave -n out");
    if (check->in_cluster && check->ranks == 0)
        return true;
    check->in_cluster = false;
    if (check->ranks == 0)
        check->ranks = DEFAULT_RANKS;
    check->only_writes = check->ranks == 1 && check_options.reference != NULL;
    if (check->ranks == 1 && !check->only_writes)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n 1 compares one process with itself; give -n 2 or more, or --reference FILE to write one "
                         "process's results");
    return true;
}

/* Of options on the command line; what is a setting for all jobs is left out of the runs. */
static bool
refuse_others(const struct check *check, struct error *error)
{
    const struct options *options = check->options;
    if (!options_refuse(options_given(options, check_refuses), "check", error))
        return false;
    if (check_options.per_rank != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--per-rank is for ddprun --plan auto, and ddprun check makes no plan; leave it out");
    return whole_file_check(check_options.json, "--json", error);
}

/* An absolute path for a file that need not exist; where a link is, that of what it names. */
static char *
absolute_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real != NULL)
        return real;
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *whole = here != NULL ? xasprintf("%s/%s", here, path) : xstrdup(path);
    free(here);
    return whole;
}

/* The file of --reference, if there is one already, must be a reference; nothing else is ever replaced. */
static bool
look_at_reference(struct check *check, struct error *error)
{
    const char *file = check_options.reference;
    struct reference_reader reader;
    const char *why;
    if (file == NULL)
        return true;
    check->reference = absolute_path(file);
    bool there = access(check->reference, F_OK) == 0;
    if (!there && !check->in_cluster)
        return whole_file_check(check->reference, "--reference", error);
    if (check->only_writes)
        return reference_is_one(check->reference) ||
               error_set(error, DDPRUN_EXIT_USAGE,
                         "%s, in --reference, is there already and is not a reference that ddprun check has written; "
                         "name another file",
                         file);
    if (!reference_open(check->reference, &reader, &why))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "cannot use %s, in --reference: %s; write it with ddprun check -n 1 --reference", file, why);
    unsigned steps = reader.steps_made;
    bool is_free = reader.header.is_free != 0;
    reference_free(&reader);
    if (check->is_free && !is_free)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "%s, in --reference, was written without --free; write it again with it", file);
    check->is_free = is_free;
    check->has_reference = true;
    if (check_options.steps != 0 && check_options.steps != steps)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "%s, in --reference, has %u steps, and --steps asks for %u; leave --steps out, or write it again", file,
            steps, check_options.steps);
    check->steps = steps;
    return true;
}

/* The program and its arguments in runs of one rank: the words that a shell makes of --alone. NULL with an error. */
static char **
split_alone(const char *program, const char *line, struct error *error)
{
    struct word_list list = {0};
    wordexp_t words;
    if (wordexp(line, &words, WRDE_NOCMD) != 0) {
        error_set(error, DDPRUN_EXIT_USAGE,
                  "'%s', in --alone, is no list of arguments for a shell: close each quote, and quote ;|&<>(){} and $(",
                  line);
        return NULL;
    }
    word_list_add(&list, xstrdup(program));
    for (size_t i = 0; i < words.we_wordc; ++i)
        word_list_add(&list, xstrdup(words.we_wordv[i]));
    wordfree(&words);
    return list.list;
}

/* Of --plan: refuses what does not go with it, and a plan that ranks cannot follow. */
static bool
prepare_plan(const struct check *check, struct error *error)
{
    const struct options *options = check->options;
    const char *other = check_options.reference != NULL               ? "--reference"
                        : check_options.alone != NULL                 ? "--alone"
                        : options->job.reduction == DDPRUN_REDUCE_SUM ? "--reduce sum"
                                                                      : NULL;
    if (strcmp(options->plan, "auto") == 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ddprun check makes no plan; make one by ddprun scout --prove --json FILE, and give --plan "
                         "FILE (a file of that name: --plan ./auto)");
    if (other != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s and --plan contradict each other in ddprun check; leave one out",
                         other);
    char *to = xasprintf("%s/" DDPRUN_PLAN_NAME, check->folder.path);
    bool ok =
        plan_file_prepare(options->plan, options->plan, options->unproved, options->reads == PLAN_READS_OWN, to, error);
    unlink(to);
    free(to);
    return ok;
}

bool
session_prepare(struct check *check, struct error *error)
{
    const struct options *options = check->options;
    check->is_free = check_options.is_free || options->plan != NULL;
    check->chooses_steps = check_options.steps == 0;
    check->steps = check_options.steps != 0 ? check_options.steps : CHECK_STEPS;
    check->evidence.by_plan = options->plan != NULL;
    if (!find_ranks(check, error) || !refuse_others(check, error) || !look_at_reference(check, error) ||
        !job_folder_make(&check->folder, error) || (options->plan != NULL && !prepare_plan(check, error)))
        return false;
    check->alone = check_options.alone != NULL ? split_alone(options->program[0], check_options.alone, error)
                                               : environment_copy(options->program);
    if (check->alone == NULL)
        return false;
    if (check->reference == NULL)
        check->reference = xasprintf("%s/reference", check->folder.path);
    char *unfinished = xasprintf("%s.%d.new", check->reference, (int)getpid()); /* session_make_reference() writes it */
    guardian_start(check->folder.path, check->has_reference ? NULL : unfinished);
    free(unfinished);
    check->place.options = options;
    check->place.folder = check->folder.path;
    check->place.shared = check->in_cluster ? check->reference : NULL;
    check->place.date_us = (int64_t)time(NULL) * 1000000;
    check->place.step_limit_s = options->timeout_s;
    bool kept = check_options.reference != NULL;
    check->runs_planned = check->evidence.by_plan ? 2
                          : check->has_reference  ? 1
                                                  : 3 + (kept ? 2 : 0) + (check->only_writes ? 0 : 1);
    check->evidence.steps = check->steps;
    check->evidence.tolerance = check_options.tolerance;
    check->evidence.forced = !check->is_free;
    check->evidence.sums = options->job.reduction == DDPRUN_REDUCE_SUM;
    static const int wire_types[] = {[DDPRUN_COMPRESS_NONE] = 0,
                                     [DDPRUN_COMPRESS_FP16] = ELEMENT_FLOAT16,
                                     [DDPRUN_COMPRESS_BF16] = ELEMENT_BFLOAT16};
    check->evidence.wire_type = wire_types[options->job.compression];
    return true;
}
