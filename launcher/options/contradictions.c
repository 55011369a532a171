/*
 * contradictions.c - options that exclude each other, in one table. Pairs that are not in it go together;
 * tests/launcher/test_contradictions.c goes through all of them.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"

enum contradiction {
    QUIET_AND_VERBOSE,
    QUIET_AND_PROGRESS,
    VERIFY_AND_NEVER,
    WARNING_AFTER_END,
    PLAN_AND_SYNC,
    SYNC_AND_SUM,
    SYNC_AND_COMPRESS,
    OUTER_WITHOUT_SYNC,
    PARTS_WITHOUT_TRACE,
    PER_HOST_AND_HOSTS,
    NODES_AND_HOSTS,
    TEE_WITHOUT_FILES,
    CONTRADICTIONS,
};

static const char *const texts[CONTRADICTIONS] = {
    [QUIET_AND_VERBOSE] = "--quiet and --verbose contradict each other; leave one out",
    [QUIET_AND_PROGRESS] = "--quiet and --progress on contradict each other; leave one out",
    [VERIFY_AND_NEVER] = "--verify compares in every step, --check-every 0 never; leave one out",
    [WARNING_AFTER_END] = "--hang-warning is not before --hang-timeout, so no warning would appear; give a smaller "
                          "number of seconds",
    [PLAN_AND_SYNC] = "--plan averages gradients in each round, --sync-every parameters; leave out one of the two",
    [SYNC_AND_SUM] = "--sync-every averages parameters, and --reduce sum would multiply them; leave out one of the two",
    [SYNC_AND_COMPRESS] = "--sync-every averages parameters, which lose small updates in the 16 bits of --compress; "
                          "leave out one of the two",
    [OUTER_WITHOUT_SYNC] = "--outer-lr and --outer-momentum are of the step behind an average of --sync-every; give "
                           "--sync-every K, too",
    [PARTS_WITHOUT_TRACE] = "--trace-steps and --trace-args say what is in a trace; give --trace DIR or --page FILE, "
                            "too",
    [PER_HOST_AND_HOSTS] = "--nproc-per-node counts the ranks of one host, and --hosts does too; leave "
                           "--nproc-per-node out (h1:8,h2:8)",
    [TEE_WITHOUT_FILES] =
        "--tee is for the files of --output files=DIR, which is not given; leave it out, or give both",
    [NODES_AND_HOSTS] =
        "--hosts starts ddprun on all hosts, and --nnodes is of one that was started on each; leave one "
        "out",
};

static bool
holds(enum contradiction which, const struct options *options)
{
    const struct job_options *job = &options->job;
    switch (which) {
    case QUIET_AND_VERBOSE:
        return options->quiet && options->verbose;
    case QUIET_AND_PROGRESS:
        return options->quiet && options->progress == PROGRESS_ON;
    case VERIFY_AND_NEVER:
        return job->verify && job->check_every == 0;
    case WARNING_AFTER_END: /* the warning's usual time says nothing about what the user wants: there is just none */
        return options->hang_warning_given && options->hang_timeout_s != 0 &&
               options->hang_warning_s >= options->hang_timeout_s;
    case PLAN_AND_SYNC:
        return options->plan != NULL && job->sync_every > 0;
    case SYNC_AND_SUM: /* sums of parameters are no parameters */
        return job->sync_every > 0 && job->reduction == DDPRUN_REDUCE_SUM;
    case SYNC_AND_COMPRESS:
        return job->sync_every > 0 && job->compression != DDPRUN_COMPRESS_NONE;
    case OUTER_WITHOUT_SYNC:
        return job->has_outer && job->sync_every == 0;
    case PARTS_WITHOUT_TRACE:
        return (job->trace_last > 0 || options->trace_args) && options->trace_dir == NULL && options->page == NULL;
    case TEE_WITHOUT_FILES:
        return options->tee && options->output != OUTPUT_FILES;
    case NODES_AND_HOSTS:
        return options->node_count > 0 && options->hosts != NULL;
    default: /* with --hosts, -n is the number of ranks on all hosts together */
        return options->ranks_per_host && options->hosts != NULL;
    }
}

/* Gives up what a setting says, where the command line says the other. */
static void
settle(enum contradiction which, struct options *options, const struct options *given)
{
    switch (which) {
    case QUIET_AND_VERBOSE:
        options->verbose = options->verbose && !given->quiet;
        options->quiet = options->quiet && !given->verbose;
        break;
    case QUIET_AND_PROGRESS:
        if (given->quiet)
            options->progress = PROGRESS_AUTO;
        else if (given->progress == PROGRESS_ON)
            options->quiet = false;
        break;
    case VERIFY_AND_NEVER: /* checks are added without asking, but never taken away by --check-every 0 */
        if (given->job.verify)
            options->job.check_every = DDPRUN_DEFAULT_CHECK_EVERY;
        break;
    case SYNC_AND_SUM:
    case SYNC_AND_COMPRESS:
        if (given->job.sync_every > 0) {
            options->job.reduction = DDPRUN_REDUCE_MEAN;
            options->job.compression = DDPRUN_COMPRESS_NONE;
        } else if (given->job.reduction == DDPRUN_REDUCE_SUM || given->job.compression != DDPRUN_COMPRESS_NONE) {
            options->job.sync_every = 0;
            options->job.has_outer = false;
        }
        break;
    case PARTS_WITHOUT_TRACE:
        options->job.trace_first = options->job.trace_last = 0;
        options->trace_args = false;
        break;
    case TEE_WITHOUT_FILES:
        options->tee = false;
        break;
    default: /* nothing is to be given up */
        break;
    }
}

bool
contradictions_settle(struct options *options, const struct options *given, struct error *error)
{
    for (enum contradiction which = 0; which < CONTRADICTIONS; ++which) {
        if (holds(which, options) && !holds(which, given))
            settle(which, options, given);
        if (holds(which, options))
            return error_set(error, DDPRUN_EXIT_USAGE, "%s", texts[which]);
    }
    return true;
}
