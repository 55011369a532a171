/*
 * command.c - the parser of command lines: ddprun's own, and those of its tools (command.h).
 */
#include "launcher/options/command.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LONG_VALUE = 256 };

/* ---- what was probably meant ---- */

/* Letters to insert, drop or change to make one word of the other; neighbours that changed places count once (optimal
 * string alignment). Words longer than the table are far from everything. */
static unsigned
distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    unsigned d[MOST + 1][MOST + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > MOST || n > MOST)
        return MOST;
    for (size_t i = 0; i <= m; ++i) {
        for (size_t j = 0; j <= n; ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[m][n];
}

/* How many letters of a name may be wrong. */
static unsigned
name_slack(const char *name)
{
    return 1 + (unsigned)strlen(name) / 3; /* farther is no typing error */
}

const char *
option_nearest(const struct command *command, const char *name, unsigned most)
{
    const char *nearest = NULL;
    for (const struct option_row *row = command->rows; row->name != NULL; ++row) {
        unsigned far = distance(name, row->name);
        if (far <= most && (nearest == NULL || far < most)) {
            nearest = row->name;
            most = far;
        }
    }
    return nearest;
}

/* Names of commands are short words, and so are those of programs: "train" is not "trace". */
const struct command *
command_nearest(const struct command *const *commands, const char *name)
{
    for (; *commands != NULL; ++commands) {
        if (distance(name, (*commands)->name) <= 1)
            return *commands;
    }
    return NULL;
}

const struct command *
command_named(const struct command *const *commands, const char *name)
{
    while (*commands != NULL && strcmp((*commands)->name, name) != 0)
        ++commands;
    return *commands;
}

/* ---- the parser ---- */

const struct option_row *
option_row_named(const struct command *command, const char *name)
{
    const struct option_row *row = command->rows;
    while (row->name != NULL && strcmp(row->name, name) != 0)
        ++row;
    return row->name != NULL ? row : NULL;
}

static struct option
describe_row(const struct command *command, const char *name, const struct option_row *row)
{
    return (struct option){.name = name,
                           .has_arg = row->argument != NULL ? required_argument : no_argument,
                           .val = FIRST_LONG_VALUE + (int)(row - command->rows)};
}

/* getopt_long's view of the table; long options answer FIRST_LONG_VALUE + row. Synonyms follow the rows. "+": stop at
 * the program; ":": tell a missing value apart. */
static void
describe_to_getopt(const struct command *command, struct option *longs, char *letters)
{
    if (!command->mixes)
        *letters++ = '+';
    *letters++ = ':';
    for (const struct option_row *row = command->rows; row->name != NULL; ++row) {
        *longs++ = describe_row(command, row->name, row);
        if (row->letter == 0)
            continue;
        *letters++ = row->letter;
        if (row->argument != NULL)
            *letters++ = ':';
    }
    *letters = '\0';
    for (const struct option_synonym *synonym = command->synonyms; synonym != NULL && synonym->name != NULL; ++synonym)
        *longs++ = describe_row(command, synonym->name, option_row_named(command, synonym->of));
    *longs = (struct option){0};
}

static const struct option_row *
row_of(const struct command *command, int answer)
{
    for (const struct option_row *row = command->rows; row->name != NULL; ++row) {
        if (answer == FIRST_LONG_VALUE + (int)(row - command->rows) || (row->letter != 0 && answer == row->letter))
            return row;
    }
    return NULL;
}

/* Where ranks of several hosts are named. */
#define OF_MPIRUN \
    "mpirun -n 16 --host h1:8,h2:8 --bind-to none ddprun PROGRAM, or --nnodes with --node-rank and --master,"

/* What options of mpirun, torchrun, srun and horovodrun are called here, or what takes their place. */
static const char *
find_foreign(const char *name)
{
    static const char *const foreign[][2] = {
        {"H", OF_MPIRUN},
        {"host", OF_MPIRUN},
        {"hosts", OF_MPIRUN},
        {"hostfile", OF_MPIRUN},
        {"x", "env NAME=VALUE before ddprun"},
        {"log-dir", "--output files=DIR"},
        {"standalone", "ddprun -n N without it, on one machine"},
        {"timeline-filename", "--trace DIR, and then ddprun trace"},
        {"timeline", "--trace DIR, and then ddprun trace"},
        {"fusion-threshold-mb", "--bucket-mb X"},
        {"bucket-cap-mb", "--bucket-mb X"},
        {"fp16-allreduce", "--compress fp16"},
        {"oversubscribe", "--share-gpu"},
        {"num-gpus", "-n N, or --gpus LIST"},
        {"map-by", "--bind core, and --gpus LIST"},
        {"N", "--nnodes N"},
        {"rdzv-endpoint", "--master HOST:PORT, with --nnodes and --node-rank"},
        {"rdzv-id", "--job NAME"},
        {"master-addr", "--master HOST"},
        {"master-port", "--master HOST:PORT"},
        {"no-python", "ddprun without it: it starts any program"},
    };
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); ++i) {
        if (strcmp(name, foreign[i][0]) == 0)
            return foreign[i][1];
    }
    return NULL;
}

const char *
option_gone(const char *name)
{
    static const char *const gone[][2] = {
        {"hang-warning", "it is a tenth of --hang-timeout"},
        {"trace-steps", "a trace has each of the first 1000 steps, then 900 of each power of ten"},
        {"trace-args", "traces and pages record the program's name, but not its arguments"},
        {"env", "ddprun's own variables are the ranks', too; write env NAME=VALUE before ddprun"},
        {"communicators", "NCCL itself uses several network cards; NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD set "
                          "how many sockets"},
        {"sync-every", "leave DDP_GRADIENT out, and call DDP_STEP_PARAMETERS after every K-th update"},
        {"outer-lr", "the program can make an outer step after DDP_STEP_PARAMETERS"},
        {"outer-momentum", "the program can make an outer step after DDP_STEP_PARAMETERS"},
    };
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); ++i) {
        if (strcmp(name, gone[i][0]) == 0)
            return gone[i][1];
    }
    return NULL;
}

static void
unknown_long_option(const struct command *command, const char *word, struct error *error)
{
    char *name = xstrdup(word + strspn(word, "-")), of[64] = ", before the program";
    name[strcspn(name, "=")] = '\0';
    const char *nearest = option_nearest(command, name, name_slack(name));
    bool is_tool = command->name[0] != '\0';
    if (is_tool)
        snprintf(of, sizeof(of), " of %s", command->name);
    for (char *c = name; *c != '\0'; ++c)
        *c = *c == '_' ? '-' : *c;
    if (!is_tool && find_foreign(name) != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "ddprun has no option %.*s; it is %s here", (int)strcspn(word, "="), word,
                  find_foreign(name));
    else if (!is_tool && option_gone(name) != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "--%s is gone: %s; leave it out", name, option_gone(name));
    else if (nearest != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "unknown option %s%s; did you mean --%s?", word, of, nearest);
    else if (is_tool)
        error_set(error, DDPRUN_EXIT_USAGE,
                  "unknown option %s%s; see ddprun %s --help (options of ddprun itself come before \"%s\")", word, of,
                  command->name, command->name);
    else
        error_set(error, DDPRUN_EXIT_USAGE,
                  "unknown or ambiguous option %s, before the program; see ddprun --help-all (the program's own "
                  "options come after it)",
                  word);
    free(name);
}

static void
unknown_letter(const struct command *command, int letter, struct error *error)
{
    const char text[2] = {(char)letter, '\0'}, *here = find_foreign(text);
    if (command->name[0] == '\0' && here != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "ddprun has no option -%c; it is %s here", letter, here);
    else if (command->name[0] != '\0')
        error_set(error, DDPRUN_EXIT_USAGE, "unknown option -%c of %s; see ddprun %s --help", letter, command->name,
                  command->name);
    else
        error_set(error, DDPRUN_EXIT_USAGE,
                  "unknown option -%c, before the program; see ddprun --help (the program's own options come after it)",
                  letter);
}

/* False. */
static bool
bad_option(const struct command *command, int answer, char **argv, struct error *error)
{
    const struct option_row *row = row_of(command, optopt);
    const char *blank = command->name[0] != '\0' ? " " : "";
    if (answer == ':')
        error_set(error, DDPRUN_EXIT_USAGE, "option --%s needs a value (%s); see ddprun %s%s--help",
                  row != NULL ? row->name : "?", row != NULL ? row->argument : "?", command->name, blank);
    else if (row != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "option --%s takes no value, in '%s'; leave the value out", row->name,
                  argv[optind - 1]);
    else if (optopt != 0)
        unknown_letter(command, optopt, error);
    else
        unknown_long_option(command, argv[optind - 1], error);
    return false;
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

enum options_result
command_parse(const struct command *command, int argc, char **argv, void *target, int *rest_p, struct error *error)
{
    struct option longs[OPTION_ROWS_AT_MOST + 1];
    char letters[3 + 2 * OPTION_ROWS_AT_MOST];
    describe_to_getopt(command, longs, letters);

    if (command->mixes)
        unsetenv("POSIXLY_CORRECT"); /* by which getopt takes no option after the first word */
    optind = 0;                      /* glibc: start afresh, also after an earlier call */
    opterr = 0;
    int answer, at = 0;
    bool ok = true;
    struct error later; /* than the first, which is the caller's */
    for (struct error *why = error; (answer = getopt_long(argc, argv, letters, longs, &at)) != -1;
         why = ok ? error : &later) {
        const struct option_row *row = answer == '?' || answer == ':' ? NULL : row_of(command, answer);
        if (row == NULL || !settle_np(row, argc, argv))
            ok = bad_option(command, row == NULL ? answer : ':', argv, why);
        else if (row->kind == OPTION_ANSWER && ok)
            return (enum options_result)row->answer;
        else if (row->kind != OPTION_ANSWER)
            ok = option_take(row, target, command->name, optarg, why) && ok;
        if (ok && command->note != NULL)
            command->note(target, row, optarg, answer >= FIRST_LONG_VALUE ? longs[at].name : NULL);
    }
    *rest_p = optind;
    return ok ? OPTIONS_RUN : OPTIONS_BAD;
}
