/*
 * options.c - the options of `ddprun check` as a table, and what becomes of ddprun's own options in its runs (check.h).
 */
#include "tools/check/command/check.h"

#include "launcher/options/option_rows.h"

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
const char *const check_sets[] = {
    "progress",     "verbose", "quiet", "max-restarts", "trace", "dry-run",     "output", "metrics",
    "summary-json", "page",    "by",    "yes",          "slow",  "stop-on-nan", "commit", NULL};
