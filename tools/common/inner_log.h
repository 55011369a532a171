/*
 * inner_log.h - what a ddprun that another one has started, and its ranks, have written to files.
 */
#ifndef DDPRUN_TOOLS_COMMON_INNER_LOG_H
#define DDPRUN_TOOLS_COMMON_INNER_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* The first message of ddprun's own in the file, without "ddprun: "; nothing changes where there is none, or where
 * `message` is not empty. */
void inner_log_read(const char *path, char *message, size_t size);

/* Shows the last lines of the file on stderr; false if there is nothing in it. */
bool inner_log_show_end(const char *path);

#endif
