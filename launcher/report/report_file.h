/*
 * report_file.h - the file for what a report holds beyond the lines that are printed.
 *
 * It is a result of the job, not a part of the job's folder: it stays. The user names it by --report; else it is
 * ddprun-report.PID.txt in the current folder, or, where that cannot be written, in $TMPDIR or /tmp. A file that is
 * there already is left alone, and the name gets a number. Reports of one job follow each other in one file.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_REPORT_FILE_H
#define DDPRUN_LAUNCHER_REPORT_REPORT_FILE_H

#include "launcher/common/error.h"

struct report_file {
    const char *wanted; /* by --report; NULL: as above. Borrowed */
    char *path;         /* where the reports of this job are; NULL: there was none yet */
};

/* Whether the file that --report names will do, as far as can be known; NULL, "-": always. Error
 * (DDPRUN_EXIT_USAGE): it will not. */
bool report_file_check(const char *wanted, struct error *error) __attribute__((warn_unused_result));

/* Appends a text. Returns the file's name, which belongs to `file`, or NULL with errno. Supervisor's thread. */
const char *report_file_add(struct report_file *file, const char *text);

void report_file_free(struct report_file *file);

#endif
