/*
 * brief.h - what a user reads first of a long report: in a few lines the beginning of each of its parts. Pure.
 *
 * It knows the form of report.h: of a rank lines with an indentation of four that say what it does, then a heading and
 * its last events, then a heading and its threads, the main thread first.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_BRIEF_H
#define DDPRUN_LAUNCHER_REPORT_BRIEF_H

#include <stddef.h>

enum { BRIEF_PARTS = 3 }; /* of a rank, of another one that may be why, of all others */

size_t brief_count_lines(const char *text);

/*
 * At most `lines` lines, which are twelve or more, of the parts' texts (NULL: none), each ended by a newline; "..."
 * stands for what was left out in the middle of a rank's report. malloc'ed.
 */
char *brief_make(const char *const parts[BRIEF_PARTS], size_t lines);

#endif
