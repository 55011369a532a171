/*
 * input_file.h - files that a user names for ddprun to read: settings, lists of hosts.
 *
 * Used by settings.c and host_list.c. Read whole before any of it counts, and no more than a sane one holds: the name
 * may be that of a device.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_INPUT_FILE_H
#define DDPRUN_LAUNCHER_OPTIONS_INPUT_FILE_H

#include "launcher/common/error.h"

#include <stddef.h>

enum { INPUT_FILE_MOST_BYTES = 1 << 20 };

/*
 * `*bytes_p` is the caller's to free; a NUL follows the `*length_p` bytes. `use` ("in --hosts") and `advice` complete
 * the error (DDPRUN_EXIT_USAGE): a file that cannot be read, or that holds more than INPUT_FILE_MOST_BYTES.
 */
bool input_file_read(const char *path, const char *use, const char *advice, char **bytes_p, size_t *length_p,
                     struct error *error) __attribute__((warn_unused_result));

#endif
