/*
 * contradictions.c - options that exclude each other, in one table. Pairs that are not in it go together;
 * tests/launcher/test_contradictions.c goes through all of them.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"

/* X(CONTRADICTION, what is said of it). */
#define ALL_CONTRADICTIONS(X)                                                                                      \
    X(QUIET_AND_VERBOSE, "--quiet and --verbose contradict each other; leave one out")                             \
    X(QUIET_AND_PROGRESS, "--quiet and --progress on contradict each other; leave one out")                        \
    X(VERIFY_AND_NEVER, "--verify compares in every step, --check-every 0 never; leave one out")                   \
    X(PLAN_AND_SYNC, "--plan averages gradients in each round, --sync-every parameters; leave out one of the two") \
    X(SYNC_AND_SUM, "--sync-every averages parameters, and --reduce sum would multiply them; leave out one of "    \
                    "the two")                                                                                     \
    X(SYNC_AND_COMPRESS, "--sync-every averages parameters, which lose small updates in the 16 bits of "           \
                         "--compress; leave out one of the two")                                                   \
    X(OUTER_WITHOUT_SYNC, "--outer-lr and --outer-momentum are of the step behind an average of --sync-every; "    \
                          "give --sync-every K, too")                                                              \
    X(PER_HOST_AND_HOSTS, "--nproc-per-node counts the ranks of one host, and --hosts does too; "                  \
                          "leave --nproc-per-node out (h1:8,h2:8)")                                                \
    X(NODES_AND_HOSTS, "--hosts starts ddprun on all hosts, and --nnodes is of one that was started on each; "     \
                       "leave one out")                                                                            \
    X(TEE_WITHOUT_FILES, "--tee is for the files of --output files=DIR, which is not given; leave it out, or "     \
                         "give both")

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
        [PLAN_AND_SYNC] = options->plan != NULL && job->sync_every > 0,
        [SYNC_AND_SUM] = job->sync_every > 0 && job->reduction == DDPRUN_REDUCE_SUM,
        [SYNC_AND_COMPRESS] = job->sync_every > 0 && job->compression != DDPRUN_COMPRESS_NONE,
        [OUTER_WITHOUT_SYNC] = job->has_outer && job->sync_every == 0,
        /* With --hosts, -n is the number of ranks on all hosts together. */
        [PER_HOST_AND_HOSTS] = options->ranks_per_host && options->hosts != NULL,
        [NODES_AND_HOSTS] = options->node_count > 0 && options->hosts != NULL,
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
