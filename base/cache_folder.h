/*
 * cache_folder.h - ${XDG_CACHE_HOME:-~/.cache}/ddprun: what is kept from run to run: plans of `--plan auto`.
 */
#ifndef DDPRUN_BASE_CACHE_FOLDER_H
#define DDPRUN_BASE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* The folder, made if need be, mode 0700, in path[bytes]. False: neither variable names a folder (errno 0), or it
 * cannot be made. Any thread. */
bool cache_folder(char *path, size_t bytes) __attribute__((warn_unused_result));

#endif
