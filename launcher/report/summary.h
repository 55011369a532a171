/*
 * summary.h - how a job ended, as a file for other programs: --summary-json. docs/man/ddprun.1.in documents its
 * members.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_SUMMARY_H
#define DDPRUN_LAUNCHER_REPORT_SUMMARY_H

#include "launcher/common/error.h"
#include "launcher/common/rank_view.h"
#include "launcher/options/options.h"
#include "launcher/output/whole_file.h"

/* What becomes of a job. */
struct summary {
    const struct rank_view *ranks; /* [rank_count], and one if that is 0 */
    int rank_count;
    int exit_code;
    const char *reason;    /* of a failure; NULL or "": none */
    double seconds;        /* from the first rank's start to the end */
    unsigned restarts;     /* of --max-restarts, so far */
    bool unbound;          /* ranks are bound to no cores, and there is one for each */
    const char *attempts;  /* summary_attempts() of the attempt before; NULL: none */
    unsigned grace_s;      /* --grace */
    int signal;            /* that asked ranks to stop, and the job then ended; 0: none */
    char *const *program;  /* the trainer and its arguments; NULL: not known */
    int64_t begun_unix_ns; /* when this attempt began; 0: it did not */
};

/*
 * How all attempts ended, the last 100 of them, this one included: a JSON array, for the next attempt; malloc'ed. What
 * `attempts` holds is taken over if it is one.
 */
char *summary_attempts(const struct summary *summary);

/* The step in which nonfinite_rank() had its first infinite value or NaN; 0: none had. */
uint64_t summary_nonfinite_step(const struct summary *summary);

/* How many warnings there were, of all ranks and of ddprun itself. */
uint64_t summary_warning_count(const struct summary *summary);

/* The file of --summary-json; NULL: none. */
struct side_file summary_file(const char *path);

/* Begins to write it. A regular file is replaced, whole or not at all; into anything else (/dev/stdout, a pipe) it is
 * written. */
void summary_write(struct side_file *file, const struct summary *summary);

/*
 * The same for a job that is refused before anything of it was started: no ranks, `error` and its exit code. Who
 * reads the file must not take it for that of an earlier job. Nothing if `path` is NULL or not one that can be written.
 */
void summary_write_refused(const char *path, const struct error *error);

/* ---- in a trace ---- */

/*
 * The launcher's line in a trace: how the job ended, its settings, and the program's name. Ranks write their files by
 * themselves; what only the launcher knows stands after rank 0's last line, for `ddprun report`. docs/trace.md has the
 * format. After the ranks' end. Writes nothing if this job, which began at `begun_unix_ns`, has made no trace in its
 * folder: no file, another one, or one of an earlier job. A helper's work (helper.h); data: struct trace_summary.
 */
struct trace_summary {
    const struct options *options;
    int64_t begun_unix_ns;
    const struct summary *summary;
};
int trace_summary_add(const void *data);

#endif
