/*
 * request.c - what was asked of a check, and whether it can be done (session.h). Everything that can be refused is
 * refused before the first run.
 */
#include "tools/check/command/session.h"

#include "launcher/output/whole_file.h"
#include "launcher/start/environment.h"
#include "launcher/start/spawn.h"
#include "tools/check/command/check.h"
#include "tools/check/format/reference.h"
#include "tools/common/tool_options.h"
#include "tools/near/element.h"

#include <wordexp.h>

enum { DEFAULT_RANKS = 2 };

/* Sets check->ranks (0: another launcher's number), in_cluster, cluster_rank and only_writes from -n, --reference and
 * the environment of another launcher. False, with the error that names the right command: they contradict each
 * other. */
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

/* False, with the error: an option on the command line contradicts check, or the file of --json cannot be written.
 * What is a setting for all jobs is left out of the runs. */
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

/* Reads the head of the file of --reference, if it is there already: it must be a reference, for nothing else is
 * ever replaced. False, with the error: it cannot be used. */
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

/* How many runs a check needs where all is right. */
static int
count_runs(const struct check *check)
{
    enum { OF_ONE_RANK = 5 }; /* where a reference is kept */
    if (check->evidence.by_plan)
        return 2;
    if (check->has_reference)
        return 1;
    if (check_options.reference == NULL)
        return 2; /* as far as is known: floor_may_wait() */
    return check->only_writes ? OF_ONE_RANK : OF_ONE_RANK + 1;
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
        !job_folder_make(&check->folder, error) || (options->plan != NULL && !by_plan_prepare(check, error)))
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
    check->runs_planned = count_runs(check);
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
