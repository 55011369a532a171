/*
 * contradictions.c - see contradictions.h.
 */
#include "launcher/options/contradictions.h"

#include "base/protocol.h"

static bool
quiet_and_verbose(const struct options *options)
{
    return options->quiet && options->verbose;
}

static void
settle_quiet_and_verbose(struct options *options, const struct options *given)
{
    if (given->quiet)
        options->verbose = false;
    else if (given->verbose)
        options->quiet = false;
}

static bool
quiet_and_progress(const struct options *options)
{
    return options->quiet && options->progress == PROGRESS_ON;
}

static void
settle_quiet_and_progress(struct options *options, const struct options *given)
{
    if (given->quiet)
        options->progress = PROGRESS_AUTO;
    else if (given->progress == PROGRESS_ON)
        options->quiet = false;
}

static bool
verify_and_never(const struct options *options)
{
    return options->verify && options->check_every == 0;
}

/* Checks are added without asking, but never taken away: --check-every 0 is an error beside a setting that verifies.
 */
static void
settle_verify_and_never(struct options *options, const struct options *given)
{
    if (given->verify)
        options->check_every = DDPRUN_DEFAULT_CHECK_EVERY;
}

/* The warning's usual time says nothing about what the user wants: with a shorter time-out there is just none. */
static bool
warning_after_end(const struct options *options)
{
    return options->hang_warning_given && options->hang_timeout_s != 0 &&
           options->hang_warning_s >= options->hang_timeout_s;
}

/* With --hosts, -n is the number of ranks on all hosts together. */
static bool
per_host_and_hosts(const struct options *options)
{
    return options->ranks_per_host && options->hosts != NULL;
}

/* Sums of parameters are no parameters. */
static bool
sync_and_sum(const struct options *options)
{
    return options->sync_every > 0 && options->reduction == DDPRUN_REDUCE_SUM;
}

static bool
sync_and_compress(const struct options *options)
{
    return options->sync_every > 0 && options->compression != DDPRUN_COMPRESS_NONE;
}

static bool
outer_without_sync(const struct options *options)
{
    return options->has_outer && options->sync_every == 0;
}

static bool
parts_without_trace(const struct options *options)
{
    return (options->trace_last > 0 || options->trace_args) && options->trace_dir == NULL && options->page == NULL;
}

static void
settle_parts_of_trace(struct options *options, const struct options *given)
{
    (void)given;
    options->trace_first = options->trace_last = 0;
    options->trace_args = false;
}

static void
settle_sync(struct options *options, const struct options *given)
{
    if (given->sync_every > 0) {
        options->reduction = DDPRUN_REDUCE_MEAN;
        options->compression = DDPRUN_COMPRESS_NONE;
    } else {
        options->sync_every = 0;
        options->has_outer = false;
    }
}

static const struct contradiction {
    bool (*holds)(const struct options *options);
    void (*settle)(struct options *options, const struct options *given); /* NULL: nothing is to be given up */
    const char *text;
} contradictions[] = {
    {quiet_and_verbose, settle_quiet_and_verbose, "--quiet and --verbose contradict each other; leave one out"},
    {quiet_and_progress, settle_quiet_and_progress, "--quiet and --progress on contradict each other; leave one out"},
    {verify_and_never, settle_verify_and_never,
     "--verify compares in every step, --check-every 0 never; leave one out"},
    {warning_after_end, NULL,
     "--hang-warning is not before --hang-timeout, so no warning would appear; give a smaller number of seconds"},
    {sync_and_sum, settle_sync,
     "--sync-every averages parameters, and --reduce sum would multiply them; leave out one of the two"},
    {sync_and_compress, settle_sync,
     "--sync-every averages parameters, which lose small updates in the 16 bits of --compress; leave out one of the "
     "two"},
    {outer_without_sync, NULL,
     "--outer-lr and --outer-momentum are of the step behind an average of --sync-every; give --sync-every K, too"},
    {parts_without_trace, settle_parts_of_trace,
     "--trace-steps and --trace-args say what is in a trace; give --trace DIR or --page FILE, too"},
    {per_host_and_hosts, NULL,
     "--nproc-per-node counts the ranks of one host, and --hosts does too; leave --nproc-per-node out (h1:8,h2:8)"},
};

bool
contradictions_settle(struct options *options, const struct options *given, struct error *error)
{
    for (size_t i = 0; i < sizeof(contradictions) / sizeof(contradictions[0]); ++i) {
        const struct contradiction *row = &contradictions[i];
        if (!row->holds(options))
            continue;
        if (row->settle != NULL && !row->holds(given))
            row->settle(options, given);
        if (row->holds(options))
            return error_set(error, DDPRUN_EXIT_USAGE, "%s", row->text);
    }
    return true;
}
