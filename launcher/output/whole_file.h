/*
 * whole_file.h - writes the files that options name: the summary, figures, the verdict of a check, a recording.
 *
 * A helper (helper.h) does so, because the file may be a FIFO without a reader, or lie on a server that does not
 * answer. What it makes no progress with for two seconds is lost; ddprun's own stdout or stderr, also by a name such as
 * /dev/stdout, has the time that its reader takes. In folders that others may write to, no file of another user is
 * written into, and no link of one is followed. Supervisor's thread.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_WHOLE_FILE_H
#define DDPRUN_LAUNCHER_OUTPUT_WHOLE_FILE_H

#include "launcher/common/error.h"
#include "launcher/common/file_read.h"
#include "launcher/common/helper.h"

#include <stddef.h>

/* Whether that will do, as far as can be known; NULL: always. Error (DDPRUN_EXIT_USAGE): it names `option`, which
 * gave the path. */
bool whole_file_check(const char *path, const char *option, struct error *error) MUST_USE;

/*
 * Puts the bytes in the place of what the file holds: a reader finds the old or the new ones, whole. A link stays one;
 * what is no regular file (a pipe, /dev/stdout) is written into. False with errno, for file_why(); a regular file
 * is then as it was.
 */
bool whole_file_write(const char *path, const void *bytes, size_t count) MUST_USE;

/* Puts `text` at the end of the file; `anew`: in the place of what it holds. False with errno. */
bool whole_file_append(const char *path, bool anew, const char *text) MUST_USE;

/* Whether that is a file of another user, or led to by a link of one, in a folder that is sticky or that others may
 * write to (path_walk()). May hang. */
bool whole_file_is_foreign(const char *path);

/* ---- beside a job's work ---- */

/* A file that a job does not wait for until its end. Zeroed but for the first three. */
struct side_file {
    const char *path;   /* NULL: none is wanted, and the functions below do nothing. Borrowed, as the next two */
    const char *option; /* "--metrics" */
    const char *loss;   /* what follows if it is not written, "the summary is lost" */
    bool failed;        /* and that was said */
    char *next;         /* what is to be written next; NULL: nothing */
    struct helper helper;
};

/* Begins to write the text, or to do other work (helper.h). Of texts that come while one is being written, the last is
 * written next, unless that one fails; other work is begun once. */
void side_file_write(struct side_file *file, const char *text);
void side_file_do(struct side_file *file, helper_work work, const void *data);

/* Says once what was lost, of what was begun. `waits`: until all of it is over. */
void side_file_look(struct side_file *file, bool waits);

#endif
