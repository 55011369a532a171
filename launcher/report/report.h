/*
 * report.h - what is known of the ranks when one of them has failed or hangs, in lines for the user.
 *
 * Lines are indented and end with a newline; they stand below the one line that says what happened. Called by the
 * supervisor, once or a few times in a job, before it ends anything: what a report looks at must still be there.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_REPORT_H
#define DDPRUN_LAUNCHER_REPORT_REPORT_H

#include "launcher/common/error.h"
#include "launcher/common/rank_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rank_status;

/* One rank, where it lives. All borrowed. */
struct report_subject {
    int rank;
    const struct rank_view *view;
    struct rank_status *status; /* its record, followed by the flight recorder */
    bool continues;             /* the job does (struct stacks_subject) */
    bool stacks;                /* its threads' stacks too, if it lives: takes up to five seconds */
    const char *crash;          /* what report_crash() said of it; NULL: it has not crashed */
};

enum { REPORT_BYTES = 32 << 10 }; /* room enough for one rank */

/* Headings of its parts; what stands above the first says what the rank does. */
#define REPORT_EVENTS  "    its last events:"
#define REPORT_THREADS "    its threads:"

/*
 * Where the rank is, what it did last, what it waits for, its last events and its threads' stacks, into text[bytes];
 * from things of this host only. Cut after a whole line if there is no room.
 */
void report_rank(const struct report_subject *subject, char *text, size_t bytes);

/*
 * What the stacks of a rank are that a signal is about to end, and lets go of it; NULL: no signal is. malloc'ed.
 * `is_wanted`: else it is only let go of.
 */
char *report_crash(const struct rank_view *view, struct rank_status *status, bool is_wanted);

/*
 * The innermost frame of the thread that crashed, in `crash` (report_crash()), that is of the program and not of a
 * library of the system, of CUDA or of ddprun, into place[bytes]: "train.cu:88, in forward()", or the frame as it
 * stands in `crash` if its source is not known; "" if there is none. Pure.
 */
void report_crash_place(const char *crash, char *place, size_t bytes);

/* What all ranks but `but` and `nor` do, a line each, of many ranks the first 16: from their views, so they may be
 * anywhere. */
void report_others(const struct rank_view *views, int count, int but, int nor, char *text, size_t bytes);

/* ---- its file ---- */

/*
 * For what a report holds beyond the lines that are printed. It is a result of the job, not a part of the job's folder:
 * it stays. The user names it by --failure-report; else it is ddprun-report.PID.txt in the folder of --output
 * files=DIR, or in the current folder, or, where that cannot be written, in $TMPDIR or /tmp. A file that is there
 * already is left alone, and the name gets a number. Reports of one job follow each other in one file.
 */
struct report_file {
    const char *wanted; /* by --failure-report; NULL: as above. Borrowed, like the next */
    const char *folder; /* of --output; NULL: the current one */
    char *path;         /* where the reports of this job are; NULL: there was none yet */
    bool failed;        /* it could not be written: reports are printed whole */
};

/* Whether the file that --failure-report names will do, as far as can be known; NULL, "-": always. Error
 * (DDPRUN_EXIT_USAGE): it will not. */
bool report_file_check(const char *wanted, struct error *error) MUST_USE;

/* Appends a text. Returns the file's name, which belongs to `file`, or NULL with errno. Supervisor's thread. */
const char *report_file_add(struct report_file *file, const char *text);

void report_file_free(struct report_file *file);

/* ---- of a job ---- */

/* Of the rank that failed or hangs, of another one that may be why, and a line for each other. */
struct report {
    struct {
        int rank;   /* -1: none */
        char *text; /* or NULL */
    } of[2];
    char *others; /* and what NCCL says (ras.h); NULL: there is no report */
};

/* What is known of ranks besides their views. All borrowed. */
struct report_sources {
    int here;             /* ranks of this launcher, the first of all; of others nothing is, until report_put() */
    void *page;           /* the status records */
    char *const *crashes; /* [here]: what report_crash() said */
    bool continues;       /* the job does */
};

/*
 * Takes it; report_free() releases it. `rank`, `suspect`: -1 for none. There is no report if the line above says all
 * that is known: `rank` has not crashed, and no rank has begun to train, or one rank trains alone; or `rank` has lost
 * the reader of its output.
 */
void report_take(struct report *report, const struct rank_view *views, int count, int rank, int suspect,
                 const struct report_sources *sources);
void report_free(struct report *report);

/* What report_rank() said of the rank where it lives; copied. */
void report_put(struct report *report, int rank, const char *text);

enum { REPORT_LINES = 25 };

/*
 * Writes it to stderr, below the message with `reason`: with that REPORT_LINES at most. Of a longer report these are
 * the beginning of each part and the name of the file that has the reason and all of it. Where no file can be written,
 * or `file` is "-", all of it is written to stderr.
 */
void report_print(const struct report *report, const char *reason, struct report_file *file);

/* Whether a report says more than the line above it: some rank has begun to train, or waits to. */
bool report_is_worth(const struct rank_view *views, int count);

/* ---- in brief ---- */

enum { BRIEF_PARTS = 3 }; /* of a rank, of another one that may be why, of all others */
enum { BRIEF_LEAST_LINES = 12 };

size_t brief_count_lines(const char *text);

/*
 * What a user reads first of a long report: in a few lines the beginning of each of its parts. Of a rank these are
 * lines with an indentation of four that say what it does, then a heading and its last events, then a heading and its
 * threads, the main thread first. Pure.
 *
 * At most `lines` lines, which are BRIEF_LEAST_LINES or more, of the parts' texts (NULL: none), each ended by a
 * newline; "..." stands for what was left out in the middle of a rank's report. malloc'ed.
 */
char *brief_make(const char *const parts[BRIEF_PARTS], size_t lines);

/* ---- stacks.c: the host stacks of a process's threads, taken from outside ---- */
/*
 * By ptrace and libunwind: each thread is stopped for some milliseconds, and continues as it was; a process that was
 * stopped stays so. For descendants of the launcher, which yama's ptrace_scope of 1 still allows. Functions and lines
 * of the source are looked up by libdw, if the build has it.
 */

struct stacks_subject {
    pid_t pid;
    bool continues; /* the process is to live: threads in calls that a stop would end with EINTR are left alone */
    pid_t crashed;  /* this thread is in the handler of `signal`, which is about to end the process; 0: none */
    int signal;
    _Atomic uint32_t *seen; /* set to 1 as soon as the process is not needed any more; or NULL */
};

/*
 * Writes lines into text[bytes], each indented by `indent` blanks and ended by a newline: for each thread, or group of
 * threads with one stack, its number, name and state, then a frame a line, the innermost first: "function+0x12
 * (module+0x3456) at file.c:12", and before it, for a call that the compiler has inlined, "function (inlined) at
 * file.c:7". A thread that has crashed is the first. At most 64 threads and 64 frames each; takes three seconds at
 * most, and two for the names (helper.h). Says why if there is nothing to see. The supervisor's thread.
 */
void stacks_describe(const struct stacks_subject *subject, int indent, char *text, size_t bytes);

#endif
