/*
 * whole_file.h - writes a file that is there whole or not at all: the summary, the verdict of a check, a recording.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_WHOLE_FILE_H
#define DDPRUN_LAUNCHER_OUTPUT_WHOLE_FILE_H

#include "launcher/common/error.h"

#include <stddef.h>

/* Whether that will do, as far as can be known; NULL: always. Error (DDPRUN_EXIT_USAGE): it names `option`, which
 * gave the path. */
bool whole_file_check(const char *path, const char *option, struct error *error) __attribute__((warn_unused_result));

/*
 * Puts `text` in the place of what the file holds: a reader finds the old or the new text, whole. A link stays one;
 * what is no regular file (a pipe, /dev/stdout) is written into. False with errno; a regular file is then as it was.
 */
bool whole_file_write(const char *path, const char *text) __attribute__((warn_unused_result));
/* The same with bytes[0..count), which need not be text. */
bool whole_file_write_bytes(const char *path, const void *bytes, size_t count) __attribute__((warn_unused_result));

#endif
