/*
 * options.c - see options.h: the parser of the command line. The options themselves are in option_table.c.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/contradictions.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LONG_VALUE = 256, MOST_ROWS = 96, DEFAULT_HEARTBEAT_TIMEOUT_S = 15 };

static struct option
describe_row(const char *name, int row)
{
    return (struct option){.name = name,
                           .has_arg = option_rows[row].argument != NULL ? required_argument : no_argument,
                           .val = FIRST_LONG_VALUE + row};
}

/* getopt_long's view of the table; long options answer FIRST_LONG_VALUE + row. Synonyms follow the rows. "+": stop at
 * the program; ":": tell a missing value apart. */
static void
describe_to_getopt(struct option *longs, char *letters)
{
    *letters++ = '+';
    *letters++ = ':';
    for (int i = 0; i < option_row_count; ++i) {
        longs[i] = describe_row(option_rows[i].name, i);
        if (option_rows[i].letter == 0)
            continue;
        *letters++ = option_rows[i].letter;
        if (option_rows[i].argument != NULL)
            *letters++ = ':';
    }
    *letters = '\0';
    for (int i = 0; i < option_synonym_count; ++i) {
        int row = (int)(option_row_named(option_synonyms[i].of) - option_rows);
        longs[option_row_count + i] = describe_row(option_synonyms[i].name, row);
    }
    longs[option_row_count + option_synonym_count] = (struct option){0};
}

static const struct option_row *
row_of(int answer)
{
    for (int i = 0; i < option_row_count; ++i) {
        if (answer == FIRST_LONG_VALUE + i || (option_rows[i].letter != 0 && answer == option_rows[i].letter))
            return &option_rows[i];
    }
    return NULL;
}

static void
bad_long_option(const char *word, struct error *error)
{
    char *name = xstrdup(word + strspn(word, "-"));
    name[strcspn(name, "=")] = '\0';
    const char *nearest = option_nearest_name(name);
    if (nearest != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "unknown option %s, before the program; did you mean --%s?", word, nearest);
    else
        error_set(
            error, DDPRUN_EXIT_USAGE,
            "unknown or ambiguous option %s, before the program; see ddprun --help-all (the program's own options "
            "stand behind it)",
            word);
    free(name);
}

/* mpirun's -np N, which getopt takes for -n with the value p. False: N is missing. */
static bool
settle_np(const struct option_row *row, int argc, char *const *argv)
{
    if (row->letter != 'n' || optarg != argv[optind - 1] + 2 || strcmp(optarg, "p") != 0)
        return true;
    optopt = (unsigned char)row->letter;
    optarg = optind < argc ? argv[optind++] : NULL;
    return optarg != NULL;
}

static bool
is_per_host(int answer, int at)
{
    return answer >= FIRST_LONG_VALUE && at >= option_row_count && option_synonyms[at - option_row_count].is_per_host;
}

static enum options_result
bad_option(int answer, char **argv, struct error *error)
{
    const struct option_row *row = row_of(optopt);
    if (answer == ':')
        error_set(error, DDPRUN_EXIT_USAGE, "option --%s wants a value (%s), which is missing; see ddprun --help",
                  row != NULL ? row->name : "?", row != NULL ? row->argument : "?");
    else if (row != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "option --%s takes no value, in '%s'; leave the value out", row->name,
                  argv[optind - 1]);
    else if (optopt != 0)
        error_set(
            error, DDPRUN_EXIT_USAGE,
            "unknown option -%c, before the program; see ddprun --help (the program's own options stand behind it)",
            optopt);
    else
        bad_long_option(argv[optind - 1], error);
    return OPTIONS_BAD;
}

/* For the ddprun that --hosts starts in place of this one. */
static void
note_given(struct options *options, const struct option_row *row, const char *value)
{
    if (row->not_handed_on)
        return;
    size_t count = 0;
    while (options->given != NULL && options->given[count] != NULL)
        ++count;
    options->given = xrealloc(options->given, (count + 2) * sizeof(*options->given));
    options->given[count] = value != NULL ? xasprintf("--%s=%s", row->name, value) : xasprintf("--%s", row->name);
    options->given[count + 1] = NULL;
}

/* One row of options, up to the first non-option word, whose place is then in optind. */
static enum options_result
parse_row(int argc, char **argv, struct options *options, struct error *error)
{
    struct option longs[MOST_ROWS + 1];
    char letters[3 + 2 * MOST_ROWS];
    describe_to_getopt(longs, letters);

    optind = 0; /* glibc: start afresh, also after an earlier call */
    opterr = 0;
    int answer, at = 0;
    while ((answer = getopt_long(argc, argv, letters, longs, &at)) != -1) {
        const struct option_row *row = answer == '?' || answer == ':' ? NULL : row_of(answer);
        if (row == NULL || !settle_np(row, argc, argv))
            return bad_option(row == NULL ? answer : ':', argv, error);
        if (row->letter == 'n')
            options->ranks_per_host = is_per_host(answer, at);
        if (row->take == NULL)
            return row->letter == 'V'     ? OPTIONS_VERSION
                   : options->check.asked ? OPTIONS_HELP_CHECK
                   : row->letter == 'h'   ? OPTIONS_HELP
                                          : OPTIONS_HELP_ALL;
        if (!row->take(row, options, optarg, error))
            return OPTIONS_BAD;
        note_given(options, row, optarg);
    }
    return OPTIONS_RUN;
}

static enum options_result
parse_all(int argc, char **argv, struct options *options, struct error *error)
{
    enum options_result result = parse_row(argc, argv, options, error);
    if (result == OPTIONS_RUN && optind < argc && strcmp(argv[optind], "check") == 0) { /* more options are behind it */
        options->check.asked = true;
        argc -= optind;
        argv += optind;
        result = parse_row(argc, argv, options, error);
    }
    if (result != OPTIONS_RUN)
        return result;
    if (optind >= argc) {
        error_set(error, DDPRUN_EXIT_USAGE,
                  options->check.asked ? "no program given, after check; write for example: ddprun check -n 2 "
                                         "./train (see ddprun check --help)"
                  : argc > 1           ? "no program given, after the options; write for example: ddprun -n 2 "
                                         "./train (see ddprun --help)"
                                       : "trains a single-GPU CUDA program on several GPUs; which one?\n"
                                         "  ddprun -n 8 ./train    eight ranks on eight GPUs\n"
                                         "  ddprun --help          what else it can do");
        return OPTIONS_BAD;
    }
    options->program = argv + optind;
    return OPTIONS_RUN;
}

/* take_ranks() accepts as many as several hosts can have. `given`: by the command line alone. */
static bool
check_rank_count(const struct options *options, const struct options *given, struct error *error)
{
    if (options->rank_count <= OPTIONS_MOST_RANKS || options->hosts != NULL)
        return true;
    bool set = given->rank_count == 0 && options->ranks_setting != NULL;
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "%.1500s%s'%d' is not a number of ranks from 1 to %d, in --ranks; see ddprun --help",
                     set ? options->ranks_setting : "", set ? ": " : "", options->rank_count, OPTIONS_MOST_RANKS);
}

static struct options
default_options(void)
{
    return (struct options){
        .device = DEVICE_AUTO,
        .overlap = true,
        .cost_cache = true,
        .communicator_count = 1,
        .outer_rate = 1,
        .check_every = DDPRUN_DEFAULT_CHECK_EVERY,
        .timeout_s = DDPRUN_DEFAULT_TIMEOUT_S,
        .heartbeat_timeout_s = DEFAULT_HEARTBEAT_TIMEOUT_S,
        .hang_warning_s = OPTIONS_DEFAULT_HANG_WARNING_S,
        .hang_timeout_s = OPTIONS_DEFAULT_HANG_TIMEOUT_S,
        .check = {.tolerance = -1, .floor_factor = 20},
    };
}

static bool
check_belongs(const struct options *options, struct error *error)
{
    return options->check.asked || options->check.given == NULL ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "--%s is an option of ddprun check; write ddprun check --%s ... (see ddprun check --help)",
                     options->check.given, options->check.given);
}

/* Twice: what --config says is known only after the first time, and what the file says gives way to the second. */
enum options_result
options_parse(int argc, char **argv, struct options *options_p, struct error *error)
{
    struct options first = default_options(), options = default_options();
    enum options_result result = parse_all(argc, argv, &first, error);
    options.config = first.config;
    if (first.dry_run)
        options_p->dry_run = true;
    if (result != OPTIONS_RUN) {
        options_free(&first);
        return result;
    }
    bool ok = settings_apply(&options, error) && parse_all(argc, argv, &options, error) == OPTIONS_RUN &&
              check_rank_count(&options, &first, error) && check_belongs(&options, error) &&
              contradictions_settle(&options, &first, error);
    options_free(&first);
    if (!ok) {
        options_free(&options);
        return OPTIONS_BAD;
    }
    *options_p = options;
    return OPTIONS_RUN;
}

static void
free_list(char **list)
{
    for (char **item = list; item != NULL && *item != NULL; ++item)
        free(*item);
    free(list);
}

void
options_free(struct options *options)
{
    gpu_list_free(&options->gpus);
    free_list(options->variables);
    free_list(options->given);
    free_list(options->owned);
    *options = (struct options){0};
}

unsigned
options_rank_timeout_s(const struct options *options)
{
    unsigned later = options->hang_timeout_s + (DDPRUN_DEFAULT_TIMEOUT_S - OPTIONS_DEFAULT_HANG_TIMEOUT_S);
    bool given = options->timeout_s != DDPRUN_DEFAULT_TIMEOUT_S;
    return given || later < options->timeout_s ? options->timeout_s : later;
}
