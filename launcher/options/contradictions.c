/*
 * contradictions.c - options that exclude each other, in one table. Pairs that are not in it go together;
 * tests/launcher/test_contradictions.c goes through all of them.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"

/* X(CONTRADICTION, what is said of it). */
#define ALL_CONTRADICTIONS(X)                                                                                \
    X(QUIET_AND_VERBOSE, "--quiet and --verbose contradict each other; leave one out")                       \
    X(QUIET_AND_PROGRESS, "--quiet and --progress on contradict each other; leave one out")                  \
    X(VERIFY_AND_NEVER, "--verify compares parameters in every step, --check-every 0 in few; leave one out") \
    X(TEE_WITHOUT_FILES, "--tee needs --output files=DIR; give both, or leave --tee out")

enum contradiction {
#define CONTRADICTION(name, text) name,
    ALL_CONTRADICTIONS(CONTRADICTION) CONTRADICTIONS
#undef CONTRADICTION
};

#define TEXT(name, text) text,
static const char *const texts[] = {ALL_CONTRADICTIONS(TEXT)};

static bool
holds(enum contradiction which, const struct options *options)
{
    const struct job_options *job = &options->job;
    const bool hold[CONTRADICTIONS] = {
        [QUIET_AND_VERBOSE] = options->quiet && options->verbose,
        [QUIET_AND_PROGRESS] = options->quiet && options->progress == PROGRESS_ON,
        [VERIFY_AND_NEVER] = job->verify && job->check_every == 0,
        [TEE_WITHOUT_FILES] = options->tee && options->output != OUTPUT_FILES,
    };
    return hold[which];
}

bool
contradictions_check(const struct options *options, struct error *error)
{
    for (enum contradiction which = 0; which < CONTRADICTIONS; ++which) {
        if (holds(which, options))
            return error_set(error, DDPRUN_EXIT_USAGE, "%s%s", texts[which],
                             options->has_settings ? " (DDPRUN_ variables in the environment are options, too)" : "");
    }
    return true;
}
